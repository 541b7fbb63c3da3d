"""Audits of stored segments: they find seeded damage at its place, and nothing else."""

import os
import re
import shutil
import struct
from io import StringIO
from itertools import chain
from pathlib import Path

import pytest
from msgspec.structs import asdict

pytest.importorskip("pyarrow", reason="audits need the extra spark")

import pyarrow as pa
from log_bytes import COMMIT, batch, marker, message, part, record, wrapper
from rich.console import Console
from segment_files import RECORDS, audit, changed, partition, places, plain, shown, written

from conformance import codec
from conformance.codec.record_batch import with_checksums
from conformance.pipeline.audit import segment_reader
from conformance.pipeline.audit.indexes import INDEXES
from conformance.pipeline.audit.segment_reader import parts_of
from conformance.pipeline.audit.segments import NoSegmentsError, find_segments
from conformance.pipeline.audit.summary import SUITE, as_text, exit_status
from conformance.pipeline.audit.table_steps import SEGMENTS
from conformance.strategies.seeded.generator import choices_of, generate
from conformance.strategies.seeded.mutations import mutate

pytestmark = pytest.mark.integration

SECOND = f"{4 * RECORDS:020}"
"""Name of the second segment of a partition."""


def flipped(data, at, mask=0x10):
    out = bytearray(data)
    out[at] ^= mask
    return bytes(out)


def hit(log, row, new):
    """Return a log with one batch of its second segment replaced; `places` has its position."""
    segment = [*log[1][:row], *new, *log[1][row + 1 :]]
    return [log[0], segment, *log[2:]]


# --- valid logs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", range(5))
def test_a_valid_partition_has_no_findings(tmp_path, compression):
    written(tmp_path, partition(compression=compression))
    assert audit(tmp_path) == audit(tmp_path, 300, uncompacted=True) == []


def test_messages_of_old_formats_are_audited_too(tmp_path):
    sound = [message(0, 0), message(1), wrapper(2, 3, 4), wrapper(5, 6, magic=0, compression=2), plain(7)]
    written(tmp_path / "sound", [sound])
    assert audit(tmp_path / "sound") == []
    broken = [*sound[:1], flipped(sound[1], 25), *sound[2:]]
    written(tmp_path / "broken", [broken])
    assert shown(audit(tmp_path / "broken")) == [(f"{0:020}.log", len(sound[0]), "legacy.crc-checked", "must")]


def test_a_compacted_log_has_no_findings(tmp_path):
    log = partition(segments=2)
    gone = [[log[0][0], log[0][3]], [log[1][1], log[1][2]]]
    place = written(tmp_path, gone)
    assert audit(place) == []


def test_the_start_of_a_log_may_be_missing(tmp_path):
    written(tmp_path, partition()[1:])
    assert audit(tmp_path, uncompacted=True) == []


def test_producers_transactions_and_markers_of_a_leader_have_no_findings(tmp_path):
    epoch_two = {"producer": 7, "transactional": True, "producerEpoch": 2}
    log = [
        [part(0), plain(2, producer=8, baseSequence=40), marker(7, COMMIT), part_after(8, 2), marker(10, bytes(4))],
        [
            marker(11, bytes(4)),
            batch(12, [12, 13], baseSequence=0, **epoch_two),
            plain(14, producer=8, baseSequence=45),
        ],
        [batch(19, [19], baseSequence=2, **epoch_two), plain(20, producer=None)],
    ]
    written(tmp_path, log)
    for size in (1 << 30, 1, 200):
        assert audit(tmp_path, size, uncompacted=True) == []


def part_after(base, sequence):
    return batch(base, [base, base + 1], producer=7, transactional=True, baseSequence=sequence)


def test_sequences_wrap_after_the_largest(tmp_path):
    last = (1 << 31) - 3
    log = [[plain(0, baseSequence=last), plain(5, baseSequence=2), plain(10, baseSequence=7)]]
    written(tmp_path, log)
    assert audit(tmp_path, uncompacted=True) == []


# --- seeded damage ------------------------------------------------------------------------------------

LOG = partition()
AT = places(LOG)[1]
CRC, RISE, SIZE, MAGIC = (
    "crc.mismatch-corrupt",
    "log.offsets-rise",
    "batch.length-wrong-rejected",
    "format.magic-versions",
)


def renumbered(log, gap):
    """Add a sequence gap before the third batch of the second segment."""
    out = [list(segment) for segment in log]
    for at, segment in enumerate(out):
        for row in range(2 if at == 1 else 0, len(segment) if at else 0):
            sequence = struct.unpack_from(">i", segment[row], 53)[0]
            segment[row] = changed(segment[row], 53, ">i", sequence + gap)
    return out


def cut_out(log):
    """Remove thirty bytes from the middle of a batch."""
    return hit(log, 1, [log[1][1][:70] + log[1][1][100:]])


PLANTED = {
    "a bit of a record flipped": (hit(LOG, 1, [flipped(LOG[1][1], 90)]), [(AT[1], CRC)]),
    "a bit of the first record's length flipped": (hit(LOG, 2, [flipped(LOG[1][2], 61, 2)]), [(AT[2], CRC)]),
    "the checksum changed": (hit(LOG, 0, [flipped(LOG[1][0], 18)]), [(AT[0], CRC)]),
    "a length one too large": (hit(LOG, 1, [flipped(LOG[1][1], 11, 1)]), [(AT[1], CRC)]),
    "a length beyond the file": (hit(LOG, 1, [flipped(LOG[1][1], 9, 1)]), [(AT[1], SIZE)]),
    "a length below a header": (hit(LOG, 1, [changed(LOG[1][1], 8, ">i", 48)]), [(AT[1], SIZE)]),
    "a negative length": (hit(LOG, 3, [changed(LOG[1][3], 8, ">i", -1)]), [(AT[3], SIZE)]),
    "a magic that is none": (hit(LOG, 1, [flipped(LOG[1][1], 16, 5)]), [(AT[1], MAGIC)]),
    "one record too many announced": (
        hit(LOG, 1, [changed(LOG[1][1], 57, ">i", RECORDS + 1)]),
        [(AT[1], "varint.truncated-rejected")],
    ),
    "one record too few announced": (
        hit(LOG, 1, [changed(LOG[1][1], 57, ">i", RECORDS - 1)]),
        [(AT[1], "batch.record-count-mismatch")],
    ),
    "a codec that is none": (hit(LOG, 1, [changed(LOG[1][1], 21, ">h", 5)]), [(AT[1], "codec.unassigned-values")]),
    "plain records said to be gzip": (hit(LOG, 1, [changed(LOG[1][1], 21, ">h", 1)]), [(AT[1], "codec.gzip")]),
    "two batches swapped": (
        [LOG[0], [LOG[1][0], LOG[1][2], LOG[1][1], LOG[1][3]], LOG[2]],
        [(AT[2], RISE)],
    ),
    "a batch twice": (hit(LOG, 1, [LOG[1][1], LOG[1][1]]), [(AT[2], RISE)]),
    "a batch of the segment before again": (
        hit(LOG, 0, [LOG[1][0], LOG[0][3]]),
        [(AT[1], RISE), (AT[1], "log.segment-name")],
    ),
    "lastOffsetDelta too small": (
        hit(LOG, 1, [changed(LOG[1][1], 23, ">i", 2)]),
        [(AT[1], "batch.last-offset-delta")],
    ),
    "a baseOffset too large": (hit(LOG, 1, [changed(LOG[1][1], 0, ">q", 1 << 40)]), [(AT[2], RISE)]),
    "a baseOffset too small": (hit(LOG, 1, [changed(LOG[1][1], 0, ">q", 22)]), [(AT[1], RISE)]),
    "lastOffsetDelta too large": (hit(LOG, 1, [changed(LOG[1][1], 23, ">i", 9)]), [(AT[2], RISE)]),
    "maxTimestamp too large": (hit(LOG, 1, [changed(LOG[1][1], 35, ">q", 5000)]), [(AT[1], "batch.max-timestamp")]),
    "maxTimestamp too small": (hit(LOG, 1, [changed(LOG[1][1], 35, ">q", 1001)]), [(AT[1], "batch.max-timestamp")]),
    "bytes gone from the middle": (cut_out(LOG), [(AT[1], CRC)]),
    "the end of a segment gone": (hit(LOG, 3, [LOG[1][3][:-1]]), [(AT[3], SIZE)]),
    "zeros between batches": (hit(LOG, 1, [bytes(1000), LOG[1][1]]), [(AT[1], SIZE)]),
    "noise between batches": (hit(LOG, 1, [bytes(range(1, 256)) * 9, LOG[1][1]]), [(AT[1], MAGIC)]),
    "sequence numbers left out": (renumbered(LOG, 3), [(AT[2], "sequence.gap-out-of-order")]),
    "a newer epoch that does not begin at 0": (
        [LOG[0], [LOG[1][0], *(changed(one, 51, ">h", 1) for one in LOG[1][1:])], LOG[2][:0]],
        [(AT[1], "sequence.gap-out-of-order")],
    ),
    "one batch of an older epoch": (
        [[changed(one, 51, ">h", 1) for one in LOG[0]], [changed(LOG[1][0], 51, ">h", 1), LOG[1][1]], []],
        [(AT[1], "producer-epoch.fences")],
    ),
}


@pytest.mark.parametrize("size", [1 << 30, 300, 1])
@pytest.mark.parametrize("name", PLANTED)
def test_seeded_damage_is_the_only_finding_and_has_its_place(tmp_path, name, size):
    log, expected = PLANTED[name]
    place = written(tmp_path, log[:1])
    for segment, base in zip(log[1:], (20, 40), strict=True):
        (place / f"{base:020}.log").write_bytes(b"".join(segment))
    assert shown(audit(tmp_path, size)) == [(f"{SECOND}.log", at, rule, "must") for at, rule in expected]


def test_a_lost_batch_is_a_gap_in_a_log_without_compaction(tmp_path):
    place = written(tmp_path, hit(LOG, 1, []))
    gap = [(f"{SECOND}.log", AT[1], "sequence.gap-out-of-order", "must")]
    for size in (1 << 30, 1):
        assert shown(audit(place, size)) == []
        assert shown(audit(place, size, uncompacted=True)) == gap


def test_a_record_without_a_key_proves_that_the_log_was_not_compacted(tmp_path):
    keyless = batch(0, [record(at, key=None) for at in range(RECORDS)], producer=7, baseSequence=0)
    place = written(tmp_path, [[keyless, *LOG[0][1:]], *hit(LOG, 1, [])[1:]])
    for size in (1 << 30, 1):
        assert shown(audit(place, size)) == [(f"{SECOND}.log", AT[1], "sequence.gap-out-of-order", "must")]


def test_a_gap_across_damage_is_not_a_finding(tmp_path):
    place = written(tmp_path, hit(LOG, 1, [flipped(LOG[1][1], 90)]))
    for size in (1 << 30, 1):
        assert shown(audit(place, size, uncompacted=True)) == [(f"{SECOND}.log", AT[1], CRC, "must")]


@pytest.mark.parametrize("size", [1 << 30, 1])
def test_a_marker_of_an_older_epoch_is_found(tmp_path, size):
    first = batch(0, [0], producer=7, transactional=True, producerEpoch=3)
    log = [[first, marker(1, COMMIT)]]
    written(tmp_path, log)
    assert shown(audit(tmp_path, size)) == [(f"{0:020}.log", len(first), "producer-epoch.fences", "must")]


@pytest.mark.parametrize("size", [1 << 30, 1])
def test_a_batch_outside_the_open_transaction_of_its_producer_is_found(tmp_path, size):
    log = [[part(0), plain(2, baseSequence=2)], [plain(7, producer=8)]]
    written(tmp_path, log)
    assert shown(audit(tmp_path, size)) == [(f"{0:020}.log", len(log[0][0]), "attributes.transactional-bit", "must")]


@pytest.mark.parametrize("size", [1 << 30, 1])
def test_a_batch_with_repeated_sequences_is_found(tmp_path, size):
    written(tmp_path, [[plain(0), plain(5, baseSequence=0)]])
    assert shown(audit(tmp_path, size)) == [(f"{0:020}.log", len(plain(0)), "sequence.duplicate-deduplicated", "must")]


DAY = 24 * 60 * 60 * 1000


@pytest.mark.parametrize("size", [1 << 30, 1])
@pytest.mark.parametrize(
    ("idle", "found"), [(DAY, []), (DAY - 1, ["producer-epoch.fences", "sequence.gap-out-of-order"])]
)
def test_a_producer_with_possibly_expired_state_has_no_findings(tmp_path, size, idle, found):
    def at(offset, days, producer, **fields):
        return batch(offset, [record(offset, timestamp=days * idle)], producer=producer, **fields)

    log = [
        at(0, 0, 7, producerEpoch=5),
        at(1, 0, 8),
        at(2, 1, 7, producerEpoch=3, baseSequence=4),
        at(3, 1, 8, baseSequence=9),
    ]
    written(tmp_path, [log])
    assert sorted(one.requirement for one in audit(tmp_path, size, uncompacted=True)) == found


def test_the_state_of_a_producer_in_a_transaction_does_not_expire(tmp_path):
    later = batch(2, [record(2, timestamp=2 * DAY)], producer=7, transactional=True, baseSequence=9)
    written(tmp_path, [[part(0), later]])
    assert [one.requirement for one in audit(tmp_path, uncompacted=True)] == ["sequence.gap-out-of-order"]


def test_a_batch_below_the_base_offset_of_its_segment_is_found(tmp_path):
    place = written(tmp_path, LOG[:2])
    (place / f"{4 * RECORDS:020}.log").rename(place / f"{4 * RECORDS + 1:020}.log")
    name = f"{4 * RECORDS + 1:020}.log"
    assert shown(audit(place)) == [(name, 0, "log.segment-name", "must")]


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 5000, LOG[2][3][:-1], LOG[2][3][:17], LOG[2][3][:3]])
def test_the_end_of_the_last_segment_may_be_cut_or_preallocated(tmp_path, tail):
    place = written(tmp_path, [*LOG[:2], [*LOG[2][:3], tail]])
    at = places(LOG)[2][3]
    assert shown(audit(place)) == [(f"{8 * RECORDS:020}.log", at, SIZE, "note")]


def test_unspecified_bytes_are_notes(tmp_path):
    odd = changed(LOG[1][1], 21, ">h", 1 << 7)
    place = written(tmp_path, hit(LOG, 1, [odd]))
    assert shown(audit(place)) == [(f"{SECOND}.log", AT[1], "attributes.reserved-bits", "note")]


def test_the_scan_does_not_continue_at_a_batch_inside_a_record(tmp_path):
    nested = batch(20, [record(20, value=plain(3)), *range(21, 25)], producer=7, baseSequence=20)
    place = written(tmp_path, hit(LOG, 0, [nested]))
    assert audit(place) == []


@pytest.mark.parametrize("seed", range(4))
def test_every_damage_of_a_batch_has_the_finding_of_the_reference(tmp_path, seed):
    # Its offsets and producer match its neighbours, so only the reference judges the difference.
    choices = choices_of("RECORD_BATCH", 30, seed)
    for index in range(120):
        data, _ = mutate(
            "RECORD_BATCH", generate("RECORD_BATCH", choices_of("RECORD_BATCH", seed, index)).data, choices
        )
        if len(data) < 61 or data[16] != 2:
            continue
        data = with_checksums(data, crc=False)
        alone = codec.decode("RECORD_BATCH", data)
        place = tmp_path / str(index) / "t-0"
        place.mkdir(parents=True)
        (place / f"{0:020}.log").write_bytes(data)
        found = [one for one in audit(place) if one.requirement not in ("batch.max-timestamp", "log.segment-name")]
        if alone.violations:
            assert [one.requirement for one in found if one.level != "note"] == [alone.violations[0].requirement]
            assert found[0].position == 0
        else:
            promoted = {"batch.last-offset-delta"} & {one.requirement for one in alone.remarks}
            assert {one.requirement for one in found if one.level != "note"} == promoted
            noted = {one.requirement for one in alone.remarks} - promoted - {"non-idempotent.producer-id"}
            assert {one.requirement for one in found if one.level == "note"} - {"non-idempotent.producer-id"} == noted


# --- indexes ------------------------------------------------------------------------------------------


def packed(suffix, *rows):
    layout = {".index": ">ii", ".timeindex": ">qi", ".txnindex": ">hqqqq"}[suffix]
    return b"".join(struct.pack(layout, *row) for row in rows)


OFFSETS = [(4, AT[0]), (9, AT[1]), (19, AT[3])]
TIMES = [(1000, 0), (1003, 3), (1009, 9)]
ABORTED = [(0, 7, 20, 25, 26), (0, 8, 21, 28, 29)]


@pytest.mark.parametrize("spare", [0, 8 * 12])
def test_valid_indexes_have_no_findings_with_or_without_preallocation(tmp_path, spare):
    place = written(tmp_path, LOG)
    for suffix, rows in ((".index", OFFSETS), (".timeindex", TIMES), (".txnindex", ABORTED)):
        space = bytes(spare) if suffix != ".txnindex" else b""
        (place / f"{SECOND}{suffix}").write_bytes(packed(suffix, *rows) + space)
        (place / f"{0:020}{suffix}").write_bytes(space)
    assert audit(place) == audit(place, 1) == []


@pytest.mark.parametrize(
    "suffix, rows, expected",
    [
        (".index", [OFFSETS[0], (9, AT[1] + 1), OFFSETS[2]], [8]),
        (".index", [OFFSETS[0], (19, AT[1]), (19, AT[3])], [16]),
        (".index", [OFFSETS[0], (9, AT[2]), (14, AT[1])], [8, 16]),
        (".index", [(4, AT[2])], [0]),
        (".index", [(4, AT[0]), (19, 1 << 20)], [8]),
        (".index", [(-1, AT[0])], [0, 0]),
        (".timeindex", [TIMES[0], TIMES[2], TIMES[1]], [24, 24]),
        (".timeindex", [(1000, 3), (1000, 5)], [12]),
        (".timeindex", [(1000, -3)], [0]),
        (".txnindex", [ABORTED[1], ABORTED[0]], [34]),
        (".txnindex", [(1, 7, 20, 25, 26)], [0]),
        (".txnindex", [(0, 7, 3, 5, 26)], [0]),
    ],
)
@pytest.mark.parametrize("size", [1 << 30, 1])
def test_a_wrong_index_is_found_at_its_entry(tmp_path, suffix, rows, expected, size):
    place = written(tmp_path, LOG)
    (place / f"{SECOND}{suffix}").write_bytes(packed(suffix, *rows))
    rule = next(index.rule for index in INDEXES if index.suffix == suffix)
    assert shown(audit(place, size)) == [(f"{SECOND}{suffix}", at, rule, "must") for at in expected]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_with_a_cut_entry_is_found(tmp_path, suffix):
    place = written(tmp_path, LOG)
    (place / f"{SECOND}{suffix}").write_bytes(b"\0" * 7)
    rule = next(index.rule for index in INDEXES if index.suffix == suffix)
    assert shown(audit(place)) == [(f"{SECOND}{suffix}", 0, rule, "must")]


def test_damage_in_a_segment_is_no_finding_in_its_index(tmp_path):
    place = written(tmp_path, hit(LOG, 1, [flipped(LOG[1][1], 9, 1)]))
    (place / f"{SECOND}.index").write_bytes(packed(".index", *OFFSETS))
    assert shown(audit(place)) == [(f"{SECOND}.log", AT[1], SIZE, "must")]


# --- files --------------------------------------------------------------------------------------------


def test_segments_below_folders_are_found_once_with_their_topics(tmp_path):
    place = written(tmp_path / "a", LOG, "my-topic-12")
    written(tmp_path / "a", LOG[:1], "other-0")
    written(tmp_path / "a", LOG[:1], f"other-1.{'0' * 32}-delete")
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.snapshot", "notes.log"):
        (place / name).write_bytes(b"x")
    one = place / f"{0:020}.log"
    found = find_segments([str(tmp_path), (tmp_path / "a").as_uri(), str(one)])
    local = [segment for segment in found if "://" not in segment.path]
    assert [(one.topic, one.partition, one.base_offset, one.is_last) for one in local] == [
        ("my-topic", 12, 0, False),
        ("my-topic", 12, 20, False),
        ("my-topic", 12, 40, True),
        ("other", 0, 0, True),
    ]
    assert len(found) == 2 * len(local)


@pytest.mark.parametrize("between", ["-", "_", "."])
def test_copies_in_one_folder_are_distinguished_by_their_prefixes(tmp_path, between):
    flat = tmp_path / "flat-9"
    flat.mkdir()
    logs = {"my-topic-12": hit(LOG, 1, [LOG[1][1], LOG[1][1]]), "my-topic-2": LOG, "backup": LOG[:1]}
    for name, log in logs.items():
        for path in written(tmp_path / "broker", log, name).iterdir():
            shutil.copy(path, flat / f"{name}{between}{path.name}")
    shutil.copy(flat / f"backup{between}{0:020}.log", flat / f"{0:020}.log")
    (flat / f"my-topic-12.{'0' * 32}-delete{between}{0:020}.log").write_bytes(b"x")
    (flat / f"my-topic-2{between}{SECOND}.index").write_bytes(packed(".index", (1, 1)))
    for where in (str(flat), flat.as_uri()):
        found = find_segments([where])
        assert [(one.topic, one.partition, one.base_offset, one.is_last, one.directory) for one in found] == [
            ("flat", 9, 0, True, where),
            ("flat", 9, 0, True, f"{where}/backup{between}*"),
            *(("my-topic", 12, at, at == 40, f"{where}/my-topic-12{between}*") for at in (0, 20, 40)),
            *(("my-topic", 2, at, at == 40, f"{where}/my-topic-2{between}*") for at in (0, 20, 40)),
        ]
    assert shown(audit(flat)) == [
        (f"my-topic-12{between}{SECOND}.log", AT[2], RISE, "must"),
        (f"my-topic-2{between}{SECOND}.index", 0, "log.offset-index", "must"),
    ]


def test_a_file_of_any_name_is_a_segment_of_no_topic(tmp_path):
    path = tmp_path / "copy.bin"
    path.write_bytes(b"".join(LOG[1]))
    (segment,) = find_segments([str(path)])
    assert (segment.topic, segment.partition, segment.base_offset) == (None, None, None)
    assert audit(path) == []


def test_an_unreadable_segment_is_reported_and_the_others_are_audited(tmp_path):
    place = written(tmp_path, LOG[:1], "topic-0")
    odd = {
        f"{10**19}.log": "the offset in its name is above 9223372036854775807",
        f"{100:020}.log": "a broken symbolic link",
        f"{200:020}.log": "not a file",
        f"{300:020}.log": "a folder, expected a file",
    }
    nowhere, pipe, folder = [place / name for name in list(odd)[1:]]
    (place / f"{10**19}.log").write_bytes(b"".join(LOG[0]))
    nowhere.symlink_to(place / "gone")
    os.mkfifo(pipe)
    folder.mkdir()
    (tmp_path / "back").symlink_to(tmp_path)
    beyond = written(tmp_path, LOG[:1], "topic-2147483648") / f"{0:020}.log"
    ill_formed = tmp_path / os.fsdecode(b"caf\xe9-0")
    ill_formed.mkdir()
    shutil.copy(place / f"{0:020}.log", ill_formed)

    segments = find_segments([str(tmp_path)])
    pa.Table.from_pylist([asdict(segment) for segment in segments], SEGMENTS)
    unread = {(Path(one.path).parent.name, Path(one.path).name, one.problem) for one in segments if one.problem}
    assert unread == {("topic-0", name, problem) for name, problem in odd.items()} | {
        (beyond.parent.name, beyond.name, "the partition in its folder name is above 2147483647"),
        ("caf\\xe9-0", f"{0:020}.log", "the path is not UTF-8"),
    }
    found_files = {(Path(one.path).name, one.level) for one in audit(tmp_path)}
    assert found_files == {(name, "unread") for _, name, _ in unread}
    assert [segment.path for segment in segments if not segment.problem] == [str(place / f"{0:020}.log")]


def test_an_unreadable_folder_is_reported(tmp_path, monkeypatch):
    place = written(tmp_path, LOG[:1])

    def walk(_top, onerror, **_):
        onerror(PermissionError(13, "Permission denied", str(tmp_path / "closed-0")))
        yield str(place), [], sorted(path.name for path in place.iterdir())

    monkeypatch.setattr(os, "walk", walk)
    assert {segment.problem for segment in find_segments([str(tmp_path)])} == {
        "",
        "the folder cannot be listed: Permission denied",
    }


def test_a_uri_has_the_same_findings(tmp_path):
    place = written(tmp_path, PLANTED["a bit of a record flipped"][0])
    assert shown(audit(place.as_uri())) == shown(audit(place)) != []


@pytest.mark.parametrize("path", ["nowhere", ".", "nosuchscheme://x"])
def test_a_folder_without_segments_is_one_error(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoSegmentsError) as error:
        find_segments([path])
    assert str(error.value).startswith(f"{path}: ")


def test_parts_of_a_segment_start_at_batches_and_cover_it_completely(tmp_path):
    place = written(tmp_path, LOG)
    for segment, starts in zip(find_segments([str(place)]), places(LOG), strict=True):
        for size in (1, 100, 200, 500, 1 << 30):
            found = list(parts_of(segment, size))
            assert [one.start for one in found[1:]] == [one.stop for one in found[:-1]]
            assert found[0].start == 0
            assert found[-1].stop == segment.size
            assert {one.start for one in found} <= set(starts)
        assert len(list(parts_of(segment, 1))) == len(starts)


def test_a_batch_larger_than_the_read_size_is_read_completely(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_reader, "WINDOW", 100)
    place = written(tmp_path, PLANTED["noise between batches"][0])
    assert shown(audit(place)) == shown(audit(place, 300)) == [(f"{SECOND}.log", AT[1], MAGIC, "must")]


def test_the_search_for_the_next_batch_is_bounded_for_false_large_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_reader, "_SEARCH_BUDGET", 1 << 24)
    looked_at = []
    compute = segment_reader.CRC32C.compute

    class Counting:
        @staticmethod
        def compute(data):
            looked_at.append(len(data))
            return compute(data)

    monkeypatch.setattr(segment_reader, "CRC32C", Counting)
    head = struct.pack(">qiiB", 0, 1 << 17, 0, 2)
    place = tmp_path / "t-0"
    place.mkdir()
    (place / f"{0:020}.log").write_bytes(b"\xff" + head * (1 << 14))
    (finding,) = audit(place)
    assert finding.position == 0
    assert len(looked_at) > 50
    assert sum(looked_at) < 64 * (1 << 14) * len(head) + (1 << 24) + (1 << 17)


DAMAGED = {
    "noise between batches": lambda sound, _: b"\xff" + sound,
    "zeros between batches": lambda sound, _: bytes(30) + sound,
    "wrong checksums": lambda _, broken: broken,
    "wrong checksums and sizes": lambda sound, broken: broken + b"\xff" * 20 + sound,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_ten_times_the_damage_costs_at_most_twelve_times_the_work(tmp_path, monkeypatch, name):
    small, large = (_work_on_damage(tmp_path / str(size), name, size, monkeypatch) for size in (300, 3000))
    assert large <= 12 * small, f"{small:,} became {large:,}"


def _work_on_damage(folder, name, size, monkeypatch):
    """Return the bytes read and searched in a segment with a number of damaged places."""
    sound = plain(0)
    broken = sound[:-1] + bytes((sound[-1] ^ 1,))
    place = DAMAGED[name](sound, broken)
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(place * size)
    rows = (struct.pack(">ii", at, at * len(place)) for at in range(size))
    (folder / f"{0:020}.index").write_bytes(b"".join(rows))
    work = 0
    take, candidates, checks = (
        segment_reader.FileWindow.take,
        segment_reader._candidates,
        segment_reader.has_right_checksum,
    )

    def taking(self, at, count):
        nonlocal work
        part = take(self, at, count)
        work += len(part)
        return part

    def searching(part, left):
        nonlocal work
        work += 10 * len(part)
        return candidates(part, left)

    def checking(entry):
        nonlocal work
        work -= len(entry)  # has a separate budget
        return checks(entry)

    with monkeypatch.context() as patch:
        patch.setattr(segment_reader, "has_right_checksum", checking)
        patch.setattr(segment_reader.FileWindow, "take", taking)
        patch.setattr(segment_reader, "_candidates", searching)
        assert len(audit(folder)) >= size
    return work


def test_an_unreadable_file_is_a_finding(tmp_path):
    place = written(tmp_path, LOG)
    (segment, *_) = find_segments([str(place)])
    (place / f"{0:020}.log").unlink()
    from conformance.pipeline.audit.batch_checks import PartAudit
    from conformance.pipeline.audit.segments import SegmentPart

    findings = PartAudit(SegmentPart(segment, 0, segment.size), {}).findings()
    assert [(one.path, one.level) for one in findings] == [(segment.path, "unread")]


# --- the report ---------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[3] / "docs" / "scan.md"


def test_the_report_in_the_docs_equals_the_output_of_a_scan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = hit(LOG, 1, [changed(LOG[1][1], 35, ">q", 5000)])
    place = written(tmp_path, log, "orders-3")
    (finding,) = audit(place)
    whose = {"topic": "orders", "partition": 3}
    counts = {"segments": 3, "bytes": sum(map(len, chain(*log))), "batches": 12, "records": 12 * RECORDS}
    kind = {"requirement": finding.requirement, "level": finding.level}
    report = {
        "suite": SUITE,
        "partitions": [{**whose, "directory": str(place), **counts}],
        "summary": [{**whose, **kind, "findings": 1}],
        "first": [{**whose, **finding._asdict(), "path": str(Path(finding.path).relative_to(tmp_path))}],
    }
    console = Console(file=StringIO(), width=140)
    console.print(as_text(report, "audit", quiet=False), crop=False)
    printed = [line.rstrip() for line in console.file.getvalue().splitlines()]
    example = re.search(r"<!-- example: a finding -->\n```text\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert printed == example[1].splitlines()


@pytest.mark.parametrize(
    "levels, fail_on, status",
    [
        ([], "must", 0),
        (["note"], "should", 0),
        (["should"], "must", 0),
        (["should"], "should", 1),
        (["must"], "must", 1),
        (["must", "unread"], "must", 2),
    ],
)
def test_a_finding_that_counts_is_status_1_and_an_unread_file_is_status_2(levels, fail_on, status):
    rows = [{"topic": "t", "partition": 0, "requirement": "r", "level": level, "findings": 1} for level in levels]
    assert exit_status({"suite": SUITE, "partitions": [], "summary": rows, "first": []}, fail_on) == status
