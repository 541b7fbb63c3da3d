"""Hostile or mistyped options and cases result in a user error or a value."""

import json
import math
from contextlib import suppress

import click
import pytest

from conformance.cases.model import Case
from conformance.catalog.catalog_builder import read_catalog
from conformance.cli import COMMANDS, command_of
from conformance.commands.ad_hoc_case import AdHocCase, own_case
from conformance.errors import UserError

NUMBERS = [
    *(
        "",
        " ",
        "-1",
        "0",
        "1",
        "²",
        "٣",
        "½",
        "∞",
        "nan",
        "-nan",
        "inf",
        "-inf",
        "1e400",
        "1e-400",
        "0x10",
        "1_0",
        "5.5",
    ),
    *("9" * 25, "9" * 5000, "-" + "9" * 5000, "random", "\ud800", "\0", "1\n", "[1]", "None"),
]


ALL_OPTIONS = {
    f"{name} {option.opts[0]}": option
    for name in COMMANDS
    for option in command_of(name).params
    if isinstance(option, click.Option)
}
COUNTED = {name for name, option in ALL_OPTIONS.items() if option.count}
"""Options whose number is their count; they take no value."""
OPTIONS = [
    pytest.param(option, id=name)
    for name, option in ALL_OPTIONS.items()
    if name not in COUNTED and (option.name == "seed" or isinstance(option.type, click.IntRange | click.FloatRange))
]
"""All options that take a number."""


def test_the_options_that_take_a_number_are_found():
    assert {option.id for option in OPTIONS} >= {"run --seed", "run --timeout", "run --jobs", "campaign --cases"}


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.parametrize("name", sorted(COUNTED))
def test_a_counted_option_takes_no_number(name, text):
    command, option = name.split()
    with pytest.raises(click.BadOptionUsage, match="does not take a value"):
        command_of(command).make_context(command, ["reference", f"{option}={text}"])


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_accepts_only_a_bounded_number(option, text):
    context = click.Context(click.Command("x"))
    try:
        value = option.process_value(context, (text,) if option.multiple else text)
    except (click.UsageError, UserError):
        return
    if isinstance(value, int | float):
        assert math.isfinite(value)
        assert -1 < value < 1 << 64


# --- cases --------------------------------------------------------------------------------------------

BATCH = {
    **{"baseOffset": "0", "partitionLeaderEpoch": 0, "compression": "none", "timestampType": "CreateTime"},
    **{"isTransactional": False, "isControlBatch": False, "producerId": "-1", "producerEpoch": -1, "baseSequence": -1},
    "records": [{"offset": "0", "timestamp": "0", "key": None, "value": "00", "headers": []}],
}
WRONG = [None, 5, "x", [], {}, True, 10**30, 1.5, "9" * 25, [None], [{}], {"a": 1}]
FETCH = {"hex": "", "isolation": "read_committed", "fetchOffset": "0", "highWatermark": "0", "aborted": []}
SEQUENCE = {"producerId": "7", "producerEpoch": 0, "baseSequence": 0, "recordCount": 1}
SET = {"magic": 1, "compression": "none", "value": []}


def damaged(whole):
    """Yield the object with each part wrong or missing in turn."""
    for name in whole:
        yield {key: part for key, part in whole.items() if key != name}
        yield from ({**whole, name: wrong} for wrong in WRONG)


VALUES = [
    *("5", "-1", "null", "true", "[]", "{}", '""', '"x"', "1.5", "1e999", "[[]]", "[null]", "[5]", "[{}]", '{"a":1}'),
    *(
        "",
        "\0",
        "²",
        "00²",
        "zz",
        "0",
        "00",
        "@",
        "@/",
        "@/no such file",
        "@" + "x" * 5000,
        "@\0",
        "\ud800",
        '"\ud800"',
    ),
    *(
        '"\\ud800"',
        "9" * 5000,
        f'"{"9" * 5000}"',
        "[" * 100_000,
        "[" * 900 + "]" * 900,
        '{"a":' * 500 + "1" + "}" * 500,
    ),
    *(json.dumps(one) for one in damaged(BATCH)),
    *(json.dumps({**BATCH, "records": [one]}) for one in damaged(BATCH["records"][0])),
    *(json.dumps(one) for one in damaged(FETCH)),
    *(json.dumps({"batches": [one]}) for one in damaged(SEQUENCE)),
    *(json.dumps(one) for one in damaged(SET)),
    *(json.dumps(one) for one in damaged({"hex": "", "magic": 2, "baseOffset": "0"})),
    *(json.dumps([one]) for one in damaged({"tag": 0, "data": "00"})),
    *(json.dumps(one) for one in damaged({"version": 0, "type": "COMMIT"})),
    *(json.dumps({"batches": wrong}) for wrong in WRONG),
]
TYPES = [
    *("INT32", "INT64", "STRING", "FLOAT64", "UUID", "TAGGED_FIELDS", "ARRAY<INT32>", "RECORDS", "CONTROL_RECORD"),
    *("RECORD", "RECORD_BATCH", "MESSAGE_SET", "LOG", "MESSAGE<FetchRequest,12>", "MESSAGE<FetchRequest,99999>"),
    *("", "MESSAGE", "MESSAGE<x,1>", "ARRAY<>", "ARRAY<LOG>", "ARRAY<" * 33 + "INT8" + ">" * 33, "ARRAY<" * 5000),
    *("\0", "\ud800", "²"),
]


@pytest.fixture(scope="module")
def catalog():
    return read_catalog()


@pytest.mark.parametrize("op", ["decode", "encode", "read", "convert", "sequence", "append", "exchange"])
@pytest.mark.parametrize("name", TYPES, ids=[ascii(name)[:40] for name in TYPES])
def test_every_text_after_case_is_a_case_or_a_user_error(name, op, catalog):
    for given in VALUES:
        with suppress(UserError, OSError):
            assert isinstance(own_case(AdHocCase(f"{name}:{given}", op), catalog), Case)
