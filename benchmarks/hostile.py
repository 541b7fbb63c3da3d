"""The cost of damaged batches, message sets and logs in the reference codec: only violations, bounded time and memory.

    python benchmarks/hostile.py                          # 100,000 batches
    python benchmarks/hostile.py --type LOG --count 20000 --seed 1
    python benchmarks/hostile.py --growth                 # ten times the input
    python benchmarks/hostile.py --results 100000         # the memory of a run with this number of failures

Each generated value, in every codec, is damaged once and decoded; every second value has compressed payloads (the
generator only stores). There are bounds for exceptions (the codec must raise none), for the CPU time of a decode, and
for the memory that Python allocates during one. If a bound is broken, the exit status is 1 and the bytes are printed.
Memory of the libraries is not Python's: it is part of the growth of the process, which has a bound too.

With `--growth`, each codec, count and operation of tests/shared/growing.py is timed at one size and at ten times that
size; tests/codec/test_growth.py counts the same work.
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
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded.generator import GeneratedValue, generate
from conformance.strategies.seeded.mutations import MUTATIONS, mutate

TYPES = ("RECORD_BATCH", "MESSAGE_SET", "LOG")
SLOWEST = 0.1
"""Seconds of CPU time for one value."""
LARGEST = 64 * 2**20
"""Bytes that one decode may allocate, and bytes of total process growth."""
_WARM_UP = 200
"""Values until all modules are loaded and all caches are filled."""
_AT_ONCE = 500
OUTCOMES = ("accepted", "refused", "open", "raised")


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged value: its id, type, mutation and bytes."""

    id: str
    type: str
    mutation: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """The outcome of a decode, its CPU seconds, its peak of allocated bytes, and the exception, if any."""

    outcome: str
    seconds: float
    memory: int
    error: str = ""

    @property
    def broken(self) -> str:
        """The broken bound, or "" if there is none."""
        if self.error:
            return f"raised {self.error}"
        if self.seconds > SLOWEST:
            return f"took {self.seconds * 1000:.1f} ms"
        return f"allocated {self.memory:,} bytes" if self.memory > LARGEST else ""


def damaged(name: str, count: int, seed: int) -> Iterator[Damaged]:
    """Yield `count` damaged values of a type, the same on each machine except for the compressors' output."""
    for index in range(count):
        identity = f"hostile/{seed}/{index}"
        choices = RandomChoices(identity)
        whole = generate(name, choices)
        data = _compressed(name, whole) if index % 2 else whole.data
        data, mutation = mutate(name, data, choices)
        yield Damaged(identity, name, mutation, data)


def _compressed(name: str, whole: GeneratedValue) -> bytes:
    """Return the same entries written by the codec, with compressed payloads."""
    if name == "RECORD_BATCH":
        return codec.wire(name).encode(whole.value)
    log = codec.decode("LOG", whole.data).value
    return codec.wire("LOG").encode({**log, "partial": 0}) + whole.data[len(whole.data) - log["partial"] :]


def costs(some: Sequence[Damaged]) -> Iterator[tuple[Damaged, Cost]]:
    """Decode values twice: with a clock, then with a count of allocations, which is slow."""
    times = [_timed(one.type, one.data) for one in some]
    # Started once for many values, because each start and stop leaks a few kilobytes.
    tracemalloc.start()
    try:
        for one, (seconds, error) in zip(some, times, strict=True):
            outcome, memory, again = _weighed(one.type, one.data)
            yield one, Cost("raised" if error or again else outcome, seconds, memory, error or again)
    finally:
        tracemalloc.stop()


def _timed(name: str, data: bytes) -> tuple[float, str]:
    """Return the CPU seconds of a decode and its exception; time a slow one again, in case of other load."""
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
    """Return the outcome of a decode, its peak of allocated bytes, and its exception."""
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
    """Return the peak of resident bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def table(counts: Counter[tuple[str, str]]) -> Iterator[str]:
    """Return a line for each mutation with the number of values and their outcomes."""
    yield f"{'mutation':<18}" + "".join(f"{name:>10}" for name in ("values", *OUTCOMES))
    for mutation in (*MUTATIONS, "all"):
        row = [
            sum(number for (of, what), number in counts.items() if what == outcome and mutation in (of, "all"))
            for outcome in OUTCOMES
        ]
        yield f"{mutation:<18}" + "".join(f"{number:>10,}" for number in (sum(row), *row))


_SIZE = 200


def growth() -> int:
    """Time each row at one size and at ten times that size, and print both and their ratio."""
    print(f"{'what there are ten times as many of':<42}{_SIZE:>10,}{10 * _SIZE:>10,}{'times':>8}")
    for name, row in GROWING.items():
        small, large = (min(_seconds(row, size) for _ in range(3)) for size in (_SIZE, 10 * _SIZE))
        print(f"{name:<42}{small * 1000:>7.2f} ms{large * 1000:>7.1f} ms{large / small:>8.1f}")
    return 0


def _seconds(row: Row, size: int) -> float:
    work = row(size)
    start = time.thread_time()
    work()
    return time.thread_time() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a bound is broken."""
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
