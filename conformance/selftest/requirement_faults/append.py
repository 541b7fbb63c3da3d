"""One fault for each requirement on the batches that a broker stores."""

from __future__ import annotations

from collections.abc import Callable

from conformance import codec
from conformance.cases.append import LIMIT
from conformance.cases.model import Answer, Request
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Mutator, answer_as, on
from conformance.selftest.mutators.requests import result_beside, store_max_timestamp
from conformance.targets.reference import answer as correct_answer


def _store(change: Callable[[Values], Values]) -> Mutator:
    """Store batches with other fields."""

    @on("append")
    def mutate(_: Request, answer: Answer) -> Answer:
        batch = codec.decode("RECORD_BATCH", bytes.fromhex(answer["hex"])).value
        return {**answer, "hex": codec.encode("RECORD_BATCH", {**batch, **change(batch)}).hex()}

    return mutate


@on("append", accepted=False)
def _store_invalid(request: Request, _: Answer) -> Answer:
    return {"ok": True, "hex": request["hex"], "value": {"logEnd": "1", "baseOffset": "1"}}


@on("append", accepted=None)
def _ignore_size_limit(request: Request, _: Answer) -> Answer:
    return correct_answer({name: part for name, part in request.items() if name != LIMIT})


@on("append")
def _reject_zstd(request: Request, answer: Answer) -> Answer:
    batch = codec.decode("RECORD_BATCH", bytes.fromhex(request["hex"])).value
    return {"ok": False, "error": "unsupported-codec"} if CODEC_NAMES[batch["compression"]] == "zstd" else answer


_keep_compression = answer_as("append", lambda _: {"compressionType": "producer"})

APPENDS: dict[str, Mutator] = {
    "offset.broker-assigns-base": on("append")(lambda request, answer: {**answer, "hex": request["hex"]}),
    "batch.partition-leader-epoch-by-broker": _store(lambda _: {"partitionLeaderEpoch": -1}),
    "broker.supports-all-codecs": _reject_zstd,
    "broker.validates-records": _store_invalid,
    "broker.writes-max-timestamp": store_max_timestamp(1 << 42),
    "broker.tells-each-partition": result_beside(
        lambda request: {"baseOffset": "0", "hex": request["otherPartitions"]}
    ),
    "broker.tells-append-time": on("append")(
        lambda _, answer: {**answer, "value": {**answer["value"], "appendTime": "7"}}
    ),
    "broker.keeps-size-limit": _ignore_size_limit,
    "compression.broker-keeps-producer-codec": answer_as("append", lambda _: {"compressionType": "zstd"}),
    "compression.broker-none-uncompresses": _keep_compression,
    "compression.broker-codec-wins": _keep_compression,
    "compression.recompression-preserves-records": _store(lambda batch: {"records": batch["records"][:-1]}),
    "crc.broker-validates": _store_invalid,
}
