"""Compiled readers and writers match the interpreter of the tables, on all vectors and on damaged inputs."""

import random

import pytest

from conformance import codec
from conformance.codec import dispatch
from conformance.codec._length_prefixed import CountedShape
from conformance.codec.compiled import readers, writers
from conformance.codec.cursor import Cursor, Findings
from conformance.codec.layout import Layout
from conformance.codec.message_layout import StructShape
from conformance.strategies.seeded._large_values import LARGE, SURROGATES
from conformance.strategies.seeded.cases import TYPES, message_types
from conformance.strategies.seeded.generator import choices_of, generate, value, value_of_another_version
from conformance.strategies.seeded.log_requests import QUESTIONS
from conformance.strategies.seeded.mutations import mutate

NAMES = [name for name in TYPES if name not in QUESTIONS and name not in LARGE and name not in SURROGATES]
BUILT_IN = [codec.wire(name) for name in NAMES]
COMPOSED = [wire for wire in BUILT_IN if isinstance(wire.shape, (CountedShape, Layout))]
DAMAGED, DAMAGED_AT_LENGTH = 2_000, 100_000


@pytest.fixture(autouse=True)
def _from_the_first_use(monkeypatch):
    """Compile each message at its first use, not only after many uses."""
    monkeypatch.setattr(dispatch, "USES_BEFORE_COMPILING", 0)


@pytest.fixture(scope="module")
def messages(catalog):
    """Return the shipped messages and the messages of the vectors, in all versions."""
    return [catalog.types.wire(name) for name in message_types(catalog.types.messages.values())]


@pytest.fixture(params=["built-in types", "messages"])
def wires(request, messages):
    return messages if request.param == "messages" else BUILT_IN


@pytest.fixture
def interpreted(monkeypatch):
    """Return a function that calls the codec without compiled code; a rejection is its return value."""

    def without(work, *given):
        with monkeypatch.context() as patch:
            patch.setattr(dispatch, "COMPILED", False)
            return outcome(work, *given)

    return without


def outcome(work, *given):
    try:
        return work(*given)
    except codec.Unencodable as refused:
        return refused.requirement, refused.hint
    except (TypeError, KeyError, AttributeError, ValueError) as misuse:
        return type(misuse)


def damaged_inputs(wires, count, seed):
    """Yield types with bytes damaged by a mutation, a random byte or a cut."""
    chance = random.Random(seed)
    for index in range(count):
        wire, choices = wires[index % len(wires)], choices_of("quick", seed, index)
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


def damaged_value(given, chance):
    """Return a value with one part missing or replaced."""
    if isinstance(given, dict) and given:
        name = chance.choice(sorted(given))
        if chance.random() < 0.2:
            return {other: part for other, part in given.items() if other != name}
        return {**given, name: damaged_value(given[name], chance)}
    if isinstance(given, (tuple, list)) and given and chance.random() < 0.8:
        at = chance.randrange(len(given))
        return (*given[:at], damaged_value(given[at], chance), *given[at + 1 :])
    numbers = (-1, 127, 128, 1 << 15, 1 << 31, 1 << 63, -(1 << 63) - 1)
    return chance.choice((None, True, *numbers, "x", "\ud800", b"y", (), {}, 1.5, [1]))


def values(wires, count, seed):
    """Yield types with values, each whole and damaged; for a message also a value of another version."""
    chance = random.Random(seed)
    wires = [wire for wire in wires if wire.name != "LOG"]
    for index in range(count):
        wire, choices = wires[index % len(wires)], choices_of("quick", seed, index)
        drawn, other = value(wire, choices), value_of_another_version(wire, choices)
        if wire.name == "MESSAGE_SET":
            drawn = tuple(message for entry in drawn["entries"] for message in entry["messages"])
        yield from ((wire, drawn), (wire, damaged_value(drawn, chance)))
        if other is not ...:
            yield wire, other


def differing_reads(inputs, interpreted):
    return [
        (wire.name, data.hex())
        for wire, data in inputs
        if outcome(codec.decode, wire, data) != interpreted(codec.decode, wire, data)
    ]


def differing_writes(given, interpreted):
    return [
        (wire.name, one)
        for wire, one in given
        if outcome(codec.encode, wire, one) != interpreted(codec.encode, wire, one)
    ]


def test_compiled_code_reads_and_writes_every_vector_like_the_interpreter(catalog, interpreted):
    cases = [case for case in catalog.cases.values() if case.data is not None and case.op in ("decode", "encode")]
    assert len(cases) > 2500
    assert differing_reads([(case.wire, case.data) for case in cases], interpreted) == []
    read = [(case.wire, codec.decode(case.wire, case.data)) for case in cases]
    assert differing_writes([(wire, it.value) for wire, it in read if it.ok and wire.name != "LOG"], interpreted) == []


def test_compiled_code_reads_damaged_inputs_like_the_interpreter(wires, interpreted):
    assert differing_reads(damaged_inputs(wires, DAMAGED, 1), interpreted) == []


def test_compiled_code_writes_or_rejects_damaged_values_like_the_interpreter(wires, interpreted):
    assert differing_writes(values(wires, DAMAGED, 2), interpreted) == []


@pytest.mark.hostile
def test_compiled_code_matches_the_interpreter_on_a_hundred_thousand_damaged_inputs(wires, interpreted):
    assert differing_reads(damaged_inputs(wires, DAMAGED_AT_LENGTH, 3), interpreted) == []
    assert differing_writes(values(wires, DAMAGED_AT_LENGTH // 2, 4), interpreted) == []


def test_arrays_of_arrays_are_read_and_written_at_any_depth(interpreted):
    depth = 27
    name, deep = "ARRAY<" * depth + "INT16" + ">" * depth, (1, -1)
    for _ in range(depth - 1):
        deep = (deep, ())
    data = codec.encode(name, deep)
    assert data == interpreted(codec.encode, name, deep)
    assert codec.decode(name, data) == interpreted(codec.decode, name, data)
    assert codec.decode(name, data).value == deep
    assert codec.decode(name, data[:-1]) == interpreted(codec.decode, name, data[:-1])


def read_quickly(wires, count, interpreted):
    """Count the generated inputs that a compiled reader and writer handle alone, and compare with the interpreter.

    They should handle all inputs without violations and remarks: otherwise compiled code costs more than it saves.
    """
    read_on = 0
    for wire in wires:
        for index in range(count):
            data = generate(wire, choices_of("quick", 5, index)).data
            plain = interpreted(codec.decode, wire, data)
            if plain.ok and not plain.remarks and not plain.rests_on:
                cursor = Cursor(data, Findings(size=len(data)))
                cursor.hurried = True
                read = readers.reader_of(wire)(cursor)
                assert (read, keys(read), cursor.pos) == (plain.value, keys(plain.value), plain.consumed)
                assert writers.writer_of(wire)(plain.value) == interpreted(wire.encode, plain.value)
                read_on += 1
    return read_on


def keys(read):
    """Return the field names of a value in their order, because reports show that order."""
    return list(read) if isinstance(read, dict) else []


@pytest.mark.parametrize("wire", COMPOSED, ids=lambda wire: wire.name)
def test_a_compiled_reader_gives_up_only_for_a_remark_or_a_violation(wire, interpreted):
    assert read_quickly([wire], 40, interpreted) > 15


def test_messages_without_remarks_are_read_by_compiled_code(messages, interpreted):
    assert len(messages) > 600
    assert read_quickly(messages, 4, interpreted) > 3.9 * len(messages)


def test_a_message_is_compiled_after_a_number_of_uses(messages, monkeypatch):
    monkeypatch.setattr(dispatch, "USES_BEFORE_COMPILING", 3)
    monkeypatch.setattr(dispatch, "_uses", {})
    made = []
    monkeypatch.setattr(readers, "reader_of", lambda wire: made.append(wire) or wire.decode)
    for _ in range(5):
        codec.decode(messages[0], bytes(100))
    assert isinstance(messages[0].shape, StructShape)
    assert made == [messages[0]] * 2
