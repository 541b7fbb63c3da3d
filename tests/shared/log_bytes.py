"""Bytes of logs for tests: batches, markers, messages and wrappers."""

from __future__ import annotations

from conformance import codec
from conformance.codec import builders
from conformance.codec.message_set import encode_set

ABORT, COMMIT = bytes(4), bytes((0, 0, 0, 1))


def record(offset, **fields):
    return builders.record(offset, **{"timestamp": 1000 + offset % 1000, **fields})


def batch(base, records=None, *, producer=None, transactional=False, control=False, **fields):
    """Return the bytes of a batch with records at these offsets, by default one at its base offset."""
    rows = [row if isinstance(row, dict) else record(row) for row in ([base] if records is None else records)]
    kind = {"baseOffset": base, "isTransactional": transactional, "isControlBatch": control}
    if producer is not None:
        kind |= {"producerId": producer, "producerEpoch": 0, "baseSequence": 0}
    return codec.encode("RECORD_BATCH", builders.batch(rows, **{**kind, **fields}))


def part(base, producer=7, count=2):
    """Return a batch of a transaction."""
    return batch(base, range(base, base + count), producer=producer, transactional=True)


def marker(base, key, producer=7):
    return batch(base, [record(base, key=key)], producer=producer, transactional=True, control=True)


def message(offset, magic=1, **fields):
    return encode_set((record(offset, **fields),), magic, 0)


def wrapper(*offsets, magic=1, compression=1):
    return encode_set(tuple(record(offset) for offset in offsets), magic, compression)
