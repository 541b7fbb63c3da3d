"""A Python module as a target: its return values and exceptions, its environment, and its isolation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.targets.manifests import SHIM
from conformance.targets.resolve import resolve
from conformance.targets.session import TargetSession

MODULE = """
import os, sys, uuid
from conformance import Reject, Unsupported

def describe():
    return {"name": "m", "version": "1", "language": "python", "supports": {"decode": ["INT8"]}}

def decode(type, data, **parameters):
"""


@pytest.fixture
def module(tmp_path):
    """Return a function that writes a target module with this body of `decode` and returns its path."""

    def write(body="    return 1\n", rest="", name="target.py"):
        path = tmp_path / name
        path.write_text(MODULE + body + rest)
        return path

    return write


@pytest.fixture
def answers(traces):
    """Return a function from a module and requests to the answers and the standard error of the shim."""

    def ask(path, *requests, python=sys.executable, cwd=None):
        lines = "".join(json.dumps({"id": number, **request}) + "\n" for number, request in enumerate(requests))
        ended = subprocess.run(
            [python, str(SHIM), str(path)],
            input=lines, env=traces.env, capture_output=True, text=True, timeout=60, check=False, cwd=cwd,
        )  # fmt: skip
        found = [json.loads(line) for line in ended.stdout.splitlines()]
        assert [answer.pop("id") for answer in found] == list(range(len(found)))
        return found, ended

    return ask


@pytest.fixture
def answer(module, answers):
    """Return a function from a body of `decode` to the answer of its module."""

    def ask(body, rest="", **parameters):
        request = {"op": "decode", "type": "INT8", "hex": "01ff", **parameters}
        (found,), ended = answers(module(body, rest), request)
        assert ended.returncode == 0
        return found

    return ask


# --- return values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "answered"),
    [
        ("1", {"value": 1}),
        ("None", {"value": None}),
        ("(1, 2)", {"value": 1, "consumed": 2}),
        ("(None, 2)", {"value": None, "consumed": 2}),
        ("(1, None)", {"value": 1}),
        ("(..., 2)", {"consumed": 2}),
        ("...", {}),
        ("(..., None)", {}),
        ("{'value': 1, 'consumed': 2}", {"value": 1, "consumed": 2}),
        ("{'consumed': 2}", {"consumed": 2}),
        ("{'value': 1}", {"value": {"value": 1}}),
        ("{'key': b'k', 'value': b'v'}", {"value": {"key": "6b", "value": "76"}}),
        ("([(1, 2)], 9)", {"value": [[1, 2]], "consumed": 9}),
    ],
)
def test_a_decoder_returns_a_value_or_a_value_and_the_bytes_consumed(returned, answered, answer):
    assert answer(f"    return {returned}\n") == {"ok": True, **answered}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("data", "01ff"),
        ("bytearray(data)", "01ff"),
        ("memoryview(data)", "01ff"),
        ("b''", ""),
        ("True", True),
        ("-(2**63)", -(2**63)),
        ("'gr\\u00fcn'", "grün"),
        ("'\\udcff'", "\udcff"),
        ("1.0", "3ff0000000000000"),
        ("-0.0", "8000000000000000"),
        ("float('nan')", "7ff8000000000000"),
        ("uuid.UUID(int=1)", "00000000-0000-0000-0000-000000000001"),
        ("[(), (b'a', None)]", [[], ["61", None]]),
        ("{1: {'a': (b'x',)}}", {"1": {"a": ["78"]}}),
    ],
)
def test_values_are_rendered_in_the_notation(value, shown, answer):
    assert answer(f"    return {value}, 1\n") == {"ok": True, "value": shown, "consumed": 1}


def test_a_value_without_a_notation_is_a_crash_with_its_class(answer):
    assert answer("    return {1, 2}, 1\n") == {"crash": "TypeError: an object of class set has no notation"}


@pytest.mark.parametrize(
    ("returned", "answered"),
    [
        ("b'\\x01'", {"ok": True, "hex": "01"}),
        ("bytearray(b'\\x01')", {"ok": True, "hex": "01"}),
        ("'01'", {"ok": True, "hex": "01"}),
        ("5", {"crash": "TypeError: encode returned int, not bytes"}),
        ("None", {"crash": "TypeError: encode returned NoneType, not bytes"}),
    ],
)
def test_an_encoder_returns_bytes_or_hex_digits(returned, answered, module, answers):
    path = module(rest=f"def encode(type, value, **parameters):\n    return {returned}\n")
    (found,), _ = answers(path, {"op": "encode", "type": "INT8", "value": 1})
    assert found == answered


def test_operations_get_type_input_and_parameters(module, answers):
    path = module(
        "    return [type, data, sorted(parameters.items())], 1\n",
        "def encode(type, value, **parameters):\n    return type.encode() + bytes([value, len(parameters)])\n"
        "def size(type, value, **parameters):\n    return value\n",
    )
    found, _ = answers(
        path,
        {"op": "decode", "type": "MESSAGE", "hex": "00ff", "message": "FetchRequest", "version": 12},
        {"op": "encode", "type": "INT8", "value": 1, "magic": 2},
        {"op": "size", "type": "INT8", "value": 7},
    )
    assert found[0]["value"] == ["MESSAGE", "00ff", [["message", "FetchRequest"], ["version", 12]]]
    assert found[1:] == [{"ok": True, "hex": b"INT8\x01\x01".hex()}, {"ok": True, "size": 7}]


WHOLE_LOGS = """
def read(data, **options):
    records = [{"offset": 2**62, "value": data}]
    return {"records": records, "nextOffset": options["fetchOffset"], "options": sorted(options)}

def convert(data, **options):
    return data[::-1] + bytes([options["magic"]])

def sequence(batches):
    return ["accept" if batch["baseSequence"] == 0 else "out-of-order" for batch in batches]
"""


def test_operations_on_whole_logs_get_the_bytes_and_the_parameters(module, answers):
    path = module(rest=WHOLE_LOGS)
    found, _ = answers(
        path,
        {"op": "read", "hex": "01ff", "isolation": "read_committed", "fetchOffset": "5", "aborted": []},
        {"op": "convert", "hex": "01ff", "magic": 1},
        {"op": "sequence", "batches": [{"baseSequence": 0}, {"baseSequence": 7}]},
    )
    assert found == [
        {
            "ok": True,
            "value": {
                "records": [{"offset": 2**62, "value": "01ff"}],
                "nextOffset": "5",
                "options": ["aborted", "fetchOffset", "isolation"],
            },
        },
        {"ok": True, "hex": "ff0101"},
        {"ok": True, "value": ["accept", "out-of-order"]},
    ]


@pytest.mark.parametrize(
    "request_",
    [
        {"op": "read", "hex": "", "isolation": "read_committed", "fetchOffset": "0", "aborted": []},
        {"op": "convert", "hex": "", "magic": 1},
        {"op": "sequence", "batches": []},
    ],
)
def test_a_missing_operation_on_whole_logs_is_unsupported(request_, module, answers):
    (found,), _ = answers(module(), request_)
    assert found == {"unsupported": f"no operation {request_['op']}"}


@pytest.mark.parametrize(
    ("body", "answered"),
    [
        ("raise Reject('corrupt', 'crc')", {"ok": False, "error": "corrupt", "message": "crc"}),
        ("raise Unsupported('magic 0')", {"unsupported": "magic 0"}),
        ("raise IndexError('past the end')", {"crash": "IndexError: past the end"}),
        ("return None", {"crash": "TypeError: convert returned NoneType, not bytes"}),
    ],
)
def test_a_conversion_is_handled_like_other_operations(body, answered, module, answers):
    path = module(rest=f"def convert(data, **options):\n    {body}\n")
    (found,), _ = answers(path, {"op": "convert", "hex": "", "magic": 0})
    assert found == answered


def test_describe_gets_missing_parts(module, answers):
    (found,), _ = answers(module(), {"op": "describe", "protocol": 1})
    assert (found["ok"], found["protocol"], found["supports"]) == (True, 1, {"decode": ["INT8"]})


def test_a_missing_operation_is_unsupported(module, answers):
    requests = [{"op": "size", "type": "INT8", "value": 1}, {"op": "load", "type": "INT8"}, {"op": "describe"}, {}]
    found, _ = answers(module(), *requests)
    assert ["unsupported" in answer for answer in found] == [True, True, False, True]


# --- exceptions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "answered"),
    [
        ("Reject('malformed', 'too long')", {"ok": False, "error": "malformed", "message": "too long"}),
        ("Reject('corrupt')", {"ok": False, "error": "corrupt", "message": ""}),
        ("Unsupported('no such type')", {"unsupported": "no such type"}),
        ("Unsupported", {"unsupported": "unsupported"}),
        ("ValueError('no')", {"ok": False, "error": "other", "message": "ValueError: no"}),
        ("UnicodeDecodeError('utf-8', b'', 0, 1, 'bad')", None),
        ("TypeError('no')", {"crash": "TypeError: no"}),
        ("KeyError('k')", {"crash": "KeyError: 'k'"}),
        ("MemoryError()", {"crash": "MemoryError: "}),
        ("SystemExit(0)", {"crash": "SystemExit: 0"}),
        ("GeneratorExit()", {"crash": "GeneratorExit: "}),
    ],
)
def test_a_declared_exception_is_a_rejection_and_others_are_crashes(raised, answered, answer):
    found = answer(f"    raise {raised}\n", "REJECTIONS = (ValueError,)\n")
    if answered is None:
        assert (found["ok"], found["error"]) == (False, "other")
    else:
        assert found == answered


def test_endless_recursion_is_a_crash_and_the_next_request_is_answered(module, answers):
    # Without **parameters in the recursion, because Python 3.13.0 never returns from that.
    path = module("    return deeper(1) if data else 1\n", "def deeper(n):\n    return deeper(n + 1)\n")
    requests = [{"op": "decode", "type": "INT8", "hex": digits} for digits in ("01", "")]
    found, ended = answers(path, *requests)
    assert found[0]["crash"].startswith("RecursionError")
    assert found[1] == {"ok": True, "value": 1}
    assert ended.returncode == 0


def test_a_crash_inside_describe_is_reported(module, answers):
    path = module()
    path.write_text("def describe():\n    raise KeyError('name')\n")
    assert answers(path, {"op": "describe"})[0] == [{"crash": "KeyError: 'name'"}]


# --- environment and isolation ------------------------------------------------------------------------


def test_printed_text_of_a_module_goes_to_standard_error(module, answers):
    path = module("    print('debug'); os.write(1, b'raw'); os.system('echo child'); return 1\n", "print('loaded')\n")
    found, ended = answers(path, {"op": "decode", "type": "INT8", "hex": "01"})
    assert found == [{"ok": True, "value": 1}]
    assert {"loaded", "debug", "rawchild"} <= set(ended.stderr.split())


def test_a_module_sees_only_two_names_of_conformance(answer):
    body = """
    import importlib, conformance
    hidden = []
    for name in ("conformance.codec", "shim", "session", "serving"):
        try:
            importlib.import_module(name)
        except ImportError:
            hidden.append(name)
    return [sorted(name for name in vars(conformance) if name[0] != "_"), hidden], 1
"""
    assert answer(body)["value"] == [
        ["Reject", "Unsupported"],
        ["conformance.codec", "shim", "session", "serving"],
    ]


def test_objects_of_a_loaded_module_are_excluded_from_garbage_collection(answer):
    """A collection would copy all of their memory in a forked process."""
    body = """
    import gc
    argument = [data]
    return [any(one is LOADED for one in gc.get_objects()), any(one is argument for one in gc.get_objects())]
"""
    assert answer(body, "LOADED = [object()]\n")["value"] == [False, True]


def test_invalid_request_lines_do_not_end_the_shim(module, traces):
    ended = subprocess.run(
        [sys.executable, str(SHIM), str(module())],
        input='{"id"\n\n[1]\n{"id":3,"op":"decode","type":"INT8","hex":"01"}\n',
        env=traces.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ["unsupported" in answer for answer in found] == [True, True, False]
    assert found[2] == {"ok": True, "value": 1, "id": 3}
    assert ended.returncode == 0


def test_long_requests_and_answers_are_transmitted(module, answers):
    path = module("    return data * 4, len(data)\n")
    (found,), _ = answers(path, {"op": "decode", "type": "BYTES", "hex": "ab" * (2 << 20)})
    assert (len(found["value"]), found["consumed"]) == (16 << 20, 2 << 20)


# --- names and starts ---------------------------------------------------------------------------------


def conformance_run(env, cwd, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "conformance", "run", *arguments, "--case", "INT8:01"],
        env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("target", ["module:./target.py", "module:target", "module:nested.deeper"])
def test_a_module_is_named_by_its_file_or_by_its_dotted_name(target, module, traces, tmp_path):
    (tmp_path / "nested").mkdir()
    module()
    module(name="nested/deeper.py")
    ended = conformance_run(traces.env, tmp_path, target)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_file_may_import_its_neighbours(module, answers, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "beside.py").write_text("ONE = 1\n")
    path = module("    return ONE\n", "from beside import ONE\n", name="folder/target.py")
    assert answers(path, {"op": "decode", "type": "INT8", "hex": "01"}, cwd=tmp_path)[0] == [{"ok": True, "value": 1}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def decode(:\n", "SyntaxError"),
        ("raise SystemExit('not today')\n", "SystemExit: not today"),
    ],
)
def test_a_module_that_does_not_import_is_a_line_and_exit_status_3(text, message, traces, tmp_path):
    (tmp_path / "target.py").write_text(text)
    ended = conformance_run(traces.env, tmp_path, "module:./target.py")
    assert ended.returncode == 3
    shown = " ".join(ended.stdout.split())
    assert "cannot import ./target.py" in shown
    assert message in shown
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("target", ["module:./none.py", "module:"])
def test_a_missing_module_is_exit_status_2(target, traces, tmp_path):
    ended = conformance_run(traces.env, tmp_path, target)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("conformance: module:")
    assert ended.stderr.count("\n") == 1


def test_a_module_target_is_a_process_like_any_other(module):
    with TargetSession(resolve(f"module:{module()}")) as session:
        assert session.describe().name == "m"


# --- old interpreters ---------------------------------------------------------------------------------


def _python(version):
    """Return a working interpreter of a version, or skip."""
    pyenv = shutil.which("pyenv")
    root = (
        subprocess.run([pyenv, "root"], capture_output=True, text=True, check=True).stdout.strip() if pyenv else "/none"
    )
    candidates = [
        *map(str, sorted(Path(root).glob(f"versions/{version}.*/bin/python"))),
        shutil.which(f"python{version}"),
    ]
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_a_module_runs_under_the_python_of_the_users_choice(version, module, answers, traces, tmp_path):
    python = _python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    path = module(
        "    if data == b'\\x02': raise Reject('malformed', 'two')\n    return [data, 1.0, sys.version[:3]], 1\n"
    )
    requests = [{"op": "decode", "type": "INT8", "hex": digits} for digits in ("01", "02")]
    found, _ = answers(path, *requests, python=python)
    assert found == [
        {"ok": True, "value": ["01", "3ff0000000000000", version[:3]], "consumed": 1},
        {"ok": False, "error": "malformed", "message": "two"},
    ]
    module("    return 1, 1\n")
    assert conformance_run(traces.env, tmp_path, "module:./target.py", "--python", python).returncode == 0
