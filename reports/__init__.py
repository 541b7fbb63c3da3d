"""What a run gathered, as text for the console and as the files of `formats.FORMATS`."""
