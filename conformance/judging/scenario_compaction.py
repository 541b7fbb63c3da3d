"""Judges what compaction has left of a log."""

from __future__ import annotations

from conformance.cases.model import Value, Verdict
from conformance.codec.log import last_offset
from conformance.judging.scenario_log import Label, Log, failed, text
from conformance.semantics.broker_steps import FILLER

PLACES = "compaction.offsets-preserved"
SEQUENCES = "compaction.sequences-preserved"
TIMES = "compaction.base-timestamp-changes"
HORIZON = "delete-horizon.set-by-compaction"
WAITS = "delete-horizon.kept-until"


def survived(log: Log, found: list[Label], due: list[Label]) -> Verdict | None:
    """Records stay at their offsets, and the last of each key stays, if it was not aborted.

    Where the topic keeps no tombstones, one may be gone.
    """
    moved = next((one for one in found if one not in due), None)
    if moved is not None:
        return failed(f"after compaction, {text(moved)}", PLACES)
    last: dict[bytes, Label] = {}
    for one in log.stored:
        if one.decided == "committed":
            for label, record in zip(one.labels(), one.batch["records"], strict=True):
                last[record["key"]] = label
    for key, label in last.items():
        if label not in due or label in found:
            continue
        if label[1] is not None:
            return failed(f"after compaction, the last record of a key is gone: {text(label)}", PLACES)
        if log.keeps_tombstones:
            return failed(f"after compaction, the tombstone of key {key!r} is gone", WAITS)
    return None


def cleaned(log: Log, batches: list[Value]) -> Verdict | None:
    """A batch keeps its first and last offset and sequence, and its delete horizon is to come."""
    sent = {one.offset: one for one in log.stored}
    for batch in batches:
        is_early = batch["hasDeleteHorizonMs"] and batch["baseTimestamp"] <= log.cleaned_since
        if is_early and log.keeps_tombstones:
            hint = f"after compaction, delete horizon {batch['baseTimestamp']}, which has passed already"
            return failed(hint, HORIZON)
        if batch["isControlBatch"] or any(record["value"] == FILLER for record in batch["records"]):
            continue
        one = sent.get(batch["baseOffset"])
        if one is None or last_offset(batch) != one.end - 1:
            span = f"{batch['baseOffset']} to {last_offset(batch)}"
            return failed(f"after compaction, a batch of offsets {span}, which nobody wrote", PLACES)
        fields = ("producerId", "producerEpoch", "baseSequence")
        differs = next((name for name in fields if batch[name] != one.batch[name]), None)
        if differs:
            hint = f"after compaction, {differs} {batch[differs]} instead of {one.batch[differs]}"
            return failed(hint, SEQUENCES)
    return None
