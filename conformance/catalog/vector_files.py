"""Reads vector files and the register of requirements, and checks their shape."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from conformance import codec
from conformance.cases.model import BASES, LEVELS
from conformance.cases.operations import OPERATIONS, WHOLE_LOG
from conformance.cases.requirement import Requirement
from conformance.codec.log import codecs_and_magics
from conformance.codec.message_spec import type_name
from conformance.codec.primitives import VARINT
from conformance.definitions.loader import parse_definition, shipped_types
from conformance.errors import FileError
from conformance.files.cache import PACKAGE
from conformance.files.yaml_mapping import YamlMapping


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector of a file, with its line."""

    id: str
    wire: codec.WireType = field(repr=False, compare=False)
    row: YamlMapping
    path: Path
    data: bytes | None
    definition: dict[str, object] | None = None
    """The definition of its message."""
    codecs: frozenset[str] = frozenset()
    """The codecs of the entries in its bytes."""
    magics: frozenset[int] = frozenset()
    """The magics of the entries in its bytes."""

    @property
    def type(self) -> str:
        """The name of its type."""
        return self.wire.name

    def error(self, problem: str) -> FileError:
        """Return an error with the vector and its line."""
        return FileError(self.path, f"{self.id}: {problem}", self.row.line)


def read_requirements(path: Path) -> dict[str, Requirement]:
    """Return the register of a file. Raises FileError with the line."""
    from conformance.files.yaml_loader import convert, load

    rows = load(path)
    register: dict[str, Requirement] = {}
    for row, one in zip(rows, convert(path, rows, list[Requirement]), strict=True):
        for name, value, known in (("level", one.level, LEVELS), ("basis", one.basis, BASES)):
            if value not in known:
                raise FileError(path, f"{one.id}: {name}: expected one of {', '.join(known)}", row.line)
        if one.id in register:
            raise FileError(path, f"{one.id}: another requirement has this id already", row.line)
        register[one.id] = one
    return register


# --- vectors ------------------------------------------------------------------------------------------

_VECTOR_KEYS = {
    *("id", "type", "requirement", "value", "hex", "reject", "either", "canonical", "consumed", "checked-fields"),
    *("recompute", "note", "found-in", "since", "source", "magic", "compression", "op"),
    *(name for op in WHOLE_LOG for name in OPERATIONS[op].names),
    *("message", "version", "body", "fixed-fields", "first-version"),
}
_TEXT_KEYS = ("id", "type", "requirement", "note", "found-in", "since", "source")
_ID = re.compile(
    r"(?!(gen|bytes|probe)/)[a-z0-9][a-z0-9_.-]*(/[A-Za-z0-9_.-]+)+\Z|"
    r"bytes/([A-Z0-9_<>]+|MESSAGE<\w+,\d+>)/[0-9a-f]{12}\Z"
)
"""The ids of vectors; generated (`gen/`), ad hoc (`bytes/TYPE/digest`) and probe cases have other ids."""


def read_vectors(path: Path, types: codec.TypeRegistry = codec.BUILT_IN) -> Iterator[Vector]:
    """Yield the vectors of a file; `types` are the known types. Raises FileError with the line."""
    from conformance.files.yaml_loader import load

    document = load(path)
    common = YamlMapping()
    if isinstance(document, YamlMapping):
        common = document
        unknown = set(document) - {"type", "source", "since", "vectors", "definitions"}
        if unknown:
            raise FileError(path, f"unknown key {sorted(unknown)[0]!r} next to `vectors`", document.line)
        document = document.get("vectors")
    if not isinstance(document, list):
        raise FileError(path, "expected a list of vectors, or a mapping with `vectors:`")
    _check_total(path, document)
    for row in document:
        yield _vector(path, row, common, types)


_MAX_HEX_BYTES = 32 * 2**20
"""The largest size of all `hex` in a file, repeats included. The bundled files have at most 3 MiB."""


def _check_total(path: Path, rows: list[object]) -> None:
    """Raise FileError if the repeats result in too many bytes, before any is expanded."""
    total = 0
    for row in rows:
        if isinstance(row, YamlMapping):
            with suppress(ValueError):  # reported when the vector is read
                total += sum(times * len(digits) // 2 for times, digits in hex_pieces(row.get("hex", [])))
            if total > _MAX_HEX_BYTES:
                raise FileError(path, f"the vectors hold more than {_MAX_HEX_BYTES >> 20} MiB in `hex`", row.line)


def _vector(path: Path, row: object, common: YamlMapping, types: codec.TypeRegistry) -> Vector:
    if not isinstance(row, YamlMapping):
        raise FileError(path, f"expected a vector (a mapping), found {row!r:.40}", common.line)
    for key in ("type", "source", "since"):
        if key in common:
            row.setdefault(key, common[key])
    name = row.get("id", "")
    _check_keys(path, row)
    kind, definition = row["type"], None
    if kind == "MESSAGE":
        kind, definition, types = _message(path, row, common, types)
    data = _bytes(path, row)
    try:
        wire = types.wire(kind)
    except codec.UnknownType as error:
        raise FileError(path, f"{name}: {error}", row.line) from None
    vector = Vector(name, wire, row, path, data, definition, *codecs_and_magics(kind, data or b""))
    if (wire is codec.REQUEST) != (row.get("op") == "send"):
        raise vector.error("type: REQUEST is the type of all `send` vectors, and of no others")
    if "op" in row:
        _check_log_keys(vector)
        return vector
    outcomes = [key for key in ("reject", "either") if key in row]
    if len(outcomes) > 1 or not ({"value", "hex"} & set(row)) or ("either" in row and "hex" not in row):
        raise vector.error("expected value and hex, hex and reject, value and reject, or hex and either")
    stated = [name for name in ("value", "hex", *outcomes) if name in row]
    if len(stated) != 2 and not (stated == ["hex"] and "consumed" in row):
        raise vector.error(
            "expected value and hex, hex and consumed, hex and reject, value and reject, or hex and either"
        )
    return vector


def _message(
    path: Path, row: YamlMapping, common: YamlMapping, types: codec.TypeRegistry
) -> tuple[str, dict[str, object] | None, codec.TypeRegistry]:
    """Return the type of a message vector, its definition, and the types with it.

    The definition is under `definitions` of the file; a shipped message needs none there.
    """
    defined = common.get("definitions", {})
    name, version = row.get("message"), row.get("version")
    if type(version) is not int:
        raise FileError(path, f"{row['id']}: version: expected a number, found {version!r}", row.line)
    if not isinstance(defined, dict) or not isinstance(name, str) or not isinstance(defined.get(name), dict):
        if isinstance(name, str) and name in shipped_types().messages:
            return type_name(name, version), None, shipped_types()
        problem = f"there is no message {name!r} under `definitions` of the file, nor among the shipped ones"
        raise FileError(path, f"{row['id']}: {problem}", row.line)
    definition = {"name": name, **defined[name]}
    message, findings = parse_definition(definition)
    if message is None or findings:
        problem = f"{findings[0].path}: {findings[0].problem}".lstrip(": ")
        raise FileError(path, f"the definition of {name}: {problem}", common.line)
    try:
        return type_name(name, version), definition, types.adding([message])
    except ValueError as error:
        raise FileError(path, str(error), common.line) from None


_COMMON_KEYS = {
    *("id", "type", "message", "version", "requirement", "op", "hex", "value", "reject", "either"),
    *("note", "found-in", "since", "source"),
}
MESSAGE_KEYS = {"body", "fixed-fields", "first-version"}
"""Keys of an `exchange` vector that makes cases for each version of a message: fields in notation, fields that keep
their value, and the first version."""


def _check_log_keys(vector: Vector) -> None:
    op = vector.row["op"]
    if op not in WHOLE_LOG:
        raise vector.error(f"op: expected one of {', '.join(WHOLE_LOG)}, found {op!r:.40}")
    unknown = set(vector.row) - _COMMON_KEYS - set(OPERATIONS[op].names) - (MESSAGE_KEYS if op == "exchange" else set())
    if unknown:
        raise vector.error(f"{sorted(unknown)[0]!r} is not a field of a {op} request")
    if op not in ("send", "exchange") and sum(key in vector.row for key in ("value", "reject", "either")) != 1:
        raise vector.error(f"expected one of value, reject and either in a vector of {op}")


def _check_keys(path: Path, row: YamlMapping) -> None:
    for key in _TEXT_KEYS:
        if key in row and not isinstance(row[key], str):
            raise FileError(path, f"{key}: expected a string, found {row[key]!r}", row.line)
    if not _ID.match(row.get("id", "")):
        raise FileError(path, f"id: expected family/words-with-dashes, found {row.get('id', '')!r}", row.line)
    for key in ("type", "requirement"):
        if key not in row:
            raise FileError(path, f"{row['id']}: {key} is missing", row.line)
    unknown = set(row) - _VECTOR_KEYS
    if unknown:
        known = ", ".join(sorted(_VECTOR_KEYS))
        raise FileError(path, f"{row['id']}: unknown key {sorted(unknown)[0]!r}, expected one of {known}", row.line)


def hex_pieces(given: object) -> list[tuple[int, str]]:
    """Return the pieces of a `hex`: the number of repeats, and the digits. Raises ValueError."""
    pieces: list[tuple[int, str]] = []
    for piece in given if isinstance(given, list) else [given]:
        if isinstance(piece, str):
            pieces.append((1, piece))
        elif isinstance(piece, dict) and set(piece) == {"repeat", "hex"} and isinstance(piece["hex"], str):
            pieces.append((_repeat_count(piece["repeat"], 1 << 24), piece["hex"]))
        elif isinstance(piece, dict) and set(piece) == {"repeat", "record"} and isinstance(piece["record"], str):
            pieces.append((1, _records(_repeat_count(piece["repeat"], 1 << 17), piece["record"])))
        else:
            raise ValueError(f"expected quoted hex digits, {{repeat, hex}} or {{repeat, record}}, found {piece!r:.40}")
    return pieces


def _repeat_count(given: object, maximum: int) -> int:
    if type(given) is not int or not 0 <= given <= maximum:
        raise ValueError(f"repeat: expected a number from 0 to {maximum}, found {given!r}")
    return given


def _records(count: int, digits: str) -> str:
    """Return the hex digits of `count` records: each with its length, and with its index instead of the `*`."""
    before, star, after = digits.partition("*")
    if not star:
        raise ValueError("record: expected hex digits with a * in the place of the offset delta")
    head, tail = bytes.fromhex(before), bytes.fromhex(after)
    bodies = (head + VARINT.encode(index) + tail for index in range(count))
    return b"".join(VARINT.encode(len(body)) + body for body in bodies).hex()


def _bytes(path: Path, row: YamlMapping) -> bytes | None:
    if "hex" not in row:
        return None
    try:
        return b"".join(bytes.fromhex(digits) * times for times, digits in hex_pieces(row["hex"]))
    except ValueError as error:
        raise FileError(path, f"{row['id']}: hex: {error}", row.line) from None


VECTORS = PACKAGE / "vectors"
"""The bundled vectors."""


def vector_files(root: Path) -> list[Path]:
    """Return the vector files in a folder (or the file itself), in order. Raises FileError if there are none."""
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise FileError(root, "this file or folder does not exist")
    files = sorted(path for path in root.rglob("*.y*ml") if path.name != "requirements.yaml")
    if not files:
        raise FileError(root, "there is no vector file (*.yaml) in this folder")
    return files
