"""The checks that the requests of a client must pass in a client scenario.

The functions are in `conformance/judging/client_requests.py` and beside it, under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ClientCheck(Struct, frozen=True):
    """One row: the requirement of a check, and the requests to which it applies."""

    description: str
    """The requirement, in one sentence of docs/live.md."""
    expected: str = ""
    """Reports print this as expected; empty for a check of single requests."""
    failure: str = ""
    """Reports print this as the cause of a failure; empty: the name of the check."""
    needs_all_requests: bool = False
    """An answer must contain all requests of the scenario."""
    about_fetch_progress: bool = False
    """The last fetches decide."""
    about_completion: bool = False
    """The check requires that a write or commit is completed."""


def _fetches(
    description: str, expected: str = "", failure: str = "", *, needs_all_requests: bool = False
) -> ClientCheck:
    """A check of which the last fetches decide."""
    expected = expected or "a fetch goes on behind the first offset"
    failure = failure or "the client does not go on"
    return ClientCheck(description, expected, failure, needs_all_requests=needs_all_requests, about_fetch_progress=True)


CHECKS: Mapping[str, ClientCheck] = {
    # single requests
    "size-field": ClientCheck("The size before a request is that of its header and body."),
    "well-formed": ClientCheck("Each byte of the request follows the definition of its version."),
    "offered": ClientCheck("The broker supports the version."),
    "unique-correlation-ids": ClientCheck("No unanswered request has the same correlation id."),
    "isolation-level": ClientCheck(
        "Fetch, ListOffsets and OffsetFetch request the isolation level of the application."
    ),
    # fetches
    "progress-past-tags": _fetches(
        "The client fetches the next offset although responses contain unknown tagged fields."
    ),
    "progress": _fetches("The client fetches the next offset."),
    "no-skip-after-empty-fetch": _fetches(
        "The client skips no offset after empty fetch responses.", needs_all_requests=True
    ),
    "in-session": _fetches("The client numbers its fetches in a fetch session and continues."),
    "follows": _fetches("The client fetches from the follower that the leader names."),
    "same-offset-after-move": _fetches(
        "The client fetches the same offset from the new leader.",
        "a fetch goes on where it was when the leader moved",
        "the client does not keep its place",
        needs_all_requests=True,
    ),
    "no-rewind-after-marker": _fetches(
        "The client does not fetch an earlier offset than the one after the marker.",
        "a fetch goes on where it was when the leader moved",
        "the client does not keep its place",
        needs_all_requests=True,
    ),
    "continue-at-log-start": _fetches(
        "The client fetches from the new start of the log, or from its end.",
        "a fetch goes on where the log begins",
        "the client does not go on",
    ),
    "rewind-after-truncation": _fetches(
        "The client fetches from the end offset of the truncated epoch.",
        "a fetch goes back to where the log was cut",
        "the client does not go back",
        needs_all_requests=True,
    ),
    # groups
    "commits": ClientCheck(
        "The member commits the offset after its last record, with the leader epoch of the batch or -1.",
        "the offset behind what was handed out is committed",
        "another offset is committed",
        needs_all_requests=True,
    ),
    "commits-again": ClientCheck(
        "The member commits again after a retriable error.",
        "a commit that was refused comes again",
        "a commit is given up",
        needs_all_requests=True,
        about_completion=True,
    ),
    "assignment": ClientCheck(
        "The leader assigns each partition to exactly one member.",
        "each partition is assigned to one member",
        "a partition is not shared out",
        needs_all_requests=True,
    ),
    "assignment-by-subscription": ClientCheck(
        "The leader assigns to each member the topic of its subscription.",
        "each member is assigned the topic that it wants",
        "a member is not assigned what it wants",
        needs_all_requests=True,
    ),
    # telemetry
    "metrics-pushed": ClientCheck(
        "The client pushes the requested metric.",
        "the metric that is wanted is pushed",
        "a metric that is wanted is not pushed",
        needs_all_requests=True,
    ),
    # batches
    "retried": ClientCheck(
        "The producer retries a batch after a retriable error.",
        "what was refused for the moment comes again",
        "a batch is given up",
    ),
    "retried-unchanged": ClientCheck("A retried batch has the same producer id, epoch, sequence and records."),
    "sequence-numbers": ClientCheck("The sequence numbers of the batches follow each other."),
    "no-loss": ClientCheck(
        "All batches arrive in the end, and no two have the same sequence.",
        "each batch comes, and no other has its sequence",
        "a batch is lost",
        needs_all_requests=True,
    ),
    "writes-on": ClientCheck(
        "The producer sends the next batch to the new leader.",
        "the batch behind the first one is written, too",
        "a batch does not come to the other node",
        needs_all_requests=True,
        about_completion=True,
    ),
    "writes": ClientCheck(
        "The producer writes all records.",
        "all records are written",
        "a record is not written",
        needs_all_requests=True,
        about_completion=True,
    ),
    "in-messages": ClientCheck(
        "The producer writes all records as valid messages of magic 0 or 1.",
        "all records come as messages",
        "messages are not written as they should be",
        needs_all_requests=True,
    ),
    "error-reported": ClientCheck(
        "The producer reports a fatal error to the application.",
        "the application is told of the error",
        "a refusal is not told",
    ),
    # transactions
    "ended": ClientCheck(
        "The transaction is written and committed.",
        "the transaction is written and committed",
        "a transaction does not come to its end",
        needs_all_requests=True,
        about_completion=True,
    ),
    "ended-again": ClientCheck(
        "The producer sends EndTxn again after a retriable error.",
        "the end of the transaction is asked for again",
        "a transaction does not come to its end",
        needs_all_requests=True,
        about_completion=True,
    ),
    "transaction-version": ClientCheck(
        "Without transaction.version 2 the producer uses the older transaction requests.", needs_all_requests=True
    ),
    "transaction-complete": ClientCheck(
        "Each transaction has its partitions, its batches and its result.", needs_all_requests=True
    ),
    "sequence-after-fatal-error": ClientCheck(
        "After a fatal error the next batch reuses the sequence, or starts at 0 in a new epoch.",
        needs_all_requests=True,
    ),
    "no-empty-end-txn": ClientCheck("The producer sends no EndTxn for an empty transaction.", needs_all_requests=True),
}
"""By name."""


def failure_text(check: str) -> str:
    """Return the cause that reports print if a client fails a check."""
    return CHECKS[check].failure or f"a request fails the check {check}"
