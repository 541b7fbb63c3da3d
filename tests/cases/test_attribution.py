"""The requirement of a failure: the most specific one that applies to the reader or writer under test."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from conformance import codec
from conformance.cases.attribution import WRITING_OPS, applies_to_writers, layout_rule, writer_requirement
from conformance.cases.model import LEVELS, Accepted, ExpectConvertedRecords, NoAnswer
from conformance.codec.primitives import ARRAYS
from conformance.definitions.loader import shipped_types
from conformance.judging.judge import judge
from conformance.runner.generated_cases import COUNT, SEED, GenerationRequest, cached_cases
from conformance.runner.policy import FailurePolicy
from conformance.selftest import FAULTS
from conformance.selftest.bad_targets import accept_everything, reject_everything
from conformance.selftest.mutators import change_bytes
from conformance.selftest.requirement_faults import run_fault
from conformance.strategies.seeded.cases import TYPES, message_types
from conformance.targets.reference import answer as honest

WRONG_WRITERS = {
    "wrong checksum": FAULTS["requirement/crc.producer-computes"].mutate,
    "a byte after each batch": change_bytes("RECORD_BATCH", lambda data: data + b"\0"),
    "padded varints": FAULTS["requirement/varint.encoder-minimal"].mutate,
    "accepts everything": accept_everything,
    "rejects everything": reject_everything,
}
PINNED = sorted((Path(__file__).parent.parent / "known").glob("*.yaml"))
GENERAL = "general.exact-encoding"


@pytest.fixture(scope="module")
def generated(catalog):
    """Return more than 20,000 generated cases, of all types and of each shipped message in each version."""
    names = (*TYPES, *message_types(shipped_types().messages.values()))
    cases = [case.to_case() for case in cached_cases(GenerationRequest(names, COUNT, SEED, ()), catalog)]
    assert len(cases) > 20_000
    return cases


def requirements_for_readers(results, catalog):
    """Return the requirements of results that do not apply to writers."""
    return {
        result.requirement for result in results if not applies_to_writers(catalog.requirements[result.requirement])
    }


# --- cases --------------------------------------------------------------------------------------------


def test_no_writing_case_belongs_to_a_requirement_for_readers_only(catalog, generated):
    cases = [case for case in (*catalog.cases.values(), *generated) if case.op in WRITING_OPS]
    assert requirements_for_readers(cases, catalog) == set()
    assert len({case.requirement for case in cases}) > 200


def test_no_generated_case_belongs_to_the_general_requirement(generated):
    assert [case.id for case in generated if case.requirement == GENERAL] == []


@pytest.mark.parametrize("name", [*codec.TYPES, *(f"{form}<INT8>" for form in ARRAYS), "MESSAGE<ApiVersionsRequest,3>"])
def test_the_layout_of_every_type_binds_readers_and_writers(catalog, name):
    row = catalog.requirements[layout_rule(shipped_types().wire(name))]
    assert applies_to_writers(row)
    assert "decode" in row.tests
    assert row.id != GENERAL


def test_only_a_requirement_for_readers_names_one_for_writers(catalog):
    rows = [row for row in catalog.requirements.values() if row.writer]
    assert [row.id for row in rows if applies_to_writers(row)] == []
    assert [row.id for row in rows if not applies_to_writers(catalog.requirements[row.writer])] == []
    assert len(rows) > 30


def test_a_vector_for_writers_names_the_requirement_of_its_case(catalog, vectors):
    values = [vector for vector in vectors if vector.data is None and "op" not in vector.row]
    moved = [vector.id for vector in values if catalog.cases[vector.id].requirement != vector.row["requirement"]]
    assert moved == []
    assert len(values) > 50


@pytest.mark.parametrize(
    ("identity", "requirement"),
    [
        ("compact-string/32768-bytes:encode", "compact-string.max-length"),
        ("message/implied-default-int:encode", "definitions.default-int"),
        ("message/old-version-read:encode", "definitions.field-added-open-range"),
        ("tagged-fields/size-decides", "tagged.size-bounds-data"),
        ("tagged-fields/size-decides:encode", "tagged.field-layout"),
        ("gen/4/STRING/0/12:encode", "string.null-not-encoded"),
        ("gen/4/ARRAY<STRING>/0/6:encode", "string.null-not-encoded"),
        ("gen/4/COMPACT_STRING/0/26:encode", "compact-string.null-not-encoded"),
    ],
)
def test_a_case_belongs_to_the_most_specific_requirement(catalog, generated, identity, requirement):
    case = next((case for case in generated if case.id == identity), None) or catalog.cases[identity]
    assert case.requirement == requirement


# --- verdicts -----------------------------------------------------------------------------------------


def results_of(fault, cases, catalog):
    """Yield the results of a faulty target, computed in this process, with requirements as in a run."""
    for case in cases:
        outcome = run_fault(fault, case)
        yield FailurePolicy().result("faulty", case, outcome, judge(case, outcome), catalog.requirements)


@pytest.mark.parametrize("name", WRONG_WRITERS)
def test_no_failure_of_a_writer_is_attributed_to_a_requirement_for_readers(catalog, name):
    cases = [case for case in catalog.cases.values() if case.op in WRITING_OPS]
    failed = [result for result in results_of(WRONG_WRITERS[name], cases, catalog) if result.failed]
    assert failed
    assert requirements_for_readers(failed, catalog) == set()


def test_a_wrong_checksum_in_a_written_batch_is_attributed_to_the_crc_field(catalog):
    case = catalog.cases["batch/three-records:encode"]
    (result,) = results_of(WRONG_WRITERS["wrong checksum"], [case], catalog)
    assert (result.requirement, result.level, result.basis) == ("batch.crc", "must", "stated")
    assert result.cause.text == "written bytes break the format: crc.mismatch-corrupt"


def test_a_wrong_checksum_in_a_converted_log_is_attributed_to_the_crc_field(catalog):
    case = next(
        case
        for case in catalog.cases.values()
        if isinstance(case.expect, ExpectConvertedRecords) and case.request["magic"] == 2 and case.expect.records
    )
    written = bytearray.fromhex(honest(case.request)["hex"])
    written[17] ^= 1
    outcome = Accepted({"hex": written.hex()})
    result = FailurePolicy().result("t", case, outcome, judge(case, outcome), catalog.requirements)
    assert (result.requirement, result.failed) == ("batch.crc", True)


def test_an_accepted_wrong_checksum_is_attributed_to_the_requirement_for_readers(catalog):
    case = catalog.cases["crc/one"]
    outcome = Accepted({"value": {}})
    result = FailurePolicy().result("t", case, outcome, judge(case, outcome), catalog.requirements)
    assert (result.requirement, result.failed) == ("crc.mismatch-corrupt", True)


def test_excessive_memory_of_a_writer_is_attributed_to_the_general_robustness_requirement(catalog):
    case, outcome = catalog.cases["array/empty:encode"], NoAnswer("memory", "took 4 GiB")
    result = FailurePolicy().result("t", case, outcome, judge(case, outcome), catalog.requirements)
    assert (result.requirement, result.level) == ("robustness.answers", "should")


def test_attribution_to_another_requirement_never_raises_the_level(catalog):
    row = writer_requirement("varint.non-minimal", codec.wire("RECORD"), catalog.requirements)
    assert (row.id, row.level) == ("varint.encoder-minimal", "may")
    for rule, own in catalog.requirements.items():
        moved = writer_requirement(rule, codec.wire("RECORD"), catalog.requirements)
        assert LEVELS.index(moved.level) >= LEVELS.index(own.level), rule


# --- pinned failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.stem)
def test_no_pinned_failure_of_a_writer_is_attributed_to_a_requirement_for_readers(catalog, path):
    rules = {
        pin["reason"].partition(":")[0]
        for pin in yaml.safe_load(path.read_text(encoding="utf-8"))
        if pin["id"] in catalog.cases and catalog.cases[pin["id"]].op in WRITING_OPS
    }
    assert {rule for rule in rules if not applies_to_writers(catalog.requirements[rule])} == set()
