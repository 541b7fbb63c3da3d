"""The ad-hoc case of `--case`. The reference codec provides its expected result."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from conformance import codec
from conformance.cases.model import Case, NotTestable, Op, Request
from conformance.cases.operations import WHOLE_LOG
from conformance.catalog.case_builder import ad_hoc_case
from conformance.catalog.catalog import Catalog
from conformance.codec.json_notation import NotationError
from conformance.commands.options import bytes_of
from conformance.errors import UsageError
from conformance.files.bounded_json import read_json


class AdHocCase(Struct, frozen=True):
    """The texts of `--case` and `--op`."""

    text: str
    op: Op


def own_case(given: AdHocCase, catalog: Catalog) -> Case:
    """Return the case.

    For `decode` the text is TYPE:HEX or TYPE:@FILE (raw bytes). For other operations it is TYPE:JSON or TYPE:@FILE:
    the value to encode, for a MESSAGE_SET an object with value, magic and compression, or LOG:{the request}.
    Raises UsageError, UnknownType or OSError.
    """
    name, colon, rest = given.text.partition(":")
    if not colon:
        raise UsageError("--case", f"expected TYPE:HEX or TYPE:@FILE, found {given.text[:60]!r}")
    wire = catalog.types.wire(name)
    path = rest[1:] if rest.startswith("@") else ""
    if given.op == "decode":
        data = _content(path) if path else bytes_of(rest, "--case")
        return ad_hoc_case("decode", wire, {"hex": data.hex()}, catalog, origin=path)
    if given.op in WHOLE_LOG and name != "LOG":
        raise UsageError("--case", f"expected a LOG for --op {given.op}, found {name}")
    text = _content(path) if path else rest.encode("utf-8", "surrogatepass")
    return _from_json(given.op, wire, text, catalog, path)


def _content(path: str) -> bytes:
    """Return the content of a file. Raises UsageError or OSError."""
    if "\0" in path:
        raise UsageError("--case", "expected a file name, found a NUL byte in it")
    return Path(path).read_bytes()


def _from_json(op: Op, wire: codec.WireType, text: bytes, catalog: Catalog, path: str) -> Case:
    try:
        return ad_hoc_case(op, wire, _parts(op, wire, read_json(text)), catalog, origin=path)
    except NotTestable as error:
        raise UsageError("--case", f"not testable: {error}") from None
    except ValueError as error:
        what = f"a {op} request" if op in WHOLE_LOG else f"a value of {wire.name}"
        raise UsageError("--case", f"expected {what}: {error}") from None


def _parts(op: Op, wire: codec.WireType, given: object) -> Request:
    """Return the parts of the request from the user's JSON. Raises NotationError."""
    if op not in WHOLE_LOG and wire.name != "MESSAGE_SET":
        return {"value": given}
    if not isinstance(given, dict):
        raise NotationError(f"expected an object, found {given!r:.40}")
    return given
