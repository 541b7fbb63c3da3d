"""The commands: a module for each, its options and its call."""
