"""Batches as columns: verdict and values equal those of the reference."""

import importlib.util
import random
import subprocess
import sys

import pytest

from conformance import codec
from conformance.codec.record_batch import with_checksums
from conformance.strategies.seeded.generator import choices_of, generate
from conformance.strategies.seeded.mutations import mutate

pytestmark = pytest.mark.integration

np = pytest.importorskip("numpy")
kernels = pytest.importorskip("conformance.pipeline.audit.record_kernels")
read_batch = pytest.importorskip("conformance.pipeline.audit.batch_columns").read_batch

COUNT = 1500
kernels.compile_all()  # if numba is installed; the plain functions have a separate test


def as_reference(batch):
    """Return the reference's values of the records of a clean batch."""
    header_rows = batch.headers()
    found = []
    stamps, offsets = batch.timestamps(), batch.offsets()
    deltas, places = batch.column("timestampDelta"), batch.column("offsetDelta")
    for index in range(len(batch.rows)):
        headers = []
        for row in header_rows[header_rows[:, 0] == index]:
            _, key, length, value, size = (int(row[column]) for column in range(len(kernels.HEADER_COLUMNS)))
            headers.append(
                {
                    "key": batch.plain[key : key + length].decode(),
                    "value": None if size < 0 else batch.plain[value : value + size],
                }
            )
        found.append(
            {
                "attributes": 0,
                "timestampDelta": int(deltas[index]),
                "offsetDelta": int(places[index]),
                "key": batch.field(index, "key"),
                "value": batch.field(index, "value"),
                "headers": tuple(headers),
                "offset": int(offsets[index]),
                "timestamp": int(stamps[index]),
            }
        )
    return found


def shown(value):
    return [{name: part for name, part in record.items() if name != "length"} for record in value["records"]]


def is_kafkas_own(value, remark):
    """Return True for a remark on batches of Kafka's coordinators: no producer, but a sequence."""
    nobody = value["producerId"] == value["producerEpoch"] == -1 <= value["baseSequence"]
    return remark.requirement == "non-idempotent.producer-id" and nobody and not value["isTransactional"]


def agrees(data, at=0):
    """Compare columns with the reference; return True for a clean batch."""
    batch = read_batch(data, at)
    whole = codec.decode("RECORD_BATCH", data[at:])
    assert (batch is not None) == (whole.ok and all(is_kafkas_own(whole.value, one) for one in whole.remarks)), whole
    if batch is None:
        return False
    assert batch.header._asdict() == {name: whole.value[name] for name in batch.header._fields}
    assert as_reference(batch) == shown(whole.value)
    if len(batch.rows) and not batch.header.is_log_append_time:
        assert batch.max_timestamp == max(record["timestamp"] for record in whole.value["records"])
    return True


def generated(index):
    return generate("RECORD_BATCH", choices_of("RECORD_BATCH", 7, index)).data


def test_generated_batches_are_clean_with_the_values_of_the_reference():
    assert all(agrees(generated(index)) for index in range(COUNT))


def test_mutated_batches_are_clean_exactly_if_the_reference_has_no_violation_and_remark():
    choices = choices_of("RECORD_BATCH", 8, 0)
    clean = [agrees(mutate("RECORD_BATCH", generated(index), choices)[0]) for index in range(COUNT * 2)]
    assert 0 < sum(clean) < len(clean)


def test_after_any_one_byte_change_both_verdicts_are_equal():
    # The checksum is corrected, so that only the byte is judged.
    rows = random.Random(5)
    for index in range(60):
        data = generated(index)
        for at in range(21, min(len(data), 160)):
            broken = bytearray(data)
            broken[at] = rows.choice((0x80, 0xFF, 0x00, 0x01, 0x7F, broken[at] ^ 1, broken[at] ^ 0x80))
            agrees(with_checksums(bytes(broken), length=False))


def test_a_batch_without_a_producer_may_have_a_sequence():
    data = bytearray(next(generated(at) for at in range(99) if read_batch(generated(at)).header.producerId == -1))
    data[53:57] = bytes(4)
    assert agrees(with_checksums(bytes(data)))


def test_a_batch_cut_anywhere_is_not_clean():
    data = next(generated(index) for index in range(100) if agrees(generated(index)))
    assert not any(agrees(data[:size]) for size in range(len(data)))


def test_a_batch_is_read_at_its_place_among_others():
    whole = [generated(index) for index in range(40)]
    data, at = b"".join(whole), 0
    for one in whole:
        agrees(data, at)
        at += len(one)


def test_without_numba_the_rows_are_the_same(monkeypatch):
    batches = [
        (batch, batch.headers()) for batch in map(read_batch, map(generated, range(60)))
    ]  # numba is still loaded
    monkeypatch.setitem(sys.modules, "numba", None)
    plain_spec = importlib.util.spec_from_file_location("plain_kernels", kernels.__file__)
    plain = importlib.util.module_from_spec(plain_spec)
    monkeypatch.setitem(sys.modules, "plain_kernels", plain)  # its dataclass needs it there
    plain_spec.loader.exec_module(plain)
    assert not plain.compile_all()
    for batch, expected in batches:
        rows = np.empty_like(batch.rows)
        sound = plain.records(plain.octets(batch.plain), 0, len(batch.plain), rows)
        assert sound == (len(rows), batch.header_count)
        assert (rows == batch.rows).all()
        headers = np.empty((batch.header_count, len(kernels.HEADER_COLUMNS)), np.int64)
        plain.headers(plain.octets(batch.plain), rows, headers)
        assert (headers == expected).all()
        if len(rows):
            assert plain.timestamps(rows, batch.header.baseTimestamp)[1] == batch.max_timestamp


def test_a_process_loads_numba_only_after_the_first_mebibyte_of_records():
    pytest.importorskip("numba", reason="the extra scan")
    program = """
import sys
from conformance.pipeline.audit import record_kernels as kernels
varint = kernels._varint
kernels.expect((1 << 20) - 1)
assert "numba" not in sys.modules and kernels.octets(b"a") == b"a"
kernels.expect(1)
assert "numba" in sys.modules and kernels.octets(b"a").dtype == "uint8"
assert kernels._varint is not varint and kernels.compile_all()
assert kernels._varint(kernels.octets(b"\\x02"), 0, 1) == varint(b"\\x02", 0, 1) == (1, 1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_numba_takes_no_settings_from_the_working_folder(tmp_path):
    pytest.importorskip("numba", reason="the extra scan")
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: cache\n")
    program = """
from conformance.pipeline.audit import record_kernels as kernels
assert kernels.compile_all()
kernels._varint(kernels.octets(b"\\x02"), 0, 1)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, -65, 1 << 20, (1 << 31) - 1, -(1 << 31)])
@pytest.mark.parametrize("spare", [b"", b"\xff"])
def test_a_varint_is_read_in_its_shortest_form(number, spare):
    data = codec.encode("VARINT", number)
    assert kernels._varint(kernels.octets(data + spare), 0, len(data)) == (number, len(data))


@pytest.mark.parametrize("number", [0, -1, 1 << 40, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, -(1 << 63), -(1 << 62) - 1])
def test_a_varlong_is_read_in_its_shortest_form(number):
    data = codec.encode("VARLONG", number)
    assert kernels._varlong(kernels.octets(data), 0, len(data)) == (number, len(data))


@pytest.mark.parametrize("hexed", ["", "80", "8000", "ffffffff10", "8080808080", "808080808000", "ffffffff1f"])
def test_a_cut_padded_or_too_long_varint_is_left_to_the_reference(hexed):
    data = bytes.fromhex(hexed)
    assert kernels._varint(kernels.octets(data), 0, len(data))[1] == -1


@pytest.mark.parametrize(
    "hexed", ["", "80", "8000", "ff" * 9 + "00", "ff" * 9 + "02", "ff" * 9 + "81", "80" * 10 + "00"]
)
def test_a_cut_padded_or_too_long_varlong_is_left_to_the_reference(hexed):
    data = bytes.fromhex(hexed)
    assert kernels._varlong(kernels.octets(data), 0, len(data))[1] == -1


def test_text_is_accepted_exactly_if_python_accepts_it():
    parts = (0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF)
    parts += (0xF0, 0xF1, 0xF4, 0xF5, 0xFF)
    rows = random.Random(3)
    for _ in range(20_000):
        raw = bytes(rows.choice(parts) for _ in range(rows.randint(0, 5)))
        try:
            fine = "\0" not in raw.decode()
        except UnicodeDecodeError:
            fine = False
        assert kernels._is_plain_text(kernels.octets(raw), 0, len(raw)) == fine, raw.hex()
