"""The process that holds one worker: start, limit, kill, record. Standard library only."""
