"""`conformance lint`: each rule has a definition that breaks only it, and findings in real releases are known."""

import importlib.util
import json
import re
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml
from command_line import conformance

from conformance.catalog.vector_files import VECTORS
from conformance.commands.lint import levels
from conformance.definitions import lint as linting
from conformance.definitions.lint import lint
from conformance.definitions.loader import DefinitionError, parse_json, usable
from conformance.targets.resolve import adapters

ROOT = Path(__file__).parent.parent.parent


def a(name, kind="int32", versions="0+", **more):
    """Return a field of a definition."""
    return {"name": name, "type": kind, "versions": versions, **more}


def tagged(name, tag=0, kind="int32", versions="3+", **more):
    return a(name, kind, versions, tag=tag, taggedVersions=more.pop("taggedVersions", "3+"), **more)


def message(*fields, **more):
    """Return a request with versions 0 to 5, flexible from 3; an attribute given as None is omitted."""
    whole = {
        **{"apiKey": 7, "type": "request", "name": "FooRequest"},
        **{"validVersions": "0-5", "flexibleVersions": "3+", "fields": list(fields), **more},
    }
    return {key: value for key, value in whole.items() if value is not None}


def response(*fields, **more):
    return message(*fields, **{"type": "response", "name": "FooResponse", **more})


def written(folder, documents):
    folder.mkdir()
    for number, document in enumerate(documents):
        text = document if isinstance(document, str) else json.dumps(document)
        (folder / f"{number}.json").write_text(text)
    return folder


def described(found):
    """Return requirement, path and level of each finding."""
    return [(finding.requirement.removeprefix("definitions."), finding.path, level) for finding, level in levels(found)]


FOO = "[]Foo"
INNER = {"fields": [a("X")]}
ATTRIBUTES = "field-attributes"
TAGS = "tagged-needs-tag-and-versions"
FITS = "custom-default-fits-type"
ONE_SET = {
    # each break: definitions, requirement, path, level
    "a file that is not JSON": (['{"name": }'], "comments", "", "must"),
    "a comment of another kind": (['{"name": "X" /* here */}'], "comments", "", "must"),
    "an api key of 17 bits": ([message(apiKey=32768)], "api-key-16-bit", "", "must"),
    "a request without an api key": ([message(apiKey=None)], "api-key-16-bit", "", "must"),
    "an api key in quotes": ([message(apiKey="7")], "api-key-16-bit", "", "open"),
    "an api key of two requests": ([message(), message(name="BarRequest")], "api-key-16-bit", "", "must"),
    "a response with another api key": ([message(), response(apiKey=8)], "response-api-key-matches", "", "must"),
    "a request version without response": (
        [message(), response(validVersions="0-4")],
        *("response-version-matches", "", "must"),
    ),
    "a response version without request": (
        [message(), response(validVersions="0-6")],
        *("response-version-matches", "", "open"),
    ),
    "a version of 17 bits": ([message(validVersions="0-32768")], "version-16-bit", "", "must"),
    "no valid versions": ([message(validVersions=None)], "valid-versions", "", "must"),
    "valid versions that are a number": ([message(validVersions=3)], "valid-versions", "", "must"),
    "valid versions backwards": ([message(validVersions="3-1")], "valid-versions", "", "must"),
    "valid versions without an end": ([message(validVersions="0+")], "valid-versions-closed", "", "must"),
    "no flexible versions": ([message(flexibleVersions=None)], "flexible.declared-per-api", "", "must"),
    "flexible versions with an end": ([message(flexibleVersions="3-5")], "flexible.declared-per-api", "", "open"),
    "flexible versions on a number": (
        [message(a("A", flexibleVersions="none"))],
        *("flexible.declared-per-api", "A", "must"),
    ),
    "no fields": ([message(fields=None)], ATTRIBUTES, "", "must"),
    "an unknown kind of message": ([message(type="answer")], ATTRIBUTES, "", "must"),
    "an unknown attribute of a message": ([message(versions="0+")], ATTRIBUTES, "", "must"),
    "an unknown attribute of a common structure": (
        [message(commonStructs=[{"name": "Foo", "field": []}])],
        *(ATTRIBUTES, "Foo", "must"),
    ),
    "an unknown attribute of a field": ([message(a("A", "string", nullable="0+"))], ATTRIBUTES, "A", "must"),
    "a field without a name": ([message({"type": "int8", "versions": "0+"})], ATTRIBUTES, "", "must"),
    "a field with a name of signs": ([message(a("A-B"))], ATTRIBUTES, "", "must"),
    "a field without a type": ([message({"name": "A", "versions": "0+"})], ATTRIBUTES, "A", "must"),
    "a field without versions": ([message({"name": "A", "type": "int8"})], ATTRIBUTES, "A", "must"),
    "a field with tagged versions only": (
        [message({"name": "A", "type": "int8", "tag": 0, "taggedVersions": "3+"})],
        *(ATTRIBUTES, "A", "open"),
    ),
    "a field with versions that are none": ([message(a("A", versions="1, 2"))], ATTRIBUTES, "A", "must"),
    "two fields of one name": ([message(a("A"), a("A", versions="3+"))], ATTRIBUTES, "A", "must"),
    "a flag that is none": ([message(a("A", ignorable="yes"))], ATTRIBUTES, "A", "must"),
    "a key twice": (['{"name": "A", ' + json.dumps(message())[1:]], ATTRIBUTES, "", "must"),
    "a key twice with one value": (['{"name": "FooRequest", ' + json.dumps(message())[1:]], ATTRIBUTES, "", "open"),
    "two messages of one name": ([message(), message()], ATTRIBUTES, "", "must"),
    "an unknown type": ([message(a("A", "int24"))], "type-unknown", "A", "must"),
    "an unknown type in a structure": (
        [message(a("A", FOO, fields=[a("B", "Bar", fields=[a("C", "varint")])]))],
        *("type-unknown", "A.B.C", "must"),
    ),
    "an unknown structure": ([message(a("A", FOO))], "type-unknown", "A", "must"),
    "an array of arrays": ([message(a("A", "[][]int32"))], "type-unknown", "A", "must"),
    "a structure inside itself": (
        [message(a("A", FOO), commonStructs=[{"name": "Foo", "versions": "0+", "fields": [a("B", FOO)]}])],
        *("type-unknown", "Foo.B", "must"),
    ),
    "a number with fields": ([message(a("A", **INNER))], "type-array", "A", "must"),
    "a structure defined twice": (
        [message(a("A", FOO, **INNER), a("B", FOO, **INNER))],
        *("type-array", "B", "must"),
    ),
    "a structure that is called as its message": (
        [message(a("A", "[]FooRequest", **INNER))],
        *("type-array", "A", "must"),
    ),
    "a nullable bool": ([message(a("A", "bool", nullableVersions="0+"))], "bool-never-null", "A", "must"),
    "a nullable float": ([message(a("A", "float64", nullableVersions="0+"))], "float-never-null", "A", "must"),
    **{
        f"a nullable {kind}": ([message(a("A", kind, nullableVersions="0+"))], "int-never-null", "A", "must")
        for kind in ("int8", "int16", "uint16", "int32", "uint32", "int64")
    },
    "nullable versions that are none": (
        [message(a("A", "string", nullableVersions=True))],
        *("nullable-versions-range", "A", "must"),
    ),
    "nullable before it exists": (
        [message(a("A", "string", "2+", nullableVersions="1+"))],
        *("nullable-versions-range", "A", "open"),
    ),
    "a tag without tagged versions": ([message(a("A", tag=0))], TAGS, "A", "must"),
    "tagged versions without a tag": ([message(a("A", taggedVersions="3+"))], TAGS, "A", "must"),
    "a tag below 0": ([message(tagged("A", -1))], TAGS, "A", "must"),
    "a tag of 32 bits": ([message(tagged("A", 1 << 31))], TAGS, "A", "must"),
    "a tag in quotes": ([message(tagged("A", "0"))], TAGS, "A", "open"),
    "tagged before it exists": ([message(tagged("A", versions="4+"))], TAGS, "A", "open"),
    "tagged versions with an end": (
        [message(tagged("A", taggedVersions="3-5"))],
        *("tagged-versions-open-ended", "A", "should"),
    ),
    "a tag in a version that is not flexible": (
        [message(tagged("A", versions="0+", taggedVersions="2+"))],
        *("tagged-only-flexible", "A", "must"),
    ),
    "a tag in a message that is never flexible": (
        [message(tagged("A"), flexibleVersions="none")],
        *("tagged-only-flexible", "A", "must"),
    ),
    "a tag of two fields": (
        [message(tagged("A", versions="3-4"), tagged("B", versions="5+", taggedVersions="5+"))],
        *("tag-reuse-forbidden", "B", "must"),
    ),
    "a null default of a field that is not nullable": (
        [message(a("A", "string", default="null"))],
        *("default-null-needs-all-nullable", "A", "must"),
    ),
    "a null default of a field that is nullable later": (
        [message(a("A", "string", default="null", nullableVersions="2+"))],
        *("default-null-needs-all-nullable", "A", "must"),
    ),
    "a null default of a field that was nullable only later, in a version that is gone": (
        [message(a("A", "string", default="null", nullableVersions="2+"), validVersions="2-5")],
        *("default-null-needs-all-nullable", "A", "open"),
    ),
    "a null default of a number": ([message(a("A", default="null"))], FITS, "A", "must"),
    "a default beyond 16 bits": ([message(a("A", "int16", default="32768"))], FITS, "A", "must"),
    "a default below 0 without a sign": ([message(a("A", "uint32", default="-1"))], FITS, "A", "must"),
    "a default that is no bool": ([message(a("A", "bool", default="1"))], FITS, "A", "must"),
    "a default that is no octal number": ([message(a("A", default="08"))], FITS, "A", "must"),
    "a default with a point": ([message(a("A", default=5.0))], FITS, "A", "must"),
    "a default that is no float": ([message(a("A", "float64", default="a lot"))], FITS, "A", "must"),
    "a default beyond float64": ([message(a("A", "float64", default="1e309"))], FITS, "A", "must"),
    "a default that is a list": ([message(a("A", "string", default=["x"]))], FITS, "A", "must"),
    "a default that is half a character": ([message(a("A", "string", default="\ud800"))], FITS, "A", "must"),
    "a default of bytes": ([message(a("A", "bytes", default="00"))], "no-custom-default-bytes", "A", "must"),
    "a default of an array": ([message(a("A", "[]int32", default="1"))], "no-custom-default-array", "A", "must"),
    "a default of a uuid": ([message(a("A", "uuid", default="AAAA"))], "custom-default-types", "A", "open"),
    "a default of records": ([message(a("A", "records", default="00"))], "custom-default-types", "A", "open"),
    **{
        f"ignorable {name}": (
            [message(a(name, "bool", "1+", ignorable=True))],
            *("meaning-changing-not-ignorable", name, "should"),
        )
        for name in ("ValidateOnly", "VerifyOnly", "DryRun")
    },
    "a field of a version to come": ([message(a("A", versions="6+"))], "field-added-open-range", "A", "open"),
}


@pytest.mark.parametrize("documents, requirement, path, level", ONE_SET.values(), ids=ONE_SET)
def test_a_definition_that_breaks_one_rule_gets_only_that_finding(documents, requirement, path, level, tmp_path):
    found = lint(written(tmp_path / "new", documents))
    assert described(found) == [(requirement, path, level)], [str(finding) for finding in found]


EACH_TYPE = {kind: a("A", kind) for kind in ("int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid")}
LEGAL = {
    # valid definitions that look as if they broke the requirement
    "comments": ['{ // "{\n' + json.dumps(message(a("A", "string", default="// is no comment")))[1:]],
    "valid-versions": [message(validVersions="none"), message(name="BarRequest", apiKey=8, validVersions="3")],
    "api-key-16-bit": [message(apiKey=-1), response(apiKey=-1)],
    "response-version-matches": [response(validVersions="0-9")],
    "field-added-open-range": [message(a("A"), a("B", versions="5+"), a("C", versions="1"))],
    "field-removed-closed-range": [message(a("A", versions="0-2"), a("B", versions="0"))],
    **{f"type-{kind}": [message(field)] for kind, field in EACH_TYPE.items()},
    **{f"type-{kind}": [message(a("A", kind))] for kind in ("bool", "string", "bytes", "records")},
    "type-array": [
        message(a("A", "[]int32"), a("B", FOO, **INNER)),
        response(a("A", FOO), a("B", FOO), commonStructs=[{"name": "Foo", "versions": "0+", **INNER}]),
    ],
    "type-unknown": [message(a("A", "Foo", **INNER))],
    **{
        f"{kind}-may-be-nullable": [message(a("A", kind, nullableVersions="0+"), a("B", kind, nullableVersions="4+"))]
        for kind in ("string", "bytes", "uuid", "records")
    },
    "array-may-be-nullable": [
        message(a("A", "[]int8", nullableVersions="2-3"), a("B", FOO, nullableVersions="0+", **INNER))
    ],
    "nullable-versions-range": [message(a("A", "string", "2-4", nullableVersions="3+"))],
    "tagged-anywhere": [message(a("A", FOO, fields=[tagged("B")]), a("C", "Bar", fields=[tagged("D")]), tagged("E"))],
    "tagged-support-removable": [message(tagged("A", versions="3-4"))],
    "tagged-only-flexible": [message(tagged("A", versions="0+", taggedVersions="3+"), validVersions="3-5")],
    "tag-reuse-forbidden": [message(tagged("A", 5), a("B", FOO, fields=[tagged("C", 5)]))],
    "default-int": [message(a("A"), a("B", default=0), a("C", default=""))],
    "default-float": [message(a("A", "float64"), a("B", "float64", default="-0.5e3"))],
    "default-bool": [message(a("A", "bool"), a("B", "bool", default=False))],
    "default-string": [message(a("A", "string"), a("B", "string", nullableVersions="0+", default=""))],
    "default-bytes": [message(a("A", "bytes", default=""))],
    "default-uuid": [message(a("A", "uuid", default=""))],
    "default-records": [message(a("A", "records", nullableVersions="0+", default="null"))],
    "default-array": [message(a("A", "[]int32"), a("B", FOO, **INNER))],
    "default-null-literal": [message(a("A", "string", nullableVersions="0+", default="null"))],
    "default-null-needs-all-nullable": [
        message(a("A", "[]int8", "2-4", nullableVersions="1+", default="null"), validVersions="2-4")
    ],
    "custom-default-types": [
        message(a("A", default=5000), a("B", "bool", default="true"), a("C", "string", default="x"))
    ],
    "custom-default-fits-type": [message(a("A", "uint16", default="65535"), a("B", "int8", default=-128))],
    "custom-default-hex": [message(a("A", "uint32", default="0xffffffff"), a("B", "int8", default="0X7F"))],
    "custom-default-octal": [message(a("A", default="010"), a("B", default="0"), a("C", default="-017"))],
    "ignorable-default-false": [message(a("ValidateOnly", "bool", "1+"))],
    "meaning-changing-not-ignorable": [
        message(a("TimeoutMs", "int32", "1+", ignorable=True), a("IsInternal", "bool", "1+", ignorable=True))
    ],
    "flexible.declared-per-api": [
        message(a("A", "string", flexibleVersions="none")),
        response(flexibleVersions="none"),
    ],
}


@pytest.mark.parametrize("documents", LEGAL.values(), ids=LEGAL)
def test_a_definition_that_a_rule_allows_is_no_finding(documents, tmp_path):
    assert list(map(str, lint(written(tmp_path / "new", documents)))) == []


# --- two sets -----------------------------------------------------------------------------------------

FROZEN = "released-version-frozen"
TWO_SETS = {
    # each change: fields before, fields now, attributes now, requirement, path, level
    "a field less": ([a("A"), a("B")], [a("B")], {}, "field-removed-closed-range", "A", "must"),
    "a tagged field less": ([tagged("A")], [], {}, "field-removed-closed-range", "A", "must"),
    "a field more in old versions": ([a("A")], [a("A"), a("B")], {}, FROZEN, "B", "must"),
    "a field more in one old version": ([], [a("B", versions="5+")], {}, FROZEN, "B", "must"),
    "a field in a structure": (
        [a("A", FOO, fields=[a("B")])],
        [a("A", FOO, fields=[a("B"), a("C", versions="0-1")])],
        *({}, FROZEN, "A.C", "must"),
    ),
    "a field that ends too early": ([a("A")], [a("A", versions="0-4")], {}, FROZEN, "A", "must"),
    "a field that starts earlier": ([a("A", versions="3+")], [a("A", versions="2+")], {}, FROZEN, "A", "must"),
    "nullable earlier": (
        [a("A", "string", nullableVersions="3+")],
        [a("A", "string", nullableVersions="2+")],
        *({}, FROZEN, "A", "must"),
    ),
    "nullable no longer": ([a("A", "string", nullableVersions="0+")], [a("A", "string")], {}, FROZEN, "A", "must"),
    "tagged now": ([a("A", versions="3+")], [tagged("A")], {}, FROZEN, "A", "must"),
    "tagged no longer": ([tagged("A")], [a("A", versions="3+")], {}, FROZEN, "A", "must"),
    "another tag": ([tagged("A", 0)], [tagged("A", 1)], {}, FROZEN, "A", "must"),
    "compact no longer": ([a("A", "string")], [a("A", "string", flexibleVersions="none")], {}, FROZEN, "A", "must"),
    "flexible earlier": ([], [], {"flexibleVersions": "2+"}, FROZEN, "", "must"),
    "flexible later": ([], [], {"flexibleVersions": "4+"}, FROZEN, "", "must"),
    "another api key": ([], [], {"apiKey": 8}, FROZEN, "", "must"),
    "the last version gone": ([], [], {"validVersions": "0-4"}, FROZEN, "", "must"),
    "the first version gone": ([], [], {"validVersions": "1-5"}, "no-version-dropped", "", "must"),
    "every version gone": ([], [], {"validVersions": "none"}, "no-version-dropped", "", "must"),
    "another order of fields that never meet": (
        [a("A", versions="0-2"), a("B", versions="3+")],
        [a("B", versions="3+"), a("A", versions="0-2")],
        *({}, "fields-not-reordered", "", "should"),
    ),
    "another order of tagged fields": (
        [tagged("A", 0), tagged("B", 1)],
        [tagged("B", 1), tagged("A", 0)],
        *({}, "fields-not-reordered", "", "should"),
    ),
    "another default": ([a("A", default=1)], [a("A", default=2)], {}, "default-unchanged", "A", "must"),
    "no default any more": ([a("A", "bool", default="true")], [a("A", "bool")], {}, "default-unchanged", "A", "must"),
    "a null default": (
        [a("A", "[]int8", nullableVersions="0+")],
        [a("A", "[]int8", nullableVersions="0+", default="null")],
        *({}, "default-unchanged", "A", "must"),
    ),
    "another float default": (
        [a("A", "float64", default="0")],
        [a("A", "float64", default="-0.0")],
        *({}, "default-unchanged", "A", "must"),
    ),
    "another type": ([a("A", "int32")], [a("A", "uint32")], {}, "type-unchanged", "A", "must"),
    "another type in no released version": (
        [a("A", "int32", "0-2")],
        [a("A", "int64", "0-2")],
        *({"validVersions": "6"}, "type-unchanged", "A", "must"),
    ),
    "an array": ([a("A", "int32")], [a("A", "[]int32")], {}, "type-unchanged", "A", "must"),
    "elements put into structures in flexible versions": (
        [a("A", "[]int32")],
        [a("A", FOO, fields=[a("X")])],
        *({}, "type-unchanged", "A", "must"),
    ),
    "elements put into structures with more": (
        [a("A", "[]int32", "0-2")],
        [a("A", FOO, "0-2", fields=[a("X"), a("Y", "int8")])],
        *({}, "type-unchanged", "A", "must"),
    ),
    "elements put into structures of another type": (
        [a("A", "[]int32", "0-2")],
        [a("A", FOO, "0-2", fields=[a("X", "uint32")])],
        *({}, "type-unchanged", "A", "must"),
    ),
    "elements taken out of structures": (
        [a("A", FOO, "0-2", fields=[a("X")])],
        [a("A", "[]int32", "0-2")],
        *({}, "type-unchanged", "A", "must"),
    ),
    "a tag of a field that is gone": (
        [tagged("A")],
        [tagged("B", versions="6+", taggedVersions="6+")],
        *({"validVersions": "0-6"}, "tag-reuse-forbidden", "B", "must"),
    ),
    "a tag with another type": ([tagged("A")], [tagged("B", 0, "string")], {}, "tag-reuse-forbidden", "B", "must"),
    "tagged versions that have got an end": (
        [tagged("A")],
        [tagged("A", taggedVersions="3-5")],
        *({}, "tagged-versions-open-ended", "A", "should"),
    ),
    "another name": ([a("A"), a("B", "int8")], [a("C"), a("B", "int8")], {}, FROZEN, "C", "open"),
}


@pytest.mark.parametrize("before, now, more, requirement, path, level", TWO_SETS.values(), ids=TWO_SETS)
def test_a_change_that_breaks_one_rule_gets_only_that_finding(before, now, more, requirement, path, level, tmp_path):
    old = written(tmp_path / "old", [message(*before)])
    expected = {(requirement, path, level)}
    if "validVersions" in more and requirement == "type-unchanged":
        expected.add(("no-version-dropped", "", "must"))
    found = lint(written(tmp_path / "new", [message(*now, **more)]), old)
    assert len(found) == len(expected), [str(finding) for finding in found]
    assert set(described(found)) == expected


ALLOWED = {
    "fields-added-anywhere": (
        [a("A"), a("B")],
        [a("X", versions="6+"), a("A"), a("Y", versions="6+"), a("B"), a("Z", versions="6+")],
    ),
    "field-removed-closed-range": ([a("A")], [a("A", versions="0-5")]),
    "tagged-added-to-existing-version": ([a("A")], [a("A"), tagged("B")]),
    "tagged-support-removable": ([tagged("A")], [tagged("A", versions="3-4")]),
    "nullable in a new version": ([a("A", "string")], [a("A", "string", nullableVersions="6+")]),
    "primitive-array-to-struct-array": (
        [a("A", "[]int32", "0-2")],
        [a("A", FOO, "0-2", fields=[a("X"), a("Y", versions="3+")])],
    ),
    "a structure with another name": ([a("A", FOO, **INNER)], [a("A", "[]Bar", **INNER)]),
    "default written out": ([a("A"), a("B", "bool")], [a("A", default="0x0"), a("B", "bool", default=False)]),
    "ignorable": ([a("A")], [a("A", ignorable=True, about="text")]),
}


@pytest.mark.parametrize("before, now", ALLOWED.values(), ids=ALLOWED)
def test_a_change_that_is_allowed_is_no_finding(before, now, tmp_path):
    old = written(tmp_path / "old", [message(*before)])
    new = written(tmp_path / "new", [message(*now, validVersions="0-6")])
    assert list(map(str, lint(new, old))) == []


def test_a_duplicate_field_is_a_finding_next_to_the_changes(tmp_path):
    before = written(tmp_path / "before", [message(a("One"), a("Two"))])
    now = written(tmp_path / "now", [message(a("One"), a("Two"), a("Two"), a("Two"))])
    alone = described(lint(now))
    assert alone
    assert set(described(lint(now, before))) >= set(alone)


def test_fields_in_another_order_break_a_released_version(tmp_path):
    old = written(tmp_path / "old", [message(a("A"), a("B"), a("C"))])
    found = lint(written(tmp_path / "new", [message(a("A"), a("C"), a("B"))]), old)
    assert described(found) == [("fields-not-reordered", "", "should"), (FROZEN, "", "must")]
    assert "B, C and is C, B now" in found[0].problem


def test_a_removed_message_drops_its_versions_unless_one_file_is_checked(tmp_path):
    old = written(tmp_path / "old", [message(), response()])
    new = written(tmp_path / "new", [message()])
    assert [(finding.file, *described([finding])[0]) for finding in lint(new, old)] == [
        (str(old / "1.json"), "no-version-dropped", "", "must")
    ]
    assert lint(new / "0.json", old) == []


def test_a_renamed_message_is_matched_by_its_api_key(tmp_path):
    old = written(tmp_path / "old", [message(a("A"))])
    found = lint(written(tmp_path / "new", [message(a("A", "int8"), name="BarRequest")]), old)
    assert described(found) == [("type-unchanged", "A", "must")]


@pytest.mark.parametrize("flagged", ["request", "response"])
def test_a_version_that_was_unstable_may_change_in_request_and_response(flagged, tmp_path):
    more = {"request": {}, "response": {}}
    more[flagged] = {"latestVersionUnstable": True}
    others = [message(**more["request"])] if flagged == "request" else []
    old = written(tmp_path / "old", [response(**more["response"]), *others])
    new = [response(a("A", versions="5+"))]
    assert lint(written(tmp_path / "new", new + ([message()] if others else [])), old) == []


def test_findings_in_a_common_structure_are_reported_once_under_its_name(tmp_path):
    def documents(*fields):
        commons = [{"name": "Foo", "versions": "0+", "fields": list(fields)}]
        return [message(a("A", FOO), a("B", FOO), commonStructs=commons)]

    old = written(tmp_path / "old", documents(a("X")))
    found = lint(written(tmp_path / "new", documents(a("X"), a("Y"))), old)
    assert described(found) == [(FROZEN, "Foo.Y", "must")]


def test_every_requirement_tested_by_lint_has_a_case_here():
    with (VECTORS / "requirements.yaml").open(encoding="utf-8") as stream:
        rows = yaml.load(stream, yaml.CSafeLoader)
    tested = {row["id"] for row in rows if "lint" in row["tests"] and "message-definitions" in str(row["source"])}
    broken = [case[-3] for case in (*ONE_SET.values(), *TWO_SETS.values())]
    shown = {name.removeprefix("definitions.") for name in (*broken, *LEGAL, *ALLOWED)}
    assert sorted(name for name in tested if name.removeprefix("definitions.") not in shown) == []


# --- real definitions ---------------------------------------------------------------------------------


def kafka_python():
    spec = importlib.util.find_spec("kafka")
    folder = Path(spec.origin).parent / "protocol" / "schemas" / "resources" if spec else None
    if folder is None or not folder.is_dir():
        pytest.skip("kafka-python is not installed (extra: clients)")
    return folder


def jar(name):
    """Return the kafka-clients jar of an installed adapter."""
    return next((adapters()[name].home / "target" / "lib").glob("kafka-clients-*.jar"))


SOURCES = ("kafka-python", "kafka-clients", "kafka-clients-3")


@pytest.fixture
def real(request):
    """Return a function from a library's name to its definitions."""

    def found(source):
        if source == "kafka-python":
            return kafka_python()
        return jar(request.getfixturevalue(source.replace("-", "_")))

    return found


EARLY_NULL = "nullableVersions start before versions, which takes nothing away"
TWICE = "Apache Kafka's reader takes the last of two equal keys"
EXPLAINED = {
    # Unspecified by the document; no release of Apache Kafka breaks a must or should.
    ("DescribeConfigsResponse", "Results.Configs.Documentation", "nullable-versions-range"): EARLY_NULL,
    ("DescribeConfigsResponse", "Results.Configs.Synonyms.Value", "nullable-versions-range"): EARLY_NULL,
    ("CreateTopicsResponse", "Topics.ErrorMessage", "nullable-versions-range"): EARLY_NULL,
    ("UpdateMetadataRequest", "LiveBrokers.Rack", "nullable-versions-range"): EARLY_NULL,
    (
        "BrokerHeartbeatRequest",
        "OfflineLogDirs",
        "tagged-needs-tag-and-versions",
    ): "Kafka's reader takes the tag '0' for 0",
    ("DescribeTopicPartitionsRequest", "", "field-attributes"): TWICE,
    ("DescribeTopicPartitionsResponse", "", "field-attributes"): TWICE,
}
PINNED = {"kafka-python": 1, "kafka-clients": 1, "kafka-clients-3": 8}


def stem(finding):
    return finding.file.replace("!", "/").rpartition("/")[2].removesuffix(".json")


@pytest.mark.integration
@pytest.mark.parametrize("source", SOURCES)
def test_real_definitions_have_only_explained_findings(source, real):
    found = levels(lint(real(source)))
    assert {level for _, level in found} == {"open"}
    places = [(stem(finding), finding.path, finding.requirement.removeprefix("definitions.")) for finding, _ in found]
    assert [place for place in places if place not in EXPLAINED] == []
    assert len(found) == PINNED[source]


KIP_896 = {
    # Versions that Apache Kafka 4.0 dropped; KIP-896 announced them, as the document requires.
    *("AlterReplicaLogDirs", "CreateAcls", "CreateDelegationToken", "CreateTopics", "DeleteAcls", "DeleteTopics"),
    *(
        "DescribeAcls",
        "DescribeConfigs",
        "DescribeDelegationToken",
        "DescribeLogDirs",
        "ExpireDelegationToken",
        "Fetch",
    ),
    *("ListOffsets", "OffsetCommit", "OffsetFetch", "OffsetForLeaderEpoch", "Produce", "RenewDelegationToken"),
    *("WriteTxnMarkers", "AlterPartition"),
}
ZOOKEEPER = {"ControlledShutdown", "LeaderAndIsr", "StopReplica", "UpdateMetadata"}
"""Requests that were removed together with ZooKeeper."""
RENAMED = {"ListConfigResourcesResponse": 2, "TxnOffsetCommitRequest": 1, "VoteRequest": 3}


@pytest.mark.integration
def test_kafka_4_4_differs_from_3_9_only_in_dropped_versions_and_new_names(real):
    found = levels(lint(real("kafka-clients"), real("kafka-clients-3")))
    dropped = [stem(finding) for finding, level in found if level == "must"]
    assert {finding.requirement for finding, level in found if level == "must"} == {"definitions.no-version-dropped"}
    sides = ("Request", "Response")
    # ControlledShutdown was the last request with header version 0, so that header version was removed too.
    assert sorted(dropped) == sorted(
        [f"{name}{side}" for name in KIP_896 | ZOOKEEPER for side in sides] + ["RequestHeader"]
    )
    renamed = Counter(stem(finding) for finding, _ in found if "was called" in finding.problem)
    assert renamed == RENAMED
    assert len(found) == len(dropped) + sum(RENAMED.values()) + PINNED["kafka-clients"]


def fields_of(document):
    """Yield the fields of the last version, including nested ones."""
    todo = list(document["fields"])
    while todo:
        field = todo.pop()
        if field["versions"].endswith("+"):
            todo += field.get("fields", [])
            yield field


def edited(pick, change):
    """Return a function that changes the first field that `pick` accepts; it returns True if it found one."""

    def edit(document):
        high = int(document["validVersions"].rpartition("-")[2])
        for field in fields_of(document):
            if pick(field) and field["versions"] in (f"{version}+" for version in range(high + 1)):
                change(field, high)
                return True
        return False

    return edit


def plain(*kinds):
    return lambda field: field["type"] in kinds and not {"tag", "nullableVersions", "default"} & set(field)


def put(**attributes):
    """Return a function that changes attributes of the message; None removes an attribute."""

    def edit(document):
        for name, value in attributes.items():
            document.pop(name, None) if value is None else document.update({name: value})
        return True

    return edit


def swap(document):
    """Swap two fields that every version has."""
    whole = [field for field in document["fields"] if field["versions"] == "0+" and "tag" not in field]
    if len(whole) < 2:
        return False
    one, other = (document["fields"].index(field) for field in whole[:2])
    document["fields"][one], document["fields"][other] = document["fields"][other], document["fields"][one]
    return True


def tag_again(document):
    """Add a field with the tag of an existing one."""
    tags = [field for field in document["fields"] if "tag" in field and "fields" not in field]
    document["fields"] += [{**field, "name": "Again"} for field in tags[:1]]
    return bool(tags)


def tag_early(document):
    """Start a tagged field before its message is flexible."""
    low = document["flexibleVersions"].removesuffix("+")
    return low not in ("none", "0") and edited(
        lambda field: "tag" in field,
        lambda field, _: field.update(versions=f"{int(low) - 1}+", taggedVersions=f"{int(low) - 1}+"),
    )(document)


def drop_a_version(document):
    """Remove the first valid version."""
    low, _, high = document["validVersions"].partition("-")
    document["validVersions"] = f"{int(low) + 1}-{high}"
    return bool(high) and low != high


def drop_a_field(document):
    """Remove a field that every version has."""
    first = document["fields"].pop(0) if document["fields"] else None
    return bool(first) and first["versions"] == "0+"


def of_requests(edit):
    return lambda document: document["type"] == "request" and edit(document)


def of_responses(edit):
    return lambda document: document["type"] == "response" and edit(document)


def of_requests_and_responses(edit):
    return lambda document: document["type"] in ("request", "response") and edit(document)


DAMAGE = {
    # changes that make a real definition break the rule
    "api-key-16-bit": of_requests_and_responses(put(apiKey=1 << 15)),
    "response-api-key-matches": of_responses(lambda document: put(apiKey=document["apiKey"] + 1000)(document)),
    "response-version-matches": of_responses(drop_a_version),
    "no-version-dropped": drop_a_version,
    "version-16-bit": put(validVersions="0-32768"),
    "valid-versions": put(validVersions=None),
    "valid-versions-closed": put(validVersions="0+"),
    "flexible.declared-per-api": put(flexibleVersions=None),
    "fields-not-reordered": swap,
    "field-removed-closed-range": drop_a_field,
    "tag-reuse-forbidden": tag_again,
    "tagged-only-flexible": tag_early,
    "float-never-null": edited(plain("int32"), lambda field, _: field.update(type="float64", nullableVersions="0+")),
    "meaning-changing-not-ignorable": of_requests(
        edited(
            lambda field: field["type"] == "bool" and not field["versions"].startswith("0"),
            lambda field, _: field.update(name="ValidateOnly", ignorable=True),
        )
    ),
    "no-custom-default-array": edited(plain("[]int32", "[]string"), lambda field, _: field.update(default="1")),
    "no-custom-default-bytes": edited(plain("bytes"), lambda field, _: field.update(default="00")),
    "nullable-versions-range": edited(plain("string"), lambda field, _: field.update(nullableVersions="two")),
    "type-array": edited(
        plain("int32"), lambda field, _: field.update(fields=[{"name": "X", "type": "int8", "versions": "0+"}])
    ),
    "type-unknown": edited(plain("int32"), lambda field, _: field.update(type="int24")),
    "type-unchanged": edited(plain("int32"), lambda field, _: field.update(type="uint32")),
    "field-attributes": edited(plain("int32"), lambda field, _: field.update(version="0+")),
    "int-never-null": edited(plain("int32"), lambda field, _: field.update(nullableVersions="0+")),
    "bool-never-null": edited(plain("bool"), lambda field, _: field.update(nullableVersions="0+")),
    FITS: edited(plain("int32"), lambda field, _: field.update(default="2147483648")),
    "default-unchanged": edited(plain("int32"), lambda field, _: field.update(default="5")),
    "default-null-needs-all-nullable": edited(plain("string"), lambda field, _: field.update(default="null")),
    FROZEN: edited(plain("string"), lambda field, high: field.update(nullableVersions=f"{high}+")),
    TAGS: edited(lambda field: "tag" in field, lambda field, _: field.pop("tag")),
    "tagged-versions-open-ended": edited(
        lambda field: "tag" in field, lambda field, high: field.update(taggedVersions=f"{high}")
    ),
}


shipped_with = cache(usable)


@pytest.mark.integration
@pytest.mark.parametrize("source", ["kafka-python", "kafka-clients"])
@pytest.mark.parametrize("rule", DAMAGE)
def test_real_definitions_that_are_damaged_are_reported(rule, source, real, tmp_path, monkeypatch):
    before = shipped_with(real(source))
    after, damaged = {}, set()
    for name, message in before.messages.items():
        document = json.loads(json.dumps(message.source))
        if document["validVersions"] != "none" and DAMAGE[rule](document):
            damaged.add(name)
        after[name] = document if name in damaged else message.source
    assert len(damaged) >= 2
    with zipfile.ZipFile(tmp_path / "new.zip", "w") as archive:
        for name, document in after.items():
            archive.writestr(f"{name}.json", json.dumps(document))
    monkeypatch.setattr(linting, "usable", shipped_with)  # the older set is the same for each rule, so it is read once
    found = [
        finding
        for finding in lint(tmp_path / "new.zip", real(source))
        if finding.requirement.removeprefix("definitions.") == rule and not finding.open
    ]
    assert {stem(finding) for finding in found} == damaged


def test_every_must_or_should_rule_has_a_damaged_definition():
    broken = {case[-3] for case in (*ONE_SET.values(), *TWO_SETS.values()) if case[-1] != "open"}
    # no definition can break these: they are about text that is not JSON
    assert broken - {"comments"} == set(DAMAGE)


# --- the command --------------------------------------------------------------------------------------


def test_clean_definitions_end_with_status_0(tmp_path):
    written(tmp_path / "new", [message(), response()])
    done = conformance("lint", "new", "--against", "new", "--strict", "--fail-on", "should", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "no findings\n", "")


@pytest.mark.parametrize(
    "field, options, status",
    [
        (a("A", "int24"), (), 1),
        (tagged("A", taggedVersions="3-5"), (), 0),
        (tagged("A", taggedVersions="3-5"), ("--strict",), 0),
        (tagged("A", taggedVersions="3-5"), ("--fail-on", "should"), 1),
        (tagged("A", "0"), ("--fail-on", "should"), 0),
        (tagged("A", "0"), ("--strict",), 1),
    ],
)
def test_the_status_follows_the_level(field, options, status, tmp_path):
    written(tmp_path / "new", [message(field)])
    done = conformance("lint", "new", *options, cwd=tmp_path)
    assert done.returncode == status
    assert "1 finding (" in done.stdout


def test_all_findings_of_a_folder_are_printed_with_file_path_requirement_and_level(tmp_path):
    broken = [message(a("A", "int24"), a("B", "bool", default="1")), response(a("C", **INNER)), "{"]
    written(tmp_path / "new", broken)
    done = conformance("lint", "new", "--json", "found.json", cwd=tmp_path)
    assert done.returncode == 1
    why = "Expecting property name enclosed in double quotes"
    assert done.stdout.splitlines() == [
        "new/0.json: A: the type 'int24' does not exist (definitions.type-unknown, must)",
        "new/0.json: B: default '1': expected true or false (definitions.custom-default-fits-type, must)",
        "new/1.json: C: a int32 has no fields (definitions.type-array, must)",
        f"new/2.json: not JSON: {why}: line 1 column 2 (char 1) (definitions.comments, must)",
        "4 findings (4 must)",
    ]
    report = json.loads((tmp_path / "found.json").read_text())
    assert report["summary"] == {"must": 4, "should": 0, "may": 0, "open": 0}
    assert report["findings"][0] == {
        **{"file": "new/0.json", "path": "A", "requirement": "definitions.type-unknown", "level": "must"},
        "problem": "the type 'int24' does not exist",
    }


@pytest.mark.parametrize(
    "arguments, named",
    [
        (("nowhere",), "nowhere"),
        (("nowhere.jar",), "nowhere.jar"),
        (("empty",), "not contain a definition"),
        (("new", "--against", "nowhere"), "nowhere"),
        (("new", "--against", "broken"), "broken/0.json: A"),
        (("new", "--fail-on", "may"), "may"),
        ((), "PATH"),
    ],
)
def test_wrong_usage_gets_one_error_and_status_2(arguments, named, tmp_path):
    written(tmp_path / "new", [message()])
    written(tmp_path / "broken", [message(a("A", "int24"))])
    (tmp_path / "empty").mkdir()
    done = conformance("lint", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_definitions_without_any_message_are_an_error(tmp_path):
    with pytest.raises(DefinitionError, match="not contain a definition"):
        lint(written(tmp_path / "new", ["[]", '{"dependencies": {}}']))


def test_json_files_that_are_no_definitions_are_ignored(tmp_path):
    assert lint(written(tmp_path / "new", [message(), '{"dependencies": {"a": 1, "a": 2}}', "[1]"])) == []
    assert parse_json("[1]") == [1]


# --- the page -----------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")


def example(name):
    return re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_example_in_the_docs_is_what_lint_prints(tmp_path):
    for name in ("old/FooRequest.json", "new/FooRequest.json"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(example(name))
    command, _, printed = example("output").partition("\n")
    done = conformance(*command.removeprefix("$ conformance ").split(), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, printed, "")


def test_every_option_that_the_docs_show_exists(tmp_path):
    helped = conformance("lint", "--help", cwd=tmp_path).stdout
    shown = set(re.findall(r"`(--[a-z-]+)", PAGE))
    assert shown == {"--against", "--json", "--fail-on", "--strict"}
    assert all(option in helped for option in shown)
