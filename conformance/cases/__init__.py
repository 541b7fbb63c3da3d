"""Cases: the requests to a target, and their expectations."""
