"""The progress bar of long commands."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        """The rate, once there is one."""
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


class _Failures(ProgressColumn):
    """How many failures so far, where the work counts them (the field `failures`)."""

    def render(self, task: Task) -> Text:
        """The number, red above 0."""
        failures = task.fields.get("failures")
        return Text("" if failures is None else f"{failures} failures", style="red" if failures else "")


def progress_bar(errors: Console) -> Progress:
    """Where progress is shown while the work inside its `with` goes on, if `errors` is a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        _Failures(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Before 14.3, rich ends a progress that is disabled with an empty line all the same.
    shown = errors if errors.is_terminal else Console(quiet=True)
    return Progress(*columns, console=shown, transient=True, disable=not errors.is_terminal)
