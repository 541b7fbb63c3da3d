"""The results of a run as console text and as files in the formats of `formats.FORMATS`."""
