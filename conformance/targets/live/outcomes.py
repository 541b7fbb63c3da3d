"""What is told of a topic that a client has come to the end of, or never will: the answer to a `read` request."""

from __future__ import annotations

import time

from conformance.cases.model import Answer
from conformance.codec.json_notation import NotationError
from conformance.codec.log import extents
from conformance.targets.live.clients import Heard
from conformance.targets.live.neighbours import Between
from conformance.targets.live.topics import Topic


def silence(topic: Topic, heard: Heard, startup: float) -> str:
    """What is told of a client that neither came to the end of a topic nor said why; it had `startup` seconds."""
    if topic.first_fetch is None:
        return f"did not fetch the topic, or write to it, within {startup:g} s"
    asked = topic.asked_again(time.monotonic())
    again = f"; it {asked}" if asked else ""
    end = "" if topic.end is None else f", served the end of the topic at {topic.end}"
    return f"handed out {len(heard.records)} records and did not come to the end of the topic{end}{again}"


def consumed(topic: Topic, heard: Heard, sides: Between | None = None) -> Answer:
    """What an application was handed, where the next fetch started, and what became of records beside the case."""
    if topic.is_healed and not heard.error:
        # It did not take these bytes, and did not say so.
        return delivered(topic, heard, "other", topic.asked_again(time.monotonic()))
    answer = delivered(topic, heard, heard.error, heard.message)
    if sides is not None and not heard.error:
        answer["value"]["nextOffset"] = str(sides.after["offset"])
        try:
            answer["value"] |= {"beside": touched} if (touched := sides.touched(heard.beside)) else {}
        except NotationError:
            answer["value"]["records"] = heard.beside  # the judge says what is wrong with their notation
    return answer


def delivered(topic: Topic, heard: Heard, error: str = "", message: str = "") -> Answer:
    """The records that were handed out, or the error where there are none."""
    told = {"message": message} if message else {}
    if error and not heard.records:
        return {"ok": False, "error": error, **told}
    after = topic.end if topic.end is not None else max(topic.fetches, default=topic.start)
    value: Answer = {"records": heard.records, "nextOffset": str(after), **({"error": error} if error else {})}
    return {"ok": True, "value": value, **told}


def remarked(answer: Answer, how: str) -> Answer:
    """The answer with the way in which the topic was served, where a report shows it."""
    for fault in ("crash", "timeout"):
        if fault in answer:
            return {**answer, fault: f"{answer[fault]} ({how})"}
    return {**answer, "message": f"{how}; {answer.get('message', '')}".rstrip("; ")}


def written(topic: Topic, heard: Heard) -> Answer:
    """The one batch that a client wrote, as an encoder's answer; the error that it raised where there is none."""
    if heard.error:
        return {"ok": False, "error": heard.error, "message": heard.message}
    data = b"".join(topic.produced)
    count = len(list(extents(data)))
    if count > 1:
        return {"unsupported": f"the client spread the records over {count} batches"}
    return {"ok": True, "hex": data.hex()}
