"""Runs client scenarios, and answers `send` requests with the recorded requests of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from conformance.cases.client_checks import CHECKS
from conformance.cases.client_requests import batches_for
from conformance.cases.client_scenarios import OFFSET_AFTER_MARKER, SCENARIOS
from conformance.cases.log_requests import fetch_expectation
from conformance.cases.model import Answer, ExpectClientRequests, Request, Value, VerdictKind
from conformance.cases.operations import OPERATIONS
from conformance.codec.log import LOG
from conformance.definitions.request_frames import SENT, api_of
from conformance.judging.client_requests import judge_sent
from conformance.live_clients.client_pool import ClientPool, ClientSlot
from conformance.mock_broker.request_recorder import MAX_REQUESTS_IN_ANSWER, RequestRecorder
from conformance.mock_broker.topic import build_single_record_entry, log_with_marker
from conformance.targets.probes import plain_log

_MAX_RECORDED = 512
"""The number of first requests of a scenario that are kept."""
_ACTIVE_REQUESTS = 3
"""So many requests of one kind show that a client is active without progress."""
_CLEARLY_ACTIVE_REQUESTS = 20
"""So many requests show that the lack of progress is not an effect of a busy CPU."""
_MAX_REQUESTS_IN_ANSWER = 64
"""The largest number of requests in an answer if the check needs all of them."""
_ENDS_EMPTY = bytes.fromhex(
    "000000000000000000000041ffffffff02e80260ae00000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff"
    "000000011e000000026b02760402680278026500"
)
"""A batch that ends with an empty header value: a client must not wait for a byte of this value."""
_RECORDS = 3
"""The number of records in a log whose leader changes after a part of it."""


def missing_claim(parts: Request, produces: Collection[str], *, groups: bool) -> str:
    """Return the claim that a client lacks for a `send` request; empty for none.

    The format of requests is checked without the claims of idempotence and groups; sequences and retries are not.
    """
    scenario, is_of_form = SCENARIOS[parts["scenario"]], parts["check"] == "well-formed"
    needs = scenario.produces.claims if scenario.produces else ()
    if scenario.in_group:
        return "" if groups or is_of_form else "groups"
    if (
        "idempotence" in needs
        and (is_of_form or parts["check"] in ("error-reported", "writes-on", "writes"))
        and produces
    ):
        return ""
    return next((need for need in needs if need not in produces), "")


@dataclass(frozen=True, slots=True)
class ClientScenarioRun:
    """A finished scenario: its recorder, the requests of the client, and the answer."""

    recorder: RequestRecorder
    requests: list[Value]
    answer: Answer


class ScenarioClient(Protocol):
    """Makes a client consume and write."""

    async def unsupported_reason(self, scenario: str) -> str:
        """Return why the client cannot run a scenario; empty if it can."""

    async def consume(self, scenario: str, slot: ClientSlot, parts: Request, witness: RequestRecorder) -> Answer:
        """Let the client in a slot consume the log of a `read` request in a scenario."""

    async def write(
        self, scenario: str, slot: ClientSlot, batches: Sequence[Value], witness: RequestRecorder
    ) -> Answer:
        """Let the client in a slot write batches in a scenario."""


class ClientScenarioRuns:
    """Runs each scenario once, and answers from the requests in it and in the whole run.

    Scenarios run in parallel, each with a separate broker, because many of them take seconds.
    """

    def __init__(self, pool: ClientPool, witness: RequestRecorder, client: ScenarioClient, *, idempotent: bool) -> None:
        """Prepare; `witness` records requests outside of scenarios, and `idempotent` describes the producer."""
        self._pool, self._witness, self._client, self._idempotent = pool, witness, client, idempotent
        self.magic = 2
        """The magic of the log that the client consumes."""
        self._held: dict[tuple[str, str], asyncio.Task[ClientScenarioRun]] = {}

    async def answer(self, parts: Request) -> Answer:
        """Return the answer to a parsed `send` request; for a client that sent no request, its result.

        The result also counts if the client crashed before the request that is checked, except with minimal versions:
        a client may need more.
        """
        which = parts["scenario"], parts["isolation"]
        if which not in self._held:
            self._held[which] = asyncio.create_task(self._run(*which))
        # The answer depends on all scenarios that were requested until now, so it is the same in each run.
        whole_run = dict(self._held)
        await asyncio.wait(whole_run.values())
        held = whole_run[which].result()
        kind, check, result = SCENARIOS[parts["scenario"]], CHECKS[parts["check"]], held.answer
        if parts["check"] == "error-reported":
            return _reported_error(parts, held)
        if check.about_fetch_progress and "unsupported" in result:
            return result  # the reason is outside the client
        if (check.about_fetch_progress or check.about_completion) and kind.may_report_error and _is_error(result):
            return {"unsupported": f"the client reports to the application: {result.get('message', '')}"}
        if check.about_fetch_progress and "timeout" in result and _sent_at_least(held.requests, kind.may_poll_request):
            return {
                "unsupported": f"the client waited until the end of the case: it still sent {kind.may_poll_request}"
            }
        witnesses = [held.recorder]
        if kind.uses_default_broker:
            witnesses = [self._witness, *_recorders_of_default_broker(whole_run)]
        flawed = [row for witness in witnesses for row in witness.violating(parts["check"])]
        answer = _answer(parts, flawed, held.requests) if held.requests else result
        if held.requests and "crash" in result and parts["scenario"] != "minimal-versions":
            verdict = judge_sent(
                ExpectClientRequests(parts["check"], parts["isolation"], parts.get("request", "")), answer["value"]
            )
            is_about_end = check.about_fetch_progress or parts["check"] in ("writes-on", "writes")
            stays = is_about_end and verdict.kind is VerdictKind.FAIL
            return result if stays or verdict.kind is VerdictKind.SKIP else answer
        return answer

    async def _run(self, scenario: str, isolation: str) -> ClientScenarioRun:
        """Run a scenario; the requests are those of the process whose result counts."""
        witness = RequestRecorder()
        if reason := await self._client.unsupported_reason(scenario):
            return ClientScenarioRun(witness, [], {"unsupported": reason})

        async def put(slot: ClientSlot) -> Answer:
            nonlocal witness
            witness = RequestRecorder(_MAX_RECORDED)
            return await self._run_client(slot, scenario, isolation, witness)

        def waits(answer: Answer) -> bool:
            return "timeout" in answer and _sent_at_least(
                witness.requests, SCENARIOS[scenario].may_poll_request, _CLEARLY_ACTIVE_REQUESTS
            )

        answer = await self._pool.run_scenario(put, waits)
        return ClientScenarioRun(witness, [*witness.requests], answer)

    async def _run_client(self, slot: ClientSlot, scenario: str, isolation: str, witness: RequestRecorder) -> Answer:
        """Let the client write or consume, and return its answer."""
        if SCENARIOS[scenario].produces:
            batches = batches_for(scenario, idempotent=self._idempotent)
            return await self._client.write(scenario, slot, batches, witness)
        parts = fetch_expectation({"hex": self._log_for(scenario), "isolation": isolation}).parts
        return await self._client.consume(scenario, slot, OPERATIONS["read"].parse(parts, LOG), witness)

    def _log_for(self, scenario: str) -> bytes:
        """Return the log that the client consumes."""
        kind = SCENARIOS[scenario]
        if kind.leader_change and kind.leader_change.at == OFFSET_AFTER_MARKER:
            return log_with_marker()
        if kind.serves_one_record_per_fetch:
            return b"".join(build_single_record_entry(b"k", offset) for offset in range(_RECORDS))
        return _ENDS_EMPTY if scenario == "split-response" and self.magic else plain_log(self.magic)


def _sent_at_least(requests: Sequence[Value], name: str, often: int = _ACTIVE_REQUESTS) -> bool:
    """Return whether at least so many requests of this name were sent."""
    return sum(api_of(row["hex"]) == name for row in requests) >= often


def _is_error(answer: Answer) -> bool:
    """Return whether the application got an error, with or without records before it."""
    return answer.get("ok") is False or "error" in answer.get("value", ())


def _recorders_of_default_broker(
    held: Mapping[tuple[str, str], asyncio.Task[ClientScenarioRun]],
) -> Iterator[RequestRecorder]:
    """Yield the recorders of the scenarios with the default broker."""
    for (scenario, _), task in held.items():
        if SCENARIOS[scenario].uses_default_broker and task.exception() is None:
            yield task.result().recorder


def _reported_error(parts: Request, held: ClientScenarioRun) -> Answer:
    """Return the error that the producer reported; without one, the rejected requests."""
    if "timeout" in held.answer:
        return {"unsupported": "the client had not given up at the end of the case"}
    refused = [row for row in held.requests if api_of(row["hex"]) == parts["request"]]
    return (
        {"ok": True, "value": SENT.render(refused[-MAX_REQUESTS_IN_ANSWER:])} if held.answer.get("ok") else held.answer
    )


def _answer(parts: Request, flawed: Sequence[Value], requests: Sequence[Value]) -> Answer:
    """Return the requests of a client as the answer to a `send` request; requests that fail the check are first."""
    wanted = [row for row in (*flawed, *requests) if parts.get("request", "") in ("", api_of(row["hex"]))]
    check = CHECKS[parts["check"]]
    if check.about_fetch_progress:  # the last fetches decide; without a fetch, the other requests
        wanted.reverse()
        wanted.sort(key=lambda row: api_of(row["hex"]) != "Fetch")
    most = _MAX_REQUESTS_IN_ANSWER if check.needs_all_requests else MAX_REQUESTS_IN_ANSWER
    return {"ok": True, "value": SENT.render(wanted[:most])}
