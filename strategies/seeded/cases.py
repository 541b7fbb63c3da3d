"""Generated cases: the id determines a case, and the reference gives its expected result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, cast

from conformance import codec
from conformance.cases.encode import batch_to_encode
from conformance.cases.model import Case, NotTestable, Op
from conformance.catalog.case_builder import decode_case, encode_case, log_case
from conformance.catalog.catalog import Catalog
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.message_spec import MessageSpec, type_name
from conformance.codec.primitives import ARRAYS
from conformance.strategies.seeded import _large_values as large_values
from conformance.strategies.seeded._large_values import LARGE, SURROGATES
from conformance.strategies.seeded._mutation_schedule import damaged
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded.generator import VERSION, choices_of, generate, unencodable, value_of_another_version
from conformance.strategies.seeded.log_requests import OF_BROKERS, QUESTIONS, LogRequestKind

_ELEMENTS = ("INT8", "INT32", "INT64", "UUID")
TYPES = (
    *codec.TYPES,
    *(f"{form}<{element}>" for form in ARRAYS for element in _ELEMENTS),
    *(f"{form}<{'COMPACT_' if form.startswith('COMPACT') else ''}STRING>" for form in ARRAYS),
    "ARRAY<NULLABLE_STRING>",
    "ARRAY<ARRAY<INT32>>",
    *QUESTIONS,
    *LARGE,
    *SURROGATES,
)
"""Names in generated ids, except messages: types, kinds of requests for whole logs (type LOG), and rare values."""

_QUESTIONS = {**QUESTIONS, **OF_BROKERS}

_UNENCODABLE = 16
"""Percentage of even (undamaged) indexes with a value to encode that has no encoding, instead of a valid one."""

_OF_MESSAGES = 4
"""A message version gets a quarter of the cases of another type, because there are hundreds of versions."""
_OF_RARE = 10
"""Rare values are slow, so only every tenth index has one."""


def message_types(messages: Iterable[MessageSpec], has: Callable[[str, int], bool] = lambda *_: True) -> list[str]:
    """Return each message version as a type, if `has` returns True for its name and version."""
    return [
        type_name(message.name, version)
        for message in messages
        for version in message.valid
        if has(message.name, version)
    ]


def types_for(patterns: Sequence[str], further: Iterable[str] = ()) -> list[str]:
    """Return the types (of TYPES and `further`) with generated cases that may match a pattern of a selection.

    Without patterns, or with a pattern for requirements or levels, these are all types.
    """
    by_type = [pattern[5:] for pattern in patterns if pattern.startswith("type:")]
    by_id = [pattern for pattern in patterns if pattern.startswith(("gen/", "*"))]
    anywhere = not patterns or any(pattern.startswith(("requirement:", "level:")) for pattern in patterns)
    return [
        name
        for name in (*TYPES, *further)
        if anywhere
        or any(fnmatchcase(type_of(name), pattern) or name.partition("<")[0] == pattern for pattern in by_type)
        or any(_may_name(pattern, name) for pattern in by_id)
    ]


def _may_name(pattern: str, name: str) -> bool:
    """Return True if a glob may match an id of a type, such as `gen/4/INT8/0/6:encode`.

    A part of the glob without a wildcard must be `gen`, the type, or begin with a digit. The letters of other parts
    must occur in `gen`, the type, or the end of an id.
    """
    parts = [part for part in pattern.split("/") if part]
    exact = [part for part in parts if not set(part) & set("*?[")]
    letters = _LETTERS.findall(" ".join(part for part in parts if part not in exact))
    return "[" in pattern or (
        all(part in ("gen", name) or part[0].isdigit() for part in exact)
        and all(run in f"gen {name} :encode :skewed" for run in letters)
    )


def type_of(name: str) -> str:
    """Return the type of the cases with a name in their id."""
    return "LOG" if name in _QUESTIONS else large_values.type_of(name)


def generated_cases(names: Iterable[str], count: int, seed: int, catalog: Catalog) -> Iterator[Case]:
    """Generate the cases of each name, for the indexes below `count`; messages have fewer (`_share`)."""
    for name in names:
        for index in range(_share(name, count, catalog)):
            yield from cases_at(name, seed, index, catalog)


def generated_ids(names: Iterable[str], count: int, seed: int, catalog: Catalog) -> Iterator[str]:
    """Generate the ids of `generated_cases` without their cases; some of these ids have no case."""
    for name in names:
        for index in range(_share(name, count, catalog)):
            identity = f"gen/{VERSION}/{name}/{seed}/{index}"
            yield from (identity, f"{identity}:encode", f"{identity}:skewed")


def expected_number(names: Iterable[str], count: int, catalog: Catalog) -> int:
    """Return about the number of cases that `generated_cases` generates, without generating them."""
    return round(sum(_share(name, count, catalog) * _cases_per_index(name) for name in names))


def _cases_per_index(name: str) -> float:
    """Return about the number of cases of an index: see `cases_at`."""
    if name in _QUESTIONS:
        return 1
    if name in LARGE or name in SURROGATES:
        return (1 if name in SURROGATES else 2) / _OF_RARE
    return 2 if name.startswith("MESSAGE<") else 1.5


def _share(name: str, count: int, catalog: Catalog) -> int:
    """Return the number of indexes: `count`; for a message a quarter, which all versions of a shipped one share."""
    wire = catalog.types.wire(name) if name.startswith("MESSAGE<") else None
    if not isinstance(wire, codec.MessageType):
        return count
    versions = len(list(wire.message.valid)) if wire.message.is_shipped else 1
    return -(-count // (_OF_MESSAGES * versions))


_LETTERS = re.compile("[A-Za-z_<>,:]+")
_NUMBER = "([0-9]{1,18})"
_ID = re.compile(rf"gen/{_NUMBER}/([A-Z0-9_<>]+|MESSAGE<\w+,[0-9]+>)/{_NUMBER}/{_NUMBER}(:encode|:skewed)?\Z")


def is_generated_id(text: str) -> bool:
    """Return True for a complete id of a generated case, also of another version of the generator."""
    return _ID.match(text) is not None


def case_of(identity: str, catalog: Catalog) -> list[Case]:
    """Return the case of a generated id, or an empty list for another version. Raises codec.UnknownType."""
    match = _ID.match(identity)
    if not match or int(match[1]) != VERSION:
        return []
    catalog.types.wire(type_of(match[2]))
    return [case for case in cases_at(match[2], int(match[3]), int(match[4]), catalog) if case.id == identity]


def cases_at(name: str, seed: int, index: int, catalog: Catalog) -> Iterator[Case]:
    """Generate the cases of an index: damaged bytes to decode (odd index), or valid bytes and a value to encode (even).

    A message can also have a case that encodes a value of another version. A request for whole logs has one case, or
    none if it cannot be tested; `LogRequestKind` sets its share of damage. Rare values have cases at every tenth index.
    """
    choices = choices_of(name, seed, index)
    identity = f"gen/{VERSION}/{name}/{seed}/{index}"
    if name in _QUESTIONS:
        yield from _question(identity, _QUESTIONS[name], choices, seed, index, catalog)
        return
    if name in LARGE or name in SURROGATES:
        if index % _OF_RARE == 0:
            yield from _rare_cases(identity, name, choices, catalog)
        return
    wire = catalog.types.wire(name)
    generated = generate(wire, choices)
    number, is_damaged = divmod(index, 2)
    if is_damaged:
        data, mutation, _ = damaged(wire, generated.data, number, seed, choices)
        yield decode_case(identity, wire, data, catalog, mutation=mutation)
        return
    yield decode_case(identity, wire, generated.data, catalog)
    wrong = unencodable(wire, choices) if choices.chance(_UNENCODABLE) else ...
    if wrong is not ...:
        yield encode_case(f"{identity}:encode", wire, wire.notation.render(wrong), catalog)
    elif name == "MESSAGE_SET":
        yield from _set_cases(f"{identity}:encode", generated.value, generated.data, catalog)
    elif name != "LOG":
        yield from _encode_cases(f"{identity}:encode", wire, generated.value, catalog)
    other = value_of_another_version(wire, choices)
    if other is not ...:
        shown = wire.notation.render(other)
        case = encode_case(f"{identity}:skewed", wire, shown, catalog)
        yield replace(case, note="a value of another version")


def _rare_cases(identity: str, name: str, choices: RandomChoices, catalog: Catalog) -> Iterator[Case]:
    """Generate the cases of a large value (decode and encode), or of a value with a lone surrogate (encode)."""
    wire = codec.wire(type_of(name))
    if name in SURROGATES:
        yield encode_case(f"{identity}:encode", wire, SURROGATES[name](choices), catalog)
        return
    large = LARGE[name](choices)
    yield decode_case(identity, wire, large.data, catalog)
    yield from _encode_cases(f"{identity}:encode", wire, large.value, catalog)


def _question(
    identity: str, question: LogRequestKind, choices: RandomChoices, seed: int, index: int, catalog: Catalog
) -> Iterator[Case]:
    request, mutation = question.at(choices, seed, index)
    with suppress(NotTestable):
        yield log_case(identity, cast("Op", question.op), request, catalog, mutation=mutation)


def _set_cases(identity: str, messages: tuple[Values, ...], data: bytes, catalog: Catalog) -> Iterator[Case]:
    """Generate the encode case of a message set, if it has only plain messages of one magic, or one wrapper."""
    entries = codec.decode("LOG", data).value["batches"]
    kinds = {(entry["magic"], entry["compression"]) for entry in entries}
    if len(kinds) != 1 or (len(entries) > 1 and entries[0]["compression"]):
        return
    magic, number = kinds.pop()
    wire = codec.wire("MESSAGE_SET")
    shown = wire.notation.render(messages)
    request = {"magic": magic, "compression": CODEC_NAMES[number], "value": shown}
    with suppress(NotTestable):
        # Use the generated bytes, because the output of a compressor differs between machines.
        yield replace(encode_case(identity, wire, request, catalog), data=data)


def _encode_cases(identity: str, wire: codec.WireType, value: Any, catalog: Catalog) -> Iterator[Case]:
    """Generate the encode case of a value, except for a batch that an encode request cannot describe."""
    if wire.name == "RECORD_BATCH":
        if not value["records"] or value["timestampType"] or value["lastOffsetDelta"] != len(value["records"]) - 1:
            return
        if value["compression"]:
            return
        # The request contains offsets and keys; the encoder derives attributes and deltas.
        shown = batch_to_encode(codec.decode(wire, codec.encode(wire, value)).value)
        yield encode_case(identity, wire, shown, catalog)
    else:
        shown = wire.notation.render(value)
        yield encode_case(identity, wire, shown, catalog, value=value)
