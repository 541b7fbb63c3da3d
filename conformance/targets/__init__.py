"""Targets: their names, their start, the line protocol, and the reference as a target."""
