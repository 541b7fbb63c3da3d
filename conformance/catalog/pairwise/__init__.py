"""Covering sets: for any two levels of any two factors that can meet, some numbered case in which they do."""

PREFIX = "covering/"
"""What the ids of all cases of covering sets begin with."""
