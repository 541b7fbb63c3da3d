"""The checks of a consumer in a client scenario: its fetches, its group and its metrics.

In a scenario about the progress of fetches, the requests have the opposite order: the last one is first.
"""

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
from conformance.judging._producer_behavior import PRODUCER_CHECKS
from conformance.judging._sent_requests import at_request, body_in, fetch_in, request_name


def _progress_past_tags(requests: Sequence[Value]) -> Verdict:
    """Check that a Fetch begins after the first offset: only the records contain the next one."""
    tagged = [index for index, request in enumerate(requests) if _is_flexible(request["hex"])]
    if any(_fetches_after_first_offset(request["hex"]) for request in requests):
        return PASSED if tagged else Verdict(VerdictKind.SKIP, "unobserved: no response had tagged fields")
    if not tagged:
        return Verdict(VerdictKind.SKIP, "unobserved: no response had tagged fields")
    tags = f"responses, such as to {request_name(requests[tagged[0]]['hex'])}, contain unknown tagged fields"
    detail = f"the client fetches no offset after the first one: {tags}"
    return at_request(tagged[0], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiVersion"))


def _progress(requests: Sequence[Value]) -> Verdict:
    """Check that a Fetch begins after the first offset."""
    if any(_fetches_after_first_offset(request["hex"]) for request in requests):
        return PASSED
    return _no_progress(requests, "the first one, although it does in an ordinary scenario")


def _no_progress(requests: Sequence[Value], where: str) -> Verdict:
    """Return a failure of a client that does not fetch the next offset; a skip if it sent no request."""
    if not requests:
        return Verdict(VerdictKind.SKIP, "unobserved: no request was sent")
    detail = f"the client fetches no offset after {where}: the last request is {request_name(requests[0]['hex'])}"
    return at_request(0, Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _no_skip_after_empty_fetch(requests: Sequence[Value]) -> Verdict:
    """Check that the client fetches the next offset, but only after a fetch could return the first record."""
    bodies = [(index, body) for index, request in enumerate(requests) if (body := fetch_in(request["hex"]))]
    after = [index for index, body in bodies if _is_after_first_offset(body)]
    at_first = len(bodies) - len(after)
    if not after or at_first > EMPTY_FETCHES:
        return _progress(requests)
    detail = f"{at_first} fetches of the first offset returned no record, but the next fetch skips this offset"
    return at_request(after[-1], Verdict(VerdictKind.FAIL, detail, "Body.Topics[0].Partitions[0].FetchOffset"))


def _same_offset_after_move(requests: Sequence[Value]) -> Verdict:
    """Check the last topic: the old leader rejects the fetch of CONSUMED_OFFSET, and the new one returns its record."""
    places = [*_fetch_offsets(requests)]
    of_last = [(index, offset) for index, topic, offset in places if topic == places[-1][1]]
    after = next((number for number, (_, offset) in enumerate(of_last) if offset > CONSUMED_OFFSET), None)
    if after is None:
        return _no_progress(requests, f"offset {CONSUMED_OFFSET}, where another node becomes leader")
    index, offset = of_last[after]
    # The first fetch of CONSUMED_OFFSET was rejected, so only a second one can have returned its record.
    if offset == CONSUMED_OFFSET + 1 and sum(before == CONSUMED_OFFSET for _, before in of_last[:after]) > 1:
        return PASSED
    expected = f"{CONSUMED_OFFSET}, which the old leader rejected"
    detail = f"the fetch after the leader change begins at {offset} instead of {expected}"
    return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Topics[0].Partitions[0].FetchOffset"))


def _no_rewind_after_marker(requests: Sequence[Value]) -> Verdict:
    """Check the last topic: after the marker another node is leader, and has all records that the client has read.

    A client without OffsetForLeaderEpoch has no protocol reason to go back, so it is not judged.
    """
    if not _epoch_queries(requests):
        return _NO_EPOCH_QUERY
    places = [*_fetch_offsets(requests)]
    after = [*dropwhile(lambda place: place[1:] != (places[-1][1], OFFSET_AFTER_MARKER), places)]
    for index, _, offset in after:
        if offset < OFFSET_AFTER_MARKER:
            back = f"a fetch goes back from offset {OFFSET_AFTER_MARKER} to {offset}"
            detail = f"{back}, although the new leader has the records before it"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Topics[0].Partitions[0].FetchOffset"))
    if any(offset > OFFSET_AFTER_MARKER for *_, offset in after):
        return PASSED
    return _no_progress(requests, f"offset {OFFSET_AFTER_MARKER}, where another node becomes leader")


def _continue_at_log_start(requests: Sequence[Value]) -> Verdict:
    """Check that the client continues at the new start of the log, after its next record was deleted.

    It may also continue at the end, if the application wants that. Any offset between the two skips records.
    """
    found = next((place for place in _fetch_offsets(requests) if place[-1] >= TRIMMED_LOG_OFFSETS.start), None)
    if found is None:
        return _no_progress(
            requests, f"offset {CONSUMED_OFFSET}, although the log now begins at {TRIMMED_LOG_OFFSETS.start}"
        )
    index, _, offset = found
    detail = (
        f"the log now begins at offset {TRIMMED_LOG_OFFSETS.start}, but the first fetch after that begins at {offset}"
    )
    path = "Body.Topics[0].Partitions[0].FetchOffset"
    return (
        PASSED
        if offset in (TRIMMED_LOG_OFFSETS.start, TRIMMED_LOG_OFFSETS.stop)
        else at_request(index, Verdict(VerdictKind.FAIL, detail, path))
    )


def _rewind_after_truncation(requests: Sequence[Value]) -> Verdict:
    """Check that the client leaves its offset after OffsetForLeaderEpoch returned an earlier end offset.

    It continues at the end of the truncated log, or at the reset offset that the application has chosen.
    """
    epoch_queries = _epoch_queries(requests)
    if not epoch_queries:
        return _NO_EPOCH_QUERY
    rejected = dropwhile(lambda place: place[-1] != CONSUMED_OFFSET, _fetch_offsets(requests))
    after = [(index, offset) for index, _, offset in rejected if offset != CONSUMED_OFFSET]
    if not after:
        detail = f"no fetch goes back from offset {CONSUMED_OFFSET}, although the log was truncated before it"
        return at_request(epoch_queries[0], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))
    index, offset = after[0]
    detail = (
        f"the fetch after the leader change begins at {offset}, although the log was truncated to 0 and has new records"
    )
    path = "Body.Topics[0].Partitions[0].FetchOffset"
    return PASSED if offset != CONSUMED_OFFSET + 1 else at_request(index, Verdict(VerdictKind.FAIL, detail, path))


def _epoch_queries(requests: Sequence[Value]) -> list[int]:
    """Return the indexes of the OffsetForLeaderEpoch requests."""
    return [index for index, request in enumerate(requests) if api_of(request["hex"]) == "OffsetForLeaderEpoch"]


_NO_EPOCH_QUERY = Verdict(VerdictKind.SKIP, "unobserved: the client sent no OffsetForLeaderEpoch")


def _fetch_offsets(requests: Sequence[Value]) -> Iterator[tuple[int, object, int]]:
    """Yield the request index, the topic and the offset of each fetch, in the order in which the broker got them."""
    for index, request in [*enumerate(requests)][::-1]:
        for row in (fetch_in(request["hex"]) or {"Topics": ()})["Topics"]:
            for part in row["Partitions"]:
                yield index, row.get("Topic", row.get("TopicId")), part["FetchOffset"]


def _follows(requests: Sequence[Value]) -> Verdict:
    """Check that a client with a rack id makes progress: the leader sends only such clients to a follower."""
    if any(body.get("RackId") for request in requests if (body := fetch_in(request["hex"]))):
        return _progress(requests)
    return Verdict(VerdictKind.SKIP, "unobserved: the client sent no rack id")


def _in_session(requests: Sequence[Value]) -> Verdict:
    """Check that the client makes progress in a fetch session, and that its session epochs follow each other."""
    fetches = [(index, body) for index, request in enumerate(requests) if (body := fetch_in(request["hex"]))]
    in_session = [(index, body) for index, body in fetches if body.get("SessionEpoch", -1) >= _OPENING]
    numbered = [(index, body) for index, body in in_session if body["SessionId"] and body["SessionEpoch"] != _OPENING]
    inside = numbered[::-1]  # in the order in which they were sent
    last: dict[int, int] = {}
    for index, body in inside:
        number, epoch = body["SessionId"], body["SessionEpoch"]
        if epoch != last.get(number, epoch - 1) + 1:
            detail = f"session epoch {epoch} follows session epoch {last[number]} in fetch session {number}"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.SessionEpoch"))
        last[number] = epoch
    if any(_is_after_first_offset(body) for _, body in inside):
        return PASSED
    # A client that opens one session per run and then makes progress without it has declined sessions.
    if not in_session or (len(in_session) <= _MAX_RUNS and any(_is_after_first_offset(body) for _, body in fetches)):
        return Verdict(VerdictKind.SKIP, "unobserved: the client uses no fetch session")
    detail = "no fetch of a session begins after the first offset; responses of a session contain only changes"
    if not inside:
        detail = "each fetch opens a new session; none has the session id of a response"
    return at_request(in_session[0][0], Verdict(VerdictKind.FAIL, detail, "Body.SessionEpoch"))


def _commits(requests: Sequence[Value]) -> Verdict:
    """Check the commits of a member that got the record at offset 0, without a leader epoch, and perhaps the next."""
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
    for index, retention_ms, part in found:
        offset, epoch = part["CommittedOffset"], part.get("CommittedLeaderEpoch", _NO_EPOCH)
        if offset not in (0, 1, 2):
            detail = f"offset {offset} is committed, but the records are at offsets 0 and 1"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, f"{path}.CommittedOffset"))
        if epoch not in (_NO_EPOCH, 0 if offset > 1 else _NO_EPOCH):  # the second record is in a batch of epoch 0
            detail = f"leader epoch {epoch} is committed instead of -1: the batch of the record has no leader epoch"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, f"{path}.CommittedLeaderEpoch"))
        if retention_ms != _NO_EPOCH:
            detail = f"RetentionTimeMs is {retention_ms} instead of -1: the application sets no retention time"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.RetentionTimeMs"))
    index, _, last = found[-1]
    detail = "offset 0 is committed, but the next offset to read is 1"
    return (
        PASSED
        if last["CommittedOffset"]
        else at_request(index, Verdict(VerdictKind.FAIL, detail, f"{path}.CommittedOffset"))
    )


_NO_EPOCH = -1


def _commits_again(requests: Sequence[Value]) -> Verdict:
    """Check that the client repeats a commit until the broker accepts it."""
    commits = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "OffsetCommit"]
    if not commits:
        return Verdict(VerdictKind.SKIP, "unobserved: no offset was committed")
    if len(commits) > REJECTED_COMMITS:
        return PASSED
    times = "once" if len(commits) == 1 else f"{len(commits)} times"
    detail = (
        f"the broker rejects {REJECTED_COMMITS} commits with a retriable error, but the client commits only {times}"
    )
    return at_request(commits[-1], Verdict(VerdictKind.FAIL, detail, "Header.RequestApiKey"))


def _assignment(requests: Sequence[Value]) -> Verdict:
    """Check that a leader of two members assigns the only partition to exactly one of them."""
    found = _last_assignment(requests)
    if isinstance(found, Verdict):
        return found
    index, body, rows = found
    own, members = body["GroupId"], (body["MemberId"], OTHER_MEMBER_ID)
    assigned = [(name, topic, part) for name, topics in rows.items() for topic in topics for part in topics[topic]]
    times = sum(one[1:] == (own, 0) for one in assigned)
    if times != 1:
        detail = f"the only partition is assigned {times} times among {len(rows)} members"
    elif len(assigned) > 1:
        detail = f"{len(assigned)} partitions are assigned, but the topic has one"
    elif assigned[0][0] not in members:
        detail = f"the only partition is assigned to {assigned[0][0]!r:.60}, which is not a member id"
    else:
        return PASSED
    return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Assignments"))


def _assignment_by_subscription(requests: Sequence[Value]) -> Verdict:
    """Check that a leader assigns to each of two members the topic of its subscription."""
    found = _last_assignment(requests)
    if isinstance(found, Verdict):
        return found
    index, body, rows = found
    own, other = body["GroupId"], body["GroupId"] + OTHER_TOPIC_SUFFIX
    topic_names = {own: "the leader's topic", other: "the other member's topic"}
    for name, member, wanted in (("the leader", body["MemberId"], own), ("the other member", OTHER_MEMBER_ID, other)):
        got = {topic: parts for topic, parts in rows.get(member, {}).items() if parts}
        if got != {wanted: (0,)}:
            assigned_text = ", ".join(f"{[*parts]} of {topic_names.get(topic, topic)}" for topic, parts in got.items())
            detail = f"{name} is assigned {assigned_text or 'nothing'} instead of [0] of {topic_names[wanted]}"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Assignments"))
    return PASSED


def _last_assignment(
    requests: Sequence[Value],
) -> Verdict | tuple[int, Mapping[str, Value], Mapping[str, Mapping[str, Value]]]:
    """Return the last assignment of a leader of two: the request index, its body, and the topics by member."""
    wire = shipped_types().wire(type_name("ConsumerProtocolAssignment", 0))
    for index, request in [*enumerate(requests)][::-1]:
        body = body_in(request["hex"], "SyncGroup")
        if body is None or body["GenerationId"] > SHARED_GENERATIONS or not body["Assignments"]:
            continue
        read = {row["MemberId"]: codec.decode(wire, row["Assignment"][2:]) for row in body["Assignments"]}
        if any(row["Assignment"] and read[row["MemberId"]].violations for row in body["Assignments"]):
            return Verdict(VerdictKind.SKIP, "unobserved: an assignment cannot be decoded")
        return index, body, {member: _topics_in(one) for member, one in read.items()}
    joins = [index for index, request in enumerate(requests) if body_in(request["hex"], "JoinGroup") is not None]
    if not joins:
        return Verdict(VerdictKind.SKIP, "unobserved: the client joined no group")
    return at_request(
        joins[0],
        Verdict(VerdictKind.FAIL, "the client is leader of two members, but assigns no partition", "Body.Protocols"),
    )


def _metrics_pushed(requests: Sequence[Value]) -> Verdict:
    """Check that pushed metrics can be decompressed, and contain the requested metric."""
    pushes = [index for index, request in enumerate(requests) if api_of(request["hex"]) == "PushTelemetry"]
    for index in pushes:
        body = body_in(requests[index]["hex"], "PushTelemetry") or {"CompressionType": 0, "Metrics": b""}
        codec_id, metrics = body["CompressionType"], body["Metrics"]
        try:
            plain = _CODECS[codec_id].open(Cursor(metrics, Findings()), metrics)
        except (KeyError, Malformed) as problem:
            detail = f"the metrics cannot be decompressed with codec {codec_id}: {problem}"
            return at_request(index, Verdict(VerdictKind.FAIL, detail, "Body.Metrics"))
        if REQUESTED_METRIC.encode() in plain:
            return PASSED
    detail = f"none of {len(pushes)} PushTelemetry requests contains the requested metric {REQUESTED_METRIC}"
    skip = Verdict(VerdictKind.SKIP, "unobserved: the client sent no PushTelemetry")
    return at_request(pushes[-1], Verdict(VerdictKind.FAIL, detail, "Body.Metrics")) if pushes else skip


_CODECS = dict(enumerate(CODECS))


def _topics_in(assignment: codec.DecodeResult) -> Mapping[str, Value]:
    """Return the partitions by topic; none if the assignment is empty."""
    if assignment.violations:
        return {}
    return {row["Topic"]: row["Partitions"] for row in assignment.value["AssignedPartitions"]}


def _is_flexible(data: bytes) -> bool:
    if frame_wire(data) is None:
        return False
    return START.unpack_from(data)[2] in shipped_types().messages[f"{api_of(data)}Request"].flexible


def _fetches_after_first_offset(data: bytes) -> bool:
    body = fetch_in(data)
    return body is not None and _is_after_first_offset(body)


def _is_after_first_offset(fetch: Mapping[str, Value]) -> bool:
    return any(part["FetchOffset"] > 0 for row in fetch["Topics"] for part in row["Partitions"])


_MAX_RUNS = 2
"""The most runs of a client in a scenario; it may open a session in each."""
_OPENING = 0
"""The session epoch of a fetch that opens a session; later ones count from 1, and -1 requests no session."""


SCENARIO_CHECKS: Mapping[str, Callable[[Sequence[Value]], Verdict]] = {
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
    "metrics-pushed": _metrics_pushed,
    "assignment-by-subscription": _assignment_by_subscription,
    **PRODUCER_CHECKS,
}
"""The checks of all requests of a scenario together."""
