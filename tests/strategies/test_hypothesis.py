"""The public strategies: they draw valid values, shrink to stated minima, and leave no files."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed (extra: test)")

from hypothesis import HealthCheck, Phase, configuration, find, given, settings
from hypothesis import strategies as st

import conformance
from conformance import codec, strategies
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.json_notation import NUMBER, Notation
from conformance.codec.log import first_offset, last_offset
from conformance.codec.message_layout import wire_of
from conformance.codec.message_spec import UNKNOWN
from conformance.codec.primitives import ARRAYS, PRIMITIVES
from conformance.codec.wire_type import WireType
from conformance.definitions.loader import parse_definition
from conformance.semantics.consumer_view import AbortedTransaction, consumer_view
from conformance.strategies import (
    arrays,
    compact_arrays,
    compact_byte_strings,
    compact_nullable_strings,
    compact_strings,
    control_batches,
    control_records,
    encoded,
    fetches,
    float64s,
    from_message,
    from_type,
    gapped_batches,
    headers,
    hostile,
    int8s,
    int16s,
    int32s,
    int64s,
    logs,
    message_sets,
    record_batches,
    records,
    records_fields,
    strings,
    tagged_fields,
    transactions,
    uint16s,
    varints,
    varlongs,
    version_skews,
    wrappers,
)
from conformance.strategies.hypothesis import batches as batch_strategies

ROOT = Path(__file__).parent.parent.parent
QUIET = settings(
    database=None,
    deadline=None,
    derandomize=True,
    max_examples=20,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
PERSISTENT = settings(QUIET, max_examples=3000)
UNSHRUNK = settings(PERSISTENT, phases=(Phase.generate,))
NESTED = ("ARRAY<INT32>", "COMPACT_NULLABLE_ARRAY<NULLABLE_STRING>", "COMPACT_ARRAY<ARRAY<STRING>>", "ARRAY<RECORD>")
NUMBERS = [name for name, row in PRIMITIVES.items() if len(row.edges) > 3 and name != "FLOAT64"]


@pytest.fixture(scope="module", autouse=True)
def _hypothesis_folder(tmp_path_factory):
    """Keep Hypothesis's notes on local modules out of the checkout, whose modules look like the user's own."""
    configuration.set_hypothesis_home_dir(tmp_path_factory.mktemp("hypothesis"))
    yield
    configuration.set_hypothesis_home_dir(None)


def smallest(strategy, condition=lambda _: True):
    return find(strategy, condition, settings=PERSISTENT)


def first(strategy, condition):
    """Return the first example without shrinking, which costs more than the search."""
    return find(strategy, condition, settings=UNSHRUNK)


def always(strategy, check):
    QUIET(given(strategy)(check))()


# --- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", codec.TYPES)
def test_every_type_has_a_public_strategy_that_from_type_shows(name):
    noun = re.fullmatch(r"(\w+s)\(\)", repr(from_type(name)))[1]
    assert noun in dir(strategies)
    assert getattr(strategies, noun).__name__ == noun


@pytest.mark.parametrize("form", ARRAYS)
def test_every_form_of_array_has_a_public_strategy_that_from_type_shows(form):
    assert repr(from_type(f"{form}<INT32>")) == f"{form.lower()}s(int32s())"
    assert f"{form.lower()}s" in dir(strategies)


def test_no_two_types_have_the_same_strategy():
    assert len({repr(from_type(name)) for name in codec.TYPES}) == len(codec.TYPES)


def test_every_public_name_is_documented():
    page = (ROOT / "docs" / "strategies.md").read_text(encoding="utf-8")
    for name in dir(strategies):
        assert getattr(strategies, name).__doc__, name
        assert f"`{name}(" in page, name


@pytest.mark.parametrize(
    ("strategy", "shown"),
    [
        (int8s(), "int8s()"),
        (varints(min_value=0), "varints(min_value=0)"),
        (float64s(allow_nan=False), "float64s(allow_nan=False)"),
        (strings(max_size=3), "strings(max_size=3)"),
        (arrays(strings(min_size=1), allow_null=False), "arrays(strings(min_size=1), allow_null=False)"),
        (record_batches(codec="lz4", max_size=2), "record_batches(codec='lz4', max_size=2)"),
        (logs(min_size=1), "logs(min_size=1)"),
        (logs(magics=(1, 2)), "logs(magics=(1, 2))"),
        (message_sets(magic=0), "message_sets(magic=0)"),
        (wrappers(codec="snappy"), "wrappers(codec='snappy')"),
        (fetches(isolation="read_committed"), "fetches(isolation='read_committed')"),
        (from_type("ARRAY<ARRAY<INT8>>"), "arrays(arrays(int8s()), max_size=8)"),
        (encoded("UUID"), "encoded('UUID')"),
        (hostile("RECORD", values=records()), "hostile('RECORD', values=records())"),
    ],
)
def test_a_strategy_shows_the_call_that_makes_it(strategy, shown):
    assert repr(strategy) == shown


# --- validity -----------------------------------------------------------------------------------------


def check_whole(name, value, data):
    read = codec.decode(name, data)
    assert (read.violations, read.remarks) == ((), ())
    assert (read.value, read.consumed) == (value, len(data))
    assert codec.wire(name).encode(read.value) == data


@pytest.mark.parametrize("name", [*codec.TYPES, *NESTED])
def test_a_value_is_read_back_without_remarks(name):
    always(encoded(name), lambda pair: check_whole(name, *pair))


@pytest.mark.parametrize(
    "batches", [gapped_batches(), gapped_batches(codec="zstd", min_size=2), control_batches()], ids=repr
)
def test_other_batches_are_read_back_without_remarks(batches):
    always(encoded("RECORD_BATCH", values=batches), lambda pair: check_whole("RECORD_BATCH", *pair))


@pytest.mark.parametrize("batches", [record_batches(), control_batches()], ids=repr)
def test_a_fresh_batch_can_be_an_encode_request(batches):
    always(
        encoded("RECORD_BATCH", values=batches), lambda pair: check(codec.encode("RECORD_BATCH", pair[0]) == pair[1])
    )


def check(holds):
    assert holds


@pytest.mark.parametrize("entries", [wrappers(), wrappers(magic=1, codec="lz4", min_size=2, max_size=3)], ids=repr)
def test_a_wrapper_is_read_back_without_remarks(entries):
    def hold(entry):
        value = {"batches": (entry,), "partial": 0}
        check_whole("LOG", value, codec.encode("LOG", value))

    always(entries, hold)


@pytest.mark.parametrize("magics", [(0,), (1,), (0, 2)])
def test_a_log_has_entries_of_the_requested_magics(magics):
    def hold(log):
        assert {entry["magic"] for entry in log["batches"]} <= {*magics}

    always(logs(magics=magics), hold)


def test_logs_contain_wrappers():
    def has_one(log):
        return any("messages" in one and one["compression"] for one in log["batches"])

    assert first(logs(), has_one)
    assert [entry["magic"] for entry in smallest(logs(max_size=1), has_one)["batches"]] == [0]


def test_transactions_are_read_back_and_listed_ones_are_aborted_in_the_log():
    def hold(found):
        check_whole("LOG", found["log"], codec.encode("LOG", found["log"]))
        batches = found["log"]["batches"]
        aborts = [b for b in batches if b["isControlBatch"] and b["records"][0]["key"] == b"\0\0\0\0"]
        assert [entry["producerId"] for entry in found["aborted"]] == [batch["producerId"] for batch in aborts]
        for entry, marker in zip(found["aborted"], aborts, strict=True):
            first = next(batch for batch in batches if batch["baseOffset"] == entry["firstOffset"])
            assert (first["producerId"], first["isTransactional"]) == (entry["producerId"], True)
            assert entry["firstOffset"] < marker["baseOffset"]

    always(transactions(), hold)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_the_view_of_a_fetch_matches_a_read_of_the_whole_log(isolation):
    def hold(fetch):
        data = codec.encode("LOG", fetch["log"])
        aborted = [AbortedTransaction(entry["producerId"], entry["firstOffset"]) for entry in fetch["aborted"]]
        seen = consumer_view(data, fetch["fetchOffset"], isolation=isolation, aborted=aborted)
        assert (seen.damage, seen.remarks) == (None, ())
        assert (seen.records, seen.next_offset) == (fetch["records"], fetch["nextOffset"])
        assert fetch["isolation"] == isolation
        assert fetch["fetchOffset"] < fetch["nextOffset"] <= fetch["highWatermark"]
        assert isolation == "read_committed" or not fetch["aborted"]

    always(fetches(isolation=isolation), hold)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_edges_of_a_number_are_drawn(name):
    missing = set(codec.wire(name).edges)

    def are_met(value):
        missing.discard(value)
        return not missing

    find(from_type(name), are_met, settings=settings(UNSHRUNK, max_examples=1000))


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize(
    ("strategy", "sizes"),
    [
        (strings(), [0, 32767]),
        (compact_strings(), [0, 126, 127, 16382, 16383]),
        (compact_byte_strings(), [0, 126, 127, 16382, 16383]),
        (headers().map(lambda header: header["key"]), [0, 63, 64, 8191, 8192]),
        (records().map(lambda record: record["headers"]), [0, 63, 64]),
        (compact_arrays(int8s(), allow_null=False), [0, 126, 127]),
        (record_batches(codec="none").map(lambda batch: batch["records"]), [1, 64, 65]),
    ],
    ids=["strings", "compact strings", "compact bytes", "header keys", "headers", "compact arrays", "records"],
)
def test_the_sizes_around_a_change_of_the_length_format_are_drawn(strategy, sizes):
    def size(value):
        return len(value.encode() if isinstance(value, str) else value)

    for wanted in sizes:
        assert size(first(strategy, lambda value, wanted=wanted: size(value) == wanted)) == wanted


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_characters_of_every_width_are_drawn(width):
    assert first(strings(), lambda text: any(len(one.encode()) == width for one in text))


@pytest.mark.parametrize("codec_name", CODEC_NAMES)
def test_a_batch_has_the_requested_codec_and_number_of_records(codec_name):
    def hold(batch):
        assert CODEC_NAMES[batch["compression"]] == codec_name
        assert 2 <= len(batch["records"]) == batch["recordCount"] <= 4
        assert [record["offset"] - batch["baseOffset"] for record in batch["records"]] == [0, 1, 2, 3][
            : batch["recordCount"]
        ]

    always(record_batches(codec=codec_name, min_size=2, max_size=4), hold)


def test_requested_sizes_are_in_bytes_and_respected():
    always(strings(min_size=3, max_size=5), lambda text: check(3 <= len(text.encode()) <= 5))
    always(compact_nullable_strings(max_size=2), lambda text: check(text is None or len(text.encode()) <= 2))
    always(tagged_fields(min_size=1, max_size=2), lambda fields: check(1 <= len(fields) <= 2))
    always(arrays(int8s(), min_size=2, max_size=3, allow_null=False), lambda found: check(2 <= len(found) <= 3))


def test_offsets_in_a_log_increase():
    def hold(log):
        assert 2 <= len(log["batches"]) <= 3
        for one, other in pairwise(log["batches"]):
            assert last_offset(one) < first_offset(other)

    always(logs(min_size=2, max_size=3), hold)


# --- messages -----------------------------------------------------------------------------------------

MESSAGE, _ = parse_definition(
    {
        "type": "data",
        "name": "OfStrategies",
        "validVersions": "0-3",
        "flexibleVersions": "2+",
        "fields": [
            {"name": "Count", "type": "int32", "versions": "0+", "default": "7"},
            {"name": "Kept", "type": "int16", "versions": "1+", "default": "-1"},
            {"name": "Dropped", "type": "string", "versions": "1+", "ignorable": True, "nullableVersions": "2+"},
            {"name": "Ids", "type": "[]uuid", "versions": "0+", "nullableVersions": "3+"},
            {"name": "Late", "type": "bool", "versions": "2+", "taggedVersions": "2+", "tag": 0, "default": "true"},
            {
                "name": "Inner",
                "type": "Part",
                "versions": "2+",
                "nullableVersions": "3+",
                "ignorable": True,
                "fields": [
                    {"name": "Ratio", "type": "float64", "versions": "2+"},
                    {"name": "Names", "type": "[]string", "versions": "2+"},
                ],
            },
        ],
    },
    "of-strategies",
)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("unknown", [False, True])
def test_a_message_is_read_back_with_every_field_of_its_version(version, unknown):
    type_ = wire_of(MESSAGE, version)
    fields = {member.name for member in MESSAGE.members if version in member.versions}

    def hold(pair):
        check_whole(type_, *pair)
        assert pair[0].keys() - {UNKNOWN} == fields

    always(encoded(type_, values=from_message(MESSAGE, version, unknown_tags=unknown)), hold)


@pytest.mark.parametrize(
    "condition",
    [
        lambda value: value["Inner"] is None,
        lambda value: value["Ids"] is None,
        lambda value: len(value["Ids"] or ()) > 126,
        lambda value: value["Late"] is True,
        lambda value: value["Late"] is False,
        lambda value: value["Dropped"] is None,
        lambda value: len(value["Dropped"] or "") > 126,
        lambda value: value["Count"] == -(1 << 31),
        lambda value: value["Inner"] and len(value["Inner"]["Names"]) > 2,
        lambda value: [tag["tag"] for tag in value.get(UNKNOWN, ())] == [1, 2],
    ],
)
def test_nulls_defaults_edges_and_unknown_tags_are_drawn_in_messages(condition):
    found = first(from_message(MESSAGE, 3, unknown_tags=True), condition)
    assert condition(found)


def test_versions_without_a_tagged_section_have_no_unknown_tags():
    always(from_message(MESSAGE, 1, unknown_tags=True), lambda value: check(UNKNOWN not in value))


def test_the_smallest_message_has_default_values():
    assert smallest(from_message(MESSAGE, 1)) == {"Count": 0, "Kept": 0, "Dropped": "", "Ids": ()}
    assert smallest(from_message(MESSAGE, 3)) == {
        **{"Count": 0, "Kept": 0, "Dropped": None, "Ids": None, "Late": True, "Inner": None},
    }
    inner = {"Ratio": 0, "Names": ()}
    assert smallest(from_message(MESSAGE, 3), lambda value: value["Inner"])["Inner"] == inner


def test_the_repr_of_a_message_strategy_is_its_call():
    assert repr(from_type(wire_of(MESSAGE, 2))) == "from_message(OfStrategies, 2)"
    assert repr(version_skews(MESSAGE, 2)) == "version_skews(OfStrategies, 2)"


def test_damaged_messages_result_in_a_value_or_often_in_a_violation():
    refused = []

    def hold(data):
        read = codec.decode(wire_of(MESSAGE, 3), data)
        assert read.ok or read.violations
        refused.append(not read.ok)

    settings(QUIET, max_examples=200)(given(hostile(wire_of(MESSAGE, 3)))(hold))()
    assert 40 < sum(refused) < 200


@pytest.mark.parametrize(
    ("version", "value", "read"),
    [
        # Any count is possible; it shrinks to 0, which is not the default.
        # Version 0 lacks some fields: dropped, at the default, or an error because the value would be lost.
        (0, {"Count": 0, "Kept": -1, "Dropped": "x", "Ids": ()}, {"Count": 0, "Ids": ()}),
        (0, {"Count": 0, "Kept": 0, "Dropped": "", "Ids": ()}, None),
        (1, {"Count": 0, "Ids": ()}, {"Count": 0, "Kept": -1, "Dropped": "", "Ids": ()}),
    ],
)
def test_a_message_read_in_another_version_follows_the_compatibility_rules(version, value, read):
    pairs = version_skews(MESSAGE, version)
    assert smallest(pairs, lambda pair: alike(pair[0], value))[1] == read


def alike(found, value):
    """Return True if two values have the same fields, and the same fields at their default, for any count."""
    defaults = {"Kept": -1, "Dropped": ""}
    return (
        found.keys() == value.keys()
        and all(
            (found[name] == default) == (value[name] == default) for name, default in defaults.items() if name in value
        )
        and found["Ids"] == value["Ids"]
    )


def test_every_version_skew_contains_the_expected_read_value():
    seen = set()

    def hold(pair):
        value, read = pair
        lost = value.get("Kept", -1) != -1 or not value.get("Late", True)
        null = "Ids" in value and value["Ids"] is None
        assert (read is None) == (lost or null)
        if read is not None:
            assert read == {name: value.get(name, {"Count": 7}.get(name, ())) for name in ("Count", "Ids")}
        seen.add(read is None)

    settings(QUIET, max_examples=200)(given(version_skews(MESSAGE, 0))(hold))()
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((MESSAGE, 4), ValueError),
        (("OfStrategies", 1), TypeError),
        ((MESSAGE, "1"), TypeError),
        ((MESSAGE, True), TypeError),
    ],
)
def test_an_unknown_message_or_version_is_rejected_at_the_call(arguments, error):
    for strategy in (from_message, version_skews):
        with pytest.raises(error):
            strategy(*arguments)


# --- shrinking ----------------------------------------------------------------------------------------

RECORD = {
    "length": 6,
    "attributes": 0,
    "timestampDelta": 0,
    "offsetDelta": 0,
    "key": None,
    "value": None,
    "headers": (),
}
PLACED = {**RECORD, "offset": 0, "timestamp": 0}
BATCH = {
    **{"baseOffset": 0, "batchLength": 56, "partitionLeaderEpoch": 0, "magic": 2, "crc": 884707955, "attributes": 0},
    **{"compression": 0, "timestampType": 0, "isTransactional": False, "isControlBatch": False},
    **{"hasDeleteHorizonMs": False, "lastOffsetDelta": 0, "baseTimestamp": 0, "maxTimestamp": 0, "producerId": -1},
    **{"producerEpoch": -1, "baseSequence": -1, "recordCount": 1, "records": (PLACED,)},
}
SMALLEST = {
    **dict.fromkeys(NUMBERS, 0),
    **{"FLOAT64": 0, "UUID": bytes(16), "BOOLEAN": False},
    **{"STRING": "", "COMPACT_STRING": "", "BYTES": b"", "COMPACT_BYTES": b""},
    **dict.fromkeys(("NULLABLE_STRING", "COMPACT_NULLABLE_STRING", "NULLABLE_BYTES", "COMPACT_NULLABLE_BYTES")),
    **{"RECORDS": None, "COMPACT_RECORDS": None, "TAGGED_FIELDS": (), "RECORD": RECORD, "RECORD_BATCH": BATCH},
    **{"CONTROL_RECORD": {"version": 0, "type": 0}, "LOG": {"batches": (), "partial": 0}, "MESSAGE_SET": ()},
    **dict.fromkeys(NESTED),
}


@pytest.mark.parametrize("name", [*codec.TYPES, *NESTED])
def test_the_smallest_value_of_each_type(name):
    assert smallest(from_type(name)) == SMALLEST[name]


@pytest.mark.parametrize(
    ("strategy", "condition", "found"),
    [
        (int8s(), lambda value: value > 100, 101),
        (int16s(max_value=-5), lambda _: True, -5),
        (uint16s(min_value=5), lambda _: True, 5),
        (varints(), lambda value: value < -64, -65),
        (varlongs(), lambda value: value >= 1 << 34, 1 << 34),
        (int64s(), lambda value: value < -(1 << 62), -(1 << 62) - 1),
        (float64s(), bool, 0x3FF0_0000_0000_0000),
        (float64s(), lambda bits: bits > 0x7FF0_0000_0000_0000 and bits >> 63 == 0, 0x7FF8_0000_0000_0000),
        (strings(), lambda text: len(text) > 3, "0000"),
        (strings(), lambda text: not text.isascii(), "\x80"),
        (compact_strings(), lambda text: len(text.encode()) > 126, "0" * 127),
        (compact_nullable_strings(), lambda text: text is not None, ""),
        (compact_byte_strings(), lambda data: len(data) > 126, bytes(127)),
        (records_fields(), lambda data: data is not None, b""),
        (tagged_fields(), lambda fields: len(fields) > 1, ({"tag": 0, "data": b""}, {"tag": 1, "data": b""})),
        (tagged_fields(), lambda fields: any(field["data"] for field in fields), ({"tag": 0, "data": b"\0"},)),
        (arrays(int32s()), lambda found: found is not None, ()),
        (arrays(int32s()), lambda found: sum(found or ()) > 300, (301,)),
        (compact_arrays(int32s()), lambda found: len(found or ()) > 126, (0,) * 127),
        (headers(), lambda _: True, {"key": "", "value": None}),
        (headers(), lambda header: header["value"], {"key": "", "value": b"\0"}),
        (
            records(),
            lambda record: record["headers"],
            {**RECORD, "length": 8, "headers": ({"key": "", "value": None},)},
        ),
        (records(), lambda record: len(record["key"] or b"") > 63, {**RECORD, "length": 71, "key": bytes(64)}),
        (control_records(), lambda marker: marker["type"], {"version": 0, "type": 1}),
    ],
)
def test_each_strategy_shrinks_to_its_stated_value(strategy, condition, found):
    assert smallest(strategy, condition) == found


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_a_string_of_the_largest_size_shrinks_to_zero_characters():
    assert smallest(strings(), lambda text: len(text.encode()) == 32767) == "0" * 32767


def stripped(batch):
    """Return the fields of a batch that differ from the smallest one, without checksum and lengths."""
    left_out = {"crc", "batchLength", "attributes", "records"}
    return {name: value for name, value in batch.items() if name not in left_out and value != BATCH[name]}


@pytest.mark.parametrize(
    ("strategy", "condition", "unlike", "offsets"),
    [
        (record_batches(codec="zstd"), lambda _: True, {"compression": 4}, [0]),
        (record_batches(), lambda b: b["recordCount"] > 1, {"lastOffsetDelta": 1, "recordCount": 2}, [0, 1]),
        (
            record_batches(),
            lambda b: b["lastOffsetDelta"] > 63,
            {"lastOffsetDelta": 64, "recordCount": 65},
            [*range(65)],
        ),
        (
            record_batches(),
            lambda b: b["isTransactional"],
            {"isTransactional": True, "producerId": 0, "producerEpoch": 0, "baseSequence": 0},
            [0],
        ),
        (record_batches(), lambda b: b["timestampType"], {"timestampType": 1}, [0]),
        (gapped_batches(), lambda _: True, {"recordCount": 0}, []),
        (gapped_batches(), lambda b: b["hasDeleteHorizonMs"], {"hasDeleteHorizonMs": True, "recordCount": 0}, []),
        (
            gapped_batches(),
            # Timestamps -1 (no timestamp) and 0 are equally small: the constants that Hypothesis finds in the code
            # decide which one comes first.
            lambda b: b["records"] and b["records"][-1]["offsetDelta"] >= b["recordCount"] and b["baseTimestamp"] >= 0,
            {"lastOffsetDelta": 1},
            [1],
        ),
        (
            control_batches(),
            lambda _: True,
            {"isTransactional": True, "isControlBatch": True, "producerId": 0, "producerEpoch": 0},
            [0],
        ),
    ],
)
def test_a_batch_shrinks_to_its_stated_differences(strategy, condition, unlike, offsets):
    batch = smallest(strategy, condition)
    assert stripped(batch) == unlike
    assert [record["offset"] for record in batch["records"]] == offsets
    assert all(record["headers"] == () and record["timestamp"] == 0 for record in batch["records"])


def test_a_batch_without_a_base_timestamp_has_no_delete_horizon(monkeypatch):
    first(gapped_batches(min_size=1), lambda batch: batch["hasDeleteHorizonMs"])  # fills the caches
    usual = batch_strategies._from
    timeless = lambda low, field: st.just(-1) if field == "baseTimestamp" else usual(low, field)  # noqa: E731
    monkeypatch.setattr(batch_strategies, "_from", timeless)
    seen = set()

    @settings(QUIET, max_examples=50)
    @given(gapped_batches())
    def look(batch):
        seen.add((batch["baseTimestamp"], batch["hasDeleteHorizonMs"]))

    look()
    assert seen == {(-1, False)}


def test_two_batches_in_a_log_shrink_to_empty_neighbours():
    batches = smallest(logs(magics=(2,)), lambda log: len(log["batches"]) == 2)["batches"]
    assert [stripped(batch) for batch in batches] == [{"recordCount": 0}, {"baseOffset": 1, "recordCount": 0}]


def test_a_producers_record_in_a_log_shrinks_to_the_smallest_batch():
    def holds_one(log):
        return any(batch["records"] and not batch["isControlBatch"] for batch in log["batches"])

    assert smallest(logs(magics=(2,)), holds_one)["batches"] == (BATCH,)


def test_a_wrapper_shrinks_to_one_message_without_content():
    plain = {"offset": 0, "magic": 0, "key": None, "value": None}
    assert smallest(wrappers()) == {"magic": 0, "offset": 0, "compression": 1, "messages": (plain,)}
    timed = {"offset": 0, "magic": 1, "timestamp": 0, "timestampType": 0, "key": None, "value": None}
    found = smallest(wrappers(magic=1, codec="lz4"), lambda entry: len(entry["messages"]) > 1)
    assert found["messages"] == (timed, {**timed, "offset": 1})


def test_messages_in_a_log_shrink_to_one_without_content():
    log = smallest(logs(magics=(0, 1)), lambda log: log["batches"])
    plain = {"offset": 0, "magic": 0, "key": None, "value": None}
    assert log["batches"] == ({"magic": 0, "offset": 0, "compression": 0, "messages": (plain,)},)


def test_transactions_shrink_to_an_empty_log_and_an_aborted_one_to_a_batch_and_its_marker():
    assert smallest(transactions()) == {"log": {"batches": (), "partial": 0}, "aborted": ()}
    found = smallest(transactions(), lambda found: found["aborted"])
    assert found["aborted"] == ({"producerId": 0, "firstOffset": 0},)
    assert [(b["baseOffset"], b["producerId"], b["isControlBatch"]) for b in found["log"]["batches"]] == [
        (0, 0, False),
        (1, 0, True),
    ]


def test_a_fetch_shrinks_to_one_record_without_a_producer():
    found = smallest(fetches())
    assert found["log"]["batches"] == (BATCH,)
    assert [record["offset"] for record in found["records"]] == [0]
    assert (found["isolation"], found["fetchOffset"], found["nextOffset"]) == ("read_uncommitted", 0, 1)


def test_fetches_with_hidden_aborted_and_visible_records_are_drawn():
    found = first(fetches(), lambda fetch: fetch["aborted"] and fetch["records"])
    assert found["isolation"] == "read_committed"


def test_pairs_shrink_as_their_values_do():
    assert smallest(encoded("VARINT"), lambda pair: len(pair[1]) > 2) == (8192, b"\x80\x80\x01")


# --- hostile bytes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*codec.TYPES, *NESTED])
def test_the_reference_answers_all_hostile_bytes(name):
    answers = set()

    def ask(data):
        read = codec.decode(name, data)
        assert 0 <= read.consumed <= len(data)
        assert (read.value is None) or read.ok
        answers.add(read.violations[0].requirement if read.violations else "")

    settings(QUIET, max_examples=60)(given(hostile(name))(ask))()
    assert answers - {""}


def breaking(name, requirement):
    return lambda data: [found.requirement for found in codec.decode(name, data).violations[:1]] == [requirement]


@pytest.mark.parametrize(
    ("name", "requirement", "found"),
    [
        ("INT32", "int.truncated-rejected", ""),
        ("VARINT", "varint.max-five-bytes", "808080808000"),
        ("VARINT", "varint.truncated-rejected", ""),
        ("STRING", "string.null-rejected", "ffff"),
        ("STRING", "string.truncated-rejected", "0001"),
        ("COMPACT_STRING", "compact-string.null-rejected", "00"),
    ],
)
def test_hostile_bytes_shrink_to_the_stated_minimum(name, requirement, found):
    assert smallest(hostile(name), breaking(name, requirement)).hex() == found


def test_one_tag_twice_shrinks_to_little_more_than_the_two_fields():
    # The minimum 02000000 needs two smaller tags in one step, which Hypothesis tries only for some draws.
    assert len(smallest(hostile("TAGGED_FIELDS"), breaking("TAGGED_FIELDS", "tagged.duplicate-rejected"))) <= 8


@pytest.mark.parametrize(
    "requirement", ["crc.mismatch-corrupt", "batch.record-count-mismatch", "record.length-mismatch-rejected"]
)
def test_hostile_batches_break_the_intended_requirements(requirement):
    batches = hostile("RECORD_BATCH", values=record_batches(max_size=2))
    assert first(batches, breaking("RECORD_BATCH", requirement))


def test_hostile_batches_damage_compressed_records_under_a_correct_checksum():
    def inside(data):
        read = codec.decode("RECORD_BATCH", data)
        return any(found.layer for found in read.violations) and len(read.violations) == 1

    batches = record_batches(codec="lz4", max_size=2)
    assert first(hostile("RECORD_BATCH", values=batches), inside)


# --- arguments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: int8s(max_value=128), ValueError, "min_value -128 to max_value 128 is not a range within -128 to 127"),
        (lambda: varints(min_value=2, max_value=1), ValueError, "min_value 2 to max_value 1"),
        (lambda: int32s(min_value="1"), TypeError, "min_value must be an int, not '1'"),
        (lambda: int32s(max_value=True), TypeError, "max_value must be an int"),
        (lambda: int8s(1), TypeError, "positional"),
        (lambda: strings(max_size=32768), ValueError, "max_size 32768 is above the type's limit of 32767"),
        (lambda: strings(min_size=-1), ValueError, "min_size -1"),
        (lambda: tagged_fields(min_size=2, max_size=1), ValueError, "min_size 2 to max_size 1"),
        (lambda: arrays("INT32"), TypeError, "element must be a strategy, not 'INT32'"),
        (lambda: arrays(int8s(), max_size=1.5), TypeError, "max_size must be an int"),
        (lambda: record_batches(codec="brotli"), ValueError, "codec must be one of none, gzip, snappy, lz4, zstd"),
        (lambda: record_batches(min_size=0), ValueError, "a batch is written with records"),
        (lambda: gapped_batches(codec=1), ValueError, "codec must be one of"),
        (lambda: logs(max_size=-1), ValueError, "max_size -1"),
        (lambda: logs(magics=(3,)), ValueError, "magics must be some of 0, 1, 2"),
        (lambda: logs(magics=1), TypeError, "magics must be a collection"),
        (lambda: message_sets(magic=2), ValueError, "magics must be some of 0, 1"),
        (lambda: wrappers(codec="zstd"), ValueError, "codec must be one of gzip, snappy, lz4"),
        (lambda: wrappers(min_size=0), ValueError, "a wrapper is written with messages"),
        (lambda: fetches(isolation="dirty"), ValueError, "isolation must be one of read_uncommitted, read_committed"),
        (lambda: fetches(min_size=0), ValueError, "a fetch returns a batch"),
        (lambda: from_type("INT7"), codec.UnknownType, "unknown type 'INT7'"),
        (lambda: from_type("ARRAY<LOG>"), codec.UnknownType, "cannot be an array element"),
        (lambda: from_type(8), TypeError, "expected a type or the name of a type, not 8"),
        (lambda: encoded("INT7"), codec.UnknownType, "INT7"),
        (lambda: encoded("INT8", values=[1]), TypeError, "values must be a strategy"),
        (lambda: hostile("ARRAY<X>"), codec.UnknownType, "X"),
        (lambda: hostile(st.integers()), TypeError, "expected a type or the name of a type"),
    ],
)
def test_a_wrong_argument_is_rejected_at_the_call(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()


# --- in a user's folder -------------------------------------------------------------------------------


def test_the_example_in_the_docs_passes_in_a_fresh_process_and_leaves_no_file(tmp_path):
    page = (ROOT / "docs" / "strategies.md").read_text(encoding="utf-8")
    folder, packages = tmp_path / "mine", tmp_path / "site-packages"
    folder.mkdir()
    packages.mkdir()
    # Hypothesis treats a package in a checkout as the user's own module, but not an installed one.
    (packages / "conformance").symlink_to(Path(conformance.__file__).parent)
    (folder / "test_mine.py").write_text(re.search(r"test_mine.py -->\n```python\n(.*?)```", page, re.DOTALL)[1])
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    env = {**os.environ, "PYTHONPATH": str(packages)}
    env.pop("HYPOTHESIS_STORAGE_DIRECTORY", None)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert [path.name for path in folder.iterdir()] == ["test_mine.py"]


def test_the_package_imports_no_hypothesis_before_a_strategy_is_used():
    program = "import sys, conformance.strategies; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_primitive_without_its_own_strategy_is_drawn_too():
    number = WireType("UINT24", lambda _: 0, lambda value: value.to_bytes(3, "big"), NUMBER, 3, (0, 1, (1 << 24) - 1))
    assert smallest(from_type(number), lambda value: value > 1000) == 1001
    roman = Notation("a Roman numeral", str, str)
    numeral = WireType("ROMAN", lambda _: "", lambda text: text.encode(), roman, 1, ("I", "IV", "MMM"))
    assert smallest(from_type(numeral), lambda value: value != "I") == "IV"
    assert smallest(encoded(numeral)) == ("I", b"I")
