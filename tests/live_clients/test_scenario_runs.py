"""From what a `send` request is answered: its scenario, and all that was asked for before it."""

import asyncio

import pytest

from conformance.cases.operations import OPERATIONS
from conformance.codec.log import LOG
from conformance.live_clients.scenario_runs import ClientScenarioRuns
from conformance.mock_broker.request_recorder import RequestRecorder

HEARTBEAT = bytes.fromhex("0000000e 000c 0000 00000001 0000 00000000 00".replace(" ", ""))
"""Nothing of it stands but the header: the body is cut."""
VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff".replace(" ", ""))
"""A sound request for the versions."""
SAID = {"ok": True, "value": {}}


class Seats:
    """Holds what it is told to, as if there were a process for each; keeps whether the client was at work."""

    def __init__(self):
        self.was_at_work = []

    async def run_scenario(self, put, is_at_work):
        answer = await put(None)
        self.was_at_work.append(is_at_work(answer))
        return answer


class Lead:
    """Sends a request that does not stand in some scenarios, each of which may wait for an event."""

    def __init__(self, wrong=(), waits=None, fails=()):
        self.wrong, self.waits, self.fails, self.held = wrong, waits or {}, fails, []

    async def unsupported_reason(self, _):
        return ""

    async def consume(self, scenario, _seat, _batches, witness):
        self.held.append(scenario)
        if scenario in self.waits:
            await self.waits[scenario].wait()
        if scenario in self.fails:
            raise OSError("the driver cannot be run")
        witness.record(VERSIONS, (), {"ApiVersions": (0, 3)})
        if scenario in self.wrong:
            witness.record(HEARTBEAT, (), {"Heartbeat": (0, 4)})
        return SAID

    write = consume


def asked(scenario, check="well-formed", of=""):
    request = {"scenario": scenario, "check": check, "isolation": "read_committed"}
    return OPERATIONS["send"].parse({**request, **({"request": of} if of else {})}, LOG)


def answers(lead, *requests, main=None, seats=None):
    """The answers to requests that come at once."""

    async def all_of_them():
        scenarios = ClientScenarioRuns(seats or Seats(), main or RequestRecorder(), lead, idempotent=False)
        answered = [scenarios.answer(asked(*request)) for request in requests]
        return await asyncio.gather(*answered, return_exceptions=True)

    return asyncio.run(all_of_them())


def told(answer):
    return [row["hex"] for row in answer["value"]]


def test_a_conversation_is_held_once_whatever_is_asked_of_it():
    lead = Lead()
    answers(lead, ("group",), ("group", "offered"), ("group",))
    assert lead.held == ["group"]


def test_conversations_do_not_wait_for_one_another():
    async def both():
        ended = asyncio.Event()

        class Waits(Lead):
            async def consume(self, scenario, *rest):
                said = await super().consume(scenario, *rest)
                if scenario == "unknown-member-id":
                    ended.set()
                return said

        scenarios = ClientScenarioRuns(Seats(), RequestRecorder(), Waits(waits={"group": ended}), idempotent=False)
        return await asyncio.wait_for(
            asyncio.gather(scenarios.answer(asked("group")), scenarios.answer(asked("unknown-member-id"))), 60
        )

    assert len(asyncio.run(both())) == 2


@pytest.mark.parametrize(
    ("order", "due"),
    [
        (("rebalance", "group", "unknown-member-id"), [True, True, True]),
        (("group", "rebalance", "unknown-member-id"), [False, True, True]),
        (("group", "unknown-member-id", "rebalance"), [False, False, True]),
    ],
)
def test_what_did_not_stand_is_charged_where_it_was_sent_and_to_what_was_asked_for_behind_that(order, due):
    answered = answers(Lead({"rebalance"}), *((one,) for one in order))
    assert [HEARTBEAT.hex() in told(answer) for answer in answered] == due


def test_what_was_sent_without_a_conversation_is_charged():
    main = RequestRecorder()
    main.record(HEARTBEAT, (), {"Heartbeat": (0, 4)})
    first, tagged = answers(Lead({"rebalance", "unknown-tags"}), ("rebalance",), ("unknown-tags",), main=main)
    assert told(first).count(HEARTBEAT.hex()) == 3, "in the run, in the scenario, and again as one of its requests"
    assert told(tagged).count(HEARTBEAT.hex()) == 2, "its broker is another than the client's own"


def test_of_what_is_refused_the_requests_of_that_name_alone_are_told_where_the_client_says_nothing_of_an_error():
    (answer,) = answers(Lead({"producer-fenced"}), ("producer-fenced", "error-reported", "Heartbeat"))
    assert told(answer) == [HEARTBEAT.hex()]


def test_a_conversation_that_cannot_be_held_costs_no_other_one_its_answer():
    first, second = answers(Lead({"rebalance"}, fails={"group"}), ("group",), ("rebalance",))
    assert isinstance(first, OSError)
    assert HEARTBEAT.hex() in told(second)


class Waits(Lead):
    """Falls silent, or tells of an error, once so many heartbeats came."""

    def __init__(self, count, said):
        super().__init__()
        self.count, self.said = count, said

    async def consume(self, _conversation, _seat, _batches, witness):
        for _ in range(self.count):
            witness.record(HEARTBEAT, (), {"Heartbeat": (0, 4)})
        return self.said

    write = consume


SILENT, TELLS = {"timeout": "silent"}, {"ok": False, "error": "other", "message": "no"}


@pytest.mark.parametrize(
    ("count", "said", "scenario", "check", "reason"),
    [
        (3, SILENT, "topic-unknown", "progress", "it waits"),
        (2, SILENT, "topic-unknown", "progress", ""),
        (3, SILENT, "replica-unlisted", "follows", ""),
        (3, SILENT, "connection-closed", "progress", ""),
        (3, TELLS, "coordinator-gone", "progress", "it tells the application"),
        (3, TELLS, "transaction-coordinator-gone", "ended", "it tells the application"),
        (3, TELLS, "produce-leader-moved", "writes-on", "it tells the application"),
        (3, TELLS, "one-address", "progress", ""),
        (3, TELLS, "concurrent-transactions", "ended", ""),
    ],
)
def test_who_waits_or_tells_is_excused_where_the_conversation_says_so(count, said, scenario, check, reason):
    (answer,) = answers(Waits(count, said), (scenario, check))
    assert ("unsupported" in answer) is bool(reason)
    assert reason in answer.get("unsupported", "")


@pytest.mark.parametrize(
    ("count", "said", "scenario", "at_work"),
    [
        (20, SILENT, "topic-unknown", True),
        (19, SILENT, "topic-unknown", False),
        (20, TELLS, "topic-unknown", False),
        (20, SILENT, "replica-unlisted", False),
        (20, SILENT, "connection-closed", False),
    ],
)
def test_who_sends_what_it_may_wait_with_again_and_again_is_at_work(count, said, scenario, at_work):
    seats = Seats()
    answers(Waits(count, said), (scenario, "progress"), seats=seats)
    assert seats.was_at_work == [at_work]
