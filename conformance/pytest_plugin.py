"""`pytest --kafka-target TARGET`: in anyone's project, a test per case and a property per type.

Nothing but pytest is imported here until that option is given. Every pytest process (with pytest-xdist: every worker)
starts a target when it first needs it and asks that one process all its cases. What is red is what `conformance run`
would exit with a status other than 0 for.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from conformance.cases import Case
    from conformance.catalog import Catalog
    from conformance.known import Known
    from conformance.results import Result
    from conformance.run import Asker, Plan
    from conformance.targets.process import Launch
    from conformance.targets.protocol import Description
    from conformance.vector_files import Requirement

ROOT = "kafka-conformance"
"""What node ids begin with."""

CLAIMS = "probe/claims"
"""The item that fails when a target cannot do what it says of itself."""

_MORE = 10
"""Failing generated cases that are listed beside the first."""

# --- pytest's hooks, always there ---------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `conformance run`, as far as they mean something here."""
    group = parser.getgroup(ROOT, "conformance with the Apache Kafka wire format")

    def option(name: str, text: str, **how: Any) -> None:
        group.addoption(f"--kafka-{name}", help=text, **how)

    option(
        "target",
        "Judge this target: reference, a bundled adapter, module:NAME, module:./FILE.py or command:COMMAND LINE.",
        action="append",
        metavar="TARGET",
    )
    option(
        "select",
        "Only the cases that match: a glob over case ids, or type:…, requirement:…, level:….",
        action="append",
        metavar="PATTERN",
    )
    option("vectors", "A further folder of vectors.", action="append", metavar="DIR")
    option("known-failures", "YAML list of {id, reason}: strict xfails.", metavar="FILE")
    option("fail-on", "Lowest level that fails [must].", choices=("must", "should"), default="must")
    option("strict", "Disputed failures count too.", action="store_true")
    option(
        "generated",
        "Generated cases per type, 0 for vectors only [200].",
        type=_number(int, 0, None),
        default=200,
        metavar="N",
    )
    option("seed", "Of the generated cases [0].", type=_number(int, 0, None), default=0, metavar="N")
    option("timeout", "Seconds for an answer [5].", type=_number(float, 0.05, 3600), default=5.0, metavar="SECONDS")
    option(
        "memory", "MiB for a target and its children [1024].", type=_number(int, 16, None), default=1024, metavar="MIB"
    )
    option("python", "Interpreter for module targets.", metavar="PATH")


def _number(kind: type[int | float], least: float, most: float | None) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
        if not least <= number <= (number if most is None else most):
            raise argparse.ArgumentTypeError(f"{text} is below {least:g}" if number < least else f"{text} is too much")
        return number

    return parse


def pytest_configure(config: pytest.Config) -> None:
    """Take part, if a target is given. Ids of ours among the arguments are taken out: pytest looks for files."""
    if config.getoption("kafka_target"):
        ours = {argument: _our_id(config, argument) for argument in config.args}
        config.args[:] = [argument for argument in config.args if not ours[argument]]
        config.pluginmanager.register(_Suite(config, list(filter(None, ours.values()))), f"{ROOT}-suite")


def _our_id(config: pytest.Config, argument: str) -> str:
    """An argument as an id of ours, seen from the root of the project; empty when it is none."""
    place, colons, rest = argument.partition("::")
    path = Path(os.path.normpath(config.invocation_params.dir / place))
    is_ours = path == config.rootpath / ROOT and (colons or not path.exists())
    return ROOT + colons + rest if is_ours else ""


# --- taking part --------------------------------------------------------------------------------------


class _Suite:
    """The hooks that take part when a target is given, and what they share."""

    def __init__(self, config: pytest.Config, chosen: Sequence[str]) -> None:
        self._config = config
        self._chosen = chosen
        self._worker = hasattr(config, "workerinput")
        self._seen: list[tuple[str, str, str]] = []
        self._problems: list[str] = []
        self._targets: list[_Target] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Read everything, and see that the targets start, before anything is collected. Raises pytest.UsageError."""
        from conformance.codec import UnknownType
        from conformance.targets.resolve import UnknownTarget
        from conformance.targets.session import CannotStart
        from conformance.yaml_files import FileError

        try:
            self._questions = _Questions(self._config)
            self._targets = _targets(self._config, self._questions)
            self._check_chosen()
            if not self._worker and not self._config.getoption("collectonly"):
                self._try_out()
        except (FileError, UnknownTarget, UnknownType, CannotStart) as error:
            self.pytest_unconfigure()
            raise pytest.UsageError(f"{ROOT}: {error}") from None

    def _check_chosen(self) -> None:
        names = _names(self._questions)
        ids = [f"{_folder_id(self._targets, target)}::{name}" for target in self._targets for name in names]
        for chosen in self._chosen:
            if not any(_within(nodeid, chosen) for nodeid in ids):
                raise pytest.UsageError(f"not found: {chosen}")

    def _try_out(self) -> None:
        """Start every target. With workers, which start their own, it is ended again."""
        for target in self._targets:
            target.start()
            if self._config.pluginmanager.hasplugin("dsession"):
                target.close()

    def pytest_report_header(self) -> list[str]:
        """A line per target, and how many cases there are."""
        from conformance import __version__

        names = ", ".join(target.title for target in self._targets)
        questions = self._questions
        return [f"{ROOT}: {__version__}, {len(questions.cases)} cases, {len(questions.properties)} properties: {names}"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add our items to the project's; whatever selects among items then sees all of them."""
        root = KafkaFolder.from_parent(session, name=ROOT, nodeid=ROOT)
        root.targets = self._targets
        items += [
            item
            for item in session.genitems(root)
            if not self._chosen or any(_within(item.nodeid, chosen) for chosen in self._chosen)
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather verdicts, from the workers too."""
        told = dict(report.user_properties)
        if report.when == "call" and "kafka-case" in told:
            self._seen.append((str(told["kafka-target"]), str(told["kafka-case"]), str(told["verdict"])))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End the targets; what shows only in all results together fails the run here."""
        self.pytest_unconfigure()
        ended = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if self._worker or not ended or self._config.getoption("collectonly"):
            return
        stopped = session.shouldstop or session.shouldfail
        self._problems += [] if stopped else _unjudged(self._seen)
        self._problems += _stale(self._questions, self._seen)
        if self._problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what failed the run beside the items."""
        if self._problems:
            terminalreporter.section(ROOT, red=True)
            for problem in self._problems:
                terminalreporter.line(problem, red=True)

    def pytest_unconfigure(self) -> None:
        """End the targets, however the session ended."""
        for target in self._targets:
            target.close()


def _within(nodeid: str, chosen: str) -> bool:
    return nodeid == chosen or nodeid.startswith(f"{chosen}::")


def _folder_id(targets: Sequence[_Target], target: _Target) -> str:
    return ROOT if len(targets) == 1 else f"{ROOT}::{target.name}"


def _names(questions: _Questions) -> list[str]:
    """What the items of a target are called, in order."""
    return [CLAIMS, *(case.id for case in questions.cases), *map(_property_name, questions.properties)]


def _property_name(name: str) -> str:
    return f"property/{name}"


def _targets(config: pytest.Config, questions: _Questions) -> list[_Target]:
    """The targets, each named once. Raises UnknownTarget."""
    from conformance.targets.resolve import resolve

    # A project's tests may change the working directory between our items.
    here = str(config.invocation_params.dir)
    found = []
    for name in dict.fromkeys(config.getoption("kafka_target")):
        launch = None if name == "reference" else resolve(name, config.getoption("kafka_python"))
        found.append(_Target(name, launch and replace(launch, cwd=launch.cwd or here), questions))
    return found


def _unjudged(seen: Iterable[tuple[str, str, str]]) -> list[str]:
    """Targets of which every verdict is a skip: nothing was learnt of them."""
    judged: dict[str, bool] = {}
    for target, _, verdict in seen:
        judged[target] = judged.get(target, False) or verdict not in ("skip", "protocol")
    return [f"{target} was judged on no case" for target, any_case in judged.items() if not any_case]


def _stale(questions: _Questions, seen: Iterable[tuple[str, str, str]]) -> list[str]:
    """Known failures that say nothing true any more, a line each."""
    from conformance.cases import Kind, Unsupported, Verdict
    from conformance.known import stale
    from conformance.results import Result

    cases = questions.catalog.cases
    results = [
        Result(target, cases[name], Unsupported(""), Verdict(Kind(verdict)), cases[name].level)
        for target, name, verdict in seen
        if name in cases
    ]
    return [
        f"stale known failure {entry.id} (line {entry.line}): {why}"
        for entry, why in stale(questions.plan.known, cases, results)
    ]


# --- what is asked ------------------------------------------------------------------------------------


class _Questions:
    """What is asked of every target, and on which terms. Raises FileError for files and a selection of nothing."""

    def __init__(self, config: pytest.Config) -> None:
        from conformance.catalog import read_catalog, select
        from conformance.generated import case_of
        from conformance.known import read_known
        from conformance.run import Plan
        from conformance.targets.session import Terms
        from conformance.yaml_files import FileError

        option = config.getoption
        self.catalog: Catalog = read_catalog([Path(path) for path in option("kafka_vectors") or ()])
        known = read_known(Path(option("kafka_known_failures"))) if option("kafka_known_failures") else ()
        terms = Terms(timeout=option("kafka_timeout"), memory=option("kafka_memory") << 20)
        self.plan: Plan = Plan(1, terms, option("kafka_fail_on"), option("kafka_strict"), known)
        self.alone = {entry for entry in known if self._single(entry, option("kafka_target"))}
        self._patterns: list[str] = option("kafka_select") or []
        self._count, self._seed = option("kafka_generated"), option("kafka_seed")
        named = [case for pattern in self._patterns for case in case_of(pattern, self.catalog)]
        if named and len(named) == len(self._patterns):
            self.cases, self.properties = named, []
        else:
            self.cases = [*select(self.catalog.cases.values(), self._patterns), *named]
            self.properties = list(self._types())
        if not (self.cases or self.properties):
            raise FileError("--kafka-select", "the selection matches no case (see `conformance list`)")

    def _single(self, entry: Known, targets: Sequence[str]) -> bool:
        """Whether an entry speaks of one case of one target, so that it is stale as soon as that one passes."""
        names = [target for target in dict.fromkeys(targets) if entry.target in ("", target)]
        if len(names) != 1 or entry.flaky:
            return False
        return sum(entry.covers(names[0], case) for case in self.catalog.cases) == 1

    def _types(self) -> Iterator[str]:
        """The types of which generated cases are selected."""
        from conformance.generated import TYPES, type_of

        if not self._count:
            return
        by_type = [pattern[5:] for pattern in self._patterns if pattern.startswith("type:")]
        others = [pattern for pattern in self._patterns if pattern.startswith(("requirement:", "level:", "gen/", "*"))]
        for name in TYPES:
            selected = not self._patterns or any(fnmatchcase(type_of(name), pattern) for pattern in by_type)
            if selected or (others and self.generated(name)):
                yield name

    def generated(self, name: str) -> list[Case]:
        """The generated cases of a type, as far as they are selected."""
        from conformance.catalog import select
        from conformance.generated import generated_cases

        return select(generated_cases([name], self._count, self._seed, self.catalog), self._patterns)

    def of_every_claim(self) -> list[Case]:
        """A case for every type and operation that may be asked."""
        from conformance.run import probe_case
        from conformance.strategies.whole_logs import QUESTIONS

        asked = [(op, name) for name in self.properties if name not in QUESTIONS for op in ("decode", "encode")]
        asked += [(op, "LOG") for name, (op, _) in QUESTIONS.items() if name in self.properties]
        probes = [probe_case(op, name) for op, name in asked]
        return [*self.cases, *(case for case in probes if case is not None)]


# --- a target -----------------------------------------------------------------------------------------


class _Target:
    """A target as this process asks it: started when first needed, then one process for everything."""

    def __init__(self, name: str, launch: Launch | None, questions: _Questions) -> None:
        self.name = name
        self.questions = questions
        self.problem = ""
        """Why it cannot be asked any further."""
        self._launch = launch
        self._asker: Asker | None = None
        self._description: Description | None = None
        self._disproved: list[Result] | None = None

    @property
    def title(self) -> str:
        """Its name, with its version where it was started."""
        version = self._description.version if self._description else ""
        return f"{self.name} {version}" if version.isprintable() and version else self.name

    def start(self) -> tuple[Asker, Description]:
        """Start it, if it does not run. Raises CannotStart."""
        from conformance.run import asker_for

        if self._asker is None:
            self._asker = asker_for(self._launch, self.questions.plan)
        if self._description is None:
            self._description = self._asker.describe()
        return self._asker, self._description

    def close(self) -> None:
        """End it."""
        asker, self._asker = self._asker, None
        if asker is not None:
            asker.close()

    def disproved(self) -> list[Result]:
        """Its claims that do not hold, asked once. Raises CannotStart."""
        from conformance.cases import Kind
        from conformance.run import _probe

        if self._disproved is None:
            asker, description = self.start()
            probed = _probe(description, self.questions.of_every_claim(), asker)
            self._disproved = [
                self._result(case, outcome, verdict)
                for case, outcome, verdict in probed
                if verdict.kind is Kind.PROTOCOL
            ]
        return self._disproved

    def judge(self, cases: Sequence[Case]) -> list[Result]:
        """Put cases to it. Raises CannotStart."""
        from conformance.judging import judge
        from conformance.run import _asked

        disproved = [result.case for result in self.disproved()]
        refuted: set[tuple[str, str]] = {(case.op, case.type.partition("<")[0]) for case in disproved}
        asker, description = self.start()
        return [
            self._result(case, outcome, judge(case, outcome))
            for case, outcome in _asked(description, cases, refuted, asker)
        ]

    def _result(self, case: Case, outcome: Any, verdict: Any) -> Result:
        from conformance.run import result_of

        questions = self.questions
        return result_of(self.name, case, outcome, verdict, catalog=questions.catalog, plan=questions.plan)


# --- items --------------------------------------------------------------------------------------------


class KafkaFolder(pytest.Collector):
    """Where our items hang in pytest's tree: a target's, or the folders of several targets."""

    targets: Sequence[_Target]

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """The items, the same in every process."""
        if len(self.targets) == 1:
            yield from self._items(self.targets[0])
            return
        for target in self.targets:
            folder = KafkaFolder.from_parent(self, name=target.name)
            folder.targets = [target]
            yield folder

    def _items(self, target: _Target) -> Iterator[pytest.Item]:
        questions = target.questions
        yield KafkaClaims.make(self, CLAIMS, target)
        for case in questions.cases:
            item = KafkaCase.make(self, case.id, target)
            item.case = case
            yield item
        for name in questions.properties:
            generated = KafkaProperty.make(self, _property_name(name), target)
            generated.type = name
            yield generated


class _Item(pytest.Item):
    """A question, or several, to a target."""

    target: _Target

    @classmethod
    def make(cls, folder: KafkaFolder, name: str, target: _Target) -> Self:
        """An item in a folder."""
        item: Self = cls.from_parent(folder, name=name)
        item.target = target
        return item

    def runtest(self) -> None:
        """Ask and judge. A target that is lost fails one item; what is not asked any more is skipped."""
        from conformance.targets.session import CannotStart

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
            lines += [_described(result, requirements) for result in disproved]
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
        _decide([result], self.target.questions)
        self._no_longer_known(result)

    def _no_longer_known(self, result: Result) -> None:
        from conformance.cases import Kind

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
        _decide(results, questions)


def _decide(results: Sequence[Result], questions: _Questions) -> None:
    """Raise what pytest takes as the outcome of the results of one item; nothing when it passed."""
    from conformance.cases import Kind

    bad = [result for result in results if result.counts and not result.known]
    bad += [result for result in results if result.verdict.kind is Kind.PROTOCOL]
    if bad:
        pytest.fail(_all_described(bad, len(results), questions.catalog.requirements), pytrace=False)
    known = [result for result in results if result.known]
    if known:
        entry = next(entry for entry in questions.plan.known if entry.excuses(known[0]))
        pytest.xfail(f"{entry.reason} ({_verdict(known[0])})")
        # With --runxfail that was no word.
        if any(result.counts for result in known):
            pytest.fail(_all_described(known, len(results), questions.catalog.requirements), pytrace=False)
    spared = [result for result in results if result.failed and not result.known]
    if spared:
        share = "" if len(results) == 1 else f"{len(spared)} of {len(results)}, first {spared[0].case.id}: "
        group = "disputed" if spared[0].disputed else spared[0].level
        pytest.skip(f"{group}: {share}{_verdict(spared[0])}: {_plain(spared[0].verdict.detail)}")
    if all(result.verdict.kind is Kind.SKIP for result in results):
        pytest.skip(_plain(results[0].verdict.detail) if results else "no generated case is selected")


# --- words --------------------------------------------------------------------------------------------


def _verdict(result: Result) -> str:
    return f"{result.verdict.kind} of {result.requirement}"


def _plain(text: str) -> str:
    from conformance.reports.text import printable

    return printable(text)


def _all_described(bad: Sequence[Result], count: int, requirements: dict[str, Requirement]) -> str:
    """The first bad result, and the names of others."""
    parts = [_described(bad[0], requirements)]
    if count > 1:
        parts.append(f"{len(bad)} of {count} generated cases of {bad[0].case.type} fail")
        parts += [f"  {result.case.id}  {_verdict(result)}" for result in bad[1 : 1 + _MORE]]
        parts += [f"  and {len(bad) - 1 - _MORE} more"] if len(bad) > 1 + _MORE else []
    return "\n".join(parts)


def _described(result: Result, requirements: dict[str, Requirement]) -> str:
    """One failure in full, as plain text."""
    from conformance.reports.explain import explain

    shown = explain(result)
    requirement = requirements.get(result.requirement)
    parts = [f"{result.requirement} ({result.level}): {result.verdict.kind}: {_plain(result.verdict.detail)}"]
    if requirement is not None:
        parts.append(f"{requirement.statement} [{', '.join(requirement.source)}]")
    parts += ["", f"{result.case.id}  {result.target}" + ("  [flaky]" if result.verdict.flaky else "")]
    parts += [result.case.note] if result.case.note else []
    parts += [f"expected: {_plain(shown.expected)}", f"actual:   {_plain(shown.actual)}"]
    if shown.lines:
        parts.append(_dump(shown))
    parts.append(_plain(shown.reproduce))
    return "\n".join(parts)


def _dump(shown: Any) -> str:
    """The annotated bytes as plain text."""
    import io

    from rich.console import Console

    from conformance.reports.text import dump

    console = Console(file=io.StringIO(), width=10_000, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(dump(shown.lines, shown.place))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
