"""Conformance suite for the Apache Kafka wire format."""

NAME = "kafka-conformance"
"""The name of the distribution."""

__version__ = "0.1.0"


class Reject(Exception):
    """A module target refuses its input: an error class (docs/adapters.md#the-protocol-version-1) and a message."""

    def __init__(self, error: str, message: str = "") -> None:
        super().__init__(message)
        self.error = error


class Unsupported(Exception):
    """Raised by a module target for what it cannot do, with the reason."""
