"""Damaged answers of a target: each one has a verdict and a report."""

import json
import random
from copy import deepcopy

import pytest

from conformance.cases.model import FAILURES, VerdictKind
from conformance.judging.judge import judge
from conformance.reports.explain import actual_json, explain
from conformance.runner.policy import FailurePolicy
from conformance.targets.protocol import outcome
from conformance.targets.reference import answer as honest

WRONG = (None, "", {}, [], 0, -1, "zz", "00", True, 1.5, "9" * 23, [None], [{}], {"hex": None}, 10**30)
"""Replacements of a part of an answer."""
LONG = 20_000
"""Maximum characters of a damaged answer."""


def places(node, path=()):
    """Yield the place of each part of an answer, and of the first elements of lists."""
    if path:
        yield path
    parts = node.items() if isinstance(node, dict) else enumerate(node[:6]) if isinstance(node, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def other(part, dice):
    """Return a replacement of a part: other bytes, or a list without one element."""
    if isinstance(part, str) and len(part) > 8 and set(part) <= set("0123456789abcdef") and dice.random() < 0.6:
        data = bytearray.fromhex(part[: len(part) // 2 * 2])
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        return bytes(data[: dice.choice((len(data), dice.randrange(len(data))))]).hex()
    if isinstance(part, list) and part and dice.random() < 0.5:
        return dice.sample(part, len(part) - dice.randrange(2))
    return dice.choice(WRONG)


def damaged(right, dice):
    """Return an answer with one part replaced or removed."""
    answer = deepcopy(right)
    *above, last = dice.choice([*places(answer)])
    node = answer
    for key in above:
        node = node[key]
    if dice.random() < 0.2:
        del node[last]
    else:
        node[last] = other(node[last], dice)
    return answer


@pytest.mark.parametrize(
    "op", ["send", "scenario", "append", "exchange", "convert", "sequence", "read", "encode", "decode"]
)
def test_a_damaged_answer_is_judged_and_can_be_reported(catalog, op):
    dice, policy, seen = random.Random(op), FailurePolicy("should"), set()
    cases = [case for case in catalog.cases.values() if case.op == op]
    for case in cases * 6 if len(cases) < 300 else cases[:: len(cases) // 600 + 1]:
        right = honest(case.request)
        if len(json.dumps(right)) > LONG:
            continue
        found = outcome(damaged(right, dice))
        verdict = judge(case, found)
        seen.add(verdict.kind)
        result = policy.result("a target", case, found, verdict, catalog.requirements)
        if verdict.kind in {*FAILURES, VerdictKind.PROTOCOL}:
            explained = explain(result)
            assert explained.expected or explained.actual
            json.dumps(actual_json(result))
    assert {VerdictKind.FAIL, VerdictKind.PROTOCOL} <= seen
