"""Which process of a client a case is put to, and who has a case at the same time."""

import asyncio
import sys

import pytest

from conformance.live_clients import client_pool
from conformance.live_clients.client_pool import ClientPool
from conformance.targets.manifests import DriverManifest

PROGRAM = "import json, sys; print(json.dumps({'version': '1'}), flush=True); sys.stdin.read()"
OFFERS = {"entry_point": "none", "codecs": (), "magics": (2,), "isolations": (), "concurrency": 2}
DRIVER = DriverManifest(name="idle", command=(sys.executable, "-c", PROGRAM), **OFFERS)
DUE, WRONG, DIED, SILENT, VOID = {"ok": True}, {"ok": False}, {"crash": "-"}, {"timeout": "-"}, {"unsupported": "-"}
AT_MOST = 60


class Cases:
    """Puts cases to the processes of a client; each is told with its process, and which ones were busy then."""

    def __init__(self, client_pool):
        self.seats, self.busy = client_pool, []

    async def ask(self, *answers, during=None, led=False, at_work=False):
        """What is told of a case that has these answers, one after the other, and the processes that gave them.

        `led`: it is a scenario, in which the client was `at_work`.
        """
        left, processes = [*answers], []

        async def put(seat):
            client = await seat.ready()
            client.ask("case", {})
            self.busy.append(seat)
            processes.append((client, [*self.busy]))
            if during is not None:
                await during()
            self.busy.remove(seat)
            answer = left.pop(0)
            if answer in (DIED, SILENT):
                await seat.end(client)
            return answer

        asked = (
            self.seats.run_scenario(put, lambda _: at_work)
            if led
            else self.seats.run_and_confirm(put, lambda answer: answer is DUE)
        )
        told = await asyncio.wait_for(asked, AT_MOST)
        assert not left
        return told, processes


@pytest.fixture
def run():
    """Runs a coroutine function that is given `Cases`."""

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


def test_what_is_as_due_is_asked_once(run):
    async def work(cases):
        assert len((await cases.ask(DUE))[1]) == 1

    run(work)


def test_what_is_not_as_due_is_asked_again_in_another_process(run):
    async def work(cases):
        told, [(first, _), (second, _)] = await cases.ask(WRONG, DUE)
        assert told is DUE
        assert first is not second

    run(work)


def test_a_case_that_is_asked_again_waits_for_no_other_one(run):
    async def work(cases):
        confirmed = asyncio.Event()
        long = asyncio.create_task(cases.ask(DUE, during=confirmed.wait))
        await asyncio.sleep(0)
        assert (await cases.ask(WRONG, WRONG))[0] is WRONG
        confirmed.set()
        assert (await long)[0] is DUE

    run(work)


def test_six_processes_with_one_case_each_stand_beside_one_another(run):
    async def work(cases):
        six = asyncio.Event()

        async def until_there_are_six():
            if (apart := sum(seat is not cases.seats.shared_slot for seat in cases.busy)) == 6:
                six.set()
            if cases.busy[-1] is not cases.seats.shared_slot and apart:
                await six.wait()

        asked = await asyncio.gather(*(cases.ask(WRONG, WRONG, during=until_there_are_six) for _ in range(12)))
        busy = [[seat for seat in busy if seat is not cases.seats.shared_slot] for _, (_, (_, busy)) in asked]
        assert all(len({*map(id, client_pool)}) == len(client_pool) <= 6 for client_pool in busy)

    run(work)


def test_quick_cases_that_are_asked_again_share_a_process(run):
    async def work(cases):
        cases.seats.shared_slot.took = AT_MOST
        asked = await asyncio.gather(*(cases.ask(WRONG, WRONG) for _ in range(20)))
        assert len({id(client) for _, (_, (client, _)) in asked}) == 1

    run(work)


@pytest.mark.parametrize("end", [DIED, SILENT])
def test_a_death_or_a_silence_counts_only_in_a_process_without_a_past(run, end):
    async def work(cases):
        told, _ = await cases.ask(WRONG, end)
        assert told is end, "the process had no other case before it"
        await cases.ask(WRONG, WRONG)
        told, processes = await cases.ask(WRONG, end, DUE)
        assert told is DUE, "the process had had another case"
        assert len({id(client) for client, _ in processes}) == 3

    run(work)


def test_a_silence_is_not_waited_for_in_a_process_with_a_past(run):
    async def work(cases):
        await cases.ask(WRONG, WRONG)
        told, processes = await cases.ask(SILENT, SILENT)
        assert told is SILENT
        assert len(processes) == 2

    run(work)


def test_what_says_nothing_of_the_client_is_asked_again_while_there_is_no_other_case(run):
    async def work(cases):
        async def slow():
            await asyncio.sleep(0.05)

        others = [asyncio.create_task(cases.ask(WRONG, WRONG, during=slow)) for _ in range(6)]
        told, [_, (_, busy)] = await cases.ask(VOID, VOID, during=slow)
        assert told is VOID
        assert busy == [cases.seats.shared_slot]
        await asyncio.gather(*others)

    run(work)


def test_conversations_are_held_beside_one_another_and_beside_the_crowd(run):
    async def work(cases):
        three = asyncio.Event()

        async def until_there_are_three():
            if len(cases.busy) == 3:
                three.set()
            await three.wait()

        asked = await asyncio.gather(
            cases.ask(DUE, during=until_there_are_three),
            *(cases.ask(WRONG, during=until_there_are_three, led=True) for _ in range(2)),
        )
        assert [told for told, _ in asked] == [DUE, WRONG, WRONG]
        assert len({id(client) for _, [(client, _)] in asked}) == 3

    run(work)


@pytest.mark.parametrize("end", [DIED, SILENT])
@pytest.mark.parametrize("comes_of_it", [DUE, WRONG, DIED, SILENT])
def test_a_death_or_a_silence_in_a_conversation_is_looked_at_in_a_process_of_its_own(run, end, comes_of_it):
    async def work(cases):
        told, [(first, _), (second, _)] = await cases.ask(end, comes_of_it, led=True)
        assert told is comes_of_it
        assert first is not second

    run(work)


def test_a_silence_that_no_busy_machine_makes_so_long_is_waited_for_once(run, monkeypatch):
    monkeypatch.setattr(client_pool, "_LONG", 0)

    async def work(cases):
        assert len((await cases.ask(SILENT, led=True))[1]) == 1

    run(work)


def test_a_silence_of_a_client_that_is_at_work_is_waited_for_once(run):
    async def work(cases):
        assert len((await cases.ask(SILENT, led=True, at_work=True))[1]) == 1

    run(work)


def test_a_conversation_is_not_void_for_what_another_broker_was_sent(run):
    async def work(cases):
        heard = []

        async def other_broker_fails():
            client = await cases.busy[-1].ready()
            heard.append(client.ask("topic", {}))
            cases.seats.invalidate_cases("the broker has no answer")

        await cases.ask(WRONG, during=other_broker_fails, led=True)
        assert heard[0].invalid_reason == ""
        await cases.ask(DUE, during=other_broker_fails)
        assert heard[1].invalid_reason != "", "a case that shares its broker"
        await cases.ask(WRONG, WRONG, during=other_broker_fails)
        assert heard[3].invalid_reason != "", "the same in the process that had the scenario"

    run(work)
