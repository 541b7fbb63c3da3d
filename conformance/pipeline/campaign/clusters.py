"""Failing cases by what makes them the same, the smallest of each shrunk: a short list for a long campaign."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from conformance.cases.catalog import Catalog
from conformance.cases.model import LEVELS, Accepted, Broke, Case, Kind, Outcome, Refused, Verdict
from conformance.pipeline.campaign.slices import Campaign
from conformance.pipeline.campaign.store import Store
from conformance.pipeline.campaign.tables import rows_of, rows_with
from conformance.running.examiner import FAIL_ON, Examiner, Plan
from conformance.running.known_failures import Known
from conformance.running.results import Result, Shrunk, Tally
from conformance.running.shrinking import shrink_one, signature
from conformance.strategies.seeded.cases import case_of


class Signature(NamedTuple):
    """What makes two failures of a target the same."""

    level: str
    requirement: str
    type: str
    op: str
    field: str
    mutation: str
    verdict: str
    disputed: bool


@dataclass(slots=True)
class Cluster:
    """Failures that are the same: how many, and the id, slice and size of the smallest."""

    signature: Signature
    count: int = 0
    smallest: tuple[int, int, str] = (1 << 62, 0, "")
    """Size, slice, id: the first of the smallest ones, wherever they were judged."""

    def row(self, target: str) -> dict[str, Any]:
        """As it stands in the table of clusters."""
        return {"target": target, **self.signature._asdict(), "count": self.count, "smallest": self.smallest[2]}


_LOOKED_AT = ["target", "slice", "id", "size", *Signature._fields]


def clusters(store: Store, known: Sequence[Known]) -> tuple[dict[str, list[Cluster]], Counter[tuple[str, str]]]:
    """The clusters of each target, gravest and largest first, and how many failures are known, by target and level."""
    found: dict[str, dict[Signature, Cluster]] = {}
    excused: Counter[tuple[str, str]] = Counter()
    for row in rows_of(store.failures, _LOOKED_AT):
        target = row["target"]
        if any(entry.covers(target, row["id"]) and entry.verdict in ("", row["verdict"]) for entry in known):
            excused[target, row["level"]] += 1
            continue
        place = re.sub(r"\[\d+\]", "[]", row["field"]) if not row["field"].startswith("@") else "@"
        same = Signature(**{**{name: row[name] for name in Signature._fields}, "field": place})
        cluster = found.setdefault(target, {}).setdefault(same, Cluster(same))
        cluster.count += 1
        cluster.smallest = min(cluster.smallest, (row["size"], row["slice"], row["id"]))
    return {target: sorted(several.values(), key=_gravity) for target, several in found.items()}, excused


def _gravity(cluster: Cluster) -> tuple[Any, ...]:
    return LEVELS.index(cluster.signature.level), -cluster.count, cluster.signature


def tallies(store: Store) -> dict[str, Tally]:
    """The numbers of each target."""
    found: dict[str, Tally] = {}
    for row in rows_of(store.counts):
        numbers, kind, count = found.setdefault(row["target"], Tally()), Kind(row["verdict"]), row["count"]
        numbers.verdicts[row["level"], kind] += count
        numbers.disputed[row["level"]] += count * row["disputed"]
        numbers.unobserved += count * (row["unobserved"] and kind is Kind.PASS)
        if kind is Kind.SKIP:
            numbers.skipped[f"{row['op']} of {row['type']}"] += count
    return found


# --- shrinking ----------------------------------------------------------------------------------------

PATIENCE = 300.0
"""Seconds of shrinking for one target in all; what is left then stands as it was found."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Makes results of rows again, to be shrunk and reported."""

    campaign: Campaign
    catalog: Catalog
    plan: Plan

    def results(self, store: Store, target: str, several: Sequence[Cluster]) -> list[Result]:
        """The smallest failure of each cluster. Raises OSError."""
        ids = [cluster.smallest[2] for cluster in several]
        rows = {row["id"]: row for row in rows_with(store.failures, target, ids)}
        return [self._result(rows[identity]) for identity in ids]

    def _result(self, row: dict[str, Any]) -> Result:
        verdict = Verdict(
            Kind(row["verdict"]), row["detail"], row["field"], row["requirement"], row["level"], flaky=row["flaky"]
        )
        result = Result(row["target"], self._case(row["id"]), _outcome(row), verdict, row["level"])
        counts = result.failed and row["level"] in FAIL_ON[self.plan.fail_on]
        return replace(result, disputed=row["disputed"], counts=counts and (self.plan.strict or not row["disputed"]))

    def _case(self, identity: str) -> Case:
        replayed = (case for case in self.campaign.corpus if case.id == identity)
        return next(replayed, None) or case_of(identity, self.catalog)[0]


_BROKEN = {"crash", "timeout", "protocol", "memory", "slow"}


def _outcome(row: dict[str, Any]) -> Outcome:
    """What a target did, from what a row says of it."""
    actual = msgspec.json.decode(row["actual"])
    if len(actual) == 1 and set(actual) <= _BROKEN:
        how, detail = actual.popitem()
        return Broke(how, detail, row["flaky"])
    if set(actual) == {"error", "message"}:
        return Refused(actual["error"], actual["message"])
    return Accepted(actual)


def shrunk(results: Sequence[tuple[Result, int]], examiner: Examiner, catalog: Catalog) -> Iterator[Shrunk]:
    """The failures, each standing for so many, shrunk; first one of every sort. Raises CannotStart."""
    until = time.monotonic() + PATIENCE
    seen: set[tuple[str, ...]] = set()
    first: list[tuple[Result, int]] = []
    further: list[tuple[Result, int]] = []
    for result, count in results:
        (further if signature(result) in seen else first).append((result, count))
        seen.add(signature(result))
    for result, count in first + further:
        if time.monotonic() < until:
            yield shrink_one(result, count, examiner, catalog)
        else:
            yield Shrunk(result, count, result.case.id)


def distinct(found: Sequence[Shrunk]) -> list[Shrunk]:
    """Those that shrank to one and the same case as one, in the order of the first of them."""
    kept: dict[tuple[str, ...], Shrunk] = {}
    for one in found:
        same = (one.result.case.id, *signature(one.result))
        before = kept.get(same)
        kept[same] = one if before is None else replace(before, count=before.count + one.count)
    return list(kept.values())
