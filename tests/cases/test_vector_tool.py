"""`conformance vectors check` and `fix`."""

import pytest

from conformance import codec
from conformance.catalog.vector_files import VECTORS, read_vectors, vector_files
from conformance.catalog.vector_formatter import check, fix, recomputed
from conformance.errors import FileError

PLAIN = (
    "00000000000000000000004cffffffff02fcfd243900000000000200000000000003e800000000000003f2ffffffffffffffffffffffffffff"
    "0000000310000000026b02760010000a02026b02760010001404026b027600"
)


@pytest.mark.parametrize("path", vector_files(VECTORS), ids=lambda path: path.stem)
def test_the_bundled_vectors_are_in_order(path):
    assert list(check(path)) == []


@pytest.mark.parametrize("path", vector_files(VECTORS), ids=lambda path: path.stem)
def test_the_bundled_vectors_are_formatted(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    assert not fix(copy)


def problems(tmp_path, text):
    path = tmp_path / "v.yaml"
    path.write_text(text)
    return [str(problem) for problem in check(path)]


@pytest.mark.parametrize(
    "row, message",
    [
        ('{id: a/b, type: VARINT, requirement: varint.range, value: 1, hex: "00"}', "not the bytes that an encoder"),
        ('{id: a/b, type: VARINT, requirement: varint.range, value: 1, hex: "8000", canonical: false}', "use `either`"),
        (
            '{id: a/b, type: VARINT, requirement: varint.range, hex: "00", reject: malformed}',
            "do not require a rejection of these bytes",
        ),
        ('{id: a/b, type: STRING, requirement: string.layout, value: "b", hex: "000161", canonical: false}', "another"),
        (
            '{id: a/b, type: VARINT, requirement: varint.range, hex: "8000", either: [reject, {value: 1}]}',
            "is not in the list",
        ),
        ('{id: a/b, type: STRING, requirement: string.layout, value: "b", hex: "ffff", canonical: false}', "rejects"),
        (
            '{id: a/b, type: INT16, requirement: int16.layout, value: 0, hex: "000001", canonical: false}',
            "consumed: expected 2",
        ),
    ],
)
def test_a_vector_that_contradicts_the_reference_is_named_with_its_line(tmp_path, row, message):
    found = problems(tmp_path, f"# a comment\n- {row}\n")
    assert any(message in problem for problem in found)
    assert all("v.yaml:2: a/b" in problem for problem in found)


def test_a_duplicate_id_is_named_in_the_error(tmp_path):
    row = '- {id: a/b, type: VARINT, requirement: varint.range, value: 0, hex: "00"}\n'
    assert any("another vector of the file has this id" in problem for problem in problems(tmp_path, row * 2))


BATCH = f"""type: RECORD_BATCH
vectors:
  # what this file is about
  - id: a/b
    requirement: batch.base-offset
    value: {{baseOffset: "7"}}
    hex:
      - "{7:016x} 00000000 {PLAIN[24:34]} 00000000"   # the prefix
      - "{PLAIN[42:]}"
    recompute: [batchLength, crc]
"""


def test_fix_recomputes_lengths_and_checksums_on_request_and_keeps_comments(tmp_path):
    path = tmp_path / "v.yaml"
    path.write_text(BATCH)
    assert problems(tmp_path, BATCH) != []
    assert fix(path)
    assert list(check(path)) == []
    after = path.read_text()
    assert "# what this file is about" in after
    assert "# the prefix" in after
    data = next(read_vectors(path)).data
    assert codec.decode("RECORD_BATCH", data).value["baseOffset"] == 7
    assert not fix(path)


def test_fix_quotes_scalars_that_yaml_would_convert(tmp_path):
    path = tmp_path / "v.yaml"
    path.write_text("- {id: a/b, type: STRING, requirement: string.layout, value: no, hex: 00026e6f}\n")
    assert any("no" in str(problem) for problem in check(path))
    fix(path)
    assert list(check(path)) == []
    assert next(read_vectors(path)).row["value"] == "no"


def test_recomputing_a_correct_batch_changes_nothing():
    data = bytes.fromhex(PLAIN)
    assert recomputed(data, ["batchLength", "crc"]) == data


def test_recomputing_short_bytes_changes_nothing():
    assert recomputed(b"\0" * 7, ["batchLength", "crc"]) == b"\0" * 7


def test_fix_rejects_a_file_in_utf_16(tmp_path):
    """libyaml reads it, so `check` accepts it; the formatter writes UTF-8."""
    path = tmp_path / "v.yaml"
    path.write_bytes("- {id: a/b, type: VARINT, requirement: varint.range, value: 0, hex: '00'}\n".encode("utf-16"))
    with pytest.raises(FileError, match="expected UTF-8"):
        fix(path)
