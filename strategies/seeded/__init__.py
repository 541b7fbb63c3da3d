"""The seeded generator: values, bytes, mutations, repairs and shrinking, identical on every machine."""
