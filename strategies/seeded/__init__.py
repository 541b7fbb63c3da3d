"""The seeded generator: values, bytes, mutations, repairs and shrinking, the same on every machine."""
