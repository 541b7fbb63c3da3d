"""The target protocol, version 1: requests and answers as lines of JSON."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct, field

from conformance.cases.model import (
    ERRORS,
    Accepted,
    Answer,
    CaseSummary,
    NoAnswer,
    Outcome,
    Rejected,
    Request,
    Unsupported,
    request_json,
)
from conformance.cases.operations import WHOLE_LOG
from conformance.codec.message_spec import LAST, VersionRange
from conformance.errors import CannotStart
from conformance.files.bounded_json import DEEPEST, MOST_VALUES, SURROGATE, is_deep, read_bounded, read_json, too_deep
from conformance.process.errors import TargetFailure

PROTOCOL = 1
OPS = ("decode", "encode", "size")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class AnswerDelayed(TargetFailure):
    """An answer is later than usual, but its timeout has not passed."""


class ProtocolError(TargetFailure):
    """A line that is not the expected answer; the message shows the line."""


class RequestBody(NamedTuple):
    """A request without its id."""

    line: bytes
    timeout_group: str = ""
    """The requests that probably time out together have the same group; empty if there is none."""
    measured_bytes: int = 0
    """The input bytes that limit memory and time; 0 if memory is not measured."""

    @property
    def size(self) -> int:
        """The number of its bytes."""
        return len(self.line)

    def with_id(self, number: int) -> bytes:
        """Return the line that is sent."""
        return b'{"id":%d,%b\n' % (number, self.line[1:])


RequestMaker: TypeAlias = Callable[[CaseSummary], RequestBody]
"""Makes the request of a case when it is needed: a run has tens of thousands, and some are large."""


def body(request: Request, timeout_group: str = "", measured_bytes: int = 0) -> RequestBody:
    """Return a request without its id; lone surrogates in its strings are escaped."""
    return RequestBody(request_json(request), timeout_group, measured_bytes)


def printable_line(line: bytes) -> str:
    """Return a line of a target, shortened for display; control characters are escaped."""
    text = line[:200].decode("utf-8", "backslashreplace")
    printable = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return printable + ("…" if len(line) > 200 else "")


def fields(line: bytes, number: int) -> Answer:
    """Return the fields of the answer to request `number`. Raises ProtocolError."""
    try:
        answer = _json(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        why = too_deep() if isinstance(error, RecursionError) else error
        raise ProtocolError(f"not a line of JSON ({why}): {printable_line(line)}") from None
    if not isinstance(answer, dict):
        raise ProtocolError(f"not a JSON object: {printable_line(line)}")
    if answer.get("id") != number or isinstance(answer.get("id"), bool):
        raise ProtocolError(f"expected the answer to request {number}, found: {printable_line(line)}")
    if line.count(b"[") + line.count(b"{") > DEEPEST and is_deep(answer):
        raise ProtocolError(f"not a line of JSON ({too_deep()}): {printable_line(line)}")
    return answer


def _json(line: bytes) -> object:
    """Return the value in a line of JSON; lone surrogates become U+FFFD. Raises ValueError or RecursionError."""
    if len(line) <= MOST_VALUES:
        with suppress(msgspec.DecodeError):
            return _decode(line)  # a short line cannot contain too many values
    if not SURROGATE.search(line):
        return read_bounded(line)
    # json.dumps and JSON.stringify write a lone surrogate as an escape.
    text = json.dumps(read_json(line), ensure_ascii=False)
    return _decode(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))


LONGEST_TEXT = 400
"""The maximum length of a target's text, such as a reason or an error message, in bytes of UTF-8."""


def shorten(text: str) -> str:
    """Return a text of a target; a long one as its beginning, length and digest."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= LONGEST_TEXT:
        return text
    beginning = encoded[:LONGEST_TEXT].decode("utf-8", "ignore")
    return f"{beginning}… ({len(text)} characters, sha256 {hashlib.sha256(encoded).hexdigest()[:16]})"


def outcome(answer: Answer, size: int = 0) -> Outcome:
    """Return the outcome in an answer of `size` bytes; an invalid answer gives NoAnswer("protocol").

    Raises CannotStart if the answer reports that the broker or client behind the target is gone.
    """
    if "targetUnavailable" in answer:
        raise CannotStart(shorten(str(answer["targetUnavailable"])))
    if "unsupported" in answer:
        return Unsupported(shorten(str(answer["unsupported"])))
    if "crash" in answer:
        return NoAnswer("crash", shorten(str(answer["crash"])))
    if "timeout" in answer:
        return NoAnswer("timeout", shorten(str(answer["timeout"])))
    if answer.get("ok") is True:
        return Accepted({name: entry for name, entry in answer.items() if name not in ("id", "ok")}, size)
    if answer.get("ok") is False:
        error = answer.get("error")
        if error in ERRORS:
            return Rejected(error, shorten(str(answer.get("message", ""))), shorten(str(answer.get("codes", ""))))
        return NoAnswer("protocol", f"error: expected one of {', '.join(ERRORS)}, found {error!r:.60}")
    return NoAnswer("protocol", f"expected ok, unsupported or crash, found: {printable_line(_encode(answer))}")


# --- describe -----------------------------------------------------------------------------------------

EntryPoints: TypeAlias = dict[tuple[str, str], "EntryPoint"]
"""Entry points by operation and type; the type is empty if one entry point serves every type."""


class EntryPoint(Struct, frozen=True):
    """The tested call of the library, with its kind."""

    kind: str
    """`public`: an application calls it; `internal`: the library itself uses it for its requests and responses;
    `unused`: the library does not use it, so it is not tested."""
    call: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.call}"


class TargetDescription(Struct, frozen=True):
    """The answer of a target to `describe`."""

    name: str
    version: str = ""
    language: str = ""
    supports: dict[str, frozenset[str]] = field(default_factory=dict)
    whole_log: frozenset[str] = frozenset()
    """The whole-log operations that it supports."""
    codecs: frozenset[str] | None = None
    magics: frozenset[int] | None = None
    messages: dict[str, VersionRange] | None = None
    """Its messages with their versions; None for a codec that works with any definition."""
    surrogates: bool = False
    """True if its JSON reader accepts an escaped lone surrogate in a string to encode."""
    entry_points: EntryPoints = field(default_factory=dict)
    """The content of `via`."""
    raw: Answer = field(default_factory=dict)

    def entry_point(self, op: str, name: str) -> EntryPoint | None:
        """Return the tested call of an operation and type; None if `via` does not contain it.

        A form represents all its types (`ARRAY` for `ARRAY<INT32>`, `MESSAGE<FetchRequest>` for each version); an
        operation without a type represents every type.
        """
        form, bracket, rest = name.partition("<")
        of_every_version = f"{form}<{rest.partition(',')[0]}>" if bracket else name
        keys = ((op, key) for key in (name, of_every_version, form, ""))
        return next((self.entry_points[key] for key in keys if key in self.entry_points), None)

    def claims(self, op: str, name: str) -> bool:
        """Return whether it claims an operation on a type; an array form includes every claimed element type."""
        if op in WHOLE_LOG:
            return op in self.whole_log
        if name.startswith("MESSAGE<"):
            return "MESSAGE" in self.supports.get(op, frozenset())
        types = self.supports.get(op, frozenset())
        if name in types:
            return True
        form, bracket, rest = name.partition("<")
        return bool(bracket) and form in types and self.claims(op, rest[:-1])

    def has(self, case: CaseSummary) -> bool:
        """Return whether it has the message of a case in that version; True for a case of another type."""
        return not case.type.startswith("MESSAGE<") or self.has_message(*_message_of(case))

    def has_message(self, message: str, version: int) -> bool:
        """Return whether it has a message in a version; a codec that works with any definition has them all."""
        if not any("MESSAGE" in types for types in self.supports.values()):
            return False
        return self.messages is None or (message in self.messages and version in self.messages[message])

    def unused(self, case: CaseSummary) -> str:
        """Return the call that a case would test, if the library does not use it; else an empty text."""
        entry_point = self.entry_point(case.op, case.type)
        return entry_point.call if entry_point is not None and entry_point.kind == "unused" else ""

    def lacks(self, case: CaseSummary) -> str:
        """Return the reason why a case is not sent; empty when it is sent."""
        return self.lacks_type(case) or self.lacks_content(case)

    def lacks_type(self, case: CaseSummary) -> str:
        """Return the reason why no case of its operation and type is sent; empty when they are sent."""
        if not self.claims(case.op, case.type):
            what = case.op if case.op in WHOLE_LOG else f"{case.op} of {case.type}"
            return str(self.raw.get("unjudged", f"{what} is not claimed"))  # the reason of a live client
        if case.op not in WHOLE_LOG and not self.has(case):
            return "{} {} is not claimed".format(*_message_of(case))
        unused = self.unused(case)
        return f"not judged: the library does not use {unused}" if unused else ""

    def lacks_content(self, case: CaseSummary) -> str:
        """Return the reason why a case is not sent although others of its type are; empty when it is sent."""
        if self.codecs is not None and not case.codecs <= self.codecs:
            return "codec not claimed: " + ", ".join(sorted(case.codecs - self.codecs))
        if self.magics is not None and not case.magics <= self.magics:
            return "magic not claimed: " + ", ".join(map(str, sorted(case.magics - self.magics)))
        if not self.surrogates and case.needs_surrogates:
            return "lone surrogates in strings are not claimed"
        return ""


def _message_of(case: CaseSummary) -> tuple[str, int]:
    """Return the name and the version of the message in a case."""
    name, _, version = case.type.removeprefix("MESSAGE<").rstrip(">").partition(",")
    return name, int(version)


def description(answer: Answer) -> TargetDescription:
    """Return the description in an answer to `describe`. Raises ProtocolError with the name of the wrong field."""
    if "crash" in answer:
        raise ProtocolError(f"describe crashed: {shorten(str(answer['crash']))}")
    if answer.get("ok") is not True:
        raise ProtocolError(
            str(
                answer.get(
                    "targetUnavailable", f"describe: expected ok: true, found: {printable_line(_encode(answer))}"
                )
            )
        )
    if answer.get("protocol", PROTOCOL) != PROTOCOL:
        raise ProtocolError(f"describe: protocol: expected {PROTOCOL}, found {answer['protocol']!r}")
    supports = answer.get("supports", {})
    if not isinstance(supports, dict):
        raise ProtocolError("describe: supports: expected an object of operations and types")
    claimed = {op: _names(supports.get(op, []), f"supports.{op}") for op in OPS}
    magics = answer.get("magics")
    if magics is not None and not (isinstance(magics, list) and all(type(magic) is int for magic in magics)):
        raise ProtocolError("describe: magics: expected a list of numbers")
    name, version, language = (str(answer.get(key, "")) for key in ("name", "version", "language"))
    return TargetDescription(
        name,
        version,
        language,
        supports=claimed,
        whole_log=frozenset(op for op in WHOLE_LOG if supports.get(op) not in (None, False, [])),
        codecs=_names(answer["codecs"], "codecs") if "codecs" in answer else None,
        magics=None if magics is None else frozenset(magics),
        messages=_messages(answer["messages"]) if "messages" in answer else None,
        surrogates=answer.get("surrogates") is True,
        entry_points=_entry_points(answer["via"]) if "via" in answer else {},
        raw={name: entry for name, entry in answer.items() if name not in ("id", "ok")},
    )


_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5})|(\+))?\Z")


def _messages(given: object) -> dict[str, VersionRange]:
    """Return the messages that a target claims, with their versions."""
    if not isinstance(given, dict):
        raise ProtocolError("describe: messages: expected an object of names and versions")
    claimed = {}
    for name, versions in given.items():
        match = _RANGE.match(versions) if isinstance(versions, str) else None
        if match is None:
            raise ProtocolError(f"describe: messages.{name}: expected versions such as 0-3, found {versions!r:.40}")
        claimed[name] = VersionRange(int(match[1]), LAST if match[3] else int(match[2] or match[1]))
    return claimed


_ENTRY_POINT = re.compile(r"(public|internal|unused): (\S.*)", re.DOTALL)


def _entry_points(given: object) -> EntryPoints:
    """Return the entry points in `via`, by operation and type."""
    if not isinstance(given, dict):
        raise ProtocolError("describe: via: expected an object of operations and calls")
    entry_points = {}
    for key, entry_point in given.items():
        op, space, name = key.partition(" ")
        if op not in OPS and (op not in WHOLE_LOG or space):
            problem = "expected an operation, and a type for " + ", ".join(OPS)
            raise ProtocolError(f"describe: via: {key!r:.60}: {problem}, such as 'decode RECORD_BATCH' or 'read'")
        match = _ENTRY_POINT.fullmatch(entry_point) if isinstance(entry_point, str) else None
        if match is None:
            problem = "expected public, internal or unused, then ': ' and the call"
            raise ProtocolError(f"describe: via: {key!r:.60}: {problem}, found {entry_point!r:.60}")
        entry_points[op, re.sub(r"\s", "", name)] = EntryPoint(match[1], match[2])
    return entry_points


def _names(given: object, where: str) -> frozenset[str]:
    if given is False or given is None:
        return frozenset()
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ProtocolError(f"describe: {where}: expected a list of names")
    return frozenset(re.sub(r"\s", "", name) for name in given)
