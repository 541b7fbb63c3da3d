"""The guide for typed languages in docs/adapters.md: its programs run as shown, its names match the layouts."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import codec
from conformance.codec import json_notation as n
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.message_set import ENTRY, MESSAGE
from conformance.codec.record import HEADER, HEADER_LAYOUT, RECORD, RECORD_LAYOUT
from conformance.codec.record_batch import BATCH_LAYOUT, RECORD_BATCH
from conformance.semantics.consumer_view import RECORD_NOTATION, VIEW_NOTATION
from conformance.targets import reference

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")


def example(name):
    return re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL)[1]


def conformance(*arguments, cwd):
    command = [sys.executable, "-m", "conformance", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=200)


# --- the programs -------------------------------------------------------------------------------------


def test_the_go_program_equals_the_starter_of_new_adapter():
    assert example("adapter.go") == (ROOT / "adapters" / "starters" / "go" / "adapter.go").read_text(encoding="utf-8")


def test_records_shown_by_reflection_pass_doctor_and_conform(tmp_path):
    if not shutil.which("go") or subprocess.run(["go", "version"], capture_output=True, check=False).returncode:
        pytest.skip("go is not on the PATH: the guide's program was neither built nor judged")
    made = conformance("new-adapter", "--language", "go", ".", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    for name in ("notation.go", "record.go"):
        (tmp_path / name).write_text(example(name))
    built = subprocess.run(
        ["go", "build", "-o", "adapter", "."], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert built.returncode == 0, built.stderr
    examined = conformance("doctor", "command:./adapter", cwd=tmp_path)
    assert examined.returncode == 0, examined.stdout
    assert re.search("^ok    decode RECORD: sent 10000000026b027600, received ", examined.stdout, re.MULTILINE)
    arguments = ["run", "command:./adapter", "--select", "type:RECORD", "--generated", "50", "--fail-on", "should"]
    judged = conformance(*arguments, cwd=tmp_path)
    assert judged.returncode == 0, judged.stdout
    assert int(re.search(r"^cases: (\d+) pass", judged.stdout, re.MULTILINE)[1]) > 100


def exchanges():
    """Return the complete requests and answers of the guide's tables."""
    for request, answer in re.findall(r"^\| `(\{.*\})` \| `(\{.*\})` \|$", GUIDE, re.MULTILINE):
        try:
            yield json.loads(request), json.loads(answer)
        except ValueError:
            continue  # with LOG or ... instead of a value


def test_the_requests_of_the_tables_are_answered_as_shown():
    shown = [(request, answer) for request, answer in exchanges() if request["op"] != "describe"]
    assert {request["op"] for request, _ in shown} >= {"decode", "encode", "size", "sequence"}
    assert [{"id": request["id"], **reference.answer(request)} for request, _ in shown] == [one for _, one in shown]


# --- output of doctor ---------------------------------------------------------------------------------

FLOATING = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    named = {"name": "n", "version": "1", "language": "python", "via": {"decode VARINT": "public: adapter.decode"}}
    told = {
        "INT64": {"ok": True, "value": 1.0, "consumed": 8},
        "VARINT": {"ok": True, "value": 1, "consumed": 1},
        "describe": {"ok": True, "protocol": 1, "supports": {"decode": ["INT64", "VARINT"]}, **named},
    }.get(request.get("type", request["op"]), {"unsupported": "no"})
    print(json.dumps({"id": request["id"], **told}), flush=True)
"""


def test_doctor_prints_the_output_of_the_guide(tmp_path):
    shown = re.search(r"^ok    decode VARINT.*?(?=^```)", GUIDE, re.DOTALL | re.MULTILINE)[0].splitlines()
    (tmp_path / "t.py").write_text(FLOATING)
    lines = conformance("doctor", f"command:{sys.executable} t.py", cwd=tmp_path).stdout.splitlines()
    for line in shown:
        assert any(one.startswith(line.removesuffix("…")) for one in lines), (line, lines)


# --- the table of names -------------------------------------------------------------------------------

STRUCTURES = {
    "RECORD_BATCH": (BATCH_LAYOUT, RECORD_BATCH.notation),
    "RECORD": (RECORD_LAYOUT, RECORD.notation),
    "a RECORD in a batch, besides": (None, n.ObjectOf({"offset": n.DECIMAL, "timestamp": n.DECIMAL})),
    "a header": (HEADER_LAYOUT, HEADER.notation),
    "a message of a MESSAGE_SET": (LAYOUTS[1], MESSAGE),
    "an entry of magic 0 or 1 in a LOG": (LAYOUTS[1], ENTRY),
    "LOG": (None, codec.wire("LOG").notation),
    "CONTROL_RECORD": (None, codec.wire("CONTROL_RECORD").notation),
    "the value of `read`": (None, VIEW_NOTATION),
    "a record of `read`": (None, RECORD_NOTATION),
}


def on_the_wire(layout, name):
    """Return the type of a field, or its bits; "" for derived fields and fields without a type."""
    for field in layout.fields if layout else ():
        for bits in field.bits:
            if bits.name == name:
                last = bits.shift + bits.width - 1
                return (
                    f"bit{'s' if bits.width > 1 else ''} {bits.shift}{f' to {last}' * (bits.width > 1)} of {field.name}"
                )
        if field.name == name:
            return getattr(field.wire, "name", "") if getattr(field.wire, "name", "") in codec.TYPES else ""
    return ""


def takes_null(layout, name):
    field = next((field for field in layout.fields if field.name == name), None) if layout else None
    if field is None or not isinstance(field.wire, codec.WireType):
        return True
    try:
        field.wire.encode(None)
    except codec.Unencodable:
        return False
    return True


def written_as(layout, name, notation):
    if isinstance(notation, n.NamedNumber):
        return ", ".join([f"`{one}`" for one in (*notation.names, *notation.further)]) + ", or a number"
    nullable = notation.nullable if isinstance(notation, n.ListOf) else takes_null(layout, name)
    return notation.describes if nullable else notation.describes.removesuffix(" or null")


def table():
    lines = ["| in | field | on the wire | written as |", "|---|---|---|---|"]
    for structure, (layout, notation) in STRUCTURES.items():
        for name, one in notation.fields.items():
            lines.append(f"| {structure} | `{name}` | {on_the_wire(layout, name)} | {written_as(layout, name, one)} |")
    return "\n".join(lines) + "\n"


def test_the_table_of_names_matches_the_layouts():
    assert GUIDE.partition("<!-- names of fields -->\n")[2] == table()
