"""Distinct generated failures as vector files, ready for `--vectors`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from conformance import codec
from conformance.cases import AnyOf, Case, Expectation, Reads, Refuses, Writes
from conformance.codec.notation import UNSHOWN
from conformance.results import Shrunk, TargetRun


def save_all(runs: Sequence[TargetRun], folder: Path) -> list[Path]:
    """Write one file for each distinct failure; the files' paths. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for run in runs:
        for shrunk in run.shrunk:
            vector = as_vector(shrunk)
            if vector is None:
                continue
            case = shrunk.result.case
            path = folder / (
                re.sub(r"[^A-Za-z0-9]+", "-", f"{case.type}-{case.op}-{case.id.rpartition('/')[2]}") + ".yaml"
            )
            text = yaml.safe_dump([vector], sort_keys=False, allow_unicode=False, width=1000, default_style=None)
            path.write_text(
                f"# {shrunk.count} generated cases fail like this for {run.name}; from {shrunk.origin}\n{text}"
            )
            paths.append(path)
    return paths


def as_vector(shrunk: Shrunk) -> dict[str, Any] | None:
    """The vector of a shrunk failure; None where its expectation cannot be said in one."""
    case = shrunk.result.case
    found: dict[str, Any] = {"id": _identity(case), "type": case.type, "requirement": case.requirement}
    if case.op == "encode":
        found["value"] = case.request["value"]
        if isinstance(case.expect, Refuses):
            found["reject"] = "invalid-value"
        elif isinstance(case.expect, Writes):
            found["hex"] = case.expect.data.hex()
        else:
            return None
    else:
        assert case.data is not None
        found["hex"] = case.data.hex()
        found |= _expected(case, shrunk.result.verdict.path)
    found["note"] = shrunk.result.verdict.detail
    found["source"] = f"derived: {shrunk.origin}"
    return found


def _identity(case: Case) -> str:
    """Shrunk cases have an id of their own; one that was not shrunk gets it here, as vectors are no `gen/` cases."""
    from conformance.generated import ad_hoc_id

    return ad_hoc_id(case.type, case.data, case.request.get("value")) if case.id.startswith("gen/") else case.id


def _expected(case: Case, path: str) -> dict[str, Any]:
    match case.expect:
        case Refuses(_, said):
            return {"reject": said}
        case Reads(value, consumed):
            about = [re.sub(r"\[\d+\]", "", path)] if path and path not in ("value", "consumed") else []
            stated = {"value": codec.wire(case.type).notation.render(value), "canonical": False, "about": about}
            assert case.data is not None
            return stated if consumed == len(case.data) else {**stated, "consumed": consumed}
        case AnyOf(readings):
            return {"either": [_reading(case, reading) for reading in readings] or "any"}
        case _:
            raise AssertionError("a decode case expects a reading or a refusal")


def _reading(case: Case, reading: Expectation) -> Any:
    if not isinstance(reading, Reads):
        return "reject"
    shown = {} if reading.value is UNSHOWN else {"value": codec.wire(case.type).notation.render(reading.value)}
    return shown if reading.consumed is None else {**shown, "consumed": reading.consumed}
