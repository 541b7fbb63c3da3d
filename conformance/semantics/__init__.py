"""Rules for whole logs: a consumer's view, conversion between magics, producer sequences, compaction."""
