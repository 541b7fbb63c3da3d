"""What the README and the docs show works as shown."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PIPELINE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
ADAPTERS = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")


def conformance(*arguments, cwd):
    command = [sys.executable, "-m", "conformance", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def example(text, name):
    return re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]


def test_the_failure_in_the_readme_is_what_the_suite_prints(tmp_path):
    pytest.importorskip("aiokafka", reason="aiokafka is not installed (extra: clients)")
    shown = re.search(r"\$ conformance (run aiokafka .*?)\n(.*?)```", README, re.DOTALL)
    done = conformance(*shown[1].split(), cwd=tmp_path)
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert shown[2].splitlines() == printed[1 : 1 + len(shown[2].splitlines())]


def test_the_python_adapter_in_the_readme_is_in_order_and_finds_failures(tmp_path):
    pytest.importorskip("kafka", reason="kafka-python is not installed (extra: clients)")
    (tmp_path / "adapter.py").write_text(example(README, "adapter.py"))
    assert conformance("doctor", "module:./adapter.py", cwd=tmp_path).returncode == 0
    assert conformance("run", "module:./adapter.py", cwd=tmp_path).returncode == 1


def test_the_javascript_adapter_in_the_docs_is_in_order_and_takes_six_byte_varints(tmp_path):
    if not shutil.which("node"):
        pytest.skip("node is not on the PATH")
    (tmp_path / "adapter.mjs").write_text(example(ADAPTERS, "adapter.mjs"))
    done = conformance("doctor", "command:node adapter.mjs", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    done = conformance("run", "command:node adapter.mjs", cwd=tmp_path)
    assert done.returncode == 1
    assert "varint/six-bytes  fail" in done.stdout


@pytest.mark.parametrize("text", [README, ADAPTERS], ids=["readme", "adapters"])
def test_every_option_and_command_that_is_shown_exists(text, tmp_path):
    helps = conformance("--help", cwd=tmp_path).stdout
    run_help = conformance("run", "--help", cwd=tmp_path).stdout
    for command in re.findall(r"(?:^|`|bin/)conformance ([a-z]+)", text, re.MULTILINE):
        assert command in helps, command
    for option in re.findall(r"`(--[a-z-]+)", text):
        assert option in run_help or option in ("--requirements", "--kafka-target"), option


def test_every_option_of_a_campaign_that_is_shown_exists(tmp_path):
    shown = set(re.findall(r"(--[a-z][a-z-]+)", PIPELINE[: PIPELINE.index("With spark-submit")]))
    commands = ("campaign", "run", "targets")
    helps = " ".join(conformance(command, "--help", cwd=tmp_path).stdout for command in commands)
    assert {"--cases", "--out", "--master", "--corpus"} <= shown
    assert [option for option in sorted(shown) if option not in helps] == []
