"""Violations of the requirements on what a broker makes of a batch."""

from __future__ import annotations

from collections.abc import Callable

from conformance import codec
from conformance.cases.append import BATCHES, LIMIT
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import BATCH_LAYOUT, stored_magic, with_checksums
from conformance.selftest.mutators import Mutator
from conformance.targets.reference import answer as honest

_KEPT = {"compressionType": "producer"}


def _serves(change: Callable[[Values, Values], Values]) -> Mutator:
    """Answer otherwise on an append that is taken."""

    def told(request: Values, answer: Values) -> Values:
        return change(request, answer) if request["op"] == "append" and answer["ok"] else answer

    return told


def _writes(change: Callable[[Values], Values]) -> Mutator:
    """Store other batches than what is sent."""

    def stored(_: Values, answer: Values) -> Values:
        batch = codec.decode("RECORD_BATCH", bytes.fromhex(answer["hex"])).value
        return {**answer, "hex": codec.encode("RECORD_BATCH", {**batch, **change(batch)}).hex()}

    return _serves(stored)


def _takes(request: Values, answer: Values) -> Values:
    """Store what is sent, whatever it is."""
    if request["op"] != "append" or answer["ok"]:
        return answer
    return {"ok": True, "hex": request["hex"], "value": {"logEnd": "1", "baseOffset": "1"}}


def _as_if(settings: Values) -> Mutator:
    """Store as if the topic had other settings."""
    return _serves(lambda request, _: honest({**request, **settings}))


def _beside(request: Values, answer: Values) -> Values:
    """Take what stands beside the case."""
    if "otherPartitions" not in request:
        return answer
    return {
        **answer,
        "value": {**answer["value"], "otherPartitions": [{"baseOffset": "0", "hex": request["otherPartitions"]}] * 2},
    }


def _unlimited(request: Values, answer: Values) -> Values:
    """Take batches of any size."""
    given = {name: part for name, part in request.items() if name != LIMIT}
    return honest(given) if request["op"] == "append" else answer


def _writes_late(_: Values, answer: Values) -> Values:
    """Keep a maxTimestamp that no record has."""
    data = bytes.fromhex(answer["hex"])
    if stored_magic(data) < BATCHES:
        return answer
    at = BATCH_LAYOUT.offset("maxTimestamp")
    late = data[:at] + (1 << 42).to_bytes(8, "big") + data[at + 8 :]
    return {**answer, "hex": with_checksums(late).hex()}


def _without_zstd(request: Values, answer: Values) -> Values:
    batch = codec.decode("RECORD_BATCH", bytes.fromhex(request["hex"])).value
    return {"ok": False, "error": "unsupported-codec"} if CODEC_NAMES[batch["compression"]] == "zstd" else answer


APPENDS: dict[str, Mutator] = {
    "offset.broker-assigns-base": _serves(lambda request, answer: {**answer, "hex": request["hex"]}),
    "batch.partition-leader-epoch-by-broker": _writes(lambda _: {"partitionLeaderEpoch": -1}),
    "broker.supports-all-codecs": _serves(_without_zstd),
    "broker.validates-records": _takes,
    "broker.writes-max-timestamp": _serves(_writes_late),
    "broker.tells-each-partition": _serves(_beside),
    "broker.tells-append-time": _serves(lambda _, answer: {**answer, "value": {**answer["value"], "appendTime": "7"}}),
    "broker.keeps-size-limit": _unlimited,
    "compression.broker-keeps-producer-codec": _as_if({"compressionType": "zstd"}),
    "compression.broker-none-uncompresses": _as_if(_KEPT),
    "compression.broker-codec-wins": _as_if(_KEPT),
    "compression.recompression-preserves-records": _writes(lambda batch: {"records": batch["records"][:-1]}),
    "crc.broker-validates": _takes,
}
