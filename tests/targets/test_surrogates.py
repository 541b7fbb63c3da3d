"""Encoding a lone surrogate: its notation, the targets that get it, and the allowed outcomes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from conformance import codec
from conformance.cases.model import Accepted, CaseOrigin, ExpectAnyOf, ExpectBytes, Rejected, Verdict, VerdictKind
from conformance.catalog.case_builder import ad_hoc_case
from conformance.catalog.catalog_builder import read_catalog
from conformance.errors import FileError
from conformance.files.atomic import OutputFiles
from conformance.files.bounded_json import is_text, read_json
from conformance.files.yaml_loader import load
from conformance.judging.judge import judge
from conformance.runner.results import Result, ShrunkFailure, TargetRun
from conformance.runner.save_vectors import save_all
from conformance.targets.protocol import body, description

HALF = "a\ud800b"
MODULE = """
def describe():
    return {"name": "mine", "supports": {"encode": ["STRING"]}, %s}

def encode(type, value):
    raw = value.encode("utf-8", "%s")
    return len(raw).to_bytes(2, "big") + raw
"""


def run(*arguments, cwd):
    """Run `conformance run` with these arguments."""
    command = [sys.executable, "-m", "conformance", "run", *arguments, "--generated", "0"]
    return subprocess.run(command, cwd=cwd, capture_output=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def case(catalog):
    return catalog.cases["utf8/lone-high-surrogate-unwritable"]


@pytest.mark.parametrize("written", ["0003613f62", "000561efbfbd62", "00026162"])
def test_text_instead_of_the_surrogate_is_correct(case, written):
    assert judge(case, Accepted({"hex": written})).kind is VerdictKind.EITHER


@pytest.mark.parametrize("written", ["000561eda08062", "0004613f62", "000261d862", "00056100d80062"])
def test_invalid_utf_8_and_a_wrong_length_fail(case, written):
    verdict = judge(case, Accepted({"hex": written}))
    assert (verdict.kind, verdict.requirement or case.requirement) == (VerdictKind.FAIL, "utf8.encoded-valid")


def test_rejecting_a_lone_surrogate_is_correct(case):
    assert judge(case, Rejected("invalid-value")).kind is VerdictKind.EITHER


def test_a_batch_with_wrong_lengths_violates_the_requirement_of_the_surrogate(catalog):
    case = catalog.cases["header/key-lone-surrogate-unwritable"]
    verdict = judge(case, Accepted({"hex": "20000000026b02760204683f0278"}))
    assert (verdict.kind, verdict.requirement or case.requirement) == (
        VerdictKind.FAIL,
        "header.key-surrogate-unwritable",
    )


def test_any_bytes_are_allowed_if_the_rest_of_the_value_has_several_encodings(catalog):
    value = {"baseOffset": 0, "compression": "gzip", "records": [{"headers": [{"key": HALF, "value": None}]}]}
    batch = catalog.cases["batch/record-header-key-lone-surrogate-unwritable"]
    assert all(reading.ignoring == (12, 16) for reading in batch.expect.readings if isinstance(reading, ExpectBytes))
    whole = {**batch.request["value"], **value}
    whole["records"] = [{**batch.request["value"]["records"][0], **value["records"][0]}]
    assert ad_hoc_case("encode", codec.wire("RECORD_BATCH"), {"value": whole}, catalog).expect == ExpectAnyOf()


# --- as text ------------------------------------------------------------------------------------------


def test_a_protocol_line_contains_the_escape(case):
    line = body(case.request).line
    assert b'"a\\ud800b"' in line
    assert line.isascii()
    assert json.loads(line) == case.request


def test_plain_text_is_not_escaped():
    assert body({"value": "é"}).line == '{"value":"é"}'.encode()
    assert is_text({"value": ["é", {"key": "\U0001f600"}]})
    assert not is_text({"value": ["é", {"key": HALF}]})


def test_json_with_a_lone_surrogate_is_read_and_other_broken_json_is_not():
    assert read_json(b'["a\\ud800b"]') == [HALF]
    for broken in (b'["a\\ud800b"', b"[nope]", b'["\\ud8"]'):
        with pytest.raises(ValueError):
            read_json(broken)


def test_the_served_reference_rejects_a_lone_surrogate():
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "serve", "reference"],
        input=b'{"id":1,"op":"encode","type":"STRING","value":"a\\ud800b"}\n',
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["error"] == "invalid-value"


def test_json_text_in_a_vector_file(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text('- {value: !json \'["a\\ud800b", 5]\', other: "a"}\n')
    assert load(path) == [{"value": [HALF, 5], "other": "a"}]
    path.write_text("- 5\n- !json '\"a'\n")
    with pytest.raises(FileError, match=":2: not JSON text"):
        load(path)


def test_a_failure_is_saved_as_a_vector_with_the_same_request(tmp_path, catalog):
    wire = codec.wire("STRING")
    case = ad_hoc_case("encode", wire, {"value": HALF}, catalog, kind=CaseOrigin.SHRUNK)
    result = Result("mine", case, Accepted({"hex": "0003eda080"}), Verdict(VerdictKind.FAIL, "wrong"), "must")
    run = TargetRun("mine", shrunk=[ShrunkFailure(result, 1, "gen/4/STRING/0/1")])
    (path,) = save_all([run], tmp_path, OutputFiles())
    assert "!json '\"a\\ud800b\"'" in path.read_text()
    again = read_catalog([path]).cases[case.id]
    assert (again.request, again.expect) == (case.request, case.expect)


# --- targets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "errors", "verdict", "status"),
    [
        ('"surrogates": True', "surrogatepass", "fail", 1),
        ('"surrogates": True', "replace", "either", 0),
        ('"codecs": ["none"]', "surrogatepass", "skip", 3),
    ],
)
def test_only_a_target_that_claims_surrogates_gets_them(tmp_path, claim, errors, verdict, status):
    (tmp_path / "mine.py").write_text(MODULE % (claim, errors))
    select = "utf8/lone-high-surrogate-unwritable"
    done = run("module:./mine.py", "--select", select, "--json", "r.json", cwd=tmp_path)
    assert done.returncode == status, done.stderr
    (result,) = json.loads((tmp_path / "r.json").read_text())["results"]
    assert result["verdict"] == verdict
    if verdict == "skip":
        assert result["detail"] == "lone surrogates in strings are not claimed"


def test_the_claim_of_surrogates_is_true_or_absent(case):
    for given, reason in ((True, ""), ("yes", "lone surrogates"), (None, "lone surrogates")):
        described = description({"ok": True, "supports": {"encode": ["STRING"]}, "surrogates": given})
        assert described.lacks(case).startswith(reason)
        assert bool(described.lacks(case)) == bool(reason)


def test_a_user_case_is_given_as_json(tmp_path):
    done = run("reference", "--op", "encode", "--case", 'STRING:"a\\ud800b"', "--json", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads((tmp_path / "r.json").read_text())["results"]
    assert result["verdict"] == "either"
