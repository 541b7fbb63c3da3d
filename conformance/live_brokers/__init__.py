"""Tests brokers: bundled ones that the suite starts, and running ones."""
