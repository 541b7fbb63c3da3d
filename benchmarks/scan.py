"""The speed of the audit on one core, compared with Kafka's own DumpLogSegments in the same run.

    python benchmarks/scan.py [MEGABYTES]        (needs the extra spark, Java 17 and Maven)

The peer is org.apache.kafka.tools.DumpLogSegments --deep-iteration of the version in tests/broker/pom.xml; Maven
fetches it into ~/.cache/kafka-conformance. Both read the same file: batches of about 16 KB, records of 100 bytes and
of 1 KB, in every codec. The audit makes all its checks; the output of both is discarded. Spark is not used: this is
the work of one executor. The start time of Java, measured on a segment of one batch, is subtracted. Rounds alternate,
the median counts, MB/s refer to the file. The exit status is 1 if a ratio is too low: below 3 at 1 KB, below 2 at
100 B and with zstd at 1 KB.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from batches import word_batches

from conformance.codec.compression import CODEC_NAMES
from conformance.pipeline.audit import record_kernels
from conformance.pipeline.audit.batch_checks import PartAudit
from conformance.pipeline.audit.partition_rules import check_partition
from conformance.pipeline.audit.segments import SegmentPart, find_segments

ROUNDS = 3
BATCH = 16_000
DISTINCT = 40
REQUIRED_RATIOS = {(1_000, "none"): 3.0, (100, "none"): 2.0, (1_000, "zstd"): 2.0}
BROKER = Path(__file__).resolve().parent.parent / "tests" / "broker"


def peer() -> list[str]:
    """Return the command of DumpLogSegments; build it with Maven if necessary."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-conformance" / "broker"
    if not (cache / "broker.jar").exists():
        subprocess.run(("mvn", "-q", "-B", "package", f"-Dout={cache}"), cwd=BROKER, check=True)
    one_core = ("-XX:ActiveProcessorCount=1", "-XX:+UseSerialGC", "-Xmx512m")
    jars = f"{cache}/broker.jar:{cache}/lib/*"
    return ["java", *one_core, "-cp", jars, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files"]


def write_segment(path: Path, parts: Sequence[bytes], records: int, size: int) -> None:
    """Write batches repeatedly, each at the next offset, which the checksum does not cover."""
    offset = written = 0
    with path.open("wb") as file:
        while written < size:
            part = parts[offset // records % len(parts)]
            file.write(struct.pack(">q", offset) + part[8:])
            offset += records
            written += len(part)


def audit(path: Path) -> float:
    """Return the seconds of the whole audit of one valid segment."""
    start = time.perf_counter()
    (segment,) = find_segments([str(path)])
    part = PartAudit(SegmentPart(segment, 0, segment.size), {})
    findings = list(part.findings())
    piece = part.rules.finish()
    assert not [*findings, *check_partition([piece])], findings[:1]
    assert piece.batches
    return time.perf_counter() - start


def dump(command: Sequence[str], path: Path) -> float:
    """Return the seconds of DumpLogSegments."""
    start = time.perf_counter()
    subprocess.run((*command, str(path)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def middle(seconds: Sequence[float]) -> float:
    """Return the median."""
    return sorted(seconds)[len(seconds) // 2]


def main() -> None:
    """Print a line for each size and codec."""
    if not record_kernels.compile_all():
        sys.exit("numba is not installed: nothing to measure")
    size = (int(sys.argv[1]) if len(sys.argv) > 1 else 64) * 10**6
    command = peer()
    short = []
    print(f"{'records':<16} {'audit':>12} {'DumpLogSegments':>17}   ratio")
    for record_size in (1_000, 100):
        for name in CODEC_NAMES:
            with tempfile.TemporaryDirectory() as folder:
                path, tiny = (Path(folder, part, f"{0:020}.log") for part in ("whole", "tiny"))
                for file in (path, tiny):
                    file.parent.mkdir()
                parts = word_batches([0] * DISTINCT, BATCH // record_size, record_size, name)
                write_segment(path, parts, BATCH // record_size, size)
                write_segment(tiny, parts, BATCH // record_size, 1)
                audit(tiny)
                rounds = [(audit(path), dump(command, path), dump(command, tiny)) for _ in range(ROUNDS)]
                total = path.stat().st_size
            ours, theirs, start = (middle(column) for column in zip(*rounds, strict=True))
            mine, other = total / ours / 1e6, total / (theirs - start) / 1e6
            bound = REQUIRED_RATIOS.get((record_size, name))
            note = f"  (required: {bound:.0f})" if bound else ""
            print(f"{record_size:>5} B, {name:<8} {mine:>7.0f} MB/s {other:>12.0f} MB/s   {mine / other:.1f}{note}")
            if bound and mine < bound * other:
                short.append(f"{record_size} B, {name}")
    sys.exit(f"below the required ratio: {', '.join(short)}" if short else 0)


if __name__ == "__main__":
    main()
