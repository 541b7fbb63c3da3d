"""Records per second of the audit's columns, compared with aiokafka's C extension in the same run.

    python benchmarks/decode.py        (needs the extras spark and clients)

Both read the same bytes: batches of 1,000 records, of 100 bytes and of 1 KB, with a key and, in a second round, two
headers. Both check the checksum and read every field of every record. aiokafka builds an object for each record, as its
users get it; the columns have a row of numbers. Rounds alternate and the median counts. Compare only figures of one
run, because machines differ. The exit status is 1 if the columns are slower on plain records. With zstd both spend
most of their time in two builds of the same library, so that line does not count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from aiokafka.record import _crecords, memory_records
from batches import word_batches

from conformance.pipeline.audit import record_kernels
from conformance.pipeline.audit.batch_columns import read_batch

RECORDS = 1_000
BATCHES = 40
ROUNDS = 7


def ours(data: bytes) -> int:
    """Return the number of records in the columns."""
    at = found = 0
    while at < len(data):
        batch = read_batch(data, at)
        assert batch is not None, f"the batch at byte {at} is not clean"
        if batch.header_count:
            batch.headers()
        found += len(batch.rows)
        at += 12 + batch.header.batchLength
    return found


def theirs(data: bytes) -> int:
    """Return the number of records that aiokafka returns; read every field."""
    found = 0
    log = memory_records.MemoryRecords(data)
    while (batch := log.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            _ = record.offset, record.timestamp, record.key, record.value, record.headers
            found += 1
    return found


def rate(work: Callable[[bytes], int], data: bytes) -> float:
    """Return the records per second of one round."""
    start = time.perf_counter()
    found = work(data)
    assert found == BATCHES * RECORDS, found
    return found / (time.perf_counter() - start)


def main() -> None:
    """Print a line for each kind of batch; fail if the columns are slower."""
    assert memory_records.MemoryRecords is _crecords.MemoryRecords, "aiokafka runs without its C extension"
    if not record_kernels.compile_all():
        sys.exit("numba is not installed: nothing to measure")
    print(f"{'records':<28} {'columns':>14} {'aiokafka (C)':>14}   ratio")
    behind = False
    for size in (100, 1_000):
        for name, headers in (("none", 0), ("none", 2), ("zstd", 0)):
            data = b"".join(word_batches(range(0, BATCHES * RECORDS, RECORDS), RECORDS, size, name, headers))
            assert ours(data) == theirs(data)
            found = [(rate(ours, data), rate(theirs, data)) for _ in range(ROUNDS)]
            mine, other = (sorted(column)[ROUNDS // 2] for column in zip(*found, strict=True))
            label = f"{size} B, {name}" + (f", {headers} headers" if headers else "")
            print(f"{label:<28} {mine:>12,.0f}/s {other:>12,.0f}/s   {mine / other:.1f}")
            behind |= name == "none" and mine <= other
    sys.exit("the columns are behind" if behind else 0)


if __name__ == "__main__":
    main()
