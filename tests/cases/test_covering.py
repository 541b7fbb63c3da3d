"""The covering sets: each possible pair of levels is in a numbered case, and a number never changes its case."""

import hashlib
from itertools import combinations, product

import pytest

from conformance import codec
from conformance.cases.model import ExpectAnyOf, ExpectConsumerView
from conformance.catalog.pairwise import families, messages, producer_sequences, record_batches
from conformance.catalog.pairwise.algorithm import Constraint, FactorTable, rows
from conformance.codec import compression_formats
from conformance.definitions.loader import shipped_types
from conformance.errors import FileError

NAMES = tuple(families.FAMILIES)


def pairs_in(numbered):
    """Return the pairs of levels in common rows, with those rows."""
    found = {}
    for row in numbered:
        for pair in combinations(row.items(), 2):
            found.setdefault(pair, []).append(row)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_two_levels_are_in_a_common_row_or_have_a_reason_why_not(name):
    table, together = families.FAMILIES[name].table, pairs_in(families.numbered_rows(name))
    excluded = {pair: table.why_incompatible(*pair) for pair in table.pairs() if pair not in together}
    assert [pair for pair, why in excluded.items() if not why] == []
    assert [pair for pair in together if table.why_incompatible(*pair)] == []


@pytest.mark.parametrize("name", NAMES)
def test_two_levels_have_a_common_row_without_another_masking_level(name):
    table, together = families.FAMILIES[name].table, pairs_in(families.numbered_rows(name))
    hidden = []
    for pair, numbered in together.items():
        masks = [{level for level in row.items() if table.masks(level)} for row in numbered]
        # A level in each common row belongs to the pair: a single kind of entry may have both.
        if sum(map(table.masks, pair)) < 2 and set.intersection(*masks) not in masks:
            hidden.append(pair)
    assert hidden == []


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_rows_are_complete(name):
    numbered = families.numbered_rows(name)
    assert rows(families.FAMILIES[name].table, numbered) == numbered


def test_a_set_has_a_bounded_number_of_rows():
    counts = {name: len(families.numbered_rows(name)) for name in NAMES}
    assert min(counts.values()) >= 40
    # Each message version has a row for each way to fill it; pairs cannot reduce that number.
    assert counts.pop("whole-message") <= 3 * len(families.FAMILIES["whole-message"].table.factors["message"])
    assert max(counts.values()) <= 450, counts


# --- numbers ------------------------------------------------------------------------------------------

FIRST_ROWS = {
    "record-batch": (58, "4225630d07c8796e"),
    "log": (324, "4bd81236a168c876"),
    "marker": (216, "dd505ec596581cbc"),
    "message-set": (60, "fe0e51fc636c44eb"),
    "message": (409, "057feb9efe27a60d"),
    "whole-message": (923, "1b00906ee4832fb1"),
    "sequence": (41, "1555cac89017411a"),
}
"""The number of rows of each family at its first publication, and a digest of their requests: these never change."""


@pytest.mark.parametrize("name", NAMES)
def test_a_number_always_means_the_same_case(name):
    count, digest = FIRST_ROWS[name]
    requests = [
        [*question]
        for number, row in enumerate(families.numbered_rows(name)[:count], 1)
        for question in families.FAMILIES[name].requests(row, number)
    ]
    assert hashlib.sha256(repr(requests).encode()).hexdigest()[:16] == digest


SMALL = {"a": ("1", "2"), "b": ("1", "2", "3"), "c": ("1", "2")}


def test_an_added_level_adds_rows_at_the_end():
    before = rows(FactorTable(SMALL))
    after = rows(FactorTable({**SMALL, "c": ("1", "2", "3")}), before)
    assert after[: len(before)] == before
    assert {row["c"] for row in after[len(before) :]} == {"3"}
    assert rows(FactorTable(SMALL), before) == before


def test_a_pair_excluded_only_by_a_third_factor_has_both_reasons():
    table = FactorTable(
        SMALL,
        (
            Constraint(("a", "1"), {"c": ("1",)}, "one is even"),
            Constraint(("b", "1"), {"c": ("2",)}, "one is odd"),
        ),
    )
    assert table.why_incompatible(("a", "1"), ("b", "1")) == "one is odd; one is even"
    assert table.why_incompatible(("a", "1"), ("c", "2")) == "one is even"
    assert table.why_incompatible(("a", "2"), ("b", "1")) == ""
    assert not any(row["a"] == row["b"] == "1" for row in rows(table))


def test_a_row_with_an_unknown_level_is_rejected(tmp_path):
    factors = producer_sequences.TABLE.factors
    (tmp_path / "sequence.csv").write_text(",".join(factors) + "\n" + ",".join("x" for _ in factors) + "\n")
    with pytest.raises(FileError, match="row 1 does not have a valid level for each factor"):
        families.numbered_rows("sequence", tmp_path)


# --- cases --------------------------------------------------------------------------------------------


def cases_of(catalog, name):
    prefix = families.FAMILIES[name].prefix
    own = {f"{prefix}{number:03}" for number in range(1, len(families.numbered_rows(name)) + 1)}
    return [case for label, case in catalog.cases.items() if label.partition(":")[0] in own]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_a_case_whose_note_lists_its_levels(name, catalog):
    cases, numbered = cases_of(catalog, name), families.numbered_rows(name)
    assert len({case.id.partition(":")[0] for case in cases}) == len(numbered)
    for case in cases:
        row = numbered[int(case.id.partition(":")[0].rpartition("/")[2]) - 1]
        assert all(f"{factor} {level}" in case.note for factor, level in row.items()), case.id


@pytest.mark.parametrize("name", ["log", "marker", "message-set", "message", "whole-message", "record-batch"])
def test_the_documents_determine_the_result_of_every_row_without_masking_levels(name, catalog):
    table, numbered = families.FAMILIES[name].table, families.numbered_rows(name)
    for case in cases_of(catalog, name):
        row = numbered[int(case.id.partition(":")[0].rpartition("/")[2]) - 1]
        if any(map(table.masks, row.items())) or case.id in UNSETTLED:
            continue
        assert not isinstance(case.expect, ExpectAnyOf), case.id
        assert not (isinstance(case.expect, ExpectConsumerView) and (case.expect.open or case.expect.view.damage)), (
            case.id
        )


UNSETTLED = {}


def test_every_kind_of_field_is_null_empty_single_and_multiple():
    """Each kind of field has all shapes, in flexible and other versions, tagged and untagged."""
    seen = {}
    for row in families.numbered_rows("message"):
        message = messages.messages()[row["message"].removesuffix(" flexible")]
        version = int(row["version"])
        value = messages.RotatingFieldValues(message, version).structure(message.name, int(row["turn"]))
        for member in message.structures[message.name]:
            if version in member.versions and member.is_array:
                given = value[member.name]
                shape = None if given is None else min(len(given), 2)
                kind = (version in member.nullable, version in message.flexible, version in member.tagged)
                seen.setdefault(kind, set()).add(shape)
    assert {(False, False, False), (False, True, False), (True, True, False)} <= seen.keys()
    for (nullable, _, _), shapes in seen.items():
        assert shapes == ({None, 0, 1, 2} if nullable else {0, 1, 2})


def test_every_array_is_filled_and_every_nullable_field_is_null_in_each_of_its_versions():
    filled, null = set(), set()
    for number, row in enumerate(families.numbered_rows("whole-message"), 1):
        name, _, version = row["message"].partition(" ")
        message = messages.messages()[name]
        for question in families.FAMILIES["whole-message"].requests(row, number):
            if question.op == "decode":
                value = codec.decode(shipped_types().wire(question.type), bytes.fromhex(question.request["hex"])).value
                note(value, message, message.name, int(version), filled, null)
    wanted_filled, wanted_null = set(), set()
    for message in messages.messages().values():
        for version in message.valid:
            want(message, message.name, version, wanted_filled, wanted_null)
    assert wanted_filled <= filled
    assert wanted_null <= null


def note(value, message, structure, version, filled, null):
    """Add the fields of a value with an element to `filled`, and its null fields to `null`."""
    for member in message.structures[structure]:
        if version not in member.versions:
            continue
        given, place = value[member.name], (message.name, version, structure, member.name)
        if given is None:
            null.add(place)
            continue
        if member.is_array and given:
            filled.add(place)
        if member.type in message.structures:
            for part in given if member.is_array else (given,):
                note(part, message, member.type, version, filled, null)


def want(message, structure, version, filled, null):
    """Add the fields of a version that can have an element to `filled`, and the nullable ones to `null`."""
    for member in message.structures[structure]:
        if version not in member.versions:
            continue
        place = (message.name, version, structure, member.name)
        if member.is_array:
            filled.add(place)
        if version in member.nullable and (member.is_array or member.type != "uuid"):
            null.add(place)
        if member.type in message.structures:
            want(message, member.type, version, filled, null)


# --- record batches -----------------------------------------------------------------------------------


def strata():
    """Yield the possible batches, independently of the tables: in each stratum all factors vary freely."""
    for control, transactional, single in product([False, True], repeat=3):
        if control and not single:
            continue
        free = {factor: set(levels) for factor, levels in record_batches.FACTORS.items()}
        free["control"] = {"yes" if control else "no"}
        free["transactional"] = {"yes" if transactional else "no"}
        free["records"] = {"one"} if single else {"two", "three", "many"}
        if single:
            free["timestamps"] = {"equal", "-1"}
        if control:
            free |= {"codec": {"none"}, "key": {"ABORT", "COMMIT"}, "value": {"marker"}, "headers": {"none"}}
            free["offsets"] -= {"with gaps"}
            free["producer"] = {"none", "no sequence"}
        else:
            free["key"] -= {"ABORT", "COMMIT"}
            free["value"] -= {"marker"}
            free["producer"] -= {"no sequence"}
        if transactional:
            free["producer"] -= {"none"}
        yield free


def test_every_pair_possible_in_a_batch_is_in_the_covering_set():
    possible = {
        ((one, level), (other, further))
        for free in strata()
        for one, other in combinations(record_batches.FACTORS, 2)
        for level in free[one]
        for further in free[other]
    }
    covered = {pair for row in families.numbered_rows("record-batch") for pair in combinations(row.items(), 2)}
    assert covered == possible


def test_every_row_of_the_covering_set_is_possible_in_a_batch():
    for row in families.numbered_rows("record-batch"):
        assert any(all(row[factor] in levels for factor, levels in free.items()) for free in strata()), row


def test_the_covering_set_is_small():
    # The two largest factors have 7 × 6 pairs: keys of data and kinds of headers.
    assert 42 <= len(families.numbered_rows("record-batch")) <= 70


def test_the_batches_are_read_back_without_a_remark():
    notation = codec.wire("RECORD_BATCH").notation
    for number, row in enumerate(families.numbered_rows("record-batch"), 1):
        data, value = record_batches.batch(row, number)
        read = codec.decode("RECORD_BATCH", data)
        assert (read.violations, read.remarks, read.consumed) == ((), (), len(data)), row
        assert notation.render(read.value) == notation.render(value), row


def test_the_values_have_the_numbers_of_their_levels():
    # A level with a number in its name has values with that number.
    rows = families.numbered_rows("record-batch")
    values = [record_batches.batch(row, number)[1] for number, row in enumerate(rows)]
    deltas = {row["timestamps"]: [] for row in rows}
    for row, value in zip(rows, values, strict=True):
        deltas[row["timestamps"]] += [abs(record["timestampDelta"]) for record in value["records"]]
        assert (value["isTransactional"], value["isControlBatch"]) == (
            row["transactional"] == "yes",
            row["control"] == "yes",
        )
        if row["key"].endswith("bytes"):
            assert {len(record["key"]) for record in value["records"]} == {int(row["key"].split()[0])}
    assert max(deltas["deltas beyond 31 bits"]) > 1 << 31
    assert max(deltas["deltas beyond 42 bits"]) > 1 << 42
    assert max(deltas["equal"]) == max(deltas["-1"]) == 0


def test_no_compression_library_writes_bytes(monkeypatch):
    def refuse(*_, **__):
        pytest.fail("a compression library wrote bytes")

    for library, name in [
        (compression_formats.gzip, "compress"),
        (compression_formats.snappy, "compress"),
        (compression_formats.lz4.frame, "compress"),
        (compression_formats.zstandard, "ZstdCompressor"),
    ]:
        monkeypatch.setattr(library, name, refuse)
    for name in ("record-batch", "log", "message-set", "marker"):
        for number, row in enumerate(families.numbered_rows(name), 1):
            assert [*families.FAMILIES[name].requests(row, number)]
