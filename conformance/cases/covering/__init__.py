"""Covering sets: for any two levels of any two factors that can meet, some numbered case in which they do."""
