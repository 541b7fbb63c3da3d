"""The table of operations: one parser for vectors, user requests and requests to the reference."""

import pytest
from click import Choice

from conformance import cli, codec
from conformance.cases.operations import OPERATIONS, WHOLE_LOG
from conformance.catalog._log_vector_cases import question_of
from conformance.catalog.case_builder import log_case
from conformance.codec.json_notation import NotationError
from conformance.targets import reference

LOG = codec.wire("LOG")
FETCH = {"hex": "", "isolation": "read_committed", "fetchOffset": "5", "highWatermark": "9", "aborted": []}

WRONG = {
    "hex is missing": ("read", {"hex": ...}),
    "isolation: expected one of": ("read", {"isolation": "dirty"}),
    "fetchOffset: expected a decimal string": ("read", {"fetchOffset": None}),
    "fetchOffset: 9223372036854775808 is not an INT64": ("read", {"fetchOffset": str(1 << 63)}),
    "aborted: expected objects with producerId and firstOffset": ("read", {"aborted": [{"producerId": "7"}]}),
    "checkCrcs: expected true or false": ("read", {"checkCrcs": "no"}),
}


@pytest.mark.parametrize(("message", "wrong"), WRONG.items(), ids=WRONG)
def test_a_wrong_part_is_rejected_in_a_vector_in_a_user_request_and_by_the_reference(catalog, message, wrong):
    op, change = wrong
    given = {name: part for name, part in (FETCH | change).items() if part is not ...}
    with pytest.raises(NotationError, match=message):
        question_of({"op": op, "value": {}, **given}, bytes.fromhex(given["hex"]) if "hex" in given else None)
    if "hex" in given:
        with pytest.raises(NotationError, match=message):
            log_case("x/y", op, given, catalog)
    answer = reference.answer({"op": op, **given})
    assert (answer["ok"], answer["error"]) == (False, "invalid-value")
    assert message in answer["message"]


def test_parts_are_parsed_to_values():
    parts = OPERATIONS["read"].parse({**FETCH, "aborted": [{"producerId": "7", "firstOffset": "4"}], "op": "read"}, LOG)
    assert parts == {
        **{"hex": b"", "isolation": "read_committed", "fetchOffset": 5, "highWatermark": 9},
        "aborted": ({"producerId": 7, "firstOffset": 4},),
    }
    assert OPERATIONS["encode"].parse({"value": ["5"]}, codec.wire("ARRAY<INT64>")) == {"value": (5,)}


def test_the_reference_supports_every_operation_and_the_command_line_offers_those_on_bytes_and_values():
    assert set(reference.describe()["supports"]) == set(OPERATIONS)
    assert WHOLE_LOG == ("read", "convert", "sequence", "send", "append", "exchange", "scenario")
    options = {option.name: option.type for option in cli.main.get_command(None, "run").params}
    assert isinstance(options["op"], Choice)
    assert list(options["op"].choices) == [op for op in OPERATIONS if op not in ("size", "send", "scenario")]
