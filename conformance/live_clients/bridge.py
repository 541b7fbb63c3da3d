"""What a live client makes of a case: `read` requests become topics of the scripted broker.

Two witnesses tell it: what the client hands to the application, and the offset from which it fetches next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from conformance.cases.api_versions_profiles import OFFERS, from_on, to_producers
from conformance.cases.client_requests import written_for as plain_batches
from conformance.cases.client_scenarios import AT_ONCE, ENDS, GIVEN_UP, REFUSED, SEVERAL
from conformance.cases.log_requests import fetch_question
from conformance.cases.model import Answer, Expectation, ExpectClientRequests, Request, Value
from conformance.cases.operations import OPERATIONS
from conformance.codec.json_notation import NotationError
from conformance.codec.log import LOG
from conformance.codec.record_batch import RECORD_BATCH
from conformance.definitions.request_frames import SENT
from conformance.judging.client_requests import judge_sent
from conformance.live_clients.baseline import BaselineFailed, baseline, is_as_due, may_need_more
from conformance.live_clients.case_run import consumed, remarked, tell, written
from conformance.live_clients.client_pool import ClientPool, ClientSlot, Put
from conformance.live_clients.driver_manifest import DriverManifest
from conformance.live_clients.driver_process import DIED
from conformance.live_clients.guard_records import GuardedCase, between
from conformance.live_clients.scenario_runs import WRITES, ClientScenarioRuns, lacking_for
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.cluster import MockCluster
from conformance.mock_broker.faults import KINDS, PLAIN, ClientScenario
from conformance.mock_broker.produce_handlers import told_of, why_not
from conformance.mock_broker.request_recorder import RequestRecorder
from conformance.mock_broker.server import MockBrokerServer
from conformance.mock_broker.topic import Due, MockTopic, holds_messages, is_served_by_entry, topic_of, unaskable
from conformance.semantics.consumer_view import ISOLATIONS
from conformance.targets.protocol import PROTOCOL

_SHOWN = 300
"""Characters of an answer that an error quotes."""


def _is_ok(answer: Answer) -> bool:
    return answer.get("ok") is True


class ClientBridge:
    """Puts cases to one client, several at once. `close` it."""

    def __init__(self, driver: DriverManifest) -> None:
        """Nothing runs before `start`."""
        self._driver, self._offers, self._seats = driver, driver.offers, ClientPool(driver)
        self._server = MockBrokerServer(self._seats.void, OFFERS[driver.offers])
        self._producers = MockBrokerServer(self._seats.void, to_producers(OFFERS[driver.offers]), self._server.witness)
        self._beside = MockCluster(self._seats.void)
        is_idempotent = "idempotence" in driver.produces
        self._conversations = ClientScenarioRuns(self._seats, self._server.witness, self, idempotent=is_idempotent)
        self._trying = asyncio.Lock()
        self._has_come: bool | None = None
        self._never_writes: str | None = None
        """Why nothing that the client writes is judged; empty where that is, None where nothing failed yet."""
        self._unjudged = ""
        """Why the client is judged on nothing but the versions that it sends; empty where it is judged on all."""

    async def start(self) -> None:
        """Let the broker listen, and start the client. Raises OSError, TimeoutError, DriverError or BaselineFailed."""
        self._broker: MockBroker = await self._server.start()
        self._written_to: MockBroker = await self._producers.start()
        await self._beside.start()
        await self._seats.crowd.ready()
        await self._pass_baseline()

    async def close(self) -> None:
        """End the client, then the broker."""
        await self._seats.close()
        for server in (self._server, self._producers, self._beside):
            await server.close()

    async def describe(self) -> Answer:
        """What the driver's file says, and the version that the client itself tells."""
        client, driver = await self._seats.crowd.ready(), self._driver
        encodes = ["RECORD_BATCH"] * ("timestamps" in driver.produces)
        writer = {"encode RECORD_BATCH": f"public: {driver.writer}"} if driver.writer else {}
        claims: Answer = {
            "supports": {"read": True, "send": True, "encode": encodes},
            "via": {"read": f"public: {driver.door}", **writer},
        }
        if self._unjudged:
            claims = {"supports": {"send": True}, "unjudged": self._unjudged}
        return {
            "ok": True,
            "protocol": PROTOCOL,
            "name": driver.name,
            "version": client.version,
            "language": driver.language,
            **claims,
            "offers": self._offers,
            "codecs": list(driver.codecs),
            "magics": list(driver.magics),
        }

    async def read(self, request: Mapping[str, object]) -> Answer:
        """The answer to a `read` request. What is not as due is asked once more, apart, before it counts."""
        try:
            parts = OPERATIONS["read"].parse(request, LOG)
        except NotationError as error:
            return {"ok": False, "error": "invalid-value", "message": str(error)}
        if reason := unaskable(parts, self._driver.isolations, self._broker.carried):
            return {"unsupported": reason}
        expected = fetch_question(parts).expect
        sides = between(parts, expected)
        answer = await self._confirmed(expected, lambda seat: self._put(seat, parts, sides))
        further: dict[str, Put] = {}
        if is_served_by_entry(parts, expected, stood_between=sides is not None):
            further["served one entry a fetch"] = lambda seat: self._put(seat, parts, by_entry=True)
        may_differ = parts["aborted"] or holds_messages(parts["hex"])
        if may_differ and is_as_due(expected, answer) and await self._comes_through():
            further["where everything is offered"] = lambda seat: self._put(seat, parts, broker=self._beside.untagged)
        for how, put in further.items():
            if not is_as_due(expected, answer):
                break
            other = await self._confirmed(expected, put)
            if not is_as_due(expected, other):
                answer = remarked(other, how)
        return answer

    async def _comes_through(self) -> bool:
        """Whether the client consumes where everything is offered, and is told of something else elsewhere.

        It matters where a client goes another way in newer versions of Fetch: messages of magic 0 and 1 have lengths of
        their own, and the list of aborted transactions has another form there.
        """
        return self._offers not in ("full", "old") and await self._consumes_all()

    async def _consumes_all(self) -> bool:
        """Whether the client consumes where everything is offered."""
        async with self._trying:
            if self._has_come is None:
                parts = next(iter(baseline(self._driver.isolations[0])))
                expected = fetch_question(parts).expect
                put: Put = lambda seat: self._put(seat, parts, broker=self._beside.untagged)  # noqa: E731
                self._has_come = is_as_due(expected, await self._confirmed(expected, put))
            return self._has_come

    async def send(self, request: Mapping[str, object]) -> Answer:
        """The answer to a `send` request: what the client sent."""
        try:
            parts = OPERATIONS["send"].parse(request, LOG)
        except NotationError as error:
            return {"ok": False, "error": "invalid-value", "message": str(error)}
        if self._unjudged:
            is_of_versions = (parts["conversation"], parts["check"]) == ("consume", "offered")
            sent = {"ok": True, "value": SENT.render(self._server.witness.heedless)}
            return sent if is_of_versions else {"unsupported": self._unjudged}
        if parts["isolation"] not in self._driver.isolations:
            return {"unsupported": f"{parts['isolation']} is not claimed"}
        if parts["check"] == "isolated" and len(self._driver.isolations) < len(ISOLATIONS):
            return {"unsupported": "the client leaves an application no choice of the isolation level"}
        if lacking := lacking_for(parts, self._driver.produces, groups=self._driver.groups):
            return {"unsupported": f"{lacking} is not claimed"}
        if self._offers == "old" and KINDS[parts["conversation"]].offers:
            return {"unsupported": "it is not known to consume with another offer"}
        answer = await self._conversations.answer(parts)
        failed = parts["conversation"] in WRITES and ("crash" in answer or "timeout" in answer)
        return answer if not failed else await self._unless_it_never_writes(answer)

    async def _pass_baseline(self) -> None:
        """Let the client consume plain batches; where it comes through none, broker or driver fail, not the client.

        One that needs other versions than its driver's offer has is offered more, and is judged there. A version beside
        those that it was told of is its own fault all the same. Raises BaselineFailed where there is no such request.
        """
        reason, witness = "", self._server.witness
        for offers in from_on(self._driver.offers):
            if offers == "old" and self._broker.carried > 1:
                break  # it reads batches
            known = len(witness.heedless)
            self._offers, self._broker.offered = offers, OFFERS[offers]
            self._written_to.offered = to_producers(OFFERS[offers])
            failed = await self._failed_baseline()
            if failed is None:
                if offers == "old":
                    self._driver = self._driver.of_messages(self._broker.carried)
                    self._conversations.magic = 0
                return
            sent = f", as it sent what is no request ({witness.unread})" if witness.unread else ""
            came = f"no plain batch came through to it{sent}, but {str(failed)[:_SHOWN]}"
            if not reason or (offers == "old" and self._broker.carried >= 0):
                reason = f"the client is not judged: {came}"
            if offers == "old" != self._driver.offers:
                del witness.heedless[known:]  # it may not be made for such a broker, and was not meant to meet one
            if not may_need_more(failed):
                break
            await self._seats.crowd.empty()  # what it still asks for is of the offer before
            witness.begin_anew()
        if not witness.heedless:
            raise BaselineFailed(reason)
        fault = judge_sent(ExpectClientRequests("offered", ""), SENT.render(witness.heedless))
        self._unjudged = f"it sent {fault.detail}; {reason}"

    async def _failed_baseline(self) -> Answer | None:
        """What came of the first plain batch; None where one of them comes through."""
        failed: Answer = {}
        for parts in baseline(self._driver.isolations[0], of_messages=self._offers == "old"):
            self._broker.has_told = False  # each consumer asks for itself: it does not know what another was told
            answer = await self._put(self._seats.crowd, parts, name="baseline")
            if "unsupported" not in answer and is_as_due(fetch_question(parts).expect, answer):
                return None
            failed = failed or answer
        return failed

    async def _confirmed(self, expected: Expectation, put: Put) -> Answer:
        """What comes of a case; what is not as due is asked once more, apart, before it counts."""
        return await self._seats.confirmed(put, partial(is_as_due, expected))

    async def encode(self, request: Mapping[str, object]) -> Answer:
        """The answer to an `encode` request: the batch that the client writes for such records."""
        try:
            batch = OPERATIONS["encode"].parse(request, RECORD_BATCH)["value"]
        except NotationError as error:
            return {"ok": False, "error": "invalid-value", "message": str(error)}
        if reason := why_not(batch, self._driver.produces):
            return {"unsupported": reason}
        answer = await self._written([batch])
        failed = answer.get("ok") is not True and "unsupported" not in answer
        return answer if not failed else await self._unless_it_never_writes(answer)

    async def _written(self, batches: Sequence[Value]) -> Answer:
        """What comes of batches that the client is to write; what fails is asked once more, apart."""
        return await self._seats.confirmed(
            lambda seat: self._put_to_write(seat, batches[0], told_of(batches), MockTopic(b"", 0, 0)), _is_ok
        )

    async def _unless_it_never_writes(self, answer: Answer) -> Answer:
        """The answer about what a client failed to write; where no plain batch comes either, that is no fault of it.

        A death is.
        """
        if answer.get("crash", "").startswith(DIED):
            return answer
        async with self._trying:
            if self._never_writes is None:
                ways = (False, True) if "idempotence" in self._driver.produces else (False,)
                plain = [
                    await self._written(plain_batches("produce", idempotent=idempotent)[:1]) for idempotent in ways
                ]
                told = f"nothing that it writes is judged, as no plain batch came from it, but {str(plain[0])[:_SHOWN]}"
                self._never_writes = "" if any(map(_is_ok, plain)) else told
        return {"unsupported": self._never_writes} if self._never_writes else answer

    async def write(
        self, conversation: str, seat: ClientSlot, batches: Sequence[Value], witness: RequestRecorder
    ) -> Answer:
        """Let the client in a seat write these batches, as a broker takes them in a conversation."""
        kind = KINDS[conversation]
        broker = await self._beside.open(kind, to_producers(OFFERS[kind.offers or self._offers]), witness, seat.void)
        ends, given_up = ENDS if conversation in SEVERAL else (), {REFUSED} if conversation in GIVEN_UP else ()
        told = told_of(batches, ends, together=conversation in AT_ONCE, given_up=given_up)
        due: Due | None = {} if kind.lost or conversation in (*AT_ONCE, *SEVERAL, *GIVEN_UP) else None
        return await self._put_to_write(seat, batches[0], told, MockTopic(b"", 0, 0, due=due).led(kind), broker)

    async def _put_to_write(
        self, seat: ClientSlot, first: Value, told: Answer, topic: MockTopic, broker: MockBroker | None = None
    ) -> Answer:
        """Let the client write to a topic what it is told, of which this batch is the `first`."""
        topic.producer = first["producerId"], first["producerEpoch"]
        return await tell(seat, broker or self._written_to, topic, {"produce": told}, written)

    async def _put(
        self,
        seat: ClientSlot,
        parts: Request,
        sides: GuardedCase | None = None,
        *,
        by_entry: bool = False,
        name: str = "case",
        broker: MockBroker | None = None,
        kind: ClientScenario = PLAIN,
    ) -> Answer:
        """Let the client consume a topic with these bytes, with records beside them or without: what came of it."""
        topic = topic_of(sides.parts if sides else parts, by_entry=by_entry).led(kind)
        where = {"group": True} if kind.in_group else {"offset": str(topic.start)}
        told = {**where, "isolation": parts["isolation"]}
        return await tell(seat, broker or self._broker, topic, told, partial(consumed, sides=sides), name)

    async def why_not(self, conversation: str) -> str:
        """Why the client cannot be led in a conversation; empty where it can.

        Only one that comes through where everything is offered meets what takes newer versions.
        """
        can = not KINDS[conversation].needs_all or await self._consumes_all()
        return "" if can else "the client does not come through where everything is offered"

    async def consume(self, conversation: str, seat: ClientSlot, parts: Request, witness: RequestRecorder) -> Answer:
        """Let the client in a seat consume a topic in a conversation; again where its broker is odd and it fails."""
        kind, expected = KINDS[conversation], fetch_question(parts).expect
        offered = OFFERS[kind.offers or self._offers]
        if kind.in_group:  # who claims none has only the form of what it sends judged
            offered, kind = (to_producers(offered), kind) if self._driver.groups else (offered, PLAIN)
        broker = await self._beside.open(kind, offered, witness, seat.void)
        for _ in range(1 if conversation in ("consume", "bare") else 2):
            answer = await self._put(seat, parts, broker=broker, kind=kind)
            if is_as_due(expected, answer) or "timeout" in answer:  # that was long enough
                break
        return answer
