"""The catalogue: the requirements register and the vectors, read from YAML, checked, and made into cases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conformance import codec
from conformance.cases import (
    ERRORS,
    LEVELS,
    AnyOf,
    Case,
    Expectation,
    Measures,
    Op,
    Reads,
    Refuses,
    Writes,
    WritesAs,
)
from conformance.codec.notation import UNSHOWN, Fields, ListOf, NotationError, unknown_fields
from conformance.codec.record_batch import ENCODE_FIELDS, HEADER_SIZE, OVERHEAD, RECORD_ENCODE_FIELDS
from conformance.yaml_files import FileError, Row, load

VECTORS = Path(__file__).parent / "vectors"
"""The bundled vectors."""

STRUCTURED = ("RECORD", "RECORD_BATCH", "LOG")
"""Types whose vectors state only the fields that they are about; the reference completes them from the bytes."""

LEADER_EPOCH = (12, 16)
"""Where partitionLeaderEpoch lies: outside the checksum, written by the broker, not judged in what encoders write."""

_COMPRESSIBLE = 1000
"""Bytes of records from which an encoder is expected to compress."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A row of the register: one testable statement of the documents, and how it is judged."""

    id: str
    level: str
    statement: str
    source: tuple[str, ...] = ()
    conflict: str = ""
    settled: str = ""
    why: str = ""
    upstream: str = ""
    upstream_op: str = ""
    upstream_crash: bool = False
    """Apache Kafka runs out of memory here, so a crash is disputed too."""
    testable: bool = True

    def disputed(self, op: str) -> frozenset[str]:
        """The verdicts that say nothing here, because Apache Kafka itself does not meet it in this operation."""
        if self.upstream != "differs" or self.upstream_op not in ("", op):
            return frozenset()
        return frozenset(("fail", "crash") if self.upstream_crash else ("fail",))


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector as it stands in a file, with its place."""

    id: str
    type: str
    row: Row
    path: Path
    data: bytes | None

    def error(self, problem: str) -> FileError:
        """An error that names the vector and its line."""
        return FileError(self.path, f"{self.id}: {problem}", self.row.line)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All requirements by id, all vectors, and all cases by id, in order."""

    requirements: dict[str, Requirement]
    vectors: tuple[Vector, ...]
    cases: dict[str, Case] = field(repr=False)

    def covering(self) -> dict[str, list[str]]:
        """Requirement id to the ids of its cases."""
        found: dict[str, list[str]] = {name: [] for name in self.requirements}
        for case in self.cases.values():
            found[case.requirement].append(case.id)
        return found


def read_requirements(path: Path) -> dict[str, Requirement]:
    """The register in a file. Raises FileError."""
    rows = load(path)
    if not isinstance(rows, list):
        raise FileError(path, "a list of requirements is expected")
    register: dict[str, Requirement] = {}
    for row in rows:
        if not isinstance(row, Row) or not isinstance(row.get("id"), str):
            raise FileError(path, "a requirement is a mapping with an id", getattr(row, "line", 0))
        if row.get("level") not in LEVELS:
            raise FileError(path, f"{row['id']}: level is one of {', '.join(LEVELS)}", row.line)
        if row["id"] in register:
            raise FileError(path, f"{row['id']} stands twice", row.line)
        register[row["id"]] = Requirement(
            row["id"],
            row["level"],
            row.get("statement", ""),
            tuple(row.get("source", ())),
            conflict=row.get("conflict", ""),
            settled=row.get("settled", ""),
            why=row.get("why", ""),
            upstream=row.get("upstream", ""),
            upstream_op=row.get("upstream-op", ""),
            upstream_crash=row.get("upstream-crash", False),
            testable=row.get("testable", True),
        )
    return register


def read_catalog(further: Iterable[Path] = ()) -> Catalog:
    """The bundled catalogue, with the vectors of further folders or files. Raises FileError."""
    requirements = read_requirements(VECTORS / "requirements.yaml")
    vectors: list[Vector] = []
    cases: dict[str, Case] = {}
    for root, origin in [(VECTORS, ""), *((path, str(path)) for path in further)]:
        for path in vector_files(root):
            for vector in read_vectors(path):
                vectors.append(vector)
                for case in make_cases(vector, requirements, origin):
                    if case.id in cases:
                        raise vector.error("this id stands already in another vector")
                    cases[case.id] = case
    return Catalog(requirements, tuple(vectors), cases)


def vector_files(root: Path) -> list[Path]:
    """The vector files below a folder (or the file itself), in order. Raises FileError when there is nothing."""
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise FileError(root, "there is no such file or folder")
    files = sorted(path for path in root.rglob("*.y*ml") if path.name != "requirements.yaml")
    if not files:
        raise FileError(root, "there is no vector file (*.yaml) in this folder")
    return files


# --- vectors ------------------------------------------------------------------------------------------

_KEYS = {
    *("id", "type", "requirement", "value", "hex", "reject", "either", "canonical", "consumed", "about"),
    *("recompute", "note", "found-in", "since", "source"),
}
_TEXTS = ("id", "type", "requirement", "note", "found-in", "since", "source")
_ID = re.compile(r"(?!(gen|bytes|probe)/)[a-z0-9][a-z0-9_.-]*(/[A-Za-z0-9_.-]+)+\Z|bytes/[A-Z0-9_<>]+/[0-9a-f]{12}\Z")
"""Ids of vectors. Generated (`gen/`), ad hoc (`bytes/TYPE/digest`) and probing cases have names of their own."""


def read_vectors(path: Path) -> Iterator[Vector]:
    """The vectors in a file, shape checked. Raises FileError with the line."""
    document = load(path)
    common = Row()
    if isinstance(document, Row):
        common = document
        unknown = set(document) - {"type", "source", "since", "vectors"}
        if unknown:
            raise FileError(path, f"unknown key {sorted(unknown)[0]!r} beside vectors", document.line)
        document = document.get("vectors")
    if not isinstance(document, list):
        raise FileError(path, "a list of vectors is expected, or a mapping with `vectors:`")
    for row in document:
        yield _vector(path, row, common)


def _vector(path: Path, row: Any, common: Row) -> Vector:
    if not isinstance(row, Row):
        raise FileError(path, f"a vector is a mapping, found {row!r:.40}", common.line)
    for key in ("type", "source", "since"):
        if key in common:
            row.setdefault(key, common[key])
    name = row.get("id", "")
    _check_keys(path, row)
    vector = Vector(name, row["type"], row, path, _bytes(path, row))
    try:
        codec.wire(vector.type)
    except codec.UnknownType as error:
        raise vector.error(str(error)) from None
    outcomes = [key for key in ("reject", "either") if key in row]
    if len(outcomes) > 1 or not ({"value", "hex"} & set(row)) or ("either" in row and "hex" not in row):
        raise vector.error("a vector has value and hex, hex and reject, value and reject, or hex and either")
    if ("value" in row) + ("hex" in row) + len(outcomes) != 2:
        raise vector.error("a vector has value and hex, hex and reject, value and reject, or hex and either")
    return vector


def _check_keys(path: Path, row: Row) -> None:
    for key in _TEXTS:
        if key in row and not isinstance(row[key], str):
            raise FileError(path, f"{key}: expected a string, found {row[key]!r}", row.line)
    if not _ID.match(row.get("id", "")):
        raise FileError(path, f"id {row.get('id', '')!r}: expected family/words-with-dashes", row.line)
    for key in ("type", "requirement"):
        if key not in row:
            raise FileError(path, f"{row['id']}: {key} is missing", row.line)
    unknown = set(row) - _KEYS
    if unknown:
        known = ", ".join(sorted(_KEYS))
        raise FileError(path, f"{row['id']}: unknown key {sorted(unknown)[0]!r}; there are {known}", row.line)


def hex_pieces(given: Any) -> list[tuple[int, str]]:
    """The pieces of a `hex`: how often, and the digits as written. Raises ValueError."""
    pieces: list[tuple[int, str]] = []
    for piece in given if isinstance(given, list) else [given]:
        if isinstance(piece, str):
            pieces.append((1, piece))
        elif isinstance(piece, dict) and set(piece) == {"repeat", "hex"} and isinstance(piece["hex"], str):
            if type(piece["repeat"]) is not int or not 0 <= piece["repeat"] <= 1 << 24:
                raise ValueError(f"repeat: expected a number from 0 to {1 << 24}, found {piece['repeat']!r}")
            pieces.append((piece["repeat"], piece["hex"]))
        else:
            raise ValueError(f"expected quoted hex digits or {{repeat, hex}}, found {piece!r:.40}")
    return pieces


def _bytes(path: Path, row: Row) -> bytes | None:
    if "hex" not in row:
        return None
    try:
        return b"".join(bytes.fromhex(digits) * times for times, digits in hex_pieces(row["hex"]))
    except ValueError as error:
        raise FileError(path, f"{row['id']}: hex: {error}", row.line) from None


# --- cases --------------------------------------------------------------------------------------------


def make_cases(vector: Vector, requirements: dict[str, Requirement], origin: str = "") -> Iterator[Case]:
    """The cases of a vector: decode, and where they exist encode and size. Raises FileError."""
    row = vector.row
    if row["requirement"] not in requirements:
        raise vector.error(f"there is no requirement {row['requirement']!r}")
    maker = _Maker(vector, requirements[row["requirement"]], origin)
    if vector.data is None:
        yield maker.refused_value()
    elif "value" in row:
        yield from maker.value_cases()
    elif "reject" in row:
        yield maker.decode(Refuses(*_error_class(vector)), ())
    else:
        yield maker.decode(AnyOf(tuple(_readings(vector))), ())


def _error_class(vector: Vector) -> tuple[str | None, str]:
    """The class to judge, if any, and as worded. The documents name one class only: a CRC mismatch is corrupt."""
    error = vector.row["reject"]
    if error not in ERRORS:
        raise vector.error(f"reject is one of {', '.join(ERRORS)}, found {error!r}")
    if error != "corrupt" or vector.data is None:
        return None, error
    found = codec.decode(vector.type, vector.data)
    return ("corrupt" if len(found.violations) == 1 else None), error


def _readings(vector: Vector) -> Iterator[Reads | Refuses]:
    given = vector.row["either"]
    if given == "any":
        return
    if not isinstance(given, list) or not given:
        raise vector.error("either is `any` or a list of readings")
    for reading in given:
        if reading == "reject":
            yield Refuses()
        elif isinstance(reading, dict) and set(reading) <= {"value", "consumed"} and reading:
            value = _parse(vector, reading["value"]) if "value" in reading else UNSHOWN
            yield Reads(value, reading.get("consumed"))
        else:
            raise vector.error(f"a reading is `reject` or {{value, consumed}}, found {reading!r:.60}")


def _parse(vector: Vector, given: Any) -> Any:
    notation = codec.wire(vector.type).notation
    unknown = unknown_fields(notation, given)
    if unknown:
        raise vector.error(f"value: {unknown[0]} is no field of {vector.type}")
    try:
        return notation.parse(given)
    except NotationError as error:
        raise vector.error(f"value: {error}") from None


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the cases of one vector."""

    vector: Vector
    requirement: Requirement
    origin: str

    def value_cases(self) -> Iterator[Case]:
        """Decode, encode and size of a vector with value and bytes."""
        vector, data = self.vector, self.vector.data
        assert data is not None
        stated = _parse(vector, vector.row["value"])
        consumed = vector.row.get("consumed", len(data))
        if type(consumed) is not int or not 0 <= consumed <= len(data):
            raise vector.error(f"consumed: expected a number up to {len(data)}")
        value = self._complete(stated, data) if vector.type in STRUCTURED else stated
        yield self.decode(Reads(value, consumed), self._about(stated))
        if vector.row.get("canonical", True) and "consumed" not in vector.row:
            yield from self._encode_cases(value, data)

    def decode(self, expect: Expectation, about: tuple[str, ...]) -> Case:
        """The decode case."""
        data = self.vector.data
        assert data is not None
        return self._case("decode", {"hex": data.hex()}, expect, about)

    def refused_value(self) -> Case:
        """An encode case whose value has no encoding."""
        value = self.vector.row.get("value")
        if self.vector.row.get("reject") != "invalid-value":
            raise self.vector.error("a value without hex is rejected as invalid-value")
        return self._case("encode", {"value": value}, Refuses(None, "invalid-value"), ())

    def _encode_cases(self, value: Any, data: bytes) -> Iterator[Case]:
        vector = self.vector
        if vector.type == "LOG":
            return
        if vector.type == "RECORD_BATCH":
            yield from self._batch_encode_cases(value, data)
            return
        shown = codec.wire(vector.type).notation.render(value)
        try:
            written = codec.encode(vector.type, value)
        except codec.Unencodable as error:
            raise vector.error(f"the value has no encoding ({error}): say `canonical: false`") from None
        if written != data:
            raise vector.error("these are not the bytes that an encoder writes: say `canonical: false`")
        yield self._case("encode", {"value": shown}, Writes(data), (), suffix=":encode")
        yield self._case("size", {"value": shown}, Measures(len(data)), (), suffix=":size")

    def _batch_encode_cases(self, value: dict[str, Any], data: bytes) -> Iterator[Case]:
        expect = _batch_expectation(value, data)
        if expect is None:
            return
        request = {"value": encode_request(value)}
        yield self._case("encode", request, expect, (), suffix=":encode")
        if isinstance(expect, Writes):
            yield self._case("size", request, Measures(len(data)), (), suffix=":size")

    def _complete(self, stated: Any, data: bytes) -> Any:
        """The whole value by the reference, held against what the vector states."""
        read = codec.decode(self.vector.type, data)
        if not read.ok:
            raise self.vector.error(f"the bytes have no value: {read.violations[0]}")
        path = next(codec.wire(self.vector.type).notation.mismatches(stated, read.value), None)
        if path:
            raise self.vector.error(f"value: the bytes say otherwise at {path}")
        return read.value

    def _about(self, stated: Any) -> tuple[str, ...]:
        row = self.vector.row
        if "about" in row:
            if not isinstance(row["about"], list) or not all(isinstance(path, str) for path in row["about"]):
                raise self.vector.error("about: expected a list of paths")
            return tuple(row["about"])
        if "consumed" in row:
            return ("consumed",)
        if self.vector.type not in STRUCTURED:
            return ()
        return tuple(dict.fromkeys(_leaves(codec.wire(self.vector.type).notation, stated)))

    def _case(
        self, op: Op, request: dict[str, Any], expect: Expectation, about: tuple[str, ...], *, suffix: str = ""
    ) -> Case:
        vector, row = self.vector, self.vector.row
        codecs, magics = codecs_and_magics(vector.type, vector.data) if vector.data else (frozenset(), frozenset())
        return Case(
            id=vector.id + suffix,
            op=op,
            type=vector.type,
            requirement=self.requirement.id,
            level=self.requirement.level,
            request={"op": op, "type": vector.type, **request},
            expect=expect,
            data=vector.data,
            about=about,
            disputed=self.requirement.disputed(op),
            codecs=codecs,
            magics=magics,
            origin=self.origin,
            **{name.replace("-", "_"): row.get(name, "") for name in ("note", "source", "since", "found-in")},
        )


def _leaves(notation: Any, stated: Any, path: str = "") -> Iterator[str]:
    if isinstance(notation, Fields):
        for name, entry in stated.items():
            yield from _leaves(notation.fields[name], entry, f"{path}.{name}" if path else name)
    elif isinstance(notation, ListOf) and isinstance(notation.element, Fields) and any(stated or ()):
        for entry in stated:
            yield from _leaves(notation.element, entry, path)
    else:
        yield path


def encode_request(value: dict[str, Any]) -> dict[str, Any]:
    """What an encoder is told of a batch, in notation."""
    shown = codec.TYPES["RECORD_BATCH"].notation.render(value)
    request = {name: shown[name] for name in ENCODE_FIELDS}
    request["records"] = [{name: record[name] for name in RECORD_ENCODE_FIELDS} for record in shown["records"]]
    return request


def _batch_expectation(value: dict[str, Any], data: bytes) -> Writes | WritesAs | None:
    """What an encoder asked for this batch must write; None for a batch that the encode request cannot say."""
    start, stop = LEADER_EPOCH
    try:
        written = codec.encode("RECORD_BATCH", value)
    except codec.Unencodable:
        return None
    if [record["offsetDelta"] for record in value["records"]] != list(range(len(value["records"]))):
        return None
    if value["compression"] == 0:
        same = written[:start] == data[:start] and written[stop:] == data[stop:]
        return Writes(data, LEADER_EPOCH) if same else None
    read = codec.decode("RECORD_BATCH", written).value
    free = ("batchLength", "crc", "partitionLeaderEpoch", "attributes")
    kept = {name: entry for name, entry in value.items() if name not in free}
    plain = sum(len(codec.wire("RECORD").encode(record)) for record in value["records"])
    if plain < _COMPRESSIBLE or len(written) - HEADER_SIZE > plain // 2:
        return None
    return WritesAs(kept) if all(read[name] == entry for name, entry in kept.items()) else None


def codecs_and_magics(name: str, data: bytes) -> tuple[frozenset[str], frozenset[int]]:
    """The codecs and magics in the batches of some bytes, as far as they can be seen; codec 5 to 7 is none."""
    codecs: set[str] = set()
    magics: set[int] = set()
    if name not in ("RECORD_BATCH", "LOG"):
        return frozenset(), frozenset()
    names = codec.TYPES["RECORD_BATCH"].notation.fields["compression"].names
    at = 0
    while len(data) - at > 22:
        magics.add(data[at + 16])
        number = data[at + 22] & 7
        if data[at + 16] == 2 and number < len(names):
            codecs.add(names[number])
        size = int.from_bytes(data[at + 8 : at + OVERHEAD], "big", signed=True)
        if name != "LOG" or size < 0:
            break
        at += OVERHEAD + size
    return frozenset(codecs), frozenset(m for m in magics if m in (0, 1, 2))


# --- selection ----------------------------------------------------------------------------------------


def select(cases: Iterable[Case], patterns: Iterable[str]) -> list[Case]:
    """The cases that match any pattern: a glob over ids, or `type:`, `requirement:` or `level:` and a glob."""
    wanted = [_matcher(pattern) for pattern in patterns]
    return [case for case in cases if not wanted or any(matches(case) for matches in wanted)]


def _matcher(pattern: str) -> Any:
    attribute, colon, rest = pattern.partition(":")
    if colon and attribute in ("type", "requirement", "level"):
        return lambda case: fnmatchcase(getattr(case, attribute), rest)
    return lambda case: fnmatchcase(case.id, pattern)


def as_of(cases: Iterable[Case], version: str) -> list[Case]:
    """The cases that a release of the suite had: those introduced no later than it. Raises ValueError."""
    limit = _version(version)
    return [case for case in cases if not case.since or _version(case.since) <= limit]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
