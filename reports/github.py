"""What a job on GitHub shows beside its log: annotations, and the summary of the step.

A runner reads workflow commands (`::error …::…`) in all that a step prints. What a target says is in that text, so the
report is printed between `stop-commands` and a token that nobody can guess, and in annotations it is escaped.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from conformance.reports.explain import explain
from conformance.reports.formats import Report
from conformance.reports.grouping import FailureGroup, Section, grouped
from conformance.reports.hex_view import printable
from conformance.reports.text import title
from conformance.runner.results import TargetRun

MOST = 10
"""Annotations of a step that GitHub shows."""


def is_in_job() -> bool:
    """Whether this runs in a job on GitHub."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


@contextmanager
def step_of_job(report: Report, console: Console, written: Container[Path]) -> Iterator[None]:
    """Around all that is printed: in a job on GitHub, annotations follow it, and the step gets its summary.

    Elsewhere nothing is added. `written` holds the files that the user has asked for: the summary may be one.
    """
    if not is_in_job():
        yield
        return
    token = secrets.token_hex(16)
    console.out(f"::stop-commands::{token}", highlight=False)
    yield
    console.out(f"\n::{token}::", highlight=False)
    for line in render(report):
        console.out(line, end="", highlight=False)
    summary = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if summary and Path(summary) not in written:
        _append(Path(summary), report, console)


def _append(summary: Path, report: Report, console: Console) -> None:
    """Add the report in Markdown to the summary, which other commands of the step may have written to."""
    from conformance.reports.markdown import render as markdown

    try:
        with summary.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.writelines(markdown(report))
    except OSError as error:
        console.out(_error({}, [f"the summary of the step could not be written: {error.strerror}"]), end="")


def render(report: Report) -> Iterator[str]:
    """The annotations, a line for each: what was not judged, then what fails the run by cause, then stale entries."""
    told = list(_told(report))
    for properties, lines in told[: MOST - 1] if len(told) > MOST else told:
        yield _error(properties, lines)
    if len(told) > MOST:
        yield _error({}, [f"{len(told) - MOST + 1} more: the log and the summary show them"])


def _told(report: Report) -> Iterator[tuple[dict[str, str], list[str]]]:
    """The properties and the lines of each annotation."""
    for run in report.runs:
        if run.problem:
            yield _place(run), [run.problem]
        elif not (run.judged and run.answered):
            yield _place(run), ["answered none of its requests" if run.judged else "was judged on no case"]
    for run in report.runs:
        for group in grouped(run):
            if group.section is Section.FAULTS or any(result.is_unexpected for result in group.members):
                yield _place(run), _lines(group)
    for name, reason in report.stale:
        yield {"title": "stale known failure"}, [f"{name}: {reason}"]


def _place(run: TargetRun) -> dict[str, str]:
    """What an annotation is about: the target, and the file of its adapter where the command line names one."""
    kind, _, rest = run.name.partition(":")
    file = {"file": os.path.normpath(rest)} if kind == "module" and rest.endswith(".py") else {}
    return {**file, "title": title(run)}


def _lines(group: FailureGroup) -> list[str]:
    """What fails, by which requirement, with the smallest example and the command that shows it again."""
    example = group.examples[0]
    result, shown = example.result, explain(example.result, example.origin)
    cause = group.cause.text if group.cause else f"adapter: {result.verdict.detail}"
    why = ", ".join(filter(None, (group.level or result.level, result.basis)))
    return [
        f"{cause} ({group.count} cases)",
        f"{result.case.id} breaks {result.requirement} ({why})",
        f"expected: {shown.expected}",
        f"actual: {shown.actual}",
        shown.reproduce,
    ]


def _error(properties: Mapping[str, str], lines: Iterable[str]) -> str:
    """A workflow command that makes an annotation; nothing in the texts ends it or begins another."""
    told = ",".join(f"{name}={_escaped(printable(text), ':,')}" for name, text in properties.items())
    text = "\n".join(printable(line) for line in lines)
    return f"::error {told}".rstrip() + f"::{_escaped(text)}\n"


def _escaped(text: str, further: str = "") -> str:
    """Text as a workflow command holds it: the characters that are syntax stand as their numbers."""
    return "".join(f"%{ord(one):02X}" if one in "%\r\n" + further else one for one in text)
