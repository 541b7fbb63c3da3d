"""The definitions that the suite ships: of the messages that every client speaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from conformance import codec
from conformance.codec.message_spec import Message
from conformance.definitions.files import usable

SHIPPED = Path(__file__).parent.parent / "vectors" / "definitions"


@cache
def shipped_types() -> codec.Types:
    """The built-in types and the shipped messages."""
    messages = usable(SHIPPED).messages.values()
    return codec.BUILT_IN.adding(replace(message, origin="", is_shipped=True) for message in messages)


def types_with(messages: Iterable[Message]) -> codec.Types:
    """The shipped types and these messages, each of which replaces the shipped one of its name."""
    added = tuple(messages)
    return shipped_types().adding(added) if added else shipped_types()
