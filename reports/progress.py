"""The progress bar of long commands."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, RenderableType
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
    """The number of cases per second."""

    def render(self, task: Task) -> Text:
        """Return the rate, or an empty text before it is known."""
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


class _Failures(ProgressColumn):
    """The number of failures so far, if the task has the field `failures`."""

    def render(self, task: Task) -> Text:
        """Return the number, red above 0."""
        failures = task.fields.get("failures")
        return Text("" if failures is None else f"{failures} failures", style="red" if failures else "")


class _Progress(Progress):
    """A progress bar that calls the field `counts` of its tasks, and updates them, each time it is drawn."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars with their current counts."""
        for task in self.tasks:
            if counts := task.fields.get("counts"):
                self.update(task.id, **counts())
        yield from super().get_renderables()


def progress_bar(errors: Console) -> Progress:
    """Return a context manager that shows progress during the work in its `with`, if `errors` is a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        _Failures(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Before 14.3, rich prints an empty line at the end even of a disabled progress bar.
    shown = errors if errors.is_terminal else Console(quiet=True)
    return _Progress(*columns, console=shown, transient=True, disable=not errors.is_terminal)
