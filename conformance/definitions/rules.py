"""What all rules of the lint are made of: a row of a table, and the ways through the fields of a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from conformance.codec.message_spec import SCALARS, Member, Message

PLAIN = frozenset(SCALARS)
"""Types that are not structures."""
T = TypeVar("T")
Problems = Iterator[tuple[str, str]]
"""Where, within what a rule looks at, and what is wrong there."""


class Rule(Struct, Generic[T], frozen=True):
    """A row of a table of rules: the requirement, and a function that yields what breaks it."""

    requirement: str
    check: Callable[[T], Problems]
    open: bool = False
    """The document leaves this open."""


def fields_of(message: Message) -> Iterator[tuple[str, Member]]:
    """The fields of a message and of its structures, with their paths; those of common structures below their name."""
    commons = commons_of(message)
    todo = [("", message.name), *((name, name) for name in commons)]
    while todo:
        outer, structure = todo.pop(0)
        for member in message.structures[structure]:
            path = joined(outer, member.name)
            yield path, member
            if member.type not in PLAIN and member.type not in commons:
                todo.append((path, member.type))


def commons_of(message: Message) -> list[str]:
    """The names of the structures that a message defines apart from its fields."""
    return [row["name"] for row in message.source.get("commonStructs", [])]


def joined(path: str, name: str) -> str:
    """The path of a field, or of the structure itself where there is no name."""
    return ".".join(filter(None, (path, name)))
