"""`conformance doctor` tells a sound adapter from one that would mislead."""

import re
import subprocess
import sys

import pytest

SOUND = """
import json, sys
def answer(request):
    if request["op"] == "describe":
        named = {"name": "n", "version": "1", "language": "python"}
        return {"ok": True, "protocol": 1, **named, "supports": {"decode": ["INT8"]}}
    if request["op"] != "decode" or request["type"] != "INT8":
        return {"unsupported": "no"}
    data = bytes.fromhex(request["hex"])
    if not data:
        return {"ok": False, "error": "malformed"}
    return {"ok": True, "value": int.from_bytes(data[:1], "big", signed=True), "consumed": 1}
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], **answer(request)}), flush=True)
"""

UNSOUND = {
    "claims what it lacks": ('["INT8"]', '["INT8", "INT16"]', "decode INT16"),
    "does not admit unknown types": ('request["type"] != "INT8"', 'request["type"] == 0', "unknown type"),
    "writes a value out of notation": ('int.from_bytes(data[:1], "big", signed=True)', '"five"', "decode INT8"),
    "prints beside its answers": (
        "request = json.loads(line)",
        'request = json.loads(line); print("debug")',
        "describe",
    ),
    "answers with another id": ('{"id": request["id"], **', '{"id": 7, **', "describe"),
    "exits with a status": (
        "for line in sys.stdin:",
        "import atexit, os; atexit.register(lambda: os._exit(3))\nfor line in sys.stdin:",
        "end of input",
    ),
    "does not say its name": ('"name": "n"', '"name": ""', "name"),
}


def doctor(tmp_path, program):
    (tmp_path / "t.py").write_text(program)
    command = [sys.executable, "-m", "conformance", "doctor", f"command:{sys.executable} t.py"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_a_sound_adapter_passes(tmp_path):
    done = doctor(tmp_path, SOUND)
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout


@pytest.mark.parametrize("good, bad, named", UNSOUND.values(), ids=UNSOUND)
def test_an_unsound_adapter_is_told_what_is_wrong(tmp_path, good, bad, named):
    assert good in SOUND
    done = doctor(tmp_path, SOUND.replace(good, bad))
    assert done.returncode == 3
    assert any("FAIL" in line and named in line for line in done.stdout.splitlines()), done.stdout


def test_a_death_among_many_requests_is_told_with_how_it_died(tmp_path):
    dies = "for number, line in enumerate(sys.stdin):\n    if number == 100:\n        sys.exit(9)"
    done = doctor(tmp_path, SOUND.replace("for line in sys.stdin:", dies))
    assert done.returncode == 3
    assert re.search(
        "^FAIL  200 requests at once are answered in order: exited with status 9", done.stdout, re.MULTILINE
    )


def test_a_wrong_value_is_the_target_s_own_and_told_beside_a_sound_claim(tmp_path):
    done = doctor(tmp_path, SOUND.replace('"big", signed=True)', '"big", signed=True) + 1'))
    assert done.returncode == 0
    assert re.search("^ok    decode INT8: fail on a plain value: ", done.stdout, re.MULTILINE)
    assert not re.search("on a plain value", doctor(tmp_path, SOUND).stdout)


def test_an_adapter_that_says_nothing_of_doors_is_told_which_are_missing(tmp_path):
    done = doctor(tmp_path, SOUND)
    assert done.returncode == 0
    assert re.search(r"^ok    says by `via` .*: not of decode INT8$", done.stdout, re.MULTILINE)


def test_an_adapter_that_names_each_door_hears_nothing_more_of_it(tmp_path):
    via = '"protocol": 1, "via": {"decode INT8": "public: poll"},'
    done = doctor(tmp_path, SOUND.replace('"protocol": 1,', via))
    assert done.returncode == 0
    assert re.search(r"^ok    says by `via` [^:]*$", done.stdout, re.MULTILINE)


def test_of_many_missing_doors_a_few_are_named_and_the_others_counted(tmp_path):
    many = [f"T{number}" for number in range(20)]
    done = doctor(tmp_path, SOUND.replace('["INT8"]', f'["INT8", *{many}]'))
    assert re.search(r"^ok    says by `via` .*: not of decode INT8, T0, .*, 13 more$", done.stdout, re.MULTILINE)


def test_a_door_of_what_is_not_claimed_is_told(tmp_path):
    via = '"protocol": 1, "via": {"decode": "public: poll", "encode INT8": "public: send"},'
    done = doctor(tmp_path, SOUND.replace('"protocol": 1,', via))
    assert done.returncode == 0
    assert re.search(r"^ok    says by `via` .*: of what it does not claim: encode INT8$", done.stdout, re.MULTILINE)


def test_the_reference_passes(tmp_path):
    command = [sys.executable, "-m", "conformance", "doctor", "reference"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "FAIL" not in done.stdout
