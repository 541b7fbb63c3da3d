"""Invalid target arguments: one line with a suggestion."""

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
    """Use a working directory with programs in several languages; one of them is executable."""
    for name in ("adapter.go", "adapter.mjs", "Adapter.java", "my.jar", "adapter", "main.rs", "adapter.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "adapter").chmod(0o755)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", NO_MODULES)
def test_a_file_that_is_no_python_module_is_an_error_with_a_suggestion(name):
    with pytest.raises(UnknownTarget) as error:
        resolve(f"module:{name}")
    assert str(error.value) == f"module:{name}: {NO_MODULES[name]}"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["./adapter.py", "adapter.py", "adapter", "folder", "json", "package.module"])
def test_a_possible_python_module_is_started_as_one(name, here):
    (here / "adapter").unlink()
    assert resolve(f"module:{name}").command[-1] == name


@pytest.mark.parametrize("command", ["run", "doctor", "serve"])
def test_a_wrong_target_is_one_error_line(command, here):
    arguments = [sys.executable, "-m", "conformance", command, "module:./adapter.go"]
    done = subprocess.run(arguments, cwd=here, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"conformance: module:./adapter.go: {NO_MODULES['./adapter.go']}\n"


def test_a_module_without_describe_is_reported(here):
    arguments = [sys.executable, "-m", "conformance", "doctor", "module:./adapter.py"]
    done = subprocess.run(arguments, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout == (
        "FAIL  starts and describes itself: module:./adapter.py did not describe itself: describe crashed: "
        "TypeError: the module adapter is not an adapter: it has no function describe\n"
        "\nchecks: 1 FAIL\n"
    )


def test_a_user_broker_is_started_from_its_file(tmp_path):
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "broker.yaml"
    path.write_text("name: mine\nversion: '1'\ncommand: [cat]\nstartup: 20\n")
    launch = resolve(f"broker:{path}")
    assert str(path) in launch.command
    assert launch.cleaning == ()
    with pytest.raises(UnknownTarget, match=r"there is no file \./elsewhere/broker\.yaml"):
        resolve("broker:./elsewhere/broker.yaml")


def test_each_of_two_processes_of_a_live_client_has_the_full_memory_limit(tmp_path):
    """A retry runs in a second process, while the first one may still have its memory."""
    claims = {"codecs": "[none]", "magics": "[2]", "isolations": "[read_committed]"}
    live = {"entry-point": "read", **claims, "concurrency": "1"}
    lines = {"name": tmp_path.name, "language": "python", "module": "driver.py", **live}
    (tmp_path / "driver.yaml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    (tmp_path / "driver.py").write_text("")
    allowed = [
        target_spec(f"live:{tmp_path / 'driver.yaml'}", None, ResourceLimits(memory=memory)).limits.memory
        for memory in (100, 400)
    ]
    assert allowed[1] - allowed[0] == 2 * 300


def test_the_memory_limit_of_a_broker_covers_the_data_of_all_cases():
    """kfake has 2 GiB at the end of a whole run, which is no failure of the last case."""
    assert target_spec("broker:127.0.0.1:9092", None, ResourceLimits(memory=1 << 30)).limits.memory > 4 << 30
