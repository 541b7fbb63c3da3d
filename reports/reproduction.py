"""The command that puts the case of a result to its target again."""

from __future__ import annotations

import json
import shlex

from conformance.cases.from_reference import as_given
from conformance.cases.model import Case, CaseKind
from conformance.cases.operations import parts_of
from conformance.running.results import Result

_LONGEST = 1024
"""Bytes that a command carries in itself."""


def reproduce(result: Result, origin: str = "") -> str:
    """One command that puts the case to the target again; for a large shrunk case, the case `origin` it came from."""
    label, command = result.label, ["conformance", "run", result.target]
    if label.defined_in:
        command += ["--definitions", label.defined_in]
    if label.kind is CaseKind.PROBE:
        return shlex.join(["conformance", "doctor", result.target])
    if label.kind in (CaseKind.VECTOR, CaseKind.GENERATED):
        further = ["--vectors", label.origin] if label.origin else []
        return shlex.join([*command, *further, "--select", label.id])
    return shlex.join([*command, *_in_full(label if isinstance(label, Case) else label.unpacked(), origin)])


def _in_full(case: Case, origin: str) -> list[str]:
    """The options that name a case by what it asks, or, where that is long, by where it came from."""
    if case.op != "decode":
        given = json.dumps(as_given(parts_of(case)))
        if len(given) <= 2 * _LONGEST or not origin:
            return ["--op", case.op, "--case", f"{case.type}:{given}"]
        return ["--select", origin]
    assert case.data is not None
    if len(case.data) <= _LONGEST:
        return ["--case", f"{case.type}:{case.data.hex()}"]
    return ["--case", f"{case.type}:@{case.origin}"] if case.origin else ["--select", origin]
