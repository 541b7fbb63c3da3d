"""Two JSON reports held against each other: what began to fail, what was mended, what is not judged any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from conformance.errors import FileError

_FAILED = frozenset(("fail", "crash", "timeout", "protocol"))
_JUDGED = _FAILED | {"pass", "either"}


class Outcome(msgspec.Struct):
    """A result as the JSON file has it, as far as it is compared."""

    target: str
    """As the command line names it, or as it calls itself."""
    id: str
    type: str
    requirement: str
    level: str
    verdict: str
    known: bool = False
    upstream: str | None = None
    cause: str = ""
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether it is a failure of the target or of its adapter."""
        return self.verdict in _FAILED

    @property
    def judged(self) -> bool:
        """Whether the case was put to the target and judged."""
        return self.verdict in _JUDGED


class _Target(msgspec.Struct):
    target: str
    describe: object = None
    """What it says of itself: length and digest where that is long, null where it did not start."""

    @property
    def called(self) -> str:
        """What it calls itself; where it says nothing, what the command line calls it."""
        name = self.describe.get("name") if isinstance(self.describe, dict) else None
        return name if name and isinstance(name, str) else self.target


class _File(msgspec.Struct):
    results: list[Outcome]
    targets: list[_Target] = []


class Change(Struct, frozen=True):
    """The cases of a target that changed in one way for one reason."""

    target: str
    reason: str
    """The cause of the failures, or why the cases are not judged."""
    cases: tuple[Outcome, ...]


class Comparison(Struct, frozen=True):
    """What differs between an older report and a newer one, each part by target and reason."""

    began: tuple[Change, ...]
    """It fails, and did not before, or failed in a milder way: it crashes, say, where it only answered wrongly."""
    mended: tuple[Change, ...]
    """It failed, and passes now."""
    dropped: tuple[Change, ...]
    """It was judged, and is not any more."""
    otherwise: tuple[Change, ...]
    """It failed and fails, for another cause: one fault may be mended, and another come to light behind it."""


def read_report(path: Path) -> dict[tuple[str, str], Outcome]:
    """The results of a report that `--json` wrote, by target and case. Raises FileError.

    A target goes by what it calls itself, however it was started; where two call themselves the same, by its command
    line.
    """
    try:
        report = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise FileError(path, error.strerror or str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileError(path, f"this is not a report that --json wrote: {error}") from None
    several = Counter(target.called for target in report.targets)
    names = {one.target: one.called if several[one.called] == 1 else one.target for one in report.targets}
    for result in report.results:
        result.target = names.get(result.target, result.target)
    return {(result.target, result.id): result for result in report.results}


def compare(old: Mapping[tuple[str, str], Outcome], new: Mapping[tuple[str, str], Outcome]) -> Comparison:
    """What differs between two reports. Where each is of one target, these two are compared, whatever their names.

    Generated cases of another seed have no partner: they began to fail where the target did not fail for that cause
    before, and are neither mended nor dropped.
    """
    names = {target for target, _ in old}, {target for target, _ in new}
    if len(names[0]) == len(names[1]) == 1:
        (name,) = names[1]
        old = {(name, case): result for (_, case), result in old.items()}
    causes = {(name, result.cause) for (name, _), result in old.items() if result.failed}
    began, mended, dropped, otherwise = [], [], [], []
    for key, after in new.items():
        before = old.get(key)
        if after.failed and not after.known and _is_new(before, after, causes):
            began.append((after.cause or after.detail, after))
        elif before is not None and before.failed and after.failed and before.cause != after.cause:
            otherwise.append((f"{after.cause}, before: {before.cause}", after))
        if before is not None and before.failed and after.judged and not after.failed:
            mended.append((before.cause or before.detail, before))
    for key, before in old.items():
        after_all = new.get(key)
        if before.judged and not (after_all.judged if after_all else before.id.startswith("gen/")):
            dropped.append((after_all.detail if after_all else "the newer report does not have it", before))
    return Comparison(*(tuple(_grouped(changed)) for changed in (began, mended, dropped, otherwise)))


def _is_new(before: Outcome | None, after: Outcome, causes: set[tuple[str, str]]) -> bool:
    if before is None and after.id.startswith("gen/"):
        return (after.target, after.cause) not in causes
    if before is None or not before.failed:
        return True
    return before.verdict == "fail" and after.verdict != "fail"


def _grouped(changed: list[tuple[str, Outcome]]) -> Iterator[Change]:
    """By target and reason: the reason of most cases first."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for reason, result in changed:
        groups.setdefault((result.target, reason), []).append(result)
    for (target, reason), cases in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]))):
        yield Change(target, reason, tuple(cases))
