"""The process of a client for each case, and the cases that run in parallel."""

import asyncio
import sys

import pytest

from conformance.live_clients import client_pool
from conformance.live_clients.client_pool import ClientPool
from conformance.targets.manifests import DriverManifest

PROGRAM = "import json, sys; print(json.dumps({'version': '1'}), flush=True); sys.stdin.read()"
OFFERS = {"entry_point": "none", "codecs": (), "magics": (2,), "isolations": (), "concurrency": 2}
DRIVER = DriverManifest(name="idle", command=(sys.executable, "-c", PROGRAM), **OFFERS)
EXPECTED, WRONG, CRASH, TIMEOUT, INVALID = (
    {"ok": True},
    {"ok": False},
    {"crash": "-"},
    {"timeout": "-"},
    {"unsupported": "-"},
)
AT_MOST = 60


class Cases:
    """Sends cases to the processes of a client, and records the process of each case and the busy ones."""

    def __init__(self, client_pool):
        self.slots, self.busy = client_pool, []

    async def ask(self, *answers, during=None, led=False, at_work=False):
        """Return the result of a case with these answers in order, and the processes of the answers.

        `led`: the case is a scenario, in which the client was `at_work`.
        """
        left, processes = [*answers], []

        async def put(slot):
            client = await slot.ready()
            client.ask("case", {})
            self.busy.append(slot)
            processes.append((client, [*self.busy]))
            if during is not None:
                await during()
            self.busy.remove(slot)
            answer = left.pop(0)
            if answer in (CRASH, TIMEOUT):
                await slot.end(client)
            return answer

        work = (
            self.slots.run_scenario(put, lambda _: at_work)
            if led
            else self.slots.run_and_confirm(put, lambda answer: answer is EXPECTED)
        )
        result = await asyncio.wait_for(work, AT_MOST)
        assert not left
        return result, processes


@pytest.fixture
def run():
    """Return a function that runs a coroutine function with `Cases`."""

    def start(work):
        async def whole():
            opened = ClientPool(DRIVER)
            try:
                await opened.shared_slot.ready()
                await work(Cases(opened))
            finally:
                await opened.close()

        asyncio.run(whole())

    return start


def test_an_expected_answer_is_not_retried(run):
    async def work(cases):
        assert len((await cases.ask(EXPECTED))[1]) == 1

    run(work)


def test_a_failed_case_is_retried_in_another_process(run):
    async def work(cases):
        result, [(first, _), (second, _)] = await cases.ask(WRONG, EXPECTED)
        assert result is EXPECTED
        assert first is not second

    run(work)


def test_a_retried_case_does_not_wait_for_others(run):
    async def work(cases):
        confirmed = asyncio.Event()
        long = asyncio.create_task(cases.ask(EXPECTED, during=confirmed.wait))
        await asyncio.sleep(0)
        assert (await cases.ask(WRONG, WRONG))[0] is WRONG
        confirmed.set()
        assert (await long)[0] is EXPECTED

    run(work)


def test_six_processes_retry_one_case_each_in_parallel(run):
    async def work(cases):
        six = asyncio.Event()

        async def until_there_are_six():
            if (separate := sum(slot is not cases.slots.shared_slot for slot in cases.busy)) == 6:
                six.set()
            if cases.busy[-1] is not cases.slots.shared_slot and separate:
                await six.wait()

        results = await asyncio.gather(*(cases.ask(WRONG, WRONG, during=until_there_are_six) for _ in range(12)))
        busy = [[slot for slot in busy if slot is not cases.slots.shared_slot] for _, (_, (_, busy)) in results]
        assert all(len({*map(id, client_pool)}) == len(client_pool) <= 6 for client_pool in busy)

    run(work)


def test_quick_retries_share_a_process(run):
    async def work(cases):
        cases.slots.shared_slot.took = AT_MOST
        results = await asyncio.gather(*(cases.ask(WRONG, WRONG) for _ in range(20)))
        assert len({id(client) for _, (_, (client, _)) in results}) == 1

    run(work)


@pytest.mark.parametrize("end", [CRASH, TIMEOUT])
def test_a_crash_or_a_timeout_counts_only_in_a_fresh_process(run, end):
    async def work(cases):
        result, _ = await cases.ask(WRONG, end)
        assert result is end, "the process had no other case before it"
        await cases.ask(WRONG, WRONG)
        result, processes = await cases.ask(WRONG, end, EXPECTED)
        assert result is EXPECTED, "the process had had another case"
        assert len({id(client) for client, _ in processes}) == 3

    run(work)


def test_a_timeout_is_not_retried_in_a_used_process(run):
    async def work(cases):
        await cases.ask(WRONG, WRONG)
        result, processes = await cases.ask(TIMEOUT, TIMEOUT)
        assert result is TIMEOUT
        assert len(processes) == 2

    run(work)


def test_an_invalid_case_is_retried_without_parallel_cases(run):
    async def work(cases):
        async def slow():
            await asyncio.sleep(0.05)

        others = [asyncio.create_task(cases.ask(WRONG, WRONG, during=slow)) for _ in range(6)]
        result, [_, (_, busy)] = await cases.ask(INVALID, INVALID, during=slow)
        assert result is INVALID
        assert busy == [cases.slots.shared_slot]
        await asyncio.gather(*others)

    run(work)


def test_scenarios_run_in_parallel_to_each_other_and_to_the_shared_process(run):
    async def work(cases):
        three = asyncio.Event()

        async def until_there_are_three():
            if len(cases.busy) == 3:
                three.set()
            await three.wait()

        results = await asyncio.gather(
            cases.ask(EXPECTED, during=until_there_are_three),
            *(cases.ask(WRONG, during=until_there_are_three, led=True) for _ in range(2)),
        )
        assert [result for result, _ in results] == [EXPECTED, WRONG, WRONG]
        assert len({id(client) for _, [(client, _)] in results}) == 3

    run(work)


@pytest.mark.parametrize("end", [CRASH, TIMEOUT])
@pytest.mark.parametrize("second_answer", [EXPECTED, WRONG, CRASH, TIMEOUT])
def test_a_crash_or_a_timeout_in_a_scenario_is_retried_in_a_separate_process(run, end, second_answer):
    async def work(cases):
        result, [(first, _), (second, _)] = await cases.ask(end, second_answer, led=True)
        assert result is second_answer
        assert first is not second

    run(work)


def test_a_long_timeout_is_not_retried(run, monkeypatch):
    monkeypatch.setattr(client_pool, "_LONG", 0)

    async def work(cases):
        assert len((await cases.ask(TIMEOUT, led=True))[1]) == 1

    run(work)


def test_a_timeout_of_an_active_client_is_not_retried(run):
    async def work(cases):
        assert len((await cases.ask(TIMEOUT, led=True, at_work=True))[1]) == 1

    run(work)


def test_an_unhandled_request_to_another_broker_does_not_invalidate_a_scenario(run):
    async def work(cases):
        sent = []

        async def other_broker_fails():
            client = await cases.busy[-1].ready()
            sent.append(client.ask("topic", {}))
            cases.slots.invalidate_cases("the broker has no answer")

        await cases.ask(WRONG, during=other_broker_fails, led=True)
        assert sent[0].invalid_reason == ""
        await cases.ask(EXPECTED, during=other_broker_fails)
        assert sent[1].invalid_reason != "", "a case that shares its broker"
        await cases.ask(WRONG, WRONG, during=other_broker_fails)
        assert sent[3].invalid_reason != "", "the same in the process that had the scenario"

    run(work)
