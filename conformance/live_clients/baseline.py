"""What tells a client's failure from one of broker or driver: plain batches that every client takes come first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from conformance.cases.log_requests import read_expectation
from conformance.cases.model import Answer, Expectation, ExpectConsumerView, Request, Value, VerdictKind
from conformance.cases.operations import OPERATIONS
from conformance.codec.builders import START_MS, record
from conformance.codec.json_notation import NotationError
from conformance.codec.log import LOG
from conformance.judging.log_operations import judge_read
from conformance.mock_broker.topic import build_entry

NO_END_RECORD_POSSIBLE = "no record can stand behind the offset that was fetched, to end the topic"
"""Said of a case that a client came through, as far as it can be told."""


class BaselineFailed(Exception):
    """A client that comes through no plain batch; the message says what came instead."""


def baseline(isolation: str, *, of_messages: bool = False) -> Iterator[Request]:
    """Parts of `read` requests for plain batches, of which a client that can be judged comes through one at least.

    `of_messages`: messages of magic 0 instead, which every version of Fetch carries.
    """
    for counts in ((1,), (3,), (1, 2)):
        data, end = b"", 0
        for count in counts:
            data += build_entry(_records(end, count), 0 if of_messages else 2)
            end += count
        yield OPERATIONS["read"].parse(read_expectation(data, isolation=isolation).parts, LOG)


def _records(base: int, count: int) -> tuple[Value, ...]:
    return tuple(record(base + index, START_MS + index, key=b"key", value=b"value") for index in range(count))


def is_expected(expected: Expectation, answer: Answer) -> bool:
    """Whether an answer is what the reference expects, or one of several that are right."""
    if answer.get("ok") is False:
        return not isinstance(expected, ExpectConsumerView) or expected.open or expected.view.damage is not None
    if "ok" not in answer:
        return answer.get("unsupported") == NO_END_RECORD_POSSIBLE
    if not isinstance(expected, ExpectConsumerView):
        return True
    with suppress(NotationError):
        return judge_read(expected, answer["value"]).kind is not VerdictKind.FAIL
    return False


def may_need_more_versions(answer: Answer) -> bool:
    """Whether a client may come through where more is offered: it was refused a request, or it says that it failed."""
    return "unsupported" in answer or answer.get("ok") is False
