"""The items that a target hangs into pytest's tree: its claims, a case each, a property per type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import pytest

from conformance.cases.model import Case, Kind
from conformance.pytest_plugin import ROOT
from conformance.pytest_plugin.asking import Questions, Target
from conformance.pytest_plugin.words import all_described, described, verdict
from conformance.reports.text import printable
from conformance.running.results import Result, Shrunk
from conformance.targets.session import CannotStart

CLAIMS = "probe/claims"
"""The item that fails when a target cannot do what it says of itself."""


def property_name(name: str) -> str:
    """What the item of a type's generated cases is called."""
    return f"property/{name}"


class KafkaFolder(pytest.Collector):
    """Where our items hang in pytest's tree: a target's, or the folders of several targets."""

    targets: Sequence[Target]

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """The items, the same in every process."""
        if len(self.targets) == 1:
            yield from self._items(self.targets[0])
            return
        for target in self.targets:
            folder = KafkaFolder.from_parent(self, name=target.name)
            folder.targets = [target]
            yield folder

    def _items(self, target: Target) -> Iterator[pytest.Item]:
        questions = target.questions
        yield KafkaClaims.make(self, CLAIMS, target)
        for case in questions.cases:
            item = KafkaCase.make(self, case.id, target)
            item.case = case
            yield item
        for name in questions.properties:
            generated = KafkaProperty.make(self, property_name(name), target)
            generated.type = name
            yield generated


class _Item(pytest.Item):
    """A question, or several, to a target."""

    target: Target

    @classmethod
    def make(cls, folder: KafkaFolder, name: str, target: Target) -> Self:
        """An item in a folder."""
        item: Self = cls.from_parent(folder, name=name)
        item.target = target
        return item

    def runtest(self) -> None:
        """Ask and judge. A target that is lost fails one item; what is not asked any more is skipped."""
        if self.target.problem:
            pytest.skip(f"not asked: {self.target.problem}")
        try:
            self.question()
        except CannotStart as error:
            self.target.problem = str(error)
        if self.target.problem:
            pytest.fail(self.target.problem, pytrace=False)

    def question(self) -> None:
        """Ask, and raise what pytest takes as the outcome. Raises CannotStart."""
        raise NotImplementedError

    def tell(self, **properties: str) -> None:
        """Leave words in the report, for JUnit and for the end of the session."""
        self.user_properties += properties.items()

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """No file, no line, and a title."""
        return self.config.rootpath / ROOT, None, f"{self.target.name}: {self.name}"


class KafkaClaims(_Item):
    """Whether the target can do what it says."""

    def question(self) -> None:
        disproved = self.target.disproved()
        if disproved:
            requirements = self.target.questions.catalog.requirements
            lines = [f"{len(disproved)} claims disproved, the cases of these types are skipped"]
            lines += [described(result, requirements) for result in disproved]
            pytest.fail("\n\n".join(lines), pytrace=False)


class KafkaCase(_Item):
    """One case."""

    case: Case

    def question(self) -> None:
        (result,) = self.target.judge([self.case])
        self.tell(
            **{"kafka-target": result.target, "kafka-case": self.case.id, "verdict": str(result.verdict.kind)},
            requirement=result.requirement,
            level=result.level,
        )
        requirements = self.target.questions.catalog.requirements
        _decide([result], self.target.questions, lambda bad: described(bad[0], requirements))
        self._no_longer_known(result)

    def _no_longer_known(self, result: Result) -> None:
        questions = self.target.questions
        if result.verdict.kind is Kind.PASS:
            for entry in questions.alone:
                if entry.covers(result.target, self.case.id):
                    pytest.fail(f"[XPASS(strict)] known failure (line {entry.line}): {entry.reason}", pytrace=False)


class KafkaProperty(_Item):
    """A type's generated cases, all of them: the target agrees with the reference on every one."""

    type: str

    def question(self) -> None:
        questions = self.target.questions
        results = self.target.judge(questions.generated(self.type))
        counts = Counter(str(result.verdict.kind) for result in results)
        judged = next((kind for kind in counts if kind not in ("skip", "protocol")), "skip")
        self.tell(
            **{"kafka-target": self.target.name, "kafka-case": self.name, "verdict": judged},
            counts=", ".join(f"{kind} {counts[kind]}" for kind in sorted(counts)),
        )
        _decide(results, questions, lambda bad: self._in_full(bad, len(results)))

    def _in_full(self, bad: Sequence[Result], count: int) -> str:
        """What the failures come down to; faults of the protocol are not shrunk."""
        shrunk = self.target.shrink(bad) or [Shrunk(bad[0], len(bad), bad[0].case.id)]
        return all_described(shrunk, count, len(bad), self.target.questions.catalog.requirements)


def _decide(results: Sequence[Result], questions: Questions, describe: Callable[[Sequence[Result]], str]) -> None:
    """Raise what pytest takes as the outcome of the results of one item; nothing when it passed."""
    bad = [result for result in results if result.is_unexpected]
    bad += [result for result in results if result.verdict.kind is Kind.PROTOCOL]
    if bad:
        pytest.fail(describe(bad), pytrace=False)
    known = [result for result in results if result.known]
    if known:
        entry = next(entry for entry in questions.plan.known if entry.excuses(known[0]))
        pytest.xfail(f"{entry.reason} ({verdict(known[0])})")
        # With --runxfail that was no word.
        if any(result.counts for result in known):
            pytest.fail(describe(known), pytrace=False)
    spared = [result for result in results if result.failed and not result.known]
    if spared:
        share = "" if len(results) == 1 else f"{len(spared)} of {len(results)}, first {spared[0].case.id}: "
        group = "disputed" if spared[0].disputed else spared[0].level
        pytest.skip(f"{group}: {share}{verdict(spared[0])}: {printable(spared[0].verdict.detail)}")
    if all(result.verdict.kind is Kind.SKIP for result in results):
        pytest.skip(printable(results[0].verdict.detail) if results else "no generated case is selected")
