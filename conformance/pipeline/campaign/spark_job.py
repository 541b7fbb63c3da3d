"""The Spark job of a campaign: it distributes the remaining slices and shows the progress. Needs pyspark, pyarrow."""

from __future__ import annotations

import re
import threading
import time

from pyspark.sql import SparkSession
from rich.console import Console

from conformance.errors import MachineError
from conformance.pipeline.campaign.slice_task import SliceTask
from conformance.pipeline.options import SparkOptions
from conformance.pipeline.spark_session import has_ended, run_in_thread, session
from conformance.reports.progress import progress_bar

_MOST_SLICES = 50
"""Slices of one task at most: a long last task would leave the other cores idle."""


class JobFailed(MachineError):
    """The Spark job failed; the message gives the reason in one line. Finished slices are kept."""


def judge_slices(work: SliceTask, options: SparkOptions, errors: Console) -> bool:
    """Judge the remaining slices and show the progress on `errors`; return False after an interrupt.

    Raises JobFailed, JavaNotFound, SparkNotAvailable or OSError.
    """
    if damaged := work.store.remove_damaged():
        names = ", ".join(map(str, damaged[:10])) + (", …" if len(damaged) > 10 else "")
        errors.print(f"damaged slices, judged again: {names}", markup=False)
    done = work.store.done()
    pending = [number for number in range(work.campaign.slices) if number not in done]
    if not pending:
        return True
    with session(options, "conformance campaign") as spark:
        try:
            run_in_thread(spark, lambda: spread(spark, work, pending), lambda job: _watch(job, work, errors))
        except KeyboardInterrupt:
            return False
        except Exception as error:  # noqa: BLE001 - Spark raises many types for a failed task
            raise JobFailed(_reason(error)) from None
    return True


def spread(spark: SparkSession, work: SliceTask, pending: list[int]) -> None:
    """Judge slices on the executors, several in each task. Raises the error of Spark for a failed task."""
    context = spark.sparkContext
    share = max(1, min(_MOST_SLICES, len(pending) // (4 * context.defaultParallelism)))
    context.parallelize(pending, -(-len(pending) // share)).mapPartitions(work).count()


def _watch(job: threading.Thread, work: SliceTask, errors: Console) -> None:
    """Show the progress of a job until it ends: a bar on a terminal, else one line per minute."""
    total, began, minutes_shown = work.campaign.slices, time.monotonic(), 0
    with progress_bar(errors) as progress:
        bar = progress.add_task("slices", total=total)
        while job.is_alive():
            job.join(1)
            done = len(work.store.done())
            progress.update(bar, completed=done)
            minutes = int(time.monotonic() - began) // 60
            if minutes > minutes_shown and not errors.is_terminal:
                minutes_shown = minutes
                errors.print(f"{done} of {total} slices", markup=False)


def _reason(error: Exception) -> str:
    """Return in one line why the Spark job failed."""
    text = str(error)
    if has_ended(error):
        text = "Spark stopped: its Java has ended"
    reasons = re.findall(r"^\S*(?:CannotStart|UnknownTarget): (.+)$", text, re.MULTILINE)
    reasons += re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", text, re.MULTILINE)
    return f"{(reasons or text.splitlines() or ['Spark stopped'])[0]} (repeat the command to continue)"
