"""Message logs of participants, and what a worker's tools do with them. Standard library only."""
