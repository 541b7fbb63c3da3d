"""Adapters for foreign targets, one folder each; conformance.targets.resolve finds them."""
