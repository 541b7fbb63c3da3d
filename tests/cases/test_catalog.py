"""The catalogue: the form of vector files, the cases built from them, and the coverage of the bundled vectors."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from conformance import codec
from conformance.cases.encode import batch_to_encode
from conformance.cases.model import (
    ERRORS,
    LEVELS,
    Accepted,
    ExpectAnyOf,
    ExpectBytes,
    ExpectEquivalentBytes,
    ExpectRejection,
    ExpectSize,
    ExpectValue,
    NotTestable,
)
from conformance.catalog._vector_cases import make_cases
from conformance.catalog.case_builder import ad_hoc_case
from conformance.catalog.catalog import as_of, select
from conformance.catalog.catalog_builder import read_catalog
from conformance.catalog.vector_files import VECTORS, hex_pieces, read_requirements, read_vectors, vector_files
from conformance.codec.json_notation import UNSHOWN
from conformance.codec.record_batch import ENCODE_FIELDS
from conformance.errors import FileError
from conformance.files.yaml_loader import load
from conformance.judging.judge import judge
from conformance.targets import reference

BASES = ("stated", "implied", "settled")
PLAIN = (
    "0000000000000000 0000004c ffffffff 02 fcfd2439 0000 00000002 00000000000003e8 00000000000003f2"
    "ffffffffffffffff ffff ffffffff 00000003 10000000026b027600 10000a02026b027600 10001404026b027600"
)
HEAD = "type: VARINT\nvectors:\n"
GOOD = '  - {id: t/one, requirement: varint.examples, value: 63, hex: "7e"}\n'


def write(tmp_path, text, name="t.yaml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def cases(tmp_path, catalog, text):
    """Return the cases of a file, by id."""
    path = write(tmp_path, text)
    return {
        case.id: case for vector in read_vectors(path) for case in make_cases(vector, catalog.requirements, str(path))
    }


def vector_cases(tmp_path, catalog, keys, type="VARINT", requirement="varint.examples"):
    """Return the cases of one vector with these keys (YAML, flow style)."""
    return cases(tmp_path, catalog, f"- {{id: t/one, type: '{type}', requirement: {requirement}, {keys}}}")


# --- malformed files ----------------------------------------------------------------------------------

MALFORMED = {
    "unknown key": (HEAD + GOOD + '  - {id: t/two, requirement: varint.examples, hex: "00", valeu: 0}\n', 4, "valeu"),
    "unknown key beside vectors": ("typ: VARINT\nvectors: []\n", 1, "typ"),
    "unknown requirement": (
        HEAD + '  - {id: t/one, requirement: varint.nope, value: 0, hex: "00"}',
        3,
        "varint.nope",
    ),
    "unknown type": (
        '- {id: t/one, type: INT7, requirement: varint.examples, value: 0, hex: "00"}',
        1,
        "INT7",
    ),
    "no requirement": (HEAD + '  - {id: t/one, value: 0, hex: "00"}', 3, "requirement"),
    "no type": ('- {id: t/one, requirement: varint.examples, value: 0, hex: "00"}', 1, "type"),
    "no id": (HEAD + '  - {requirement: varint.examples, value: 0, hex: "00"}', 3, "id"),
    "id without family": (HEAD + '  - {id: zero, requirement: varint.examples, value: 0, hex: "00"}', 3, "family"),
    "id in capitals": (HEAD + '  - {id: T/x, requirement: varint.examples, value: 0, hex: "00"}', 3, "family"),
    "id with a colon": (HEAD + '  - {id: "t/x:y", requirement: varint.examples, value: 0, hex: "00"}', 3, "family"),
    "id that is a number": (HEAD + "  - {id: 5, requirement: varint.examples, value: 0}", 3, "string"),
    "unquoted hex": (HEAD + GOOD + "  - {id: t/two, requirement: varint.examples, value: 0, hex: 7}", 4, "quoted"),
    "unquoted hex that YAML misreads": (HEAD + "  - {id: t/two, requirement: varint.examples, hex: 00}", 3, "'00'"),
    "hex of odd length": (HEAD + '  - {id: t/two, requirement: varint.examples, value: 0, hex: "0"}', 3, "hex"),
    "hex that is none": (HEAD + '  - {id: t/two, requirement: varint.examples, value: 0, hex: "0g"}', 3, "hex"),
    "hex piece without repeat": (HEAD + '  - {id: t/x, requirement: varint.examples, hex: [{hex: "00"}]}', 3, "hex"),
    "hex piece repeated too often": (
        HEAD + '  - {id: t/x, requirement: varint.examples, value: 0, hex: [{repeat: 99999999, hex: "00"}]}',
        3,
        "repeat",
    ),
    "hex piece repeated below zero": (
        HEAD + '  - {id: t/x, requirement: varint.examples, value: 0, hex: [{repeat: -1, hex: "00"}]}',
        3,
        "repeat",
    ),
    "duplicate key": (HEAD + '  - {id: t/x, value: 0, requirement: varint.examples, value: 1, hex: "00"}', 3, "twice"),
    "neither value nor bytes": (HEAD + "  - {id: t/x, requirement: varint.examples}", 3, "value and hex"),
    "only bytes": (HEAD + '  - {id: t/x, requirement: varint.examples, hex: "00"}', 3, "value and hex"),
    "reject and either": (
        HEAD + '  - {id: t/x, requirement: varint.examples, hex: "00", reject: malformed, either: any}',
        3,
        "hex and either",
    ),
    "value, bytes and reject": (
        HEAD + '  - {id: t/x, requirement: varint.examples, value: 0, hex: "00", reject: malformed}',
        3,
        "value and hex",
    ),
    "either without bytes": (HEAD + "  - {id: t/x, requirement: varint.examples, either: any, value: 0}", 3, "hex"),
    "unknown class": (HEAD + '  - {id: t/x, requirement: varint.examples, hex: "00", reject: bad}', 3, "malformed"),
    "value rejected as malformed": (
        HEAD + "  - {id: t/x, requirement: varint.examples, value: 0, reject: malformed}",
        3,
        "invalid-value",
    ),
    "empty either": (HEAD + '  - {id: t/x, requirement: varint.examples, hex: "00", either: []}', 3, "either"),
    "unknown reading": (
        HEAD + '  - {id: t/x, requirement: varint.examples, hex: "00", either: [reject, accept]}',
        3,
        "either: expected",
    ),
    "reading with another key": (
        HEAD + '  - {id: t/x, requirement: varint.examples, hex: "00", either: [{value: 0, size: 1}]}',
        3,
        "either: expected",
    ),
    "reading of another shape": (
        HEAD + '  - {id: t/x, requirement: varint.examples, hex: "00", either: [{value: "0"}]}',
        3,
        "number",
    ),
    "value of another shape": (
        HEAD + '  - {id: t/x, requirement: varint.examples, value: "0", hex: "00"}',
        3,
        "number",
    ),
    "field that is none": (
        '- {id: t/x, type: CONTROL_RECORD, requirement: varint.examples, value: {tpye: 1}, hex: "00000001"}',
        1,
        "tpye",
    ),
    "value that contradicts its bytes": (
        HEAD + GOOD + '  - {id: t/x, requirement: varint.examples, value: 62, hex: "7e"}',
        4,
        "bytes",
    ),
    "bytes that nobody writes": (
        HEAD + '  - {id: t/x, requirement: varint.examples, value: 0, hex: "8000"}',
        3,
        "canonical: false",
    ),
    "value without an encoding": (
        '- {id: t/x, type: INT8, requirement: varint.examples, value: 128, hex: "80"}',
        1,
        "canonical: false",
    ),
    "field that contradicts its bytes": (
        f'- {{id: t/x, type: RECORD_BATCH, requirement: batch.crc, value: {{magic: 1}}, hex: "{PLAIN}"}}',
        1,
        "magic",
    ),
    "record that contradicts its bytes": (
        f'- {{id: t/x, type: RECORD_BATCH, requirement: batch.crc, value: {{records: [{{}}]}}, hex: "{PLAIN}"}}',
        1,
        r"records\[1\]",
    ),
    "bytes without a value": (
        '- {id: t/x, type: RECORD, requirement: batch.crc, value: {key: null}, hex: "00"}',
        1,
        "hex: the reference rejects these bytes",
    ),
    "consumed beyond the bytes": (
        HEAD + '  - {id: t/x, requirement: varint.examples, value: 0, hex: "00", consumed: 2}',
        3,
        "consumed",
    ),
    "consumed that is no number": (
        HEAD + '  - {id: t/x, requirement: varint.examples, value: 0, hex: "00", consumed: true}',
        3,
        "consumed",
    ),
    "about that is no list": (
        HEAD + '  - {id: t/x, requirement: varint.examples, value: 0, hex: "00", checked-fields: consumed}',
        3,
        "checked-fields",
    ),
    "note that is no string": (
        HEAD + '  - {id: t/x, requirement: varint.examples, value: 0, hex: "00", note: [a]}',
        3,
        "note",
    ),
    "vector that is no mapping": (HEAD + "  - t/one", 1, "mapping"),
    "no list": ("vectors: {}", 0, "list"),
    "nothing": ("", 0, "list"),
    "a scalar": ("hello", 0, "list"),
    "not YAML": ("- {id: t/x\n- ]", 2, "expected"),
    "a tab": ("vectors:\n\t- id: t/x", 2, "token"),
    "not UTF-8": (b"- {id: t/x, note: \xff\xfe}", 0, "YAML"),
    "an object of Python": ("- !!python/object/apply:os.getcwd []", 1, "python"),
    "a key that is no string": ("- {5: x}", 1, "string"),
    "nested too deep": ("- " + "[" * 5000, 1, "nested more than 100 deep"),
}


@pytest.mark.parametrize(("text", "line", "problem"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_is_one_error_with_path_line_and_problem(tmp_path, catalog, text, line, problem):
    with pytest.raises(FileError, match=problem) as caught:
        cases(tmp_path, catalog, text)
    assert caught.value.path == str(tmp_path / "t.yaml")
    if line:
        assert caught.value.line == line
    where = f"{caught.value.path}:{caught.value.line}: " if caught.value.line else f"{caught.value.path}: "
    assert str(caught.value) == where + caught.value.problem
    assert len(str(caught.value)) < 1000


MISREAD = [
    *["00", "0123", "007", "0x1f", "0b11", "1_000", "+5", "12:30", "190:20:30"],
    *["no", "No", "yes", "on", "off", "ON", "True", "FALSE", "~", "Null"],
    *["1.0", ".5", "1.5e+3", ".inf", ".nan", "2024-01-01", "2024-01-01 10:00:00"],
]


@pytest.mark.parametrize("scalar", MISREAD)
def test_an_unquoted_scalar_with_another_yaml_type_is_rejected(tmp_path, scalar):
    with pytest.raises(FileError, match=re.escape(scalar)) as caught:
        load(write(tmp_path, f"- fine\n- [{scalar}]\n"))
    assert caught.value.line == 2


@pytest.mark.parametrize("scalar", [*MISREAD, "1e3", "0o17", "7e", "x"])
def test_a_quoted_scalar_keeps_its_text(tmp_path, scalar):
    assert load(write(tmp_path, f"- ['{scalar}', \"{scalar}\"]\n")) == [[scalar, scalar]]


@pytest.mark.parametrize("scalar", ["1e3", "0o17", "7e", "0a", "08", "x: y"[:1], "-"])
def test_an_unquoted_scalar_that_is_a_yaml_string_keeps_its_text(tmp_path, scalar):
    path = write(tmp_path, f"a: {scalar}x\n")
    assert load(path) == {"a": f"{scalar}x"}


def test_unambiguous_scalars_keep_their_type(tmp_path):
    text = "{a: 0, b: -5, c: 12345678901234567890, d: true, e: false, f: null, g: abc, h: '00', i: 7e, j: 0a}"
    assert load(write(tmp_path, text)) == {
        **{"a": 0, "b": -5, "c": 12345678901234567890, "d": True, "e": False, "f": None, "g": "abc", "h": "00"},
        **{"i": "7e", "j": "0a"},
    }


def test_an_empty_value_is_rejected_as_null(tmp_path):
    with pytest.raises(FileError, match="null") as caught:
        load(write(tmp_path, "a: 1\nb:\n"))
    assert caught.value.line == 2


def test_missing_files_and_folders_are_named_in_the_error(tmp_path):
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(FileError, match=re.escape(str(path))):
            load(path)
    with pytest.raises(FileError, match="this file or folder does not exist"):
        vector_files(tmp_path / "none")
    with pytest.raises(FileError, match="no vector file"):
        vector_files(tmp_path)


def test_vectors_are_found_in_folders_at_any_depth_in_order(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("z.yaml", "b/a.yml", "requirements.yaml", "a.txt"):
        write(tmp_path, "[]", name)
    assert vector_files(tmp_path) == [tmp_path / "b" / "a.yml", tmp_path / "z.yaml"]
    assert vector_files(tmp_path / "z.yaml") == [tmp_path / "z.yaml"]


def test_a_duplicate_id_is_rejected_within_a_file_and_across_files(tmp_path):
    bundled = '- {id: varint/zero, type: VARINT, requirement: varint.examples, value: 0, hex: "00"}'
    for text in (HEAD + GOOD + GOOD, bundled):
        with pytest.raises(FileError, match="has this id already"):
            read_catalog([write(tmp_path, text)])


def test_no_vector_takes_the_id_of_a_derived_case(catalog, vectors):
    assert any(":" in name for name in catalog.cases)
    assert not any(":" in vector.id for vector in vectors)


REGISTER = {
    "level": "- {id: a.b, level: maybe, basis: stated}",
    "has this id already": "- {id: a.b, level: must, basis: stated}\n- {id: a.b, level: must, basis: stated}",
    "basis": "- {id: a.b, level: must}",
    "mapping": "- a.b",
    "id": "- {level: must}",
    "list": "a: {level: must}",
}


@pytest.mark.parametrize(("problem", "text"), REGISTER.items())
def test_a_malformed_register_is_an_error(tmp_path, problem, text):
    with pytest.raises(FileError, match=problem):
        read_requirements(write(tmp_path, text))


# --- cases --------------------------------------------------------------------------------------------


def test_value_and_bytes_make_a_decode_an_encode_and_a_size_case(tmp_path, catalog):
    found = vector_cases(
        tmp_path, catalog, 'value: 63, hex: "7e", note: why, found-in: x, since: "0.1.0", source: derived'
    )
    assert list(found) == ["t/one", "t/one:encode", "t/one:size"]
    decode, encode, size = found.values()
    assert (decode.request, decode.expect) == ({"op": "decode", "type": "VARINT", "hex": "7e"}, ExpectValue(63, 1))
    assert (encode.request, encode.expect) == ({"op": "encode", "type": "VARINT", "value": 63}, ExpectBytes(b"\x7e"))
    assert (size.request, size.expect) == ({"op": "size", "type": "VARINT", "value": 63}, ExpectSize(1))
    for case in found.values():
        assert (case.level, case.requirement, case.data) == ("must", "varint.examples", b"\x7e")
        assert (case.note, case.found_in, case.since, case.source) == ("why", "x", "0.1.0", "derived")
        assert case.origin == str(tmp_path / "t.yaml")


def test_non_canonical_or_partly_consumed_bytes_are_only_decoded(tmp_path, catalog):
    assert list(vector_cases(tmp_path, catalog, 'value: 0, hex: "8000", canonical: false')) == ["t/one"]
    (case,) = vector_cases(tmp_path, catalog, 'value: 0, hex: "00ff", consumed: 1').values()
    assert (case.expect, case.checked_fields) == (ExpectValue(0, 1), ("consumed",))


def test_rejected_bytes_or_a_rejected_value_make_one_case(tmp_path, catalog):
    (case,) = vector_cases(tmp_path, catalog, 'hex: "80", reject: malformed').values()
    assert (case.op, case.expect) == ("decode", ExpectRejection(None, "malformed"))
    (case,) = vector_cases(tmp_path, catalog, "value: 4294967296, reject: invalid-value").values()
    assert (case.op, case.expect, case.data) == ("encode", ExpectRejection(None, "invalid-value"), None)
    assert case.request == {"op": "encode", "type": "VARINT", "value": 4294967296}


def test_the_error_class_is_judged_only_if_the_checksum_is_the_only_violation(tmp_path, catalog):
    wrong = PLAIN.replace("fcfd2439", "00000000")
    found = vector_cases(tmp_path, catalog, f'hex: "{wrong}", reject: corrupt', "RECORD_BATCH")
    assert found["t/one"].expect == ExpectRejection("corrupt", "corrupt")
    assert (found["t/one"].level, found["t/one:read"].level) == ("must", "should")
    worse = wrong[:-2] + "02"
    found = vector_cases(tmp_path, catalog, f'hex: "{worse}", reject: corrupt', "RECORD_BATCH")
    assert found["t/one"].expect == ExpectRejection(None, "corrupt")


def test_accepted_interpretations_keep_their_order(tmp_path, catalog):
    (case,) = vector_cases(
        tmp_path, catalog, 'hex: "8000", either: [reject, {value: 0, consumed: 2}, {consumed: 1}]'
    ).values()
    assert case.expect == ExpectAnyOf((ExpectRejection(), ExpectValue(0, 2), ExpectValue(UNSHOWN, 1)))
    (case,) = vector_cases(tmp_path, catalog, 'hex: "8000", either: any').values()
    assert case.expect == ExpectAnyOf()


def test_type_source_and_since_may_be_given_once_per_file(tmp_path, catalog):
    text = 'type: INT8\nsource: a#b\nsince: "0.2.0"\nvectors:\n'
    text += '  - {id: t/x, requirement: varint.examples, value: 0, hex: "00"}\n'
    text += '  - {id: t/y, requirement: varint.examples, type: BOOLEAN, source: c#d, value: false, hex: "00"}\n'
    found = cases(tmp_path, catalog, text)
    assert (found["t/x"].type, found["t/x"].source, found["t/x"].since) == ("INT8", "a#b", "0.2.0")
    assert (found["t/y"].type, found["t/y"].source, found["t/y"].since) == ("BOOLEAN", "c#d", "0.2.0")


def test_hex_may_be_given_in_pieces(tmp_path, catalog):
    pieces = '["00 00", {repeat: 3, hex: "61 "}, "", {repeat: 0, hex: "ff"}]'
    (case, *_) = vector_cases(tmp_path, catalog, f"hex: {pieces}, reject: malformed", "INT64").values()
    assert case.data == b"\0\0aaa"
    assert hex_pieces("00") == [(1, "00")]


def test_a_piece_of_many_records_computes_lengths_and_offset_deltas():
    ((times, digits),) = hex_pieces([{"repeat": 65, "record": "00 00 * 01 02 76 00"}])
    assert times == 1
    assert digits.startswith("0e000000010276000e00000201027600")
    assert digits.endswith("0e00007e01027600" + "1000008001" + "01027600")


@pytest.mark.parametrize(
    "piece", [{"repeat": 2, "record": "00"}, {"repeat": 1 << 18, "record": "*"}, {"repeat": 1, "record": "0*"}]
)
def test_an_invalid_piece_of_records_is_rejected(piece):
    with pytest.raises(ValueError):
        hex_pieces([piece])


def test_a_partial_batch_is_completed_from_its_bytes_and_checks_its_stated_fields(tmp_path, catalog):
    stated = 'value: {magic: 2, records: [{key: "6b"}, {offset: "1", headers: []}, {}]}'
    found = vector_cases(tmp_path, catalog, f'{stated}, hex: "{PLAIN}"', "RECORD_BATCH")
    decode = found["t/one"]
    assert decode.expect == ExpectValue(codec.decode("RECORD_BATCH", bytes.fromhex(PLAIN)).value, 88)
    assert decode.checked_fields == ("magic", "records.key", "records.offset", "records.headers")
    found = vector_cases(tmp_path, catalog, f'{stated}, hex: "{PLAIN}", checked-fields: [magic]', "RECORD_BATCH")
    assert found["t/one"].checked_fields == ("magic",)
    found = vector_cases(tmp_path, catalog, f'value: {{records: [{{}}, {{}}, {{}}]}}, hex: "{PLAIN}"', "RECORD_BATCH")
    assert found["t/one"].checked_fields == ("records",)


def test_an_encode_request_contains_the_fields_of_the_contract(tmp_path, catalog):
    found = vector_cases(tmp_path, catalog, f'value: {{magic: 2}}, hex: "{PLAIN}"', "RECORD_BATCH")
    encode = found["t/one:encode"]
    value = encode.request["value"]
    assert set(value) == set(ENCODE_FIELDS)
    assert value["records"][1] == {"offset": "1", "timestamp": "1005", "key": "6b", "value": "76", "headers": []}
    assert encode.expect == ExpectBytes(bytes.fromhex(PLAIN), (12, 16))
    assert found["t/one:size"].expect == ExpectSize(88)
    assert codec.encode("RECORD_BATCH", codec.wire("RECORD_BATCH").notation.parse(value)) == bytes.fromhex(PLAIN)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("00000000000003f2", "00000000000003f3"),
        ("0000 00000002", "0000 00000009"),
        ("0000 00000002", "0040 00000002"),
    ],
)
def test_batches_that_an_encode_request_cannot_express_are_only_decoded(tmp_path, catalog, before, after):
    from conformance.codec.checksums import CRC32C

    raw = bytes.fromhex(PLAIN.replace(before, after))
    raw = raw[:17] + CRC32C.compute(raw[21:]).to_bytes(4, "big") + raw[21:]
    found = vector_cases(tmp_path, catalog, f'value: {{magic: 2}}, hex: "{raw.hex()}"', "RECORD_BATCH")
    assert list(found) == ["t/one", "t/one:read", "t/one:append"]


def test_a_large_compressed_batch_is_encoded_and_judged_by_its_content(catalog):
    written = [case for case in catalog.cases.values() if isinstance(case.expect, ExpectEquivalentBytes)]
    found = [case for case in written if case.type == "RECORD_BATCH"]
    assert {codec for case in found for codec in case.codecs} >= {"gzip", "snappy", "lz4", "zstd"}
    for case in found:
        value = case.request["value"]
        records = codec.wire("RECORD_BATCH").notation.parse(value)["records"]
        assert sum(len(record["key"] or b"") + len(record["value"] or b"") for record in records) > 500
        assert not {"batchLength", "crc", "attributes", "partitionLeaderEpoch"} & set(case.expect.value)


def test_a_compressed_set_is_encoded_in_one_wrapper_and_judged_as_a_log(catalog):
    written = [case for case in catalog.cases.values() if isinstance(case.expect, ExpectEquivalentBytes)]
    found = [case for case in written if case.type == "MESSAGE_SET"]
    assert {(case.request["magic"], case.request["compression"]) for case in found} >= {
        *((0, "gzip"), (0, "snappy"), (1, "gzip"), (1, "lz4"))
    }
    for case in found:
        assert case.expect.type == "LOG"
        (wrapper,) = case.expect.value["batches"]
        assert wrapper["offset"] == wrapper["messages"][-1]["offset"]
        assert [message["offset"] for message in case.request["value"]] == [
            str(message["offset"]) for message in wrapper["messages"]
        ]
        assert len(str(case.request)) > 1000


@pytest.mark.parametrize(
    ("records", "ids"),
    [
        (20, ["t/one", "t/one:read", "t/one:append"]),
        (200, ["t/one", "t/one:encode", "t/one:read", "t/one:append"]),
    ],
)
def test_a_small_compressed_batch_has_no_encode_case(tmp_path, catalog, records, ids):
    first = codec.decode("RECORD_BATCH", bytes.fromhex(PLAIN)).value
    one_record = first["records"][0]
    many = tuple({**one_record, "offset": offset, "value": b"value"} for offset in range(records))
    data = codec.encode("RECORD_BATCH", {**first, "compression": 1, "records": many})
    found = vector_cases(tmp_path, catalog, f'value: {{compression: gzip}}, hex: "{data.hex()}"', "RECORD_BATCH")
    assert list(found) == ids


@pytest.mark.parametrize("records", [20, 200])
def test_a_user_batch_can_be_encoded_exactly_if_the_same_vector_can(tmp_path, catalog, records):
    first = codec.decode("RECORD_BATCH", bytes.fromhex(PLAIN)).value
    many = tuple({**first["records"][0], "offset": offset, "value": b"value"} for offset in range(records))
    data = codec.encode("RECORD_BATCH", {**first, "compression": 1, "records": many})
    found = vector_cases(tmp_path, catalog, f'value: {{compression: gzip}}, hex: "{data.hex()}"', "RECORD_BATCH")
    parts = {"value": batch_to_encode(codec.decode("RECORD_BATCH", data).value)}
    if "t/one:encode" in found:
        own = ad_hoc_case("encode", codec.wire("RECORD_BATCH"), parts, catalog)
        assert (own.expect, own.request) == (
            found["t/one:encode"].expect,
            found["t/one:encode"].request,
        )
    else:
        with pytest.raises(NotTestable, match="may leave these records uncompressed"):
            ad_hoc_case("encode", codec.wire("RECORD_BATCH"), parts, catalog)


def test_a_log_is_never_encoded(catalog):
    found = {case.op for case in catalog.cases.values() if case.type == "LOG"}
    assert found == {"decode", "read", "convert", "sequence", "append", "scenario"}


# --- the basis of requirements ------------------------------------------------------------------------

REGISTER = load(VECTORS / "requirements.yaml")


def test_every_requirement_has_a_basis():
    assert {row["id"]: row.get("basis") for row in REGISTER if row.get("basis") not in BASES} == {}


def test_a_settled_requirement_names_its_decision_or_class_of_apache_kafka():
    settled = [row for row in REGISTER if row["basis"] == "settled"]
    named = [row for row in settled if "decisions#" in " ".join((*row["source"], row.get("why", "")))]
    by_code = [row for row in settled if all(source.startswith("apache-kafka#") for source in row["source"])]
    assert [row["id"] for row in settled if row not in named and row not in by_code] == []


def test_a_requirement_based_only_on_decisions_is_settled():
    rows = [row for row in REGISTER if all(name.startswith(("decisions#", "apache-kafka#")) for name in row["source"])]
    assert {row["id"]: row["basis"] for row in rows if row["basis"] != "settled"} == {}


# --- selection ----------------------------------------------------------------------------------------


def test_cases_are_selected_by_glob_type_requirement_or_level(catalog):
    every = list(catalog.cases.values())
    assert select(every, []) == every
    assert [case.id for case in select(every, ["varint/zero"])] == ["varint/zero"]
    assert {case.id for case in select(every, ["varint/zero*"])} >= {"varint/zero", "varint/zero:encode"}
    assert {case.type for case in select(every, ["type:ARRAY<*"])} >= {"ARRAY<INT32>"}
    assert {case.requirement for case in select(every, ["requirement:varint.*"])} >= {"varint.max-five-bytes"}
    assert {case.level for case in select(every, ["level:should", "level:may"])} == {"should", "may"}
    assert select(every, ["VARINT/*", "nope"]) == []
    assert select(every, ["varint/zero", "varint/*"]) == select(every, ["varint/*"])


def test_as_of_keeps_what_a_release_had(tmp_path, catalog):
    texts = [f'- {{id: t/v{n}, type: INT8, requirement: varint.examples, value: {n}, hex: "0{n}"' for n in (1, 2, 3)]
    text = texts[0] + "}\n" + texts[1] + ', since: "0.2.0"}\n' + texts[2] + ', since: "0.10.0"}\n'
    found = [case for case in cases(tmp_path, catalog, text).values() if case.op == "decode"]
    assert [case.id for case in as_of(found, "0.1.0")] == ["t/v1"]
    assert [case.id for case in as_of(found, "0.2.0")] == ["t/v1", "t/v2"]
    assert [case.id for case in as_of(found, "0.10.0")] == ["t/v1", "t/v2", "t/v3"]
    with pytest.raises(ValueError):
        as_of(found, "latest")


# --- the bundled vectors ------------------------------------------------------------------------------


def decodes(catalog, *kinds):
    return [case for case in catalog.cases.values() if case.op == "decode" and isinstance(case.expect, kinds)]


def test_ids_are_unique_and_of_a_stable_form(catalog, vectors):
    ids = [vector.id for vector in vectors]
    assert not [name for name, count in Counter(ids).items() if count > 1]
    for name in catalog.cases:
        assert re.fullmatch(r"[a-z0-9-]+(/[a-z0-9.-]+)+(:encode|:size|:read|:append)?", name), name
        assert not name.startswith(("gen/", "bytes/", "probe/"))


def test_every_vector_has_a_note_of_one_line(vectors):
    assert not [vector.id for vector in vectors if not vector.row.get("note", "").strip()]
    assert not [vector.id for vector in vectors if "\n" in vector.row["note"].strip()]


def test_every_case_is_well_formed(catalog):
    for case in catalog.cases.values():
        assert case.level in LEVELS
        assert case.requirement in catalog.requirements
        assert case.source
        assert case.request["op"] == case.op
        if isinstance(case.expect, ExpectRejection):
            assert case.expect.shown_error in ERRORS
        assert catalog.requirements[case.requirement].testable


def test_the_reference_reads_every_expected_value_without_a_remark(catalog):
    for case in decodes(catalog, ExpectValue):
        read = codec.decode(case.wire, case.data)
        assert (read.ok, read.remarks) == (True, ()), case.id
        assert read.consumed == case.expect.consumed, case.id
        assert case.wire.notation.same(read.value, case.expect.value), case.id


def test_the_reference_rejects_every_expected_rejection_with_a_certain_violation(catalog):
    for case in decodes(catalog, ExpectRejection):
        read = codec.decode(case.wire, case.data)
        assert any(not violation.open for violation in read.violations), case.id
        assert not any(violation.open for violation in read.violations[:1]), case.id


UNMARKED = {
    "records/cut-batch": "the reference does not decode a record set",
    "records/old-message": "the reference does not decode a record set",
    "records/no-batch-at-all": "the reference does not decode a record set",
    "attributes/control-alone": "the reference accepts Apache Kafka's own control types",
    "control/batch-type-two": "the reference accepts Apache Kafka's own control types",
    "lz4/block-holds-more-than-the-frame-allows": "the block is rejected as damaged before its size is known",
    "snappy/raw-trailing-byte": "the library does not report the end of a block",
    "zstd/wrong-content-size": "the library does not distinguish it from damage",
    "api-versions/error-35-with-v0-body-read-as-v3": "the reference reads the requested version",
}
"""Cases of unspecified input that the reference does not mark, and why."""


def test_the_reference_marks_unspecified_input_except_for_known_cases(catalog):
    unmarked = set()
    for case in decodes(catalog, ExpectAnyOf):
        read = codec.decode(case.wire, case.data)
        if not read.remarks and not any(violation.open for violation in read.violations):
            unmarked.add(case.id)
    assert {name for name in unmarked if not name.startswith("robustness/")} == set(UNMARKED)


def test_the_reference_returns_an_accepted_interpretation_of_unspecified_input(catalog):
    for case in decodes(catalog, ExpectAnyOf):
        readings = case.expect.readings
        if not readings:
            continue
        answer = reference.answer(case.request)
        if not answer["ok"]:
            assert any(isinstance(reading, ExpectRejection) for reading in readings), case.id
            continue
        outcome = Accepted({"value": answer["value"], "consumed": answer["consumed"]})
        assert str(judge(case, outcome).kind) == "either", case.id


def test_an_encode_request_describes_the_whole_batch(catalog):
    for case in catalog.cases.values():
        if (
            case.op == "encode"
            and case.type == "RECORD_BATCH"
            and isinstance(case.expect, ExpectBytes | ExpectEquivalentBytes)
        ):
            parsed = codec.wire("RECORD_BATCH").notation.parse(case.request["value"])
            again = codec.decode("RECORD_BATCH", codec.encode("RECORD_BATCH", parsed)).value
            assert batch_to_encode(again) == case.request["value"], case.id


def test_the_register_is_in_order(catalog):
    for row in catalog.requirements.values():
        assert re.fullmatch(r"[a-z0-9-]+\.[a-z0-9.-]+", row.id), row.id
        assert row.statement
        assert row.source
        assert all(re.fullmatch(r"[a-z-]+#[a-z0-9-]+", source) for source in row.source), row.id
        assert row.upstream in ("", "differs")
        if row.settled or row.upstream or not row.testable:
            assert row.why, row.id


# --- coverage -----------------------------------------------------------------------------------------

SECTIONS = {
    *("format-evolution", "message-format-versions", "overview", "batch-header-fields", "batch-attributes"),
    *("compression-codec-values", "timestamp-types", "timestamp-types-1", "record-format", "record-header-format"),
    *("offset-calculation", "timestamp-calculation", "control-batch-identification", "control-record-types"),
    *("control-record-format", "compression-application", "compression-behavior", "compression-configuration"),
    *("crc32-c-calculation", "crc-coverage", "validation-requirements", "size-calculation"),
}

DOCUMENTS = {
    *("primitive-types", "record-batch", "message-format", "message-format-wiki", "message-definitions", "decisions"),
    "protocol",
    "apache-kafka",  # rules that only Apache Kafka's classes state, for stored segments
}


def test_every_testable_requirement_has_a_case_or_belongs_to_lint_or_scan(catalog):
    assert {source.partition("#")[0] for row in catalog.requirements.values() for source in row.source} == DOCUMENTS
    covering = catalog.covering()
    rows = [row for row in catalog.requirements.values() if row.testable]
    assert len(rows) > 330
    # Each of the others is broken by a definition in test_lint.py or by a segment in test_audit.py.
    assert [row.id for row in rows if not covering[row.id] and not {"lint", "scan"} & set(row.tests)] == []


def test_every_section_of_the_documents_has_requirements(catalog):
    found = {source for row in catalog.requirements.values() for source in row.source}
    assert {section for section in SECTIONS if f"record-batch#{section}" not in found} <= {"format-evolution"}


def test_every_type_of_the_codec_is_decoded_by_some_case(catalog):
    judged = {case.type.partition("<")[0] for case in catalog.cases.values() if case.op == "decode"}
    assert judged == {*codec.TYPES, "MESSAGE", "ARRAY", "NULLABLE_ARRAY", "COMPACT_ARRAY", "COMPACT_NULLABLE_ARRAY"}
