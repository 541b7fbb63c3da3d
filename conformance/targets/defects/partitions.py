"""Defects of brokers: what a partition holds and serves, as the steps of a scenario show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from conformance.codec.derivations import Values
from conformance.semantics.conversion import convert
from conformance.semantics.partition_log import PartitionLog
from conformance.semantics.scenario_broker import ScenarioBroker
from conformance.semantics.scenarios import Began, Fetch, Fetched, Repeat, Step, Told
from conformance.semantics.visibility import ISOLATIONS
from conformance.targets.defects.model import SeededDefect
from conformance.targets.lies import Lie
from conformance.targets.violations.scenarios import plays

_DAY = 86_400_000


class _CleansAtOnce(PartitionLog):
    def compact(self, horizon: int, *, tombstones: bool) -> None:
        PartitionLog.compact(self, horizon - _DAY, tombstones=tombstones)


class _ServesTheUndecided(PartitionLog):
    def fetch(self, offset: int, _: str, most: int) -> bytes:
        return PartitionLog.fetch(self, offset, ISOLATIONS[0], most)


class _Marks(PartitionLog):
    value: bytes | None = None

    def append(self, batch: Values) -> int:
        if batch["isControlBatch"]:
            batch = {**batch, "records": tuple({**one, "value": self.value} for one in batch["records"])}
        return PartitionLog.append(self, batch)


def _as_it_is(_: Step, told: Told) -> Told:
    return told


class _Retells(ScenarioBroker):
    """A broker that tells otherwise what it did."""

    change: Callable[[Step, Told], Told] = _as_it_is

    def play(self, steps: Sequence[Step]) -> list[Told]:
        """What it tells of each step."""
        return [self.change(step, told) for step, told in zip(steps, ScenarioBroker.play(self, steps), strict=True)]


def _tells(form: type[Told], change: Callable[[Any], Values]) -> Lie:
    """Tell other parts of what a broker says in this form, and did not refuse."""

    def changed(_: Step, told: Told) -> Told:
        return replace(told, **change(told)) if isinstance(told, form) and not told.refused else told

    return plays(lambda: _Retells(change=changed))


def _once_more(step: Step, told: Told) -> Told:
    return replace(told, offset=str(int(told.offset) + 1)) if isinstance(step, Repeat) else told  # type: ignore[union-attr]


def _in_batches(step: Step, told: Told) -> Told:
    """An older fetch brings batches."""
    if not isinstance(step, Fetch) or not isinstance(told, Fetched) or step.version is None or not told.hex:
        return told
    return replace(told, hex=convert(bytes.fromhex(told.hex), 2, 0).hex())


def _partition(name: str, source: str, says: str, bend: Lie) -> SeededDefect:
    return SeededDefect(f"partition/{name}", "scenarios", says, source, bend, (source,))


PARTITIONS = (
    _partition(
        "delete-horizon-at-once",
        "delete-horizon.set-by-compaction",
        "the log cleaner takes the time at which it comes for the delete horizon",
        plays(lambda: ScenarioBroker(_CleansAtOnce())),
    ),
    _partition(
        "serves-the-undecided",
        "broker.holds-back-undecided",
        "a broker tells the last stable offset, and serves what stands behind it, too",
        plays(lambda: ScenarioBroker(_ServesTheUndecided())),
    ),
    _partition(
        "marker-without-value",
        "broker.marks-transactions",
        "a broker writes markers whose value is null",
        plays(lambda: ScenarioBroker(_Marks(value=None))),
    ),
    _partition(
        "marker-of-no-version",
        "broker.marks-transactions",
        "a broker writes markers of version -1",
        plays(lambda: ScenarioBroker(_Marks(value=b"\xff\xff\0\0\0\0"))),
    ),
    _partition(
        "no-epoch",
        "producer-id.assigned-by-broker",
        "a broker gives a producer the epoch -1",
        _tells(Began, lambda _: {"producer_epoch": -1}),
    ),
    _partition(
        "one-epoch-for-all-instances",
        "producer-epoch.fences",
        "a broker gives each instance of a producer the same epoch",
        _tells(Began, lambda _: {"producer_epoch": 0}),
    ),
    _partition(
        "high-watermark-of-the-last-record",
        "broker.serves-from-offset",
        "a broker tells the offset of the last record as its high watermark",
        _tells(Fetched, lambda told: {"high_watermark": str(int(told.high_watermark) - 1)}),
    ),
    _partition(
        "wrapped-repeat-takes-a-place",
        "sequence.wraps-at-int32-max",
        "a broker does not know a batch again in which the sequences wrap, and tells another offset of it",
        plays(lambda: _Retells(change=_once_more)),
    ),
    _partition(
        "log-begins-at-zero",
        "broker.tells-log-start",
        "a fetch tells that the log begins at offset 0, wherever it does",
        _tells(Fetched, lambda _: {"log_start": "0"}),
    ),
    _partition(
        "batches-for-old-consumers",
        "convert.down-for-old-consumers",
        "a broker serves batches to fetches of versions that carry messages",
        plays(lambda: _Retells(change=_in_batches)),
    ),
)
"""Defects of a broker's partition."""
