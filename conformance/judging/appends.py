"""Judges what a broker serves of a batch that it took (docs/brokers.md)."""

from __future__ import annotations

from conformance import codec
from conformance.cases.model import PASSED, Appends, Kind, Value, Verdict
from conformance.codec.notation import NotationError
from conformance.semantics.appending import APPENDED
from conformance.semantics.conversion import CONVERTED, flattened

_OFFSETS = "offset.broker-assigns-base"
_EPOCH = "batch.partition-leader-epoch-by-broker"
_TIMES = "timestamp.log-append-overwritten"


def judge_appended(expect: Appends, given: object, served: bytes) -> Verdict:
    """Hold the bytes that a broker serves of a batch against the batch that it was sent. Raises NotationError."""
    answered = APPENDED.parse(given)
    if set(answered) != set(APPENDED.fields):
        raise NotationError("value: logEnd and baseOffset are expected")
    end, told = answered["logEnd"], answered["baseOffset"]
    if told != end:
        return _failed(f"the broker told offset {told}, and its log ended at {end}", "baseOffset", _OFFSETS)
    read = codec.decode("LOG", served)
    if not read.ok:
        broken = read.violations[0]
        return _failed(f"what is served cannot be read: {broken}", "", broken.requirement)
    if read.value["partial"]:
        return _failed(f"what is served ends with {read.value['partial']} bytes of a cut entry", "")
    path = next(CONVERTED.mismatches(_due(expect), served_records(served, end)), None)
    if path is not None:
        rule = _OFFSETS if path.endswith(".offset") else ""
        return _failed(f"{path} differs in what is served", path, rule)
    verdict = _batches(read.value["batches"])
    return Verdict(Kind.EITHER, "taken") if expect.open and verdict is PASSED else verdict


def _due(expect: Appends) -> tuple[Value, ...]:
    return tuple({name: record[name] for name in record if name not in expect.free} for record in expect.records)


def served_records(served: bytes, end: int) -> tuple[Value, ...]:
    """The records in bytes that are served from offset `end` on, that offset taken for 0."""
    records = flattened(codec.decode("LOG", served).value["batches"])
    return tuple({**record, "offset": record["offset"] - end} for record in records)


def _batches(batches: tuple[Value, ...]) -> Verdict:
    """Hold what a broker writes into the header of a batch against what it must be."""
    for at, batch in enumerate(batches):
        if batch.get("partitionLeaderEpoch", 0) < 0:
            hint = f"partitionLeaderEpoch {batch['partitionLeaderEpoch']}: the broker sets it"
            return _failed(hint, f"[{at}].partitionLeaderEpoch", _EPOCH)
        stamps = {record["timestamp"] for record in batch.get("records", ())}
        if batch.get("timestampType") and (len(stamps) > 1 or min(stamps, default=0) < 0):
            return _failed("records of one append have several times", f"[{at}].timestampType", _TIMES)
    return PASSED


def _failed(detail: str, path: str, requirement: str = "") -> Verdict:
    return Verdict(Kind.FAIL, detail, path=path, requirement=requirement)
