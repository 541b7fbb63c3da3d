"""The cases, properties and limits that the options of a pytest session select."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

import pytest

from conformance.cases.model import Case
from conformance.catalog.catalog import select
from conformance.catalog.catalog_builder import read_catalog
from conformance.errors import UsageError
from conformance.runner.known_failures import KnownFailure, read_known
from conformance.runner.policy import FailurePolicy
from conformance.runner.selection import check_patterns, claimed_messages
from conformance.strategies.seeded.cases import case_of, generated_cases, type_of, types_for
from conformance.strategies.seeded.log_requests import QUESTIONS
from conformance.targets.limits import ResourceLimits
from conformance.targets.probes import probe_case
from conformance.targets.protocol import TargetDescription


class PytestSelection:
    """The selected cases and properties, the limits of a target, and the failure policy.

    `add_messages` adds messages after the targets are started. Raises FileError for an unreadable file, and UsageError
    for a pattern that no case can match.
    """

    def __init__(self, config: pytest.Config) -> None:
        option = config.getoption
        self.catalog = read_catalog([Path(path) for path in option("kafka_vectors") or ()])
        known = read_known(Path(option("kafka_known_failures"))) if option("kafka_known_failures") else ()
        self.limits = ResourceLimits(timeout=option("kafka_timeout"), memory=option("kafka_memory") << 20)
        python = option("kafka_python") or ""
        self.policy = FailurePolicy(option("kafka_fail_on"), option("kafka_strict"), known, python=python)
        self._patterns: list[str] = option("kafka_select") or []
        self._is_shared = len(set(option("kafka_target"))) > 1
        self._count, self._seed = option("kafka_generated"), option("kafka_seed")
        check_patterns(self._patterns, self.catalog, self._count, self._seed, "--kafka-select")
        named = [case for pattern in self._patterns for case in case_of(pattern, self.catalog)]
        self.cases, self.properties = named, []
        self._is_named = len(named) == len(self._patterns) > 0
        if not self._is_named:
            labels = select(self.catalog.cases.summaries.values(), self._patterns)
            self.cases = [*(label.to_case() for label in labels), *named]
            self.properties = self._types() if self._count else []

    @cached_property
    def known_of_one_case(self) -> tuple[KnownFailure, ...]:
        """Return the known failures with one case of one target: they are stale as soon as this case passes."""
        if self._is_shared:
            return ()
        alone = (entry for entry in self.policy.known if not entry.flaky)
        return tuple(entry for entry in alone if sum(map(entry.names, self.catalog.cases)) == 1)

    def _types(self) -> list[str]:
        """Return the types with a property: those with selected generated cases."""
        by_type = [pattern for pattern in self._patterns if pattern.startswith("type:")]
        certain = types_for(by_type) if by_type or not self._patterns else []
        return [name for name in types_for(self._patterns) if name in certain or self.generated(name)]

    def add_messages(self, describe: Callable[[], Iterable[TargetDescription]]) -> None:
        """Add the properties of the messages that targets claim. `describe` starts the targets.

        Raises CannotStart, and UsageError for an empty selection.
        """
        if self._count and not self._is_named:
            by_type = [pattern for pattern in self._patterns if pattern.startswith("type:")]
            names = claimed_messages(self._patterns, (), describe)
            certain = set(types_for(by_type, names)) if by_type or not self._patterns else set()
            self.properties += [name for name in names if name in certain or self.generated(name)]
        if not (self.cases or self.properties):
            raise UsageError("--kafka-select", "the selection matches no case (see `conformance list`)")

    def generated(self, name: str) -> list[Case]:
        """Return the selected generated cases of a type."""
        return select(generated_cases([name], self._count, self._seed, self.catalog), self._patterns)

    def one_per_claim(self) -> list[Case]:
        """Return cases that need every claim of the selected cases and properties."""
        claims = dict.fromkeys((op, type_of(name)) for name in self.properties for op in ops_of(name))
        probes = [probe_case(op, self.catalog.types.wire(name)) for op, name in claims]
        return [*self.cases, *(case for case in probes if case is not None)]


def ops_of(name: str) -> tuple[str, ...]:
    """Return the operations of the property of a type, or of a question about whole logs."""
    return (QUESTIONS[name].op,) if name in QUESTIONS else ("decode", "encode")
