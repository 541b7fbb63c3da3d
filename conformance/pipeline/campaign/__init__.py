"""Campaigns: millions of generated cases, cut into slices and spread by Spark."""
