"""A run: sends cases to targets, collects results, compares known failures, shrinks and saves failures."""
