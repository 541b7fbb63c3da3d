"""What damaged batches, message sets and logs cost the reference codec: only violations, little time, little memory.

    python benchmarks/hostile.py                          # 100,000 batches
    python benchmarks/hostile.py --type LOG --count 20000 --seed 1
    python benchmarks/hostile.py --growth                 # ten times the input
    python benchmarks/hostile.py --results 100000         # the memory of a run in which so many cases fail

Generated values in every codec are damaged once each and decoded; every other value has payloads that are really
compressed (the generator only stores). There are bounds for exceptions (the codec must raise none), for the CPU time of
a decode, and for the memory that Python allocates during one. Exit status 1 when a bound is broken; the bytes are
printed. The memory of the libraries is not Python's: it shows in the growth of the process, which has a bound too.

With `--growth`, each codec, count and question of tests/shared/growing.py is timed at a size and at ten times the size;
tests/codec/test_growth.py counts the same work.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests" / "shared")]

import hostile_results
from growing import GROWING, Row

from conformance import codec
from conformance.cases.model import ExpectAnyOf, ExpectRejection
from conformance.catalog.case_builder import expectation
from conformance.strategies.seeded.generator import GeneratedValue, generate
from conformance.strategies.seeded.mutations import MUTATIONS, mutate
from conformance.strategies.seeded.random_choices import RandomChoices

TYPES = ("RECORD_BATCH", "MESSAGE_SET", "LOG")
SLOWEST = 0.1
"""Seconds of CPU time for one value."""
LARGEST = 64 * 2**20
"""Bytes that one may allocate, and bytes by which the process may grow in all."""
_WARM_UP = 200
"""Values after which the process has loaded and cached what it ever will."""
_AT_ONCE = 500
OUTCOMES = ("accepted", "refused", "open", "raised")


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged value: what rebuilds it, its type, the mutation it went through, its bytes."""

    id: str
    type: str
    mutation: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """What became of a value, its CPU seconds, the most bytes allocated for it, and the exception if there was one."""

    outcome: str
    seconds: float
    memory: int
    error: str = ""

    @property
    def broken(self) -> str:
        """The bound that is broken; empty when none is."""
        if self.error:
            return f"raised {self.error}"
        if self.seconds > SLOWEST:
            return f"took {self.seconds * 1000:.1f} ms"
        return f"allocated {self.memory:,} bytes" if self.memory > LARGEST else ""


def damaged(name: str, count: int, seed: int) -> Iterator[Damaged]:
    """`count` damaged values of a type; a seed gives the same on every machine, except for the compressors' output."""
    for index in range(count):
        identity = f"hostile/{seed}/{index}"
        choices = RandomChoices(identity)
        whole = generate(name, choices)
        data = _compressed(name, whole) if index % 2 else whole.data
        data, mutation = mutate(name, data, choices)
        yield Damaged(identity, name, mutation, data)


def _compressed(name: str, whole: GeneratedValue) -> bytes:
    """The same entries as the codec writes them: with compressed payloads."""
    if name == "RECORD_BATCH":
        return codec.wire(name).encode(whole.value)
    log = codec.decode("LOG", whole.data).value
    return codec.wire("LOG").encode({**log, "partial": 0}) + whole.data[len(whole.data) - log["partial"] :]


def costs(some: Sequence[Damaged]) -> Iterator[tuple[Damaged, Cost]]:
    """Decode values twice: against the clock, then with every allocation counted, which is slow."""
    times = [_timed(one.type, one.data) for one in some]
    # Started once for many values: every start and stop leaves a few kilobytes behind.
    tracemalloc.start()
    try:
        for one, (seconds, error) in zip(some, times, strict=True):
            outcome, memory, again = _weighed(one.type, one.data)
            yield one, Cost("raised" if error or again else outcome, seconds, memory, error or again)
    finally:
        tracemalloc.stop()


def _timed(name: str, data: bytes) -> tuple[float, str]:
    """CPU seconds of a decode, and what it raised; a slow one is timed again, since other work may have interfered."""
    least = math.inf
    try:
        for _ in range(2):
            start = time.thread_time()
            codec.decode(name, data)
            least = min(least, time.thread_time() - start)
            if least <= SLOWEST:
                break
    except Exception as error:  # noqa: BLE001 - the benchmark counts exceptions
        return 0.0, f"{type(error).__name__}: {error}"
    return least, ""


def _weighed(name: str, data: bytes) -> tuple[str, int, str]:
    """What becomes of bytes, the most that Python allocates for them, and what was raised."""
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    try:
        expect, _ = expectation(codec.wire(name), data)
    except Exception as error:  # noqa: BLE001 - the benchmark counts exceptions
        return "", 0, f"{type(error).__name__}: {error}"
    outcome = (
        "open" if isinstance(expect, ExpectAnyOf) else "refused" if isinstance(expect, ExpectRejection) else "accepted"
    )
    return outcome, tracemalloc.get_traced_memory()[1] - before, ""


def _all_costs(values: Iterator[Damaged]) -> Iterator[tuple[Damaged, Cost]]:
    while some := [*islice(values, _AT_ONCE)]:
        yield from costs(some)


def _high_water() -> int:
    """The most bytes that were ever resident."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def table(counts: Counter[tuple[str, str]]) -> Iterator[str]:
    """A line for each mutation: how many values, and what became of them."""
    yield f"{'mutation':<18}" + "".join(f"{name:>10}" for name in ("values", *OUTCOMES))
    for mutation in (*MUTATIONS, "all"):
        row = [
            sum(number for (of, what), number in counts.items() if what == outcome and mutation in (of, "all"))
            for outcome in OUTCOMES
        ]
        yield f"{mutation:<18}" + "".join(f"{number:>10,}" for number in (sum(row), *row))


_SIZE = 200


def growth() -> int:
    """Time each row at a size and at ten times the size, and print both and their ratio."""
    print(f"{'what there are ten times as many of':<42}{_SIZE:>10,}{10 * _SIZE:>10,}{'times':>8}")
    for name, row in GROWING.items():
        small, large = (min(_seconds(row, size) for _ in range(3)) for size in (_SIZE, 10 * _SIZE))
        print(f"{name:<42}{small * 1000:>7.2f} ms{large * 1000:>7.1f} ms{large / small:>8.1f}")
    return 0


def _seconds(row: Row, size: int) -> float:
    deed = row(size)
    start = time.thread_time()
    deed()
    return time.thread_time() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a bound is broken."""
    parser = argparse.ArgumentParser(description="What damaged values cost the reference codec.")
    parser.add_argument("--type", choices=TYPES, default=TYPES[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--results", type=int)
    given = parser.parse_args(arguments)
    if given.results:
        return hostile_results.results(given.results)
    if given.growth:
        return growth()
    for _ in costs([*damaged(given.type, _WARM_UP, given.seed - 1)]):
        pass
    before, started = _high_water(), time.perf_counter()
    counts: Counter[tuple[str, str]] = Counter()
    slowest: tuple[float, str, int] = (0.0, "", 0)
    largest: tuple[int, str, int] = (0, "", 0)
    broken = 0
    for one, cost in _all_costs(damaged(given.type, given.count, given.seed)):
        counts[one.mutation, cost.outcome] += 1
        slowest = max(slowest, (cost.seconds, one.id, len(one.data)))
        largest = max(largest, (cost.memory, one.id, len(one.data)))
        if cost.broken:
            broken += 1
            print(f"{one.id} ({one.mutation}) {cost.broken}: {one.data.hex()}")
    grown = _high_water() - before
    print(*table(counts), sep="\n")
    print(
        f"\n{given.count:,} damaged values of {given.type}, seed {given.seed}, in {time.perf_counter() - started:.0f} s"
    )
    print(f"exceptions other than violations: {sum(counts[mutation, 'raised'] for mutation in MUTATIONS)}")
    print(f"slowest: {slowest[0] * 1000:.2f} ms of CPU time, {slowest[1]}, {slowest[2]:,} bytes")
    print(f"most memory for one: {largest[0]:,} bytes, {largest[1]}, {largest[2]:,} bytes")
    print(f"the process grew by {grown >> 10:,} KiB, including what the generator and the mutations took")
    if grown > LARGEST:
        print(f"that is more than the bound of {LARGEST >> 10:,} KiB")
    return int(broken > 0 or grown > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
