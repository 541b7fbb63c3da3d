"""Shrinking: the smallest failure of a seeded fault, and the saved vector."""

import re
import sys
import time
from dataclasses import replace
from itertools import count, pairwise
from types import SimpleNamespace

import log_bytes
import pytest
import yaml
from command_line import conformance
from msgspec import structs

from conformance import codec
from conformance.cases.encode import batch_to_encode
from conformance.cases.model import (
    Accepted,
    Case,
    CaseOrigin,
    ExpectBytes,
    ExpectEquivalentBytes,
    ExpectRejection,
    NoAnswer,
    Rejected,
    Verdict,
    VerdictKind,
)
from conformance.catalog._vector_cases import make_cases
from conformance.catalog.case_builder import ad_hoc_case, encode_case
from conformance.catalog.vector_files import read_vectors
from conformance.catalog.vector_formatter import check
from conformance.codec.json_notation import NotationError
from conformance.definitions.loader import shipped_types
from conformance.files.atomic import OutputFiles
from conformance.judging.judge import judge
from conformance.reports.grouping import Example
from conformance.reports.text import stands_for
from conformance.runner import shrinking
from conformance.runner.executor import judge_target
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import Result, ShrunkFailure, TargetRun
from conformance.runner.save_vectors import as_vector, save_all
from conformance.runner.target_runner import TargetRunner
from conformance.selftest import FAULTS
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded.cases import generated_cases
from conformance.strategies.seeded.generator import generate
from conformance.strategies.seeded.shrinking import QUESTIONS, ShrinkBudget, shrink_bytes, shrink_value
from conformance.targets import protocol, reference

PLANTED = {
    "requirement/varint.fifth-byte-terminates": ("VARINT", 6),
    "requirement/string.truncated-rejected": ("STRING", 2),
    "requirement/boolean.read-nonzero-true": ("BOOLEAN", 1),
    "requirement/uint16.layout": ("UINT16", 2),
    "requirement/nullable-string.null-minus-one": ("NULLABLE_STRING", 2),
    "requirement/int64.layout": ("INT64", 8),
    "requirement/compression.crc-over-compressed": ("RECORD_BATCH", 61),
    "requirement/timestamp.log-append-overwritten": ("RECORD_BATCH", 61),
    "requirement/batch.record-count": ("RECORD_BATCH", 68),
    "requirement/timestamp.create-time-preserved": ("RECORD_BATCH", 68),
    "requirement/offset.record-formula": ("RECORD_BATCH", 68),
    "requirement/header.duplicate-keys-kept": ("RECORD_BATCH", 72),
    "requirement/codec.gzip": ("RECORD_BATCH", 77),
}
"""By bad target: the faulty type, and the smallest failing bytes: an empty batch has 61, a record 7."""


class FaultyTarget:
    """A bad target in this process."""

    starts = 0

    def __init__(self, fault):
        self.fault = fault

    def describe(self):
        return protocol.description(reference.describe())

    def stop(self):
        pass

    def ask(self, cases, *_, **__):
        for case in cases:
            yield protocol.outcome(self.fault.mutate(case.request, reference.answer(case.request)))

    def close(self):
        pass


def judged(name, catalog, kind=""):
    fault = FAULTS[name]
    spec, record = SimpleNamespace(name=name, open=lambda: FaultyTarget(fault)), TargetRun(name)
    cases = list(generated_cases((kind or PLANTED[name][0],), 150, 0, catalog))
    judge_target(spec, record, cases, catalog.requirements, FailurePolicy())
    record.shrunk += shrinking.shrink_all(spec, record, catalog, FailurePolicy())
    return record


@pytest.mark.parametrize("name", PLANTED)
def test_a_seeded_fault_shrinks_to_at_most_twice_the_smallest_bytes(name, catalog, tmp_path):
    record = judged(name, catalog)
    sizes = [len(found.result.case.data) for found in record.shrunk if found.result.case.op == "decode"]
    assert sizes
    assert min(sizes) <= 2 * PLANTED[name][1]
    assert all(found.result.failed for found in record.shrunk)
    paths = save_all([record], tmp_path, OutputFiles())
    assert len(paths) == len(record.shrunk)
    for path in paths:
        assert list(check(path)) == []
        assert len(list(read_vectors(path))) == 1


def failing(catalog):
    """Return failures of several kinds, and a runner to repeat them."""
    spec = SimpleNamespace(name="t", open=lambda: FaultyTarget(FAULTS["requirement/varint.fifth-byte-terminates"]))
    cases = list(generated_cases(("VARINT", "UNSIGNED_VARINT"), 150, 0, catalog))
    target_runner = TargetRunner(spec, catalog.requirements, FailurePolicy())
    results = list(target_runner.results(cases))
    assert len(shrinking.failures_by_key(results)) > 1
    return results, target_runner


def test_without_budget_the_smallest_failure_of_each_kind_is_unshrunk(catalog):
    results, target_runner = failing(catalog)
    found = list(shrinking.shrink(results, target_runner, catalog, ShrinkBudget(0)))
    groups = list(shrinking.failures_by_key(results).values())
    assert [each.count for each in found] == [len(group) for group in groups]
    for each, group in zip(found, groups, strict=True):
        assert each.result in group
        assert each.origin == each.result.case.id
        assert each.why_not == "the requests for shrinking were used up by other causes"
        assert len(each.result.case.data) == min(len(result.case.data) for result in group)


def test_only_wanted_failures_are_shrunk(catalog):
    spec = SimpleNamespace(name="t", open=lambda: FaultyTarget(FAULTS["requirement/varint.fifth-byte-terminates"]))
    results, _ = failing(catalog)
    record = TargetRun("t", results=results)
    first, second, *_ = shrinking.failures_by_key(results)
    (found,) = shrinking.shrink_all(spec, record, catalog, FailurePolicy(), wanted=lambda run: {second} & kins(run))
    assert (shrinking.failure_key(found.result), found.result.case.kind) == (second, CaseOrigin.SHRUNK)
    nobody = SimpleNamespace(name="t")
    assert [*shrinking.shrink_all(nobody, record, catalog, FailurePolicy(), wanted=lambda _: frozenset())] == []
    assert first != second


def kins(run):
    return set(shrinking.failures_by_key(run.results))


def test_a_limited_number_of_failure_kinds_is_shrunk(catalog, monkeypatch):
    results, target_runner = failing(catalog)
    monkeypatch.setattr(shrinking, "MAX_SHRUNK_CAUSES", 1)
    (found,) = shrinking.shrink(results, target_runner, catalog)
    assert found.result.case.id.startswith("bytes/")
    assert not found.flaky


def test_shrinking_does_not_depend_on_a_clock(catalog, monkeypatch):
    results, target_runner = failing(catalog)
    usual = [each.result.summary.id for each in shrinking.shrink(results, target_runner, catalog)]
    clock = count(step=100)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert [each.result.summary.id for each in shrinking.shrink(results, target_runner, catalog)] == usual
    assert all(name.startswith("bytes/") for name in usual)


def test_a_target_restarted_for_each_request_gets_a_small_budget(catalog):
    class Restarted(FaultyTarget):
        def ask(self, *cases, **options):
            for outcome in super().ask(*cases, **options):
                self.starts += 2
                yield outcome

    spec = SimpleNamespace(name="t", open=lambda: Restarted(FAULTS["requirement/batch.record-count"]))
    target_runner = TargetRunner(spec, catalog.requirements, FailurePolicy())
    results = list(target_runner.results(list(generated_cases(("RECORD_BATCH",), 30, 0, catalog))))
    group = next(iter(shrinking.failures_by_key(results).values()))
    before = target_runner.target.starts
    shrinking.shrink_one(group[0], len(group), target_runner, catalog)
    # Before shrinking, within the budget, and once for the smallest case.
    assert 4 < target_runner.target.starts - before <= 2 * (2 + 1 + QUESTIONS // 20)


@pytest.mark.parametrize(("data", "smallest"), [("0000000200016100020000", "00000000"), ("000000020001610002", "")])
def test_valid_input_shrinks_to_valid_and_invalid_to_invalid_input(data, smallest, catalog):
    dies = SimpleNamespace(
        mutate=lambda request, answer: {"crash": "KeyError"} if request["op"] == "decode" else answer
    )
    spec = SimpleNamespace(name="t", open=lambda: FaultyTarget(dies))
    target_runner = TargetRunner(spec, catalog.requirements, FailurePolicy())
    case = ad_hoc_case("decode", codec.wire("ARRAY<STRING>"), {"hex": data}, catalog, kind=CaseOrigin.GENERATED)
    (found,) = target_runner.results([case])
    assert shrinking.shrink_one(found, 1, target_runner, catalog).result.case.data.hex() == smallest


def test_a_timeout_is_shown_unshrunk_with_the_reason(catalog):
    results, target_runner = failing(catalog)
    late = NoAnswer("timeout", "no answer within 5 s")
    silent = [target_runner._policy.result("t", each.case, late, judge(each.case, late), {}) for each in results[:2]]
    (found,) = shrinking.shrink([structs.replace(each, level="must") for each in silent], target_runner, catalog)
    assert found.result in silent
    assert found.why_not == "each request would take seconds"
    assert stands_for(Example(found.result, found)).endswith(", not shrunk: each request would take seconds")


PLANTED_IN_LOGS = {
    "requirement/consumer.handles-control-batches": ("READ", 69 + 9),
    "requirement/consumer.filters-aborted": ("READ", 68),
    "requirement/offset.next-formula": ("READ", 0),
    "requirement/convert.up-to-v2": ("CONVERT", 68),
    "requirement/sequence.duplicate-deduplicated": ("SEQUENCE", 2),
    "requirement/producer-epoch.fences": ("SEQUENCE", 2),
}
"""By bad target: the operation, and the smallest failing bytes or number of batches of a sequence."""


@pytest.mark.parametrize("name", PLANTED_IN_LOGS)
def test_a_fault_in_log_operations_shrinks_to_a_reproducing_vector(name, catalog, tmp_path):
    kind, smallest = PLANTED_IN_LOGS[name]
    record = judged(name, catalog, kind)
    cases = [found.result.case for found in record.shrunk]
    assert cases
    assert {case.op for case in cases} == {kind.lower()}
    sizes = [len(case.request["batches"] if case.data is None else case.data) for case in cases]
    assert min(sizes) <= 2 * smallest
    for path in save_all([record], tmp_path, OutputFiles()):
        assert list(check(path)) == []
        (vector,) = read_vectors(path)
        (case,) = make_cases(vector, catalog.requirements)
        shown = judge(case, next(FaultyTarget(FAULTS[name]).ask([case], None)))
        assert shown.kind is VerdictKind.FAIL, (path.read_text(), shown)


def test_shrinking_keeps_the_operation_and_stops_at_its_budget():
    requests = []

    def shows(data):
        requests.append(data)
        return data.startswith(b"\x01")

    assert shrink_bytes("INT8", b"\x01" + bytes(100), shows) == b"\x01"
    requests.clear()
    shrink_bytes("INT8", b"\x01" + bytes(100), shows, ShrinkBudget(questions=3))
    assert len(requests) <= 3


def test_a_value_shrinks_to_the_smallest_failing_one():
    assert shrink_value([5, -900, 17], lambda value: any(entry < -100 for entry in value)) == [-101]
    assert 2**28 <= shrink_value(408_117_476, lambda value: value >= 2**28) <= 2**28 + 2**12
    assert shrink_value("-700", lambda value: int(value) < -100) == "-101"
    assert shrink_value([True, True], bool) == [False]
    assert shrink_value("abcdef", lambda value: value is not None and "c" in value) in ("abc", "c")


def smallest_whole(kind, data, holds):
    """Return the smallest bytes of a whole value of a type that satisfy `holds`."""

    def shows(candidate):
        read = codec.decode(kind, candidate)
        return read.ok and read.consumed == len(candidate) and holds(read.value)

    assert shows(data)
    return shrink_bytes(kind, data, shows)


@pytest.mark.parametrize("kind", ["ARRAY<STRING>", "COMPACT_ARRAY<COMPACT_STRING>"])
def test_removing_an_element_adjusts_the_count(kind):
    data = codec.encode(kind, ["a", "bb", "c", "a", "c"])
    assert smallest_whole(kind, data, lambda value: "bb" in value) == codec.encode(kind, ["bb"])


def test_removing_a_record_or_header_adjusts_the_counts():
    headers = [{"key": key, "value": b"v"} for key in ("h", "due", "h")]
    data = log_bytes.batch(0, [*range(5), log_bytes.record(5, headers=headers), *range(6, 9)])

    def holds(value):
        return any(header["key"] == "due" for record in value["records"] for header in record["headers"])

    smallest = codec.decode("RECORD_BATCH", smallest_whole("RECORD_BATCH", data, holds)).value
    assert [len(record["headers"]) for record in smallest["records"]] == [1]


def test_removing_elements_after_the_wrong_one_adjusts_the_count():
    def shows(candidate):
        """Return True if the order of tags is wrong, and a reader that accepts any order reads all bytes."""
        count, *rest = candidate or b"\0"
        tags = []
        while count and len(rest) > 1:
            tags.append(rest[0])
            rest, count = rest[2 + rest[1] :], count - 1
        return not rest and not count and tags != sorted(set(tags))

    data = bytes.fromhex("06 0901aa 0302bbcc 0a0400000000 0b01dd 0c01ee 0d00")
    assert shows(data)
    smallest = shrink_bytes("TAGGED_FIELDS", data, shows)
    assert (smallest[0], len(smallest)) == (2, 5)


def test_a_failed_step_is_retried_only_after_all_others():
    value = {"kept": 98_765_432_101, **{f"other{number}": number for number in range(1, 40)}}
    left = ShrinkBudget()
    smallest = shrink_value(value, lambda value: value["kept"] == 98_765_432_101, left)
    assert smallest == {**dict.fromkeys(value, 0), "kept": 98_765_432_101}
    assert not left.is_spent


def test_message_sets_to_encode_shrink_to_valid_encode_requests(catalog):
    offsets_by_request = []

    def shows(value):
        parts = {"magic": 1, "compression": "none", "value": value}
        try:
            case = ad_hoc_case("encode", codec.wire("MESSAGE_SET"), parts, catalog)
        except NotationError:
            return False
        offsets_by_request.append([message["offset"] for message in case.request["value"]])
        return len(value) > 1

    messages = [{"offset": str(at), "timestamp": "9", "key": "00", "value": None} for at in (5, 7, 9)]
    assert len(shrink_value(messages, shows)) == 2
    assert all(int(one) < int(other) for offsets in offsets_by_request for one, other in pairwise(offsets))


def test_saved_failures_run_as_vectors_with_the_same_failure(tmp_path):
    target = f"command:{sys.executable} -m conformance.selftest.bad_targets requirement/boolean.read-nonzero-true"
    first = ["run", target, "--select", "type:BOOLEAN", "--save-failures", "failures/saved"]
    for _ in range(2):
        assert conformance(*first, cwd=tmp_path).returncode == 1
    done = conformance("run", target, "--vectors", "failures/saved", "--select", "bytes/*", cwd=tmp_path)
    assert done.returncode == 1, done.stdout


def test_a_compressed_batch_to_encode_is_no_vector_as_its_bytes_are_free(catalog, tmp_path):
    batch = codec.decode("RECORD_BATCH", generate("RECORD_BATCH", RandomChoices("compressed/0")).data).value
    shown = {**batch_to_encode(batch), "compression": "gzip"}
    shown["records"] = [{**shown["records"][0], "offset": shown["baseOffset"], "value": "00" * 2000}]
    case = encode_case("bytes/RECORD_BATCH/0", codec.wire("RECORD_BATCH"), shown, catalog)
    assert isinstance(case.expect, ExpectEquivalentBytes)
    result = Result("t", case, Rejected("other"), Verdict(VerdictKind.FAIL), "must")
    assert as_vector(ShrunkFailure(result, 1, case.id)) is None
    assert save_all([TargetRun("t", shrunk=[ShrunkFailure(result, 1, case.id)])], tmp_path, OutputFiles()) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [("MESSAGE<ListOffsetsRequest,11>", ExpectBytes), ("MESSAGE<FetchRequest,13>", ExpectEquivalentBytes)],
)
def test_a_message_to_encode_is_saved_as_a_vector_with_the_same_request(name, kind, catalog, tmp_path):
    types = catalog.types.adding(shipped_types().messages.values())
    case = encode_case(f"bytes/{name}:encode/0", types.wire(name), {"ReplicaId": 0}, catalog)
    assert isinstance(case.expect, kind)
    result = Result("t", case, Accepted({"hex": "00"}), Verdict(VerdictKind.FAIL, "other bytes"), "must")
    (path,) = save_all([TargetRun("t", shrunk=[ShrunkFailure(result, 1, case.id)])], tmp_path, OutputFiles())
    (vector,) = read_vectors(path, types)
    cases_by_op = {made.op: made for made in make_cases(vector, catalog.requirements)}
    assert (cases_by_op["encode"].request, cases_by_op["encode"].expect) == (case.request, case.expect)


def shrunk_failure(type, digest):
    wire = structs.replace(codec.wire("INT8"), name=type)
    case = Case(
        f"bytes/{type}/{digest}", "decode", wire, "int8.layout", "must", {"hex": "00"}, ExpectRejection(), b"\0"
    )
    case = replace(case, kind=CaseOrigin.SHRUNK)
    return ShrunkFailure(
        Result("t", case, Accepted({}), Verdict(VerdictKind.FAIL, "accepted"), "must"), 1, "gen/4/INT8/0/1"
    )


NESTED = "ARRAY<" * 90 + "INT8" + ">" * 90


@pytest.mark.parametrize("type", ["INT8", "ARRAY<COMPACT_ARRAY<INT8>>", "MESSAGE<FetchRequest,12>", NESTED])
def test_the_name_of_a_saved_file_is_safe_for_every_type(type, tmp_path):
    (path,) = save_all([TargetRun("t", shrunk=[shrunk_failure(type, "0123456789ab")])], tmp_path, OutputFiles())
    assert re.fullmatch(r"[A-Za-z0-9-]{1,150}-decode-0123456789ab\.yaml", path.name)


@pytest.mark.parametrize("target", ["command:a\n- id: x/y", "command:\udcff", "command:\x1b[31m é"])
def test_the_name_of_a_target_stays_within_the_comment_of_a_saved_file(target, tmp_path):
    (path,) = save_all([TargetRun(target, shrunk=[shrunk_failure("INT8", "0123456789ab")])], tmp_path, OutputFiles())
    (vector,) = yaml.safe_load(path.read_text(encoding="ascii"))
    assert vector["id"] == "bytes/INT8/0123456789ab"
