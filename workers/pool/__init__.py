"""Slots as locked files, and the queue at them across processes."""
