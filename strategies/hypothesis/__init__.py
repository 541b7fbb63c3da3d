"""Hypothesis strategies of the wire format, for users' own tests."""
