"""A log: consecutive entries of any magic. The last one may be truncated (message-format#record-batch)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from conformance.codec import json_notation as n
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.cursor import Cursor, Findings, Limits, Malformed, Unencodable, Violation
from conformance.codec.dispatch import decode, encode
from conformance.codec.legacy_message import LAYOUTS, is_cut_off
from conformance.codec.message_set import ENTRY, MESSAGE_RULES, encode_entry, read_entry
from conformance.codec.record import HEADER_LAYOUT, RECORD_LAYOUT
from conformance.codec.record_batch import BATCH_LAYOUT, MAGIC_AT, OVERHEAD, RECORD_BATCH, stored_magic, stored_size
from conformance.codec.wire_type import WireType

_LAYOUTS = {**LAYOUTS, 2: BATCH_LAYOUT}
"""The layout of an entry by its magic."""
_MAGICS = tuple(_LAYOUTS)

CHECKSUM_RULES = ("crc.mismatch-corrupt", "legacy.crc-checked", "legacy.wrapper-crc-checked")
"""The requirements that a wrong checksum breaks."""


def _decode(cursor: Cursor) -> dict[str, Any]:
    batches: list[Any] = []
    base = cursor.path
    while cursor.left and not is_cut_off(cursor, magics=_MAGICS):
        if cursor.tracing:
            cursor.path = f"{base}batches[{len(batches)}]"
        start = cursor.pos
        entry = _entry(cursor)
        cursor.span("", start)
        if batches and first_offset(entry) <= last_offset(batches[-1]):
            cursor.remark("offset.record-formula", "first offset is not above the last of the entry before", at=start)
        batches.append(entry)
    cursor.path = base
    partial, cursor.pos = cursor.left, cursor.end
    return {"batches": tuple(batches), "partial": partial}


def _entry(cursor: Cursor) -> Any:
    """Read a record batch, or a message of magic 0 or 1, by its magic byte."""
    if cursor.data[cursor.pos + MAGIC_AT] in LAYOUTS:
        return read_entry(cursor)
    return decode(RECORD_BATCH, cursor)


def first_offset(entry: dict[str, Any]) -> int:
    """Return the first offset of an entry: baseOffset, or the offset of the first message."""
    return int(entry["messages"][0]["offset"] if "messages" in entry else entry["baseOffset"])


def last_offset(entry: dict[str, Any]) -> int:
    """Return the last offset of an entry, including removed records (record-batch#offset-calculation)."""
    return int(entry["offset"] if "messages" in entry else entry["baseOffset"] + entry["lastOffsetDelta"])


def _encode(value: Any) -> bytes:
    if value.get("partial"):
        raise Unencodable("batch.length-wrong-rejected", "a truncated batch cannot be written")
    return b"".join(
        encode_entry(entry) if "messages" in entry else encode(RECORD_BATCH, entry) for entry in value["batches"]
    )


LOG = WireType(
    "LOG",
    _decode,
    _encode,
    n.ObjectOf(
        {
            "batches": n.ListOf(n.ObjectOf({**RECORD_BATCH.notation.fields, **ENTRY.fields}), nullable=False),
            "partial": n.NUMBER,
        }
    ),
    0,
)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a log, read separately: its place, and the result of strict decoding."""

    start: int
    stop: int
    value: Any
    """None for an error other than a checksum, and (without violations) for the truncated last entry."""
    violations: tuple[Violation, ...]
    remarks: tuple[Violation, ...]
    rests_on: tuple[str, ...] = ()
    """Requirements that a reader must meet to read this entry; some readers of valid entries do not meet them."""
    violations_except_checksums: tuple[Violation, ...] = field(init=False)
    """The violations except wrong checksums."""
    first_offset: int = field(init=False, default=-1)
    """The first offset of the entry; -1 without a value."""
    last_offset: int = field(init=False, default=-1)
    """The last offset of the entry; -1 without a value."""

    def __post_init__(self) -> None:
        other_violations = tuple(one for one in self.violations if one.requirement not in CHECKSUM_RULES)
        object.__setattr__(self, "violations_except_checksums", other_violations)
        if self.value is not None:
            object.__setattr__(self, "first_offset", first_offset(self.value))
            object.__setattr__(self, "last_offset", last_offset(self.value))


def entries(data: bytes, *, limits: Limits | None = None) -> Iterator[LogEntry]:
    """Yield the entries of a log; the last one may be truncated. Positions are bytes of `data`.

    An entry with damage inside is followed by the next, because its size still gives the next start. An entry with an
    unknown magic, or without a positive size, is the last.
    """
    for at, stop in extents(data):
        findings = Findings(limits=limits or Limits(), size=stop - at)
        cursor = Cursor(data, findings)
        cursor.pos = at
        value: Any = None
        try:
            if is_cut_off(cursor, magics=_MAGICS):
                yield LogEntry(at, stop, None, (), tuple(findings.remarks))
                return
            value = _entry(cursor)
        except Malformed as problem:
            findings.violations.append(problem.violation)
        sound = all(violation.requirement in CHECKSUM_RULES for violation in findings.violations)
        noted = tuple(findings.violations), tuple(findings.remarks), tuple(findings.rests_on)
        yield LogEntry(at, stop, value if sound else None, *noted)
        # With an unknown magic, the size of the entry may have another meaning.
        if stored_magic(data, at) not in _MAGICS:
            return


def extents(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the extents of the entries by their sizes; an entry without a positive size reaches to the end."""
    at = 0
    while at < len(data):
        size = stored_size(data, at)
        stop = min(at + OVERHEAD + size, len(data)) if size > 0 else len(data)
        yield at, stop
        at = stop


def codecs_and_magics(name: str, data: bytes) -> tuple[frozenset[str], frozenset[int]]:
    """Return the codecs and magics in the entries of some bytes of a type, as far as they are readable.

    Codecs 5 to 7 do not exist. Types other than record batches, message sets and logs have neither.
    """
    layouts = _OF_ENTRIES.get(name)
    if layouts is None:
        return _NOTHING
    codecs: set[str] = set()
    magics: set[int] = set()
    at = 0
    while len(data) - at > LAYOUTS[0].offset("attributes"):
        magic = stored_magic(data, at)
        if magic in layouts:
            magics.add(magic)
            codec_number = layouts[magic].read_field("compression", data, at)
            if len(data) - at >= layouts[magic].span("attributes").stop and codec_number < len(CODEC_NAMES):
                codecs.add(CODEC_NAMES[codec_number])
        size = stored_size(data, at)
        if name == "RECORD_BATCH" or size < 0:
            break
        at += OVERHEAD + size
    return frozenset(codecs), frozenset(magics)


_NOTHING: tuple[frozenset[str], frozenset[int]] = frozenset(), frozenset()
_OF_ENTRIES = {"RECORD_BATCH": {2: BATCH_LAYOUT}, "MESSAGE_SET": LAYOUTS, "LOG": _LAYOUTS}
"""The layouts of a type's entries by magic; bytes of another magic have no codec."""


# --- what a difference breaks -------------------------------------------------------------------------

_RULES = {
    "": BATCH_LAYOUT.rules_by_name(),
    "records": RECORD_LAYOUT.rules_by_name(),
    "headers": HEADER_LAYOUT.rules_by_name(),
    "messages": MESSAGE_RULES,
}
_RULES["records"] |= {"offset": "offset.record-formula", "timestamp": "timestamp.record-formula"}
_RULES[""] |= {
    "batches": "batch.batch-length",
    "partial": "batch.length-wrong-rejected",
    "messages": "recursive.wrapper-holds-set",
    "offset": "recursive.wrapper-offset-is-last",
}


def rule_of(name: str, path: str, value: Any) -> str:
    """Return the requirement that defines the place at a path of a structured value; empty if there is none."""
    steps = [step.partition("[")[0] for step in path.split(".")]
    around = _around(name, steps[:-1])
    if around == "records" and steps[-1] == "timestamp" and _is_append_time(path, value):
        return "timestamp.log-append-overwritten"
    return _RULES[around].get(steps[-1], "")


def _around(name: str, steps: list[str]) -> str:
    if name == "MESSAGE_SET" or "messages" in steps:
        return "messages"
    return "headers" if "headers" in steps else "records" if "records" in steps or name == "RECORD" else ""


def _is_append_time(path: str, value: Any) -> bool:
    if path.startswith("batches["):
        value = value["batches"][int(path[len("batches[") : path.index("]")])]
    return bool(value.get("timestampType") == 1)


STRUCTURED = ("RECORD", "RECORD_BATCH", "MESSAGE_SET", "LOG")
"""Types whose vectors state only the fields under test; the reference adds the others from the bytes."""
