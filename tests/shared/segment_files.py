"""Partition folders with segments: written, damaged in one place, and audited."""

from __future__ import annotations

import struct
from pathlib import Path

from log_bytes import batch, record

from conformance.codec.record_batch import with_checksums
from conformance.pipeline.audit.batch_checks import PartAudit
from conformance.pipeline.audit.partition_rules import check_partition
from conformance.pipeline.audit.segment_reader import parts_of
from conformance.pipeline.audit.segments import find_segments

RECORDS = 5
"""Records per batch."""


def plain(base, **fields):
    """Return a batch of RECORDS keyed records of producer 7, with sequences equal to offsets."""
    records = [record(offset, key=b"key-%d" % offset) for offset in range(base, base + RECORDS)]
    return batch(base, records, **{"producer": 7, "baseSequence": base, **fields})


def partition(segments=3, batches=4, **fields):
    """Return segments as lists of batches with consecutive offsets and sequences."""
    size = batches * RECORDS
    return [[plain(at * size + row * RECORDS, **fields) for row in range(batches)] for at in range(segments)]


def changed(data, at, layout, number):
    """Return a batch with a changed number and a correct checksum."""
    out = bytearray(data)
    struct.pack_into(layout, out, at, number)
    return with_checksums(bytes(out), length=False)


def first_offset(segment):
    return struct.unpack_from(">q", segment[0])[0]


def written(folder, log, name="topic-0"):
    """Write the folder of a partition: a file for each segment, named by its first offset."""
    place = Path(folder, name)
    place.mkdir(parents=True)
    for segment in log:
        (place / f"{first_offset(segment):020}.log").write_bytes(b"".join(segment))
    return place


def places(log):
    """Return the start of each batch of each segment."""
    return [[sum(map(len, segment[:row])) for row in range(len(segment))] for segment in log]


def audit(folder, size=1 << 30, *, uncompacted=False, levels=None):
    """Return the findings in a folder, in order."""
    found, pieces = [], {}
    for segment in find_segments([str(folder)]):
        for split in parts_of(segment, size):
            part = PartAudit(split, levels or {})
            found += part.findings()
            pieces.setdefault(segment.directory, []).append(part.rules.finish())
    for group in pieces.values():
        found += check_partition(group, uncompacted=uncompacted)
    return sorted(found)


def shown(found):
    """Return findings as (file, position, requirement, level)."""
    return [(Path(one.path).name, one.position, one.requirement, one.level) for one in found]
