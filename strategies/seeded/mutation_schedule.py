"""DueDamage in an order that leaves nothing out: mutations take turns, and each goes through all fields of a type.

None comes to a field again before it came to all that can have it. When the last is through, each second turn has two
together, the second in the damaged bytes of the first, and each two before any two come again. What comes is a matter
of the number alone, so that any case can be made without those before it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from conformance import codec
from conformance.strategies.seeded.generator import SEEDED_AS, generate
from conformance.strategies.seeded.mutations import MUTATIONS, FieldPath, damaged_at, mutate, place_of, spans_of
from conformance.strategies.seeded.random_choices import RandomChoices
from conformance.strategies.seeded.repair import MutationSubject, lay_out

T = TypeVar("T")
STACKED = "stacked"
"""The name of two mutations together."""
_SAMPLES, _OF_MESSAGES = 24, 3
"""Values whose fields are looked at; of a message, of which there are hundreds."""


@lru_cache(maxsize=1 << 12)
def places(wire: codec.WireType) -> dict[tuple[FieldPath, str], bytes]:
    """Every field of a type with every mutation that it can have, and bytes that have the field."""
    found: dict[tuple[FieldPath, str], bytes] = {}
    for index in range(_OF_MESSAGES if isinstance(wire, codec.MessageType) else _SAMPLES):
        subject = _laid_out(wire, index)
        for row, mutation in MUTATIONS.items():
            for span in mutation.where(subject):
                found.setdefault((place_of(span), row), subject.layers[0])
    return found


@lru_cache(maxsize=64)
def _laid_out(wire: codec.WireType, index: int) -> MutationSubject:
    """One of the values whose fields are looked at."""
    return lay_out(wire, generate(wire, RandomChoices(f"places/{SEEDED_AS}/{wire.name}/{index}")).data)


@lru_cache(maxsize=1 << 12)
def in_order(wire: codec.WireType, seed: int) -> tuple[tuple[FieldPath, str], ...]:
    """The fields and mutations of a type in the order in which they come with a seed, until each field had each."""
    choices = RandomChoices(f"order/{SEEDED_AS}/{wire.name}/{seed}")
    rows: dict[str, list[tuple[FieldPath, str]]] = {}
    for row in MUTATIONS:
        rows = dict(_inserted([*rows.items()], (row, []), choices))
    for place, row in sorted(places(wire)):
        rows[row] = _inserted(rows[row], (place, row), choices)
    had = [row for row in rows.values() if row]
    return tuple(row[turn % len(row)] for turn in range(max(map(len, had), default=0)) for row in had)


def _inserted(items: list[T], item: T, choices: RandomChoices) -> list[T]:
    """One more item, anywhere."""
    at = choices.below(len(items) + 1)
    return [*items[:at], item, *items[at:]]


def due_at(wire: codec.WireType, number: int, seed: int) -> tuple[tuple[FieldPath, str], ...]:
    """The field and mutation, or the two together, that are due at a number; none of a type without fields."""
    order = in_order(wire, seed)
    if not order:
        return ()
    turn, at = divmod(number, len(order))
    return (order[at],) if turn % 2 == 0 else (order[at], order[(at + turn // 2 + 1) % len(order)])


class MutatedBytes(NamedTuple):
    """A value with damage."""

    data: bytes
    mutation: str
    base: bytes
    """The bytes before: those that were given, or another value's, which has the field that was due."""


def damaged(wire: codec.WireType, data: bytes, number: int, seed: int, choices: RandomChoices) -> MutatedBytes:
    """The bytes of a value with the damage of a number; where it lacks the field, those of another that has it."""
    dues = due_at(wire, number, seed)
    if not dues:
        return MutatedBytes(*mutate(wire, data, choices), data)
    first = _damaged(wire, data, dues[0], choices)
    if len(dues) == 1:
        return first
    place, row = dues[1]
    subject = lay_out(wire, first.data)
    second = damaged_at(subject, row, spans_of(subject, place, row), choices)
    both = mutate(wire, first.data, choices)[0] if second is None else second
    return MutatedBytes(both, STACKED, first.base)


def _damaged(wire: codec.WireType, data: bytes, due: tuple[FieldPath, str], choices: RandomChoices) -> MutatedBytes:
    """The bytes, or those of a sample that has the field, with one mutation of one field."""
    place, row = due
    for one in (data, places(wire)[due]):
        subject = lay_out(wire, one)
        if row == "spliced":
            subject = replace(subject, other=_laid_out(wire, choices.below(_OF_MESSAGES)))
        result = damaged_at(subject, row, spans_of(subject, place, row), choices)
        if result is not None and result != one:
            return MutatedBytes(result, row, one)
    return MutatedBytes(*mutate(wire, data, choices), data)
