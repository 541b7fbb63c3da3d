"""`conformance vectors check|fix`: checks vector files with the reference, formats them, and recomputes checksums."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from conformance import codec
from conformance.cases.model import Case, ExpectAnyOf, ExpectBytes, ExpectRejection, ExpectValue, Value
from conformance.cases.requirement import Requirement
from conformance.catalog._vector_cases import make_cases
from conformance.catalog.vector_files import VECTORS, Vector, hex_pieces, read_requirements, read_vectors
from conformance.codec.record_batch import OVERHEAD, stored_size, with_checksums
from conformance.errors import FileError
from conformance.files.atomic import replace_text
from conformance.files.yaml_loader import content_of, in_file, misread

# --- check --------------------------------------------------------------------------------------------


@cache
def _register() -> dict[str, Requirement]:
    """Return the requirements; cached, because reading them takes as long as the check of one vector file."""
    return read_requirements(VECTORS / "requirements.yaml")


def check(path: Path) -> Iterator[FileError]:
    """Yield all errors in a vector file, with path and line."""
    requirements = _register()
    seen: set[str] = set()
    try:
        vectors = list(read_vectors(path))
    except FileError as error:
        yield error
        return
    for vector in vectors:
        if vector.id in seen:
            yield vector.error("another vector of the file has this id already")
        seen.add(vector.id)
        try:
            for case in make_cases(vector, requirements):
                yield from _compare(vector, case)
            yield from _stale_fields(vector)
        except FileError as error:
            yield error


def _compare(vector: Vector, case: Case) -> Iterator[FileError]:
    """Yield the differences between a decode case and the result of the reference."""
    if case.op != "decode" or case.data is None:
        return
    read = codec.decode(case.wire, case.data)
    match case.expect:
        case ExpectValue(value, consumed):
            yield from _compare_value(vector, read, value, consumed)
        case ExpectRejection():
            if not any(not violation.open for violation in read.violations):
                yield vector.error("reject: the documents do not require a rejection of these bytes: use `either`")
        case ExpectAnyOf(readings) if readings and read.ok:
            if not any(_is_reading(case, reading, read) for reading in readings):
                yield vector.error("either: the reference reads a value that is not in the list")
        case ExpectAnyOf(readings) if readings and not any(
            isinstance(reading, ExpectRejection) for reading in readings
        ):
            yield vector.error(
                f"either: the reference rejects these bytes, so the list needs `reject`: {read.violations[0]}"
            )


def _compare_value(vector: Vector, read: codec.DecodeResult, value: Value, consumed: int | None) -> Iterator[FileError]:
    if not read.ok:
        yield vector.error(f"the reference rejects these bytes: {read.violations[0]}")
    elif read.remarks:
        yield vector.error(f"the documents do not define the result for these bytes: use `either`: {read.remarks[0]}")
    elif not vector.wire.notation.same(value, read.value):
        yield vector.error("value: the reference reads another value")
    elif consumed != read.consumed:
        yield vector.error(f"consumed: expected {read.consumed}, the number of bytes that the reference reads")


def _is_reading(case: Case, reading: ExpectValue | ExpectRejection | ExpectBytes, read: codec.DecodeResult) -> bool:
    if not isinstance(reading, ExpectValue):
        return False
    return case.wire.notation.same(reading.value, read.value) and reading.consumed in (None, read.consumed)


def _stale_fields(vector: Vector) -> Iterator[FileError]:
    """Yield an error if a field in the `recompute` list does not have its correct value."""
    wanted = _recomputed_fields(vector)
    if wanted and vector.data is not None and recomputed(vector.data, wanted) != vector.data:
        yield vector.error(f"{' and '.join(wanted)} would change when recomputed: run `conformance vectors fix`")


# --- recompute ----------------------------------------------------------------------------------------

_RECOMPUTED = ("batchLength", "crc")


def _recomputed_fields(vector: Vector) -> list[str]:
    wanted = vector.row.get("recompute", [])
    if not isinstance(wanted, list) or not set(wanted) <= set(_RECOMPUTED):
        raise vector.error(f"recompute: expected a list of {', '.join(_RECOMPUTED)}")
    return [name for name in _RECOMPUTED if name in wanted]


def recomputed(data: bytes, wanted: list[str]) -> bytes:
    """Return the bytes with the `wanted` fields corrected: the length of all bytes, the checksum of the first batch."""
    if "batchLength" in wanted:
        data = with_checksums(data, crc=False)
    if "crc" in wanted and len(data) >= OVERHEAD:
        length = stored_size(data)
        stop = OVERHEAD + length if 0 < length <= len(data) - OVERHEAD else len(data)
        data = with_checksums(data[:stop], length=False) + data[stop:]
    return data


# --- fix ----------------------------------------------------------------------------------------------


def fix(path: Path) -> bool:
    """Format a file, quote scalars that YAML misreads, and recompute fields. Return True if the file changed.

    Comments and the order stay. Raises FileError for errors that only a person can correct.
    """
    try:
        before = content_of(path).decode("utf-8-sig")
    except UnicodeDecodeError:  # libyaml also reads UTF-16, which the formatter would rewrite as UTF-8
        raise FileError(path, "expected UTF-8") from None
    path_text = _quoted(path, before)
    try:
        document = _round_trip().load(path_text)
    except (YAMLError, ValueError) as error:
        raise FileError(path, "not YAML: " + " ".join(str(error).split())[:200]) from None
    rows = document.get("vectors") if isinstance(document, CommentedMap) else document
    for row in rows if isinstance(rows, CommentedSeq) else ():
        _fix_row(path, row)
    stream = io.StringIO()
    _round_trip().dump(document, stream)
    after = stream.getvalue()
    if after != before:
        replace_text(path, after)
    return after != before


def _round_trip() -> YAML:
    form = YAML(typ="rt")
    form.width = 1 << 20
    form.preserve_quotes = True
    form.brace_single_entry_mapping_in_flow_sequence = True
    form.representer.add_representer(type(None), _write_null)
    form.indent(mapping=2, sequence=4, offset=2)
    return form


def _write_null(representer: Any, _: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")


def _quoted(path: Path, text: str) -> str:
    """Return the text with quotes around every unquoted scalar that YAML would misread."""
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise in_file(path, error) from None
    marks = sorted((node.start_mark.index, node.end_mark.index) for node in _plain_scalars(root))
    for start, stop in reversed(marks):
        text = f'{text[:start]}"{text[start:stop]}"{text[stop:]}'
    return text


def _plain_scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """Yield the unquoted scalars of a node that YAML misreads, such as `no` (a boolean)."""
    if isinstance(node, yaml.ScalarNode):
        if not node.style and node.tag != "tag:yaml.org,2002:str" and misread(node.tag, node.value):
            yield node
    elif isinstance(node, yaml.SequenceNode):
        for entry in node.value:
            yield from _plain_scalars(entry)
    elif isinstance(node, yaml.MappingNode):
        for key, entry in node.value:
            yield from _plain_scalars(key)
            yield from _plain_scalars(entry)


def _fix_row(path: Path, row: object) -> None:
    if not isinstance(row, CommentedMap):
        return
    if "hex" in row and row.get("recompute"):
        try:
            pieces = hex_pieces(row["hex"])
            data = b"".join(bytes.fromhex(digits) * times for times, digits in pieces)
        except ValueError as error:
            raise FileError(path, f"{row.get('id')}: hex: {error}", row.lc.line + 1) from None
        _write_back(row, recomputed(data, [name for name in _RECOMPUTED if name in row["recompute"]]))
    for key in ("hex", "note"):
        if isinstance(row.get(key), str):
            row[key] = DoubleQuotedScalarString(row[key])


def _write_back(row: CommentedMap, data: bytes) -> None:
    """Replace the hex digits of a row; its pieces, spaces and repeat counts stay."""
    if isinstance(row["hex"], str):
        row["hex"] = _with_digits(row["hex"], data)
        return
    pieces: CommentedSeq = row["hex"]
    at = 0
    for index, (times, digits) in enumerate(hex_pieces(list(pieces))):
        size = len(bytes.fromhex(digits))
        if isinstance(pieces[index], str):
            pieces[index] = DoubleQuotedScalarString(_with_digits(digits, data[at : at + size]))
        at += size * times


def _with_digits(digits: str, data: bytes) -> str:
    fresh = iter(data.hex())
    return "".join(c if c.isspace() else next(fresh) for c in digits)
