"""The schedule of mutations: each one is used once before any repeats, and each case can be generated alone."""

from __future__ import annotations

from collections import Counter

import pytest

from conformance import codec
from conformance.codec.log import last_offset
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.strategies.seeded import _mutation_schedule as mutation_schedule
from conformance.strategies.seeded import log_requests
from conformance.strategies.seeded._mutation_schedule import STACKED, damaged, in_order, places, scheduled_mutations
from conformance.strategies.seeded._random_choices import RandomChoices
from conformance.strategies.seeded._repair import lay_out
from conformance.strategies.seeded.generator import generate
from conformance.strategies.seeded.log_requests import OF_BROKERS, QUESTIONS
from conformance.strategies.seeded.mutations import MUTATIONS

KINDS = ("VARINT", "TAGGED_FIELDS", "ARRAY<STRING>", "RECORD", "MESSAGE_SET", "RECORD_BATCH", "LOG")


def made(kind, number, seed=0):
    """Return the bytes of a value, the damaged bytes and the mutation of a number in the schedule."""
    choices = RandomChoices(f"{kind}/{seed}/{number}")
    data = generate(kind, choices).data
    return data, *damaged(codec.wire(kind), data, number, seed, choices)[:2]


@pytest.mark.parametrize("kind", KINDS)
def test_each_mutation_damages_every_field_once_before_it_repeats_one(kind):
    wire = codec.wire(kind)
    for seed in (0, 1, 4711):
        times = Counter(in_order(wire, seed))
        assert set(times) == set(places(wire))
        of_rows = {row: [count for (_, other), count in times.items() if other == row] for _, row in times}
        assert all(max(counts) - min(counts) <= 1 for counts in of_rows.values())
        assert len({sum(counts) for counts in of_rows.values()}) == 1
    assert len({in_order(wire, seed) for seed in range(5)}) == 5


def test_the_first_mutation_differs_between_types():
    """A message version has only few cases, so its first mutation matters."""
    assert len({in_order(codec.wire(kind), 0)[0][1] for kind in KINDS}) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_applied_mutations_follow_the_schedule_with_few_exceptions(kind):
    order = in_order(codec.wire(kind), 0)
    done = [made(kind, number) for number in range(len(order))]
    assert all(data != before for before, data, _ in done if before)
    as_scheduled = sum(row == scheduled for (_, _, row), (_, scheduled) in zip(done, order, strict=True))
    assert as_scheduled >= 0.85 * len(order)
    assert {row for _, _, row in done} == {row for _, row in order}


def test_every_field_of_a_batch_and_of_its_records_is_damaged():
    fields = {(place.is_inside, place.path) for place, _ in places(codec.wire("RECORD_BATCH"))}
    assert {(False, field.name) for field in BATCH_LAYOUT.fields if field.name != "records"} <= fields
    for is_inside in (False, True):
        assert {
            (is_inside, f"records[].{name}") for name in ("length", "offsetDelta", "key", "headers[].key")
        } <= fields


def test_two_thousand_cases_apply_every_mutation_to_every_field_of_a_batch():
    """docs/concepts.md states this."""
    assert len(places(codec.wire("RECORD_BATCH"))) > 500
    assert len(in_order(codec.wire("RECORD_BATCH"), 0)) <= 1000


@pytest.mark.parametrize("kind", ["RECORD_BATCH", "LOG", "MESSAGE_SET"])
def test_rare_mutations_are_in_the_first_cases(kind):
    first = {row for _, row in in_order(codec.wire(kind), 0)[: len(MUTATIONS)]}
    assert {"checksum-broken", "recoded", "hostile-length", "spliced"} <= first


def test_after_every_field_two_mutations_are_combined():
    order = in_order(codec.wire("RECORD"), 0)
    assert {made("RECORD", number)[2] for number in range(len(order), 2 * len(order))} == {STACKED}
    assert STACKED not in {made("RECORD", number)[2] for number in range(2 * len(order), 3 * len(order))}


def test_no_two_mutations_are_combined_again_before_all_other_pairs():
    wire = codec.wire("TAGGED_FIELDS")
    count = len(in_order(wire, 0))
    seconds = [scheduled_mutations(wire, (2 * turn + 1) * count + 5, 0)[1] for turn in range(count)]
    assert Counter(seconds) == Counter(in_order(wire, 0))


def test_a_case_generated_alone_equals_the_one_in_a_sequence():
    numbers = [3, 700, 41, 2, 1300]
    together = [made("RECORD_BATCH", number, seed=5) for number in range(1301)]
    mutation_schedule.places.cache_clear()
    mutation_schedule.in_order.cache_clear()
    mutation_schedule._laid_out.cache_clear()
    assert [made("RECORD_BATCH", number, seed=5) for number in numbers] == [together[number] for number in numbers]


def test_a_splice_continues_with_the_bytes_of_another_value(monkeypatch):
    foreign = codec.encode("TAGGED_FIELDS", tuple({"tag": tag, "data": b"other" * 9} for tag in range(3)))
    order = in_order(codec.wire("TAGGED_FIELDS"), 0)
    monkeypatch.setattr(mutation_schedule, "_laid_out", lambda wire, _: lay_out(wire, foreign))
    spliced = [number for number, (_, row) in enumerate(order) if row == "spliced"]
    done = [made("TAGGED_FIELDS", number + turn * 2 * len(order)) for number in spliced for turn in range(4)]
    assert {row for _, _, row in done} == {"spliced"}
    assert sum(b"other" in data for _, data, _ in done) > len(done) / 2


@pytest.mark.parametrize(
    ("name", "often", "of"), [("READ", 3, "LOG"), ("READ_RAISED", 3, "LOG"), ("APPEND", 5, "RECORD_BATCH")]
)
def test_a_fixed_share_of_log_requests_is_damaged_in_the_schedule_order(name, often, of):
    question = {**QUESTIONS, **OF_BROKERS}[name]
    drawn = [question.at(RandomChoices(f"{name}/{index}"), 0, index)[1] for index in range(400)]
    assert {sum(map(bool, drawn[at : at + 10])) for at in range(0, 400, 10)} == {often}
    order = [row for _, row in in_order(codec.wire(of), question.order * 10**18)]
    done = [row for row in drawn if row]
    assert sum(map(str.__eq__, done, order)) >= 0.85 * len(done)


def test_two_operations_on_the_same_type_have_different_orders():
    orders = [
        (question.damages, question.order) for question in (*QUESTIONS.values(), *OF_BROKERS.values()) if question.often
    ]
    assert len(set(orders)) == len(orders)


def test_a_log_without_the_field_is_replaced_and_read_completely(monkeypatch):
    """The fetch offset of the first log does not fit the second: it would skip most of it."""
    damages = []
    monkeypatch.setattr(
        log_requests,
        "damaged",
        lambda _, data, *place: damages.append((data, damaged(_, data, *place))) or damages[-1][1],
    )
    gave_way = 0
    for number, index in enumerate(index for index in range(400) if index * 3 % 10 < 3):
        request, _ = QUESTIONS["READ"].at(RandomChoices(f"READ/{index}"), 0, index)
        drawn, result = damages[number]
        assert bytes.fromhex(request["hex"]) == result.data != result.base
        if result.base is not drawn:
            gave_way += 1
            end = codec.decode("LOG", result.base).value["batches"][-1]
            settings = {name: value for name, value in request.items() if name not in ("hex", "checkCrcs")}
            plain = {"isolation": "read_uncommitted", "fetchOffset": "0", "aborted": []}
            assert settings == {**plain, "highWatermark": str(last_offset(end) + 1)}
    assert 20 < gave_way < len(damages)
