"""Damage in an order that leaves no gap: mutations take turns, and each of them covers all fields of a type.

A mutation returns to a field only after all its other fields. Then each second turn combines two mutations, the second
in the damaged bytes of the first, and a pair returns only after all other pairs. The damage depends on the number
alone, so that any case can be made without the earlier ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from conformance import codec
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded._repair import MutationSubject, lay_out
from conformance.strategies.seeded.generator import SEEDED_AS, generate
from conformance.strategies.seeded.mutations import MUTATIONS, FieldPath, damaged_at, mutate, place_of, spans_of

T = TypeVar("T")
STACKED = "stacked"
"""The name of two mutations together."""
_SAMPLES, _OF_MESSAGES = 24, 3
"""The number of values from which fields are collected; smaller for messages, of which there are hundreds."""


@lru_cache(maxsize=1 << 12)
def places(wire: codec.WireType) -> dict[tuple[FieldPath, str], bytes]:
    """Return every field of a type with every mutation that it can have, and bytes that have the field."""
    found: dict[tuple[FieldPath, str], bytes] = {}
    for index in range(_OF_MESSAGES if isinstance(wire, codec.MessageType) else _SAMPLES):
        subject = _laid_out(wire, index)
        for row, mutation in MUTATIONS.items():
            for span in mutation.where(subject):
                found.setdefault((place_of(span), row), subject.layers[0])
    return found


@lru_cache(maxsize=64)
def _laid_out(wire: codec.WireType, index: int) -> MutationSubject:
    """Return one of the values from which fields are collected."""
    return lay_out(wire, generate(wire, RandomChoices(f"places/{SEEDED_AS}/{wire.name}/{index}")).data)


@lru_cache(maxsize=1 << 12)
def in_order(wire: codec.WireType, seed: int) -> tuple[tuple[FieldPath, str], ...]:
    """Return the fields and mutations of a type in the order of a seed, until each field had each mutation."""
    choices = RandomChoices(f"order/{SEEDED_AS}/{wire.name}/{seed}")
    rows: dict[str, list[tuple[FieldPath, str]]] = {}
    for row in MUTATIONS:
        rows = dict(_inserted([*rows.items()], (row, []), choices))
    for place, row in sorted(places(wire)):
        rows[row] = _inserted(rows[row], (place, row), choices)
    had = [row for row in rows.values() if row]
    return tuple(row[turn % len(row)] for turn in range(max(map(len, had), default=0)) for row in had)


def _inserted(items: list[T], item: T, choices: RandomChoices) -> list[T]:
    """Insert an item at any place."""
    at = choices.below(len(items) + 1)
    return [*items[:at], item, *items[at:]]


def scheduled_mutations(wire: codec.WireType, number: int, seed: int) -> tuple[tuple[FieldPath, str], ...]:
    """Return the field and mutation for a number, or a pair of them; empty for a type without fields."""
    order = in_order(wire, seed)
    if not order:
        return ()
    turn, at = divmod(number, len(order))
    return (order[at],) if turn % 2 == 0 else (order[at], order[(at + turn // 2 + 1) % len(order)])


class MutatedBytes(NamedTuple):
    """A damaged value."""

    data: bytes
    mutation: str
    base: bytes
    """The bytes before: the given ones, or those of another value, which has the scheduled field."""


def damaged(wire: codec.WireType, data: bytes, number: int, seed: int, choices: RandomChoices) -> MutatedBytes:
    """Return the bytes of a value with the damage of a number; if it lacks the field, those of another value."""
    scheduled = scheduled_mutations(wire, number, seed)
    if not scheduled:
        return MutatedBytes(*mutate(wire, data, choices), data)
    first = _damaged(wire, data, scheduled[0], choices)
    if len(scheduled) == 1:
        return first
    place, row = scheduled[1]
    subject = lay_out(wire, first.data)
    second = damaged_at(subject, row, spans_of(subject, place, row), choices)
    both = mutate(wire, first.data, choices)[0] if second is None else second
    return MutatedBytes(both, STACKED, first.base)


def _damaged(
    wire: codec.WireType, data: bytes, scheduled: tuple[FieldPath, str], choices: RandomChoices
) -> MutatedBytes:
    """Return the bytes, or those of a sample that has the field, with one mutation of one field."""
    place, row = scheduled
    for one in (data, places(wire)[scheduled]):
        subject = lay_out(wire, one)
        if row == "spliced":
            subject = replace(subject, other=_laid_out(wire, choices.below(_OF_MESSAGES)))
        result = damaged_at(subject, row, spans_of(subject, place, row), choices)
        if result is not None and result != one:
            return MutatedBytes(result, row, one)
    return MutatedBytes(*mutate(wire, data, choices), data)
