"""What a client sends: kept as it comes, and given as the answer to `send` requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from conformance.cases.conversations import ONWARD, PRODUCING, SENT, TRANSACTIONAL, WHOLE, api_of, written_for
from conformance.cases.log_questions import fetch_question
from conformance.cases.model import Answer, Kind, Request, Sends, Value
from conformance.cases.operations import OPERATIONS
from conformance.codec.log import LOG
from conformance.judging.requests import flaws_of, judge_sent
from conformance.targets.live.kinds import KINDS
from conformance.targets.live.seats import Put, Seat
from conformance.targets.probes import plain_log

_KEPT = 512
"""Requests of a conversation that are kept, the first ones."""
_SHOWN = 8
"""Requests in an answer at most: those that stand out first."""
_COURSE = 64
"""Requests in an answer at most where all of them tell together."""
_FLAWED = 4
"""Requests that are kept of each kind and each check that they do not stand, from the whole run."""
_ENDS_EMPTY = bytes.fromhex(
    "000000000000000000000041ffffffff02e80260ae00000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff"
    "000000011e000000026b02760402680278026500"
)
"""A batch that ends with an empty header value: who waits for a byte of that waits for the next answer."""
WRITES = {name: "transactions" if name in TRANSACTIONAL else "idempotence" for name in PRODUCING}
"""The conversations in which a client writes, and what its producer must be able to do for each."""


def lacking_for(parts: Request, produces: Collection[str], *, groups: bool) -> str:
    """What a client lacks for a `send` request, whose producer has these claims, and which claims `groups` or not.

    Empty where it lacks nothing. What it writes without idempotence has a definition too; neither sequences nor what is
    sent again are judged then. So have the requests of a client that joins a group unasked.
    """
    need, is_of_form = WRITES.get(parts["conversation"], ""), parts["check"] == "well-formed"
    if KINDS[parts["conversation"]].in_group:
        return "" if groups or is_of_form else "groups"
    if need == "idempotence" and is_of_form and produces:
        return ""
    return "" if need in ("", *produces) else need


class Witness:
    """Keeps what clients send: all of one conversation, and of the whole run what does not stand a check."""

    def __init__(self) -> None:
        """Nothing is kept but what is flawed while nobody listens."""
        self.heard: deque[Value] = deque(maxlen=0)
        """What comes, as long as there is room."""
        self._flawed: dict[tuple[str, str], list[Value]] = {}
        self.unread = ""
        """Why the first request that nobody can read cannot be read; empty while all could be."""
        self.heedless: list[Value] = []
        """The first requests in a version beside those that the client was told of."""

    def note(
        self,
        frame: bytes,
        in_flight: Iterable[int],
        offered: Mapping[str, tuple[int, int]],
        *,
        is_told: bool = False,
    ) -> None:
        """A request came, with its size, while these correlation ids were not answered yet on its connection.

        `is_told`: the client had been answered what is offered.
        """
        row = {"hex": frame, "inFlight": tuple(in_flight), "offered": offered.get(api_of(frame))}
        if len(self.heard) < (self.heard.maxlen or 0):
            self.heard.append(row)
        for check in flaws_of(row):
            kept = self._flawed.setdefault((api_of(frame), check), [])
            if len(kept) < _FLAWED:
                kept.append(row)
            if check == "offered" and is_told and row["offered"] and len(self.heedless) < _SHOWN:
                self.heedless.append(row)

    def begin_anew(self) -> None:
        """Keep nothing of what came but the versions beside those that the client was told of."""
        self.unread, self._flawed = "", {}
        for row in self.heedless:
            self._flawed.setdefault((api_of(row["hex"]), "offered"), []).append(row)

    def answer(self, parts: Request, heard: Iterable[Value]) -> Answer:
        """What a client sent, as an answer to a `send` request: what does not stand its check comes first."""
        flawed = [row for (_, check), rows in self._flawed.items() if check == parts["check"] for row in rows]
        wanted = [row for row in (*flawed, *heard) if parts.get("of", "") in ("", api_of(row["hex"]))]
        if parts["check"] in ONWARD:  # the last fetches tell, and where there are none, what came instead
            wanted.reverse()
            wanted.sort(key=lambda row: api_of(row["hex"]) != "Fetch")
        return {"ok": True, "value": SENT.render(wanted[: _COURSE if parts["check"] in WHOLE else _SHOWN])}


Alone = Callable[[Put], Awaitable[Answer]]
Work = Callable[..., Awaitable[Answer]]


class Conversations:
    """Holds each conversation with a client once, and answers from what it sent in that and in the whole run."""

    def __init__(self, alone: Alone, witness: Witness, consume: Work, write: Work, *, idempotent: bool) -> None:
        """`alone` does some work while the client has no other; its producer can be `idempotent`, or cannot.

        `consume` lets the client in a seat consume a `read` request in a conversation, `write` lets it write batches.
        """
        self._witness, self._alone, self._consume, self._write = witness, alone, consume, write
        self._idempotent = idempotent
        self.magic = 2
        """Of the log that it consumes."""
        self._held: dict[tuple[str, str], tuple[list[Value], Answer]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def answer(self, parts: Request) -> Answer:
        """The answer to a `send` request, its parts parsed; of a client that sent nothing, what became of it.

        So it is where the client died before it sent what is judged: not from a broker that offers the least, as a
        client may need more.
        """
        which = parts["conversation"], parts["isolation"]
        async with self._one_at_a_time:
            if which not in self._held:
                said = await self._alone(lambda seat: self._hold(seat, *which))
                if "crash" in said:  # an earlier case may be to blame: the process is another one now
                    await self._alone(lambda seat: self._hold(seat, *which))
        heard, said = self._held[which]
        if parts["check"] in ONWARD and "unsupported" in said:
            return said  # why it did not go on says nothing of it
        if parts["check"] in ONWARD and said.get("ok") is False and KINDS[parts["conversation"]].may_tell:
            return {"unsupported": f"it tells the application: {said.get('message', '')}"}
        answer = self._witness.answer(parts, heard) if heard else said
        if heard and "crash" in said and parts["conversation"] != "bare":
            verdict = judge_sent(Sends(parts["check"], parts["isolation"], parts.get("of", "")), answer["value"])
            stays = parts["check"] in ("goes-on", "waits", "follows") and verdict.kind is Kind.FAIL
            return said if stays or verdict.kind is Kind.SKIP else answer
        return answer

    async def _hold(self, seat: Seat, conversation: str, isolation: str) -> Answer:
        """Bring the client to do something, and keep what it sends meanwhile, and what came of it."""
        self._witness.heard = deque(maxlen=_KEPT)
        said = await self._brought_to(seat, conversation, isolation)
        self._held[conversation, isolation] = [*self._witness.heard], said
        self._witness.heard = deque(maxlen=0)
        return said

    async def _brought_to(self, seat: Seat, conversation: str, isolation: str) -> Answer:
        if conversation in WRITES:
            batches = written_for(conversation, idempotent=self._idempotent)
            return await self._write(seat, batches, conversation)
        log = _ENDS_EMPTY if conversation == "pieces" and self.magic else plain_log(self.magic)
        asked = fetch_question({"hex": log, "isolation": isolation}).parts
        return await self._consume(conversation, seat, OPERATIONS["read"].parse(asked, LOG))
