"""A hundred programs that answer correctly until a misbehaviour, one row each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

_TEMPLATE = """\
import json, os, signal, sys, time
from conformance.selftest import bad_targets as bad
from conformance.targets.reference import answer

def put(text):
    sys.stdout.buffer.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()

def reply(request, **more):
    put(json.dumps({{"id": request.get("id"), **answer(request), **more}}) + "\\n")

def deed(request):
    {deed}

for number, line in enumerate(iter(sys.stdin.buffer.readline, b"")):
    request = json.loads(line)
    if number >= {since}:
        deed(request)
    else:
        reply(request)
"""

DEEDS: dict[str, str] = {
    # ends
    "dies": "os._exit(3)",
    "ends well": "os._exit(0)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "aborts": "os.abort()",
    "raises much": "raise RuntimeError('x' * 1_000_000)",
    "recurses": "deed(request)",
    # does not answer
    "hangs": "bad.hang()",
    "is busy": "\n    while True: pass",
    "stops": "os.kill(os.getpid(), signal.SIGSTOP)",
    "ignores signals": "[signal.signal(one, signal.SIG_IGN) for one in (1, 2, 3, 13, 15)]; time.sleep(3600)",
    "closes its output": "bad.close_output()",
    "closes its input": "os.close(0); reply(request)",
    "closes both": "os.close(0); os.close(1); time.sleep(3600)",
    "answers nothing": "pass",
    "answers half a line": "put(b'{\"id\":'); time.sleep(3600)",
    "answers byte by byte": '[put(bytes((one,))) or time.sleep(0.2) for one in b\'{"id":0,"ok":true}\\n\']',
    "answers empty lines": "put(b'\\n' * 1000)",
    # answers with too much output
    "floods without a line": "\n    while True: put(b'x' * 65536)",
    "floods with lines": "\n    while True: put(b'{}\\n' * 1000)",
    "floods with errors": "sys.stderr.write('e' * 30_000_000); sys.stderr.flush(); reply(request)",
    "shows a huge value": "reply(request, value='a' * 30_000_000)",
    "says much": "reply({'id': request['id']}, ok=False, error='malformed', message='m' * 5_000_000)",
    "answers twice": "reply(request); reply(request)",
    "shows many elements": "reply(request, value=[0] * 3_000_000)",
    # answers with invalid lines
    "nests deep": "put('{\"id\":%d,\"value\":' % request['id'] + '[' * 100_000 + ']' * 100_000 + '}\\n')",
    "nests deep objects": "put('{\"a\":' * 100_000 + '1' + '}' * 100_000 + '\\n')",
    "names another id": "reply({**request, 'id': 10**6})",
    "names no id": "put(json.dumps(answer(request)) + '\\n')",
    "names a text as id": "reply({**request, 'id': 'x'})",
    "names a huge id": "reply({**request, 'id': 10**400})",
    "is not UTF-8": "put(b'\\xff\\xfe\\xfa\\n')",
    "answers NUL": "put(b'\\0' * 5000 + b'\\n')",
    "answers lone surrogates": "reply(request, value='\\ud800', message='\\udfff')",
    "answers raw surrogates": 'put(\'{"id":0,"message":"\\ud800"}\\n\')',
    "answers NaN": 'put(\'{"id":%d,"ok":true,"value":NaN}\\n\' % request[\'id\'])',
    "answers a huge number": "put('{\"id\":%d,\"ok\":true,\"value\":1%s}\\n' % (request['id'], '0' * 5000))",
    "answers a list": "put(b'[]\\n')",
    "answers null": "put(b'null\\n')",
    "answers a number": "put(b'5\\n')",
    "answers no JSON": "put(b'Segmentation fault\\n')",
    "gives keys twice": 'put(\'{"id":%d,"id":%d,"ok":true,"ok":false}\\n\' % (request[\'id\'], request[\'id\']))',
    "is ok in words": "reply(request, ok='yes')",
    "is ok and is not": "reply(request, ok=True, unsupported='no', error=5)",
    "says nothing of ok": "put('{\"id\":%d}\\n' % request['id'])",
    # answers with wrong parts
    "shows an object": "reply(request, value={'a': {'b': []}})",
    "consumes less than nothing": "reply(request, consumed=-1)",
    "consumes all there is": "reply(request, consumed=10**30)",
    "consumes words": "reply(request, consumed='all')",
    "has errors of no class": "reply({'id': request['id']}, ok=False, error=['malformed'], message={'a': 1})",
    "clears the screen": "reply({'id': request['id']}, ok=False, error='malformed', message='\\x1b[2J\\x07\\r')",
    "writes markup": "reply({'id': request['id']}, ok=False, error='malformed', message='[bold]<script>[/]&]]>\\x00')",
    "describes badly": "reply(request, supports={'decode': ['X' * 10**6, 5, None]}, name='\\x1b[1m', codecs=[])",
    "speaks protocol 99": "reply(request, protocol=99)",
    # leaves something behind
    "leaves a child": "bad.leave_child(); reply(request)",
    "leaves a grandchild in a session": (
        "\n    if os.fork() == 0:\n        os.setsid(); os.fork() or time.sleep(3600); os._exit(0)\n    reply(request)"
    ),
    "lets a child answer": "\n    if os.fork() == 0:\n        reply(request); os._exit(0)\n    time.sleep(3600)",
    "leaves a child and dies": "bad.leave_child_and_die()",
    # takes memory
    "takes memory": "held = bytearray(b'x') * 400_000_000; reply(request)",
    "takes memory for ever": "bad.allocate()",
}
"""The misbehaviour at a request, as Python code."""

MOMENTS = {"at once": 0, "later": 4}
"""The number of the first request with the misbehaviour; request 1 is `describe`."""


def written(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write the programs, and return their paths by behaviour and time."""
    for name, deed in DEEDS.items():
        for moment, since in MOMENTS.items():
            path = folder / f"{name} {moment}.py".replace(" ", "-")
            path.write_text(_TEMPLATE.format(deed=deed, since=since), encoding="utf-8")
            yield f"{name} {moment}", path


def command(path: Path) -> str:
    """Return its name as a target."""
    return f"command:{sys.executable} {path}"
