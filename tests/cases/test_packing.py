"""Packed cases: unpacking returns equal cases, and they take little memory."""

import pickle
import random
import tracemalloc
from dataclasses import fields, replace

import lz4.block
import pytest

from conformance import codec
from conformance.cases.model import Case, ExpectValue
from conformance.cases.packed_cases import SerializedCases, chosen, serialize
from conformance.catalog.catalog import of_bases
from conformance.codec.json_notation import UNSHOWN
from conformance.definitions.loader import types_with
from conformance.definitions.parser import parse_definition
from conformance.strategies.seeded.cases import TYPES, generated_cases, message_types


def parts(case):
    """Return all parts of a case, including its type and the order of its request."""
    return {**{field.name: getattr(case, field.name) for field in fields(Case)}, "request": repr(case.request)}


@pytest.fixture(scope="module")
def generated(catalog):
    names = [*TYPES, *message_types(catalog.types.messages.values())[::7]]
    return list(generated_cases(names, 11, 5, catalog))


def test_a_case_is_equal_after_packing_and_unpacking(catalog, generated):
    for case in [*catalog.cases.values(), *generated]:
        assert parts(serialize(case).deserialize()) == parts(case)


def test_the_label_of_a_packed_case_has_the_attributes_of_the_case(catalog, generated):
    names = ("id", "op", "type", "requirement", "level", "since", "kind", "origin", "disputed", "codecs", "magics")
    names += ("size", "needs_surrogates", "is_shrinkable", "defined_in")
    for case in [*list(catalog.cases.values())[::5], *generated]:
        label = serialize(case)
        assert [getattr(label, name) for name in names] == [getattr(case, name) for name in names], case.id


def test_an_unshown_value_is_still_unshown_after_unpacking(catalog):
    case = replace(catalog.cases["varint/zero"], expect=ExpectValue(UNSHOWN, 1))
    assert serialize(case).deserialize().expect.value is UNSHOWN


def test_a_case_with_a_user_definition_keeps_that_definition(catalog):
    message, _ = parse_definition(
        {"name": "EndTxnMarker", "type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": []}
    )
    message = replace(message, origin="mine.json")
    own = replace(catalog, types=types_with([message]))
    case = next(iter(generated_cases(["MESSAGE<EndTxnMarker,0>"], 1, 0, own)))
    assert serialize(case).deserialize().wire is case.wire
    assert serialize(case).defined_in == case.defined_in == "mine.json"


def test_packed_cases_behave_like_a_list(catalog):
    every = list(catalog.cases.values())[:200]
    several = SerializedCases(every)
    assert len(several) == 200
    assert list(several) == every
    assert [several[0], several[0], several[-1]] == [every[0], every[0], every[-1]]
    assert several[3:190:7] == every[3:190:7]
    assert every[5] in several
    with pytest.raises(IndexError):
        several[200]
    assert [case.id for case in several.serialized] == [case.id for case in every]
    assert list(chosen(several, [7, 3])) == chosen(every, [7, 3]) == [every[7], every[3]]


def test_cases_chosen_by_their_basis_stay_packed(catalog):
    every = list(catalog.cases.values())[:300]
    wanted = of_bases(SerializedCases(every), ("implied",), catalog.requirements)
    assert isinstance(wanted, SerializedCases)
    assert list(wanted) == of_bases(every, ("implied",), catalog.requirements) != []


def test_a_large_case_stores_its_data_once():
    data = random.Random(0).randbytes(50_000)
    case = Case(
        *("big", "decode", codec.wire("BYTES"), "bytes.encoding", "must"),
        {"op": "decode", "type": "BYTES", "hex": data.hex()},
        ExpectValue(data, len(data)),
        data,
    )
    assert case.request["hex"] == serialize(case).deserialize().request["hex"]
    assert len(serialize(case).content) < 1.1 * len(data)


def with_damaged_expectation(case):
    """Return the packed case with unreadable bytes after the request."""
    label = serialize(case)
    content = lz4.block.decompress(label.content) if label.is_compressed else label.content
    return label._replace(content=content[: label.parts[1]] + b"damaged", is_compressed=False)


def test_the_request_of_a_packed_case_is_unpacked_alone(catalog):
    every = [case for case in catalog.cases.values() if "limit-headers" in case.id or case.op == "encode"]
    several = SerializedCases(map(with_damaged_expectation, every))
    assert len(every) > 100
    assert {serialize(case).is_compressed for case in every} == {False, True}
    assert [several.label_at(at).request for at in range(len(every))] == [case.request for case in every]
    with pytest.raises(pickle.UnpicklingError):
        several[0]


def test_a_packed_case_takes_little_memory(generated):
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        several = SerializedCases(case for case in generated if case.size < 4096)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(several) > 1000
    assert (after - before) / len(several) < 1024
