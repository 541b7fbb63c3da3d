"""What is asked of every target, and a target as this process asks it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.cases.catalog import read_catalog, select
from conformance.cases.model import Case
from conformance.errors import UsageError
from conformance.running.examiner import Examiner, Plan, probe_case
from conformance.running.known_failures import Known, read_known
from conformance.running.results import Result, Shrunk
from conformance.running.shrinking import PATIENCE, shrink
from conformance.strategies.seeded.cases import case_of, generated_cases, types_for
from conformance.strategies.seeded.log_questions import QUESTIONS
from conformance.targets.process import Launch
from conformance.targets.session import CannotStart, Terms


class Questions:
    """What is asked of every target, and on which terms. Raises FileError for files and a selection of nothing."""

    def __init__(self, config: pytest.Config) -> None:
        option = config.getoption
        self.catalog = read_catalog([Path(path) for path in option("kafka_vectors") or ()])
        known = read_known(Path(option("kafka_known_failures"))) if option("kafka_known_failures") else ()
        terms = Terms(timeout=option("kafka_timeout"), memory=option("kafka_memory") << 20)
        self.plan = Plan(1, terms, option("kafka_fail_on"), option("kafka_strict"), known)
        self.alone = {entry for entry in known if self._single(entry, option("kafka_target"))}
        self._patterns: list[str] = option("kafka_select") or []
        self._count, self._seed = option("kafka_generated"), option("kafka_seed")
        named = [case for pattern in self._patterns for case in case_of(pattern, self.catalog)]
        self.cases, self.properties = named, []
        if not named or len(named) != len(self._patterns):
            self.cases = [*select(self.catalog.cases.values(), self._patterns), *named]
            self.properties = self._types() if self._count else []
        if not (self.cases or self.properties):
            raise UsageError("--kafka-select", "the selection matches no case (see `conformance list`)")

    def _single(self, entry: Known, targets: Sequence[str]) -> bool:
        """Whether an entry speaks of one case of one target, so that it is stale as soon as that one passes."""
        names = [target for target in dict.fromkeys(targets) if entry.target in ("", target)]
        if len(names) != 1 or entry.flaky:
            return False
        return sum(entry.covers(names[0], case) for case in self.catalog.cases) == 1

    def _types(self) -> list[str]:
        """The types of which generated cases are selected."""
        by_type = [pattern for pattern in self._patterns if pattern.startswith("type:")]
        certain = types_for(by_type) if by_type or not self._patterns else []
        return [name for name in types_for(self._patterns) if name in certain or self.generated(name)]

    def generated(self, name: str) -> list[Case]:
        """The generated cases of a type, as far as they are selected."""
        return select(generated_cases([name], self._count, self._seed, self.catalog), self._patterns)

    def of_every_claim(self) -> list[Case]:
        """A case for every type and operation that may be asked."""
        asked = [(op, name) for name in self.properties if name not in QUESTIONS for op in ("decode", "encode")]
        asked += [(op, "LOG") for name, (op, _) in QUESTIONS.items() if name in self.properties]
        probes = [probe_case(op, name) for op, name in asked]
        return [*self.cases, *(case for case in probes if case is not None)]


class Target:
    """A target as this process asks it: started when first needed, then one process for everything."""

    def __init__(self, name: str, launch: Launch | None, questions: Questions) -> None:
        self.name = name
        self.questions = questions
        self.problem = ""
        """Why it cannot be asked any further."""
        self._launch = launch
        self._examiner: Examiner | None = None
        self._version = ""
        self._disproved: list[Result] | None = None
        self._patience = PATIENCE

    @property
    def title(self) -> str:
        """Its name, with its version where it was started."""
        return f"{self.name} {self._version}" if self._version.isprintable() and self._version else self.name

    def start(self) -> Examiner:
        """Start it, if it does not run. Raises CannotStart."""
        if self._examiner is None:
            self._examiner = Examiner(self.name, self._launch, self.questions.catalog, self.questions.plan)
        self._version = self._examiner.describe().version
        return self._examiner

    def close(self) -> None:
        """End it."""
        examiner, self._examiner = self._examiner, None
        if examiner is not None:
            examiner.close()

    def disproved(self) -> list[Result]:
        """Its claims that do not hold, asked once. Raises CannotStart."""
        if self._disproved is None:
            self._disproved = self.start().disproved(self.questions.of_every_claim())
        return self._disproved

    def judge(self, cases: Sequence[Case]) -> list[Result]:
        """Put cases to it. Raises CannotStart."""
        self.disproved()
        return list(self.start().results(cases))

    def shrink(self, results: Sequence[Result]) -> list[Shrunk]:
        """What failing results come down to, within one patience for the whole session."""
        found: list[Shrunk] = []
        started = time.monotonic()
        try:
            for shrunk in shrink(results, self.start(), self.questions.catalog, self._patience):
                found.append(shrunk)  # noqa: PERF402 - what there is when it breaks off is kept
        except CannotStart as error:
            self.problem = str(error)
        self._patience -= time.monotonic() - started
        return found
