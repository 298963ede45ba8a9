"""THE SOLE WRITER of state files: lock, intent, replace, commit; and the user's repository."""
