"""Judges the behaviour of a consumer in a scenario: its fetches, its group and its metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import dropwhile

from conformance import codec
from conformance.cases.client_scenarios import (
    CONSUMED_OFFSET,
    EMPTY_FETCHES,
    OFFSET_AFTER_MARKER,
    OTHER_MEMBER_ID,
    OTHER_TOPIC_SUFFIX,
    REJECTED_COMMITS,
    REQUESTED_METRIC,
    SHARED_GENERATIONS,
    TRIMMED_LOG_OFFSETS,
)
from conformance.cases.model import PASSED, Value, Verdict, VerdictKind
from conformance.codec.compression import CODECS
from conformance.codec.cursor import Cursor, Findings, Malformed
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import shipped_types
from conformance.definitions.request_frames import START, api_of, frame_wire
from conformance.judging.producer_behavior import WRITTEN
from conformance.judging.sent_requests import at_request, body_in, fetch_in, request_name


def _progress_past_tags(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on: a Fetch begins behind the first offset, which only its records tell."""
    tagged = [index for index, request in enumerate(requests) if _is_flexible(request["hex"])]
    if any(_fetches_behind_the_first(request["hex"]) for request in requests):
        return PASSED if tagged else Verdict(VerdictKind.SKIP, "unobserved: no answer had room for tagged fields")
    if not tagged:
        return Verdict(VerdictKind.SKIP, "unobserved: no answer had room for tagged fields")
    to = f"where header and body of answers, as to {request_name(requests[tagged[0]]['hex'])}, hold unknown tags"
    detail = f"no fetch goes on behind the first offset, {to}"
    return at_request(tagged[0], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiVersion"))


def _progress(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on, whatever the broker does."""
    if any(_fetches_behind_the_first(request["hex"]) for request in requests):
        return PASSED
    return _no_progress(requests, "the first offset, as where the broker answers in the usual way")


def _no_progress(requests: Sequence[Value], where: str) -> Verdict:
    """The verdict on a client that does not go on behind a place; none on one that sent nothing."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was sent")
    detail = f"no fetch goes on behind {where}: it sent {request_name(requests[0]['hex'])}"
    return at_request(0, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _no_skip_after_empty_fetch(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on, and only once a fetch of the first offset could bring what stands there."""
    bodies = [(index, body) for index, request in enumerate(requests) if (body := fetch_in(request["hex"]))]
    behind = [index for index, body in bodies if _is_behind_the_first(body)]
    at_first = len(bodies) - len(behind)
    if not behind or at_first > EMPTY_FETCHES:
        return _progress(requests)
    detail = f"{at_first} fetches of the first offset brought nothing, and the next one passes over what stands there"
    return at_request(behind[-1], Verdict(VerdictKind.FAIL, detail, "Body.Topics[0].Partitions[0].FetchOffset"))


def _same_offset_after_move(requests: Sequence[Value]) -> Verdict:
    """Judge the last topic: each fetch brings one record, and that of the place was refused before it is fetched."""
    places = [*_fetch_offsets(requests)]
    of_last = [(index, offset) for index, topic, offset in places if topic == places[-1][1]]
    behind = next((number for number, (_, offset) in enumerate(of_last) if offset > CONSUMED_OFFSET), None)
    if behind is None:
        return _no_progress(requests, f"offset {CONSUMED_OFFSET}, from which on another node leads")
    index, offset = of_last[behind]
    if offset == CONSUMED_OFFSET + 1 and sum(before == CONSUMED_OFFSET for _, before in of_last[:behind]) > 1:
        return PASSED
    due = f"{CONSUMED_OFFSET} is due: it was refused when the leader moved"
    detail = f"the fetch behind the move begins at {offset}, where {due}"
    return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Topics[0].Partitions[0].FetchOffset"))


def _no_rewind_after_marker(requests: Sequence[Value]) -> Verdict:
    """Judge the last topic: behind the marker another node leads, which has all that the client has read.

    A client that does not ask where an epoch ends has no reason but its own to go back.
    """
    if not _epoch_queries(requests):
        return _NO_EPOCH_QUERY
    places = [*_fetch_offsets(requests)]
    behind = [*dropwhile(lambda place: place[1:] != (places[-1][1], OFFSET_AFTER_MARKER), places)]
    for index, _, offset in behind:
        if offset < OFFSET_AFTER_MARKER:
            back = f"a fetch goes back from offset {OFFSET_AFTER_MARKER} to {offset}"
            detail = f"{back}, though the new leader has what stands before it"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Topics[0].Partitions[0].FetchOffset"))
    if any(offset > OFFSET_AFTER_MARKER for *_, offset in behind):
        return PASSED
    return _no_progress(requests, f"offset {OFFSET_AFTER_MARKER}, from which on another node leads")


def _continue_at_log_start(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on where the log begins, once the record that it had come to was gone.

    Or where it ends, as an application may want. Between the two, records are passed over.
    """
    found = next((place for place in _fetch_offsets(requests) if place[-1] >= TRIMMED_LOG_OFFSETS.start), None)
    if found is None:
        return _no_progress(
            requests, f"offset {CONSUMED_OFFSET}, though the log begins at {TRIMMED_LOG_OFFSETS.start} now"
        )
    index, _, offset = found
    detail = (
        f"the log begins at offset {TRIMMED_LOG_OFFSETS.start} now, and the first fetch there is of offset {offset}"
    )
    path = "Body.Topics[0].Partitions[0].FetchOffset"
    return (
        PASSED
        if offset in (TRIMMED_LOG_OFFSETS.start, TRIMMED_LOG_OFFSETS.stop)
        else at_request(index, Verdict(VerdictKind.FAIL, detail, path))
    )


def _rewind_after_truncation(requests: Sequence[Value]) -> Verdict:
    """Judge whether a client goes elsewhere that was told by OffsetForLeaderEpoch that what it has read is not there.

    Where the log was cut, or to the offset that the application wants where one is out of range.
    """
    asked = _epoch_queries(requests)
    if not asked:
        return _NO_EPOCH_QUERY
    refused = dropwhile(lambda place: place[-1] != CONSUMED_OFFSET, _fetch_offsets(requests))
    behind = [(index, offset) for index, _, offset in refused if offset != CONSUMED_OFFSET]
    if not behind:
        detail = f"no fetch goes back from offset {CONSUMED_OFFSET}, before which the log was cut"
        return at_request(asked[0], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))
    index, offset = behind[0]
    detail = (
        f"the fetch behind the move begins at {offset}, as if the log had not been cut at 0, and other records came"
    )
    path = "Body.Topics[0].Partitions[0].FetchOffset"
    return PASSED if offset != CONSUMED_OFFSET + 1 else at_request(index, Verdict(VerdictKind.FAIL, detail, path))


def _epoch_queries(requests: Sequence[Value]) -> list[int]:
    """The indexes of the requests by which a client asks a new leader where an epoch ends."""
    return [index for index, request in enumerate(requests) if api_of(request["hex"]) == "OffsetForLeaderEpoch"]


_NO_EPOCH_QUERY = Verdict(VerdictKind.SKIP, "unobserved: it does not ask a new leader where an epoch ends")


def _fetch_offsets(requests: Sequence[Value]) -> Iterator[tuple[int, object, int]]:
    """The index of each fetch, the topic and the offset, in the order in which they came: the last stand first."""
    for index, request in [*enumerate(requests)][::-1]:
        for row in (fetch_in(request["hex"]) or {"Topics": ()})["Topics"]:
            for part in row["Partitions"]:
                yield index, row.get("Topic", row.get("TopicId")), part["FetchOffset"]


def _follows(requests: Sequence[Value]) -> Verdict:
    """Judge whether a client went on that names its rack: no other one is sent to another replica."""
    if any(body.get("RackId") for request in requests if (body := fetch_in(request["hex"]))):
        return _progress(requests)
    return Verdict(VerdictKind.SKIP, "unobserved: it names no rack")


def _in_session(requests: Sequence[Value]) -> Verdict:
    """Judge whether the client went on inside a fetch session that it has, and numbered its fetches there."""
    fetches = [(index, body) for index, request in enumerate(requests) if (body := fetch_in(request["hex"]))]
    asked = [(index, body) for index, body in fetches if body.get("SessionEpoch", -1) >= _OPENING]
    numbered = [(index, body) for index, body in asked if body["SessionId"] and body["SessionEpoch"] != _OPENING]
    inside = numbered[::-1]  # the last ones come first
    last: dict[int, int] = {}
    for index, body in inside:
        number, epoch = body["SessionId"], body["SessionEpoch"]
        if epoch != last.get(number, epoch - 1) + 1:
            detail = f"epoch {epoch} follows epoch {last[number]} in fetch session {number}"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.SessionEpoch"))
        last[number] = epoch
    if any(_is_behind_the_first(body) for _, body in inside):
        return PASSED
    if not asked or (len(asked) <= _MET and any(_is_behind_the_first(body) for _, body in fetches)):
        return Verdict(VerdictKind.SKIP, "unobserved: it has no fetch session")
    detail = "no fetch of a session goes on behind the first offset, where an answer holds only what is new"
    if not inside:
        detail = "each fetch opens another session, and none is in the one that an answer told"
    return at_request(asked[0][0], Verdict(VerdictKind.FAIL, detail, "Body.SessionEpoch"))


def _commits(requests: Sequence[Value]) -> Verdict:
    """Judge what is committed, where an application was handed a record at offset 0 and perhaps the next; no epoch."""
    found = [
        (index, body.get("RetentionTimeMs", _NO_EPOCH), part)
        for index, request in enumerate(requests)
        if (body := body_in(request["hex"], "OffsetCommit")) is not None
        for row in body["Topics"]
        for part in row["Partitions"]
    ]
    if not found:
        return Verdict(VerdictKind.SKIP, "unobserved: no offset was committed")
    path = "Body.Topics[0].Partitions[0]"
    for index, kept, part in found:
        offset, epoch = part["CommittedOffset"], part.get("CommittedLeaderEpoch", _NO_EPOCH)
        if offset not in (0, 1, 2):
            detail = f"offset {offset} is committed, behind records at 0 and 1"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, f"{path}.CommittedOffset"))
        if epoch not in (_NO_EPOCH, 0 if offset > 1 else _NO_EPOCH):  # the second record is in a batch of epoch 0
            detail = f"the epoch {epoch} is committed, where the record that was read has none: -1 is due"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, f"{path}.CommittedLeaderEpoch"))
        if kept != _NO_EPOCH:
            detail = f"a commit is to be kept for {kept} ms, where the application says nothing of that: -1 is due"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.RetentionTimeMs"))
    index, _, last = found[-1]
    detail = "offset 0 is committed, where 1 is read next"
    return (
        PASSED
        if last["CommittedOffset"]
        else at_request(index, Verdict(VerdictKind.FAIL, detail, f"{path}.CommittedOffset"))
    )


_NO_EPOCH = -1


def _commits_again(requests: Sequence[Value]) -> Verdict:
    """Judge whether a commit comes again, until it is not refused any more."""
    commits = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "OffsetCommit"]
    if not commits:
        return Verdict(VerdictKind.SKIP, "unobserved: nothing was committed")
    if len(commits) > REJECTED_COMMITS:
        return PASSED
    times = "is not sent again" if len(commits) == 1 else f"is sent {len(commits)} times"
    detail = f"a commit that is refused for the moment, {REJECTED_COMMITS} times, {times}"
    return at_request(commits[-1], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _assignment(requests: Sequence[Value]) -> Verdict:
    """Judge what a leader of two members assigns in the end: the only partition there is, to one member alone."""
    found = _last_assignment(requests)
    if isinstance(found, Verdict):
        return found
    index, body, rows = found
    its, members = body["GroupId"], (body["MemberId"], OTHER_MEMBER_ID)
    assigned = [(who, topic, part) for who, topics in rows.items() for topic in topics for part in topics[topic]]
    times = sum(one[1:] == (its, 0) for one in assigned)
    if times != 1:
        detail = f"the only partition is assigned {times} times among {len(rows)} members"
    elif len(assigned) > 1:
        detail = f"{len(assigned)} partitions are assigned, where there is one"
    elif assigned[0][0] not in members:
        detail = f"the only partition is assigned to {assigned[0][0]!r:.60}, which is no member"
    else:
        return PASSED
    return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Assignments"))


def _assignment_by_subscription(requests: Sequence[Value]) -> Verdict:
    """Judge what a leader assigns in the end where the other member wants another topic: each gets its own."""
    found = _last_assignment(requests)
    if isinstance(found, Verdict):
        return found
    index, body, rows = found
    its, other = body["GroupId"], body["GroupId"] + OTHER_TOPIC_SUFFIX
    named_so = {its: "the topic of the leader", other: "that of the other member"}
    for who, member, wanted in (("the leader", body["MemberId"], its), ("the other member", OTHER_MEMBER_ID, other)):
        got = {topic: parts for topic, parts in rows.get(member, {}).items() if parts}
        if got != {wanted: (0,)}:
            told = ", ".join(f"{[*parts]} of {named_so.get(topic, topic)}" for topic, parts in got.items())
            detail = f"{who} wants {named_so[wanted]} and is assigned {told or 'nothing'}"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Assignments"))
    return PASSED


def _last_assignment(
    requests: Sequence[Value],
) -> Verdict | tuple[int, Mapping[str, Value], Mapping[str, Mapping[str, Value]]]:
    """What a leader of two members assigns in the end: the index of the request, its body, and by member the topics."""
    wire = shipped_types().wire(type_name("ConsumerProtocolAssignment", 0))
    for index, request in [*enumerate(requests)][::-1]:
        body = body_in(request["hex"], "SyncGroup")
        if body is None or body["GenerationId"] > SHARED_GENERATIONS or not body["Assignments"]:
            continue
        read = {row["MemberId"]: codec.decode(wire, row["Assignment"][2:]) for row in body["Assignments"]}
        if any(row["Assignment"] and read[row["MemberId"]].violations for row in body["Assignments"]):
            return Verdict(VerdictKind.SKIP, "unobserved: an assignment cannot be read")
        return index, body, {member: _topics_in(one) for member, one in read.items()}
    joins = [index for index, request in enumerate(requests) if body_in(request["hex"], "JoinGroup") is not None]
    if not joins:
        return Verdict(VerdictKind.SKIP, "unobserved: it joins no group")
    return at_request(
        joins[0], Verdict(VerdictKind.FAIL, "it leads two members, and assigns nothing", "Body.Protocols")
    )


def _measures(requests: Sequence[Value]) -> Verdict:
    """Judge whether what is pushed can be read in its codec, and has the metric that is wanted."""
    pushes = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "PushTelemetry"]
    for index in pushes:
        body = body_in(requests[index]["hex"], "PushTelemetry") or {"CompressionType": 0, "Metrics": b""}
        codec_id, metrics = body["CompressionType"], body["Metrics"]
        try:
            plain = _CODECS[codec_id].open(Cursor(metrics, Findings()), metrics)
        except (KeyError, Malformed) as problem:
            detail = f"the metrics cannot be read in their codec, {codec_id}: {problem}"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Metrics"))
        if REQUESTED_METRIC.encode() in plain:
            return PASSED
    detail = f"none of {len(pushes)} pushes has {REQUESTED_METRIC}, which is wanted"
    skip = Verdict(VerdictKind.SKIP, "unobserved: it tells nothing of its metrics")
    return at_request(pushes[-1], Verdict(VerdictKind.FAIL, detail, "Body.Metrics")) if pushes else skip


_CODECS = dict(enumerate(CODECS))


def _topics_in(assignment: codec.DecodeResult) -> Mapping[str, Value]:
    """The partitions by topic; none where nothing is said."""
    if assignment.violations:
        return {}
    return {row["Topic"]: row["Partitions"] for row in assignment.value["AssignedPartitions"]}


def _is_flexible(data: bytes) -> bool:
    if frame_wire(data) is None:
        return False
    return START.unpack_from(data)[2] in shipped_types().messages[f"{api_of(data)}Request"].flexible


def _fetches_behind_the_first(data: bytes) -> bool:
    body = fetch_in(data)
    return body is not None and _is_behind_the_first(body)


def _is_behind_the_first(fetch: Mapping[str, Value]) -> bool:
    return any(part["FetchOffset"] > 0 for row in fetch["Topics"] for part in row["Partitions"])


_MET = 2
"""Times that a client is met at most in a scenario, in each of which it may open a session."""
_OPENING = 0
"""The epoch of a fetch that opens a session; those behind it count from 1 on, and -1 wants none."""


COURSES: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
    "progress-past-tags": _progress_past_tags,
    "progress": _progress,
    "no-skip-after-empty-fetch": _no_skip_after_empty_fetch,
    "same-offset-after-move": _same_offset_after_move,
    "no-rewind-after-marker": _no_rewind_after_marker,
    "continue-at-log-start": _continue_at_log_start,
    "rewind-after-truncation": _rewind_after_truncation,
    "in-session": _in_session,
    "follows": _follows,
    "commits": _commits,
    "commits-again": _commits_again,
    "assignment": _assignment,
    "metrics-pushed": _measures,
    "assignment-by-subscription": _assignment_by_subscription,
    **WRITTEN,
}
"""The checks of which all requests of a scenario tell together."""
