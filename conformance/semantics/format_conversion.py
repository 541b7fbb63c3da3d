"""Conversion of log entries between the three formats (record-batch#format-conversion; decisions#conversions).

Only the records of the converted log are compared; a converter may choose their layout in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance import codec
from conformance.codec import builders
from conformance.codec import json_notation as n
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.cursor import Unencodable
from conformance.codec.derived_fields import Values
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.message_set import encode_set
from conformance.codec.record_batch import TIMESTAMP_TYPES
from conformance.errors import UserError

_BATCHES = 2
"""The magic of record batches."""

CONVERTED = n.ListOf(
    n.ObjectOf(
        {
            "entry": n.NUMBER,
            "magic": n.NUMBER,
            "compression": n.NamedNumber(CODEC_NAMES),
            "producerId": n.DECIMAL,
            "producerEpoch": n.NUMBER,
            "baseSequence": n.NUMBER,
            "isTransactional": n.TRUTH,
            "isControlBatch": n.TRUTH,
            "offset": n.DECIMAL,
            "timestampType": n.NamedNumber(TIMESTAMP_TYPES),
            "timestamp": n.DECIMAL,
            "key": n.HEX,
            "value": n.HEX,
            "headers": codec.wire("RECORD").notation.fields["headers"],
        }
    ),
    nullable=False,
)
"""A log for the comparison of conversions: its records, each with the magic and codec of its entry."""

Records = tuple[Values, ...]
_NO_PRODUCER = {**builders.NO_PRODUCER, "isTransactional": False, "isControlBatch": False}
"""The producer fields of a batch without a producer."""
_OF_ENTRY = ("magic", "compression", "timestampType", *_NO_PRODUCER)


def records_of(batches: Sequence[Values]) -> Records:
    """Return the records of a LOG value, as CONVERTED; `entry` is the number of the batch or message, from 0."""
    names = CONVERTED.element.fields
    records: list[Values] = []
    for index, batch in enumerate(batches):
        shared = {"entry": index} | {name: batch[name] for name in _OF_ENTRY if name in batch}
        inside = batch["messages"] if "messages" in batch else batch["records"]
        records += ({name: record[name] for name in names if name in record} | shared for record in inside)
    return tuple(records)


def converted_records(batches: Sequence[Values], magic: int, base_offset: int | None = None) -> Records:
    """Return the records of a LOG value in another magic, with offsets from `base_offset` if there is one.

    The division into entries is open. Raises Unencodable for a base offset below magic 2.
    """
    records = records_of([batch for batch in batches if not batch.get("isControlBatch")])
    if magic == _BATCHES:
        records = tuple(_up(record) for record in records)
    elif base_offset is not None:
        raise Unencodable("convert.up-to-v2", "records are renumbered in magic 2 only")
    else:
        records = tuple(_down(record, magic) for record in records)
    if base_offset is not None:
        records = tuple({**record, "offset": base_offset + index} for index, record in enumerate(records))
    return records


def _down(record: Values, most: int) -> Values:
    """Return a record as a message of that magic or its own lower one, without fields that messages lack."""
    magic = min(record["magic"], most)
    kept = LAYOUTS[magic].rules_by_name()
    return {name: value for name, value in record.items() if name in kept} | {"magic": magic}


def _up(record: Values) -> Values:
    """Return a message as a record without a producer; its timestamp becomes a CreateTime."""
    if record["magic"] == _BATCHES:
        return record
    return {"timestamp": -1, **record, **_NO_PRODUCER, "magic": _BATCHES, "timestampType": 0, "headers": ()}


def convert(data: bytes, magic: int, base_offset: int | None = None) -> bytes:
    """Return a log in another magic: each entry converted, or all as one batch with offsets from `base_offset`.

    Entries of this magic are copied unchanged. Raises Unencodable if the conversion does not exist, and NotConvertible
    for a malformed log.
    """
    entries = list(codec.entries(data))
    broken = next((entry.violations[0] for entry in entries if entry.violations), None)
    if broken is not None:
        raise NotConvertible(broken)
    whole = [entry for entry in entries if entry.value is not None]
    parts = converted_entries([entry.value for entry in whole], magic, base_offset)
    return b"".join(
        data[entry.start : entry.stop] if part is None else part for entry, part in zip(whole, parts, strict=False)
    )


def converted_entries(batches: Sequence[Values], magic: int, base_offset: int | None = None) -> list[bytes | None]:
    """Return the bytes of each entry of a LOG value in another magic, None for an unchanged one.

    With a base offset, all entries become one batch. Raises Unencodable.
    """
    if base_offset is not None:
        records = converted_records(batches, magic, base_offset)
        return [_batch(records)] if records else []
    return [
        None if batch["magic"] == magic else _rewritten(converted_records([batch], magic), magic) for batch in batches
    ]


def _rewritten(records: Records, magic: int) -> bytes:
    if not records:
        return b""
    return _batch(records) if magic == _BATCHES else _messages(records)


class NotConvertible(UserError):
    """A malformed log; the violation has the reason."""

    def __init__(self, violation: codec.Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


def _messages(records: Records) -> bytes:
    return encode_set(records, records[0]["magic"], records[0]["compression"])


def _batch(records: Records) -> bytes:
    first = records[0]
    shared = {name: first[name] for name in _OF_ENTRY}
    return codec.encode("RECORD_BATCH", builders.batch(records, baseOffset=first["offset"], **shared))
