"""Vectors of operations on whole logs, and the reading of every log that a vector has, as cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from conformance import codec
from conformance.cases.model import ERRORS, AnyOf, Converts, Delivers, Expectation, Refuses, Sequences
from conformance.codec.log import CHECKSUM_RULES, first_offset
from conformance.codec.message_set import is_wrapper
from conformance.codec.notation import DECIMAL, NUMBER, Fields, ListOf, NotationError, unknown_fields
from conformance.codec.record_batch import OVERHEAD, stored_offset
from conformance.semantics.conversion import CONVERTED, convert, converted
from conformance.semantics.sequences import ANSWERS, BATCHES, judged
from conformance.semantics.visibility import ISOLATIONS, VIEW, Aborted, View, view

ABORTED = ListOf(Fields({"producerId": DECIMAL, "firstOffset": DECIMAL}), nullable=False)
"""The list of aborted transactions in a `read` request."""

Question = tuple[dict[str, Any], Expectation]
"""A request without its `op`, and what must come of it."""

INT64_MAX = max(codec.wire("INT64").edges)

_FAR = 1000
"""Offsets that a high watermark lies ahead of a log whose end cannot be known."""

_ORDER = (
    "batch.base-offset",
    "batch.last-offset-delta",
    "message-set.entry-layout",
    "message-set.v1-relative-offsets",
    "offset.record-formula",
    "record.offset-delta",
    "recursive.wrapper-offset-is-last",
)
"""Open places after which offsets do not rise: what a consumer makes of such a log is anybody's guess."""


class NotAsked(NotationError):
    """A question that is well put, and that nobody is asked: it has no answer on which everybody agrees."""


# --- read ---------------------------------------------------------------------------------------------


def read_question(
    data: bytes,
    *,
    isolation: str = ISOLATIONS[0],
    fetch_offset: int | None = None,
    high_watermark: int | None = None,
    aborted: Iterable[dict[str, int]] = (),
    check_crcs: bool = True,
) -> Question:
    """How a log is asked for, by default from its first offset on and uncommitted, and what is to be seen of it."""
    entries = list(codec.entries(data))
    start = _first_seen(data, entries) if fetch_offset is None else fetch_offset
    listed = list(aborted)
    transactions = [Aborted(entry["producerId"], entry["firstOffset"]) for entry in listed]
    known: dict[str, Any] = {"isolation": isolation, "aborted": transactions, "entries": entries}
    unchecked = view(data, start, check_crcs=False, **known)
    checked = check_crcs and any(entry.violations for entry in entries)
    seen = view(data, start, **known) if checked else unchecked
    end = seen.next_offset + (_FAR if seen.damage else 0) if high_watermark is None else high_watermark
    request = {
        "hex": data.hex(),
        "isolation": isolation,
        "fetchOffset": str(start),
        "highWatermark": str(min(end, INT64_MAX)),
        "aborted": ABORTED.render(listed),
        **({} if check_crcs else {"checkCrcs": False}),
    }
    return request, _delivery(seen, unchecked)


def _delivery(seen: View, unchecked: View) -> Expectation:
    """What must come of a fetch, by rule 6 of decisions#how-we-judge-with-this-page."""
    damage = seen.damage
    moved = (
        damage is not None
        and damage.requirement not in CHECKSUM_RULES
        and any(mark.openness is codec.Openness.ELSEWHERE for mark in seen.remarks)
    )
    free = any(mark.openness is codec.Openness.ANY_VALUE or mark.requirement in _ORDER for mark in seen.remarks)
    if moved or free or (damage is not None and damage.open):
        return AnyOf()
    # Nothing but a cut entry: Apache Kafka's consumer, too, says that such a fetch gets nobody anywhere.
    stuck = seen.partial and not seen.ends
    return Delivers(seen, unchecked, open=bool(seen.remarks) or stuck)


def first_seen(data: bytes) -> int:
    """The first offset of a log, from 0: that of its first sound entry, or what stands in its first bytes.

    Of a wrapper that is damaged these tell the last offset, so that a fetch from there might pass the damage over: it
    begins at 0.
    """
    return _first_seen(data, list(islice(codec.entries(data), 1)))


def _first_seen(data: bytes, entries: Sequence[codec.Entry]) -> int:
    if entries and entries[0].value is not None and not entries[0].violations:
        return max(0, first_offset(entries[0].value))
    if len(data) < OVERHEAD or is_wrapper(data):
        return 0
    return max(0, stored_offset(data))


def softened(expect: Expectation) -> Expectation:
    """The expectation where a vector says that refusing the bytes is right too."""
    return Delivers(expect.view, expect.unchecked, open=True) if isinstance(expect, Delivers) else expect


def is_checksum_case(expect: Expectation) -> bool:
    """Whether all that is wrong is a checksum, which a consumer only should check."""
    damage = expect.view.damage if isinstance(expect, Delivers) else None
    return damage is not None and damage.requirement in CHECKSUM_RULES


# --- vectors ------------------------------------------------------------------------------------------


def question_of(row: dict[str, Any], data: bytes | None) -> Question:
    """The question of a vector for a whole log, its stated answer held against the reference's.

    Raises NotationError for a part that is not in its notation or says other than the reference.
    """
    op = row["op"]
    if (data is None) != (op == "sequence"):
        raise NotationError("hex is missing" if data is None else "a sequence request has batches and no hex")
    if row.get("reject", "other") not in ERRORS:
        raise NotationError(f"reject is one of {', '.join(ERRORS)}, found {row['reject']!r}")
    if data is None:
        return _sequence_question(row)
    return _read_vector(row, data) if op == "read" else _convert_question(row, data)


def _read_vector(row: dict[str, Any], data: bytes) -> Question:
    if row.get("isolation", ISOLATIONS[0]) not in ISOLATIONS:
        raise NotationError(f"isolation is one of {', '.join(ISOLATIONS)}")
    request, expect = read_question(
        data,
        isolation=row.get("isolation", ISOLATIONS[0]),
        fetch_offset=_optional(row, "fetchOffset"),
        high_watermark=_optional(row, "highWatermark"),
        aborted=ABORTED.parse(row.get("aborted", [])),
        check_crcs=row.get("checkCrcs", True) is not False,
    )
    damage = expect.view.damage if isinstance(expect, Delivers) else None
    stated = row.get("value")
    if "either" in row:
        readings = _readings(row)
        if not readings or not isinstance(expect, Delivers):
            return request, AnyOf()
        expect, stated = softened(expect), readings[-1]
    elif ("reject" in row) != (damage is not None):
        raise NotationError(f"the bytes say otherwise: {damage or 'nothing is wrong with them'}")
    elif not isinstance(expect, Delivers) or expect.open:
        raise NotationError("the bytes stand at an open place: say `either`")
    if stated is not None and isinstance(expect, Delivers):
        seen = {"records": expect.view.records, "nextOffset": expect.view.next_offset}
        _agree(VIEW, stated, seen)
    return request, expect


def _readings(row: dict[str, Any]) -> list[Any]:
    """The value among the readings of an open place, as [value]; [] where any outcome will do."""
    match row["either"]:
        case "any":
            return []
        case ["reject", {"value": value, **further}] if not further:
            return [value]
    raise NotationError("either is `any`, or [reject, {value: ...}]")


def _convert_question(row: dict[str, Any], data: bytes) -> Question:
    magic, base = NUMBER.parse(row.get("magic")), _optional(row, "baseOffset")
    if "either" in row:
        if _readings(row):
            raise NotationError("either is `any` for a conversion")
        return {"hex": data.hex(), "magic": magic, **({} if base is None else {"baseOffset": str(base)})}, AnyOf()
    try:
        request, expect = convert_question(data, magic, base)
    except NotAsked as error:
        raise NotationError(f"{error}: say `either: any`") from None
    if isinstance(expect, Converts) != ("value" in row) or row.get("reject", "invalid-value") != "invalid-value":
        there = "is such a" if isinstance(expect, Converts) else "is no such"
        raise NotationError(f"there {there} conversion: say `value`, or `reject: invalid-value`")
    if isinstance(expect, Converts):
        _agree(CONVERTED, row["value"], expect.records)
    return request, expect


def _sequence_question(row: dict[str, Any]) -> Question:
    batches = BATCHES.parse(row.get("batches"))
    complete = all(set(BATCHES.element.fields) <= set(batch) for batch in batches)
    if unknown_fields(BATCHES, row["batches"]) or not complete:
        raise NotationError("batches: each has producerId, producerEpoch, baseSequence and recordCount")
    request, expect = sequence_question(batches)
    stated = ["either" if len(right) > 1 else next(iter(right)) for right in expect.answers]
    if row.get("value") != stated:
        raise NotationError(f"value: by the rules it is {', '.join(stated)} (of {', '.join(ANSWERS)}, either)")
    return request, expect


def convert_question(data: bytes, magic: int, base_offset: int | None = None) -> Question:
    """How a log is asked for in another magic, and what it must become. Raises NotAsked.

    That is a log at which something is wrong, open or cut off; up, one that has batches already, or times that no
    batch can hold; and with a base offset one that is not sent at once: one wrapper, or plain messages of one magic
    (decisions#conversions).
    """
    read = codec.decode("LOG", data)
    if not read.ok or read.remarks:
        raise NotAsked(f"nobody converts such a log: {(*read.violations, *read.remarks)[0]}")
    if read.value["partial"]:
        raise NotAsked("what becomes of a cut entry is nowhere said")
    batches = read.value["batches"]
    kinds = {(batch["magic"], batch["compression"] != 0) for batch in batches}
    if magic == 2 and any(of == magic for of, _ in kinds):
        raise NotAsked("nobody converts up what has batches of magic 2 already")
    if magic == 2 and any(_is_untimed(message) for batch in batches for message in batch["messages"]):
        raise NotAsked("a time of appending that is none: Apache Kafka refuses it, others may keep it")
    if base_offset is not None and (len(kinds) != 1 or (len(batches) > 1 and kinds.pop()[1])):
        raise NotAsked("one batch is made of one wrapper, or of plain messages of one magic")
    request = {"hex": data.hex(), "magic": magic, **({} if base_offset is None else {"baseOffset": str(base_offset)})}
    try:
        convert(data, magic, base_offset)
    except codec.Unencodable as error:
        if magic == 2:
            raise NotAsked(f"no batch holds such records: {error}") from None
        return request, Refuses(None, "invalid-value")
    return request, conversion_of(batches, magic, base_offset)


def conversion_of(batches: Sequence[dict[str, Any]], magic: int, base_offset: int | None = None) -> Converts:
    """What the batches of a LOG value must become in a magic. Raises Unencodable for a base offset below magic 2.

    How a converter spreads records over entries is free, unless they are renumbered: that makes one batch.
    """
    records = converted(batches, magic, base_offset)
    if base_offset is None:
        return Converts(tuple({name: record[name] for name in record if name != "entry"} for record in records))
    return Converts(tuple({**record, "entry": 0} for record in records))


def _is_untimed(message: dict[str, Any]) -> bool:
    return bool(message.get("timestampType")) and message["timestamp"] < 0


def sequence_question(batches: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], Sequences]:
    """How a target is asked for the fate of batches, and what it must answer."""
    return {"batches": BATCHES.render(batches)}, Sequences(tuple(judged(batches)))


def _optional(row: dict[str, Any], name: str) -> int | None:
    if name not in row:
        return None
    found: int = DECIMAL.parse(row[name])
    if not -INT64_MAX - 1 <= found <= INT64_MAX:
        raise NotationError(f"{name}: {found} is no INT64")
    return found


def _agree(notation: Any, stated: Any, computed: Any) -> None:
    unknown = unknown_fields(notation, stated)
    if unknown:
        raise NotationError(f"value: {unknown[0]} is no field of the answer")
    path = next(notation.mismatches(notation.parse(stated), computed), None)
    if path:
        raise NotationError(f"value: the bytes say otherwise at {path}")
