"""`via` in describe: the judged call of each operation and type, and unused entry points."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from conformance.cases.model import Accepted, VerdictKind
from conformance.runner.policy import FailurePolicy
from conformance.runner.target_runner import TargetRunner
from conformance.targets.protocol import EntryPoint, ProtocolError, description


def described(**more):
    return description({"ok": True, "name": "t", "supports": {"decode": ["VARINT", "ARRAY", "INT32"]}, **more})


DOORS = {
    "decode": "internal: read_any",
    "decode VARINT": "public: Consumer.poll > decode_varint",
    "decode ARRAY": "internal: Array.decode",
    "decode ARRAY<INT32>": "unused: Int32Array.decode",
    "decode MESSAGE": "internal: Schema.decode",
    "decode MESSAGE<FetchRequest>": "unused: FetchRequest.decode",
    "read": "public: poll",
}


@pytest.mark.parametrize(
    ("op", "name", "call"),
    [
        ("decode", "VARINT", "decode_varint"),
        ("decode", "INT8", "read_any"),
        ("decode", "ARRAY<INT32>", "Int32Array.decode"),
        ("decode", "ARRAY<STRING>", "Array.decode"),
        ("decode", "MESSAGE<FetchRequest,4>", "FetchRequest.decode"),
        ("decode", "MESSAGE<FetchResponse,4>", "Schema.decode"),
        ("read", "RECORD_BATCH", "poll"),
    ],
)
def test_a_case_has_the_most_specific_entry_point(op, name, call):
    assert described(via=DOORS).entry_point(op, name).call.endswith(call)


def test_without_via_there_is_no_entry_point():
    assert described().entry_point("decode", "VARINT") is None
    assert described(via=DOORS).entry_point("encode", "VARINT") is None


def test_spaces_in_the_name_of_a_type_do_not_matter():
    assert described(via={"decode ARRAY< INT32 >": "public: f"}).entry_point("decode", "ARRAY<INT32>") == EntryPoint(
        "public", "f"
    )


@pytest.mark.parametrize(
    ("via", "message"),
    [
        (["decode"], "via: expected an object"),
        ({"decode VARINT": "decode_varint"}, "'decode VARINT': expected public, internal or unused, then ': '"),
        ({"decode VARINT": "private: decode_varint"}, "'decode VARINT': expected public, internal or unused"),
        ({"decode VARINT": "public: "}, "'decode VARINT': expected public, internal or unused"),
        ({"decode VARINT": 7}, "found 7"),
        ({"decoed VARINT": "public: f"}, "'decoed VARINT': expected an operation"),
        ({"read LOG": "public: poll"}, "'read LOG': expected an operation"),
        ({"VARINT": "public: f"}, "'VARINT': expected an operation"),
    ],
)
def test_an_invalid_via_is_reported_with_its_place(via, message):
    with pytest.raises(ProtocolError, match=r"^describe: via") as raised:
        described(via=via)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


class Wrong:
    """Answers 7 to each request, and records it."""

    def __init__(self, **more):
        self.described, self.requested = described(**more), []

    def describe(self):
        return self.described

    def stop(self):
        pass

    def ask(self, cases, *_, **__):
        self.requested += cases
        return (Accepted({"value": 7, "consumed": 1}) for _ in cases)


def results(catalog, target, *ids):
    target_runner = TargetRunner(SimpleNamespace(name="t", open=lambda: target), catalog.requirements, FailurePolicy())
    cases = [catalog.cases[name] for name in ids]
    assert target_runner.disprove_claims(cases) == []
    return list(target_runner.results(cases))


def test_an_unused_entry_point_is_neither_tested_nor_judged(catalog):
    target = Wrong(via={"decode VARINT": "unused: VarInt32.decode"})
    (result,) = results(catalog, target, "varint/minus-1")
    assert result.verdict.kind is VerdictKind.SKIP
    assert result.verdict.detail == "not judged: the library does not use VarInt32.decode"
    assert target.requested == []


def test_a_failure_names_its_entry_point(catalog):
    target = Wrong(via={"decode VARINT": "public: poll > decode_varint"})
    wrong, skipped = results(catalog, target, "varint/minus-1", "varint/minus-1:encode")
    assert (wrong.verdict.kind, wrong.via) == (VerdictKind.FAIL, "public: poll > decode_varint")
    assert (skipped.verdict.kind, skipped.via) == (VerdictKind.SKIP, "")
