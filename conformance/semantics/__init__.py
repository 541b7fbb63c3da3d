"""Rules over whole logs: what an application sees, conversion between magics, producer sequences, compaction."""
