"""Requests that a broker is sent just as they stand, and what is due for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from conformance import codec
from conformance.cases.model import Answer, ExpectedResponse, ExpectResponses, Request, RequestWithExpectation, Value
from conformance.codec.error_codes import ErrorCode
from conformance.codec.json_notation import HEX, ListOf, NotationError, ObjectOf
from conformance.codec.message_spec import (
    FIXED,
    SCALARS,
    SIZED,
    UNKNOWN,
    FieldSpec,
    MessageSpec,
    default_of,
    header_version,
    type_name,
)
from conformance.codec.primitives import PRIMITIVES
from conformance.definitions.loader import shipped_types
from conformance.definitions.request_frames import START, names

KINDS = ("edges", "null", "tags")
"""Which edges: the least and the most, empty and many; null, where a field may be null; tags that nobody knows."""

LONG = 300
"""Characters of a long text: its compact length takes two bytes."""
_MANY = 3
_UNKNOWN = ({"tag": 10_000, "data": b"\1\2\3"}, {"tag": (1 << 31) - 1, "data": b""})


class BoundaryValues(Struct, frozen=True):
    """A message in one version, with what stands in its plain value."""

    message: MessageSpec
    version: int
    given: Mapping[str, object]
    """By the names of fields, in notation; other fields have something that is not their default."""
    fixed: frozenset[str] = frozenset()
    """The names of fields that no edge is tried of, and single edges that are not tried."""

    def plain(self, structure: str = "") -> dict[str, Value]:
        """The value of the message, or of a structure of it: one element in each array."""
        return {member.name: self._plain(member) for member in self._members(structure)}

    def varied(self, kind: str) -> Iterator[tuple[str, dict[str, Value]]]:
        """Each edge of a kind: what is at it, and the value that is plain but for that."""
        yield from self._varied(self.message.name, self.plain(), kind)

    def _members(self, structure: str) -> list[FieldSpec]:
        members = self.message.structures[structure or self.message.name]
        return [member for member in members if self.version in member.versions]

    def _plain(self, member: FieldSpec) -> Value:
        if member.name in self.given and member.type not in SCALARS:
            return default_of(self.message, member)
        if member.type not in SCALARS:
            inner = self.plain(member.type)
            return (inner,) if member.is_array else inner
        notation = PRIMITIVES[FIXED.get(member.type) or SIZED[member.type]].notation
        if member.name in self.given:
            return (ListOf(notation) if member.is_array else notation).parse(self.given[member.name])
        if member.is_array:
            return (_PLAIN.get(member.type, 1),)
        return _PLAIN.get(member.type, 1) if member.type in SIZED else default_of(self.message, member)

    def _varied(self, structure: str, value: dict[str, Value], kind: str) -> Iterator[tuple[str, dict[str, Value]]]:
        if kind == "tags" and self.version in self.message.flexible:
            yield "unknown tags", {**value, UNKNOWN: _UNKNOWN}
        for member in self._members(structure):
            if member.name in self.fixed:
                continue
            for edge, at_edge in self._edges(member, value[member.name], kind):
                if f"{member.name}{edge}" not in self.fixed:
                    yield f"{member.name}{edge}", {**value, member.name: at_edge}

    def _edges(self, member: FieldSpec, plain: Value, kind: str) -> Iterator[tuple[str, Value]]:
        """The edges of a field, and those inside of it, each with what it is called."""
        if kind == "null" and self.version in member.nullable:
            yield " null", None
        if kind == "edges" and member.is_array:
            yield from ((" empty", ()), (" many", plain * _MANY))
        elif kind == "edges" and member.type in SCALARS:
            yield from _scalar_edges(member, plain)
        if member.type not in SCALARS:
            inner = plain[0] if member.is_array else plain
            for path, changed in self._varied(member.type, inner, kind):
                yield f".{path}", (changed,) if member.is_array else changed


_PLAIN: dict[str, Value] = {"string": "conformance", "bytes": b"conformance", "records": b"", "uuid": bytes(16)}


def _scalar_edges(member: FieldSpec, plain: Value) -> Iterator[tuple[str, Value]]:
    if member.type in SIZED:
        long = "conformance-".ljust(LONG, "x")
        yield from (
            ((" empty", ""), (" long", long))
            if member.type == "string"
            else ((" empty", b""), (" long", long.encode()))
        )
    elif member.type == "uuid":
        yield from ((" zero", bytes(16)), (" ones", b"\xff" * 16))
    elif member.type == "bool":
        yield f" {not plain}".lower(), not plain
    else:
        edges = PRIMITIVES[FIXED[member.type]].edges
        yield from ((" least", edges[0]), (" most", edges[-1]))


TOPIC_ID = b"conformancetopic"
"""What stands in a frame for the id of the topic of a run."""
NAMES = {"{topic}": "conformance-topic", "{group}": "conformance-group", "{transaction}": "conformance-transaction"}
"""What stands in a frame for names of a run, and what they are where nothing runs."""
EXCHANGED = ListOf(ObjectOf({"hex": HEX}), nullable=False)
"""What came of each frame: the bytes of the answer, without their size, or null where none came."""
ENDS = ("closed", "silent")
"""Why no answer came: the connection was closed, or nothing came in time."""
_CLIENT = "conformance"
_API_VERSIONS = 18

# --- frames -------------------------------------------------------------------------------------------


def parse_frames(given: object) -> tuple[Request, ...]:
    """The frames of a request, as they are written. Raises NotationError where one cannot be made."""
    if not isinstance(given, list | tuple) or not given or not all(isinstance(frame, dict) for frame in given):
        raise NotationError("expected a list of frames, each an object")
    for at, frame in enumerate(given):
        try:
            frame_bytes(frame, at, NAMES)
        except (NotationError, codec.Unencodable) as error:
            raise NotationError(f"[{at}]: {error}") from None
    return tuple(given)


def frame_bytes(frame: Request, at: int, called: Mapping[str, str]) -> bytes:
    """The bytes of the frame at an index, its size first. Raises NotationError or Unencodable.

    It is given by its bytes (`hex`), or by a message, a version, and what its header and body hold, with what stands
    for names of the run, which are filled in.
    """
    if "hex" in frame:
        data: bytes = HEX.parse(frame["hex"]) or b""
        return data
    message, version = _message(frame)
    header: Request = {"RequestApiKey": message.api_key, "RequestApiVersion": version}
    header |= {"CorrelationId": at + 1, "ClientId": _CLIENT}
    head = _wire("RequestHeader", header_version(message, version))
    body = _wire(message.name, version)
    written = codec.encode(head, {**header, **head.notation.parse(frame.get("header", {}))})
    written += codec.encode(body, body.notation.parse(_filled(frame.get("body", {}), called)))
    return len(written).to_bytes(4, "big") + written


def size_exceeds_frame(data: bytes) -> bool:
    """Whether more bytes are announced by the size of a frame than it has."""
    return len(data) < 4 or int.from_bytes(data[:4], "big", signed=True) > len(data) - 4


def request_version(frame: Request) -> tuple[str, int] | None:
    """The request that a frame makes, and its version; None for one that is broken, or of a version of no broker."""
    if "hex" in frame or "RequestApiVersion" in frame.get("header", {}):
        return None
    message, version = _message(frame)
    return message.name.removesuffix("Request"), version


def _message(frame: Request) -> tuple[MessageSpec, int]:
    message, version = shipped_types().messages.get(str(frame.get("message"))), frame.get("version")
    if message is None or message.kind != "request" or type(version) is not int or version not in message.valid:
        raise NotationError(f"there is no request {frame.get('message')!r:.40} of version {version!r:.20}")
    return message, version


def _wire(name: str, version: int) -> codec.WireType:
    return shipped_types().wire(type_name(name, version))


def _filled(given: Value, called: Mapping[str, str]) -> Value:
    """What a body holds, with names in the place of what stands for them."""
    if isinstance(given, dict):
        return {name: _filled(entry, called) for name, entry in given.items()}
    if isinstance(given, list | tuple):
        return [_filled(entry, called) for entry in given]
    return called.get(given, given) if isinstance(given, str) else given


# --- what is due --------------------------------------------------------------------------------------


def exchange_question(parts: Request) -> RequestWithExpectation:
    """The question of an `exchange` request, its parts parsed."""
    return RequestWithExpectation(parts, ExpectResponses(due_for(parts["frames"])))


def due_for(frames: Iterable[Request]) -> tuple[ExpectedResponse, ...]:
    """What is due for each frame. Raises NotationError or Unencodable."""
    return tuple(_due(frame, at) for at, frame in enumerate(frames))


def _due(frame: Request, at: int) -> ExpectedResponse:
    """What is due for a frame: one that is broken, or in a version that nobody offers, may be refused."""
    data = frame_bytes(frame, at, NAMES)
    if len(data) < START.size:
        return ExpectedResponse("", 0, 0, may_wait=True)
    _, key, version, correlation = START.unpack_from(data)
    name, may_wait = names().get(key, ""), size_exceeds_frame(data)
    if "hex" in frame:
        return ExpectedResponse(name, version, correlation, may_wait=may_wait)
    if request_version(frame) is not None:
        return ExpectedResponse(name, version, correlation, must_answer=True)
    # ApiVersions in a version that nobody offers is answered in version 0.
    is_first = key == _API_VERSIONS
    return ExpectedResponse(name, 0 if is_first else version, correlation, must_answer=is_first, must_refuse=True)


def exchanged(_: codec.WireType, parts: Request) -> Answer:
    """An answer to each request that a broker has to answer: a plain one, or an error; none to others."""
    due = due_for(parts["frames"])
    rows = [{"hex": answer_to(one).hex()} if one.must_answer else {"hex": None, "end": "closed"} for one in due]
    return {"ok": True, "value": rows}


def answer_to(due: ExpectedResponse) -> bytes:
    """The answer to a request, without its size: a plain one, or an error where one is due."""
    message = shipped_types().messages[f"{due.name}Response"]
    header = _wire("ResponseHeader", header_version(message, due.version))
    body = BoundaryValues(
        message, due.version, {"ErrorCode": ErrorCode.UNSUPPORTED_VERSION} if due.must_refuse else {}
    ).plain()
    written = codec.encode(header, {"CorrelationId": due.correlation})
    return written + codec.encode(_wire(message.name, due.version), body)


# --- cases of a message -------------------------------------------------------------------------------


def frames_for(
    message: MessageSpec, version: int, given: Request, fixed: Iterable[str], kind: str
) -> Iterator[Request]:
    """The frames of a kind for a message in a version: a plain one, or one for each edge of that kind."""
    values = BoundaryValues(message, version, given, frozenset(fixed))
    render = _wire(message.name, version).notation.render
    shared = {"message": message.name, "version": version}
    if kind == PLAIN:
        yield {**shared, "body": render(values.plain())}
        return
    for header in _headers(message, version, kind):
        yield {**shared, "header": header, "body": render(values.plain())}
    for about, value in values.varied(kind):
        yield {**shared, "about": about, "body": render(value)}


def _headers(message: MessageSpec, version: int, kind: str) -> list[Request]:
    """The headers of a kind."""
    edges: dict[str, list[Request]] = {
        "edges": [
            {"CorrelationId": -(1 << 31)},
            {"CorrelationId": (1 << 31) - 1},
            {"ClientId": ""},
            {"ClientId": "x" * LONG},
        ],
        "null": [{"ClientId": None}],
        "tags": [{UNKNOWN: [{"tag": 10_000, "data": "010203"}]}] if version in message.flexible else [],
    }
    return edges[kind]


PLAIN = "plain"
UNANSWERED = "response.each-request"
RULES = {
    PLAIN: "definitions.response-version-matches",
    "edges": UNANSWERED,
    "null": "definitions.nullable-versions-range",
    "tags": "tagged.unknown-skipped",
}
"""The kinds of cases that each version of a message has, and the requirement of each."""
assert tuple(RULES)[1:] == KINDS
