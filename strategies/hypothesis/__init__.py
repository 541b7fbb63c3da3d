"""Hypothesis strategies of the wire format, for tests of one's own."""
