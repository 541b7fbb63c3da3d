"""The baseline: plain batches that every client must read before a failure counts as one of the client."""

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

NO_END_RECORD_POSSIBLE = "no offset for a last record is left after the fetch offset"
"""The reason in an answer about a case whose end cannot be marked."""


class BaselineFailed(Exception):
    """A client that reads no plain batch; the message has its answer."""


def baseline(isolation: str, *, of_messages: bool = False) -> Iterator[Request]:
    """Yield the parts of `read` requests for plain batches; a client must read at least one of them.

    `of_messages`: messages of magic 0 instead, which every version of Fetch can contain.
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
    """Return whether an answer is correct."""
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
    """Return whether more API versions may help: a request was not supported, or the client reported an error."""
    return "unsupported" in answer or answer.get("ok") is False
