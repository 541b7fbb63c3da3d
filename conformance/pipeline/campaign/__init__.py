"""Campaigns: millions of generated cases, divided into slices, which Spark distributes."""
