"""What a run as a whole exits with."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.cases.model import Kind
from conformance.errors import ExitStatus, overall
from conformance.running.results import TargetRun


def status_of(runs: Sequence[TargetRun], *, stale_entries: bool = False) -> ExitStatus:
    """The exit status of a run that came to its end; stale known failures fail it."""
    reasons = [ExitStatus.FAILED] if stale_entries else []
    for run in runs:
        if run.problem or not run.judged or any(result.verdict.kind is Kind.PROTOCOL for result in run.results):
            reasons.append(ExitStatus.NOT_JUDGED)
        # Whatever excuses each failure, a target that does not answer at all does not conform.
        if not run.answered or any(result.is_unexpected for result in run.results):
            reasons.append(ExitStatus.FAILED)
    return overall(reasons)
