"""Vectors and the requirements register: data, read by conformance.catalog."""
