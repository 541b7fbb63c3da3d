"""The sources of an answer to `send`: its scenario, and all earlier ones."""

import asyncio

import pytest

from conformance.cases.operations import OPERATIONS
from conformance.codec.log import LOG
from conformance.live_clients.scenario_runs import ClientScenarioRuns
from conformance.mock_broker.request_recorder import RequestRecorder

HEARTBEAT = bytes.fromhex("0000000e 000c 0000 00000001 0000 00000000 00".replace(" ", ""))
"""An invalid request: only its header is complete."""
VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff".replace(" ", ""))
"""A valid ApiVersions request."""
ANSWER = {"ok": True, "value": {}}


class Slots:
    """Runs each scenario at once, and records if the client was active."""

    def __init__(self):
        self.was_at_work = []

    async def run_scenario(self, put, is_at_work):
        answer = await put(None)
        self.was_at_work.append(is_at_work(answer))
        return answer


class Lead:
    """Sends an invalid request in some scenarios; each may wait for an event."""

    def __init__(self, wrong=(), waits=None, fails=()):
        self.wrong, self.waits, self.fails, self.run = wrong, waits or {}, fails, []

    async def unsupported_reason(self, _):
        return ""

    async def consume(self, scenario, _slot, _batches, recorder):
        self.run.append(scenario)
        if scenario in self.waits:
            await self.waits[scenario].wait()
        if scenario in self.fails:
            raise OSError("the driver cannot be run")
        recorder.record(VERSIONS, (), {"ApiVersions": (0, 3)})
        if scenario in self.wrong:
            recorder.record(HEARTBEAT, (), {"Heartbeat": (0, 4)})
        return ANSWER

    write = consume


def send_request(scenario, check="well-formed", of=""):
    request = {"scenario": scenario, "check": check, "isolation": "read_committed"}
    return OPERATIONS["send"].parse({**request, **({"request": of} if of else {})}, LOG)


def answers(lead, *requests, main=None, slots=None):
    """Return the answers to concurrent requests."""

    async def all_of_them():
        scenarios = ClientScenarioRuns(slots or Slots(), main or RequestRecorder(), lead, idempotent=False)
        answered = [scenarios.answer(send_request(*request)) for request in requests]
        return await asyncio.gather(*answered, return_exceptions=True)

    return asyncio.run(all_of_them())


def sent_requests(answer):
    return [row["hex"] for row in answer["value"]]


def test_a_scenario_runs_once_for_all_its_cases():
    lead = Lead()
    answers(lead, ("group",), ("group", "offered"), ("group",))
    assert lead.run == ["group"]


def test_scenarios_do_not_wait_for_each_other():
    async def both():
        ended = asyncio.Event()

        class Waits(Lead):
            async def consume(self, scenario, *rest):
                answer_of_client = await super().consume(scenario, *rest)
                if scenario == "unknown-member-id":
                    ended.set()
                return answer_of_client

        scenarios = ClientScenarioRuns(Slots(), RequestRecorder(), Waits(waits={"group": ended}), idempotent=False)
        return await asyncio.wait_for(
            asyncio.gather(
                scenarios.answer(send_request("group")), scenarios.answer(send_request("unknown-member-id"))
            ),
            60,
        )

    assert len(asyncio.run(both())) == 2


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (("rebalance", "group", "unknown-member-id"), [True, True, True]),
        (("group", "rebalance", "unknown-member-id"), [False, True, True]),
        (("group", "unknown-member-id", "rebalance"), [False, False, True]),
    ],
)
def test_an_invalid_request_fails_its_scenario_and_later_ones(order, expected):
    answered = answers(Lead({"rebalance"}), *((scenario,) for scenario in order))
    assert [HEARTBEAT.hex() in sent_requests(answer) for answer in answered] == expected


def test_an_invalid_request_outside_scenarios_fails_the_scenarios():
    main = RequestRecorder()
    main.record(HEARTBEAT, (), {"Heartbeat": (0, 4)})
    first, tagged = answers(Lead({"rebalance", "unknown-tags"}), ("rebalance",), ("unknown-tags",), main=main)
    assert sent_requests(first).count(HEARTBEAT.hex()) == 3, (
        "from the run, from the scenario, and as one of its requests"
    )
    assert sent_requests(tagged).count(HEARTBEAT.hex()) == 2, "the scenario has a separate broker"


def test_an_unreported_error_returns_only_the_requests_of_the_selected_name():
    (answer,) = answers(Lead({"producer-fenced"}), ("producer-fenced", "error-reported", "Heartbeat"))
    assert sent_requests(answer) == [HEARTBEAT.hex()]


def test_a_scenario_that_cannot_run_does_not_stop_others():
    first, second = answers(Lead({"rebalance"}, fails={"group"}), ("group",), ("rebalance",))
    assert isinstance(first, OSError)
    assert HEARTBEAT.hex() in sent_requests(second)


class Waits(Lead):
    """Stops or reports an error after a number of heartbeats."""

    def __init__(self, count, answer_of_client):
        super().__init__()
        self.count, self.answer_of_client = count, answer_of_client

    async def consume(self, _scenario, _slot, _batches, recorder):
        for _ in range(self.count):
            recorder.record(HEARTBEAT, (), {"Heartbeat": (0, 4)})
        return self.answer_of_client

    write = consume


SILENT, REPORTS = {"timeout": "silent"}, {"ok": False, "error": "other", "message": "no"}


@pytest.mark.parametrize(
    ("count", "answer_of_client", "scenario", "check", "reason"),
    [
        (3, SILENT, "topic-unknown", "progress", "the client waited"),
        (2, SILENT, "topic-unknown", "progress", ""),
        (3, SILENT, "replica-unlisted", "follows", ""),
        (3, SILENT, "connection-closed", "progress", ""),
        (3, REPORTS, "coordinator-gone", "progress", "the client reports to the application"),
        (3, REPORTS, "transaction-coordinator-gone", "ended", "the client reports to the application"),
        (3, REPORTS, "produce-leader-moved", "writes-on", "the client reports to the application"),
        (3, REPORTS, "one-address", "progress", ""),
        (3, REPORTS, "concurrent-transactions", "ended", ""),
    ],
)
def test_waiting_or_reporting_an_error_is_accepted_if_the_scenario_allows_it(
    count, answer_of_client, scenario, check, reason
):
    (answer,) = answers(Waits(count, answer_of_client), (scenario, check))
    assert ("unsupported" in answer) is bool(reason)
    assert reason in answer.get("unsupported", "")


@pytest.mark.parametrize(
    ("count", "answer_of_client", "scenario", "at_work"),
    [
        (20, SILENT, "topic-unknown", True),
        (19, SILENT, "topic-unknown", False),
        (20, REPORTS, "topic-unknown", False),
        (20, SILENT, "replica-unlisted", False),
        (20, SILENT, "connection-closed", False),
    ],
)
def test_a_client_that_repeats_allowed_requests_is_active(count, answer_of_client, scenario, at_work):
    slots = Slots()
    answers(Waits(count, answer_of_client), (scenario, "progress"), slots=slots)
    assert slots.was_at_work == [at_work]
