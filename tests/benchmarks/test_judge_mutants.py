"""The mutant sweep over the judge: it mutates no texts and kills mutants with other verdicts, not the original."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.catalog.catalog import CaseStore

pytestmark = pytest.mark.integration

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
SAMPLE = 20
FIRST = 3_000
"""Cases with answers, taken from each requirement in turn, in addition to all client and broker scenarios."""


@pytest.fixture(scope="module")
def sweeping():
    """Return the script as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        spec = importlib.util.spec_from_file_location("judge_mutants", BENCHMARKS / "judge_mutants.py")
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "judge_mutants", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def mutants(sweeping):
    return sweeping.judge_mutants()


@pytest.fixture(scope="module")
def judge_sweep(sweeping, catalog):
    """Return one judge for all mutants, with answers to all scenarios and to some other cases."""
    cases = importlib.import_module("mutants").in_killing_order(catalog.cases.values())
    chosen = [case for at, case in enumerate(cases) if at < FIRST or case.op in ("send", "scenario")]
    return sweeping.JudgeSweep(sweeping.pairs_of(replace(catalog, cases=CaseStore(chosen)), tried=300))


def fates(judge_sweep, mutants):
    return list(judge_sweep.fates(mutants, 1))


def the(mutants, file, text, damage):
    place = (f"judging/{file}", damage)
    found = [mutant for mutant in mutants if (mutant.file, mutant.damage) == place and text in mutant.text]
    assert len(found) == 1, found
    return found[0]


SNIPPET = """
RULE = "kept.not"
def request_name(data):
    return "kept" + data
def judge(found: int) -> Verdict:
    hint = "kept" if found > 1 else "kept, too"
    if found > 1:
        return Verdict(Kind.FAIL, "kept" + hint, "kept", RULE, "must")
    if not isinstance(found, int):
        raise NotationError("damaged")
    return failed(request_name("kept"), "kept", "rule.of-it")
"""
DAMAGES = [
    ('RULE = "kept.not"', "'kept.not' -> 'kept.notx'"),
    ("if found > 1:", "> -> >="),
    ("if found > 1:", "1 -> 0"),
    ("if found > 1:", "1 -> 2"),
    ('return Verdict(Kind.FAIL, "kept" + hint, "kept", RULE, "must")', "'must' -> 'mustx'"),
    ("if not isinstance(found, int):", "not removed"),
    ('raise NotationError("damaged")', "raise -> pass"),
    ('return failed(request_name("kept"), "kept", "rule.of-it")', "'rule.of-it' -> 'rule.of-itx'"),
]


def test_only_code_that_decides_a_verdict_is_mutated(sweeping, monkeypatch, tmp_path):
    (tmp_path / "judging").mkdir()
    (tmp_path / "judging" / "it.py").write_text(SNIPPET)
    (tmp_path / "judging" / "failure_causes.py").write_text(SNIPPET)
    monkeypatch.setattr(sweeping, "PACKAGE", tmp_path)
    found = sweeping.judge_mutants()
    assert [(one.text, one.damage) for one in found] == DAMAGES
    assert {one.file for one in found} == {"judging/it.py"}


def test_the_unmutated_judge_is_neither_killed_nor_distinguished(sweeping, judge_sweep):
    original = sweeping.Mutant("", 0, 0, "undamaged", "", (0, 0), "")
    assert fates(judge_sweep, [original]) == [sweeping.Fate(original)]


def test_deadly_mutants_are_killed(judge_sweep, mutants):
    deadly = [
        the(mutants, "_consumer_behavior.py", "at_first > EMPTY_FETCHES:", "> -> >="),
        the(mutants, "_broker_scenario.py", "if offset < log.end:", "< -> <="),
    ]
    assert all(fate.killed for fate in fates(judge_sweep, deadly))


def test_every_explained_survivor_exists(sweeping, mutants):
    known = sweeping.known_survivors(sweeping.KNOWN_SURVIVORS)
    assert known
    for entry in known:
        assert any(map(entry.covers, mutants)), entry
        for damage in entry.damages:
            assert any(entry.covers(one) and one.damage == damage for one in mutants), (entry, damage)


def test_a_sample_is_killed_except_for_explained_survivors(sweeping, judge_sweep, mutants):
    known = sweeping.known_survivors(sweeping.KNOWN_SURVIVORS)
    drawn = [one for one in sweeping.sampled(mutants, SAMPLE, 0) if not any(entry.covers(one) for entry in known)]
    assert len(drawn) > SAMPLE / 2
    assert [sweeping.shown(fate.mutant) for fate in fates(judge_sweep, drawn) if not fate.killed] == []
