"""Conformance suite for the Apache Kafka wire format."""

NAME = "kafka-conformance"
"""The name of the distribution."""

__version__ = "0.1.0"


class Reject(Exception):
    """Raised by a module target to reject its input: an error class (docs/adapters.md#the-protocol-version-1)."""

    def __init__(self, error: str, message: str = "") -> None:
        super().__init__(message)
        self.error = error


class Unsupported(Exception):
    """Raised by a module target for an operation or type that it does not support, with the reason."""
