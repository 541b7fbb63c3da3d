"""Unmodified clients as targets: a scripted broker serves the cases, the clients' output and requests are judged."""
