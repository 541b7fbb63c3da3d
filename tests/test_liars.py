"""Every deliberate liar is caught by what its row names, and an honest target by nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conformance.cases import Kind
from conformance.catalog import select
from conformance.run import Plan, run_target
from conformance.targets.liars import _BREAKING, LIARS, THE_ONE, Catch
from conformance.targets.process import Launch
from conformance.targets.session import Terms

BAD = (Kind.FAIL, Kind.CRASH, Kind.TIMEOUT, Kind.PROTOCOL)
MEMORY = 400 << 20


def judged(liar, cases, catalog, env=None):
    launch = Launch(liar.name, (sys.executable, "-m", "conformance.targets.liars", liar.name), env or {}, str(ROOT))
    terms = Terms(timeout=liar.seconds, startup=30 if liar.starts else 0.5, memory=MEMORY if liar in _BREAKING else 1 << 30)
    record, results = run_target(liar.name, launch, cases, catalog, Plan(jobs=1, terms=terms))
    for _ in results:
        pass
    return record


ROOT = Path(__file__).parent.parent


def cases_for(liar, catalog):
    """All vectors, and for those that are wrong at one question only, the vectors of its type."""
    return select(catalog.cases.values(), ["type:VARINT"] if liar in _BREAKING else [])


def shown(results):
    return {
        Catch(result.verdict.kind, requirement, result.level)
        for result in results
        for requirement in ("", result.requirement, *result.also)
    }


@pytest.mark.parametrize("liar", LIARS.values(), ids=lambda liar: liar.name)
def test_a_liar_is_caught_by_what_its_row_names(liar, catalog, traces):
    record = judged(liar, cases_for(liar, catalog), catalog, traces.env)
    assert bool(record.problem) is not liar.starts
    assert set(liar.caught) <= shown(record.results)
    assert not [
        result.case.id
        for result in record.results
        if isinstance(result.case.expect, liar.never_passes) and result.verdict.kind is Kind.PASS
    ]
