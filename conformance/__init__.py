"""Conformance suite for the Apache Kafka wire format."""

__version__ = "0.1.0"


class Reject(Exception):
    """Raised by a module target for input that it refuses: an error class of the contract, and a message."""

    def __init__(self, error: str, message: str = "") -> None:
        super().__init__(message)
        self.error = error


class Unsupported(Exception):
    """Raised by a module target for what it cannot do, with the reason."""
