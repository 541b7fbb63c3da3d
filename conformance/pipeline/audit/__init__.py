"""Audits: the segments of logs, checked batch by batch."""
