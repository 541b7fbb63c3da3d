"""Digests that show if a code change changed a case: one over all vectors, one over generated cases.

    python benchmarks/digest.py [--generated N] [--lines FILE]

Run it before and after a change. Equal digests mean: the ids, requests, bytes and expectations of every case are equal.
With --lines, FILE gets one line per case with its digest and id, so that `diff` shows the cases that differ.
"""

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from conformance.cases.model import Case
from conformance.catalog.catalog_builder import read_catalog
from conformance.reports.explain import expected_json
from conformance.strategies.seeded.cases import TYPES, generated_cases


def content(case: Case) -> list[Any]:
    """Return the request and the expectation of a case, without texts for people."""
    expect = case.expect
    unchecked = getattr(expect, "unchecked", None)
    return [
        *(case.id, case.op, case.type, case.requirement, case.level, case.request, expected_json(case)),
        [getattr(expect, name, None) for name in ("error", "ignoring", "open")],
        repr((unchecked.records, unchecked.next_offset)) if unchecked is not None else None,
        *(case.data.hex() if case.data is not None else None, list(case.checked_fields)),
        *(sorted(case.disputed), sorted(case.codecs), sorted(case.magics)),
    ]


def lines(cases: Iterable[Case]) -> Iterator[str]:
    """Return one line per case: the digest of its content, and its id."""
    for case in cases:
        text = json.dumps(content(case), sort_keys=True, default=str)
        yield f"{hashlib.sha256(text.encode()).hexdigest()} {case.id}"


def main() -> None:
    """Print the number and the digest of both kinds of cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generated", type=int, default=1300, help="generated cases per type [1300: about 100,000]")
    parser.add_argument("--lines", type=Path, help="write one line a case to this file")
    options = parser.parse_args()
    catalog = read_catalog(())
    kinds = {
        "vectors": catalog.cases.values(),
        "generated": generated_cases(TYPES, options.generated, 0, catalog),
    }
    written = []
    for kind, cases in kinds.items():
        found = list(lines(cases))
        print(f"{kind}: {len(found)} cases, {hashlib.sha256(chr(10).join(found).encode()).hexdigest()}")
        written += found
    if options.lines:
        options.lines.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
