"""What is asked about a whole log (`read`, `convert`, `sequence`), and what must come of it by the reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import structs

from conformance import codec
from conformance.cases.model import (
    ExpectAnyOf,
    Expectation,
    ExpectConsumerView,
    ExpectConvertedRecords,
    ExpectRejection,
    ExpectScenario,
    ExpectSequenceResults,
    NotTestable,
    Request,
    RequestWithExpectation,
    Value,
)
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.json_notation import DECIMAL, ListOf, ObjectOf
from conformance.codec.legacy_message import is_wrapper
from conformance.codec.log import CHECKSUM_RULES
from conformance.codec.record_batch import OVERHEAD, stored_offset
from conformance.semantics.consumer_view import (
    ISOLATIONS,
    AbortedTransaction,
    ConsumerView,
    batch_header,
    consumer_view,
)
from conformance.semantics.format_conversion import converted_entries, converted_records
from conformance.semantics.producer_state import BATCHES, allowed_results

if TYPE_CHECKING:
    from conformance.semantics.broker_steps import Step

ABORTED = ListOf(ObjectOf({"producerId": DECIMAL, "firstOffset": DECIMAL}), nullable=False)
"""The list of aborted transactions in a `read` request."""

INT64_MAX = max(codec.wire("INT64").edges)

_LZ4 = CODEC_NAMES.index("lz4")

_HIGH_WATERMARK_LEAD = 1000
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
"""Open places after which offsets do not rise: what a consumer makes of such a log is not settled."""


# --- read ---------------------------------------------------------------------------------------------


def fetch_expectation(parts: Request) -> RequestWithExpectation:
    """The question of a `read` request, its parts parsed."""
    return read_expectation(
        parts["hex"],
        isolation=parts["isolation"],
        fetch_offset=parts.get("fetchOffset"),
        high_watermark=parts.get("highWatermark"),
        aborted=parts.get("aborted", ()),
        check_crcs=parts.get("checkCrcs", True),
    )


def transactions(listed: Iterable[dict[str, int]]) -> list[AbortedTransaction]:
    """The entries of a parsed list of aborted transactions."""
    return [AbortedTransaction(entry["producerId"], entry["firstOffset"]) for entry in listed]


def read_expectation(
    data: bytes,
    entries: Sequence[codec.LogEntry] = (),
    *,
    isolation: str = ISOLATIONS[0],
    fetch_offset: int | None = None,
    high_watermark: int | None = None,
    aborted: Iterable[dict[str, int]] = (),
    check_crcs: bool = True,
) -> RequestWithExpectation:
    """How a log is fetched, by default from its first offset and uncommitted, and what an application sees of it.

    `entries` are those of the log, where they were read already.
    """
    entries = entries or list(codec.entries(data))
    start = _first_seen(data, entries) if fetch_offset is None else fetch_offset
    listed = list(aborted)
    shown = partial(consumer_view, data, start, isolation=isolation, aborted=transactions(listed), entries=entries)
    unchecked = shown(check_crcs=False)
    checked = check_crcs and any(entry.violations for entry in entries)
    seen = shown() if checked else unchecked
    end = seen.next_offset + (_HIGH_WATERMARK_LEAD if seen.damage else 0) if high_watermark is None else high_watermark
    request = {
        "hex": data.hex(),
        "isolation": isolation,
        "fetchOffset": str(start),
        "highWatermark": str(min(end, INT64_MAX)),
        "aborted": ABORTED.render(listed) if listed else [],
        **({} if check_crcs else {"checkCrcs": False}),
    }
    return RequestWithExpectation(request, _delivery(seen, unchecked) if check_crcs else _unchecked(unchecked, entries))


def _unchecked(seen: ConsumerView, entries: Sequence[codec.LogEntry]) -> Expectation:
    """Return the expectation of a fetch without checksum verification.

    A wrong checksum is unspecified there, also in a batch that the consumer skips
    (decisions#how-we-judge-with-this-page, rule 6).
    A batch too short for its header has its own requirement: Apache Kafka's consumer detects it only with the checksum
    (decisions#batch).
    """
    damage = seen.damage
    if damage is not None and damage.requirement == "batch.length-wrong-rejected":
        seen = replace(seen, damage=structs.replace(damage, requirement="robustness.batch-length-unchecked"))
    expect = _delivery(seen, seen)
    # Behind the damaged entry, if there is one, the view ends.
    reached = entries[: len(seen.ends)]
    return or_rejection(expect) if any(entry.violations for entry in reached) else expect


def _delivery(seen: ConsumerView, unchecked: ConsumerView) -> Expectation:
    """What must come of a fetch, by rule 6 of decisions#how-we-judge-with-this-page."""
    damage = seen.damage
    moved = (
        damage is not None
        and damage.requirement not in CHECKSUM_RULES
        and any(mark.openness is codec.Definedness.ELSEWHERE for mark in seen.remarks)
    )
    met = [mark for mark in seen.remarks if not _is_behind_checksum(mark, damage)]
    free = any(mark.openness is codec.Definedness.ANY_VALUE or mark.requirement in _ORDER for mark in met)
    if moved or free or (damage is not None and damage.open):
        return ExpectAnyOf()
    # Nothing but a cut entry: Apache Kafka's consumer raises an error too, as such a fetch never moves on.
    stuck = seen.partial and not seen.ends
    return ExpectConsumerView(seen, unchecked, open=bool(met) or stuck)


def _is_behind_checksum(mark: codec.Violation, damage: codec.Violation | None) -> bool:
    """Whether an open place lies in a batch with a wrong checksum: who checks it does not come to that place."""
    if damage is None or damage.requirement != "crc.mismatch-corrupt":
        return False
    return mark.layer == damage.layer == 0 and mark.at > damage.at


def first_offset(data: bytes) -> int:
    """The first offset of a log, at least 0: that of its first sound entry, or the number in its first 8 bytes.

    In a damaged wrapper these 8 bytes hold the last offset, and a fetch from there might pass over the damage: then
    it is 0.
    """
    return _first_seen(data, list(islice(codec.entries(data), 1)))


def _first_seen(data: bytes, entries: Sequence[codec.LogEntry]) -> int:
    if entries and entries[0].value is not None and not entries[0].violations:
        return max(0, entries[0].first_offset)
    if len(data) < OVERHEAD or is_wrapper(data):
        return 0
    return max(0, stored_offset(data))


def or_rejection(expect: Expectation) -> Expectation:
    """The expectation of a fetch where a vector says that refusing the bytes is right too."""
    return (
        ExpectConsumerView(expect.view, expect.unchecked, open=True)
        if isinstance(expect, ExpectConsumerView)
        else expect
    )


def delivery_as_stated(data: bytes, stated: Value, requirement: str, fetch_offset: int) -> Expectation:
    """What must come of a fetch of one entry that a requirement leaves open: it is refused, or read as it is stated.

    Anything may, where nothing is stated, or the offsets of the records do not follow from it.
    """
    value = _batch_as_stated(data, stated["records"]) if isinstance(stated, dict) else _messages_as_stated(stated)
    if value is None:
        return ExpectAnyOf()
    mark = codec.Violation(requirement, 0, "it may be refused", openness=codec.Definedness.OPEN)
    return read_expectation(data, [codec.LogEntry(0, len(data), value, (), (mark,))], fetch_offset=fetch_offset).expect


def _batch_as_stated(data: bytes, records: Sequence[Value]) -> Value | None:
    """A batch with its own header and these records, where it leaves no room for a gap between their offsets."""
    header = batch_header(data)
    if header is None or not 0 < len(records) == header["lastOffsetDelta"] + 1:
        return None
    numbered = ({"offset": at, **record} for at, record in enumerate(records, header["baseOffset"]))
    return {**header, "records": tuple(numbered)}


def _messages_as_stated(messages: Sequence[Value]) -> Value | None:
    """A message or wrapper with these messages."""
    return {"offset": messages[-1]["offset"], "messages": messages} if messages else None


def is_checksum_case(expect: Expectation) -> bool:
    """Whether only a checksum is wrong, which a consumer should check and need not."""
    damage = expect.view.damage if isinstance(expect, ExpectConsumerView) else None
    return damage is not None and damage.requirement in CHECKSUM_RULES


# --- convert ------------------------------------------------------------------------------------------


def conversion_question(parts: Request) -> RequestWithExpectation:
    """The question of a `convert` request, its parts parsed. Raises NotTestable."""
    return convert_question(parts["hex"], parts["magic"], parts.get("baseOffset"))


def convert_question(data: bytes, magic: int, base_offset: int | None = None) -> RequestWithExpectation:
    """How a target is asked to convert a log to a magic, and what the log must become.

    Raises NotTestable (decisions#conversions) for a log that is damaged, open to readings or cut off; to magic 2, for
    one that has batches already or timestamps that a batch cannot hold; and with a base offset, for one that a
    producer does not send as one record set: that is one wrapper, or plain messages of one magic.
    """
    read = codec.decode("LOG", data)
    if not read.ok or read.remarks:
        raise NotTestable(f"a broker does not convert such a log: {(*read.violations, *read.remarks)[0]}")
    if read.value["partial"]:
        raise NotTestable("the documents do not say what becomes of a cut entry")
    batches = read.value["batches"]
    kinds = {(batch["magic"], batch["compression"] != 0) for batch in batches}
    if magic == 0 and any(batch["magic"] and batch["compression"] == _LZ4 for batch in batches):
        raise NotTestable("magic 0 has no lz4, and the documents do not say what becomes of it")
    if magic == 2 and any(of == magic for of, _ in kinds):
        raise NotTestable("a log that has batches of magic 2 already is not converted up")
    if magic == 2 and any(_is_untimed(message) for batch in batches for message in batch["messages"]):
        raise NotTestable("a negative LogAppendTime: Apache Kafka refuses it, others may keep it")
    if base_offset is not None and (len(kinds) != 1 or (len(batches) > 1 and kinds.pop()[1])):
        raise NotTestable("with a base offset, the log is one wrapper, or plain messages of one magic")
    request = {"hex": data.hex(), "magic": magic, **({} if base_offset is None else {"baseOffset": str(base_offset)})}
    try:
        converted_entries(batches, magic, base_offset)
    except codec.Unencodable as error:
        if magic == 2:
            raise NotTestable(f"a batch cannot hold these records: {error}") from None
        return RequestWithExpectation(request, ExpectRejection(None, "invalid-value"))
    return RequestWithExpectation(request, conversion_of(batches, magic, base_offset))


def conversion_of(batches: Sequence[Value], magic: int, base_offset: int | None = None) -> ExpectConvertedRecords:
    """What the batches of a LOG value must become in a magic. Raises Unencodable for a base offset below magic 2.

    A converter is free in how it spreads records over entries, unless it renumbers them: then it makes one batch.
    """
    records = converted_records(batches, magic, base_offset)
    if base_offset is None:
        return ExpectConvertedRecords(
            tuple({name: record[name] for name in record if name != "entry"} for record in records)
        )
    return ExpectConvertedRecords(tuple({**record, "entry": 0} for record in records))


def _is_untimed(message: Value) -> bool:
    return bool(message.get("timestampType")) and message["timestamp"] < 0


def sequence_expectation(parts: Request) -> RequestWithExpectation:
    """The question of a `sequence` request, its parts parsed."""
    return sequence_question(parts["batches"])


def sequence_question(batches: Sequence[Value]) -> RequestWithExpectation:
    """How a target is asked for the fate of batches, and what it must answer."""
    return RequestWithExpectation(
        {"batches": BATCHES.render(batches)}, ExpectSequenceResults(tuple(allowed_results(batches)))
    )


# --- scenario -----------------------------------------------------------------------------------------


def steps_of(given: object) -> tuple[Step, ...]:
    """The steps of a `scenario` request. Raises NotationError."""
    from conformance.semantics.broker_steps import parsed_steps

    return parsed_steps(given)


def scenario_question(parts: Request) -> RequestWithExpectation:
    """The question of a `scenario` request, its parts parsed: what a broker tells of steps one after the other."""
    from conformance.semantics.broker_steps import rendered_steps
    from conformance.semantics.reference_broker import ReferenceBroker, outcomes

    steps = parts["steps"]
    due = outcomes(steps, ReferenceBroker().play(steps))
    return RequestWithExpectation({"steps": rendered_steps(steps)}, ExpectScenario(steps, tuple(due)))
