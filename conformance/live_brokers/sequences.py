"""The fate of batches that producers send one after the other (record-batch#sequence-number-semantics)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from conformance import codec
from conformance.cases.model import REFUSED, Answer, Value
from conformance.codec.error_codes import ErrorCode
from conformance.live_brokers.connection import VersionNotSupported
from conformance.live_brokers.partition import MAYBE_STORED, KafkaErrorResponse, PartitionClient

_MOST_RECORDS = 2_000
"""Records of a batch that is sent to a broker."""
_FATES = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "out-of-order",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "duplicate",
    ErrorCode.INVALID_PRODUCER_EPOCH: "fenced",
    ErrorCode.UNKNOWN_PRODUCER_ID: "out-of-order",
    ErrorCode.PRODUCER_FENCED: "fenced",
}
"""The fate that an error tells."""


def send_sequence(partition: PartitionClient, batches: Sequence[Value], end: int) -> Answer:
    """Write the batches of a `sequence` request to a log that ends there: what became of each.

    Raises as BrokerConnection.ask.
    """
    if any(batch["recordCount"] > _MOST_RECORDS for batch in batches):
        return {"unsupported": f"batches of more than {_MOST_RECORDS} records are not sent to a broker"}
    ids = {given: _assigned(partition) if given >= 0 else given for given in {one["producerId"] for one in batches}}
    found, codes = [], []
    for at, batch in enumerate(batches):
        try:
            offset = partition.produce(_batch({**batch, "producerId": ids[batch["producerId"]]})).offset
        except KafkaErrorResponse as refusal:
            if refusal.code in MAYBE_STORED:
                return {"unsupported": f"whether it is stored is not told: {refusal}"}
            found.append(_FATES.get(refusal.code, REFUSED))
            codes.append(f"batch {at}: {refusal.code_text}")
        else:
            found.append("accept" if offset == end else "duplicate")
            end = max(end, offset + batch["recordCount"]) if offset == end else end
    return {"ok": True, "value": found, **({"codes": ", ".join(codes)} if codes else {})}


def _assigned(partition: PartitionClient) -> int:
    """A producer id that no batch has had before: the broker's, since it may know an id of ours from elsewhere.

    Where it gives none, one is drawn.
    """
    try:
        version = partition.connection.version("InitProducerId", high=4)
    except VersionNotSupported:
        return random.getrandbits(48)
    body = {"TransactionalId": None, "TransactionTimeoutMs": 60_000}
    given = partition.connection.ask("InitProducerId", version, body)
    return random.getrandbits(48) if given["ErrorCode"] else int(given["ProducerId"])


def _batch(told: Value) -> bytes:
    """The bytes of such a batch."""
    plain = {"attributes": 0, "key": None, "value": b"v", "headers": ()}
    records = tuple({**plain, "offset": at, "timestamp": 1_000 + at} for at in range(told["recordCount"]))
    header = {
        **{"baseOffset": 0, "partitionLeaderEpoch": -1, "compression": 0, "timestampType": 0},
        **{"isTransactional": False, "isControlBatch": False},
        **{name: told[name] for name in ("producerId", "producerEpoch", "baseSequence")},
    }
    return codec.encode("RECORD_BATCH", {**header, "records": records})
