"""`conformance fixtures DIR`: golden files for the tests of a user, with a manifest that describes each file.

The files contain the bytes of every vector and of every case of a covering set, if the documents define the result.
Unspecified behaviour (`either`) is left out: its bytes are neither valid nor invalid, and each fixture is one of both.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from conformance import __version__, codec
from conformance.cases.model import Case, ExpectAnyOf, ExpectRejection, ExpectValue
from conformance.cases.operations import WHOLE_LOG
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.files.atomic import replacing
from conformance.files.bounded_json import read_json

MANIFEST = "manifest.json"
SUITE = "kafka-conformance"


class Fixture(Struct, frozen=True):
    """One golden file: its case, its type, its bytes and its value."""

    id: str
    type: str
    data: bytes
    value: Any
    """The value in notation; None if the bytes are not valid."""
    requirement: str
    valid: bool

    @property
    def path(self) -> str:
        """The path below the folder, with forward slashes."""
        return f"{folder_name(self.type)}/{file_name(self.id)}"

    def entry(self) -> dict[str, Any]:
        """Return the row of this file in the manifest."""
        return {
            "path": self.path,
            "type": self.type,
            "sha256": sha256(self.data).hexdigest(),
            "size": len(self.data),
            "value": self.value,
            "requirement": self.requirement,
            "valid": self.valid,
        }


# --- fixtures -----------------------------------------------------------------------------------------


def fixtures(catalog: Catalog) -> list[Fixture]:
    """Return all fixtures, ordered by path."""
    return sorted(_case_fixtures(catalog), key=lambda fixture: fixture.path)


def _case_fixtures(catalog: Catalog) -> Iterator[Fixture]:
    for case in catalog.cases.values():
        if case.data is None:
            continue
        if case.op in WHOLE_LOG and not case.id.endswith((":read", ":append")):
            yield from _log_fixtures(case)
        if case.op != "decode":
            continue
        match case.expect:
            case ExpectValue(value):
                rendered = case.wire.notation.render(value)
                yield Fixture(case.id, case.type, case.data, rendered, case.requirement, valid=True)
            case ExpectRejection():
                yield Fixture(case.id, case.type, case.data, None, case.requirement, valid=False)


def _log_fixtures(case: Case) -> Iterator[Fixture]:
    """Yield the log of a whole-log vector; nothing if its behaviour is unspecified."""
    assert case.data is not None
    read = codec.decode("LOG", case.data)
    if read.remarks or any(violation.open for violation in read.violations) or isinstance(case.expect, ExpectAnyOf):
        return
    rendered = codec.TYPES["LOG"].notation.render(read.value) if read.ok else None
    yield Fixture(case.id, "LOG", case.data, rendered, case.requirement, valid=read.ok)


# --- names --------------------------------------------------------------------------------------------


def folder_name(name: str) -> str:
    """Return the folder of a type, such as ARRAY-INT32 for ARRAY<INT32>. Types have at most one parameter."""
    return name.replace("<", "-").replace(">", "")


_ESCAPED = re.compile(r"[^a-z0-9_-]")


def file_name(case: str) -> str:
    """Return the file of a case: `~` for `/`, and `=` with two hex digits for characters that are not portable."""
    return _ESCAPED.sub(lambda match: "~" if match[0] == "/" else f"={ord(match[0]):02x}", case) + ".bin"


_FIXTURE_PATH = re.compile(r"[A-Z0-9_-]+/[a-z0-9_~=-]+\.bin\Z")

# --- files --------------------------------------------------------------------------------------------


def manifest(entries: Iterable[Fixture]) -> bytes:
    """Return the manifest, with one fixture per line."""
    head = f'{{"suite":{json.dumps(SUITE)},"version":{json.dumps(__version__)},"fixtures":[\n'
    lines = (json.dumps(fixture.entry(), separators=(",", ":")) for fixture in entries)
    return (head + ",\n".join(lines) + "\n]}\n").encode("ascii")


def write_fixtures(folder: Path) -> int:
    """Write all fixtures and then the manifest; return the number of fixtures.

    Files that only an earlier manifest lists are deleted; other files stay. Raises OSError, also if `manifest.json` is
    not a manifest of the suite.
    """
    folder.mkdir(parents=True, exist_ok=True)
    earlier = _earlier_paths(folder / MANIFEST)  # raises at once; the next line takes a second
    written = fixtures(read_catalog())
    stale = earlier - {fixture.path for fixture in written}
    for fixture in written:
        path = folder / fixture.path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(fixture.data)
    for name in sorted(stale):
        _remove(folder / name)
    with replacing(folder / MANIFEST) as stream:
        stream.write(manifest(written))
    return len(written)


def _earlier_paths(path: Path) -> set[str]:
    """Return the paths in the manifest of an earlier run; empty if there is none."""
    try:
        read: Any = read_json(path.read_bytes())
        if read["suite"] == SUITE:
            return {entry["path"] for entry in read["fixtures"] if _FIXTURE_PATH.match(entry["path"])}
    except FileNotFoundError:
        return set()
    except (ValueError, KeyError, TypeError):
        pass
    raise FileExistsError(errno.EEXIST, f"this is not a manifest of {SUITE}, so it is left as it is", str(path))


def _remove(path: Path) -> None:
    """Remove a file, and its folder if the folder is then empty."""
    path.unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()
