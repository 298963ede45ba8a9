"""Output on a terminal: the live table, progress, widths."""
