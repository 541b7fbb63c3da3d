"""The annotations and the step summary of a GitHub Actions job.

The runner executes workflow commands (`::error …::…`) in everything that a step prints. The report contains text of
targets, so it is printed between `stop-commands` and a random token, and annotations are escaped.
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
"""GitHub shows at most 10 annotations of a step."""


def is_in_job() -> bool:
    """Return whether this process runs in a GitHub Actions job."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


@contextmanager
def step_of_job(report: Report, console: Console, written: Container[Path]) -> Iterator[None]:
    """Enclose the printed report; in a GitHub Actions job, add annotations and the step summary after it.

    `written` holds the report files of the user. If the step summary is one of them, it is not extended.
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
    """Append the report in Markdown: other commands of the step may have written to the summary."""
    from conformance.reports.markdown import render as markdown

    try:
        with summary.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.writelines(markdown(report))
    except OSError as error:
        console.out(_error({}, [f"the step summary {summary} could not be written: {error.strerror}"]), end="")


def render(report: Report) -> Iterator[str]:
    """Yield one line per annotation: targets that were not judged, failures by cause, stale known failures."""
    annotations = list(_annotations(report))
    for properties, lines in annotations[: MOST - 1] if len(annotations) > MOST else annotations:
        yield _error(properties, lines)
    if len(annotations) > MOST:
        yield _error({}, [f"{len(annotations) - MOST + 1} more: see the log or the summary"])


def _annotations(report: Report) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield the properties and the lines of each annotation."""
    for run in report.runs:
        if run.problem:
            yield _place(run), [run.problem]
        elif not (run.judged and run.answered):
            yield _place(run), ["answered no request" if run.judged else "was judged on no case"]
    for run in report.runs:
        for group in grouped(run):
            if group.section is Section.FAULTS or any(result.is_unexpected for result in group.members):
                yield _place(run), _lines(group)
    for name, reason in report.stale:
        yield {"title": "stale known failure"}, [f"{name}: {reason}"]


def _place(run: TargetRun) -> dict[str, str]:
    """Return the title of an annotation, and the file of the adapter if the command line names one."""
    kind, _, rest = run.name.partition(":")
    file = {"file": os.path.normpath(rest)} if kind == "module" and rest.endswith(".py") else {}
    return {**file, "title": title(run)}


def _lines(group: FailureGroup) -> list[str]:
    """Return the cause, the requirement, the smallest example and the command that reproduces it."""
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
    """Return the workflow command of an annotation; escaping prevents that a text starts another command."""
    fields = ",".join(f"{name}={_escaped(printable(text), ':,')}" for name, text in properties.items())
    text = "\n".join(printable(line) for line in lines)
    return f"::error {fields}".rstrip() + f"::{_escaped(text)}\n"


def _escaped(text: str, further: str = "") -> str:
    """Return a text with the syntax characters of workflow commands percent-encoded."""
    return "".join(f"%{ord(one):02X}" if one in "%\r\n" + further else one for one in text)
