"""`exchange` cases: the frames that the suite sends to a broker unmodified, and the expected response to each."""

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
"""The kinds of boundary values: minimum and maximum, empty and many; null in nullable fields; unknown tagged fields."""

LONG = 300
"""Characters of a long string: its compact length takes two bytes."""
_MANY = 3
_UNKNOWN = ({"tag": 10_000, "data": b"\1\2\3"}, {"tag": (1 << 31) - 1, "data": b""})


class BoundaryValues(Struct, frozen=True):
    """A message in one version, its plain value, and the values at each boundary."""

    message: MessageSpec
    version: int
    given: Mapping[str, object]
    """Plain values by field name, in notation. Other fields: a fixed string or bytes, else the field's default."""
    fixed: frozenset[str] = frozenset()
    """The names of fields without boundary values, and single boundary values that are left out."""

    def plain(self, structure: str = "") -> dict[str, Value]:
        """Return the plain value of the message, or of one of its structures: each array has one element."""
        return {member.name: self._plain(member) for member in self._members(structure)}

    def varied(self, kind: str) -> Iterator[tuple[str, dict[str, Value]]]:
        """Yield each boundary value of a kind: its description, and the plain value with that one change."""
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
        """Yield the boundary values of a field and of the fields in it, each with its name."""
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
"""Placeholder in a frame for the topic id of a run."""
NAMES = {"{topic}": "conformance-topic", "{group}": "conformance-group", "{transaction}": "conformance-transaction"}
"""Placeholders in a frame for the names of a run, and their values without a run."""
EXCHANGED = ListOf(ObjectOf({"hex": HEX}), nullable=False)
"""By frame: the bytes of the response without its size, or null if there was none."""
ENDS = ("closed", "silent")
"""Reasons of a missing response: the broker closed the connection, or the timeout expired."""
_CLIENT = "conformance"
_API_VERSIONS = 18

# --- frames -------------------------------------------------------------------------------------------


def parse_frames(given: object) -> tuple[Request, ...]:
    """Return the frames of a request unchanged. Raises NotationError if a frame cannot be encoded."""
    if not isinstance(given, list | tuple) or not given or not all(isinstance(frame, dict) for frame in given):
        raise NotationError("expected a list of frames, each an object")
    for at, frame in enumerate(given):
        try:
            frame_bytes(frame, at, NAMES)
        except (NotationError, codec.Unencodable) as error:
            raise NotationError(f"[{at}]: {error}") from None
    return tuple(given)


def frame_bytes(frame: Request, at: int, called: Mapping[str, str]) -> bytes:
    """Return the bytes of the frame at an index, with its size. Raises NotationError or Unencodable.

    A frame has its bytes (`hex`), or a message, a version, and fields of its header and body. The names of the run
    replace the placeholders.
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
    """Return whether the size of a frame is larger than its number of bytes."""
    return len(data) < 4 or int.from_bytes(data[:4], "big", signed=True) > len(data) - 4


def request_version(frame: Request) -> tuple[str, int] | None:
    """Return the request of a frame and its version; None for an invalid frame or an undefined version."""
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
    """Return a body with the names of the run instead of the placeholders."""
    if isinstance(given, dict):
        return {name: _filled(entry, called) for name, entry in given.items()}
    if isinstance(given, list | tuple):
        return [_filled(entry, called) for entry in given]
    return called.get(given, given) if isinstance(given, str) else given


# --- expected responses -------------------------------------------------------------------------------


def exchange_question(parts: Request) -> RequestWithExpectation:
    """Return the parts and the expectation of a parsed `exchange` request."""
    return RequestWithExpectation(parts, ExpectResponses(expected_responses(parts["frames"])))


def expected_responses(frames: Iterable[Request]) -> tuple[ExpectedResponse, ...]:
    """Return the expected response to each frame. Raises NotationError or Unencodable."""
    return tuple(_expected_response(frame, at) for at, frame in enumerate(frames))


def _expected_response(frame: Request, at: int) -> ExpectedResponse:
    """Return the expected response: the broker may reject an invalid frame or an unsupported version."""
    data = frame_bytes(frame, at, NAMES)
    if len(data) < START.size:
        return ExpectedResponse("", 0, 0, may_wait=True)
    _, key, version, correlation = START.unpack_from(data)
    name, may_wait = names().get(key, ""), size_exceeds_frame(data)
    if "hex" in frame:
        return ExpectedResponse(name, version, correlation, may_wait=may_wait)
    if request_version(frame) is not None:
        return ExpectedResponse(name, version, correlation, must_answer=True)
    # A broker answers an unsupported version of ApiVersions in version 0, so that the client learns its versions.
    is_first = key == _API_VERSIONS
    return ExpectedResponse(name, 0 if is_first else version, correlation, must_answer=is_first, must_refuse=True)


def exchanged(_: codec.WireType, parts: Request) -> Answer:
    """Return a plain response or an error response to each frame that needs one; the others close the connection."""
    rows = [
        {"hex": answer_to(one).hex()} if one.must_answer else {"hex": None, "end": "closed"}
        for one in expected_responses(parts["frames"])
    ]
    return {"ok": True, "value": rows}


def answer_to(expected: ExpectedResponse) -> bytes:
    """Return the bytes of a plain response without its size, or of an error response if one is required."""
    message = shipped_types().messages[f"{expected.name}Response"]
    header = _wire("ResponseHeader", header_version(message, expected.version))
    body = BoundaryValues(
        message, expected.version, {"ErrorCode": ErrorCode.UNSUPPORTED_VERSION} if expected.must_refuse else {}
    ).plain()
    written = codec.encode(header, {"CorrelationId": expected.correlation})
    return written + codec.encode(_wire(message.name, expected.version), body)


# --- cases of a message -------------------------------------------------------------------------------


def frames_for(
    message: MessageSpec, version: int, given: Request, fixed: Iterable[str], kind: str
) -> Iterator[Request]:
    """Yield the frames of a kind for a message in a version: one plain frame, or one for each boundary value."""
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
    """Return the headers of a kind."""
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
"""The kinds of cases of each version of a message, and the requirement of each kind."""
assert tuple(RULES)[1:] == KINDS
