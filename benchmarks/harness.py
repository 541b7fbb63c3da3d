"""Vector cases per second of the harness, and the cost of each case on our side.

    python benchmarks/harness.py

Every bundled decode case goes to minimal subprocesses: one looks up the correct answer, one accepts everything without
a value, one rejects everything; one is the reference. Every case is judged, as in a run. The bare echo for comparison
sends the same requests to the same program, with as many in flight, and only parses each answer as JSON. Rounds of
both alternate. Compare only figures of one run, because machines differ.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from conformance.cases.model import Case, Outcome
from conformance.cases.stored_cases import StoredCase, expected_answer
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.judging.judge import judge
from conformance.process.launcher import LaunchSpec, own_python
from conformance.runner.executor import judge_target
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import Result, TargetRun
from conformance.targets import protocol
from conformance.targets.protocol import RequestBody
from conformance.targets.session import WINDOW
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
RIGHT = """
import os, re, sys
describe = b'{"id":%s,"ok":true,"protocol":1,"name":"right","supports":{"decode":[TYPES]}}'
number, rest, right = re.compile(rb'{"id":(\\d+),'), b"", {}
with open("ANSWERS", "rb") as answers:
    for line in answers:
        request, answer = line.split(b"\\t")
        right[request] = answer
while chunk := os.read(0, 1 << 16):
    *lines, rest = (rest + chunk).split(b"\\n")
    out = []
    for line in lines:
        id = number.match(line)
        request = line[id.end() :]
        out.append(b'{"id":%s,%s' % (id[1], right[request]) if request in right else describe % id[1] + b"\\n")
    os.write(1, b"".join(out))
"""
ROUNDS = 5
CASES = 20_000


def trivial(folder: Path, name: str, answer: str, types: Sequence[str]) -> LaunchSpec:
    """Return a target with one answer to everything."""
    program = folder / f"{name}.py"
    claimed = ",".join(f'"{kind}"' for kind in types)
    program.write_text(TRIVIAL.replace("ANSWER", answer).replace("TYPES", claimed))
    return LaunchSpec(name, (sys.executable, str(program)))


def right(folder: Path, cases: Sequence[StoredCase], types: Sequence[str]) -> LaunchSpec:
    """Return a target that looks up the expected answer."""
    program, answers = folder / "right.py", folder / "answers"
    answers_by_request = {case.request_json()[1:]: msgspec.json.encode(answer_of(case))[1:] for case in cases}
    answers.write_bytes(b"".join(b"%b\t%b\n" % pair for pair in answers_by_request.items()))
    claimed = ",".join(f'"{kind}"' for kind in types)
    program.write_text(RIGHT.replace("ANSWERS", str(answers)).replace("TYPES", claimed))
    return LaunchSpec("right", (sys.executable, str(program)))


def answer_of(case: StoredCase) -> object:
    """Return the expected answer, or a rejection."""
    answer = expected_answer(case.to_case())
    return {"ok": True, **answer} if answer else {"ok": False, "error": case.expected_error or "malformed"}


Work = Callable[[], Iterator[object]]


def rate(cases: Sequence[object], work: Work) -> float:
    """Return the cases per second of one round."""
    start = time.perf_counter()
    count = sum(1 for _ in work())
    assert count >= len(cases), f"{count} of {len(cases)} cases came back"
    return count / (time.perf_counter() - start)


def show(label: str, found: Sequence[float], suffix: str = "") -> None:
    """Print the median, the minimum and the maximum of rates."""
    low, *_, high = found = sorted(found)
    middle = found[len(found) // 2]
    spread = f"({1e6 / middle:5.1f} µs each; {low:,.0f} to {high:,.0f})"
    print(f"{label:<44} {middle:>10,.0f} cases/s  {spread}{suffix}")


def rates(label: str, cases: Sequence[object], work: Work) -> None:
    """Run `work` several times over all cases, and print its rate."""
    show(label, [rate(cases, work) for _ in range(ROUNDS)])


def show_with_echo(label: str, cases: Sequence[object], work: Work, echoed: Work) -> None:
    """Print the rate of `work` and its ratio to a bare echo, measured in turns."""
    pairs = [(rate(cases, work), rate(cases, echoed)) for _ in range(ROUNDS)]
    mine, bare = (list(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs)
    show(label, mine, f"  {ratio:.2f} of a bare echo, {statistics.median(bare):,.0f}/s")


def echo(launch: LaunchSpec, cases: Sequence[StoredCase]) -> Iterator[object]:
    """Send requests and parse the answers as JSON, concurrently and without other work."""
    requests = (RequestBody(case.request_json()).with_id(at) for at, case in enumerate(cases))
    decode, rest, missing = msgspec.json.Decoder().decode, b"", len(cases)
    with subprocess.Popen(launch.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(islice(requests, WINDOW)))
        while missing:
            *lines, rest = (rest + process.stdout.read(1 << 16)).split(b"\n")
            missing -= len(lines)
            process.stdin.write(b"".join(islice(requests, len(lines))))
            yield from map(decode, lines)
        process.stdin.close()


def judged(spec: TargetSpec, cases: Sequence[Case], catalog: Catalog) -> Iterator[Result]:
    """Return the results of a target on cases."""
    run = TargetRun(spec.name)
    judge_target(spec, run, cases, catalog.requirements, FailurePolicy())
    return iter(run.results)


def main() -> None:
    """Print the table."""
    catalog = read_catalog()
    decodes = [case for case in catalog.cases.summaries.values() if case.op == "decode" and case.size <= 256]
    cases = (decodes * (CASES // len(decodes) + 1))[:CASES]
    types = sorted({case.type for case in decodes})
    print(f"{len(cases):,} decode cases, {sum(case.size for case in cases) // len(cases)} bytes on average\n")
    with tempfile.TemporaryDirectory() as folder:
        targets = {
            "looks the right answer up": right(Path(folder), decodes, types),
            "accepts everything, shows nothing": trivial(Path(folder), "accepts", '"ok":true', types),
            "refuses everything": trivial(Path(folder), "refuses", '"ok":false,"error":"malformed"', types),
            "the reference, behind `serve`": LaunchSpec("ref", own_python("conformance", "serve", "reference")),
        }
        for jobs in (1, 2):
            for label, launch in targets.items():
                spec = TargetSpec("t", launch, jobs=jobs)
                show_with_echo(
                    f"{label}, {jobs} job(s)",
                    cases,
                    lambda spec=spec: judged(spec, cases, catalog),
                    lambda launch=launch: echo(launch, cases),
                )
    print()
    refused: Outcome = protocol.outcome({"ok": False, "error": "malformed"})
    unpacked: Sequence[Case] = [case.to_case() for case in cases]
    rates("of which: judging alone", cases, lambda: (judge(case, refused) for case in unpacked))
    rates(
        "of which: writing requests alone",
        cases,
        lambda: (RequestBody(case.request_json()).with_id(1) for case in cases),
    )
    line = b'{"id":1,"ok":false,"error":"malformed"}'
    rates("of which: reading answers alone", cases, lambda: (protocol.outcome(protocol.fields(line, 1)) for _ in cases))
    print()
    startup = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run(own_python("conformance", "--version"), check=True, capture_output=True)
        startup.append(time.perf_counter() - start)
    print(f"conformance --version: {sorted(startup)[ROUNDS // 2]:.3f} s")
    start = time.perf_counter()
    subprocess.run(
        own_python("conformance", "run", "reference", "--quiet", "--generated", "0"),
        check=True,
        capture_output=True,
    )
    took = time.perf_counter() - start
    print(f"conformance run reference --generated 0, {len(catalog.cases)} cases, from the shell: {took:.2f} s")


if __name__ == "__main__":
    main()
