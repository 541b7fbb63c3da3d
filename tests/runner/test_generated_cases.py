"""Cases are generated while the vectors are judged, without unnecessary waiting and without loss."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Event

import psutil
import pytest

from conformance import codec
from conformance.cases.model import Unsupported, VerdictKind
from conformance.cases.stored_cases import stored_all
from conformance.definitions._parser import parse_definition
from conformance.errors import CannotStart
from conformance.runner import generated_cases as generating
from conformance.runner.executor import judge_target
from conformance.runner.generated_cases import DeferredCases, GenerationRequest, generate, generate_in_process
from conformance.runner.parallel import StopEvent, run_parallel
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import TargetRun
from conformance.runner.selection import (
    Selection,
    expected_further,
    first_cases,
    further_cases,
    makes_many,
    selected_cases,
)
from conformance.strategies.seeded.cases import generated_cases, types_for
from conformance.strategies.seeded.generator import VERSION
from conformance.targets import protocol, reference
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import target_spec

NAMED = f"gen/{VERSION}/INT8/0/3"
LONG = 60
"""Timeout in seconds of a waiting test."""


class RecordingTarget:
    """The reference with a record of its requests, and without one claimed type."""

    starts = unjudged = 0

    def __init__(self, without=""):
        self.without, self.requested = without, []

    def describe(self):
        return protocol.description(reference.describe())

    def ask(self, cases, *_, **__):
        for case in cases:
            self.requested.append(case.id)
            yield (
                Unsupported("not really")
                if case.type == self.without
                else protocol.outcome(reference.answer(case.request))
            )

    def stop(self):
        pass

    def close(self):
        pass


class Spec:
    """The specification of that target."""

    name = "recording"

    def __init__(self, target):
        self.open = lambda: target


def judged(target, catalog, cases, further, on_result=None, stop=None):
    run = TargetRun("recording", on_result=on_result)
    judge_target(Spec(target), run, cases, catalog.requirements, FailurePolicy(), further=further, stop=stop)
    return run


@pytest.fixture(scope="module")
def parts(catalog):
    """Return vectors and generated cases."""
    vectors = [case for case in catalog.cases.summaries.values() if case.type in ("VARINT", "INT8")]
    return vectors, stored_all(generated_cases(("VARINT", "UUID"), 10, 0, catalog))


def test_vectors_are_judged_before_cases_are_generated(catalog, parts):
    vectors, generated = parts
    seen = Event()

    def make():
        assert seen.wait(LONG)
        yield from generated

    further = DeferredCases(make)
    runs = []
    run_parallel(
        [
            further.make,
            lambda _: runs.append(judged(RecordingTarget(), catalog, vectors, further, lambda _: seen.set())),
        ]
    )
    assert [result.summary.id for result in runs[0].results] == [case.id for case in (*vectors, *generated)]
    assert {result.verdict.kind for result in runs[0].results} <= {VerdictKind.PASS, VerdictKind.EITHER}


def test_a_claim_is_probed_once_before_its_cases(catalog, parts):
    vectors, generated = parts
    target = RecordingTarget(without="UUID")
    run = judged(target, catalog, vectors, lambda: generated)
    assert target.requested.count("probe/VARINT:decode") == target.requested.count("probe/UUID:decode") == 1
    assert target.requested.index(vectors[0].id) < target.requested.index("probe/UUID:decode")
    assert [one.summary.id for one in run.results if one.verdict.kind is VerdictKind.PROTOCOL] == [
        "probe/UUID:decode",
        "probe/UUID:encode",
    ]
    again = RecordingTarget(without="VARINT")
    run = judged(again, catalog, vectors, lambda: generated)
    assert sum(one.verdict.kind is VerdictKind.PROTOCOL for one in run.results) == 3
    assert not [name for name in again.requested if "/VARINT/" in name]


def test_a_stop_ends_the_generation_and_waiting_threads(catalog, parts):
    stop, endless = StopEvent(), DeferredCases(lambda: iter(lambda: parts[1][0], None))
    run = TargetRun("recording", on_result=lambda _: stop.set())
    with ThreadPoolExecutor(2) as pool:
        making = pool.submit(endless.make, stop)
        pool.submit(judged, RecordingTarget(), catalog, parts[0], endless, lambda _: stop.set(), stop).result(LONG)
        assert isinstance(making.exception(LONG), CannotStart)
    assert run.problem == ""


def test_an_error_of_the_generation_is_raised_at_the_next_case(catalog, parts):
    def make():
        yield parts[1][0]
        raise ZeroDivisionError

    further = DeferredCases(make)
    with pytest.raises(ZeroDivisionError):
        further.make(StopEvent())
    with pytest.raises(ZeroDivisionError):
        judged(RecordingTarget(), catalog, parts[0], further)


def test_the_number_of_generated_cases_is_known_after_generation(parts):
    further, failing = DeferredCases(lambda: parts[1]), DeferredCases(lambda: 1 // 0)
    assert further.count is None
    further.make(StopEvent())
    assert further.count == len(parts[1])
    with pytest.raises(ZeroDivisionError):
        failing.make(StopEvent())
    assert failing.count is None


def test_a_generation_in_two_parts_equals_the_selection(catalog):
    spec = Spec(RecordingTarget())
    for patterns in ((), ("type:VARINT", NAMED), (NAMED,)):
        selection = Selection(patterns, generated=2)
        whole = [case.id for case in selected_cases(selection, catalog, [spec])]
        first = [case.id for case in first_cases(selection, catalog)]
        assert first + [case.id for case in further_cases(selection, catalog, [spec])] == whole
        assert not makes_many(selection)
    assert makes_many(Selection(()))
    assert not makes_many(Selection((), as_of="0.1.0"))


def test_the_expected_number_of_cases_is_about_the_generated_one(catalog):
    """The progress bar shows a total from the start."""
    for selection in (Selection(generated=40), Selection(("type:LARGE_*", "type:LOG", "type:RECORD"))):
        number = len(list(generated_cases(types_for(selection.patterns), selection.generated, 0, catalog)))
        assert 0.9 * number < expected_further(selection, catalog) < 1.1 * number


@pytest.mark.parametrize("pattern", ["gen/*/VARINT/*:encode", "requirement:compact-string*"])
def test_only_the_selected_cases_of_a_type_are_generated(pattern, catalog):
    all_of_it = [case.id for case in generate(GenerationRequest(("VARINT", "COMPACT_STRING"), 40, 0, ()), catalog)]
    some = [case.id for case in generate(GenerationRequest(("VARINT", "COMPACT_STRING"), 40, 0, (pattern,)), catalog)]
    assert 0 < len(some) < len(all_of_it)
    assert set(some) < set(all_of_it)


ECHO = """
def describe():
    return {"name": "m", "version": "1", "language": "python", "supports": {"decode": ["INT8"]}}

def decode(type, data, **parameters):
    return data[0], 1
"""


OWN = {"name": "Own", "apiKey": 700, "type": "request", "validVersions": "0-1", "flexibleVersions": "none",
       "fields": [{"name": "Id", "type": "int32", "versions": "0+"}]}  # fmt: skip


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        (("VARINT", "RECORD_BATCH", "READ"), ()),
        (("VARINT", "UUID"), ("type:UUID", "gen/*/VARINT/0/1:encode")),
        (("MESSAGE<MetadataRequest,9>", "MESSAGE<Own,1>"), ()),
    ],
)
def test_another_process_generates_the_same_cases(names, patterns, catalog, monkeypatch):
    known = replace(catalog, types=catalog.types.adding([parse_definition(OWN)[0]]))
    order = GenerationRequest(names, 40, 1, patterns)
    here = [*generate(order, known)]
    monkeypatch.delattr(generating, "generate")  # this process generates no more cases
    assert [case.to_case() for case in generate_in_process(order, known)] == here
    assert len(here) > 1


def maker():
    (found,) = (one for one in psutil.Process().children() if "generated_cases" in " ".join(one.cmdline()))
    return found


def test_a_generating_process_ends_when_no_more_cases_are_needed(catalog):
    cases = generate_in_process(GenerationRequest(("LOG",), 100_000, 0, ()), catalog)
    assert next(cases).id == f"gen/{VERSION}/LOG/0/0"
    there = maker()
    cases.close()
    assert not there.is_running()


@pytest.mark.parametrize("after", [0, 1, 100])
def test_cases_missing_from_another_process_are_generated_in_this_one(after, catalog, monkeypatch):
    order = GenerationRequest(("LOG", "INT8"), 150, 0, ())
    if not after:
        monkeypatch.setattr(generating, "_start_process", lambda: (_ for _ in ()).throw(BlockingIOError(11, "no room")))
    cases = generate_in_process(order, catalog)
    first = [next(cases) for _ in range(after)]
    if after:
        maker().kill()
    assert [case.id for case in (*first, *cases)] == [case.id for case in generate(order, catalog)]


def test_an_error_in_both_processes_is_raised(catalog):
    with pytest.raises(codec.UnknownType):
        list(generate_in_process(GenerationRequest(("INT8", "NO_SUCH_TYPE"), 100, 0, ()), catalog))


def test_parallel_processes_generate_the_parts_in_order(catalog, tmp_path):
    (tmp_path / "target.py").write_text(ECHO)
    case = next(label.to_case() for label in catalog.cases.summaries.values() if label.id == "int8/zero")
    cases = [replace(case, request={**case.request, "hex": f"{number % 256:02x}"}) for number in range(600)]
    with closing(target_spec(f"module:{tmp_path / 'target.py'}", None, ResourceLimits(), 2).open()) as target:
        for part in (cases[:400], cases[400:], cases[:300]):
            values = [outcome.answer["value"] for outcome in target.ask(part, lambda case: protocol.body(case.request))]
            assert values == [int(one.request["hex"], 16) for one in part]
        assert len(target._sessions) == 2
        assert not target._threads
