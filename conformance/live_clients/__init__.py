"""Tests unmodified clients: a mock broker serves the cases, and records the requests of the client."""
