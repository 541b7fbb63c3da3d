"""The part of hour.py with damaged files for every command that reads files."""

from __future__ import annotations

import json
import random
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner
from log_bytes import batch, message

from conformance.cli import main

VECTORS = Path(__file__).parent.parent / "vectors"
_KNOWN = "- id: varint/*\n  reason: known\n  verdict: fail\n- {id: gen/*, reason: 'x', target: reference}\n"

_JUNK = (
    "null",
    "[]",
    "{}",
    "[[",
    "{{",
    "]",
    '"',
    "'",
    "\x00",
    "\xff",
    "&a",
    "*a",
    "!!python/name:os.system",
    "? ",
    ": ",
)
_JUNK += (
    "-1",
    "99999999999999999999",
    "1e999",
    "\t",
    "\n",
    "\ufeff",
    "\ud800",
    "<<: *x",
    "{repeat: 999999999, hex: '00'}",
)


def files(count: int, seed: int) -> list[str]:
    """Damage `count` files, run commands on them, print the statuses, and return the broken bounds."""
    started, statuses, slowest = time.perf_counter(), Counter[int](), (0.0, "")
    broken: list[str] = []
    for index in range(count):
        rng = random.Random(f"files/{seed}/{index}")  # noqa: S311 - repeatable on purpose
        kind = list(KINDS)[index % len(KINDS)]
        with tempfile.TemporaryDirectory() as place:
            begin = time.thread_time()
            try:
                statuses[KINDS[kind](Path(place), rng)] += 1
            except BaseException:  # noqa: BLE001 - whatever it is, it is counted
                broken.append(f"files/{seed}/{index} ({kind})\n{traceback.format_exc(limit=-4)}")
            slowest = max(slowest, (time.thread_time() - begin, f"files/{seed}/{index} ({kind})"))
    print(f"{count:,} damaged files, seed {seed}, in {time.perf_counter() - started:.0f} s; {len(KINDS)} kinds")
    print(f"statuses: {dict(sorted(statuses.items()))}; slowest: {slowest[0]:.1f} s of CPU time, {slowest[1]}")
    return broken


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """Return a file with a part cut off, changed, repeated or inserted."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(out) + 1)
        which = rng.randrange(6)
        if which == 0:
            del out[at:]
        elif which == 1:
            del out[at : at + rng.randint(1, 40)]
        elif which == 2 and at < len(out):
            out[at] = rng.randrange(256)
        elif which == 3:
            out[at:at] = out[max(0, at - rng.randint(1, 200)) : at] * rng.randint(1, 30)
        elif which == 4:
            out[at:at] = rng.choice(_JUNK).encode("utf-8", "surrogatepass")
        else:
            out[at:at] = rng.choice(("[", "{", "- ", "{a: ", '{"a":')).encode() * rng.choice((50, 3000))
    return bytes(out)


def _command(*arguments: object) -> int:
    """Return the status of a command, run in this process. Raise its exception, or AssertionError for a defect."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in (0, 1, 2, 3), f"status {done.exit_code}: {done.output[-500:]}"
    assert "Traceback" not in done.output, done.output[-1000:]
    return done.exit_code


def _vectors(folder: Path, rng: random.Random) -> int:
    source = rng.choice(sorted(path for path in VECTORS.glob("*/*.yaml") if path.stat().st_size < 30_000))
    path = folder / source.name
    path.write_bytes(_damaged(source.read_bytes(), rng))
    command = rng.choice((("vectors", "check"), ("vectors", "fix")))
    return _command(*command, path)


def _vectors_run(folder: Path, rng: random.Random) -> int:
    source = rng.choice(sorted((VECTORS / "primitives").glob("*.yaml")))
    text = source.read_bytes().replace(b"id: ", b"id: own/")
    (folder / "own.yaml").write_bytes(_damaged(text, rng))
    return _command(
        "run", "reference", "--vectors", folder, "--select", "own/*", "--generated", "0", "--quiet", "--jobs", "1"
    )


def _known(folder: Path, rng: random.Random) -> int:
    path = folder / "known.yaml"
    path.write_bytes(_damaged(_KNOWN.encode(), rng))
    options = ("--select", "varint/1", "--generated", "0", "--quiet", "--jobs", "1")
    return _command("run", "reference", "--known-failures", path, *options)


def _definition(folder: Path, rng: random.Random) -> int:
    source = rng.choice(sorted((VECTORS / "definitions").glob("*.json")))
    path = folder / source.name
    path.write_bytes(_damaged(source.read_bytes(), rng))
    against = ("--against", source) if rng.random() < 0.5 else ()
    return _command("lint", path, *against)


def _report(folder: Path, rng: random.Random) -> int:
    rows = [{"target": "reference", "id": f"varint/{at}", "verdict": "fail", "level": "must"} for at in range(5)]
    targets = [{"target": "reference", "describe": None, "status": 1}]
    report = {"suite": {"name": "kafka-conformance", "version": "0", "seed": 0}, "targets": targets, "summary": {}}
    text = json.dumps({**report, "results": rows}).encode()
    (folder / "old.json").write_bytes(text)
    (folder / "new.json").write_bytes(_damaged(text, rng))
    return _command("compare", folder / "old.json", folder / "new.json")


def _bytes(folder: Path, rng: random.Random) -> int:
    path = folder / "some.bin"
    path.write_bytes(_damaged(_log(rng), rng))
    return _command("explain", "--type", rng.choice(("LOG", "RECORD_BATCH", "MESSAGE_SET", "RECORDS")), f"@{path}")


def _log(rng: random.Random) -> bytes:
    makers: tuple[Callable[[int], bytes], ...] = (batch, message, lambda at: batch(at, compression=rng.randrange(5)))
    return b"".join(rng.choice(makers)(at) for at in range(rng.randint(1, 20)))


def _segment(folder: Path, rng: random.Random) -> int:
    """Audit a segment with its index in this process; Spark has separate tests."""
    from conformance.pipeline.audit.batch_checks import PartAudit
    from conformance.pipeline.audit.segment_reader import parts_of
    from conformance.pipeline.audit.segments import find_segments

    place = folder / rng.choice(("topic-0", "topic-99999999999", "t", "x-0-1"))
    place.mkdir()
    name = rng.choice((f"{0:020}", f"{5:020}", "9" * 20))
    (place / f"{name}.log").write_bytes(_damaged(_log(rng), rng))
    for suffix in ("index", "timeindex", "txnindex"):
        (place / f"{name}.{suffix}").write_bytes(rng.randbytes(rng.randrange(100)))
    found = 0
    for segment in find_segments([str(folder)]):
        for part in parts_of(segment, rng.choice((100, 1 << 20))):
            audit = PartAudit(part, {})
            found += sum(1 for _ in audit.findings())
            audit.rules.finish()
    return int(found > 0)


def _campaign(folder: Path, rng: random.Random) -> int:
    """Continue a campaign with a damaged manifest or slice, as far as possible without Spark."""
    from conformance.errors import ConformanceError
    from conformance.pipeline.campaign.slices import Campaign
    from conformance.pipeline.campaign.store import CampaignFolder

    campaign = Campaign(("reference",), ("INT8",), 1000)
    store = CampaignFolder(folder / "out")
    with store.opened(campaign):
        store.path_of(0).write_bytes(rng.randbytes(100))
    store.manifest.write_bytes(_damaged(store.manifest.read_bytes(), rng))
    try:
        with store.opened(campaign):
            assert store.remove_damaged() == [0]
    except ConformanceError as error:
        if "\n" in str(error):
            raise
        return int(error.exit_status)
    return 0


def _config(folder: Path, rng: random.Random) -> int:
    """Run a target that is a damaged Python file."""
    path = folder / "adapter.py"
    source = "def decode(type, data):\n    return 0, 1\n\n\ndef describe():\n    return {'name': 'x', 'version': '1'}\n"
    path.write_bytes(_damaged(source.encode(), rng))
    options = ("--select", "varint/1", "--generated", "0", "--quiet", "--jobs", "1", "--timeout", "2")
    return _command("run", f"module:{path}", *options)


KINDS: dict[str, Callable[[Path, random.Random], int]] = {
    "vectors": _vectors,
    "vectors that are run": _vectors_run,
    "known failures": _known,
    "definition": _definition,
    "report": _report,
    "bytes": _bytes,
    "segment": _segment,
    "campaign": _campaign,
    "module": _config,
}
"""By the kind of file, the function that damages one, reads it, and returns the status."""
