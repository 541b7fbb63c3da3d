"""Faults that were met in the field."""
