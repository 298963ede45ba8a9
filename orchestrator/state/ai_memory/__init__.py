"""The memory of a lead: the active context of its task, its sessions, and what outlived them."""
