"""The speed of a campaign on one and two cores, the cost of a case in a short and a long one, and the memory.

    python benchmarks/campaign.py [CASES [TARGET]]

The default target is the reference in process. The figures exclude the start of Spark and the first slices, in which
the workers import their modules. Compare only figures of one run, because machines differ. With CASES 1000000, a case
should cost as much as with 100000.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from msgspec.structs import replace
from pyspark.sql import SparkSession

from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.pipeline.campaign.slice_task import SliceTask
from conformance.pipeline.campaign.slices import SLICE, Campaign
from conformance.pipeline.campaign.spark_job import spread
from conformance.pipeline.campaign.store import CampaignFolder
from conformance.pipeline.campaign.tables import rows_of
from conformance.pipeline.options import SparkOptions
from conformance.pipeline.spark_session import session
from conformance.strategies.seeded.cases import TYPES

CASES = 100_000
CORES = 100


class Memory:
    """The largest memory of this process and its Python descendants together."""

    def __init__(self) -> None:
        self.workers = self.driver = 0
        self._ended = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Poll four times a second."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._ended.wait(0.25):
            self.driver = max(self.driver, me.memory_info().rss)
            for process in workers():
                with suppress(psutil.Error):
                    self.workers = max(self.workers, process.memory_info().rss)


def workers() -> list[psutil.Process]:
    """Return the Python processes that Spark started here."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "pyspark.daemon" in process.cmdline():
                found.append(process)
    return found


def worked() -> float:
    """Return the CPU seconds of the workers."""
    total = 0.0
    for process in workers():
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


@dataclass(frozen=True)
class Measured:
    """One campaign: seconds of judging, seconds of gathering, cases judged, and memory."""

    judging: float
    gathering: float
    judged: int
    processor: float
    """CPU seconds of the workers, independent of other work on the machine."""
    memory: Memory

    @property
    def rate(self) -> float:
        """Cases per second."""
        return self.judged / self.judging


def measured(spark: SparkSession, campaign: Campaign, catalog: Catalog) -> Measured:
    """Run a campaign in a separate folder."""
    with tempfile.TemporaryDirectory() as folder:
        store, memory = CampaignFolder(Path(folder) / "out"), Memory()
        work = SliceTask(campaign, store, catalog.requirements, {})
        with store.opened(campaign), memory.watched():
            before, began = worked(), time.perf_counter()
            spread(spark, work, list(range(campaign.slices)))
            judged, processor = time.perf_counter(), worked() - before
            store.finish()
            ended = time.perf_counter()
        count = sum(row["count"] for row in rows_of(store.counts))
        return Measured(judged - began, ended - judged, count, processor, memory)


def on_cores(cores: int, campaign: Campaign, catalog: Catalog, lengths: list[int]) -> list[Measured]:
    """Run campaigns of several lengths in one session."""
    with session(SparkOptions(master=f"local[{cores}]"), "benchmark") as spark:
        measured(spark, replace(campaign, cases=cores * 4 * SLICE), catalog)
        found = [measured(spark, replace(campaign, cases=cases), catalog) for cases in lengths]
    for one, cases in zip(found, lengths, strict=True):
        memory = f"{one.memory.workers >> 20} MiB a worker, {one.memory.driver >> 20} MiB the driver"
        cost = f"{one.processor / one.judged * 1e6:4.0f} µs of a processor each"
        print(
            f"local[{cores}]  {cases:>9,}  {one.judged:>9,} judged  {one.rate:>7,.0f} cases/s  {cost}  {memory}",
            flush=True,
        )
    return found


def main(arguments: list[str]) -> None:
    """Print the figures."""
    cases = int(arguments[0]) if arguments else CASES
    target = arguments[1] if len(arguments) > 1 else "reference"
    catalog = read_catalog()
    campaign = Campaign((target,), TYPES, cases)
    short = max(cases // 10, 8 * SLICE)
    small_one, one = on_cores(1, campaign, catalog, [short, cases])
    _, two = on_cores(2, campaign, catalog, [short, cases])
    ratio = two.rate / one.rate
    print(f"\nlocal[2] : local[1]                        {ratio:6.2f}")
    dearer = (two.processor / two.judged) / (one.processor / one.judged)
    print(f"processor time of a case, local[2] : local[1] {dearer:6.2f}")
    growth = (one.judging / one.judged) / (small_one.judging / small_one.judged)
    print(f"a case of {cases:,} : a case of {short:,}      {growth:6.2f}")
    print(f"memory of a worker, long : short           {one.memory.workers / small_one.memory.workers:6.2f}")
    # This estimate assumes that more cores scale like two, at most linearly; only the driver writes the tables.
    gathering = one.gathering / cases
    rate = one.rate * min(ratio / 2, 1) * CORES
    hour = 3600 / (one.judged / cases / rate + gathering)
    print(
        f"making tables, on the driver alone         {gathering * 1e6:6.1f} µs a case\n"
        f"estimate for {CORES} cores: {rate:,.0f} cases/s, {hour / 1e6:,.0f} million generated cases an hour"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
