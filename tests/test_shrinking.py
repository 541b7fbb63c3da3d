"""Shrinking: what a planted defect comes down to, and what is saved of it."""

import subprocess
import sys

import pytest

from conformance import run, shrinking
from conformance.catalog import read_catalog
from conformance.generated import generated_cases
from conformance.run import Asker, Plan, run_target
from conformance.saving import save_all
from conformance.strategies.shrink import Budget, shrink_bytes, shrink_value
from conformance.targets import protocol, reference
from conformance.targets.liars import LIARS
from conformance.vector_files import read_vectors
from conformance.vector_tool import check

PLANTED = {
    "varint-without-limit": ("VARINT", 6),
    "trusts-lengths": ("STRING", 2),
    "only-one-is-true": ("BOOLEAN", 1),
    "unsigned-as-signed": ("UINT16", 2),
    "null-as-empty": ("NULLABLE_STRING", 2),
    "int64-as-double": ("INT64", 8),
    "crc-unchecked": ("RECORD_BATCH", 61),
    "always-create-time": ("RECORD_BATCH", 61),
    "drops-the-last-record": ("RECORD_BATCH", 68),
    "whole-seconds": ("RECORD_BATCH", 68),
    "offsets-from-zero": ("RECORD_BATCH", 68),
    "folds-headers": ("RECORD_BATCH", 72),
    "still-compressed": ("RECORD_BATCH", 77),
}
"""Liar: the type it is wrong about, and the smallest bytes that show it: an empty batch has 61, a record 7."""


class Lying(Asker):
    """A liar, in process."""

    def __init__(self, liar):
        self.liar = liar

    def describe(self):
        return protocol.description(reference.describe())

    def ask(self, cases):
        for case in cases:
            yield protocol.outcome(self.liar.lie(case.request, reference.answer(case.request)))

    def close(self):
        pass


@pytest.fixture(scope="module")
def catalog():
    return read_catalog()


def judged(name, catalog, monkeypatch):
    liar = LIARS[name]
    monkeypatch.setattr(run, "_asker_for", lambda *_: Lying(liar))
    cases = list(generated_cases((PLANTED[name][0],), 150, 0, catalog))
    record, results = run_target(name, None, cases, catalog, Plan())
    list(results)
    record.shrunk += shrinking.shrink_all(record, None, catalog, Plan())
    return record


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_shrinks_to_within_twice_the_smallest_bytes_that_show_it(name, catalog, monkeypatch, tmp_path):
    record = judged(name, catalog, monkeypatch)
    sizes = [len(found.result.case.data) for found in record.shrunk if found.result.case.op == "decode"]
    assert sizes
    assert min(sizes) <= 2 * PLANTED[name][1]
    assert all(found.result.failed for found in record.shrunk)
    paths = save_all([record], tmp_path)
    assert len(paths) == len(record.shrunk)
    for path in paths:
        assert list(check(path)) == []
        assert len(list(read_vectors(path))) == 1


def test_shrinking_keeps_what_is_asked_for_and_stops_at_its_budget():
    asked = []

    def shows(data):
        asked.append(data)
        return data.startswith(b"\x01")

    assert shrink_bytes("INT8", b"\x01" + bytes(100), shows) == b"\x01"
    asked.clear()
    shrink_bytes("INT8", b"\x01" + bytes(100), shows, Budget(questions=3))
    assert len(asked) <= 3


def test_a_value_shrinks_to_the_smallest_that_still_shows_it():
    assert shrink_value("ARRAY<INT32>", [5, -900, 17], lambda value: any(entry < -100 for entry in value)) == [-101]
    assert 2**28 <= shrink_value("VARINT", 408_117_476, lambda value: value >= 2**28) <= 2**28 + 2**12
    assert shrink_value("INT64", "-700", lambda value: int(value) < -100) == "-101"
    assert shrink_value("ARRAY<BOOLEAN>", [True, True], bool) == [False]
    assert shrink_value("STRING", "abcdef", lambda value: value is not None and "c" in value) in ("abc", "c")


def test_saved_failures_run_as_vectors_and_show_the_same(tmp_path):
    target = f"command:{sys.executable} -m conformance.targets.liars only-one-is-true"
    arguments = [sys.executable, "-m", "conformance", "run", target]
    first = [*arguments, "--select", "type:BOOLEAN", "--save-failures", "saved"]
    assert subprocess.run(first, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    again = subprocess.run(
        [*arguments, "--vectors", "saved", "--select", "bytes/*"], cwd=tmp_path, capture_output=True, check=False
    )
    assert again.returncode == 1, again.stdout.decode()
