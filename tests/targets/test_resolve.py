"""What is given as a target and cannot be one: a line that says what to do instead."""

import subprocess
import sys

import pytest

from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import UnknownTarget, resolve, target_spec

NO_MODULES = {
    "./adapter.go": "./adapter.go is not a Python module; use 'command:go run ./adapter.go' instead",
    "adapter.go": "adapter.go is not a Python module; use 'command:go run adapter.go' instead",
    "./adapter.mjs": "./adapter.mjs is not a Python module; use 'command:node ./adapter.mjs' instead",
    "./Adapter.java": "./Adapter.java is not a Python module; use 'command:java ./Adapter.java' instead",
    "./my.jar": "./my.jar is not a Python module; use 'command:java -jar ./my.jar' instead",
    "./adapter": "./adapter is not a Python module; use command:./adapter instead",
    "./main.rs": "./main.rs is not a Python module; use 'command:COMMAND LINE' instead",
    "./folder": "./folder is a folder; expected the Python file in it, module:./FILE.py",
    "./nowhere.go": "there is no file ./nowhere.go",
    "nowhere.py": "there is no file nowhere.py",
    "": "expected module:dotted.name or module:./file.py",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with programs in several languages, of which one is executable."""
    for name in ("adapter.go", "adapter.mjs", "Adapter.java", "my.jar", "adapter", "main.rs", "adapter.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "adapter").chmod(0o755)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", NO_MODULES)
def test_what_is_no_python_module_is_told_with_what_to_say_instead(name):
    with pytest.raises(UnknownTarget) as told:
        resolve(f"module:{name}")
    assert str(told.value) == f"module:{name}: {NO_MODULES[name]}"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["./adapter.py", "adapter.py", "adapter", "folder", "json", "package.module"])
def test_what_may_be_a_python_module_is_started_as_one(name, here):
    (here / "adapter").unlink()
    assert resolve(f"module:{name}").command[-1] == name


@pytest.mark.parametrize("command", ["run", "doctor", "serve"])
def test_it_is_one_line_of_a_command(command, here):
    asked = [sys.executable, "-m", "conformance", command, "module:./adapter.go"]
    done = subprocess.run(asked, cwd=here, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"conformance: module:./adapter.go: {NO_MODULES['./adapter.go']}\n"


def test_a_module_that_describes_nothing_is_told_as_such(here):
    asked = [sys.executable, "-m", "conformance", "doctor", "module:./adapter.py"]
    done = subprocess.run(asked, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout == (
        "FAIL  starts and describes itself: module:./adapter.py did not describe itself: describe crashed: "
        "TypeError: the module adapter is not an adapter: it has no function describe\n"
        "\nchecks: 1 FAIL\n"
    )


def test_a_broker_of_ones_own_is_started_from_its_file(tmp_path):
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "broker.yaml"
    path.write_text("name: mine\nversion: '1'\ncommand: [cat]\nstartup: 20\n")
    launch = resolve(f"broker:{path}")
    assert str(path) in launch.command
    assert launch.cleaning == ()
    with pytest.raises(UnknownTarget, match=r"there is no file \./elsewhere/broker\.yaml"):
        resolve("broker:./elsewhere/broker.yaml")


def test_each_of_two_processes_of_a_live_client_may_take_what_a_target_may(tmp_path):
    """A case that is asked again stands in a second process; what it took in the first one may still be there."""
    claims = {"codecs": "[none]", "magics": "[2]", "isolations": "[read_committed]"}
    live = {"entry-point": "read", **claims, "concurrency": "1"}
    lines = {"name": tmp_path.name, "language": "python", "module": "driver.py", **live}
    (tmp_path / "driver.yaml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    (tmp_path / "driver.py").write_text("")
    allowed = [
        target_spec(f"live:{tmp_path / 'driver.yaml'}", None, ResourceLimits(memory=memory)).allowance.memory
        for memory in (100, 400)
    ]
    assert allowed[1] - allowed[0] == 2 * 300


def test_a_broker_may_hold_what_all_cases_have_written_to_it():
    """kfake holds 2 GiB at the end of a whole run; the case that it was asked last is not to blame."""
    assert target_spec("broker:127.0.0.1:9092", None, ResourceLimits(memory=1 << 30)).allowance.memory > 4 << 30
