"""Messages from their definitions: each version in both directions, tagged sections, defaults, nulls."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import codec
from conformance.codec import Unencodable
from conformance.codec.cursor import Cursor, Findings, Malformed
from conformance.codec.message_layout import wire_of
from conformance.codec.message_spec import UNKNOWN, header_version, type_name
from conformance.definitions.loader import parse_definition, read_definitions
from conformance.strategies.seeded._messages import draw_message
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded.generator import value


def defined(*fields, name="Test", valid="0-3", flexible="2+", **more):
    message, findings = parse_definition(
        {
            "type": "data",
            "name": name,
            "validVersions": valid,
            "flexibleVersions": flexible,
            "fields": [*fields],
            **more,
        }
    )
    assert findings == []
    return message


def field(name, kind, versions="0+", **more):
    return {"name": name, "type": kind, "versions": versions, **more}


def tagged(name, kind, tag, **more):
    return field(name, kind, "2+", taggedVersions="2+", tag=tag, **more)


def read(message, version, data):
    """Return the value, or the violated requirement; and the requirements of remarks."""
    findings = Findings(spans=[])
    try:
        found = wire_of(message, version).decode(Cursor(data, findings))
    except Malformed as stop:
        return stop.violation.requirement, stop.violation.open
    return found, [mark.requirement for mark in findings.remarks]


def written(message, version, found):
    return wire_of(message, version).encode(found)


@pytest.fixture(scope="module")
def every(catalog):
    """Return all messages that the vectors define, except SuiteHollow version 0.

    Its elements have no fields and no bytes, but the codec reads at most one element per byte.
    """
    found = {case.type for case in catalog.cases.values() if case.type.startswith("MESSAGE<")}
    return [catalog.types.wire(name) for name in sorted(found - {"MESSAGE<SuiteHollow,0>"})]


# --- values -------------------------------------------------------------------------------------------


@given(seed=st.text(max_size=8))
def test_a_written_message_is_read_again(every, seed):
    choices = RandomChoices(seed)
    type_ = choices.pick(tuple(every))
    found = value(type_, choices)
    data = codec.encode(type_, found)
    again = codec.decode(type_, data, trail=True)
    assert (again.ok, again.consumed) == (True, len(data))
    # Elements are drawn independently: two of them may have the same key.
    assert {mark.requirement for mark in again.remarks} <= {"definitions.map-key-makes-set"}
    assert type_.notation.same(found, again.value)
    assert all(0 <= span.start <= span.stop <= len(data) for span in again.spans)


@given(seed=st.text(max_size=8))
def test_a_message_cut_anywhere_is_rejected(every, seed):
    choices = RandomChoices(seed)
    type_ = choices.pick(tuple(every))
    data = codec.encode(type_, value(type_, choices))
    for stop in range(len(data)):
        assert not codec.decode(type_, data[:stop]).ok


@given(seed=st.text(max_size=8), flips=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 7)), max_size=3))
def test_damaged_bytes_result_in_a_value_or_a_violation(every, seed, flips):
    choices = RandomChoices(seed)
    type_ = choices.pick(tuple(every))
    data = bytearray(codec.encode(type_, value(type_, choices)))
    for at, bit in flips:
        if data:
            data[at % len(data)] ^= 1 << bit
    again = codec.decode(type_, bytes(data), trail=True)
    assert again.ok or again.violations


def test_a_message_without_a_definition_is_an_unknown_type():
    with pytest.raises(codec.UnknownType, match="message Nobody has no definition"):
        codec.wire("MESSAGE<Nobody,0>")


def test_a_version_that_a_message_does_not_have_is_unknown():
    types = codec.BUILT_IN.adding([defined(field("A", "int8"), name="Known")])
    assert types.wire("MESSAGE<Known,3>").name == type_name("Known", 3)
    with pytest.raises(codec.UnknownType, match="versions 0-3, not 4"):
        types.wire("MESSAGE<Known,4>")


def test_one_name_has_one_definition():
    types = codec.BUILT_IN.adding([defined(field("A", "int8"), name="Once")])
    types = types.adding([defined(field("A", "int8"), name="Once")])
    with pytest.raises(ValueError, match="message Once has two different definitions"):
        types.adding([defined(field("A", "int16"), name="Once")])


def test_adding_a_message_leaves_other_type_tables_unchanged():
    codec.BUILT_IN.adding([defined(field("A", "int8"), name="Here")]).wire("MESSAGE<Here,0>")
    with pytest.raises(codec.UnknownType, match="message Here has no definition"):
        codec.wire("MESSAGE<Here,0>")


@pytest.mark.parametrize("name", ["INT8", "RECORDS", "ARRAY<ARRAY<INT32>>", "MESSAGE<Sent,2>"])
def test_a_type_is_pickled_as_its_definition(name):
    types = codec.BUILT_IN.adding([defined(field("A", "int8"), name="Sent")])
    again = pickle.loads(pickle.dumps(types.wire(name)))
    assert again.name == name
    plain = types.wire(name).decode(Cursor(bytes(100), Findings()))
    assert again.decode(Cursor(bytes(100), Findings())) == plain


# --- versions and defaults ----------------------------------------------------------------------------


def test_a_version_writes_its_fields_in_the_order_of_the_definition():
    message = defined(field("B", "int8"), field("A", "int16", "1+"), field("C", "int8", "0-1"))
    full = {"A": 1, "B": 2, "C": 3}
    assert written(message, 0, {"B": 2, "C": 3}) == b"\2\3"
    assert written(message, 1, full) == b"\2\0\1\3"
    assert written(message, 2, {"A": 1, "B": 2}) == b"\2\0\1\0"


@pytest.mark.parametrize(
    ("kind", "default", "bytes_"),
    [
        ("int8", None, b"\0"),
        ("int16", "-2", b"\xff\xfe"),
        ("int32", "0x10", b"\0\0\0\x10"),
        ("uint16", "017", b"\0\x0f"),
        ("bool", "true", b"\1"),
        ("float64", "1.5", b"\x3f\xf8" + bytes(6)),
        ("string", "hi", b"\0\2hi"),
        ("bytes", None, bytes(4)),
        ("uuid", None, bytes(16)),
        ("[]int8", None, bytes(4)),
    ],
)
def test_a_missing_field_is_written_as_its_default(kind, default, bytes_):
    more = {} if default is None else {"default": default}
    assert written(defined(field("A", kind, **more)), 0, {}) == bytes_


def test_a_field_that_the_version_lacks_is_dropped_at_its_default_or_when_ignorable_and_otherwise_rejected():
    strict, free = field("A", "int8", "1+", default="7"), field("B", "string", "1+", ignorable=True)
    message = defined(strict, free)
    assert written(message, 0, {"A": 7, "B": "lost"}) == b""
    with pytest.raises(Unencodable) as caught:
        written(message, 0, {"A": 0})
    assert caught.value.requirement == "definitions.non-ignorable-non-default-error"


def test_a_structure_is_at_its_default_when_all_its_parts_are():
    inner = field("S", "Inner", "1+", fields=[field("X", "int8", "1+", default="3"), field("Y", "[]int8", "1+")])
    message = defined(inner)
    assert written(message, 0, {"S": {"X": 3}}) == written(message, 0, {"S": {}}) == b""
    for other in ({"X": 0}, {"Y": (1,)}, {UNKNOWN: ({"tag": 0, "data": b""},)}):
        with pytest.raises(Unencodable):
            written(message, 0, {"S": other})


@pytest.mark.parametrize("kind", ["string", "bytes", "records", "[]int8"])
@pytest.mark.parametrize("version", [1, 3])
def test_null_is_accepted_only_in_its_nullable_versions(kind, version):
    nullable = defined(field("A", kind, nullableVersions="0+"))
    data = written(nullable, version, {"A": None})
    assert read(nullable, version, data) == ({"A": None}, [])
    plain = defined(field("A", kind))
    with pytest.raises(Unencodable) as caught:
        written(plain, version, {"A": None})
    assert caught.value.requirement == "definitions.null-in-non-nullable"
    assert read(plain, version, data)[1] is False


def test_a_rigid_string_keeps_its_length_in_flexible_versions():
    message = defined(field("A", "string", flexibleVersions="none"), field("B", "string"))
    assert written(message, 2, {"A": "a", "B": "b"}) == b"\0\1a\2b\0"


def test_a_nullable_structure_follows_a_null_marker():
    message = defined(field("S", "Inner", nullableVersions="0+", default="null", fields=[field("X", "int8")]))
    assert (written(message, 0, {}), written(message, 0, {"S": {"X": 5}})) == (b"\xff", b"\1\5")
    assert read(message, 0, b"\xfe") == ({"S": None}, ["definitions.type-unknown"])
    assert read(message, 0, b"\0\5") == ({"S": {"X": 5}}, ["definitions.type-unknown"])


def test_an_array_of_structures_without_fields_is_bounded_by_the_bytes():
    message = defined(field("A", "[]Inner", fields=[field("X", "int8", "3+")]), flexible="none")
    assert read(message, 0, b"\x7f\xff\xff\xff")[0] == "array.too-few-elements-rejected"
    assert written(message, 0, {"A": ()}) == bytes(4)


# --- tagged fields ------------------------------------------------------------------------------------

SECTION = (tagged("T", "int8", 1, default="9"), tagged("U", "string", 3))


def test_tagged_fields_are_written_by_tag_unless_at_their_default():
    message = defined(*SECTION)
    assert written(message, 2, {"T": 9, "U": ""}) == b"\0"
    assert written(message, 2, {"U": "x", "T": 1}) == b"\2\1\1\1\3\2\2x"


def test_tagged_fields_that_are_not_there_are_read_as_their_default():
    assert read(defined(*SECTION), 2, b"\0") == ({"T": 9, "U": ""}, [])


def test_unknown_tags_are_kept_and_written_again_in_order():
    message, data = defined(*SECTION), b"\3\0\1\x61\1\1\5\2\0"
    found, remarks = read(message, 2, data)
    assert (found, remarks) == (
        {"T": 5, "U": "", UNKNOWN: ({"tag": 0, "data": b"a"}, {"tag": 2, "data": b""})},
        [],
    )
    assert written(message, 2, found) == data


@pytest.mark.parametrize("unknown", [((5, b""), (4, b"")), ((5, b""), (5, b"")), ((1, b""),)])
def test_unknown_tags_out_of_order_twice_or_known_are_not_written(unknown):
    tags = tuple({"tag": tag, "data": data} for tag, data in unknown)
    with pytest.raises(Unencodable):
        written(defined(*SECTION), 2, {UNKNOWN: tags})


@pytest.mark.parametrize(
    ("data", "requirement", "is_open"),
    [
        (b"\2\1\1\5\1\1\5", "tagged.duplicate-rejected", False),
        (b"\2\3\1\1\1\1\5", "tagged.strictly-ascending", False),
        (b"\1\1\2\5\0", "tagged.size-bounds-data", True),
        (b"\1\3\1\2x", "tagged.size-bounds-data", True),
        (b"\1\7\5x", "tagged.size-bounds-data", False),
        (b"\1\1\5\5", "tagged.size-bounds-data", True),
        (b"\1\7\x80\x80\x80\x80\x08", "robustness.tagged-field-size", False),
        (b"\1\3\1\5", "compact-string.truncated-rejected", False),
        (b"", "varint.truncated-rejected", False),
    ],
)
def test_a_tagged_section_that_breaks_a_rule_is_rejected(data, requirement, is_open):
    assert read(defined(*SECTION), 2, data) == (requirement, is_open)


def test_the_tag_of_a_field_that_the_version_lacks_is_unspecified():
    message = defined(field("T", "int8", "3+", taggedVersions="3+", tag=0))
    assert read(message, 2, b"\1\0\1\5") == ({UNKNOWN: ({"tag": 0, "data": b"\5"},)}, ["tagged.unknown-skipped"])
    assert read(message, 3, b"\1\0\1\5") == ({"T": 5}, [])


def test_only_flexible_versions_have_a_tagged_section():
    message = defined(field("A", "int8"))
    assert [written(message, version, {"A": 1}) for version in (1, 2)] == [b"\1", b"\1\0"]
    with pytest.raises(Unencodable) as caught:
        written(message, 1, {"A": 1, UNKNOWN: ({"tag": 0, "data": b""},)})
    assert caught.value.requirement == "tagged.only-in-flexible"


# --- headers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "version", "header"),
    [
        ("FooRequest", "request", 1, 1),
        ("FooRequest", "request", 2, 2),
        ("FooResponse", "response", 1, 0),
        ("FooResponse", "response", 2, 1),
        ("ApiVersionsResponse", "response", 2, 0),
        ("ControlledShutdownRequest", "request", 0, 0),
        ("ControlledShutdownRequest", "request", 1, 1),
    ],
)
def test_the_header_of_a_message_follows_from_its_version(name, kind, version, header):
    assert header_version(defined(name=name, type=kind, apiKey=5), version) == header


def test_a_null_structure_in_an_array_has_no_encoding():
    message = defined(name="Foo", fields=[field("Some", "[]Some", fields=[field("Number", "int8")])])
    with pytest.raises(Unencodable) as error:
        written(message, 0, {"Some": (None,)})
    assert error.value.requirement == "definitions.null-in-non-nullable"


# --- real definitions ---------------------------------------------------------------------------------


@pytest.mark.integration
def test_every_message_of_a_real_library_survives_a_round_trip_in_every_version():
    kafka = pytest.importorskip("kafka", reason="kafka-python is not installed (extra: clients)")
    found = read_definitions(Path(kafka.__file__).parent / "protocol" / "schemas" / "resources")
    count = 0
    for message in found.messages.values():
        for version in message.valid:
            wire = wire_of(message, version)
            choices = RandomChoices(f"{message.name}{version}")
            for _ in range(5):
                found_value = draw_message(message, version, choices, value)
                again = wire.decode(Cursor(wire.encode(found_value), Findings()))
                assert wire.notation.same(found_value, again)
                count += 1
    assert count > 2000
