"""One module per command: its options and its call. Each defines `command`, which returns the exit status."""
