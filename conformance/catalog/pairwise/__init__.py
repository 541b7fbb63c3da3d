"""Covering sets: numbered cases that contain every possible pair of levels of two factors."""

PREFIX = "covering/"
"""The prefix of the ids of all cases of covering sets."""
