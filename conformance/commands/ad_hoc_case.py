"""A case of the user's own, from the text of `--case`; the reference says what to expect."""

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
    """The case.

    To decode, the text is TYPE:HEX or TYPE:@FILE (raw bytes). With other operations it is TYPE:JSON or TYPE:@FILE: the
    value to encode, with magic and compression beside it for a MESSAGE_SET, or LOG:{the request}.
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
        raise UsageError("--case", f"{given.op} is asked of a LOG, not of {name}")
    text = _content(path) if path else rest.encode("utf-8", "surrogatepass")
    return _from_json(given.op, wire, text, catalog, path)


def _content(path: str) -> bytes:
    """The bytes of a file. Raises UsageError or OSError."""
    if "\0" in path:
        raise UsageError("--case", "the name of a file has no NUL byte")
    return Path(path).read_bytes()


def _from_json(op: Op, wire: codec.WireType, text: bytes, catalog: Catalog, path: str) -> Case:
    try:
        return ad_hoc_case(op, wire, _parts(op, wire, read_json(text)), catalog, origin=path)
    except NotTestable as error:
        raise UsageError("--case", f"no target is asked this: {error}") from None
    except ValueError as error:
        what = f"a {op} request" if op in WHOLE_LOG else f"a value of {wire.name}"
        raise UsageError("--case", f"not {what}: {error}") from None


def _parts(op: Op, wire: codec.WireType, asked: object) -> Request:
    """The parts of the request that the user's JSON asks for. Raises NotationError."""
    if op not in WHOLE_LOG and wire.name != "MESSAGE_SET":
        return {"value": asked}
    if not isinstance(asked, dict):
        raise NotationError(f"expected an object, found {asked!r:.40}")
    return asked
