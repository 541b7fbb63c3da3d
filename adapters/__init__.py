"""Adapters of foreign targets: a folder each, found by conformance.targets.resolve."""
