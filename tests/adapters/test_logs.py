"""The Python adapters with the real libraries: their answers on logs and message sets match the library."""

import pytest

from conformance.cases.model import Accepted, Unsupported
from conformance.targets.protocol import body
from conformance.targets.resolve import adapters, resolve
from conformance.targets.session import TargetSession

pytestmark = pytest.mark.integration

HEADER = "ffffffffffffffff" + "ffff" + "ffffffff"  # no producer
V0 = "0000000000000000000000101fecd70a0000000000016b0000000176"
V1 = "000000000000000000000018e4e321bc010000000000000003e8000000016b0000000176"
# Offsets 0 to 2, timestamps 1000, 1005, 1010.
THREE = (
    "00000000000000000000004cffffffff02fcfd243900000000000200000000000003e800000000000003f2" + HEADER + "00000003"
    "10000000026b02760010000a02026b02760010001404026b027600"
)
FOURTH = "0000000000000003" + "0000003affffffff02%s00000000000000000000000003e800000000000003e8" + HEADER + "00000001"
SOUND, DAMAGED = (FOURTH % crc + "10000000026b027600" for crc in ("716a6189", "716a6188"))
UNSTAMPED = "000000000000000000000018b82b07240100ffffffffffffffff000000016b0000000176"
# Producer 7: one record at offset 0, and the marker that aborts it at offset 1.
ABORTED = (
    "00000000000000000000003bffffffff02472559e800100000000000000000000003e800000000000003e8000000000000000700000000"
    "00000000000112000000026b04743700"
    "000000000000000100000042ffffffff02186cde0100300000000000000000000003e800000000000003e800000000000000070000ffff"
    "ffff000000012000000008000000000c00000000000100"
)


@pytest.fixture(scope="module", params=["kafka-python", "aiokafka", "aiokafka-pure"])
def ask(request):
    """Return a function that sends one request to an adapter."""
    lacking = adapters()[request.param].missing()
    if lacking:
        pytest.skip(f"{request.param} lacks {', '.join(lacking)}")
    with TargetSession(resolve(request.param)) as session:
        yield lambda **request: next(iter(session.ask([body(request)])))


@pytest.fixture
def read(ask):
    """Return a function that reads a log: records as (offset, timestamp, timestamp type), next offset, error."""

    def call(log, isolation="read_uncommitted", fetched="0", aborted=(), **more):
        listed = [{"producerId": str(producer), "firstOffset": str(first)} for producer, first in aborted]
        parts = {"isolation": isolation, "fetchOffset": fetched, "highWatermark": "9", "aborted": listed, **more}
        value = ask(op="read", hex=log, **parts).answer["value"]
        assert all((record["key"], record["headers"]) == ("6b", []) for record in value["records"])
        seen = [
            (int(record["offset"]), int(record["timestamp"]), record.get("timestampType"))
            for record in value["records"]
        ]
        return seen, int(value["nextOffset"]), value.get("error")

    return call


FIRST_THREE = [(0, 1000, "CreateTime"), (1, 1005, "CreateTime"), (2, 1010, "CreateTime")]


def test_a_read_starts_at_its_offset_and_ends_before_the_cut_entry(read):
    assert read(THREE + SOUND[:-2], fetched="1") == (FIRST_THREE[1:], 3, None)


def test_records_before_damage_are_returned_with_the_error(read):
    assert read(THREE + DAMAGED) == (FIRST_THREE, 3, "corrupt")


def test_an_application_may_disable_checksum_verification(read):
    assert read(THREE + DAMAGED, checkCrcs=False) == ([*FIRST_THREE, (3, 1000, "CreateTime")], 4, None)


@pytest.mark.parametrize(
    ("isolation", "seen"), [("read_committed", []), ("read_uncommitted", [(0, 1000, "CreateTime")])]
)
def test_an_aborted_record_is_visible_with_read_uncommitted(isolation, seen, read):
    assert read(ABORTED, isolation, aborted=[(7, 0)]) == (seen, 2, None)


def test_without_an_aborted_list_no_record_is_hidden(read):
    assert read(ABORTED, "read_committed") == ([(0, 1000, "CreateTime")], 2, None)


def test_a_message_of_magic_1_shows_its_timestamp_and_type(read):
    assert read(V1) == ([(0, 1000, "CreateTime")], 1, None)


@pytest.mark.parametrize(("log", "kind"), [(V0, "NoTimestampType"), (UNSTAMPED, "CreateTime")])
def test_an_adapter_invents_no_timestamp_type_for_magic_0(log, kind, read):
    """aiokafka's C extension returns None for both, so the adapter omits them; a shown value must be correct."""
    ([(offset, timestamp, shown)], *ended) = read(log)
    assert (offset, timestamp, ended) == (0, -1, [1, None])
    assert shown in (kind, None)


@pytest.mark.parametrize("ask", ["kafka-python"], indirect=True)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4"])
def test_a_message_set_written_by_a_library_is_read_back_unchanged(magic, compression, ask):
    stamped = {"timestamp": "1000"} if magic else {}
    given = [{"offset": str(offset), **stamped, "key": "6b", "value": "76" * 100} for offset in range(3)]
    written = ask(op="encode", type="MESSAGE_SET", magic=magic, compression=compression, value=given)
    outcome = ask(op="decode", type="MESSAGE_SET", hex=written.answer["hex"])
    assert isinstance(outcome, Accepted)
    shown = [{name: str(message[name]) for name in given[0]} for message in outcome.answer["value"]]
    assert shown == given
    size = ask(op="size", type="MESSAGE_SET", magic=magic, compression=compression, value=given)
    if compression == "none":
        assert size.answer["size"] == len(written.answer["hex"]) // 2
    else:
        assert isinstance(size, Unsupported)


@pytest.mark.parametrize("ask", ["kafka-python"], indirect=True)
@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_has_no_message_set(magic, ask):
    refused = ask(op="encode", type="MESSAGE_SET", magic=magic, compression="zstd", value=[])
    assert refused.error == "unsupported-codec"
