"""The checks that the requests of a client must pass in a client scenario.

`client_requests`, `consumer_behavior` and `producer_behavior` in `conformance/judging` have a function for each.
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
    """Return a check that the last fetches decide."""
    expected = expected or "the client fetches the next offset"
    failure = failure or "the client does not continue"
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
        "the client fetches the same offset from the new leader",
        "the client does not keep its offset",
        needs_all_requests=True,
    ),
    "no-rewind-after-marker": _fetches(
        "The client does not fetch an earlier offset than the one after the marker.",
        "the client fetches the same offset from the new leader",
        "the client does not keep its offset",
        needs_all_requests=True,
    ),
    "continue-at-log-start": _fetches(
        "The client fetches from the new start of the log, or from its end.",
        "the client fetches from the new start of the log, or from its end",
        "the client does not continue",
    ),
    "rewind-after-truncation": _fetches(
        "The client fetches from the end offset of the truncated epoch.",
        "the client fetches from the end of the truncated log",
        "the client does not go back to the end of the truncated log",
        needs_all_requests=True,
    ),
    # groups
    "commits": ClientCheck(
        "The member commits the offset after its last record, with the leader epoch of the batch or -1.",
        "the offset after the last delivered record is committed",
        "the client sends a wrong commit",
        needs_all_requests=True,
    ),
    "commits-again": ClientCheck(
        "The member commits again after a retriable error.",
        "a rejected commit is sent again",
        "the client does not retry a commit",
        needs_all_requests=True,
        about_completion=True,
    ),
    "assignment": ClientCheck(
        "The leader assigns each partition to exactly one member.",
        "each partition is assigned to one member",
        "a partition is not assigned to exactly one member",
        needs_all_requests=True,
    ),
    "assignment-by-subscription": ClientCheck(
        "The leader assigns to each member the topic of its subscription.",
        "each member is assigned the topic of its subscription",
        "a member is not assigned the topic of its subscription",
        needs_all_requests=True,
    ),
    # telemetry
    "metrics-pushed": ClientCheck(
        "The client pushes the requested metric.",
        "the requested metric is pushed",
        "the requested metric is not pushed",
        needs_all_requests=True,
    ),
    # batches
    "retried": ClientCheck(
        "The producer retries a batch after a retriable error.",
        "the rejected batch is sent again",
        "the client does not retry a batch",
    ),
    "retried-unchanged": ClientCheck("A retried batch has the same producer id, epoch, sequence and records."),
    "sequence-numbers": ClientCheck("The sequence numbers of the batches follow each other."),
    "no-loss": ClientCheck(
        "All batches arrive in the end, and no two have the same sequence.",
        "each batch arrives, and no two have the same sequence",
        "a batch is lost",
        needs_all_requests=True,
    ),
    "writes-on": ClientCheck(
        "The producer sends the next batch to the new leader.",
        "the next batch is sent to the new leader",
        "the next batch does not reach the new leader",
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
        "all records are written as valid messages",
        "the records are not written as valid messages",
        needs_all_requests=True,
    ),
    "error-reported": ClientCheck(
        "The producer reports a fatal error to the application.",
        "the application gets the error",
        "the application gets no error",
    ),
    # transactions
    "ended": ClientCheck(
        "The transaction is written and committed.",
        "the transaction is written and committed",
        "the transaction is not completed",
        needs_all_requests=True,
        about_completion=True,
    ),
    "ended-again": ClientCheck(
        "The producer sends EndTxn again after a retriable error.",
        "EndTxn is sent again",
        "the transaction is not completed",
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
