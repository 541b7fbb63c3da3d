"""A run: cases × targets → results, known failures, shrinking, saving."""
