"""Record batches that both sides of the reading benchmarks read."""

from __future__ import annotations

from collections.abc import Iterable

from conformance import codec
from conformance.codec.compression import CODEC_NAMES
from conformance.strategies.seeded.random_choices import RandomChoices


def word_batches(bases: Iterable[int], records: int, size: int, codec_name: str, headers: int = 0) -> list[bytes]:
    """Return a batch for each base offset: `records` records with `size` bytes of words, as in real logs."""
    choices = RandomChoices(f"benchmarks/batches/{size}")
    words = [bytes(choices.between(97, 122) for _ in range(choices.between(3, 9))) for _ in range(400)]
    extra = tuple({"key": f"header-{index}", "value": b"some value"} for index in range(headers))

    def record(offset: int) -> dict[str, object]:
        return {
            "offset": offset,
            "timestamp": 1_700_000_000_000 + offset,
            "key": b"key-%d" % offset,
            "value": b" ".join(choices.pick(words) for _ in range(size // 4))[:size],
            "headers": extra,
        }

    def batch(base: int) -> bytes:
        fields = {
            "baseOffset": base,
            "partitionLeaderEpoch": 0,
            "compression": CODEC_NAMES.index(codec_name),
            "timestampType": 0,
            "isTransactional": False,
            "isControlBatch": False,
            "producerId": -1,
            "producerEpoch": -1,
            "baseSequence": -1,
            "records": tuple(record(offset) for offset in range(base, base + records)),
        }
        return codec.encode("RECORD_BATCH", fields)

    return [batch(base) for base in bases]
