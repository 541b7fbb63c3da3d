"""The order in which the generator damages values: everything once before anything again, and any case on its own."""

from __future__ import annotations

from collections import Counter

import pytest

from conformance import codec
from conformance.codec.log import last_offset
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.strategies.seeded import log_requests, mutation_schedule
from conformance.strategies.seeded.generator import generate
from conformance.strategies.seeded.log_requests import OF_BROKERS, QUESTIONS
from conformance.strategies.seeded.mutation_schedule import STACKED, damaged, due_at, in_order, places
from conformance.strategies.seeded.mutations import MUTATIONS
from conformance.strategies.seeded.random_choices import RandomChoices
from conformance.strategies.seeded.repair import lay_out

KINDS = ("VARINT", "TAGGED_FIELDS", "ARRAY<STRING>", "RECORD", "MESSAGE_SET", "RECORD_BATCH", "LOG")


def made(kind, number, seed=0):
    """What a value becomes with the damage of a number: the value, the damaged bytes, and the mutation."""
    choices = RandomChoices(f"{kind}/{seed}/{number}")
    data = generate(kind, choices).data
    return data, *damaged(codec.wire(kind), data, number, seed, choices)[:2]


@pytest.mark.parametrize("kind", KINDS)
def test_each_mutation_comes_to_every_field_before_it_comes_to_one_again(kind):
    wire = codec.wire(kind)
    for seed in (0, 1, 4711):
        times = Counter(in_order(wire, seed))
        assert set(times) == set(places(wire))
        of_rows = {row: [count for (_, other), count in times.items() if other == row] for _, row in times}
        assert all(max(counts) - min(counts) <= 1 for counts in of_rows.values())
        assert len({sum(counts) for counts in of_rows.values()}) == 1
    assert len({in_order(wire, seed) for seed in range(5)}) == 5


def test_the_first_damage_of_a_few_types_is_not_the_same_everywhere():
    """Of a message in a version there are a few cases only."""
    assert len({in_order(codec.wire(kind), 0)[0][1] for kind in KINDS}) > 2


@pytest.mark.once
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_due_is_what_is_done_with_few_exceptions(kind):
    order = in_order(codec.wire(kind), 0)
    done = [made(kind, number) for number in range(len(order))]
    assert all(data != before for before, data, _ in done if before)
    as_due = sum(row == due for (_, _, row), (_, due) in zip(done, order, strict=True))
    assert as_due >= 0.85 * len(order)
    assert {row for _, _, row in done} == {row for _, row in order}


def test_every_field_of_a_batch_and_of_its_records_is_damaged_compressed_or_not():
    fields = {(place.is_inside, place.path) for place, _ in places(codec.wire("RECORD_BATCH"))}
    assert {(False, field.name) for field in BATCH_LAYOUT.fields if field.name != "records"} <= fields
    for is_inside in (False, True):
        assert {
            (is_inside, f"records[].{name}") for name in ("length", "offsetDelta", "key", "headers[].key")
        } <= fields


def test_two_thousand_cases_damage_every_field_of_a_batch_in_every_way():
    """docs/concepts.md says so."""
    assert len(places(codec.wire("RECORD_BATCH"))) > 500
    assert len(in_order(codec.wire("RECORD_BATCH"), 0)) <= 1000


@pytest.mark.parametrize("kind", ["RECORD_BATCH", "LOG", "MESSAGE_SET"])
def test_what_few_fields_can_have_comes_in_the_first_cases(kind):
    first = {row for _, row in in_order(codec.wire(kind), 0)[: len(MUTATIONS)]}
    assert {"checksum-broken", "recoded", "hostile-length", "spliced"} <= first


def test_after_every_field_two_come_together_and_each_time_others():
    order = in_order(codec.wire("RECORD"), 0)
    assert {made("RECORD", number)[2] for number in range(len(order), 2 * len(order))} == {STACKED}
    assert STACKED not in {made("RECORD", number)[2] for number in range(2 * len(order), 3 * len(order))}


def test_no_two_come_together_again_before_each_came_with_every_other():
    wire = codec.wire("TAGGED_FIELDS")
    count = len(in_order(wire, 0))
    seconds = [due_at(wire, (2 * turn + 1) * count + 5, 0)[1] for turn in range(count)]
    assert Counter(seconds) == Counter(in_order(wire, 0))


def test_a_case_made_alone_is_what_it_is_among_others():
    numbers = [3, 700, 41, 2, 1300]
    together = [made("RECORD_BATCH", number, seed=5) for number in range(1301)]
    mutation_schedule.places.cache_clear()
    mutation_schedule.in_order.cache_clear()
    mutation_schedule._laid_out.cache_clear()
    assert [made("RECORD_BATCH", number, seed=5) for number in numbers] == [together[number] for number in numbers]


def test_a_splice_goes_on_with_the_bytes_of_another_value(monkeypatch):
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
def test_what_whole_logs_are_asked_about_is_damaged_in_the_same_order_a_share_of_each_ten(name, often, of):
    question = {**QUESTIONS, **OF_BROKERS}[name]
    drawn = [question.at(RandomChoices(f"{name}/{index}"), 0, index)[1] for index in range(400)]
    assert {sum(map(bool, drawn[at : at + 10])) for at in range(0, 400, 10)} == {often}
    order = [row for _, row in in_order(codec.wire(of), question.order * 10**18)]
    done = [row for row in drawn if row]
    assert sum(map(str.__eq__, done, order)) >= 0.85 * len(done)


def test_two_questions_about_the_same_type_follow_two_orders():
    orders = [
        (question.damages, question.order) for question in (*QUESTIONS.values(), *OF_BROKERS.values()) if question.often
    ]
    assert len(set(orders)) == len(orders)


def test_a_log_that_lacks_the_field_gives_way_to_one_that_has_it_read_whole(monkeypatch):
    """What the fetch asked for is of no use there: it would pass over most of the log."""
    made = []
    monkeypatch.setattr(
        log_requests, "damaged", lambda _, data, *due: made.append((data, damaged(_, data, *due))) or made[-1][1]
    )
    gave_way = 0
    for number, index in enumerate(index for index in range(400) if index * 3 % 10 < 3):
        request, _ = QUESTIONS["READ"].at(RandomChoices(f"READ/{index}"), 0, index)
        drawn, result = made[number]
        assert bytes.fromhex(request["hex"]) == result.data != result.base
        if result.base is not drawn:
            gave_way += 1
            end = codec.decode("LOG", result.base).value["batches"][-1]
            asked = {name: value for name, value in request.items() if name not in ("hex", "checkCrcs")}
            plain = {"isolation": "read_uncommitted", "fetchOffset": "0", "aborted": []}
            assert asked == {**plain, "highWatermark": str(last_offset(end) + 1)}
    assert 20 < gave_way < len(made)
