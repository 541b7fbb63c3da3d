"""The progress bar of long commands."""

import io

from rich.console import Console

from conformance.reports.progress import progress_bar


def test_a_task_shows_its_current_counts_at_each_drawing():
    file, counts = io.StringIO(), {"completed": 3, "failures": 1}
    with progress_bar(Console(file=file, force_terminal=True, width=120)) as bar:
        bar.add_task("kafka-python", total=40, counts=lambda: counts)
        bar.refresh()
        counts |= {"completed": 17, "description": "kafka-python: shrinking"}
        bar.refresh()
    text = file.getvalue()
    assert "3/40" in text
    assert "1 failures" in text
    assert "17/40" in text.partition("kafka-python: shrinking")[2]


def test_a_file_gets_no_progress():
    file = io.StringIO()
    with progress_bar(Console(file=file)) as bar:
        bar.add_task("kafka-python", total=40, counts=lambda: {"completed": 3})
    assert file.getvalue() == ""
