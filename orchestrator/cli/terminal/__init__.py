"""What a terminal shows: the live table, progress, widths."""
