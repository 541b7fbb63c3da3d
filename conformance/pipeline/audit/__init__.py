"""Audits: every batch in the segments of stored logs is decoded and checked, in this process or on Spark."""
