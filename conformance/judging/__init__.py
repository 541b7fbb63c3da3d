"""The judge: it compares the outcome of a target with the expectation of the case."""
