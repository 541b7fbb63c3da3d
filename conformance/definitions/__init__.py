"""Message definitions: the parser, the files, the rules."""
