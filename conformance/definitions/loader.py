"""Reads message definitions (JSON with comments) into messages, with a finding for every broken rule.

The source is a folder (such as a Kafka checkout), a file, a jar or a zip. Sizes, depths and numbers of fields are
limited, so hostile input also results only in findings.
"""

from __future__ import annotations

import json
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from conformance import codec
from conformance.codec.message_spec import MessageSpec
from conformance.definitions._parser import parse_definition
from conformance.definitions.findings import SOME, LintFinding, shown
from conformance.errors import UserError

__all__ = [
    "DefinitionError",
    "Definitions",
    "LintFinding",
    "parse_definition",
    "parse_json",
    "read_definitions",
    "usable",
]


class DefinitionError(UserError):
    """Definitions that cannot be used, with all their findings."""

    def __init__(self, findings: Iterable[LintFinding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(map(str, self.findings)))


class Definitions(Struct, frozen=True):
    """Messages by name, and the findings of their definitions."""

    messages: dict[str, MessageSpec] = field(default_factory=dict)
    findings: tuple[LintFinding, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """The file of each message, by message name."""


# --- files --------------------------------------------------------------------------------------------

_ARCHIVES = (".jar", ".zip", ".whl")
_MARKS = ("validVersions", "fields", "flexibleVersions", "apiKey")
"""In a folder or archive, a JSON object without any of these keys is ignored."""


def read_definitions(path: Path) -> Definitions:
    """Return the definitions of a path, with all findings. Raises DefinitionError if it has no definition."""
    alone = not path.is_dir() and not _is_archive(path)
    definitions = Definitions()
    findings: list[LintFinding] = []
    for name, load in _sources(path):
        twice: list[tuple[str, bool]] = []
        try:
            document = parse_json(_decoded(load()), twice)
        except _UNREADABLE as error:
            findings.append(LintFinding(name, "", "definitions.comments", f"not JSON: {_hint(error)}"))
            continue
        if alone or (isinstance(document, dict) and any(mark in document for mark in _MARKS)):
            rule = "definitions.field-attributes"
            findings += [LintFinding(name, "", rule, problem, open=same) for problem, same in twice]
            findings += _add(definitions, path, name, document)
    if not definitions.messages and not findings:
        raise DefinitionError(
            [LintFinding(str(path), "", "definitions.field-attributes", "the path does not contain a definition")]
        )
    return structs.replace(definitions, findings=tuple(findings))


def _add(definitions: Definitions, path: Path, name: str, document: Any) -> list[LintFinding]:
    """Parse the definition of a file, add it to `definitions`, and return its findings."""
    if not isinstance(document, dict):
        return [LintFinding(name, "", "definitions.field-attributes", "expected a JSON object")]
    message, findings = parse_definition(document, name)
    if message is not None and message.name in definitions.messages:
        hint = f"{message.name} is already defined in {definitions.files[message.name]}"
        return [*findings, LintFinding(name, "", "definitions.field-attributes", hint)]
    if message is not None:
        definitions.messages[message.name] = replace(message, origin=str(path))
        definitions.files[message.name] = name
    return findings


def usable(path: Path) -> Definitions:
    """Return the definitions of a path. Raises DefinitionError with the findings of files without a usable one."""
    definitions = read_definitions(path)
    named = {finding.file for finding in definitions.findings} - set(definitions.files.values())
    broken = [finding for finding in definitions.findings if finding.file in named]
    if broken:
        raise DefinitionError(broken)
    return definitions


_MAX_FILE_BYTES = 16 * 2**20
_MAX_TOTAL_BYTES = 128 * 2**20
"""Maximum bytes of one file, and of all files. Apache Kafka's largest definition has 30 thousand bytes."""
_UNREADABLE = (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""The errors of reading a file or archive member; zipfile raises RuntimeError for an encrypted member."""


def _is_archive(path: Path) -> bool:
    return path.is_file() and (path.suffix.lower() in _ARCHIVES or zipfile.is_zipfile(path))


def _sources(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the name and the reader of every JSON file. Raises DefinitionError for an unreadable path."""
    read = _BoundedReader(path)
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*.json")):
                if file.is_file():
                    yield str(file), partial(read, file.open, "rb")
        elif _is_archive(path):
            with zipfile.ZipFile(path) as archive:
                for name in sorted({name for name in archive.namelist() if name.endswith(".json")}):
                    yield f"{path}!{name}", partial(read, archive.open, name)
        else:
            # A missing file raises here, as a DefinitionError for the path.
            path.stat()
            yield str(path), partial(read, path.open, "rb")
    except _UNREADABLE as error:
        raise DefinitionError([LintFinding(str(path), "", "definitions.comments", _hint(error))]) from None


class _BoundedReader:
    """A file reader with a size limit for each file, and one for all files together."""

    def __init__(self, path: Path) -> None:
        self._path, self._left = path, _MAX_TOTAL_BYTES

    def __call__(self, opened: Callable[[str], Any], argument: str) -> bytes:
        with opened(argument) as stream:
            data: bytes = stream.read(_MAX_FILE_BYTES + 1)
        self._left -= len(data)
        if self._left < 0:
            hint = f"the files have more than {_MAX_TOTAL_BYTES} bytes of JSON"
            raise DefinitionError([LintFinding(str(self._path), "", "definitions.comments", hint)])
        if len(data) > _MAX_FILE_BYTES:
            raise ValueError(f"the file has more than {_MAX_FILE_BYTES} bytes")
        return data


def _hint(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8 (byte {error.start})") from None


# --- JSON ---------------------------------------------------------------------------------------------

_COMMENT = re.compile(r'("[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?)|//[^\n]*')
"""A string or a comment. A string without its closing quote also matches, so the search takes linear time."""


def parse_json(text: str, twice: list[tuple[str, bool]] | None = None) -> Any:
    """Parse JSON with // comments (outside strings, to the end of the line). Raises ValueError with line and column.

    If a key occurs twice in one object, the last value counts, as in Apache Kafka. The list `twice` receives an error
    text for each such key, and True if all its values are equal.
    """
    notes: list[tuple[str, bool]] = [] if twice is None else twice

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        parsed = dict(given)
        if len(parsed) != len(given):
            notes.extend(_twice(given, parsed))
        return parsed

    try:
        stripped = _COMMENT.sub(lambda match: match[1] or "", text)
        return json.loads(stripped, object_pairs_hook=pairs, parse_int=_number, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _twice(pairs: list[tuple[str, Any]], parsed: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    repeated = (key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    for key in islice(repeated, SOME):
        same = all(value == parsed[key] for name, value in pairs if name == key)
        where = f" of {shown(parsed['name'])}" if "name" in parsed else ""
        values = "with the same value" if same else "with different values"
        yield f"the key {shown(key)}{where} occurs twice, {values}", same


def _number(digits: str) -> int:
    if len(digits) > 100:
        raise ValueError(f"a number has {len(digits)} digits, expected at most 100")
    return int(digits)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


SHIPPED = Path(__file__).parent.parent / "vectors" / "definitions"


@cache
def shipped_types() -> codec.TypeRegistry:
    """Return the built-in types and the shipped messages."""
    messages = usable(SHIPPED).messages.values()
    return codec.BUILT_IN.adding(replace(message, origin="", is_shipped=True) for message in messages)


def types_with(messages: Iterable[MessageSpec]) -> codec.TypeRegistry:
    """Return the shipped types with `messages`, which replace shipped messages of the same name."""
    added = tuple(messages)
    return shipped_types().adding(added) if added else shipped_types()
