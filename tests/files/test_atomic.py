"""A written file is replaced completely or not at all."""

import stat
from pathlib import Path

import pytest

from conformance.files.atomic import OutputFiles, check_folder, check_writable, replace_text, replacing


def names(folder):
    return [path.name for path in folder.iterdir()]


def write_half(path, error):
    with replacing(path) as stream:
        stream.write(b"half")
        raise error


def test_a_file_is_replaced_with_its_permissions_and_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    replace_text(path, "new ä")
    assert path.read_text(encoding="utf-8") == "new ä"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(OSError, match="No space"):
        write_half(path, OSError(28, "No space left on device"))
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_an_interrupt_leaves_the_old_file_and_no_temporary_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_half(path, KeyboardInterrupt())
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_writing_through_a_symbolic_link_keeps_the_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    replace_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_text() == "new"


def test_a_device_is_written_directly(tmp_path):
    check_writable([tmp_path / "file", Path("/dev/null")])
    replace_text(Path("/dev/null"), "gone")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert names(tmp_path) == []


def test_an_unwritable_path_is_reported_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "no folder" / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError) as caught:
            check_writable([path])
        assert caught.value.filename == str(path)
    with pytest.raises(OSError):
        check_folder(tmp_path / "file")
    assert names(tmp_path) == ["file"]


# --- at the end of a run ------------------------------------------------------------------------------


def test_a_file_changed_during_the_run_is_kept_and_reported(tmp_path):
    watched, folder = tmp_path / "known.yaml", tmp_path / "saved"
    folder.mkdir()
    watched.write_text("mine")
    (folder / "a.yaml").write_text("mine")
    outputs = OutputFiles.watching([watched], folder)
    watched.write_text("theirs")
    (folder / "a.yaml").write_text("theirs")
    (folder / "b.yaml").write_text("theirs")
    assert not any(outputs.write(path, ["ours"]) for path in (watched, folder / "a.yaml", folder / "b.yaml"))
    assert {path.read_text() for path in (watched, folder / "a.yaml", folder / "b.yaml")} == {"theirs"}
    assert len(outputs.problems) == 3
    assert "known.yaml: not written, because another process changed it" in outputs.problems[0]


def test_a_file_written_by_this_run_is_written_again(tmp_path):
    (tmp_path / "a.yaml").write_text("before")
    outputs = OutputFiles.watching([], tmp_path)
    assert outputs.write(tmp_path / "a.yaml", ["once"])
    assert outputs.write(tmp_path / "a.yaml", ["twice"])
    assert (tmp_path / "a.yaml").read_text() == "twice"


def test_an_error_with_one_file_stops_no_other(tmp_path):
    outputs = OutputFiles()

    def pieces():
        yield "a piece"
        raise OSError(28, "No space left on device")

    assert not outputs.write(tmp_path / "full", pieces())
    assert outputs.write(tmp_path / "next", ["whole"])
    assert outputs.problems == [f"{tmp_path / 'full'}: No space left on device"]
    assert names(tmp_path) == ["next"]
