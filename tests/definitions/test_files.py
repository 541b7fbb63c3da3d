"""Reading message definitions, from folders, files and archives, valid and hostile."""

import json
import struct
import zipfile
from itertools import pairwise

import pytest

from conformance.codec.message_layout import wire_of
from conformance.codec.message_spec import VersionRange, default_of
from conformance.definitions import loader as definitions
from conformance.definitions.loader import DefinitionError, parse_definition, parse_json, read_definitions, usable


def message(*fields, **more):
    whole = {"apiKey": 7, "type": "request", "name": "FooRequest", "validVersions": "0-5", "flexibleVersions": "3+"}
    return {**whole, "fields": list(fields), **more}


def parsed(*fields, **more):
    found, findings = parse_definition(message(*fields, **more))
    assert list(map(str, findings)) == []
    return found


def a(name, kind="int32", versions="0+", **more):
    return {"name": name, "type": kind, "versions": versions, **more}


# --- content of a definition --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written, low, high", [("0", 0, 0), ("0-2", 0, 2), ("3+", 3, 32767), ("32767", 32767, 32767), ("none", 1, 0)]
)
def test_a_range_of_versions_is_read(written, low, high):
    (member,) = parsed(a("A", versions=written)).members
    assert member.versions == VersionRange(low, high)


@pytest.mark.parametrize(
    "written", ["", "-1", "1-", "+", "0 - 2", "1+-2", "٣", "0x1", "1,2", "1\n", 0, None, [], {"a": 1}]
)
def test_an_invalid_version_range_is_rejected(written):
    found, findings = parse_definition(message(a("A", versions=written)))
    assert found is None
    assert [finding.requirement for finding in findings] == ["definitions.field-attributes"]


DEFAULTS = {
    # type, default as written: as a wire value
    "int": ("int32", None, 0),
    "int as a string": ("int32", "-5000", -5000),
    "int as a number": ("int32", 5000, 5000),
    "int with a plus": ("int32", "+1", 1),
    "hex": ("int32", "0x7fffffff", 2147483647),
    "octal": ("int32", "010", 8),
    "uint32": ("uint32", "4294967295", 4294967295),
    "int64": ("int64", "-0x8000000000000000", -(1 << 63)),
    "bool": ("bool", None, False),
    "bool as a string": ("bool", "True", True),
    "bool as it is": ("bool", True, True),
    "float": ("float64", None, 0),
    "float as a string": ("float64", "-0.5", int.from_bytes(struct.pack(">d", -0.5), "big")),
    "float as a number": ("float64", 1e300, int.from_bytes(struct.pack(">d", 1e300), "big")),
    "float without an end": ("float64", "-Infinity", 0xFFF0000000000000),
    "string": ("string", None, ""),
    "string of its own": ("string", "Nullé", "Nullé"),
    "string that is null": ("string", "null", None),
    "bytes": ("bytes", None, b""),
    "bytes that are null": ("bytes", "null", None),
    "uuid": ("uuid", None, bytes(16)),
    "uuid that is null": ("uuid", "null", bytes(16)),
    "records": ("records", None, None),
    "array": ("[]int32", None, ()),
    "array that is null": ("[]int32", "null", None),
}


@pytest.mark.parametrize("kind, written, value", DEFAULTS.values(), ids=DEFAULTS)
def test_a_default_is_read_as_a_wire_value(kind, written, value):
    more = {} if written is None else {"default": written}
    if written == "null":
        more["nullableVersions"] = "0+"
    found = parsed(a("A", kind, **more))
    default = default_of(found, found.members[0])
    assert (default, type(default)) == (value, type(value))


def test_a_structure_defaults_to_its_fields_and_a_null_one_to_null():
    inner = [a("X", default="5"), a("Y", "string")]
    found = parsed(a("A", "Foo", fields=inner), a("B", "Bar", fields=inner, nullableVersions="0+", default="null"))
    assert [default_of(found, member) for member in found.members] == [{"X": 5, "Y": ""}, None]


@pytest.mark.parametrize("version", [0, 5])
@pytest.mark.parametrize("default", ["", "null"])
@pytest.mark.parametrize("value", [{}, {"A": None}, {"A": "00000000-0000-0000-0000-000000000000"}])
def test_a_nullable_uuid_that_is_null_is_written_as_zeros(version, default, value):
    wire = wire_of(parsed(a("A", "uuid", nullableVersions="0+", default=default)), version)
    assert wire.encode(wire.notation.parse(value)) == bytes(16) + (b"\x00" if version == 5 else b"")


def test_a_common_structure_is_read_at_every_use():
    commons = [{"name": "Outer", "versions": "0+", "fields": [a("I", "Inner")]}, {"name": "Inner", "versions": "0+"}]
    found = parsed(a("A", "[]Outer"), a("B", "Outer"), commonStructs=commons)
    assert set(found.structures) == {"FooRequest", "Outer", "Inner"}


def test_a_broken_common_structure_is_reported_once_and_hides_no_other_finding():
    commons = [
        {"name": "Bad", "versions": "0+", "fields": [a("X", "int24")]},
        {"name": "Next", "fields": [a("Y", "int25")]},
    ]
    document = message(a("A", "[]Bad"), a("B", "Bad"), a("C", "int26"), commonStructs=commons)
    found, findings = parse_definition(document)
    assert found is None
    assert [finding.path for finding in findings] == ["Bad.X", "Next.Y", "C"]


# --- JSON ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, value",
    [
        ("// first\n{} // last", {}),
        ('{"a": 1, // "b": 2,\n"c": 3}', {"a": 1, "c": 3}),
        ('{"a": "//", "b//": "\\"//"}', {"a": "//", "b//": '"//'}),
        ('["\\\\", // "\n"x"]', ["\\", "x"]),
        ("[1]//", [1]),
        ("[1]\r\n// x\r\n", [1]),
    ],
)
def test_comments_run_to_the_end_of_the_line_outside_strings(text, value):
    assert parse_json(text) == value


@pytest.mark.parametrize(
    "text, place",
    [
        ('{\n "a": 1 // one\n "b": 2}', "line 3 column 2"),
        ('{"a": /* one */ 1}', "line 1 column 7"),
        ('{"a": "x // y\n}', "line 1 column 14"),
        ('{"a": 1', "line 1 column 8"),
        ("", "line 1 column 1"),
        ("/", "line 1 column 1"),
        ("\ufeff{}", "line 1 column 1"),
        ("{} {}", "line 1 column 4"),
    ],
)
def test_invalid_json_is_reported_with_line_and_column(text, place):
    with pytest.raises(ValueError, match=place):
        parse_json(text)


@pytest.mark.parametrize("text", ["[NaN]", "[-Infinity]", f"[{'9' * 5000}]", "[" * 100_000, '{"a":' * 100_000])
def test_non_standard_and_extreme_json_is_rejected(text):
    with pytest.raises(ValueError, match=r"not JSON|digits|deep"):
        parse_json(text)


@pytest.mark.parametrize("text", ['"' + '\\"' * 2_000_000, '"\n' * 2_000_000, "/" * 4_000_000, "//\n" * 1_000_000])
def test_long_invalid_text_is_rejected_in_linear_time(text):
    with pytest.raises(ValueError, match="line"):
        parse_json(text)


# --- hostile definitions ------------------------------------------------------------------------------


def nested(depth):
    field = a("A")
    for _ in range(depth):
        field = a("A", "[]S", fields=[field])
    return field


def deep(depth):
    inner = []
    for _ in range(depth):
        inner = [inner]
    return inner


def chain(length, times):
    """Return common structures; each contains the next one several times."""
    names = [f"S{number}" for number in range(length)]
    rows = [{"name": name, "fields": [a(f"F{i}", after) for i in range(times)]} for name, after in pairwise(names)]
    return [*rows, {"name": names[-1], "fields": [a("X")]}]


HOSTILE = {
    "deep structures": (message(nested(900)), "deep"),
    "a deep attribute": (message(a("A", about=deep(900))), "deep"),
    "a chain of structures": (message(commonStructs=chain(40, 1)), "deep"),
    "structures that double": (message(commonStructs=chain(30, 2)), "more than 5000 fields"),
    "many fields": (message(*(a(f"A{number}") for number in range(5001))), "more than 5000 fields"),
    "many unknown attributes": (message(a("A", **{f"x{number}": 0 for number in range(5000)})), "…"),
    "a huge api key": (message(apiKey=10**4000), "16-bit"),
    "a huge tag": (message(a("A", versions="3+", tag=10**4000, taggedVersions="3+")), "not a number from 0"),
    "a huge version": (message(validVersions="0-" + "9" * 4000), "not a range"),
    "a huge default": (message(a("A", default="9" * 100_000)), "expected a decimal"),
    "a huge hexadecimal default": (message(a("A", default="0x" + "f" * 100_000)), "expected a decimal"),
    "a name with an escape": (message(name="Foo\x1b[2J"), "letters"),
    "half a character": (message(a("\ud800")), "letters"),
    "a kind that is a list": (message(type=[]), "type"),
    "fields that are an object": (message(fields={"name": "A"}), "list"),
    "a field that is a number": (message(5), "list"),
    "a default that is an object": (message(a("A", default={})), "single"),
}


@pytest.mark.parametrize("document, hint", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_definition_gets_one_short_finding(document, hint):
    _, findings = parse_definition(document)
    assert len(findings) == 1
    assert hint in findings[0].problem
    assert len(str(findings[0])) < 500


def test_a_finding_is_one_printable_line(tmp_path):
    (tmp_path / "a\x1b[2J\nb.json").write_text("{")
    text = str(read_definitions(tmp_path).findings[0])
    assert text.isprintable()
    assert "a\\x1b[2J\\nb.json" in text


# --- files --------------------------------------------------------------------------------------------

TEXT = json.dumps(message(a("A")))


def archive(path, members, **more):
    with zipfile.ZipFile(path, "w", **more) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return path


@pytest.mark.parametrize("name", ["x.jar", "x.zip", "x.whl", "X.JAR", "without-a-suffix"])
def test_definitions_are_read_from_archives(name, tmp_path):
    path = archive(tmp_path / name, {"common/message/Foo.json": TEXT, "META-INF/x.txt": "no JSON", "p.json": "[]"})
    found = read_definitions(path)
    assert found.findings == ()
    assert found.files == {"FooRequest": f"{path}!common/message/Foo.json"}


def test_definitions_are_read_from_folders_inside_folders_and_from_a_file(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    file = tmp_path / "a" / "b" / "Foo.json"
    file.write_text(TEXT)
    (tmp_path / "other.txt").write_text("{")
    for path in (tmp_path, file):
        assert read_definitions(path).files == {"FooRequest": str(file)}


def test_member_names_that_leave_the_archive_are_harmless(tmp_path):
    names = ["../../escape.json", "/root.json", "C:\\x.json", "a\nb\x1b.json", "con.json/../x.json"]
    texts = {name: TEXT.replace("FooRequest", f"Foo{i}Request") for i, name in enumerate(names)}
    (tmp_path / "in").mkdir()
    path = archive(tmp_path / "in" / "x.zip", texts)
    assert len(read_definitions(path).messages) == len(names)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["in", "x.zip"]


def damaged_member(path):
    archive(path, {"a.json": TEXT * 50, "b.json": TEXT}, compression=zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    start = data.index(b"a.json") + 6
    data[start : start + 20] = bytes(20)
    path.write_bytes(data)


def encrypted_member(path):
    archive(path, {"a.json": TEXT, "b.json": TEXT})
    data = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1
    path.write_bytes(data)


def member_of_another_method(path):
    archive(path, {"a.json": TEXT, "b.json": TEXT})
    data = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        data[data.index(mark) + at] = 99
    path.write_bytes(data)


def exploding_member(path):
    archive(path, {"a.json": " " * (17 * 2**20), "b.json": TEXT}, compression=zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize("make", [damaged_member, encrypted_member, member_of_another_method, exploding_member])
def test_an_unreadable_member_is_a_finding_and_the_others_are_read(make, tmp_path):
    path = tmp_path / "x.zip"
    make(path)
    found = read_definitions(path)
    assert [finding.file for finding in found.findings] == [f"{path}!a.json"]
    assert found.files == {"FooRequest": f"{path}!b.json"}
    with pytest.raises(DefinitionError, match=r"a\.json"):
        usable(path)


@pytest.mark.parametrize(
    "data, hint",
    [
        (b'{\n"a": "\xff"}', "line 2 is not UTF-8"),
        (TEXT.encode("utf-16"), "line 1 is not UTF-8"),
        (b"", "line 1 column 1"),
        (b" " * (16 * 2**20 + 1), "more than 16777216 bytes"),
        (b"[]", "expected a JSON object"),
        (b"{}", "name None"),
    ],
)
def test_a_file_that_is_no_definition_is_one_finding(data, hint, tmp_path):
    path = tmp_path / "Foo.json"
    path.write_bytes(data)
    (finding,) = read_definitions(path).findings
    assert finding.file == str(path)
    assert hint in finding.problem


@pytest.mark.parametrize("name, data", [("x.jar", b"PK\x03\x04"), ("y.jar", b""), ("z.zip", b"x" * 1000)])
def test_a_broken_archive_is_one_error(name, data, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DefinitionError, match=name) as caught:
        read_definitions(tmp_path / name)
    assert len(caught.value.findings) == 1


def test_an_endless_archive_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr(definitions, "_MAX_TOTAL_BYTES", 2**20)
    members = {f"{number}.json": "[]" + " " * (2**17 - 2) for number in range(9)}
    path = archive(tmp_path / "x.zip", members, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(DefinitionError, match="more than 1048576 bytes of JSON"):
        read_definitions(path)


def test_folders_and_links_named_like_definitions_are_ignored(tmp_path):
    (tmp_path / "Foo.json").write_text(TEXT)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "nowhere.json").symlink_to(tmp_path / "not-there")
    assert read_definitions(tmp_path).findings == ()
