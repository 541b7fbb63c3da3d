"""How many vector cases a second the harness judges, and what each case costs on our side.

    python benchmarks/harness.py

Every bundled decode case goes to a subprocess that does as little as a target can: one accepts everything without a
value, one refuses everything, one is the reference. Every case is judged. Compare the figures of one run with one
another; machines differ.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from conformance.cases.catalog import Catalog, read_catalog
from conformance.cases.model import Case, Outcome
from conformance.judging.judge import judge
from conformance.running.executor import judge_target
from conformance.running.policy import FailurePolicy
from conformance.running.results import Result, TargetRun
from conformance.targets import protocol
from conformance.targets.launch import Launch
from conformance.targets.target import TargetSpec

TRIVIAL = """
import os, re, sys
describe = b'{"id":%s,"ok":true,"protocol":1,"name":"trivial","supports":{"decode":[TYPES]}}'
answer, number, rest = b'{"id":%s,ANSWER}', re.compile(rb'{"id":(\\d+),"op":"(d)?'), b""
while chunk := os.read(0, 1 << 16):
    *lines, rest = (rest + chunk).split(b"\\n")
    out = [(describe if b'"describe"' in line[:40] else answer) % number.match(line)[1] for line in lines]
    os.write(1, b"".join(line + b"\\n" for line in out))
"""
ROUNDS = 5
CASES = 20_000


def trivial(folder: Path, name: str, answer: str, types: Sequence[str]) -> Launch:
    """A target that gives one answer to everything."""
    program = folder / f"{name}.py"
    claimed = ",".join(f'"{kind}"' for kind in types)
    program.write_text(TRIVIAL.replace("ANSWER", answer).replace("TYPES", claimed))
    return Launch(name, (sys.executable, str(program)))


def rates(label: str, cases: Sequence[Case], work: Callable[[], Iterator[object]]) -> float:
    """Run `work` several times over all cases; prints and returns the median rate."""
    found = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        count = sum(1 for _ in work())
        assert count >= len(cases), f"{label}: {count} of {len(cases)} cases came back"
        found.append(count / (time.perf_counter() - start))
    found.sort()
    middle = found[ROUNDS // 2]
    print(f"{label:<44} {middle:>10,.0f} cases/s  ({1e6 / middle:5.1f} µs each; {found[0]:,.0f} to {found[-1]:,.0f})")
    return middle


def judged(spec: TargetSpec, cases: Sequence[Case], catalog: Catalog) -> Iterator[Result]:
    """The results of a target on cases."""
    run = TargetRun(spec.name)
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy())
    return iter(run.results)


def main() -> None:
    """Print the table."""
    catalog = read_catalog()
    decodes = [case for case in catalog.cases.values() if case.op == "decode" and len(case.data or b"") <= 256]
    cases = (decodes * (CASES // len(decodes) + 1))[:CASES]
    types = sorted({case.type for case in decodes})
    print(
        f"{len(cases):,} decode cases, {sum(len(case.data or b'') for case in cases) // len(cases)} bytes on average\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        targets = {
            "accepts everything, shows nothing": trivial(Path(folder), "accepts", '"ok":true', types),
            "refuses everything": trivial(Path(folder), "refuses", '"ok":false,"error":"malformed"', types),
            "the reference, behind `serve`": Launch("ref", (sys.executable, "-m", "conformance", "serve", "reference")),
        }
        for jobs in (1, 2):
            for label, launch in targets.items():
                spec = TargetSpec("t", launch, jobs=jobs)
                rates(f"{label}, {jobs} job(s)", cases, lambda spec=spec: judged(spec, cases, catalog))
    print()
    refused: Outcome = protocol.outcome({"ok": False, "error": "malformed"})
    rates("of which: judging alone", cases, lambda: (judge(case, refused) for case in cases))
    rates(
        "of which: writing requests alone",
        cases,
        lambda: (protocol.with_id(1, protocol.body(case.request)) for case in cases),
    )
    line = b'{"id":1,"ok":false,"error":"malformed"}'
    rates("of which: reading answers alone", cases, lambda: (protocol.outcome(protocol.fields(line, 1)) for _ in cases))
    print()
    startup = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "conformance", "--version"], check=True, capture_output=True)
        startup.append(time.perf_counter() - start)
    print(f"conformance --version: {sorted(startup)[ROUNDS // 2]:.3f} s")
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "conformance", "run", "reference", "--quiet", "--generated", "0"],
        check=True,
        capture_output=True,
    )
    took = time.perf_counter() - start
    print(f"conformance run reference --generated 0, {len(catalog.cases)} cases, from the shell: {took:.2f} s")


if __name__ == "__main__":
    main()
