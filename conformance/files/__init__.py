"""What keeps the suite whole: files replaced in one step, JSON within bounds, errors that nobody expected."""
