"""Brokers as targets: those that come with the suite, and any other, asked by a scripted client."""
