"""The part of hostile.py that measures the memory of a run, with a target whose answers are all wrong and long.

It answers each probe of a claim correctly, so that it gets all cases. Then each answer has 4,000 different
incompressible characters, the longest part of an answer that a result stores.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from peak import run_alone

from conformance.process.launcher import own_python

LARGEST = 500 << 20
"""Bytes of the suite's process."""

_TARGET = r"""
import json, random, sys
from conformance.targets.reference import answer

signs = [chr(sign) for sign in range(32, 127) if chr(sign) not in '"\\']
rng = random.Random(0)
text = "".join(rng.choices(signs, k=1 << 20))
seen = set()
for line in sys.stdin.buffer:
    request = json.loads(line)
    kind = request["op"], request.get("type")
    if kind in seen:
        at = rng.randrange(len(text) - 4000)
        response = {"ok": True, "consumed": -1, "hex": "ff", "size": -1, "more": text[at : at + 4000]}
    else:
        response = answer(request)
    seen |= {kind} - {("describe", None)}
    print(json.dumps({"id": request["id"], **response}), flush=True)
"""

_SIMPLE = ("BOOLEAN", "INT8", "INT16", "INT32", "INT64", "VARINT", "VARLONG", "UUID", "STRING", "COMPACT_STRING")
_CASES_OF_SIMPLE = 1.5
"""Cases per generated value of such a type."""
_VECTORS, _CASES_OF_ALL = 5_000, 103
"""Cases of the catalogue, and cases per generated value of every type."""


def results(count: int) -> int:
    """Judge the target on about `count` cases of simple types, then of every type, and print the memory of each run.

    Return 1 if either exceeds its bound.
    """
    simple = [part for name in _SIMPLE for part in ("--select", f"type:{name}")]
    runs = {
        "simple types": [*simple, "--generated", str(round(count / _CASES_OF_SIMPLE / len(_SIMPLE)))],
        "every type, rare values": ["--generated", str(max(1, (count - _VECTORS) // _CASES_OF_ALL))],
    }
    print(f"{'cases of':<26}{'results':>10}{'failures':>10}{'seconds':>10}{'memory':>10}")
    most = 0
    for name, options in runs.items():
        count_of_results, failing, seconds, memory = judged(options)
        most = max(most, memory)
        print(f"{name:<26}{count_of_results:>10,}{failing:>10,}{seconds:>10.0f}{memory >> 20:>6,} MiB")
    if most > LARGEST:
        print(f"that is more than the bound of {LARGEST >> 20} MiB")
    return int(most > LARGEST)


def judged(options: list[str]) -> tuple[int, int, float, int]:
    """Return the results and failures of a run with reports, its seconds, and the peak bytes of the suite's process."""
    with tempfile.TemporaryDirectory() as place:
        target, report = Path(place, "target.py"), Path(place, "report.json")
        target.write_text(_TARGET, encoding="utf-8")
        line = [*own_python("conformance", "run", f"command:{sys.executable} {target}"), *options]
        started = time.perf_counter()
        done, memory = run_alone([*line, "--json", str(report), "--junit", str(Path(place, "report.xml"))])
        seconds = time.perf_counter() - started
        if done.returncode not in (1, 3):  # 3: the answers show no part of the log
            raise SystemExit(f"status {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        # The summary is in the second line; the whole file may have half a gigabyte.
        with report.open(encoding="utf-8") as lines:
            next(lines)
            (counts,) = json.loads("{" + next(lines).strip().strip(",") + "}")["summary"].values()
    return sum(counts.values()) - counts["disputed"], counts["fail"], seconds, memory
