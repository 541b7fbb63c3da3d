"""Violations of the requirements on whole logs: what a consumer sees, sequences, conversion."""

from __future__ import annotations

from conformance.cases.model import Answer, Request
from conformance.codec.derived_fields import Values
from conformance.selftest import mutators
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import (
    accept_invalid,
    change_records,
    change_sequence_results,
    convert_as,
    reject_fetch,
    reject_valid,
    rule_of,
)
from conformance.targets.reference import answer as honest


def _entries(request: Request, _: Answer | None = None) -> list[Values]:
    """The entries of the log that a request is about."""
    read = honest({"op": "decode", "type": "LOG", "hex": request["hex"]})
    return list(read["value"]["batches"]) if read["ok"] else []


def _is_cut(_: Request, answer: Answer) -> bool:
    return answer["ok"] is True and answer["value"]["partial"] > 0


def _has_legacy(request: Request, _: Answer) -> bool:
    return any("messages" in entry for entry in _entries(request))


def _control(request: Request, _: Answer) -> bool:
    return any(entry.get("isControlBatch") for entry in _entries(request))


def _shifted(seen: list[Values]) -> list[Values]:
    first = int(seen[0]["offset"]) if seen else 0
    return [{**record, "offset": str(int(record["offset"]) - first)} for record in seen]


def _fate(given: str, otherwise: str) -> Mutator:
    return change_sequence_results(lambda _, answers: [otherwise if fate == given else fate for fate in answers])


def _restarts(batches: list[Values], answers: list[str]) -> list[str]:
    """Every batch that does not begin at 0 is out of order."""
    return [
        "out-of-order" if batch["baseSequence"] > 0 and fate == "accept" else fate
        for batch, fate in zip(batches, answers, strict=True)
    ]


def _no_wrap(batches: list[Values], answers: list[str]) -> list[str]:
    """What follows the largest sequence is out of order."""
    high = False
    told = []
    for batch, fate in zip(batches, answers, strict=True):
        low = batch["baseSequence"] < 1 << 30
        told.append("out-of-order" if high and low and fate == "accept" else fate)
        high = high or not low
    return told


def _dies_of_a_length(request: Request, answer: Answer) -> Answer:
    if request["op"] != "read" or request.get("checkCrcs", True):
        return answer
    whole = honest({"op": "decode", "type": "LOG", "hex": request["hex"]})
    refused = whole["ok"] is False and rule_of(whole) == "batch.length-wrong-rejected"
    return {"crash": "IndexError"} if refused else answer


LOGS: dict[str, Mutator] = {
    "format.legacy-still-met": reject_valid("LOG", _has_legacy),
    "log.cut-last-batch": reject_valid("LOG", _is_cut),
    "format.magic-versions": accept_invalid("batch.magic", "format.magic-versions", "batch.length-wrong-rejected"),
    "offset.next-formula": mutators.view(mutators.one_further),
    "offset.fetch-absolute": change_records(_shifted),
    "crc.consumer-validates": mutators.asked(checkCrcs=False),
    "robustness.batch-length-unchecked": _dies_of_a_length,
    "consumer.filters-aborted": mutators.asked(isolation="read_uncommitted"),
    "consumer.shows-aborted-uncommitted": mutators.asked(isolation="read_committed"),
    "consumer.handles-control-batches": mutators.view(mutators.show_markers),
    "control.not-passed-to-application": mutators.view(mutators.show_markers),
    "control.value-opaque": reject_fetch(_control),
    "control.ends-transaction": mutators.asked(isolation="read_uncommitted"),
    "compaction.offsets-preserved": mutators.view(mutators.next_after_the_last),
    # sequences
    "producer-epoch.fences": _fate("fenced", "accept"),
    "sequence.gap-out-of-order": _fate("out-of-order", "accept"),
    "sequence.duplicate-deduplicated": _fate("duplicate", "accept"),
    "sequence.monotonic-per-partition": change_sequence_results(_restarts),
    "sequence.wraps-at-int32-max": change_sequence_results(_no_wrap),
    # conversion
    "convert.up-to-v2": mutators.convert_nothing,
    "convert.down-for-old-consumers": mutators.convert_the_first,
    "convert.down-loses-features": mutators.convert_nothing,
    "broker.monotonic-offsets": convert_as(lambda request: {"baseOffset": "0"} if "baseOffset" in request else {}),
    "broker.preserves-order": change_records(lambda records: records[::-1]),
    "record.headers-since-0-11": change_records(lambda records: [{**record, "headers": []} for record in records]),
}
