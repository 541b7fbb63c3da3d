"""An hour of hostile inputs, targets and files for the suite.

    python benchmarks/hour.py inputs                       # 1,000,000 mutated requests to the reference
    python benchmarks/hour.py inputs --count 20000 --seed 1
    python benchmarks/hour.py targets                      # each behaviour of tests/shared/hostile_targets.py
    python benchmarks/hour.py files                        # 1,000 damaged files

Inputs: damaged values of every type in requests to decode, read and convert; values to encode with a replaced part;
protocol lines with wrong bytes. An answer may not raise an exception or take 100 ms of CPU time; a process stays below
500 MiB. Targets: each runs next to the reference, whose results must equal those of a separate run; no process may be
left, no traceback be shown, and the suite's process stays below 500 MiB. Files: no command may end with a traceback or
with the status of a defect. If a bound is broken, the exit status is 1 and the input is printed.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from conformance import codec
from conformance.definitions.loader import shipped_types
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded.cases import message_types
from conformance.strategies.seeded.generator import generate, value
from conformance.strategies.seeded.mutations import mutate
from conformance.targets.reference import answer, serve

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests" / "shared")]

SLOWEST = 0.1
"""Seconds of CPU time for one answer."""
LARGEST = 500 << 20
"""Bytes of memory of a process."""
WHOLE = 64 << 10
"""Bytes of a large input, which is one in LARGE_ONES."""
LARGE_ONES = 500
_VARIANTS = 10
"""Requests from one generated value."""

Request = dict[str, object]


# --- inputs -------------------------------------------------------------------------------------------


def names() -> list[str]:
    """Return every type, arrays of some types, and every shipped message in every version."""
    arrays = [
        f"{form}<{element}>" for form in ("ARRAY", "COMPACT_ARRAY") for element in ("INT32", "COMPACT_STRING", "UUID")
    ]
    return [*codec.TYPES, *arrays, *message_types(shipped_types().messages.values())]


def requests(count: int, seed: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield `count` hostile requests, each an id and a function; a seed always gives the same ones."""
    types, all_names = shipped_types(), names()
    for index in range(-(-count // _VARIANTS)):
        identity = f"hour/{seed}/{index}"
        rng, choices = random.Random(identity), RandomChoices(identity)  # noqa: S311 - repeatable on purpose
        # A third are batches, sets and logs, the largest formats.
        name = (
            rng.choice(("RECORD_BATCH", "MESSAGE_SET", "LOG")) if index % 3 == 0 else all_names[index % len(all_names)]
        )
        wire = types.wire(name)
        data = generate(wire, choices).data
        if index % (LARGE_ONES // _VARIANTS) == 0:
            data = (data * (WHOLE // max(len(data), 1) + 1))[:WHOLE]
        for variant in range(min(_VARIANTS, count - index * _VARIANTS)):
            yield f"{identity}/{variant} ({name})", _request(variant, wire, data, rng, choices)


def _request(
    variant: int, wire: codec.WireType, data: bytes, rng: random.Random, choices: RandomChoices
) -> Callable[[], object]:
    named: Request = {"type": wire.name}
    if isinstance(wire, codec.MessageType):
        named = {"type": "MESSAGE", "message": wire.message.name, "version": wire.version}
    if variant == 0:
        replaced = _replaced(wire.notation.render(value(wire, choices)), rng)
        return lambda: answer({"op": rng.choice(("encode", "size")), **named, "value": replaced})
    if variant == 1:
        line = bytearray(json.dumps({"id": 0, "op": "decode", **named, "hex": data[:500].hex()}).encode())
        for _ in range(rng.randint(1, 4)):
            line[rng.randrange(len(line))] = rng.randrange(256)
        return lambda: serve([bytes(line)], io.BytesIO(), answer)
    damaged = mutate(wire, data, choices)[0] if len(data) < WHOLE and variant < 6 else data
    damaged = _damaged(damaged, rng) if variant > 3 else damaged
    if wire.name == "LOG" and variant == 8:
        return lambda: answer({"op": "read", "hex": damaged.hex(), "isolation": "read_committed", "fetchOffset": "0"})
    if wire.name == "LOG" and variant == 9:
        return lambda: answer({"op": "convert", "hex": damaged.hex(), "magic": rng.randrange(3)})
    return lambda: answer({"op": "decode", **named, "hex": damaged.hex()})


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with some changed, removed, repeated or replaced."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(out) + 1)
        stop = min(at + rng.choice((1, 1, 2, 4, 8, 64)), len(out))
        which = rng.randrange(4)
        if which == 0:
            out[at:stop] = rng.randbytes(stop - at)
        elif which == 1:
            del out[at:stop]
        elif which == 2:
            out[at:at] = out[at:stop]
        else:
            out[at:stop] = rng.choice((b"\xff", b"\0", b"\x80", b"\x7f")) * (stop - at)
    return bytes(out)


_JUNK = (None, True, -1, 1 << 40, 10**40, 1.5, float("nan"), "", "x", "\ud800", "9" * 50, "zz", [], [[]], {}, {"a": 1})


def _replaced(given: object, rng: random.Random) -> object:
    """Return a value with one part replaced at any depth."""
    if isinstance(given, dict) and given and rng.random() < 0.85:
        name = rng.choice(sorted(given))
        return {**given, name: _replaced(given[name], rng)}
    if isinstance(given, list) and given and rng.random() < 0.85:
        at = rng.randrange(len(given))
        return [*given[:at], _replaced(given[at], rng), *given[at + 1 :]]
    return rng.choice(_JUNK)


def judge_inputs(given: tuple[int, int]) -> tuple[Counter[str], float, str, int, list[str]]:
    """Answer `count` requests of a seed; return counts by kind, the slowest, the peak memory, and broken bounds."""
    count, seed = given
    kinds: Counter[str] = Counter()
    slowest, which, broken = 0.0, "", list[str]()
    for identity, send in requests(count, seed):
        try:
            seconds, kind = _timed(send)
        except BaseException:  # noqa: BLE001 - whatever it is, it is counted
            broken.append(f"{identity} raised\n{traceback.format_exc(limit=-3)}")
            continue
        kinds[kind] += 1
        slowest, which = max((slowest, which), (seconds, identity))
        if seconds > SLOWEST:
            broken.append(f"{identity} took {seconds * 1000:.0f} ms")
    return kinds, slowest, which, memory(resource.RUSAGE_SELF), broken


def _timed(send: Callable[[], object]) -> tuple[float, str]:
    """Return the CPU seconds of an answer, for a slow one the minimum of three, and its kind."""
    least = 1e9
    for _ in range(3):
        start = time.thread_time()
        answered = send()
        least = min(least, time.thread_time() - start)
        if least <= SLOWEST:
            break
    if not isinstance(answered, dict):
        return least, "a line"
    return least, "unsupported" if "unsupported" in answered else "accepted" if answered["ok"] else "refused"


def memory(who: int) -> int:
    """Return the peak of resident bytes of a process or of its ended children."""
    most = resource.getrusage(who).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def inputs(count: int, seed: int, jobs: int) -> list[str]:
    """Judge inputs in several processes, print the outcomes, and return the broken bounds."""
    started = time.perf_counter()
    with multiprocessing.Pool(jobs) as pool:
        results = pool.map(judge_inputs, [(count // jobs, seed + job) for job in range(jobs)])
    kinds = sum((result[0] for result in results), Counter[str]())
    broken = [line for result in results for line in result[4]]
    slowest, which = max((result[1], result[2]) for result in results)
    most = max(result[3] for result in results)
    print(
        f"{kinds.total():,} hostile requests, seeds {seed} to {seed + jobs - 1}, {time.perf_counter() - started:.0f} s"
    )
    print(", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common()))
    print(f"slowest: {slowest * 1000:.1f} ms of CPU time, {which}")
    print(f"most memory of a process: {most >> 20} MiB")
    return broken + ([f"a process took {most >> 20} MiB"] if most > LARGEST else [])


# --- the command --------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one part; return 1 if a bound is broken."""
    from hour_files import files
    from hour_targets import targets

    parser = argparse.ArgumentParser(description="What hostile inputs, targets and files do to the suite.")
    parser.add_argument("part", choices=("inputs", "targets", "files"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    if given.part == "inputs":
        broken = inputs(given.count or 1_000_000, given.seed, given.jobs)
    elif given.part == "targets":
        broken = targets(given.count, given.jobs)
    else:
        broken = files(given.count or 1000, given.seed)
    print(*(f"BROKEN {line}" for line in broken[:50]), sep="\n")
    print(f"{len(broken)} broken")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
