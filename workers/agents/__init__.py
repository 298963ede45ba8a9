"""One module for each agent CLI: its command line, its environment, its stream and its errors."""
