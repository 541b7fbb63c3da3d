"""Verdicts on broker scenarios: each step is judged by the earlier ones; an invalid answer is a protocol fault."""

from __future__ import annotations

import copy

import pytest

from conformance import codec
from conformance.cases.model import Accepted, ExpectScenario, VerdictKind
from conformance.cases.operations import OPERATIONS
from conformance.codec.json_notation import NotationError
from conformance.judging._broker_scenario import judge_scenario
from conformance.judging.judge import judge
from conformance.semantics.broker_steps import BASE_TIME_MS, parsed_steps
from conformance.targets.reference import answer

A, B = {"producer": "a", "transactionalId": "t"}, {"producer": "b", "transactionalId": "t"}


def answered(*steps):
    """Return the steps and the reference's answer to them."""
    return list(steps), answer({"op": "scenario", "steps": list(steps)})["value"]


def verdict(steps, value):
    return judge_scenario(ExpectScenario(parsed_steps(steps), ()), value)


def changed(steps, value, step, change, problem, requirement):
    """Check that a passing answer fails after a change of one step."""
    assert verdict(steps, value).kind is VerdictKind.PASS
    value[step] |= change
    found = verdict(steps, value)
    assert (found.kind, found.path, found.requirement) == (VerdictKind.FAIL, f"[{step}]", requirement)
    assert problem in found.detail


def test_the_reference_passes_every_scenario(catalog):
    cases = [case for case in catalog.cases.values() if case.op == "scenario"]
    kinds = {case.id: judge(case, Accepted(answer(case.request))).kind for case in cases}
    assert len(kinds) > 15
    assert set(kinds.values()) <= {VerdictKind.PASS, VerdictKind.EITHER}


def test_a_producer_id_in_use_is_assigned_to_no_other_producer():
    other = {"producer": "c", "transactionalId": "u"}
    steps, value = answered(
        {"do": "init-producer-id", **A}, {"do": "init-producer-id", **other}, {"do": "init-producer-id", **B}
    )
    taken = {"producerId": value[1]["producerId"], "producerEpoch": 9}
    problem = f"producer id {taken['producerId']} is assigned to two producers"
    changed(steps, value, 2, taken, problem, "producer-id.assigned-by-broker")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"do": "produce", "producer": "a"}], "step 0: producer 'a' has no init-producer-id step before"),
        (
            [{"do": "end-transaction", "producer": "a", "commit": True}],
            "step 0: producer 'a' has no init-producer-id step before",
        ),
        ([{"do": "fetch", "at": "0.0"}], r"step 0: no record 0\.0 was written before"),
        ([{"do": "produce", "keys": ["a", "b"]}], "step 0: found 2 keys for 1 records"),
        ([{"do": "produce", "records": 0}], r"Expected `int` >= 1 - at `\$\[0\]\.records`"),
        ([{"do": "produce", "recrds": 2}], r"unknown field `recrds` - at `\$\[0\]`"),
        ([{"do": "dance"}], r"Invalid value 'dance' - at `\$\[0\]\.do`"),
        ([{"do": "produce-raw", "hex": "0"}], r"regex .* - at `\$\[0\]\.hex`"),
        ({"do": "produce"}, "Expected `array`"),
        ([{"do": "produce", "records": 2, "times": [1]}], "step 0: found 1 times for 2 records"),
        ([{"do": "produce", "times": [-1]}], r"Expected `int` >= 0 - at `\$\[0\]\.times\[0\]`"),
        (
            [{"do": "init-producer-id", "producer": "a"}, {"do": "produce", "producer": "a", "acks": 0}],
            "step 1: acks is 0, expected -1 for a producer with an identity",
        ),
        ([{"do": "list-offsets"}], "step 0: expected either offset or time"),
        (
            [{"do": "produce"}, {"do": "list-offsets", "time": 0}],
            "step 1: a request by time needs an earlier batch with times",
        ),
        (
            [{"do": "produce", "times": [0]}, {"do": "roll-segment"}, {"do": "list-offsets", "time": 0}],
            "step 2: a request by time cannot follow roll-segment, whose record is later",
        ),
        ([{"do": "list-offsets", "offset": "latest", "time": 0}], "step 0: expected either offset or time"),
        ([{"do": "produce", "tombstones": True}], "step 0: a tombstone needs a key"),
        ([{"do": "produce"}, {"do": "retry", "step": 0}], "step 1: step 0 is not a batch of a producer"),
        ([{"do": "retry", "step": 4}], "step 0: step 4 is not a batch of a producer"),
        ([{"do": "delete", "before": "0.0"}], r"step 0: no record 0\.0 was written before"),
        ([{"do": "fetch", "version": 4}], r"Expected `int` <= 3 - at `\$\[0\]\.version`"),
        (
            [{"do": "init-producer-id", "producer": "a", "sequence": 1 << 31}],
            r"`int` <= 2147483647 - at `\$\[0\]\.sequence`",
        ),
    ],
)
def test_invalid_steps_are_one_error_with_the_place(steps, message):
    with pytest.raises(NotationError, match=message):
        OPERATIONS["scenario"].parse({"steps": steps}, codec.wire("LOG"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [{"offset": "0"}],
        [{"offset": 0}, {}],
        [{"offset": "0"}, {"hex": "00", "high": "1"}],
        [{"offset": "0" * 30}, {}],
        ["0", {}],
        [{"offset": "0"}, {"hex": "0g"}],
    ],
)
def test_an_answer_in_another_form_is_an_error_of_the_adapter(value):
    with pytest.raises(NotationError):
        verdict([{"do": "produce"}, {"do": "fetch"}], value)


def test_a_rejected_batch_is_not_expected_in_a_fetch():
    steps, value = answered(
        *({"do": "init-producer-id", **A}, {"do": "init-producer-id", **B}, {"do": "produce", "producer": "b"}),
        *(
            {"do": "end-transaction", "producer": "b", "commit": True},
            {"do": "produce", "producer": "a"},
            {"do": "fetch"},
        ),
    )
    assert value[4]["refused"]
    assert verdict(steps, value).kind is VerdictKind.PASS


def test_serving_a_rejected_batch_fails_at_the_step_of_the_fetch():
    steps, value = answered({"do": "produce"}, {"do": "produce"}, {"do": "fetch"})
    fewer = [step for step in steps if step is not steps[1]]
    surplus = verdict(fewer, [value[0], value[2]])
    assert (surplus.kind, surplus.path) == (VerdictKind.FAIL, "[1]")
    assert "gets record '1.0' at offset 1" in surplus.detail


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"lastStableOffset": "0"}, "last stable offset 0 instead of 4"),
        ({"highWatermark": "1"}, "high watermark 1, but the log ended at 4"),
        ({"aborted": []}, "a consumer gets record '1.0' at offset 0"),
        ({"hex": ""}, "no record is served, but the log has record '3.0' at offset 3"),
        ({"hex": "00" * 70}, "the served bytes cannot be decoded"),
    ],
)
def test_each_part_of_a_fetch_response_is_checked(change, problem):
    steps, value = answered(
        *({"do": "init-producer-id", **A}, {"do": "produce", "producer": "a", "records": 2}),
        *({"do": "end-transaction", "producer": "a", "commit": False}, {"do": "produce"}),
        {"do": "fetch", "isolation": "read_committed"},
    )
    assert verdict(steps, value).kind is VerdictKind.PASS
    changed = copy.deepcopy(value)
    changed[4] |= change
    found = verdict(steps, changed)
    assert found.kind is VerdictKind.FAIL
    assert problem in found.detail


def test_unreadable_produced_bytes_allow_any_log():
    steps, value = answered({"do": "produce-raw", "hex": "00"}, {"do": "produce"}, {"do": "fetch"})
    assert verdict(steps, value).kind is VerdictKind.EITHER
    value[0], value[2]["hex"] = {"offset": "0"}, "00" * 70
    assert verdict(steps, value).kind is VerdictKind.EITHER


def test_accepting_a_batch_of_a_fenced_producer_fails_at_its_step():
    steps, value = answered(
        {"do": "init-producer-id", **A}, {"do": "init-producer-id", **B}, {"do": "produce", "producer": "a"}
    )
    assert value[2]["refused"]
    found = verdict(steps, [*value[:2], {"offset": "0"}])
    assert (found.kind, found.path, found.requirement) == (VerdictKind.FAIL, "[2]", "producer-epoch.fences")


DELETED = ({"do": "produce", "records": 3}, {"do": "produce", "records": 3}, {"do": "delete", "before": "1.1"})


@pytest.mark.parametrize(
    ("step", "change", "problem"),
    [
        (2, {"lowWatermark": "5"}, "the log begins at offset 5, but the records before 4 were to be deleted"),
        (2, {"refused": "no"}, "rejected: no"),
        (3, {"refused": "", "hex": ""}, "the broker returns no error, although offset 0 is before the log start 4"),
        (4, {"logStart": "0"}, "the Fetch response has LogStartOffset 0 instead of 4"),
        (5, {"offset": "3"}, "the broker returns offset 3, but the log begins at 4"),
        (6, {"offset": "5"}, "the broker returns offset 5, but the log ended at 6"),
    ],
)
def test_log_start_and_log_end_are_checked(step, change, problem):
    steps, value = answered(
        *DELETED, {"do": "fetch"}, {"do": "fetch", "at": "1.1"},
        {"do": "list-offsets", "offset": "earliest"}, {"do": "list-offsets", "offset": "latest"},
    )  # fmt: skip
    changed(steps, value, step, change, problem, "broker.tells-log-start")


def test_a_batch_with_acks_0_is_stored_without_a_response():
    steps, value = answered({"do": "produce", "acks": 0}, {"do": "produce"}, {"do": "fetch"})
    assert verdict(steps, value).kind is VerdictKind.PASS
    found = verdict(steps, [{**value[0], "answered": True}, *value[1:]])
    assert (found.path, found.requirement) == ("[0]", "broker.leaves-acks-0-unanswered")
    assert verdict(steps, [value[0], {"offset": "0"}, value[2]]).requirement == "broker.monotonic-offsets"
    assert verdict(steps, [{"refused": "the connection ended"}, *value[1:]]).kind is VerdictKind.FAIL


TIMED = (
    {"do": "produce", "records": 3, "times": [100, 300, 200]}, {"do": "produce", "times": [250]},
    {"do": "list-offsets", "time": 150}, {"do": "list-offsets", "time": 301},
)  # fmt: skip


@pytest.mark.parametrize(
    ("step", "change", "problem"),
    [
        (2, {"offset": "0"}, "the broker returns offset 0 at 300 ms instead of offset 1 at 300 ms"),
        (2, {"offset": "2"}, "the broker returns offset 2 at 300 ms instead of offset 1 at 300 ms"),
        (2, {"time": str(BASE_TIME_MS + 200)}, "the broker returns offset 1 at 200 ms instead of offset 1 at 300 ms"),
        (3, {"offset": "4"}, "the broker returns offset 4 at -1 instead of offset -1 at -1"),
        (3, {"refused": "no"}, "rejected: no"),
    ],
)
def test_list_offsets_by_time_returns_the_first_record_at_or_after_it(step, change, problem):
    steps, value = answered(*TIMED)
    assert [(row["offset"], row["time"]) for row in value[2:3]] == [("1", str(BASE_TIME_MS + 300))]
    changed(steps, value, step, change, problem, "broker.finds-by-time")


def test_list_offsets_by_time_returns_no_record_before_the_log_start():
    steps, value = answered(*TIMED[:2], {"do": "delete", "before": "0.2"}, {"do": "list-offsets", "time": 0})
    assert value[3] == {"offset": "2", "time": str(BASE_TIME_MS + 200)}
    assert verdict(steps, value).kind is VerdictKind.PASS
    value[3] = {"offset": "1", "time": str(BASE_TIME_MS + 300)}
    assert verdict(steps, value).requirement == "broker.finds-by-time"


def test_list_offsets_by_time_is_not_judged_for_log_append_time_or_markers():
    steps, value = answered(*TIMED[:2], {"do": "fetch"}, {"do": "list-offsets", "time": 150})
    batches = codec.decode("LOG", bytes.fromhex(value[2]["hex"])).value["batches"]
    stamped = b"".join(codec.encode("RECORD_BATCH", {**batch, "timestampType": 1}) for batch in batches)
    value[3]["offset"] = "0"
    assert verdict(steps, value).kind is VerdictKind.FAIL
    assert verdict(steps, [*value[:2], {**value[2], "hex": stamped.hex()}, value[3]]).kind is VerdictKind.EITHER
    marked, value = answered(
        {"do": "init-producer-id", **A}, {"do": "produce", "producer": "a", "times": [100]},
        {"do": "end-transaction", "producer": "a", "commit": True}, {"do": "produce", "times": [300]},
        {"do": "list-offsets", "time": 150},
    )  # fmt: skip
    assert verdict(marked, [*value[:4], {**value[4], "offset": "1"}]).kind is VerdictKind.EITHER


def test_the_low_watermark_after_deletion_may_be_above_a_marker():
    steps, value = answered({"do": "produce"}, {"do": "delete", "before": "end"})
    value[1]["lowWatermark"] = "2"
    assert verdict(steps, value).kind is VerdictKind.PASS


def test_a_broker_may_require_sequence_0_and_then_no_retry_fails():
    steps, value = answered(
        {"do": "init-producer-id", "producer": "a", "sequence": 5}, {"do": "produce", "producer": "a"},
        {"do": "retry", "step": 1},
    )  # fmt: skip
    assert verdict(steps, [value[0], {"refused": "45"}, {"refused": "45"}]).kind is VerdictKind.EITHER
    assert verdict(steps, [*value[:2], {"refused": "45"}]).requirement == "sequence.duplicate-deduplicated"
    assert verdict(steps, [*value[:2], {"offset": "1"}]).requirement == "sequence.duplicate-deduplicated"


def test_a_record_served_twice_to_an_old_consumer_is_named():
    steps, value = answered({"do": "produce"}, {"do": "fetch", "version": 3})
    value[1]["hex"] *= 2
    found = verdict(steps, value)
    assert found.requirement == "convert.down-for-old-consumers"
    assert "a consumer gets record '0.0' at offset 0 2 times" in found.detail


def test_compaction_may_remove_tombstones_only_if_the_topic_allows_it():
    write = {"do": "produce", "keys": ["a"], "tombstones": True}
    for tombstones, expected in ((False, VerdictKind.FAIL), (True, VerdictKind.PASS)):
        steps, value = answered(write, {"do": "compact", "tombstones": tombstones}, {"do": "fetch"})
        value[2]["hex"] = ""
        assert verdict(steps, value).kind is expected


def test_a_record_moved_within_its_batch_by_compaction_is_named():
    """The batch keeps its first and last offset, so only the record shows the move."""
    steps, value = answered(
        {"do": "produce", "records": 3, "keys": ["a", "a", "b"]}, {"do": "compact"}, {"do": "fetch"}
    )
    (batch,) = codec.decode("LOG", bytes.fromhex(value[2]["hex"])).value["batches"]
    moved, last = batch["records"]
    assert (moved["offset"], last["offset"]) == (1, 2)
    records = ({**moved, "offset": 0, "offsetDelta": 0}, last)
    value[2]["hex"] = codec.encode("RECORD_BATCH", {**batch, "records": records}).hex()
    found = verdict(steps, value)
    assert (found.kind, found.requirement) == (VerdictKind.FAIL, "compaction.offsets-preserved")
    assert "after compaction, unexpected record '0.1' at offset 0" in found.detail
