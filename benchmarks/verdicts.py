"""Digests of the judge: one over every verdict and its attribution, one over the case that catches each seeded fault.

    python benchmarks/verdicts.py [--tried N] [--lines FILE]

Run it before and after a change that must not change a verdict. Equal digests mean that all fields of the verdict for
the same answer, its requirement, level, disputed verdicts and cause are equal, and that the same case catches each
seeded fault. With --lines, FILE gets one line per verdict and per fault, so that `diff` shows the lines that differ.
"""

import argparse
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from judge_answers import pairs_of
from msgspec.structs import asdict

from conformance.cases.attribution import attribute
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.judging.judge import judge
from conformance.runner.results import failure_cause
from conformance.selftest import FAULTS
from conformance.selftest.runner import trials


def verdict_lines(catalog: Catalog, tried: int) -> Iterator[str]:
    """Yield one line per answer: its source, the case, and the verdict with its attribution."""
    for source, case, outcome in pairs_of(catalog, tried):
        verdict, row, level, disputed = attribute(case, judge(case, outcome), catalog.requirements)
        fields = [(name, str(value)) for name, value in asdict(verdict).items()]
        requirement = row.id if row else ""
        cause = failure_cause(case, outcome, verdict)
        yield f"{case.id} | {source} | {fields} {requirement} {level} {sorted(map(str, disputed))} {cause.text}"


def fault_lines(jobs: int) -> Iterator[str]:
    """Yield one line per seeded fault: its id, and the first case that catches it."""
    for trial in trials(sorted(FAULTS), jobs):
        yield f"{trial.fault} | {trial.caught_by}"


def digest(lines: Iterable[str]) -> str:
    """Return one digest over lines."""
    return hashlib.sha256("\n".join(lines).encode("utf-8", "backslashreplace")).hexdigest()


def main() -> None:
    """Print the number of lines and the digest of both kinds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tried", type=int, default=3000, help="cases that each seeded fault answers [3000]")
    parser.add_argument("--jobs", type=int, default=2, help="processes for the seeded faults [2]")
    parser.add_argument("--lines", type=Path, help="write all lines to this file")
    options = parser.parse_args()
    kinds = {"verdicts": verdict_lines(read_catalog(), options.tried), "faults": fault_lines(options.jobs)}
    written = []
    for kind, lines in kinds.items():
        found = sorted(lines)
        print(f"{kind}: {len(found)}, {digest(found)}", flush=True)
        written += found
    if options.lines:
        options.lines.write_text("\n".join(written) + "\n", encoding="utf-8", errors="backslashreplace")


if __name__ == "__main__":
    main()
