"""Large answers: stored as bytes and parsed one at a time; requests are built only when needed."""

import sys
import threading

import pytest

from conformance.cases.model import Accepted, Rejected
from conformance.process.launcher import LaunchSpec
from conformance.targets import protocol
from conformance.targets._pending import LazyRequestQueue
from conformance.targets._worker_pool import WorkerPool
from conformance.targets.large_answers import LARGE, CompressedAnswer, compress_large, decompressed, pending_bytes
from conformance.targets.limits import ResourceLimits
from conformance.targets.protocol import RequestBody
from conformance.targets.session import WINDOW_BYTES, take_fitting

ANSWER = {"ok": True, "value": [{"key": "k", "value": None}] * 1000, "consumed": 2**70}


def test_a_large_answer_is_stored_as_bytes_and_judged_equally():
    outcome = compress_large(LARGE + 1, lambda: Accepted(ANSWER, LARGE + 1))
    assert isinstance(outcome, CompressedAnswer)
    assert (outcome.answer, outcome.size) == (ANSWER, LARGE + 1)
    assert outcome.answer is not ANSWER
    with decompressed(outcome) as again:
        assert again == Accepted(ANSWER, LARGE + 1)
        assert again.answer is again.answer


def test_a_large_repetitive_answer_takes_little_memory():
    answer = {"ok": True, "value": "00" * LARGE}
    assert pending_bytes([CompressedAnswer(Accepted(answer, 2 * LARGE))]) < LARGE / 50


def test_the_memory_estimate_counts_only_parsed_objects():
    assert pending_bytes([Accepted(ANSWER, 100), Rejected("malformed"), Accepted(ANSWER, 1)]) == 10 * 101


def test_other_outcomes_are_stored_unchanged():
    for outcome, size in ((Accepted(ANSWER, LARGE), LARGE), (Rejected("malformed"), LARGE + 1)):
        assert compress_large(size, lambda outcome=outcome: outcome) is outcome


def test_one_large_answer_is_parsed_at_a_time():
    read, order = threading.Event(), []

    def reader():
        read.set()
        compress_large(LARGE + 1, lambda: order.append("read") or Rejected("malformed"))

    thread = threading.Thread(target=reader)
    with decompressed(compress_large(LARGE + 1, lambda: Accepted(ANSWER, LARGE + 1))):
        thread.start()
        read.wait()
        thread.join(0.2)
        compress_large(LARGE, lambda: Rejected("malformed"))  # a small one does not wait
        order.append("judged")
    thread.join()
    assert order == ["judged", "read"]


def test_an_invalid_large_answer_does_not_block_the_next():
    def broken():
        raise ValueError("not JSON")

    with pytest.raises(ValueError, match="not JSON"):
        compress_large(LARGE + 1, broken)
    assert compress_large(LARGE + 1, lambda: Rejected("malformed")) == Rejected("malformed")


def test_requests_are_built_only_if_there_is_room():
    made, size = [], WINDOW_BYTES // 4

    def requests():
        for at in range(100):
            made.append(at)
            yield RequestBody(bytes(size))

    waiting, window = LazyRequestQueue(requests()), []
    for _ in range(2):
        window += take_fitting(waiting, window)
        assert len(window) == 4
        assert len(made) == 5, "only the next one is ready"
    window.clear()
    window += take_fitting(waiting, window)
    assert len(made) == 9


def test_large_answers_of_several_processes_have_the_verdicts_of_one(catalog):
    large, small = catalog.cases["batch/limit-headers-2-to-16"], catalog.cases["varint/six-bytes"]
    launch = LaunchSpec("reference", (sys.executable, "-m", "conformance", "serve", "reference"))
    target = WorkerPool(launch, ResourceLimits(timeout=60), 2)
    try:
        outcomes = list(target.ask([large, *[small] * 140, large], lambda case: protocol.body(case.request)))
        assert target._unjudged_bytes == 0, "all stored answers were used"
    finally:
        target.close()
    assert [at for at, outcome in enumerate(outcomes) if isinstance(outcome, CompressedAnswer)] == [0, 141]
    assert outcomes[0].answer == outcomes[141].answer
    assert len(outcomes[0].answer["value"]["records"][0]["headers"]) == 1 << 16


def test_a_measured_request_is_sent_alone():
    plain, measured = RequestBody(b"{}"), RequestBody(b"{}", measured_bytes=2)
    waiting = LazyRequestQueue([plain, plain, measured, plain])
    assert list(take_fitting(waiting, [])) == [plain, plain]
    assert list(take_fitting(waiting, [plain])) == []
    window = list(take_fitting(waiting, []))
    assert [one is measured for one in window] == [True]
    assert list(take_fitting(waiting, window)) == []
    assert list(take_fitting(waiting, [])) == [plain]
