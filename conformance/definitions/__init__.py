"""Message definitions: the parser, the files, and the rules."""
