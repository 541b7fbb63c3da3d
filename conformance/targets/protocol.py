"""The target protocol, version 1: requests out, answers in, as lines of JSON."""

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
    """An answer is not there when most are, and still has time to come."""


class ProtocolError(TargetFailure):
    """A line that is not an answer to the request that is due; the message shows the line."""


class RequestBody(NamedTuple):
    """A request without its id."""

    line: bytes
    timeout_group: str = ""
    """The requests that probably time out together have the same group; empty if there is none."""
    measured_bytes: int = 0
    """Bytes that memory and time are compared with; 0 where memory is not measured."""

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
    """A line that a target wrote, cut for display; control characters are escaped."""
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
        raise ProtocolError(f"an answer to request {number} is due, but this came: {printable_line(line)}")
    if line.count(b"[") + line.count(b"{") > DEEPEST and is_deep(answer):
        raise ProtocolError(f"not a line of JSON ({too_deep()}): {printable_line(line)}")
    return answer


def _json(line: bytes) -> object:
    """What a line of JSON holds, lone surrogates in it as U+FFFD. Raises ValueError or RecursionError."""
    if len(line) <= MOST_VALUES:
        with suppress(msgspec.DecodeError):
            return _decode(line)  # too small to hold too many values
    if not SURROGATE.search(line):
        return read_bounded(line)
    # Half a surrogate pair may be escaped, as json.dumps and JSON.stringify do.
    text = json.dumps(read_json(line), ensure_ascii=False)
    return _decode(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))


LONGEST_TEXT = 400
"""Bytes in UTF-8 of a target's own text that are kept: a reason, a message, what it died of."""


def shorten(text: str) -> str:
    """A text of a target, or its front, with its length and digest."""
    whole = text.encode("utf-8", "surrogatepass")
    if len(whole) <= LONGEST_TEXT:
        return text
    front = whole[:LONGEST_TEXT].decode("utf-8", "ignore")
    return f"{front}… ({len(text)} characters, sha256 {hashlib.sha256(whole).hexdigest()[:16]})"


def outcome(answer: Answer, size: int = 0) -> Outcome:
    """What an answer of so many bytes says, a `protocol` fault at worst. Raises CannotStart: what it asks is gone."""
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
        return NoAnswer("protocol", f"error is one of {', '.join(ERRORS)}, not {error!r:.60}")
    return NoAnswer("protocol", f"neither ok, unsupported nor crash: {printable_line(_encode(answer))}")


# --- describe -----------------------------------------------------------------------------------------

EntryPoints: TypeAlias = dict[tuple[str, str], "EntryPoint"]
"""Doors by operation and type; the type is empty where a door stands for every type of the operation."""


class EntryPoint(Struct, frozen=True):
    """The call that an adapter judges, and who calls it."""

    who: str
    """`public`: an application calls it; `internal`: the library's own path to the wire runs through it; `unused`:
    nothing runs through it, so it is not judged."""
    call: str

    def __str__(self) -> str:
        return f"{self.who}: {self.call}"


class TargetDescription(Struct, frozen=True):
    """What a target says of itself."""

    name: str
    version: str = ""
    language: str = ""
    supports: dict[str, frozenset[str]] = field(default_factory=dict)
    whole_log: frozenset[str] = frozenset()
    """The operations on whole logs that it can do."""
    codecs: frozenset[str] | None = None
    magics: frozenset[int] | None = None
    messages: dict[str, VersionRange] | None = None
    """The messages that it has, with their versions; None for a codec that takes any definition."""
    surrogates: bool = False
    """Whether its reader of JSON takes a lone surrogate, which is escaped, in a string to be encoded."""
    entry_points: EntryPoints = field(default_factory=dict)
    """What `via` says."""
    raw: Answer = field(default_factory=dict)

    def entry_point(self, op: str, name: str) -> EntryPoint | None:
        """The door at which `op` on a type is judged; None where it does not say.

        A form stands for every type in it (`ARRAY` for `ARRAY<INT32>`, `MESSAGE<FetchRequest>` for each version), and
        the operation alone for every type.
        """
        form, bracket, rest = name.partition("<")
        of_every_version = f"{form}<{rest.partition(',')[0]}>" if bracket else name
        keys = ((op, key) for key in (name, of_every_version, form, ""))
        return next((self.entry_points[key] for key in keys if key in self.entry_points), None)

    def claims(self, op: str, name: str) -> bool:
        """Whether it says that it can do `op` on a type; an array form stands for every element it supports."""
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
        """Whether it has the message of a case in that version; True for a case of another type."""
        return not case.type.startswith("MESSAGE<") or self.has_message(*_message_of(case))

    def has_message(self, message: str, version: int) -> bool:
        """Whether it has a message in a version; a codec that takes any definition has them all."""
        if not any("MESSAGE" in types for types in self.supports.values()):
            return False
        return self.messages is None or (message in self.messages and version in self.messages[message])

    def unused(self, case: CaseSummary) -> str:
        """The call that a case would judge and that nothing runs through; empty when it is worth judging."""
        door = self.entry_point(case.op, case.type)
        return door.call if door is not None and door.who == "unused" else ""

    def lacks(self, case: CaseSummary) -> str:
        """Why a case is not put to it; empty when it is."""
        return self.lacks_type(case) or self.lacks_content(case)

    def lacks_type(self, case: CaseSummary) -> str:
        """Why no case of its operation and type is put to it; empty when they are."""
        if not self.claims(case.op, case.type):
            what = case.op if case.op in WHOLE_LOG else f"{case.op} of {case.type}"
            return str(self.raw.get("unjudged", f"{what} is not claimed"))  # a live client's reason
        if case.op not in WHOLE_LOG and not self.has(case):
            return "{} {} is not claimed".format(*_message_of(case))
        unused = self.unused(case)
        return f"not judged: the library does not use {unused}" if unused else ""

    def lacks_content(self, case: CaseSummary) -> str:
        """Why a case is not put to it though others of its type are; empty when it is."""
        if self.codecs is not None and not case.codecs <= self.codecs:
            return "codec not claimed: " + ", ".join(sorted(case.codecs - self.codecs))
        if self.magics is not None and not case.magics <= self.magics:
            return "magic not claimed: " + ", ".join(map(str, sorted(case.magics - self.magics)))
        if not self.surrogates and case.needs_surrogates:
            return "lone surrogates in strings are not claimed"
        return ""


def _message_of(case: CaseSummary) -> tuple[str, int]:
    """The message that a case is about, and its version."""
    name, _, version = case.type.removeprefix("MESSAGE<").rstrip(">").partition(",")
    return name, int(version)


def description(answer: Answer) -> TargetDescription:
    """The answer to `describe`. Raises ProtocolError naming the field that is wrong."""
    if "crash" in answer:
        raise ProtocolError(f"describe crashed: {shorten(str(answer['crash']))}")
    if answer.get("ok") is not True:
        raise ProtocolError(
            str(
                answer.get("targetUnavailable", f"describe was not answered with ok: {printable_line(_encode(answer))}")
            )
        )
    if answer.get("protocol", PROTOCOL) != PROTOCOL:
        raise ProtocolError(f"protocol {answer['protocol']!r}, the suite speaks {PROTOCOL}")
    supports = answer.get("supports", {})
    if not isinstance(supports, dict):
        raise ProtocolError("describe: supports is an object of operations and types")
    claimed = {op: _names(supports.get(op, []), f"supports.{op}") for op in OPS}
    magics = answer.get("magics")
    if magics is not None and not (isinstance(magics, list) and all(type(magic) is int for magic in magics)):
        raise ProtocolError("describe: magics is a list of numbers")
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
    """Message names with the versions that a target has of them."""
    if not isinstance(given, dict):
        raise ProtocolError("describe: messages is an object of names and versions")
    claimed = {}
    for name, versions in given.items():
        match = _RANGE.match(versions) if isinstance(versions, str) else None
        if match is None:
            raise ProtocolError(f"describe: messages.{name}: versions such as 0-3, not {versions!r:.40}")
        claimed[name] = VersionRange(int(match[1]), LAST if match[3] else int(match[2] or match[1]))
    return claimed


_DOOR = re.compile(r"(public|internal|unused): (\S.*)", re.DOTALL)


def _entry_points(given: object) -> EntryPoints:
    """What `via` says, by operation and type."""
    if not isinstance(given, dict):
        raise ProtocolError("describe: via is an object of operations and calls")
    entry_points = {}
    for key, door in given.items():
        op, space, name = key.partition(" ")
        if op not in OPS and (op not in WHOLE_LOG or space):
            problem = "expected an operation, and a type for " + ", ".join(OPS)
            raise ProtocolError(f"describe: via: {key!r:.60}: {problem}, such as 'decode RECORD_BATCH' or 'read'")
        match = _DOOR.fullmatch(door) if isinstance(door, str) else None
        if match is None:
            problem = "expected public, internal or unused, then ': ' and the call"
            raise ProtocolError(f"describe: via: {key!r:.60}: {problem}, not {door!r:.60}")
        entry_points[op, re.sub(r"\s", "", name)] = EntryPoint(match[1], match[2])
    return entry_points


def _names(given: object, where: str) -> frozenset[str]:
    if given is False or given is None:
        return frozenset()
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ProtocolError(f"describe: {where} is a list of names")
    return frozenset(re.sub(r"\s", "", name) for name in given)
