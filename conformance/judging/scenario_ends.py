"""Judges what a broker tells of where a log begins and ends, and what stands there from a time on."""

from __future__ import annotations

from conformance.cases.model import PASSED, Kind, Verdict
from conformance.judging.scenario_log import Log, failed
from conformance.semantics.broker_steps import END, Delete, Deleted, Find, Found

BEGINS = "broker.tells-log-start"
FINDS = "broker.finds-by-time"


def deleted(log: Log, step: Delete, told: Deleted) -> Verdict:
    """The log begins at the place before which all is deleted."""
    if told.refused:
        return failed(f"it is refused: {told.refused}", BEGINS)
    start, due = int(told.low_watermark), log.end if step.before == END else log.places.get(step.before, -1)
    # Behind the last record there may be a marker.
    if start < due or (start > due and step.before != END):
        return failed(f"the log begins at offset {start}, and what is before offset {due} was to be deleted", BEGINS)
    log.first = start
    return PASSED


def found(log: Log, step: Find, told: Found) -> Verdict:
    """The log begins where it was made to begin, and ends behind what was taken."""
    if told.refused:
        return failed(f"it is refused: {told.refused}", BEGINS if step.time is None else FINDS)
    if step.time is not None:
        return _found_by_time(log, log.began + step.time, told)
    offset, first = int(told.offset), log.first or 0
    if step.offset == "latest":
        is_right, due = offset >= log.end, f"the log ended at {log.end}"
    else:
        is_right, due = offset >= first if log.first is None else _begins(log, offset), f"the log begins at {first}"
    return PASSED if is_right else failed(f"the broker tells offset {offset}, and {due}", BEGINS)


def _found_by_time(log: Log, time: int, told: Found) -> Verdict:
    """It is the first record in the log that has this time or a later one, whichever follow."""
    if log.is_stamped or any(one.batch["isTransactional"] for one in log.stored):  # a marker has a time of its own
        return Verdict(Kind.EITHER, f"offset {told.offset}")
    due = next(
        (
            (offset, record["timestamp"])
            for one in log.stored
            for offset, record in enumerate(one.batch["records"], start=one.offset)
            if offset >= (log.first or 0) and record["timestamp"] >= time
        ),
        (-1, -1),
    )
    if (int(told.offset), int(told.time)) == due:
        return PASSED
    after, due_after = (f"{each - log.began} ms" if each >= 0 else str(each) for each in (int(told.time), due[1]))
    return failed(f"the broker tells offset {told.offset} at {after}, and it is offset {due[0]} at {due_after}", FINDS)


def _begins(log: Log, offset: int) -> bool:
    """Whether a log, of which something went, can begin at an offset."""
    first = log.first or 0
    return first <= offset <= max(first, log.end) if log.is_expiring else offset == first
