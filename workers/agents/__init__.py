"""One module an agent CLI: its command line, its environment, its stream and its errors."""
