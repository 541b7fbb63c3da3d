"""A live client behind the line protocol: each case becomes a topic of the mock broker.

The answer has the records that the client returned to the application, and the offset of its next fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from conformance.cases.api_versions_profiles import VERSION_PROFILES, profiles_from, with_producer_apis
from conformance.cases.client_requests import batches_for as plain_batches
from conformance.cases.client_scenarios import (
    BATCHES,
    NO_FAULTS,
    SCENARIOS,
    TRANSACTION_RESULTS,
    ClientScenario,
)
from conformance.cases.log_requests import fetch_expectation
from conformance.cases.model import Answer, Expectation, ExpectClientRequests, Request, Value
from conformance.cases.operations import OPERATIONS
from conformance.codec.json_notation import NotationError
from conformance.codec.log import LOG
from conformance.codec.record_batch import RECORD_BATCH
from conformance.definitions.request_frames import SENT
from conformance.judging.client_requests import judge_sent
from conformance.live_clients.baseline import BaselineFailed, baseline, is_expected, may_need_more_versions
from conformance.live_clients.case_run import consumer_answer, produced_batch_answer, run_topic, with_remark
from conformance.live_clients.client_pool import CaseRunner, ClientPool, ClientSlot
from conformance.live_clients.driver_process import CRASH_PREFIX
from conformance.live_clients.guard_records import GuardedCase, with_guard_records
from conformance.live_clients.scenario_runs import ClientScenarioRuns, missing_claim
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.produce_handlers import producer_command, unsupported_batch
from conformance.mock_broker.request_recorder import RequestRecorder
from conformance.mock_broker.server import MockBrokerServer, MockCluster
from conformance.mock_broker.topic import (
    AcceptedSequences,
    MockTopic,
    can_serve_one_entry_per_fetch,
    has_legacy_messages,
    mock_topic,
    unsupported_read,
)
from conformance.semantics.consumer_view import ISOLATIONS
from conformance.targets.manifests import DriverManifest
from conformance.targets.protocol import PROTOCOL

_SHOWN = 300
"""The length of a quoted answer in an error, in characters."""


def _is_ok(answer: Answer) -> bool:
    return answer.get("ok") is True


class ClientBridge:
    """Runs cases with one client, several at once. `close` it."""

    def __init__(self, driver: DriverManifest) -> None:
        """Prepare the servers and slots; `start` starts them."""
        self._driver, self._versions, self._pool = driver, driver.versions, ClientPool(driver)
        self._server = MockBrokerServer(self._pool.invalidate_cases, VERSION_PROFILES[driver.versions])
        self._producers = MockBrokerServer(
            self._pool.invalidate_cases, with_producer_apis(VERSION_PROFILES[driver.versions]), self._server.witness
        )
        self._cluster = MockCluster(self._pool.invalidate_cases)
        is_idempotent = "idempotence" in driver.producer_features
        self._scenario_runs = ClientScenarioRuns(self._pool, self._server.witness, self, idempotent=is_idempotent)
        self._baseline_lock = asyncio.Lock()
        self._works_with_all: bool | None = None
        self._never_writes: str | None = None
        """Why written batches get no verdict; empty if they get one, None before the first failure."""
        self._unjudged = ""
        """Why only the API versions of the client get a verdict; empty if all cases do."""

    async def start(self) -> None:
        """Start the brokers and the client. Raises OSError, TimeoutError, DriverError or BaselineFailed."""
        self._broker: MockBroker = await self._server.start()
        self._producer_broker: MockBroker = await self._producers.start()
        await self._cluster.start()
        await self._pool.shared_slot.ready()
        await self._select_versions()

    async def close(self) -> None:
        """End the client, then the broker."""
        await self._pool.close()
        for server in (self._server, self._producers, self._cluster):
            await server.close()

    async def describe(self) -> Answer:
        """Return the claims of driver.yaml, and the version that the client reports."""
        client, driver = await self._pool.shared_slot.ready(), self._driver
        encodes = ["RECORD_BATCH"] * ("timestamps" in driver.producer_features)
        writer = {"encode RECORD_BATCH": f"public: {driver.writer}"} if driver.writer else {}
        claims: Answer = {
            "supports": {"read": True, "send": True, "encode": encodes},
            "via": {"read": f"public: {driver.entry_point}", **writer},
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
            "versions": self._versions,
            "codecs": list(driver.codecs),
            "magics": list(driver.magics),
        }

    async def read(self, request: Mapping[str, object]) -> Answer:
        """Return the answer to a `read` request; a wrong one counts only if it repeats in a separate process."""
        try:
            parts = OPERATIONS["read"].parse(request, LOG)
        except NotationError as error:
            return {"ok": False, "error": "invalid-value", "message": str(error)}
        if reason := unsupported_read(parts, self._driver.isolations, self._broker.max_fetch_magic):
            return {"unsupported": reason}
        expected = fetch_expectation(parts).expect
        sides = with_guard_records(parts, expected)
        answer = await self._confirmed(expected, lambda slot: self._run_consumer(slot, parts, sides))
        further: dict[str, CaseRunner] = {}
        if can_serve_one_entry_per_fetch(parts, expected, between_guards=sides is not None):
            further["served one entry a fetch"] = lambda slot: self._run_consumer(slot, parts, by_entry=True)
        may_differ = parts["aborted"] or has_legacy_messages(parts["hex"])
        if may_differ and is_expected(expected, answer) and await self._works_with_all_versions():
            further["where everything is offered"] = lambda slot: self._run_consumer(
                slot, parts, broker=self._cluster.full_version_broker
            )
        for how, put in further.items():
            if not is_expected(expected, answer):
                break
            other = await self._confirmed(expected, put)
            if not is_expected(expected, other):
                answer = with_remark(other, how)
        return answer

    async def _works_with_all_versions(self) -> bool:
        """Return whether the client also works with all versions, and usually gets another offer.

        In newer versions of Fetch, a client may use other code for messages of magic 0 and 1, and for the list of
        aborted transactions.
        """
        return self._versions not in ("full", "old") and await self._consumes_all()

    async def _consumes_all(self) -> bool:
        """Return whether the client consumes from a broker that offers all versions."""
        async with self._baseline_lock:
            if self._works_with_all is None:
                parts = next(iter(baseline(self._driver.isolations[0])))
                expected = fetch_expectation(parts).expect
                put: CaseRunner = lambda slot: self._run_consumer(slot, parts, broker=self._cluster.full_version_broker)  # noqa: E731
                self._works_with_all = is_expected(expected, await self._confirmed(expected, put))
            return self._works_with_all

    async def send(self, request: Mapping[str, object]) -> Answer:
        """Return the answer to a `send` request: the requests that the client sent."""
        try:
            parts = OPERATIONS["send"].parse(request, LOG)
        except NotationError as error:
            return {"ok": False, "error": "invalid-value", "message": str(error)}
        if self._unjudged:
            is_of_versions = (parts["scenario"], parts["check"]) == ("consume", "offered")
            sent = {"ok": True, "value": SENT.render(self._server.witness.wrong_version_requests)}
            return sent if is_of_versions else {"unsupported": self._unjudged}
        if parts["isolation"] not in self._driver.isolations:
            return {"unsupported": f"{parts['isolation']} is not claimed"}
        if parts["check"] == "isolation-level" and len(self._driver.isolations) < len(ISOLATIONS):
            return {"unsupported": "the client leaves an application no choice of the isolation level"}
        if lacking := missing_claim(parts, self._driver.producer_features, groups=self._driver.groups):
            return {"unsupported": f"{lacking} is not claimed"}
        if self._versions == "old" and SCENARIOS[parts["scenario"]].versions:
            return {"unsupported": "it is not known to consume with another offer"}
        answer = await self._scenario_runs.answer(parts)
        failed = SCENARIOS[parts["scenario"]].produces and ("crash" in answer or "timeout" in answer)
        return answer if not failed else await self._check_writer_baseline(answer)

    async def _select_versions(self) -> None:
        """Select the version profile with which the client reads a plain batch.

        Start with the profile of the driver, and continue with the next profiles. A request in a version that was not
        offered stays a fault of the client. Raises BaselineFailed if no profile works and no such request was sent.
        """
        reason, witness = "", self._server.witness
        for offers in profiles_from(self._driver.versions):
            if offers == "old" and self._broker.max_fetch_magic > 1:
                break  # the client reads batches
            known = len(witness.wrong_version_requests)
            self._versions, self._broker.offered = offers, VERSION_PROFILES[offers]
            self._producer_broker.offered = with_producer_apis(VERSION_PROFILES[offers])
            failed = await self._run_baseline()
            if failed is None:
                if offers == "old":
                    self._driver = self._driver.of_messages(self._broker.max_fetch_magic)
                    self._scenario_runs.magic = 0
                return
            sent = f": it sent bytes that are no request ({witness.parse_error})" if witness.parse_error else ""
            came = f"the client did not consume a plain batch{sent}: {str(failed)[:_SHOWN]}"
            if not reason or (offers == "old" and self._broker.max_fetch_magic >= 0):
                reason = f"the client is not judged: {came}"
            if offers == "old" != self._driver.versions:
                # The client may not be made for brokers with old versions, and its driver does not select them.
                del witness.wrong_version_requests[known:]
            if not may_need_more_versions(failed):
                break
            await self._pool.shared_slot.stop()  # its open requests belong to the previous offer
            witness.reset()
        if not witness.wrong_version_requests:
            raise BaselineFailed(reason)
        fault = judge_sent(ExpectClientRequests("offered", ""), SENT.render(witness.wrong_version_requests))
        self._unjudged = f"{fault.detail}; {reason}"

    async def _run_baseline(self) -> Answer | None:
        """Return the answer to the first plain batch; None if the client reads one of them."""
        failed: Answer = {}
        for parts in baseline(self._driver.isolations[0], of_messages=self._versions == "old"):
            self._broker.api_versions_sent = False  # each consumer sends its own ApiVersions request
            answer = await self._run_consumer(self._pool.shared_slot, parts, name="baseline")
            if "unsupported" not in answer and is_expected(fetch_expectation(parts).expect, answer):
                return None
            failed = failed or answer
        return failed

    async def _confirmed(self, expected: Expectation, put: CaseRunner) -> Answer:
        """Return the answer about a case; a wrong one counts only if it repeats in a separate process."""
        return await self._pool.run_and_confirm(put, partial(is_expected, expected))

    async def encode(self, request: Mapping[str, object]) -> Answer:
        """Return the answer to an `encode` request: the batch that the client writes for these records."""
        try:
            batch = OPERATIONS["encode"].parse(request, RECORD_BATCH)["value"]
        except NotationError as error:
            return {"ok": False, "error": "invalid-value", "message": str(error)}
        if reason := unsupported_batch(batch, self._driver.producer_features):
            return {"unsupported": reason}
        answer = await self._written([batch])
        failed = answer.get("ok") is not True and "unsupported" not in answer
        return answer if not failed else await self._check_writer_baseline(answer)

    async def _written(self, batches: Sequence[Value]) -> Answer:
        """Let the client write batches; a failure counts only if it repeats in a separate process."""
        return await self._pool.run_and_confirm(
            lambda slot: self._run_producer(slot, batches[0], producer_command(batches), MockTopic(b"", 0, 0)), _is_ok
        )

    async def _check_writer_baseline(self, answer: Answer) -> Answer:
        """Return the answer about a failed write; it is no fault if the client cannot write a plain batch either.

        A crash of the process always counts.
        """
        if answer.get("crash", "").startswith(CRASH_PREFIX):
            return answer
        async with self._baseline_lock:
            if self._never_writes is None:
                ways = (False, True) if "idempotence" in self._driver.producer_features else (False,)
                plain = [
                    await self._written(plain_batches("produce", idempotent=idempotent)[:1]) for idempotent in ways
                ]
                reason = f"the client wrote no plain batch, so its writes are not judged: {str(plain[0])[:_SHOWN]}"
                self._never_writes = "" if any(map(_is_ok, plain)) else reason
        return {"unsupported": self._never_writes} if self._never_writes else answer

    async def write(
        self, scenario: str, slot: ClientSlot, batches: Sequence[Value], witness: RequestRecorder
    ) -> Answer:
        """Let the client in a slot write batches in a scenario."""
        kind = SCENARIOS[scenario]
        broker = await self._cluster.start_cluster(
            kind, with_producer_apis(VERSION_PROFILES[kind.versions or self._versions]), witness, slot.invalidate_cases
        )
        task = kind.produces or BATCHES
        command = producer_command(
            batches,
            TRANSACTION_RESULTS if task.transaction_per_batch else (),
            together=task.without_waiting,
            given_up=set() if task.fatal_error_batch is None else {task.fatal_error_batch},
        )
        is_retried = kind.dropped_responses or task.without_waiting or task.transaction_per_batch
        accepted: AcceptedSequences | None = {} if is_retried or task.fatal_error_batch is not None else None
        return await self._run_producer(
            slot, batches[0], command, MockTopic(b"", 0, 0, accepted_sequences=accepted).with_faults(kind), broker
        )

    async def _run_producer(
        self, slot: ClientSlot, first: Value, command: Answer, topic: MockTopic, broker: MockBroker | None = None
    ) -> Answer:
        """Let the client write batches to a topic; `first` is the first of them."""
        topic.producer = first["producerId"], first["producerEpoch"]
        return await run_topic(
            slot, broker or self._producer_broker, topic, {"produce": command}, produced_batch_answer
        )

    async def _run_consumer(
        self,
        slot: ClientSlot,
        parts: Request,
        sides: GuardedCase | None = None,
        *,
        by_entry: bool = False,
        name: str = "case",
        broker: MockBroker | None = None,
        kind: ClientScenario = NO_FAULTS,
    ) -> Answer:
        """Let the client consume a topic with these bytes, perhaps between guard records, and return the answer."""
        topic = mock_topic(sides.parts if sides else parts, by_entry=by_entry).with_faults(kind)
        where = {"group": True} if kind.in_group else {"offset": str(topic.start)}
        options = {**where, "isolation": parts["isolation"]}
        return await run_topic(
            slot, broker or self._broker, topic, options, partial(consumer_answer, sides=sides), name
        )

    async def unsupported_reason(self, scenario: str) -> str:
        """Return why the client cannot run a scenario; empty if it can.

        Some scenarios need a client that works with all versions.
        """
        can = not SCENARIOS[scenario].needs_full_versions or await self._consumes_all()
        return "" if can else "the client does not come through where everything is offered"

    async def consume(self, scenario: str, slot: ClientSlot, parts: Request, witness: RequestRecorder) -> Answer:
        """Let the client in a slot consume a topic in a scenario, with one retry if the broker has faults."""
        kind, expected = SCENARIOS[scenario], fetch_expectation(parts).expect
        offered = VERSION_PROFILES[kind.versions or self._versions]
        if kind.in_group:  # without the claim, only the format of its requests is checked
            offered, kind = (with_producer_apis(offered), kind) if self._driver.groups else (offered, NO_FAULTS)
        broker = await self._cluster.start_cluster(kind, offered, witness, slot.invalidate_cases)
        for _ in range(1 if scenario in ("consume", "minimal-versions") else 2):
            answer = await self._run_consumer(slot, parts, broker=broker, kind=kind)
            if is_expected(expected, answer) or "timeout" in answer:  # a retry would take as long again
                break
        return answer
