"""The pytest items of a target: one for its claims, one per case, and one property per type."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import pytest
from rich.console import Console

from conformance import NAME
from conformance.cases.model import Case, VerdictKind
from conformance.cases.requirement import Requirement
from conformance.errors import CannotStart
from conformance.pytest_plugin.selection import PytestSelection
from conformance.pytest_plugin.target import PytestTarget, property_name
from conformance.reports.explain import FailureExplanation, explain, reproduce
from conformance.reports.grouping import Example, Section, section_of
from conformance.reports.hex_view import dump, printable
from conformance.reports.text import stands_for
from conformance.runner.results import Result, ShrunkFailure

CLAIMS = "probe/claims"
"""The item that fails if a claim of the target does not hold."""


class KafkaCollector(pytest.Collector):
    """The node above our items. With several targets, it has a folder for each."""

    targets: Sequence[PytestTarget]

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Yield the items, in the same order in every process."""
        if len(self.targets) == 1:
            yield from self._items(self.targets[0])
            return
        for target in self.targets:
            folder = KafkaCollector.from_parent(self, name=target.name)
            folder.targets = [target]
            yield folder

    def _items(self, target: PytestTarget) -> Iterator[pytest.Item]:
        selected = target.selected
        yield KafkaClaims.make(self, CLAIMS, target)
        for case in selected.cases:
            item = KafkaCase.make(self, case.id, target)
            item.case = case
            yield item
        for name in selected.properties:
            generated = KafkaProperty.make(self, property_name(name), target)
            generated.type = name
            yield generated


class KafkaItem(pytest.Item):
    """An item that judges a target on one or several cases."""

    target: PytestTarget

    @classmethod
    def make(cls, folder: KafkaCollector, name: str, target: PytestTarget) -> Self:
        """Create an item in a folder."""
        item: Self = cls.from_parent(folder, name=name)
        item.target = target
        return item

    def runtest(self) -> None:
        """Judge the target. If it cannot be started again, this item fails and later items are skipped."""
        if self.target.problem:
            pytest.skip(f"not sent: {self.target.problem}")
        try:
            self.judge_target()
        except CannotStart as error:
            self.target.problem = str(error)
        if self.target.problem:
            pytest.fail(self.target.problem, pytrace=False)

    def judge_target(self) -> None:
        """Send the cases and raise the pytest outcome: failed, skipped, xfailed. Raises CannotStart."""
        raise NotImplementedError

    def add_properties(self, **properties: str) -> None:
        """Add properties to the report of this item, for JUnit files and for SessionHooks."""
        self.user_properties += properties.items()

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the location for reports: no file, no line, and a title."""
        return self.config.rootpath / NAME, None, f"{self.target.name}: {self.name}"


class KafkaClaims(KafkaItem):
    """The item that probes the claims of a target."""

    def judge_target(self) -> None:
        disproved = self.target.disproved()
        if disproved:
            requirements = self.target.selected.catalog.requirements
            lines = [f"{len(disproved)} claims of the target do not hold; the cases of these types are skipped"]
            lines += [described(Example(result), requirements) for result in disproved]
            pytest.fail("\n\n".join(lines), pytrace=False)


class KafkaCase(KafkaItem):
    """The item of one case."""

    case: Case

    def judge_target(self) -> None:
        (result,) = self.target.judge([self.case])
        self.add_properties(
            **{"kafka-target": result.target, "kafka-case": self.case.id, "verdict": str(result.verdict.kind)},
            requirement=result.requirement,
            level=result.level,
            basis=result.basis,
            **{"cause": result.cause.text} if result.failed else {},
        )
        requirements = self.target.selected.catalog.requirements
        _raise_outcome([result], self.target.selected, lambda bad: described(Example(bad[0]), requirements))
        self._no_longer_known(result)

    def _no_longer_known(self, result: Result) -> None:
        selected = self.target.selected
        if result.verdict.kind is VerdictKind.PASS:
            for entry in selected.known_of_one_case:
                if entry.covers(result.name, self.case.id):
                    pytest.fail(f"[XPASS(strict)] known failure (line {entry.line}): {entry.reason}", pytrace=False)


class KafkaProperty(KafkaItem):
    """The item of a type. It passes if the target agrees with the reference on all generated cases."""

    type: str

    def judge_target(self) -> None:
        selected = self.target.selected
        results = self.target.judge(selected.generated(self.type))
        counts = Counter(str(result.verdict.kind) for result in results)
        judged = next((kind for kind in counts if kind not in ("skip", "protocol")), "skip")
        self.add_properties(
            **{"kafka-target": self.target.name, "kafka-case": self.name, "verdict": judged},
            counts=", ".join(f"{kind} {counts[kind]}" for kind in sorted(counts)),
        )
        _raise_outcome(results, selected, lambda bad: self._in_full(bad, len(results)))

    def _in_full(self, bad: Sequence[Result], count: int) -> str:
        """Return the failures, each cause with its smallest case. Adapter faults are not shrunk."""
        shrunk = self.target.shrink(bad) or [ShrunkFailure(bad[0], len(bad), bad[0].summary.id)]
        examples = [Example(one.result, one) for one in shrunk]
        return described_property(examples, count, len(bad), self.target.selected.catalog.requirements)


def _raise_outcome(
    results: Sequence[Result], selected: PytestSelection, describe: Callable[[Sequence[Result]], str]
) -> None:
    """Raise the pytest outcome for some results; return if the item passed."""
    bad = [result for result in results if result.is_unexpected]
    bad += [result for result in results if section_of(result) is Section.FAULTS]
    if bad:
        pytest.fail(describe(bad), pytrace=False)
    known = [result for result in results if section_of(result) is Section.KNOWN]
    if known:
        entry = next(entry for entry in selected.policy.known if entry.excuses(known[0]))
        pytest.xfail(f"{entry.reason} ({verdict(known[0])})")
        # The option --runxfail turns pytest.xfail into an empty function, so the code below runs.
        if any(result.counts for result in known):
            pytest.fail(describe(known), pytrace=False)
    uncounted = [result for result in results if section_of(result) in (Section.FAILURES, Section.DISPUTED)]
    if uncounted:
        first = uncounted[0]
        share = "" if len(results) == 1 else f"{len(uncounted)} of {len(results)}, first {first.summary.id}: "
        why = "disputed" if first.disputed else first.level
        pytest.skip(f"{why}: {share}{verdict(first)}: {printable(first.verdict.detail)}")
    if all(result.verdict.kind is VerdictKind.SKIP for result in results):
        pytest.skip(printable(results[0].verdict.detail) if results else "no generated case is selected")


def verdict(result: Result) -> str:
    """Return the verdict and the requirement of a result."""
    return f"{result.verdict.kind} of {result.requirement}"


def described_property(
    examples: Sequence[Example], count: int, failing: int, requirements: dict[str, Requirement]
) -> str:
    """Return the first example in full, and the commands of the other examples.

    `failing` of the `count` generated cases of a type fail.
    """
    first, *others = examples
    lines = [described(first, requirements)]
    lines.append(f"{failing} of {count} generated cases of {first.result.summary.type} fail")
    for other in others:
        command = reproduce(other.result, other.origin)
        lines.append(f"  {other.count} × {printable(other.result.cause.text)}: {printable(command)}")
    left = failing - sum(example.count for example in examples)
    return "\n".join(lines + ([f"  and {left} more"] if left else []))


def described(example: Example, requirements: dict[str, Requirement]) -> str:
    """Return one failure in full."""
    result = example.result
    shown = explain(result, example.origin)
    requirement = requirements.get(result.requirement)
    why = ", ".join(filter(None, (result.level, result.basis)))
    lines = [f"{result.requirement} ({why}): {result.verdict.kind}: {printable(result.verdict.detail)}"]
    if requirement is not None:
        lines.append(f"{requirement.statement} [{', '.join(requirement.source)}]")
    lines += [printable(f"cause: {result.cause.text}")] if result.failed else []
    lines += ["", f"{result.summary.id}  {result.target}" + ("  [flaky]" if example.flaky else "")]
    lines += filter(None, (result.comment, stands_for(example)))
    lines += [f"expected: {printable(shown.expected)}", f"actual:   {printable(shown.actual)}"]
    lines += [f"via:      {printable(shown.via)}"] if shown.via else []
    lines += [_dump(shown)] if shown.lines else []
    return "\n".join([*lines, printable(shown.reproduce)])


def _dump(shown: FailureExplanation) -> str:
    """Return the annotated bytes as text."""
    console = Console(file=io.StringIO(), width=10_000, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(dump(shown.lines, shown.place))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
