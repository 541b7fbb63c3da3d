"""The benchmark of damaged batches counts each one, and reports each broken bound with its bytes."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from conformance import codec

pytestmark = pytest.mark.integration

BENCHMARK = Path(__file__).parent.parent.parent / "benchmarks" / "hostile.py"


@pytest.fixture(scope="module")
def hostile():
    spec = importlib.util.spec_from_file_location("hostile", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules["hostile"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def unhurried(hostile, monkeypatch):
    """Return the benchmark without its time bound, which a busy machine may exceed."""
    monkeypatch.setattr(hostile, "SLOWEST", 3600.0)
    return hostile


@pytest.fixture
def planted(hostile, monkeypatch):
    """Return a function that adds a fault before each decode of a batch with a certain codec."""
    monkeypatch.setattr(hostile, "_WARM_UP", 0)  # only the measurement of process growth needs a warm-up
    decode = codec.decode

    def add_fault(number, fault):
        def planted(name, data, **how):
            if len(data) > 22 and data[22] & 7 == number and not how:
                fault()
            return decode(name, data, **how)

        monkeypatch.setattr(codec, "decode", planted)

    return add_fault


@pytest.mark.parametrize("name", ["RECORD_BATCH", "MESSAGE_SET", "LOG"])
def test_every_value_is_counted_by_its_mutation_within_all_bounds(unhurried, capsys, name):
    assert unhurried.main(["--type", name, "--count", "300"]) == 0
    output = capsys.readouterr().out
    rows = {
        line.split()[0]: [int(number) for number in line.split()[1:]]
        for line in output.partition("\n\n")[0].splitlines()[1:]
    }
    assert rows["all"][0] == sum(rows["all"][1:]) == 300
    assert sum(row[0] for name, row in rows.items() if name != "all") == 300
    assert rows["cut"][2] > 0
    assert rows["checksum-broken"][2] == rows["checksum-broken"][0] > 0
    assert "exceptions other than violations: 0\n" in output


def test_batches_have_every_codec_stored_and_compressed(hostile):
    found = {
        (index % 2, batch.data[22] & 7)
        for index, batch in enumerate(hostile.damaged("RECORD_BATCH", 300, 0))
        if batch.data[22:]
    }
    assert found >= {(way, number) for way in (0, 1) for number in range(5)}


def test_wrappers_have_every_codec_stored_and_compressed(hostile):
    sets = [found.data for found in hostile.damaged("MESSAGE_SET", 600, 0)]
    found = {(index % 2, data[17] & 7) for index, data in enumerate(sets) if len(data) > 17 and data[16] == 1}
    assert found >= {(way, number) for way in (0, 1) for number in range(4)}


def test_an_exception_is_reported_with_its_bytes(unhurried, planted, capsys):
    def fault():
        raise IndexError("planted")

    planted(4, fault)
    assert unhurried.main(["--count", "60"]) == 1
    output = capsys.readouterr().out
    offenders = re.findall(r"^hostile/0/\d+ \([a-z-]+\) raised IndexError: planted: ([0-9a-f]+)$", output, re.MULTILINE)
    assert offenders
    assert all(bytes.fromhex(data)[22] & 7 == 4 for data in offenders)
    assert f"exceptions other than violations: {len(offenders)}\n" in output


def test_memory_beyond_the_bound_is_reported(unhurried, planted, capsys):
    planted(4, lambda: bytearray(unhurried.LARGEST + 1))
    assert unhurried.main(["--count", "60"]) == 1
    assert re.search(
        r"^hostile/0/\d+ \([a-z-]+\) allocated [0-9,]+ bytes: [0-9a-f]+$", capsys.readouterr().out, re.MULTILINE
    )


def test_time_beyond_the_bound_is_reported(hostile, monkeypatch, capsys):
    monkeypatch.setattr(hostile, "SLOWEST", 0.0)
    monkeypatch.setattr(hostile, "_WARM_UP", 0)
    assert hostile.main(["--count", "3"]) == 1
    assert len(re.findall(r"\) took [0-9.]+ ms: [0-9a-f]+$", capsys.readouterr().out, re.MULTILINE)) == 3
