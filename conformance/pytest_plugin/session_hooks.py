"""The pytest hooks of a session with --kafka-target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from conformance import NAME, __version__
from conformance.cases.model import Unsupported, Verdict, VerdictKind
from conformance.errors import ConformanceError
from conformance.pytest_plugin.items import CLAIMS, KafkaCollector, KafkaItem
from conformance.pytest_plugin.selection import PytestSelection
from conformance.pytest_plugin.target import PytestTarget, property_name
from conformance.reports.hex_view import printable
from conformance.runner.known_failures import stale
from conformance.runner.results import Result
from conformance.runner.signals import interrupt_on_signals
from conformance.targets.resolve import target_spec


class SessionHooks:
    """The hooks of a session with targets, and their shared state."""

    def __init__(self, config: pytest.Config, chosen: Sequence[str]) -> None:
        self._config = config
        self._chosen = chosen
        self._worker = hasattr(config, "workerinput")
        self._seen: list[tuple[str, str, str]] = []
        self._causes: Counter[str] = Counter()
        self._problems: list[str] = []
        self._targets: list[PytestTarget] = []
        self._unclaimed: dict[str, set[str]] = {}
        """By target: the names of the deselected items, which need claims that the target does not make."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Read all files and check that the targets start, before collection. Raises pytest.UsageError."""
        if not self._worker:
            interrupt_on_signals()  # not in workers: the main session ends them
        try:
            self._selected = PytestSelection(self._config)
            self._targets = _targets(self._config, self._selected)
            self._selected.add_messages(lambda: [target.start().target.describe() for target in self._targets])
            self._check_chosen()
            if not self._config.getoption("collectonly"):
                self._try_out()
        except ConformanceError as error:
            self.pytest_unconfigure()
            raise pytest.UsageError(f"{NAME}: {error}") from None

    def _check_chosen(self) -> None:
        names = _names(self._selected)
        ids = [f"{_folder_id(self._targets, target)}::{name}" for target in self._targets for name in names]
        for chosen in self._chosen:
            if not any(_within(nodeid, chosen) for nodeid in ids):
                raise pytest.UsageError(f"not found: {chosen}")

    def _try_out(self) -> None:
        """Start every target and store its claims. End it again if workers start their own process."""
        for target in self._targets:
            self._unclaimed[target.name] = set() if self._chosen else target.unclaimed()
            if self._chosen and not self._worker:
                target.start()
            if not self._worker and self._config.pluginmanager.hasplugin("dsession"):
                target.close()

    def pytest_report_header(self) -> list[str]:
        """Return the header: the targets and the numbers of cases, and of deselected items."""
        titles = ", ".join(target.title for target in self._targets)
        selected = self._selected
        counts = f"{len(selected.cases)} cases, {len(selected.properties)} properties"
        unclaimed = [
            f"{target.title} {len(names)}" for target in self._targets if (names := self._unclaimed.get(target.name))
        ]
        line = f"{NAME}: deselected, not claimed by the target: {', '.join(unclaimed)}"
        return [f"{NAME}: {__version__}, {counts}: {titles}", *([line] if unclaimed else [])]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add our items to those of the project, before other plugins select items."""
        root = KafkaCollector.from_parent(session, name=NAME, nodeid=NAME)
        root.targets = self._targets
        ours = [
            item
            for item in session.genitems(root)
            if not self._chosen or any(_within(item.nodeid, chosen) for chosen in self._chosen)
        ]
        dropped = [item for item in ours if self._is_unclaimed(item)]
        if dropped:
            self._config.hook.pytest_deselected(items=dropped)
        items += [item for item in ours if not self._is_unclaimed(item)]

    def _is_unclaimed(self, item: pytest.Item) -> bool:
        return isinstance(item, KafkaItem) and item.name in self._unclaimed.get(item.target.name, ())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the verdicts, also those of workers."""
        properties = dict(report.user_properties)
        if report.when == "call" and "kafka-case" in properties:
            self._seen.append(
                (str(properties["kafka-target"]), str(properties["kafka-case"]), str(properties["verdict"]))
            )
            if report.failed and "cause" in properties:
                self._causes[f"{properties['kafka-target']}: {properties['cause']}"] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End the targets, and fail the session for problems that only all results together show."""
        self.pytest_unconfigure()
        ended = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if self._worker or not ended or self._config.getoption("collectonly"):
            return
        stopped = session.shouldstop or session.shouldfail
        self._problems += [] if stopped else _unjudged(self._seen, self._without_cases())
        self._problems += _stale(self._selected, self._seen, {target.name: target.called for target in self._targets})
        if self._problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _without_cases(self) -> list[str]:
        """Return the targets whose only remaining item is that of the claims."""
        names = set(_names(self._selected)) - {CLAIMS}
        return [name for name, unclaimed in self._unclaimed.items() if unclaimed >= names]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the causes of the failed cases, and the problems that are not in an item."""
        if self._causes:
            terminalreporter.section(f"{NAME}: {self._causes.total()} failed cases, {len(self._causes)} causes")
            for cause, count in self._causes.most_common():
                terminalreporter.line(printable(f"{count} × {cause}"))
        if self._problems:
            terminalreporter.section(NAME, red=True)
            for problem in self._problems:
                terminalreporter.line(problem, red=True)

    def pytest_unconfigure(self) -> None:
        """End the targets, also after an error in the session."""
        for target in self._targets:
            target.close()


def _within(nodeid: str, chosen: str) -> bool:
    return nodeid == chosen or nodeid.startswith(f"{chosen}::")


def _folder_id(targets: Sequence[PytestTarget], target: PytestTarget) -> str:
    return NAME if len(targets) == 1 else f"{NAME}::{target.name}"


def _names(selected: PytestSelection) -> list[str]:
    """Return the names of a target's items, in order."""
    return [CLAIMS, *(case.id for case in selected.cases), *map(property_name, selected.properties)]


def _targets(config: pytest.Config, selected: PytestSelection) -> list[PytestTarget]:
    """Return the targets without duplicates. Raises UnknownTarget."""
    # Fixed, because tests of the project may change the working directory between our items.
    here = str(config.invocation_params.dir)
    targets = []
    for name in dict.fromkeys(config.getoption("kafka_target")):
        spec = target_spec(name, config.getoption("kafka_python"), selected.limits)
        launch = spec.launch and structs.replace(spec.launch, cwd=spec.launch.cwd or here)
        targets.append(PytestTarget(replace(spec, launch=launch), selected))
    return targets


def _unjudged(seen: Iterable[tuple[str, str, str]], without: Iterable[str]) -> list[str]:
    """Return a line for each target with only skipped cases and adapter faults, or without cases (`without`)."""
    judged: dict[str, bool] = dict.fromkeys(without, False)
    for target, _, verdict in seen:
        judged[target] = judged.get(target, False) or verdict not in ("skip", "protocol")
    return [f"{target} was judged on no case" for target, any_case in judged.items() if not any_case]


def _stale(selected: PytestSelection, seen: Iterable[tuple[str, str, str]], names: Mapping[str, str]) -> list[str]:
    """Return a line for each stale known failure; `names` has the own name of each target."""
    cases = selected.catalog.cases
    results = [
        Result(
            target,
            cases[name],
            Unsupported(""),
            Verdict(VerdictKind(verdict)),
            cases.summaries[name].level,
            name=names[target],
        )
        for target, name, verdict in seen
        if selected.policy.known and name in cases
    ]
    return [
        f"stale known failure {entry} (line {entry.line}): {why}"
        for entry, why in stale(selected.policy.known, cases, results, selected.catalog.requirements)
    ]
