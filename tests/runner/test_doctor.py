"""`conformance doctor` distinguishes a correct adapter from a misleading one."""

import json
import re
import shlex
import sys

import pytest
from command_line import conformance

from conformance.definitions.loader import shipped_types
from conformance.runner.doctor import examine
from conformance.targets.resolve import resolve
from conformance.targets.session import TargetSession

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
    return conformance("doctor", f"command:{sys.executable} t.py", cwd=tmp_path)


def test_a_correct_adapter_passes(tmp_path):
    done = doctor(tmp_path, SOUND)
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout


@pytest.mark.parametrize("good, bad, named", UNSOUND.values(), ids=UNSOUND)
def test_each_fault_of_an_adapter_is_reported(tmp_path, good, bad, named):
    assert good in SOUND
    done = doctor(tmp_path, SOUND.replace(good, bad))
    assert done.returncode == 3
    assert any("FAIL" in line and named in line for line in done.stdout.splitlines()), done.stdout


def test_each_claim_is_shown_with_its_request_and_answer(tmp_path):
    assert re.search(
        "^ok    decode INT8: sent 01, received 1, consumed 1$", doctor(tmp_path, SOUND).stdout, re.MULTILINE
    )


def test_an_answer_in_another_form_is_shown_with_a_correct_one(tmp_path):
    done = doctor(tmp_path, SOUND.replace('int.from_bytes(data[:1], "big", signed=True)', '"five"'))
    at = done.stdout.index("FAIL  decode INT8: ")
    assert done.stdout[at:].splitlines()[:5] == [
        (
            """FAIL  decode INT8: sent 01, received "five", consumed 1: the answer is not in the notation of INT8: """
            """expected a number, found 'five'"""
        ),
        '      sent     {"op":"decode","type":"INT8","hex":"01"}',
        '      received {"ok":true,"value":"five","consumed":1}',
        '      expected {"ok":true,"value":1,"consumed":1}',
        "      docs/adapters.md#how-values-are-written describes the notation of each type",
    ]


def test_a_crash_among_many_requests_is_reported_with_its_cause(tmp_path):
    dies = "for number, line in enumerate(sys.stdin):\n    if number == 100:\n        sys.exit(9)"
    done = doctor(tmp_path, SOUND.replace("for line in sys.stdin:", dies))
    assert done.returncode == 3
    assert re.search("^FAIL  answers 200 requests at once in order: exited with status 9", done.stdout, re.MULTILINE)


SLOW_TO_END = "import atexit, time; atexit.register(lambda: time.sleep({}))\nfor line in sys.stdin:"


def test_an_adapter_that_ends_slowly_passes(tmp_path):
    done = doctor(tmp_path, SOUND.replace("for line in sys.stdin:", SLOW_TO_END.format(3)))
    assert done.returncode == 0, done.stdout
    assert "\nok    exits with 0 at the end of input\n" in done.stdout
    assert re.search(r"\nchecks: \d+ ok(, \d+ note)?\n\Z", done.stdout)


def test_an_adapter_that_does_not_end_is_killed_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(TargetSession.finish, "__kwdefaults__", {"timeout": 0.5})
    (tmp_path / "t.py").write_text(SOUND.replace("for line in sys.stdin:", SLOW_TO_END.format(600)))
    launch = resolve(f"command:{shlex.join([sys.executable, str(tmp_path / 't.py')])}")
    *others, last = examine(launch, shipped_types())
    assert all(check.good for check in others)
    assert (last.good, last.detail) == (False, "it did not exit and was killed")


def test_a_wrong_value_is_a_failure_of_the_target_and_not_of_its_claim(tmp_path):
    done = doctor(tmp_path, SOUND.replace('"big", signed=True)', '"big", signed=True) + 1'))
    assert done.returncode == 0
    assert re.search("^note  decode INT8: .*; fail on a plain value: the value differs$", done.stdout, re.MULTILINE)
    assert '\n      expected {"ok":true,"value":1,"consumed":1}\n' in done.stdout
    assert not re.search("on a plain value", doctor(tmp_path, SOUND).stdout)


def test_missing_entry_points_are_reported(tmp_path):
    done = doctor(tmp_path, SOUND)
    assert done.returncode == 0
    assert re.search(r"^note  names in `via` .*: missing: decode INT8$", done.stdout, re.MULTILINE)


def test_complete_entry_points_are_not_reported(tmp_path):
    via = '"protocol": 1, "via": {"decode INT8": "public: poll"},'
    done = doctor(tmp_path, SOUND.replace('"protocol": 1,', via))
    assert done.returncode == 0
    assert re.search(r"^ok    names in `via` [^:]*$", done.stdout, re.MULTILINE)


def test_a_few_missing_entry_points_are_named_and_the_others_counted(tmp_path):
    many = [f"T{number}" for number in range(20)]
    done = doctor(tmp_path, SOUND.replace('["INT8"]', f'["INT8", *{many}]'))
    assert re.search(r"^note  names in `via` .*: missing: decode INT8, T0, .*, 13 more$", done.stdout, re.MULTILINE)


def test_an_entry_point_without_a_claim_is_reported(tmp_path):
    via = '"protocol": 1, "via": {"decode": "public: poll", "encode INT8": "public: send"},'
    done = doctor(tmp_path, SOUND.replace('"protocol": 1,', via))
    assert done.returncode == 0
    assert re.search(r"^note  names in `via` .*: not claimed: encode INT8$", done.stdout, re.MULTILINE)


def test_the_reference_passes(tmp_path):
    done = conformance("doctor", "reference", cwd=tmp_path)
    assert done.returncode == 0
    assert "FAIL" not in done.stdout


# --- messages, whole logs, formats, entry points ------------------------------------------------------

OF_THE_REFERENCE = """
import json, sys
from conformance.targets.reference import answer
description = {description}
def changed_answer(request):
    op, name, version = (request.get(key) for key in ("op", "message", "version"))
    answered = answer(request)
    if op == "describe":
        return {{**answered, "language": "python", **description}}
    {deed}
    return answered
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({{"id": request["id"], **changed_answer(request)}}), flush=True)
"""


def checks(tmp_path, description, deed="pass"):
    """Return the checks of `doctor` for an adapter like the reference, with another description and a fault."""
    (tmp_path / "t.py").write_text(OF_THE_REFERENCE.format(description=description, deed=deed))
    launch = resolve(f"command:{shlex.join([sys.executable, str(tmp_path / 't.py')])}")
    return {check.what: check for check in examine(launch, shipped_types())}


HEARTBEATS = {"supports": {"decode": ["MESSAGE"], "encode": ["MESSAGE"]}, "messages": {"HeartbeatRequest": "0-4"}}
LOGS = {"supports": {"read": True, "convert": True, "sequence": True}}


def test_a_claimed_message_is_tested_in_each_version(tmp_path):
    found = checks(tmp_path, HEARTBEATS)
    assert [check for check in found.values() if not check.good] == []
    assert found["decode HeartbeatRequest 0-4"].detail.startswith("version 4 (all 5 alike): sent 0100000000010000, rec")
    assert found["encode HeartbeatRequest 0-4"].detail.endswith(", received 0100000000010000")
    assert not [what for what in found if "does not judge" in what]


def test_unknown_keys_of_describe_are_reported_with_similar_names(tmp_path):
    description = {"supports": {"decodes": ["INT8"], "read": True}, "magic": [2], "colour": "red"}
    check = checks(tmp_path, description)["describe has entries that this release of the suite does not read"]
    assert check.good
    assert check.detail == "magic (is it magics?), colour, supports.decodes (is it decode or encode?)"


def test_a_generic_codec_gets_every_message_with_its_definition(tmp_path):
    deed = "if 'message' in request and 'definition' not in request: return {'unsupported': 'no definition'}"
    found = checks(tmp_path, {"supports": {"decode": ["MESSAGE"]}}, deed)
    assert len([what for what in found if re.match(r"decode [A-Z]\w+ \d", what)]) == len(shipped_types().messages) > 40
    assert [check for check in found.values() if not check.good] == []


def test_a_missing_version_between_others_is_accepted_but_not_all_versions(tmp_path):
    found = checks(tmp_path, HEARTBEATS, "if version == 2: return {'unsupported': 'no version 2'}")
    check = found["decode HeartbeatRequest 0-4"]
    assert check.good
    assert re.match("version 2: sent [0-9a-f]+, received unsupported", check.detail)
    check = checks(tmp_path, HEARTBEATS, "if name and op == 'decode': return {'unsupported': 'no'}")
    assert not check["decode HeartbeatRequest 0-4"].good
    assert "although it is claimed" in check["decode HeartbeatRequest 0-4"].detail
    assert check["encode HeartbeatRequest 0-4"].good


def test_fields_with_other_names_are_reported(tmp_path):
    deed = "if name and op == 'decode': answered['value'] = {'groupId': answered['value'].pop('GroupId')}"
    check = checks(tmp_path, HEARTBEATS, deed)["decode HeartbeatRequest 0-4"]
    assert check.good
    assert "shows fields that are not judged: groupId; does not show GroupId, GenerationId, MemberId" in check.detail


def test_messages_and_versions_without_a_definition_are_reported(tmp_path):
    description = {**HEARTBEATS, "messages": {"HeartbeatRequest": "3-9", "VoteRequest": "0"}}
    found = checks(tmp_path, description)
    assert found["decode HeartbeatRequest 3-9"].detail.endswith(
        "its definition has the versions 0-4, so other versions are not tested"
    )
    assert re.match("not tested: .*--definitions.* of VoteRequest$", found["decode MESSAGE"].detail)


def test_each_operation_on_whole_logs_is_tested(tmp_path):
    found = checks(tmp_path, LOGS)
    assert [check for check in found.values() if not check.good] == []
    assert re.match(r'sent [0-9a-f]+…, received \{"records":\[\{"offset":"0"', found["read"].detail)
    assert re.match(r"magic 1 to 2 \(all 2 alike\): sent [0-9a-f]+…, received [0-9a-f]+…$", found["convert"].detail)
    assert found["sequence"].detail.endswith(', received ["accept"]')
    assert {"answers empty input (read)", "answers a long line (read)"} <= set(found)


WRONG_LOGS = {
    "read": ("read", "answered['value'] = answered['value']['records']", "expected an object"),
    "records": ("read", "answered['value']['records'][0]['key'] = 'a2V5'", "expected hex digits or null"),
    "error": ("read", "answered['value']['error'] = 'damaged'", "error: expected one of malformed, corrupt"),
    "convert": ("convert", "del answered['hex']", "hex: expected hex digits"),
    "sequence": ("sequence", "answered['value'] = 'accept'", "expected 1 of accept, duplicate"),
    "fate": ("sequence", "answered['value'] = ['accepted']", "expected 1 of accept, duplicate"),
    "nothing": ("convert", "return {'unsupported': 'not yet'}", "although it is claimed"),
}


@pytest.mark.parametrize("operation, deed, named", WRONG_LOGS.values(), ids=WRONG_LOGS)
def test_an_answer_about_a_log_in_another_form_is_shown_with_a_correct_one(tmp_path, operation, deed, named):
    found = checks(tmp_path, LOGS, f"if op == {operation!r}: {deed}")
    assert {what.rpartition(": ")[2] for what, check in found.items() if not check.good} == {operation}
    assert named in found[operation].detail
    assert [line for line in found[operation].advice if line.startswith('expected {"ok":true,')]


def test_a_converter_may_support_one_direction(tmp_path):
    check = checks(tmp_path, LOGS, "if request.get('magic') == 1: return {'unsupported': 'up only'}")["convert"]
    assert check.good
    assert "magic 2 to 1: sent " in check.detail


BATCHES = {"supports": {"decode": ["RECORD_BATCH"]}}


def test_each_claimed_codec_and_magic_is_tested(tmp_path):
    deed = "if request.get('hex', '')[44:46] == '04': return {'unsupported': 'no zstd'}"
    found = checks(tmp_path, {**BATCHES, "codecs": ["none", "gzip", "zstd", "zlib"], "magics": [1, 2]}, deed)
    assert [what for what, check in found.items() if not check.good] == ["codec zstd: decode RECORD_BATCH"]
    assert "codec gzip: decode RECORD_BATCH" in found
    assert found["codec zlib"].detail == "unknown codec, expected one of none, gzip, snappy, lz4, zstd"
    assert found["magic 1"].detail == "not tested: no claimed operation reads this format"
    assert "received {" in found["magic 2: decode RECORD_BATCH"].detail


def test_unused_entry_points_are_not_tested_and_reported_as_such(tmp_path):
    description = {
        "supports": {"decode": ["INT8", "INT16"]},
        "via": {"decode": "public: poll", "decode INT8": "unused: byte"},
    }
    found = checks(tmp_path, description, "assert request.get('type') != 'INT8'")
    assert [check for check in found.values() if not check.good] == []
    assert found["decode INT8"].detail == "not tested, because the library does not use this call: via unused: byte"
    assert found["decode INT16"].detail.endswith("; via public: poll")


def test_doctor_accepts_definitions_of_claimed_messages(tmp_path):
    definition = {"type": "data", "name": "Mine", "validVersions": "0", "flexibleVersions": "none", "fields": []}
    (tmp_path / "Mine.json").write_text(
        json.dumps({**definition, "fields": [{"name": "A", "type": "int8", "versions": "0+"}]})
    )
    description = {"supports": {"decode": ["MESSAGE"]}, "messages": {"Mine": "0"}}
    (tmp_path / "t.py").write_text(
        OF_THE_REFERENCE.format(description=description, deed="if name: return {'ok': True, 'value': {'A': 0}}")
    )
    done = conformance("doctor", f"command:{sys.executable} t.py", "--definitions", "Mine.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(
        '^note  decode Mine 0: version 0: sent 00, received {"A":0}; shows no `consumed`', done.stdout, re.MULTILINE
    )
