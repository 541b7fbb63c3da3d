"""The failures of a campaign in clusters: those that have the same cause are one entry with its smallest case."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from conformance.cases.model import LEVELS, VerdictKind
from conformance.pipeline.campaign.rows import Row
from conformance.runner.known_failures import KnownFailure
from conformance.runner.results import ResultCounts


class ClusterKey(NamedTuple):
    """What failures of one cluster have in common."""

    level: str
    requirement: str
    type: str
    op: str
    field: str
    """Where expected and actual differ, without the index of an element."""
    mutation: str
    verdict: str
    disputed: bool


class SmallestCase(NamedTuple):
    """The smallest case of a cluster; of several with the same size the first one."""

    size: int
    """Bytes."""
    slice: int
    id: str


class FailureCluster(Struct):
    """Failures of one target that have the same signature."""

    signature: ClusterKey
    smallest: SmallestCase
    count: int = 0

    def row(self, target: str) -> dict[str, object]:
        """The row of the table of clusters."""
        return {"target": target, **self.signature._asdict(), "count": self.count, "smallest": self.smallest.id}


class FailureClusters(Struct, frozen=True):
    """All failures of a campaign that are not known."""

    by_target: dict[str, list[FailureCluster]] = field(default_factory=dict)
    """The most serious level first, within a level the largest cluster."""
    known: dict[str, Counter[tuple[str, VerdictKind]]] = field(default_factory=dict)
    """How many failures of a target are known, by level and verdict."""

    def of(self, target: str) -> list[FailureCluster]:
        """The clusters of a target."""
        return self.by_target.get(target, [])


COLUMNS = ["target", "slice", "id", "size", "cause", *ClusterKey._fields]
"""The columns of failures that clusters are made from."""


def clusters(failures: Iterable[Row], known: Sequence[KnownFailure], names: Mapping[str, str]) -> FailureClusters:
    """The clusters of failures; those that are known are only counted. `names`: what each target calls itself."""
    by_target: dict[str, dict[ClusterKey, FailureCluster]] = {}
    excused: dict[str, Counter[tuple[str, VerdictKind]]] = {}
    for row in failures:
        if _is_known(row, known, names[row["target"]]):
            excused.setdefault(row["target"], Counter())[row["level"], VerdictKind(row["verdict"])] += 1
            continue
        signature, case = _signature(row), SmallestCase(row["size"], row["slice"], row["id"])
        cluster = by_target.setdefault(row["target"], {}).setdefault(signature, FailureCluster(signature, case))
        cluster.count += 1
        cluster.smallest = min(cluster.smallest, case)
    ordered = {target: sorted(same.values(), key=_seriousness) for target, same in by_target.items()}
    return FailureClusters(ordered, excused)


def _is_known(row: Row, known: Sequence[KnownFailure], name: str) -> bool:
    told = (row["id"], row["requirement"], row["cause"], row["verdict"])
    return any(entry.excuses_failure(name, *told) for entry in known)


def _signature(row: Row) -> ClusterKey:
    place = "@" if row["field"].startswith("@") else re.sub(r"\[\d+\]", "[]", row["field"])
    asked = (row["level"], row["requirement"], row["type"], row["op"])
    return ClusterKey(*asked, place, row["mutation"], row["verdict"], row["disputed"])


def _seriousness(cluster: FailureCluster) -> tuple[int, int, ClusterKey]:
    return LEVELS.index(cluster.signature.level), -cluster.count, cluster.signature


def tallies(counts: Iterable[Row]) -> dict[str, ResultCounts]:
    """The numbers of each target."""
    by_target: dict[str, ResultCounts] = {}
    for row in counts:
        numbers, kind, count = (
            by_target.setdefault(row["target"], ResultCounts()),
            VerdictKind(row["verdict"]),
            row["count"],
        )
        numbers.verdicts[row["level"], kind] += count
        numbers.disputed[row["level"]] += count * row["disputed"]
        numbers.unobserved += count * (row["unobserved"] and kind is VerdictKind.PASS)
        if kind is VerdictKind.SKIP:
            numbers.skipped[f"{row['op']} of {row['type']}"] += count
    return by_target
