"""`read`, `convert`, `sequence` and `scenario` cases: their requests, and the expectations by the reference."""

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
"""Distance in offsets of the high watermark from the end of a log, if damage hides the real end."""

_ORDER = (
    "batch.base-offset",
    "batch.last-offset-delta",
    "message-set.entry-layout",
    "message-set.v1-relative-offsets",
    "offset.record-formula",
    "record.offset-delta",
    "recursive.wrapper-offset-is-last",
)
"""Unspecified places after which offsets may not rise: the result of a consumer is then unspecified too."""


# --- read ---------------------------------------------------------------------------------------------


def fetch_expectation(parts: Request) -> RequestWithExpectation:
    """Return the parts and the expectation of a parsed `read` request."""
    return read_expectation(
        parts["hex"],
        isolation=parts["isolation"],
        fetch_offset=parts.get("fetchOffset"),
        high_watermark=parts.get("highWatermark"),
        aborted=parts.get("aborted", ()),
        check_crcs=parts.get("checkCrcs", True),
    )


def transactions(listed: Iterable[dict[str, int]]) -> list[AbortedTransaction]:
    """Return the entries of a parsed list of aborted transactions."""
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
    """Return the request to fetch a log, and the records that an application must get.

    The default is the first offset of the log and read_uncommitted. `entries` are the entries of the log, if the
    caller has decoded them already.
    """
    entries = entries or list(codec.entries(data))
    start = _first_seen(data, entries) if fetch_offset is None else fetch_offset
    listed = list(aborted)
    view_of = partial(consumer_view, data, start, isolation=isolation, aborted=transactions(listed), entries=entries)
    unchecked = view_of(check_crcs=False)
    # Without a violation both views are equal, so the second one is not computed.
    checked = check_crcs and any(entry.violations for entry in entries)
    view = view_of() if checked else unchecked
    end = view.next_offset + (_HIGH_WATERMARK_LEAD if view.damage else 0) if high_watermark is None else high_watermark
    request = {
        "hex": data.hex(),
        "isolation": isolation,
        "fetchOffset": str(start),
        "highWatermark": str(min(end, INT64_MAX)),
        "aborted": ABORTED.render(listed) if listed else [],
        **({} if check_crcs else {"checkCrcs": False}),
    }
    return RequestWithExpectation(request, _delivery(view, unchecked) if check_crcs else _unchecked(unchecked, entries))


def _unchecked(view: ConsumerView, entries: Sequence[codec.LogEntry]) -> Expectation:
    """Return the expectation of a fetch without checksum verification.

    A wrong checksum is unspecified there, also in a batch that the consumer skips
    (decisions#how-we-judge-with-this-page, rule 6).
    A batch too short for its header has its own requirement: Apache Kafka's consumer detects it only with the checksum
    (decisions#batch).
    """
    damage = view.damage
    if damage is not None and damage.requirement == "batch.length-wrong-rejected":
        view = replace(view, damage=structs.replace(damage, requirement="robustness.batch-length-unchecked"))
    expect = _delivery(view, view)
    # The view ends with a damaged entry: checksums after it do not matter.
    reached = entries[: len(view.ends)]
    return or_rejection(expect) if any(entry.violations for entry in reached) else expect


def _delivery(view: ConsumerView, unchecked: ConsumerView) -> Expectation:
    """Return the expectation of a fetch by rule 6 of decisions#how-we-judge-with-this-page."""
    damage = view.damage
    moved = (
        damage is not None
        and damage.requirement not in CHECKSUM_RULES
        and any(mark.openness is codec.Definedness.ELSEWHERE for mark in view.remarks)
    )
    met = [mark for mark in view.remarks if not _is_behind_checksum(mark, damage)]
    free = any(mark.openness is codec.Definedness.ANY_VALUE or mark.requirement in _ORDER for mark in met)
    if moved or free or (damage is not None and damage.open):
        return ExpectAnyOf()
    # The log is only a cut entry: Apache Kafka's consumer raises an error too, as this fetch can never continue.
    stuck = view.partial and not view.ends
    return ExpectConsumerView(view, unchecked, open=bool(met) or stuck)


def _is_behind_checksum(mark: codec.Violation, damage: codec.Violation | None) -> bool:
    """Return whether a wrong checksum hides an unspecified place: a consumer that checks it does not read the place."""
    if damage is None or damage.requirement != "crc.mismatch-corrupt":
        return False
    return mark.layer == damage.layer == 0 and mark.at > damage.at


def first_offset(data: bytes) -> int:
    """Return the first offset of a log, at least 0: of its first valid entry, or else the number in its first 8 bytes.

    In a damaged wrapper these 8 bytes are the last offset. A fetch from there might skip the damage, so the offset
    is then 0.
    """
    return _first_seen(data, list(islice(codec.entries(data), 1)))


def _first_seen(data: bytes, entries: Sequence[codec.LogEntry]) -> int:
    if entries and entries[0].value is not None and not entries[0].violations:
        return max(0, entries[0].first_offset)
    if len(data) < OVERHEAD or is_wrapper(data):
        return 0
    return max(0, stored_offset(data))


def or_rejection(expect: Expectation) -> Expectation:
    """Return the expectation of a fetch with a rejection as a further accepted result."""
    return (
        ExpectConsumerView(expect.view, expect.unchecked, open=True)
        if isinstance(expect, ExpectConsumerView)
        else expect
    )


def delivery_as_stated(data: bytes, stated: Value, requirement: str, fetch_offset: int) -> Expectation:
    """Return the expectation of a fetch of one unspecified entry: a rejection, or the stated records.

    Any result is accepted if no record is stated, or if the offsets of the records do not follow from the statement.
    """
    value = _batch_as_stated(data, stated["records"]) if isinstance(stated, dict) else _messages_as_stated(stated)
    if value is None:
        return ExpectAnyOf()
    mark = codec.Violation(requirement, 0, "it may be rejected", openness=codec.Definedness.OPEN)
    return read_expectation(data, [codec.LogEntry(0, len(data), value, (), (mark,))], fetch_offset=fetch_offset).expect


def _batch_as_stated(data: bytes, records: Sequence[Value]) -> Value | None:
    """Return a batch with its own header and these records; None if their offsets could have gaps."""
    header = batch_header(data)
    if header is None or not 0 < len(records) == header["lastOffsetDelta"] + 1:
        return None
    numbered = ({"offset": at, **record} for at, record in enumerate(records, header["baseOffset"]))
    return {**header, "records": tuple(numbered)}


def _messages_as_stated(messages: Sequence[Value]) -> Value | None:
    """Return a message or wrapper with these messages."""
    return {"offset": messages[-1]["offset"], "messages": messages} if messages else None


def is_checksum_case(expect: Expectation) -> bool:
    """Return whether only a checksum is wrong, which a consumer should check but need not."""
    damage = expect.view.damage if isinstance(expect, ExpectConsumerView) else None
    return damage is not None and damage.requirement in CHECKSUM_RULES


# --- convert ------------------------------------------------------------------------------------------


def conversion_question(parts: Request) -> RequestWithExpectation:
    """Return the parts and the expectation of a parsed `convert` request. Raises NotTestable."""
    return convert_question(parts["hex"], parts["magic"], parts.get("baseOffset"))


def convert_question(data: bytes, magic: int, base_offset: int | None = None) -> RequestWithExpectation:
    """Return the request to convert a log to a magic, and the expected records.

    Raises NotTestable (decisions#conversions) for a log that is damaged, unspecified or cut off. For magic 2 the log
    must have no batch, and only timestamps that a batch can contain. With a base offset it must be one wrapper, or
    plain messages of one magic, as a producer sends it.
    """
    read = codec.decode("LOG", data)
    if not read.ok or read.remarks:
        raise NotTestable(f"a broker does not convert this log: {(*read.violations, *read.remarks)[0]}")
    if read.value["partial"]:
        raise NotTestable("the conversion of a cut entry is unspecified")
    batches = read.value["batches"]
    kinds = {(batch["magic"], batch["compression"] != 0) for batch in batches}
    if magic == 0 and any(batch["magic"] and batch["compression"] == _LZ4 for batch in batches):
        raise NotTestable("magic 0 has no lz4, and its conversion is unspecified")
    if magic == 2 and any(of == magic for of, _ in kinds):
        raise NotTestable("the log already has batches of magic 2")
    if magic == 2 and any(_is_untimed(message) for batch in batches for message in batch["messages"]):
        raise NotTestable("a negative LogAppendTime: Apache Kafka rejects it, others may keep it")
    if base_offset is not None and (len(kinds) != 1 or (len(batches) > 1 and kinds.pop()[1])):
        raise NotTestable("with a base offset, the log must be one wrapper, or plain messages of one magic")
    request = {"hex": data.hex(), "magic": magic, **({} if base_offset is None else {"baseOffset": str(base_offset)})}
    try:
        converted_entries(batches, magic, base_offset)
    except codec.Unencodable as error:
        if magic == 2:
            raise NotTestable(f"a batch cannot hold these records: {error}") from None
        return RequestWithExpectation(request, ExpectRejection(None, "invalid-value"))
    return RequestWithExpectation(request, conversion_of(batches, magic, base_offset))


def conversion_of(batches: Sequence[Value], magic: int, base_offset: int | None = None) -> ExpectConvertedRecords:
    """Return the expected records of a converted LOG value. Raises Unencodable for a base offset below magic 2.

    A converter may distribute the records over any entries. With a base offset it must write one batch.
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
    """Return the parts and the expectation of a parsed `sequence` request."""
    return sequence_question(parts["batches"])


def sequence_question(batches: Sequence[Value]) -> RequestWithExpectation:
    """Return the request for the result of each batch, and the accepted results."""
    return RequestWithExpectation(
        {"batches": BATCHES.render(batches)}, ExpectSequenceResults(tuple(allowed_results(batches)))
    )


# --- scenario -----------------------------------------------------------------------------------------


def steps_of(given: object) -> tuple[Step, ...]:
    """Return the steps of a `scenario` request. Raises NotationError."""
    from conformance.semantics.broker_steps import parsed_steps

    return parsed_steps(given)


def scenario_question(parts: Request) -> RequestWithExpectation:
    """Return the parts and the expectation of a parsed `scenario` request: the result of each step."""
    from conformance.semantics.broker_steps import rendered_steps
    from conformance.semantics.reference_broker import ReferenceBroker, outcomes

    steps = parts["steps"]
    expected = outcomes(steps, ReferenceBroker().play(steps))
    return RequestWithExpectation({"steps": rendered_steps(steps)}, ExpectScenario(steps, tuple(expected)))
