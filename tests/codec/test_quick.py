"""Quick readers and writers do what the interpreter of the tables does: on all vectors and on damaged inputs."""

import random

import pytest

from conformance import codec
from conformance.codec import quick, quick_readers, quick_writers
from conformance.codec.cursor import Cursor, Findings
from conformance.codec.lengths import Counted
from conformance.codec.structure import Layout
from conformance.strategies.seeded.cases import TYPES
from conformance.strategies.seeded.generator import choices_of, generate, value
from conformance.strategies.seeded.log_questions import QUESTIONS
from conformance.strategies.seeded.mutations import mutate
from conformance.strategies.seeded.rare import LARGE, SURROGATES

NAMES = [name for name in TYPES if name not in QUESTIONS and name not in LARGE and name not in SURROGATES]
COMPOSED = [name for name in NAMES if isinstance(codec.wire(name).shape, (Counted, Layout))]
DAMAGED, DAMAGED_AT_LENGTH = 2_000, 100_000


@pytest.fixture
def interpreted(monkeypatch):
    """What a call makes of its arguments where nothing is read or written quickly; a refusal is told as a value."""

    def without(work, *given):
        with monkeypatch.context() as patch:
            patch.setattr(quick, "ENABLED", False)
            return outcome(work, *given)

    return without


def outcome(work, *given):
    try:
        return work(*given)
    except codec.Unencodable as refused:
        return refused.requirement, refused.hint
    except (TypeError, KeyError, AttributeError, ValueError) as misuse:
        return type(misuse)


def damaged_inputs(count, seed):
    """Types with bytes that a mutation, a random byte or a cut has damaged."""
    chance = random.Random(seed)
    for index in range(count):
        wire, choices = codec.wire(NAMES[index % len(NAMES)]), choices_of("quick", seed, index)
        data = generate(wire, choices).data
        way = chance.randrange(4)
        if way < 2 or not data:
            data, _ = mutate(wire, data, choices)
        elif way == 2:
            at = chance.randrange(len(data))
            data = data[:at] + bytes((chance.randrange(256),)) + data[at + 1 :]
        else:
            data = data[: chance.randrange(len(data))]
        yield wire, data


def spoilt(given, chance):
    """A value with one of its parts missing or another."""
    if isinstance(given, dict) and given:
        name = chance.choice(sorted(given))
        if chance.random() < 0.2:
            return {other: part for other, part in given.items() if other != name}
        return {**given, name: spoilt(given[name], chance)}
    if isinstance(given, (tuple, list)) and given and chance.random() < 0.8:
        at = chance.randrange(len(given))
        return (*given[:at], spoilt(given[at], chance), *given[at + 1 :])
    numbers = (-1, 127, 128, 1 << 15, 1 << 31, 1 << 63, -(1 << 63) - 1)
    return chance.choice((None, True, *numbers, "x", "\ud800", b"y", (), {}, 1.5, [1]))


def values(count, seed):
    """Types with values of them, each whole and spoilt."""
    chance = random.Random(seed)
    names = [name for name in NAMES if name != "LOG"]
    for index in range(count):
        name = names[index % len(names)]
        drawn = value(name, choices_of("quick", seed, index))
        if name == "MESSAGE_SET":
            drawn = tuple(message for entry in drawn["entries"] for message in entry["messages"])
        yield from ((name, drawn), (name, spoilt(drawn, chance)))


def differing_reads(inputs, interpreted):
    return [
        (wire.name, data.hex())
        for wire, data in inputs
        if outcome(codec.decode, wire, data) != interpreted(codec.decode, wire, data)
    ]


def differing_writes(given, interpreted):
    return [
        (name, one) for name, one in given if outcome(codec.encode, name, one) != interpreted(codec.encode, name, one)
    ]


def test_every_vector_is_read_and_written_alike(catalog, interpreted):
    cases = [case for case in catalog.cases.values() if case.data is not None and case.op in ("decode", "encode")]
    assert len(cases) > 2500
    assert differing_reads([(case.wire, case.data) for case in cases], interpreted) == []
    read = [(case.wire, codec.decode(case.wire, case.data)) for case in cases]
    assert differing_writes([(wire, it.value) for wire, it in read if it.ok and wire.name != "LOG"], interpreted) == []


def test_damaged_inputs_are_read_alike(interpreted):
    assert differing_reads(damaged_inputs(DAMAGED, 1), interpreted) == []


def test_spoilt_values_are_written_or_refused_alike(interpreted):
    assert differing_writes(values(DAMAGED, 2), interpreted) == []


@pytest.mark.hostile
def test_a_hundred_thousand_damaged_inputs_and_values_are_read_and_written_alike(interpreted):
    assert differing_reads(damaged_inputs(DAMAGED_AT_LENGTH, 3), interpreted) == []
    assert differing_writes(values(DAMAGED_AT_LENGTH // 2, 4), interpreted) == []


def test_arrays_of_arrays_are_read_and_written_however_deep_they_are(interpreted):
    depth = 27
    name, deep = "ARRAY<" * depth + "INT16" + ">" * depth, (1, -1)
    for _ in range(depth - 1):
        deep = (deep, ())
    data = codec.encode(name, deep)
    assert data == interpreted(codec.encode, name, deep)
    assert codec.decode(name, data) == interpreted(codec.decode, name, data)
    assert codec.decode(name, data).value == deep
    assert codec.decode(name, data[:-1]) == interpreted(codec.decode, name, data[:-1])


@pytest.mark.parametrize("name", COMPOSED)
def test_a_quick_reader_gives_up_only_where_there_is_something_to_say(name, interpreted):
    """Otherwise it would cost time and gain none."""
    wire, read_on = codec.wire(name), 0
    for index in range(40):
        data = generate(wire, choices_of("quick", 5, index)).data
        plain = interpreted(codec.decode, wire, data)
        if plain.ok and not plain.remarks and not plain.rests_on:
            cursor = Cursor(data, Findings(size=len(data)))
            cursor.hurried = True
            assert quick_readers.reader_of(wire)(cursor) == plain.value
            assert cursor.pos == plain.consumed
            assert quick_writers.writer_of(wire)(plain.value) == interpreted(wire.encode, plain.value)
            read_on += 1
    assert read_on > 15
