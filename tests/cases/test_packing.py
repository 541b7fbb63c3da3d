"""Packed cases: unpacking returns equal cases, and they take little memory."""

import pickle
import random
import tracemalloc
from dataclasses import fields, replace

import lz4.block
import pytest
from msgspec import structs

from conformance import codec
from conformance.cases.model import Case, ExpectValue
from conformance.cases.stored_cases import StoredCase, store, stored_all
from conformance.catalog.catalog import of_bases
from conformance.codec.json_notation import UNSHOWN
from conformance.definitions._parser import parse_definition
from conformance.definitions.loader import types_with
from conformance.strategies.seeded.cases import TYPES, generated_cases, message_types


def parts(case):
    """Return all parts of a case, including its type and the order of its request."""
    return {
        **{field.name: getattr(case, field.name) for field in fields(Case)},
        "request": repr(case.request),
        "wire": case.wire.name,
    }


@pytest.fixture(scope="module")
def generated(catalog):
    names = [*TYPES, *message_types(catalog.types.messages.values())[::7]]
    return list(generated_cases(names, 11, 5, catalog))


def test_a_case_is_equal_after_packing_and_unpacking(catalog, generated):
    for case in [*catalog.cases.values(), *generated]:
        assert parts(store(case).to_case()) == parts(case)


def test_the_summary_of_a_stored_case_is_that_of_the_case(catalog, generated):
    names = ("id", "op", "type", "requirement", "level", "since", "kind", "origin", "disputed", "codecs", "magics")
    names += ("size", "needs_surrogates", "is_shrinkable", "defined_in", "refused_by", "expect", "timeout_group")
    for case in [*list(catalog.cases.values())[::5], *generated]:
        stored = store(case)
        assert [getattr(stored, name) for name in names] == [getattr(case, name) for name in names], case.id


def test_an_unshown_value_is_still_unshown_after_unpacking(catalog):
    case = replace(catalog.cases["varint/zero"], expect=ExpectValue(UNSHOWN, 1))
    assert store(case).to_case().expect.value is UNSHOWN


def test_a_case_with_a_user_definition_keeps_that_definition(catalog):
    message, _ = parse_definition(
        {"name": "EndTxnMarker", "type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": []}
    )
    message = replace(message, origin="mine.json")
    own = replace(catalog, types=types_with([message]))
    case = next(iter(generated_cases(["MESSAGE<EndTxnMarker,0>"], 1, 0, own)))
    assert store(case).to_case().wire is case.wire
    assert store(case).defined_in == case.defined_in == "mine.json"


def test_stored_cases_stay_as_they_are(catalog):
    every = list(catalog.cases.values())[:200]
    several = stored_all(every)
    assert [one.to_case() for one in several] == every
    assert [one is other for one, other in zip(stored_all(several), several, strict=True)] == [True] * 200


def test_cases_selected_by_their_basis_stay_stored(catalog):
    every = list(catalog.cases.values())[:300]
    wanted = of_bases(stored_all(every), ("implied",), catalog.requirements)
    assert {type(case) for case in wanted} == {StoredCase}
    assert [case.to_case() for case in wanted] == of_bases(every, ("implied",), catalog.requirements) != []


def test_a_large_case_stores_its_data_once():
    data = random.Random(0).randbytes(50_000)
    case = Case(
        *("big", "decode", codec.wire("BYTES"), "bytes.encoding", "must"),
        {"op": "decode", "type": "BYTES", "hex": data.hex()},
        ExpectValue(data, len(data)),
        data,
    )
    assert case.request["hex"] == store(case).to_case().request["hex"]
    assert len(store(case).content) < 1.1 * len(data)


def with_damaged_expectation(case):
    """Return the stored case with unreadable bytes after the request."""
    label = store(case)
    content = lz4.block.decompress(label.content) if label.is_compressed else label.content
    return structs.replace(label, content=content[: label.rest_start] + b"damaged", is_compressed=False)


def test_the_request_of_a_packed_case_is_unpacked_alone(catalog):
    every = [case for case in catalog.cases.values() if "limit-headers" in case.id or case.op == "encode"]
    several = [with_damaged_expectation(case) for case in every]
    assert len(every) > 100
    assert {store(case).is_compressed for case in every} == {False, True}
    assert [stored.request for stored in several] == [case.request for case in every]
    with pytest.raises(pickle.UnpicklingError):
        several[0].to_case()


def test_a_packed_case_takes_little_memory(generated):
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        several = stored_all(case for case in generated if case.size < 4096)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(several) > 1000
    assert (after - before) / len(several) < 1024
