"""What a client sends: kept as it comes, and given as the answer to `send` requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping

from conformance.cases.conversations import SENT, api_of
from conformance.cases.log_questions import fetch_question
from conformance.cases.model import Answer, Request, Value
from conformance.cases.operations import OPERATIONS
from conformance.codec.log import LOG
from conformance.judging.requests import flaws_of
from conformance.targets.probes import plain_log

_KEPT = 512
"""Requests of a conversation that are kept, the first ones."""
_SHOWN = 8
"""Requests in an answer at most: those that stand out first."""
_FLAWED = 4
"""Requests that are kept of each kind and each check that they do not stand, from the whole run."""
_REFUSALS = {"consume": 6, "reset": 1}
"""The error with which the first fetch of a conversation is answered: NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE."""


class Witness:
    """Keeps what clients send: all of one conversation, and of the whole run what does not stand a check."""

    def __init__(self) -> None:
        """Nothing is kept but what is flawed before `listen`."""
        self._heard: deque[Value] = deque(maxlen=0)
        self._flawed: dict[tuple[str, str], list[Value]] = {}

    def note(self, frame: bytes, in_flight: Iterable[int], offered: Mapping[str, tuple[int, int]]) -> None:
        """A request came, with its size, while these correlation ids were not answered yet on its connection."""
        row = {"hex": frame, "inFlight": tuple(in_flight), "offered": offered.get(api_of(frame))}
        if len(self._heard) < (self._heard.maxlen or 0):
            self._heard.append(row)
        for check in flaws_of(row):
            kept = self._flawed.setdefault((api_of(frame), check), [])
            if len(kept) < _FLAWED:
                kept.append(row)

    def listen(self) -> deque[Value]:
        """Keep what comes from now on; what was kept before belongs to who asked for it."""
        self._heard = deque(maxlen=_KEPT)
        return self._heard

    def answer(self, parts: Request, heard: Iterable[Value]) -> Answer:
        """What a client sent, as an answer to a `send` request: what does not stand its check comes first."""
        flawed = [row for (_, check), rows in self._flawed.items() if check == parts["check"] for row in rows]
        wanted = [row for row in (*flawed, *heard) if parts.get("of", "") in ("", api_of(row["hex"]))]
        return {"ok": True, "value": SENT.render(wanted[:_SHOWN])}


class Conversations:
    """Holds each conversation with a client once, and answers from what it sent in that and in the whole run."""

    def __init__(self, witness: Witness, put: Callable[..., Awaitable[Answer]]) -> None:
        """`put` lets the client consume a `read` request alone, its first fetches refused with these `refusals`."""
        self._witness, self._put = witness, put
        self._held: dict[tuple[str, str], tuple[deque[Value], Answer]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def answer(self, parts: Request) -> Answer:
        """The answer to a `send` request, its parts parsed; of a client that sent nothing, what became of it."""
        async with self._one_at_a_time:
            which = parts["conversation"], parts["isolation"]
            if which not in self._held:
                asked = fetch_question({"hex": plain_log(2), "isolation": parts["isolation"]}).parts
                heard = self._witness.listen()
                said = await self._put(
                    OPERATIONS["read"].parse(asked, LOG), refusals=(_REFUSALS[parts["conversation"]],)
                )
                self._held[which] = heard, said
        heard, said = self._held[which]
        return self._witness.answer(parts, heard) if heard else said
