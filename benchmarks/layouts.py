"""The gain of compiled readers and writers: generated cases per second, and records per second next to kafka-python.

    python benchmarks/layouts.py           # kafka-python's part needs the extra clients
    python benchmarks/layouts.py 20000     # the number of generated indexes

The cases are those of a campaign on all types: generated with their expectation, answered by the reference in process,
and judged; once with compiled readers and writers, once only with the interpreter of the tables. A few cases are
large, so cases of 100 to 400 bytes are also measured separately. The batches have 1,000 records of 100 bytes. Both
sides check the checksum and read every field of every record; kafka-python is measured twice: its batches, and its
consumer. All figures are CPU time of this process, independent of other load; rounds alternate and the best counts.
Compare only figures of one run, because machines differ.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from unittest.mock import patch

from batches import word_batches

from conformance import codec
from conformance.cases.model import Case
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.codec import dispatch
from conformance.judging.judge import judge
from conformance.strategies.seeded.cases import TYPES, cases_at
from conformance.targets.reference import ReferenceTarget

INDEXES = 10_000
SLICE = 1_000
MIDDLING = (100, 400)
"""Range in bytes: the goal applies to inputs of about 200 bytes."""
ROUNDS = 5
RECORDS, BATCHES = 1_000, 20


# --- generated cases ----------------------------------------------------------------------------------


class Cost(NamedTuple):
    """Seconds to generate, to answer and to judge."""

    making: float
    answering: float
    judging: float


Place = tuple[int, int]
"""An index of the generator, and a type by its number."""


def made(places: Sequence[Place], catalog: Catalog) -> list[Case]:
    """Return the cases of some places."""
    return [case for index, which in places for case in cases_at(TYPES[which], 0, index, catalog)]


def size_of(cases: Sequence[Case]) -> float:
    """Return the average bytes per case."""
    sizes = [len(case.data) for case in cases if case.data is not None]
    return sum(sizes) / len(sizes) if sizes else 0


def cost_of(places: Sequence[Place], catalog: Catalog, target: ReferenceTarget) -> tuple[int, Cost]:
    """Return the number of cases at some places, and their cost."""
    times = [time.process_time()]
    cases = made(places, catalog)
    times.append(time.process_time())
    outcomes = list(target.ask(cases))
    times.append(time.process_time())
    verdicts = [judge(case, outcome) for case, outcome in zip(cases, outcomes, strict=True)]
    times.append(time.process_time())
    return len(verdicts), Cost(*(after - before for before, after in pairwise(times)))


def campaign(indexes: int) -> None:
    """Print the cost of generated cases, compiled and interpreted: of all, and of those of medium size."""
    catalog = read_catalog()
    every = [divmod(drawn, len(TYPES)) for drawn in range(indexes)]
    middling = [place for place in every if MIDDLING[0] <= size_of(made([place], catalog)) <= MIDDLING[1]]
    low, high = MIDDLING
    for label, places in (("generated cases of all types", every), (f"those of {low} to {high} bytes", middling)):
        _compared(f"{label}, {size_of(made(places, catalog)):,.0f} bytes on the average", places, catalog)


def _compared(title: str, places: Sequence[Place], catalog: Catalog) -> None:
    target = ReferenceTarget()
    best: dict[tuple[bool, int], tuple[int, Cost]] = {}
    for _ in range(ROUNDS):
        for enabled in (True, False):
            for first in range(0, len(places), SLICE):
                with patch.object(dispatch, "COMPILED", enabled):
                    count, cost = cost_of(places[first : first + SLICE], catalog, target)
                before = best.get((enabled, first), (count, cost))[1]
                best[enabled, first] = count, Cost(*map(min, cost, before))
    print(f"{title}\n{'':<28} {'made':>8} {'answered':>9} {'judged':>7}   made and judged   answered besides")
    for enabled, label in ((True, "quick"), (False, "the interpreter alone")):
        parts = [found for (was, _), found in best.items() if was is enabled]
        count = sum(found for found, _ in parts)
        making, answering, judging = (sum(column) / count for column in zip(*(cost for _, cost in parts), strict=True))
        print(
            f"{label:<28} {making * 1e6:>5.0f} µs {answering * 1e6:>6.0f} µs {judging * 1e6:>4.0f} µs"
            f"   {1 / (making + judging):>13,.0f}/s   {1 / (making + answering + judging):>14,.0f}/s"
        )
    print()


# --- records ------------------------------------------------------------------------------------------


def ours(data: bytes) -> int:
    """Return the number of records that the codec reads and checks against the tables."""
    read = codec.decode("RECORD_BATCH", data)
    assert read.ok
    assert not read.remarks
    return len(read.value["records"])


def interpreted(data: bytes) -> int:
    """Return the same for the interpreter of the tables."""
    with patch.object(dispatch, "COMPILED", new=False):
        return ours(data)


def count_consumed(data: bytes) -> int:
    """Return the number of records of kafka-python's batches; read every field."""
    from kafka.record import MemoryRecords

    records, count = MemoryRecords(data), 0
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            _ = record.offset, record.timestamp, record.key, record.value, record.headers
            count += 1
    return count


def consumed(data: bytes) -> int:
    """Return the number of records of kafka-python's consumer, with its default checksum check."""
    from kafka.consumer.fetcher import Fetcher
    from kafka.record import MemoryRecords
    from kafka.structs import TopicPartition

    return len(Fetcher.PartitionRecords(0, TopicPartition("topic", 0), MemoryRecords(data)).take())


def rate(work: Callable[[bytes], int], batches: Sequence[bytes]) -> float:
    """Return the records per second of one round."""
    start = time.process_time()
    count = sum(map(work, batches))
    assert count == RECORDS * BATCHES, count
    return count / (time.process_time() - start)


def readers() -> Iterator[tuple[str, Callable[[bytes], int]]]:
    """Return the readers by name."""
    yield "quick", ours
    yield "the interpreter alone", interpreted
    try:
        import kafka
    except ImportError:
        return
    yield f"kafka-python {kafka.__version__}, batches", count_consumed
    yield f"kafka-python {kafka.__version__}, consumer", consumed


def decoding() -> None:
    """Print the records per second of each reader, and the ratio to the codec."""
    batches = word_batches(range(0, BATCHES * RECORDS, RECORDS), RECORDS, 100, "none")
    rates: dict[str, list[float]] = {}
    for _ in range(3 * ROUNDS):
        for label, work in readers():
            rates.setdefault(label, []).append(rate(work, batches))
    print(f"{'records of 100 bytes':<28} {'records':>13}   quick is so many times as fast")
    for label, found in rates.items():
        print(f"{label:<28} {max(found):>11,.0f}/s   {max(rates['quick']) / max(found):.2f}")


if __name__ == "__main__":
    campaign(int(sys.argv[1]) if len(sys.argv) > 1 else INDEXES)
    decoding()
