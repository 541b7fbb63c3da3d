"""The command that puts a case to a target, or several, again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from conformance.cases.model import Case, CaseKind
from conformance.cases.operations import parts_of
from conformance.cases.packed_cases import PackedCase
from conformance.catalog.case_builder import as_given
from conformance.runner.results import Result

_LONGEST = 1024
"""Bytes that a command carries in itself."""


def reproduce(result: Result, origin: str = "") -> str:
    """One command that puts the case to the target again; for a large shrunk case, the case `origin` it came from."""
    if result.label.kind is CaseKind.PROBE:
        return shlex.join(["conformance", "doctor", *_by(result.python), result.target])
    return command(result.label, [result.target], origin, result.python)


def command(label: Case | PackedCase, targets: Sequence[str], origin: str = "", python: str = "") -> str:
    """One command that puts a case to targets again; for a large shrunk case, the case `origin` it came from.

    `python` is the interpreter that was given for them.
    """
    words = ["conformance", "run", *targets, *_by(python)]
    if label.defined_in:
        words += ["--definitions", label.defined_in]
    if label.kind in (CaseKind.VECTOR, CaseKind.GENERATED):
        further = ["--vectors", label.origin] if label.origin else []
        return shlex.join([*words, *further, "--select", label.id])
    return shlex.join([*words, *_in_full(label if isinstance(label, Case) else label.unpacked(), origin)])


def _by(python: str) -> list[str]:
    return ["--python", python] if python else []


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
