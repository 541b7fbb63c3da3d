"""Cases: what is asked of a target, and what must come of it."""
