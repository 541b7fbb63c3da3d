"""Between the three formats: what an entry of a log becomes (record-batch#format-conversion; decisions#conversions).

What is judged are the records of the converted log; how its bytes are laid out is the converter's affair.
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
"""A log as conversion is judged on it: its records, each with the magic and codec of the entry that it stands in."""

Records = tuple[Values, ...]
_NO_PRODUCER = {**builders.NO_PRODUCER, "isTransactional": False, "isControlBatch": False}
"""What a batch says of its producer where there is none."""
_OF_ENTRY = ("magic", "compression", "timestampType", *_NO_PRODUCER)


def records_of(batches: Sequence[Values]) -> Records:
    """The records of a LOG value, as CONVERTED; `entry` is the number of the batch or message, from 0."""
    names = CONVERTED.element.fields
    records: list[Values] = []
    for index, batch in enumerate(batches):
        shared = {"entry": index} | {name: batch[name] for name in _OF_ENTRY if name in batch}
        inside = batch["messages"] if "messages" in batch else batch["records"]
        records += ({name: record[name] for name in names if name in record} | shared for record in inside)
    return tuple(records)


def converted_records(batches: Sequence[Values], magic: int, base_offset: int | None = None) -> Records:
    """What the records of a LOG value become in a magic, numbered from `base_offset` where there is one.

    In what entries they then stand is not said. Raises Unencodable for a base offset below magic 2.
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
    """A record as a message of that magic or its own lower one: of what such messages cannot say, nothing is left."""
    magic = min(record["magic"], most)
    kept = LAYOUTS[magic].rules_by_name()
    return {name: value for name, value in record.items() if name in kept} | {"magic": magic}


def _up(record: Values) -> Values:
    """A message as a record without a producer: its time is kept as a time of creation."""
    if record["magic"] == _BATCHES:
        return record
    return {"timestamp": -1, **record, **_NO_PRODUCER, "magic": _BATCHES, "timestampType": 0, "headers": ()}


def convert(data: bytes, magic: int, base_offset: int | None = None) -> bytes:
    """The bytes of a log in another magic: each entry on its own, or all as one batch numbered from `base_offset`.

    Entries of the magic are copied as they are. Raises Unencodable where there is no such conversion, and
    NotConvertible for a log that cannot be read.
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
    """The bytes of each entry of a LOG value in another magic, None for one that stays as it is.

    All become one batch where there is a base offset. Raises Unencodable.
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
    """Bytes of a log that break the format; the violation says how."""

    def __init__(self, violation: codec.Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


def _messages(records: Records) -> bytes:
    return encode_set(records, records[0]["magic"], records[0]["compression"])


def _batch(records: Records) -> bytes:
    first = records[0]
    shared = {name: first[name] for name in _OF_ENTRY}
    return codec.encode("RECORD_BATCH", builders.batch(records, baseOffset=first["offset"], **shared))
