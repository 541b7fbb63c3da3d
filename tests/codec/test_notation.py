"""The value notation: the accepted forms of a value, and the equality of two values."""

from __future__ import annotations

import json
import random

import pytest

from conformance import codec
from conformance.codec.compare import unknown_fields, unshown_paths
from conformance.codec.json_notation import NotationError
from conformance.codec.primitives import PRIMITIVES

PLAIN = bytes.fromhex(
    "0000000000000000 0000004c ffffffff 02 fcfd2439 0000 00000002 00000000000003e8 00000000000003f2"
    "ffffffffffffffff ffff ffffffff 00000003 10000000026b027600 10000a02026b027600 10001404026b027600"
)


def notation(name):
    return codec.wire(name).notation


def parse(name, given):
    return notation(name).parse(given)


def differences(name, one, other):
    return list(notation(name).mismatches(parse(name, one), parse(name, other)))


# --- parse and render ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*PRIMITIVES, "ARRAY<INT64>", "COMPACT_ARRAY<ARRAY<STRING>>"])
def test_a_value_survives_json(name):
    edges = codec.wire(name).edges
    for value in edges:
        shown = json.loads(json.dumps(notation(name).render(value)))
        assert parse(name, shown) == value
        assert notation(name).same(value, parse(name, shown))


def test_a_batch_and_a_log_survive_json():
    for name in ("RECORD_BATCH", "LOG"):
        value = codec.decode(name, PLAIN + (b"" if name == "RECORD_BATCH" else PLAIN[:20])).value
        shown = json.loads(json.dumps(notation(name).render(value)))
        again = parse(name, shown)
        assert differences(name, shown, shown) == []
        assert notation(name).render(again) == shown
        assert unshown_paths(notation(name), again, again) == []


def test_a_batch_is_shown_in_the_form_of_the_contract():
    shown = notation("RECORD_BATCH").render(codec.decode("RECORD_BATCH", PLAIN).value)
    first = shown["records"][0]
    assert (shown["baseOffset"], shown["crc"], shown["producerId"], shown["recordCount"]) == ("0", 0xFCFD2439, "-1", 3)
    assert (shown["compression"], shown["timestampType"], shown["isControlBatch"]) == ("none", "CreateTime", False)
    assert "length" not in first
    assert first == {
        **{"attributes": 0, "timestampDelta": "0", "offsetDelta": 0, "key": "6b", "value": "76", "headers": []},
        **{"offset": "0", "timestamp": "1000"},
    }


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        *[("INT64", "-5", -5), ("INT64", -5, -5), ("VARLONG", str(1 << 62), 1 << 62)],
        *[("FLOAT64", "7FF8000000000000", 0x7FF8 << 48), ("BYTES", "AbCd", b"\xab\xcd"), ("BYTES", "", b"")],
        *[("UUID", None, bytes(16)), ("UUID", "00010203-0405-0607-0809-0A0B0C0D0E0F", bytes(range(16)))],
        *[("NULLABLE_STRING", None, None), ("ARRAY<INT8>", None, None), ("ARRAY<INT8>", [1], (1,))],
        *[("CONTROL_RECORD", {"version": 0, "type": "COMMIT"}, {"version": 0, "type": 1})],
        *[("CONTROL_RECORD", {"type": 9}, {"type": 9}), ("CONTROL_RECORD", {"type": "UNKNOWN"}, {"type": "UNKNOWN"})],
        ("RECORD_BATCH", {"compression": "zstd", "timestampType": 8}, {"compression": 4, "timestampType": 8}),
    ],
)
def test_every_documented_form_of_a_value_is_parsed(name, given, value):
    assert parse(name, given) == value


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *[("INT8", value) for value in ("5", 1.0, True, None, [], {})],
        *[("INT64", value) for value in ("", "+5", "5x", " 5", "0x5", "1e3", "\u0665", "5\n", 1.5, False, None)],
        *[("FLOAT64", value) for value in (1.5, "7ff8", "0x7ff8000000000000", "g" * 16, None)],
        *[("UUID", value) for value in ("", "0" * 32, "{00010203-0405-0607-0809-0a0b0c0d0e0f}", 5)],
        *[("BOOLEAN", value) for value in (0, 1, "true", None)],
        *[("STRING", value) for value in (5, [], True)],
        *[("BYTES", value) for value in ("a", "0 0", "0x", "zz", 5, [0], " 00")],
        *[("ARRAY<INT8>", value) for value in ("", {}, 5, [None], ["5"])],
        *[("TAGGED_FIELDS", value) for value in (None, {}, [5], [{"tag": "5"}], [{"data": 5}])],
        *[("RECORD", value) for value in (None, [], 5, {"key": 5}, {"headers": {}}, {"headers": None})],
        *[("RECORD_BATCH", {"compression": value}) for value in ("lzma", "GZIP", True, None)],
        *[("RECORD_BATCH", {"records": value}) for value in (None, {}, [5], [{"offset": "x"}])],
        *[("LOG", value) for value in ([], {"batches": {}}, {"partial": "5"})],
    ],
)
def test_a_value_outside_the_notation_raises_an_error_with_the_expected_form(name, given):
    with pytest.raises(NotationError, match="expected"):
        parse(name, given)


def test_a_notation_error_contains_the_path():
    with pytest.raises(NotationError, match=r"records: \[1\] headers: \[0\] key: expected"):
        parse("RECORD_BATCH", {"records": [{}, {"headers": [{"key": 5}]}]})


def test_an_error_about_a_huge_value_is_short():
    with pytest.raises(NotationError) as caught:
        parse("INT8", "x" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_no_json_value_raises_another_error():
    rng = random.Random(4)

    def junk(depth=0):
        if depth > 3 or rng.random() < 0.5:
            return rng.choice((None, True, 0, -1, 1 << 70, 1.5, "", "00", "6b", "5", "\ud800", "none", "COMMIT"))
        if rng.random() < 0.5:
            return [junk(depth + 1) for _ in range(rng.randrange(3))]
        names = ("records", "headers", "key", "value", "batches", "tag", "data", "offset", "compression", "version")
        return {rng.choice(names): junk(depth + 1) for _ in range(rng.randrange(4))}

    for _ in range(2000):
        name = rng.choice([*codec.TYPES, "ARRAY<INT8>", "COMPACT_ARRAY<TAGGED_FIELDS>"])
        given = junk()
        unknown_fields(notation(name), given)
        try:
            value = parse(name, given)
        except NotationError:
            continue
        notation(name).render(value)
        assert notation(name).same(value, value)


# --- sameness -----------------------------------------------------------------------------------------


def test_any_nan_equals_any_nan_and_zeros_differ_by_sign():
    for nan in ("7ff8000000000000", "7ff0000000000001", "ffffffffffffffff"):
        assert differences("FLOAT64", "7ff8000000000000", nan) == []
    assert differences("FLOAT64", "7ff0000000000000", "7ff8000000000000") == ["value"]
    assert differences("FLOAT64", "0000000000000000", "8000000000000000") == ["value"]


def test_the_null_uuid_is_the_zero_uuid():
    assert differences("UUID", None, "00000000-0000-0000-0000-000000000000") == []


def test_a_run_of_replacement_characters_equals_one_and_other_characters_must_match():
    assert differences("STRING", "a\ufffd\ufffdb", "a\ufffdb") == []
    assert notation("STRING").same("a\udced\udca0\udc80b", "a\ufffdb")
    assert differences("STRING", "a\ufffdb", "ab") == ["value"]
    assert differences("STRING", "a\ufffdb", "a?b") == ["value"]
    assert differences("NULLABLE_STRING", None, "") == ["value"]
    assert differences("NULLABLE_STRING", None, "\ufffd") == ["value"]


def test_invalid_utf8_is_shown_as_the_replacement_character():
    assert notation("STRING").render("a\udcffb") == "a\ufffdb"


def test_unknown_control_types_equal_the_name_unknown():
    for number, same in ((9, True), (-1, True), (1, False), (6, False)):
        given = {"type": number}
        assert (differences("CONTROL_RECORD", given, {"type": "UNKNOWN"}) == []) is same
        assert (differences("CONTROL_RECORD", {"type": "UNKNOWN"}, given) == []) is same
    assert differences("CONTROL_RECORD", {"type": "ABORT"}, {"type": 0}) == []


@pytest.mark.parametrize(
    ("name", "one", "other", "paths"),
    [
        ("INT8", 1, 2, ["value"]),
        ("ARRAY<INT8>", [1, 2], [1, 3], ["[1]"]),
        ("ARRAY<INT8>", [1, 2], [1], ["[1]"]),
        ("ARRAY<INT8>", None, [], ["value"]),
        ("ARRAY<ARRAY<INT8>>", [[1], [2]], [[1], [3, 4]], ["[1][0]", "[1][1]"]),
        ("RECORD", {"key": "00", "value": "01"}, {"key": "02"}, ["key"]),
        ("RECORD", {"headers": [{"key": "a"}]}, {"headers": [{"key": "b"}]}, ["headers[0].key"]),
        ("RECORD", {"headers": []}, {"headers": [{}]}, ["headers[0]"]),
        (
            "LOG",
            {"batches": [{"records": [{"key": None}]}], "partial": 0},
            {"batches": [{"records": [{"key": ""}]}], "partial": 1},
            ["batches[0].records[0].key", "partial"],
        ),
    ],
)
def test_differences_are_named_by_their_path(name, one, other, paths):
    assert differences(name, one, other) == paths
    assert differences(name, one, one) == []


# --- partial observation ------------------------------------------------------------------------------


def test_missing_fields_are_listed_once_without_indexes():
    full = {"partial": 0, "batches": [{"magic": 2, "records": [{"key": "", "value": ""}, {"key": "", "value": ""}]}]}
    shown = {"batches": [{"records": [{"key": ""}, {}]}]}
    paths = unshown_paths(notation("LOG"), parse("LOG", full), parse("LOG", shown))
    assert sorted(paths) == ["batches.magic", "batches.records.key", "batches.records.value", "partial"]


def test_an_empty_object_is_not_an_observation_and_an_empty_list_is():
    observed = {
        ("RECORD", "{}"): False,
        ("RECORD", '{"headers": []}'): True,
        ("RECORD", '{"headers": [{}]}'): False,
        ("RECORD", '{"key": null}'): True,
        ("RECORD_BATCH", '{"records": [{}, {}]}'): False,
        ("LOG", '{"batches": [{"records": [{"key": "00"}]}]}'): True,
        ("ARRAY<INT8>", "null"): True,
    }
    for (name, given), expected in observed.items():
        assert notation(name).observed(parse(name, json.loads(given))) is expected


def test_unknown_field_names_are_listed_by_path_and_ignored():
    given = {"kee": 1, "headers": [{"key": "k", "values": 1}, {"values": 2}], "value": "00"}
    assert unknown_fields(notation("RECORD"), given) == ["kee", "headers.values"]
    assert parse("RECORD", given) == {"headers": ({"key": "k"}, {}), "value": b"\0"}
    assert unknown_fields(notation("INT8"), 5) == []
