"""Cases whose expectation the reference computes: generated ones, rebuilt from their id, and ad hoc ones."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from conformance import codec
from conformance.case_maker import LEADER_EPOCH, codecs_and_magics, encode_request
from conformance.cases import AnyOf, Case, Expectation, Op, Reads, Refuses, Writes, WritesAs
from conformance.catalog import Catalog
from conformance.codec.primitives import ARRAYS
from conformance.strategies.generate import VERSION, dice_of, drawn, unencodable
from conformance.strategies.mutations import mutate

_ELEMENTS = ("INT8", "INT32", "INT64", "UUID")
TYPES = (
    *(name for name in codec.TYPES if name != "MESSAGE_SET"),
    *(f"{form}<{element}>" for form in ARRAYS for element in _ELEMENTS),
    *(f"{form}<{'COMPACT_' if form.startswith('COMPACT') else ''}STRING>" for form in ARRAYS),
    "ARRAY<NULLABLE_STRING>",
    "ARRAY<ARRAY<INT32>>",
)
"""Types that cases are generated for."""

_MUTATED, _UNENCODABLE = 50, 8
"""How many generated cases in a hundred are damaged, and how many ask to encode what has no encoding."""

GENERAL = "general.exact-encoding"


def types_for(patterns: Sequence[str]) -> list[str]:
    """The types whose generated cases a selection may match; all of them where that hangs on the cases themselves."""
    by_type = [pattern[5:] for pattern in patterns if pattern.startswith("type:")]
    anywhere = not patterns or any(pattern.startswith(("requirement:", "level:", "gen/", "*")) for pattern in patterns)
    return [name for name in TYPES if anywhere or any(fnmatchcase(name, pattern) for pattern in by_type)]


def generated_cases(names: Iterable[str], count: int, seed: int, catalog: Catalog) -> Iterator[Case]:
    """`count` generated cases for each type, in order, with the encode cases of those that are values."""
    for name in names:
        for index in range(count):
            yield from cases_at(name, seed, index, catalog)


_ID = re.compile(r"gen/(\d+)/([A-Z0-9_<>]+)/(\d+)/(\d+)(:encode|:size)?\Z")


def case_of(identity: str, catalog: Catalog) -> list[Case]:
    """The cases that a generated id names; none when it names none of this version. Raises codec.UnknownType."""
    match = _ID.match(identity)
    if not match or int(match[1]) != VERSION:
        return []
    codec.wire(match[2])
    return [case for case in cases_at(match[2], int(match[3]), int(match[4]), catalog) if case.id == identity]


def cases_at(name: str, seed: int, index: int, catalog: Catalog) -> Iterator[Case]:
    """The cases of one seed and index: bytes to decode, and for undamaged ones a value to encode, right or wrong."""
    dice = dice_of(name, seed, index)
    found = drawn(name, dice)
    identity = f"gen/{VERSION}/{name}/{seed}/{index}"
    fate = dice.below(100)
    if fate < _MUTATED:
        data, mutation = mutate(name, found.data, dice)
        yield decode_case(identity, name, data, catalog, note=f"mutation: {mutation}")
        return
    yield decode_case(identity, name, found.data, catalog)
    wrong = unencodable(name, dice) if fate < _MUTATED + _UNENCODABLE else ...
    if wrong is not ...:
        yield encode_case(f"{identity}:encode", name, codec.wire(name).notation.render(wrong), catalog)
    elif name != "LOG":
        yield from _encode_cases(identity, name, found.value, catalog)


def _encode_cases(identity: str, name: str, value: Any, catalog: Catalog) -> Iterator[Case]:
    """What an encoder is asked for a value; nothing for a batch that the request cannot say."""
    if name == "RECORD_BATCH":
        if not value["records"] or value["timestampType"] or value["lastOffsetDelta"] != len(value["records"]) - 1:
            return
        if value["compression"]:
            return
        # Offsets, keys and so on as the application gave them; attributes and deltas are the encoder's.
        shown = encode_request(codec.decode(name, codec.encode(name, value)).value)
    else:
        shown = codec.wire(name).notation.render(value)
    yield encode_case(f"{identity}:encode", name, shown, catalog)


# --- one case -----------------------------------------------------------------------------------------


def expectation(name: str, data: bytes) -> tuple[Expectation, str]:
    """What a target must make of bytes, and by which requirement, as rule 6 of the decisions says.

    A definite violation is refused, open places leave readings, everything else is the value.
    """
    read = codec.decode(name, data)
    found = [*read.violations, *read.remarks]
    requirement = found[0].requirement if found else next(iter(read.rests_on), GENERAL)
    first = read.violations[0] if read.violations else None
    moved = any(remark.moves for remark in read.remarks) and first and first.requirement != "crc.mismatch-corrupt"
    if moved or any(violation.open for violation in read.violations):
        return AnyOf(), requirement
    if read.violations:
        corrupt = requirement == "crc.mismatch-corrupt" and len(read.violations) == 1
        return Refuses("corrupt" if corrupt else None, "corrupt" if corrupt else "malformed"), requirement
    value = Reads(read.value, read.consumed)
    if name in _RECORDS and not _is_clean_log(read.value):
        # The type is bytes to some readers and record batches to others; only what is both is settled.
        return AnyOf((Refuses(), value)), requirement if read.rests_on else "records.content-batches"
    if any(remark.any_value for remark in read.remarks):
        return AnyOf(), requirement
    return (AnyOf((Refuses(), value)) if read.remarks else value), requirement


_RECORDS = ("RECORDS", "COMPACT_RECORDS")


def _is_clean_log(data: bytes | None) -> bool:
    read = codec.decode("LOG", data or b"")
    return read.ok and not read.remarks and not read.value["partial"]


def decode_case(identity: str, name: str, data: bytes, catalog: Catalog, *, note: str = "", origin: str = "") -> Case:
    """A case that asks for bytes to be decoded."""
    expect, requirement = expectation(name, data)
    request = {"hex": data.hex()}
    return _case(
        identity, "decode", name, request, catalog, expect=expect, rule=requirement, data=data, note=note, origin=origin
    )


def encode_case(identity: str, name: str, shown: Any, catalog: Catalog, *, origin: str = "") -> Case:
    """A case that asks for a value in notation to be encoded. Raises NotationError for what is none of the type."""
    value = codec.wire(name).notation.parse(shown)
    data: bytes | None = None
    expect: Expectation
    rule = GENERAL
    try:
        data = codec.encode(name, value)
    except codec.Unencodable as error:
        expect, rule = Refuses(None, "invalid-value"), error.requirement
    else:
        rule = next(iter(codec.decode(name, data).rests_on), GENERAL)
        expect = Writes(data, LEADER_EPOCH if name == "RECORD_BATCH" else (0, 0))
        if name == "RECORD_BATCH" and value["compression"] != 0:
            free = ("batchLength", "crc", "partitionLeaderEpoch", "attributes")
            expect = WritesAs({key: entry for key, entry in codec.decode(name, data).value.items() if key not in free})
    return _case(
        identity, "encode", name, {"value": shown}, catalog, expect=expect, rule=rule, data=data, origin=origin
    )


def _case(
    identity: str,
    op: Op,
    name: str,
    request: dict[str, Any],
    catalog: Catalog,
    *,
    expect: Expectation,
    rule: str,
    data: bytes | None,
    note: str = "",
    origin: str = "",
) -> Case:
    requirement = catalog.requirements.get(rule) or catalog.requirements[GENERAL]
    codecs, magics = codecs_and_magics(name, data) if data else (frozenset(), frozenset())
    return Case(
        identity,
        op,
        name,
        requirement.id,
        requirement.level,
        {"op": op, "type": name, **request},
        expect,
        data,
        disputed=requirement.disputed(op),
        codecs=codecs,
        magics=magics,
        note=note,
        origin=origin,
        kind="generated",
    )


def ad_hoc_id(name: str, data: bytes | None, shown: Any = None) -> str:
    """The id of a shrunk or ad hoc case: its type and a digest."""
    digest = hashlib.sha256(data if data is not None else json.dumps(shown).encode()).hexdigest()[:12]
    return f"bytes/{name}/{digest}"
