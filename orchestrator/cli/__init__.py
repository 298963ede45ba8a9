"""The command line: arguments, exit codes, text. The only place that prints."""
