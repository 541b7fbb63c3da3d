"""Record batches that both sides of the reading benchmarks read."""

from __future__ import annotations

from collections.abc import Iterable

from conformance import codec
from conformance.codec import builders
from conformance.codec.compression import CODEC_NAMES
from conformance.strategies.seeded._random_choices import RandomChoices


def word_batches(bases: Iterable[int], records: int, size: int, codec_name: str, headers: int = 0) -> list[bytes]:
    """Return a batch for each base offset: `records` records with `size` bytes of words, as in real logs."""
    choices = RandomChoices(f"benchmarks/batches/{size}")
    words = [bytes(choices.between(97, 122) for _ in range(choices.between(3, 9))) for _ in range(400)]
    extra = tuple({"key": f"header-{index}", "value": b"some value"} for index in range(headers))

    def value() -> bytes:
        return b" ".join(choices.pick(words) for _ in range(size // 4))[:size]

    def batch(base: int) -> bytes:
        offsets = range(base, base + records)
        rows = [builders.record(at, key=b"key-%d" % at, value=value(), headers=extra) for at in offsets]
        kind = {"partitionLeaderEpoch": 0, "compression": CODEC_NAMES.index(codec_name)}
        return codec.encode("RECORD_BATCH", builders.batch(rows, baseOffset=base, **kind))

    return [batch(base) for base in bases]
