"""File access: atomic replacement, limits for JSON and YAML, and a cache."""
