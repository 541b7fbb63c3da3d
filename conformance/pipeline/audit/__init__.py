"""Audits: the segments of stored logs, every batch decoded and checked, spread by Spark."""
