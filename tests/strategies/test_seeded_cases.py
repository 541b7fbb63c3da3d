"""Generated cases: an id determines a case on every machine, and the reference can judge it."""

import gzip
import hashlib
import json
import re
import struct
import sys
import tracemalloc
from collections import Counter
from fnmatch import fnmatchcase

import pytest
from command_line import conformance

from conformance import codec
from conformance.cases.model import Accepted, CaseOrigin, ExpectBytes, ExpectConsumerView, ExpectRejection, VerdictKind
from conformance.catalog.case_builder import decode_case, encode_case, expectation, log_case
from conformance.codec.compression import CODECS
from conformance.codec.cursor import Cursor, Findings
from conformance.codec.json_notation import NUMBER, Notation
from conformance.codec.record_batch import with_checksums
from conformance.codec.wire_type import WireType
from conformance.judging.judge import judge
from conformance.runner.selection import Selection, further_cases
from conformance.strategies.seeded._large_values import LARGE, SURROGATES, type_of
from conformance.strategies.seeded._messages import draw_message
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded.cases import TYPES, case_of, cases_at, generated_cases, types_for
from conformance.strategies.seeded.generator import VERSION, generate, unencodable, value
from conformance.strategies.seeded.log_requests import OF_BROKERS, QUESTIONS
from conformance.strategies.seeded.mutations import MUTATIONS, mutate
from conformance.targets.protocol import outcome
from conformance.targets.reference import answer
from conformance.targets.target import TargetSpec

PLAIN = [name for name in TYPES if name not in QUESTIONS and name not in LARGE and name not in SURROGATES]
"""The names for generated cases that are types."""
DIGEST_OF_BROKERS = "8538b1186bbd46b7"
DIGEST = "4eae24d96a04e115"
"""Digest of the first cases of each type with seed 0. If it changes, ids mean other bytes: raise VERSION."""


def steady(expect):
    """Return the expectation as text, equal in each process: with sorted sets, without hints and names of fields."""
    text = re.sub(r"hint=('.*?'|\".*?\"), layer=", "layer=", repr(expect))
    text = re.sub(r"\b[a-z_]+=", "", text)
    return re.sub(r"frozenset\(\{(.*?)\}\)", lambda found: str(sorted(found[1].split(", "))), text)


def test_the_same_seed_makes_the_same_cases_on_every_machine_and_python(catalog):
    generated = generated_cases([*PLAIN, *QUESTIONS], 25, 0, catalog)
    cases = [(case.id, case.request, case.data, steady(case.expect)) for case in generated]
    assert VERSION == 4
    assert hashlib.sha256(repr(cases).encode("utf-8", "surrogatepass")).hexdigest()[:16] == DIGEST


def test_the_same_seed_sends_brokers_the_same_batches(catalog):
    generated = generated_cases(OF_BROKERS, 25, 0, catalog)
    cases = [(case.id, case.request, case.data, steady(case.expect)) for case in generated]
    assert hashlib.sha256(repr(cases).encode("utf-8", "surrogatepass")).hexdigest()[:16] == DIGEST_OF_BROKERS


def test_brokers_get_batches_to_accept_and_batches_to_reject(catalog):
    cases = list(generated_cases(OF_BROKERS, 300, 0, catalog))
    assert {case.op for case in cases} == {"append"}
    counts = Counter(type(case.expect).__name__ for case in cases)
    assert min(counts["ExpectAppend"], counts["ExpectRejection"]) > 75
    assert {case.request.get("compressionType") for case in cases} > {None, "gzip", "none"}
    rejected = {case.requirement for case in cases if isinstance(case.expect, ExpectRejection)}
    assert rejected == {"broker.validates-records", "crc.broker-validates"}
    passed_over = [case for case in cases if case.disputed]
    assert passed_over
    assert all(case.codecs.isdisjoint({"none"}) for case in passed_over)


WHOLE = bytes.fromhex("0c000000010000")


@pytest.mark.parametrize(
    ("records", "is_passed_over"),
    [
        (WHOLE + b"\0" + WHOLE[1:], True),  # length 0 excludes the attributes
        (WHOLE + b"\4" + WHOLE[1:], True),  # the length excludes the offset delta
        (WHOLE + b"\x0e" + WHOLE[1:] + WHOLE, True),
        (WHOLE + WHOLE[:1], False),  # the bytes end before the fields
        (WHOLE + WHOLE[:3], False),
        (WHOLE + WHOLE[:3] + b"\x80", False),
        (WHOLE + WHOLE, None),
    ],
)
def test_a_broker_may_ignore_a_wrong_length_of_a_compressed_record_but_not_missing_bytes(
    records, is_passed_over, catalog
):
    header = struct.pack(">HiqqqhiI", 1, 1, 0, 0, -1, -1, -1, 2)
    data = with_checksums(bytes(16) + b"\x02" + bytes(4) + header + gzip.compress(records, mtime=0))
    case = log_case("mine", "append", {"hex": data.hex()}, catalog)
    assert isinstance(case.expect, ExpectRejection) == (is_passed_over is not None)
    assert (VerdictKind.FAIL in case.disputed) == bool(is_passed_over)


@pytest.mark.parametrize(
    ("target", "has"), [("reference", False), ("live:librdkafka", False), ("broker:127.0.0.1:9092", True)]
)
def test_batches_to_append_are_generated_only_for_brokers(target, has, catalog):
    chosen = Selection(patterns=("type:LOG",), generated=1)
    further = further_cases(chosen, catalog, [TargetSpec(target)])
    assert ("append" in {case.op for case in further}) is has


def test_a_case_is_rebuilt_from_its_id_alone(catalog):
    names = (
        *OF_BROKERS,
        *LARGE,
        *SURROGATES,
        "RECORD_BATCH",
        "ARRAY<STRING>",
        "VARINT",
        "MESSAGE_SET",
        "LOG",
        "READ",
        "CONVERT",
        "SEQUENCE",
    )
    for case in generated_cases(names, 20, 7, catalog):
        assert case_of(case.id, catalog) == [case]


@pytest.mark.parametrize("identity", ["gen/1/VARINT/0/0", "gen/4/VARINT/0", "varint/zero", "gen/4/VARINT/0/x"])
def test_an_id_of_no_generated_case_returns_no_case(catalog, identity):
    assert case_of(identity, catalog) == []


def test_another_seed_makes_other_cases(catalog):
    one, other = ([case.data for case in generated_cases(("RECORD_BATCH",), 20, seed, catalog)] for seed in (0, 1))
    assert one != other


# --- rare values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LARGE)
def test_large_values_exceed_common_limits_and_stay_within_a_bound(name):
    sizes = [len(LARGE[name](RandomChoices(f"{name}/{index}")).data) for index in range(150)]
    assert max(sizes) > (1 << 15 if name != "LARGE_STRING" else 32767)
    assert max(sizes) < 5 << 20
    assert sum(sizes) / len(sizes) < 100_000


def test_large_counts_and_lengths_are_on_both_sides_of_each_limit():
    near = {len(LARGE["LARGE_BYTES"](RandomChoices(f"near/{index}")).value) for index in range(3000)}
    assert {limit + side for limit in (1 << 15, 1 << 16, 1 << 17) for side in (-1, 0, 1)} <= near
    assert max(near) in ((1 << 20) - 1, 1 << 20, (1 << 20) + 1)


@pytest.mark.parametrize("name", LARGE)
def test_the_reference_reads_large_values_and_passes_their_cases(name, catalog):
    for case in generated_cases([name], 100, 0, catalog):
        assert case.type == type_of(name)
        assert judge(case, outcome(answer(case.request))).kind is VerdictKind.PASS, case.id


@pytest.mark.parametrize("name", SURROGATES)
def test_text_with_a_lone_surrogate_is_rejected_or_written_without_it(name, catalog):
    cases = list(generated_cases([name], 100, 0, catalog))
    assert len(cases) == 10
    for case in cases:
        assert (case.op, case.type) == ("encode", type_of(name))
        assert case.requirement in ("utf8.encoded-valid", "header.key-surrogate-unwritable")
        assert [type(reading) for reading in case.expect.readings] == [
            ExpectRejection,
            ExpectBytes,
            ExpectBytes,
            ExpectBytes,
        ]


def test_rare_values_are_at_every_tenth_index(catalog):
    ids = {case.id.removesuffix(":encode") for case in generated_cases(["LARGE_BYTES"], 31, 0, catalog)}
    assert ids == {f"gen/4/LARGE_BYTES/0/{index}" for index in (0, 10, 20, 30)}


# --- values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLAIN)
def test_an_undamaged_value_is_accepted_by_the_reference(name):
    for index in range(40):
        read = codec.decode(name, generate(name, RandomChoices(f"{name}/{index}")).data)
        assert read.ok, (index, read.violations)


@pytest.mark.parametrize("name", PLAIN)
def test_a_value_without_an_encoding_fits_the_notation_and_is_rejected_by_the_reference(name):
    for index in range(40):
        wrong = unencodable(name, RandomChoices(f"{name}/{index}"))
        if wrong is ...:
            continue
        notation = codec.wire(name).notation
        parsed = notation.parse(notation.render(wrong))
        with pytest.raises(codec.Unencodable):
            codec.encode(name, parsed)


@pytest.mark.parametrize(
    ("data", "disputed"),
    [
        # A duplicate tag 5, then a tag of 2^31 bytes: Apache Kafka accepts the former and crashes on the latter.
        ("03 0500 0500 068080808008", {"fail", "crash"}),
        # Every reader can reject a size beyond the bytes.
        ("01 0510", set()),
    ],
)
@pytest.mark.parametrize(("name", "before"), [("MESSAGE<SuiteUntagged,1>", "00"), ("TAGGED_FIELDS", "")])
def test_a_failure_after_a_disputed_field_of_a_message_is_disputed_too(name, before, data, disputed, catalog):
    case = decode_case("own", catalog.types.wire(name), bytes.fromhex(before + data), catalog)
    assert isinstance(case.expect, ExpectRejection)
    assert case.disputed == disputed


def test_encoding_a_nan_belongs_to_the_requirement_on_canonical_nans(catalog):
    wire = codec.wire("FLOAT64")
    cases = {bits: encode_case("own", wire, bits, catalog) for bits in ("7ffe3a05cca576e3", "3ff0000000000000")}
    rows = {bits: (case.requirement, case.level) for bits, case in cases.items()}
    assert rows["7ffe3a05cca576e3"] == ("float64.canonical-nan-written", "should")
    assert rows["3ff0000000000000"] == ("float64.layout", "must")


@pytest.mark.parametrize(
    ("length", "passes_over", "requirement"),
    [
        (18, True, "robustness.batch-length-unchecked"),
        (18, False, "batch.length-wrong-rejected"),
        (49, True, "offset.fetch-absolute"),
    ],
)
def test_a_batch_shorter_than_its_header_has_a_separate_requirement_without_checksum_checks(
    length, passes_over, requirement, catalog
):
    batch = with_checksums(bytes(16) + b"\2" + bytes(44))
    data = batch[:8] + length.to_bytes(4, "big") + batch[12 : 12 + length]
    request = {"hex": data.hex(), "isolation": "read_uncommitted", "fetchOffset": "0", "highWatermark": "9"}
    parts = {**request, "aborted": [], **({"checkCrcs": False} if passes_over else {})}
    case = log_case("own", "read", parts, catalog)
    assert case.requirement == requirement
    passed_over = judge(case, Accepted({"value": {"records": [], "nextOffset": "1"}}))
    assert (passed_over.requirement or case.requirement) == requirement


NO_KEY, EMPTY_KEY, BEYOND = "0c000000010100", "0c000000000100", "0c000002010100"


@pytest.mark.parametrize(
    ("isolation", "producer", "records", "is_disputed"),
    [
        ("read_committed", 7, [NO_KEY], True),
        ("read_committed", 7, [BEYOND], True),  # its offset is beyond the last of the batch: any outcome is allowed
        ("read_uncommitted", 7, [NO_KEY], False),
        ("read_committed", -1, [NO_KEY], False),
        ("read_committed", 7, [EMPTY_KEY], False),
        ("read_committed", 7, ["140000000800000000" + "0100", "0c000002010100"], False),
    ],
    ids=["no key", "beyond the batch", "all are read", "no producer", "empty key", "in the second record"],
)
def test_a_crash_on_a_marker_without_a_key_is_disputed_if_apache_kafka_reads_the_key(
    isolation, producer, records, is_disputed, catalog
):
    count, body = len(records), bytes.fromhex("".join(records))
    header = struct.pack(">HiqqqhiI", 0x30, count - 1, 0, 0, producer, min(producer, 0), -1, count)
    data = with_checksums(bytes(16) + b"\2" + bytes(4) + header + body)
    request = {"hex": data.hex(), "isolation": isolation, "fetchOffset": "0", "highWatermark": "9", "aborted": []}
    assert (VerdictKind.CRASH in log_case("own", "read", request, catalog).disputed) == is_disputed


def fetch_of(data, catalog, **settings):
    """Return a user case that reads these bytes."""
    request = {"isolation": "read_committed", "fetchOffset": "0", "highWatermark": "9", "aborted": []}
    return log_case("own", "read", {"hex": data.hex(), **request, **settings}, catalog)


def stated(attributes, count, payload, producer=7):
    """Return a batch with this recordCount and payload, which may differ."""
    header = struct.pack(">HiqqqhiI", attributes, 0, 0, 0, producer, min(producer, 0), -1, count)
    return with_checksums(bytes(16) + b"\2" + bytes(4) + header + payload)


MARKER, COMPRESSED, MANY = 0x30, 1, (1 << 31) - 1


@pytest.mark.parametrize(
    ("attributes", "producer", "isolation", "is_disputed"),
    [
        (MARKER | COMPRESSED, 7, "read_committed", True),
        (MARKER | COMPRESSED, 7, "read_uncommitted", False),
        (MARKER | COMPRESSED, -1, "read_committed", False),
        (MARKER, 7, "read_committed", False),
        (COMPRESSED, 7, "read_committed", False),
    ],
)
def test_a_crash_on_a_compressed_marker_of_many_records_is_disputed_if_apache_kafka_allocates_a_list(
    attributes, producer, isolation, is_disputed, catalog
):
    payload = bytes.fromhex(EMPTY_KEY)
    for stream in (gzip.compress(payload, mtime=0), b"no stream"):
        data = stated(attributes, MANY, stream if attributes & COMPRESSED else payload, producer)
        assert (VerdictKind.CRASH in fetch_of(data, catalog, isolation=isolation).disputed) == is_disputed


KEY_BEYOND = bytes.fromhex("0000000000000005 0000000e 7642ce6f 00 00 10000000 00000000")


def test_a_crash_after_damage_that_apache_kafka_does_not_detect_is_disputed(catalog):
    """Apache Kafka skips an aborted batch unread, and accepts a wrapper with a wrong checksum."""
    aborted = stated(0x10, 5, bytes.fromhex(EMPTY_KEY))
    listed = {"aborted": [{"producerId": "7", "firstOffset": "0"}]}
    inner = bytes.fromhex("0000000000000000 0000000e 3d314895 00 00 00000000 ffffffff")
    packed = gzip.compress(inner, mtime=0)
    wrapper = bytes(8) + struct.pack(">iIBBii", 14 + len(packed), 0, 0, 1, -1, len(packed)) + packed
    for data, settings in ((aborted, listed), (wrapper, {})):
        assert VerdictKind.CRASH in fetch_of(data + KEY_BEYOND, catalog, **settings).disputed
        assert VerdictKind.CRASH not in fetch_of(data, catalog, **settings).disputed
    assert VerdictKind.CRASH not in fetch_of(aborted + KEY_BEYOND, catalog).disputed


@pytest.mark.parametrize(
    "name", ["ListOffsetsRequest,11", "FetchResponse,17", "MetadataRequest,0", "JoinGroupRequest,9"]
)
def test_an_encode_request_contains_every_field_of_its_version(catalog, name):
    # A library may have other defaults.
    encodes = [case for case in generated_cases([f"MESSAGE<{name}>"], 60, 0, catalog) if case.op == "encode"]
    assert any(":skewed" in case.id for case in encodes)
    for case in encodes:
        message, version = case.wire.message, case.wire.version
        missing = []

        def look(value, structure, *, message=message, version=version, missing=missing):
            for member in message.structures[structure]:
                if version in member.versions and version not in member.tagged and member.name not in value:
                    missing.append(member.name)
                part = value.get(member.name)
                if member.type in message.structures and part is not None:
                    for element in part if member.is_array else [part]:
                        look(element, member.type)

        look(case.request["value"], message.name)
        assert missing == [], case.id


def test_fields_of_another_version_are_dropped_or_rejected(catalog):
    cases = [case for case in generated_cases(("MESSAGE<SuiteDropped,0>",), 800, 0, catalog) if ":skewed" in case.id]
    assert cases
    assert all(case_of(case.id, catalog) == [case] for case in cases)
    message = catalog.types.messages["SuiteDropped"]
    there = {member.name for member in message.members if 0 in member.versions}
    assert all(case.op == "encode" and case.note == "a value of another version" for case in cases)
    assert all(case.request["value"].keys() - there for case in cases)
    assert {type(case.expect) for case in cases} >= {ExpectRejection, ExpectBytes}
    written = [case.request["value"] for case in cases if isinstance(case.expect, ExpectBytes)]
    assert {value["Timeout"] for value in written} == {5000}
    assert any(value["Hint"] for value in written)
    lost = next(case for case in cases if isinstance(case.expect, ExpectRejection))
    assert lost.requirement == "definitions.non-ignorable-non-default-error"


@pytest.mark.parametrize(("version", "error"), [(0, 35), (1, 0), (3, 0)])
def test_error_35_is_drawn_only_in_version_0(version, error, catalog):
    message = catalog.types.messages["ApiVersionsResponse"]
    always = {"INT8": 1, "INT16": 35, "INT32": 35, "INT64": 35, "BOOLEAN": True}
    drawn = draw_message(message, version, RandomChoices("any"), lambda name, _: always.get(name, "x"))
    assert drawn["ErrorCode"] == error


def test_values_without_an_encoding_are_generated_for_every_kind_of_type(catalog):
    cases = [case for case in generated_cases(TYPES, 100, 0, catalog) if case.op == "encode"]
    types = {case.type for case in cases if isinstance(case.expect, ExpectRejection)}
    assert {"INT8", "INT64", "UINT32", "VARINT", "VARLONG", "UNSIGNED_VARINT", "STRING", "COMPACT_BYTES"} < types
    assert {"TAGGED_FIELDS", "ARRAY<INT32>", "COMPACT_ARRAY<COMPACT_STRING>"} < types


@pytest.mark.parametrize("number", range(len(CODECS)))
def test_every_form_of_a_payload_is_read_without_a_remark(number):
    for form in CODECS[number].forms:
        for size in (1, 14, 15, 100, 269, 270, 271, 70_000):
            data = (bytes(range(256)) * (size // 256 + 1))[:size]
            found = Findings()
            assert CODECS[number].open(Cursor(b"", found), form(data)) == data
            assert found.remarks == []


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (kind, row)
        for kind in ("RECORD_BATCH", "MESSAGE_SET", "LOG")
        for row in MUTATIONS
        if kind != "MESSAGE_SET" or not row.endswith(("-varint", "excess-bits"))
    ],
)
def test_every_mutation_changes_some_values(kind, row, monkeypatch):
    changed = 0
    monkeypatch.setattr("conformance.strategies.seeded.mutations.MUTATIONS", {row: MUTATIONS[row]})
    for index in range(40):
        choices = RandomChoices(f"{row}/{index}")
        data = generate(kind, choices).data
        damaged, name = mutate(kind, data, choices)
        changed += name == row and damaged != data
    assert changed >= 5


def test_damage_inside_compressed_payloads_has_a_correct_outer_checksum():
    rules = set()
    for index in range(600):
        choices = RandomChoices(f"sealed/{index}")
        found = generate("RECORD_BATCH", choices)
        if found.data[22] & 7 and found.value["records"]:
            damaged, _ = mutate("RECORD_BATCH", found.data, choices)
            rules |= {violation.requirement for violation in codec.decode("RECORD_BATCH", damaged).violations[:1]}
    assert len(rules & {"record.length-mismatch-rejected", "varint.max-five-bytes", "record.headers-count"}) >= 2


@pytest.mark.parametrize(
    "rule",
    [
        "legacy.crc-checked",
        "robustness.message-key-length",
        "robustness.inner-message",
        "legacy.value-nullable",
        "recursive.wrapper-holds-set",
    ],
)
def test_damage_inside_wrappers_has_correct_outer_checksums(rule, broken_inside):
    assert rule in broken_inside


@pytest.fixture(scope="module")
def broken_inside():
    """Return the requirements of faults and unspecified bytes inside otherwise valid wrappers."""
    rules = set()
    for index in range(2500):
        choices = RandomChoices(f"inside/{index}")
        damaged, _ = mutate("MESSAGE_SET", generate("MESSAGE_SET", choices).data, choices)
        read = codec.decode("MESSAGE_SET", damaged)
        found = [*read.violations, *read.remarks]
        if found and all(mark.layer for mark in found[:1]) and len(read.violations) < 2:
            rules.add(found[0].requirement)
    return rules


def test_a_wrong_checksum_is_the_only_fault_in_messages_inner_messages_and_wrappers():
    wrong = set()
    for index in range(3000):
        choices = RandomChoices(f"checksums/{index}")
        damaged, row = mutate("MESSAGE_SET", generate("MESSAGE_SET", choices).data, choices)
        read = codec.decode("MESSAGE_SET", damaged)
        if row == "checksum-broken":
            assert [violation.requirement for violation in read.violations] in (
                ["legacy.crc-checked"],
                ["legacy.wrapper-crc-checked"],
            )
            wrong |= {(violation.requirement, violation.layer > 0) for violation in read.violations}
    assert wrong == {
        ("legacy.crc-checked", False),
        ("legacy.crc-checked", True),
        ("legacy.wrapper-crc-checked", False),
    }


@pytest.mark.parametrize("kind", ["RECORD_BATCH", "MESSAGE_SET", "LOG"])
def test_mutated_bytes_result_only_in_violations_within_bounded_memory(kind):
    seeds = (RandomChoices(f"hostile/{index}") for index in range(1500))
    hostile = [mutate(kind, generate(kind, choices).data, choices)[0] for choices in seeds]
    tracemalloc.start()
    for data in hostile:
        codec.decode(kind, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20


def test_every_case_has_the_first_requirement_found_by_the_reference(catalog):
    for case in cases_at("RECORD_BATCH", 0, 3, catalog):
        assert case.requirement in catalog.requirements


def test_only_types_that_a_selection_can_match_are_generated():
    assert types_for([]) == types_for(["level:must"]) == types_for(["gen/*", "type:INT8"]) == list(TYPES)
    rare = ["LARGE_COMPACT_STRING", "SURROGATE_COMPACT_STRING", "SURROGATE_COMPACT_NULLABLE_STRING"]
    strings = ["COMPACT_STRING", "COMPACT_NULLABLE_STRING", *rare]
    assert types_for(["type:COMPACT_*STRING", "varint/zero"]) == strings
    assert types_for(["varint/zero"]) == []
    assert types_for(["type:LOG"]) == ["LOG", "READ", "CONVERT", "SEQUENCE", "READ_RAISED"]
    assert types_for(["gen/*/VARINT/*", "gen/4/VARLONG/0/5"]) == ["VARINT", "VARLONG"]
    assert types_for(["gen/*/SURROGATE_STRING/0/*:encode"]) == ["SURROGATE_STRING"]
    assert types_for(["gen/*/READ*/*"]) == ["READ", "READ_RAISED"]
    assert types_for(["gen/*/VAR*/0/1*:enc*"]) == ["VARINT", "VARLONG", "UNSIGNED_VARINT"]
    assert types_for(["gen/*/NO_SUCH/0/1"]) == []


@pytest.mark.parametrize(
    "pattern", ["gen/*/VARINT/*", "gen/?/INT8[/]0/1", "*/VAR*/0/1", "*:encode", "gen/*T8/*", "*n/?/*_*:e*c*de"]
)
def test_a_pattern_with_wildcards_for_slashes_excludes_no_matching_type(pattern, catalog):
    wanted = [case.id for case in generated_cases(TYPES, 3, 0, catalog) if fnmatchcase(case.id, pattern)]
    of_types = generated_cases(types_for([pattern]), 3, 0, catalog)
    assert [case.id for case in of_types if fnmatchcase(case.id, pattern)] == wanted


def test_an_impossible_snappy_length_has_one_requirement_at_every_position():
    # Apache Kafka's own library crashes on it before and after the blocks.
    record = b"\x0c\x00\x00\x00\x01\x00\x00"
    for blocks in (b"", struct.pack(">i", 9) + b"\x07\x18" + record):
        payload = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + blocks + b"\xff" * 4
        header = struct.pack(">HiqqqhiI", 2, 0, 0, 0, -1, -1, -1, 1)
        data = with_checksums(bytes(16) + b"\x02" + bytes(4) + header + payload)
        assert expectation(codec.wire("RECORD_BATCH"), data)[1] == "robustness.snappy-block-length"


def test_message_sets_are_encoded_uncompressed_and_in_every_codec(catalog):
    cases = [case for case in generated_cases(("MESSAGE_SET",), 2000, 0, catalog) if case.op == "encode"]
    assert {(case.request["magic"], case.request["compression"]) for case in cases} == {
        *((0, name) for name in ("none", "gzip", "snappy")),
        *((1, name) for name in ("none", "gzip", "snappy", "lz4")),
    }


def test_reads_cover_transactions_gaps_cut_entries_damage_and_both_isolation_levels(catalog):
    cases = list(generated_cases(("READ",), 400, 0, catalog))
    views = [case.expect.view for case in cases if isinstance(case.expect, ExpectConsumerView)]
    assert {case.type for case in cases} == {"LOG"}
    assert {case.request["isolation"] for case in cases} == {"read_committed", "read_uncommitted"}
    assert {rule for view in views for rule in view.hidden.values()} == {
        "consumer.filters-aborted",
        "consumer.handles-control-batches",
    }
    assert any(view.partial for view in views)
    assert any(view.legacy for view in views)
    assert any(view.damage for view in views)
    assert sum(view.damage is None and not view.remarks for view in views) > len(cases) / 2
    assert any(view.records and view.records[0]["offset"] > view.fetch_offset for view in views)
    orders = [[entry["firstOffset"] for entry in case.request["aborted"]] for case in cases]
    assert any(order != sorted(order, key=int) for order in orders)
    assert any("checkCrcs" in case.request for case in cases)


def test_a_damaged_case_names_only_its_mutation(catalog):
    cases = list(generated_cases(("VARINT", "READ"), 60, 0, catalog))
    assert {"cut", "overlong-varint"} <= {case.mutation for case in cases}
    assert not any(case.note for case in cases)
    assert {case.comment for case in cases} == {case.mutation and f"mutation: {case.mutation}" for case in cases}
    assert {case.kind for case in cases} == {CaseOrigin.GENERATED}


def test_no_read_starts_beyond_the_end_of_the_log(catalog):
    # Apache Kafka's consumer would return the end of the log, which is below the fetch offset.
    for case in generated_cases(("READ",), 300, 1, catalog):
        if not case.mutation and isinstance(case.expect, ExpectConsumerView):
            assert case.expect.view.fetch_offset < case.expect.view.next_offset


def test_conversions_are_up_down_and_impossible(catalog):
    cases = list(generated_cases(("CONVERT",), 300, 0, catalog))
    assert {(case.request["magic"], "baseOffset" in case.request) for case in cases} == {
        (0, False),
        (1, False),
        (2, False),
        (2, True),
    }
    assert any(isinstance(case.expect, ExpectRejection) for case in cases)


def test_generated_sequences_cover_every_result(catalog):
    met = {
        answer
        for case in generated_cases(("SEQUENCE",), 100, 0, catalog)
        for right in case.expect.answers
        for answer in (right if len(right) == 1 else {"either"})
    }
    assert met == {"accept", "duplicate", "out-of-order", "fenced", "either"}


def test_the_reference_passes_generated_cases_with_every_number_of_jobs(tmp_path):
    serve = f"command:{sys.executable} -m conformance serve reference"
    for jobs in (1, 3):
        done = conformance(
            "run",
            serve,
            "--select",
            "type:RECORD*",
            "--generated",
            10,
            "--jobs",
            jobs,
            "--json",
            f"{jobs}.json",
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "1.json").read_text() == (tmp_path / "3.json").read_text()
    ids = {result["id"] for result in json.loads((tmp_path / "1.json").read_text())["results"]}
    assert "gen/4/RECORD_BATCH/0/9" in ids


def test_a_generated_case_is_selected_by_its_id(tmp_path):
    done = conformance("run", "reference", "--select", "gen/4/RECORD_BATCH/0/417", "--json", "r.json", cwd=tmp_path)
    assert done.returncode == 0
    assert [r["id"] for r in json.loads((tmp_path / "r.json").read_text())["results"]] == ["gen/4/RECORD_BATCH/0/417"]


def test_a_random_seed_is_reported(tmp_path):
    arguments = ("run", "reference", "--select", "gen/*", "--generated", 1, "--seed", "random", "--json", "r.json")
    assert conformance(*arguments, cwd=tmp_path).returncode == 0
    assert isinstance(json.loads((tmp_path / "r.json").read_text())["suite"]["seed"], int)
    assert conformance("run", "reference", "--seed", "x", cwd=tmp_path).returncode == 2


def test_a_primitive_of_a_new_notation_is_drawn_at_its_edges():
    roman = Notation("a Roman numeral", str, str)
    row = WireType("ROMAN", lambda _: "", lambda text: text.encode(), roman, 1, ("I", "IV", "MMM"))
    assert {value(row, RandomChoices(f"{seed}")) for seed in range(50)} == {"I", "IV", "MMM"}


def test_a_primitive_of_a_known_notation_is_drawn_between_its_edges():
    def encode(number):
        return number.to_bytes(3, "big")

    row = WireType("UINT24", lambda _: 0, encode, NUMBER, 3, (0, 1, (1 << 24) - 1))
    found = {value(row, RandomChoices(f"{seed}")) for seed in range(50)}
    assert found > {0, 1, (1 << 24) - 1}
    assert all(0 <= number < 1 << 24 for number in found)


def test_markers_with_a_raised_epoch_are_newer_than_their_batches(catalog):
    epochs = set()
    for case in generated_cases(("READ_RAISED",), 40, 0, catalog):
        entries = codec.decode("LOG", case.data).value
        for entry in entries["batches"] if entries else ():
            if entry.get("isControlBatch"):
                epochs.add(entry["producerEpoch"])
    assert 0 not in epochs
    assert {1, 2} <= epochs
