"""A configuration file is changed as a whole or not at all, whoever else wants it and whatever breaks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.config import ServersConfig, file_editor
from gaia_bridge.config.file_editor import edit_json
from gaia_bridge.errors import ConfigError
from tests.bridge.config import editing
from tests.bridge.config.editing import at_step, leftovers
from tests.support.waiting import PATIENCE

OLD = '{"mcpServers": {"old": {"command": "true"}}}'
ENTRY = {"command": "true"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "mcp_servers.json"
    path.write_text(OLD, encoding="utf-8")
    return path


def names(file: Path) -> list[str]:
    return list(json.loads(file.read_text(encoding="utf-8"))["mcpServers"])


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def ran(task: str, file: Path) -> Any:
    """The outcome of `editing.py`. Without rights, it is a root to whom permissions apply as to anybody."""
    command = [sys.executable, editing.__file__, task, str(file)]
    if task == "no rights" and os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        assert setpriv is not None, "util-linux is needed to run this test as root"
        command = [setpriv, "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", *command]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return json.loads(result.stdout)


@pytest.mark.requirement("F-099c")
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_new_file_belongs_to_its_owner_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        ServersConfig(tmp_path / "a" / "b" / "servers.json").add("x", ENTRY)
    finally:
        os.umask(before)
    assert mode(tmp_path / "a" / "b" / "servers.json") == 0o600
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700


@pytest.mark.parametrize("before", [0o600, 0o640, 0o644, 0o400])
def test_a_file_keeps_its_mode(file: Path, before: int) -> None:
    file.chmod(before)
    ServersConfig(file).add("new", ENTRY)
    assert mode(file) == before
    assert names(file) == ["old", "new"]


def test_a_group_that_the_new_file_cannot_have_gains_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = list(file.stat())
    status[0], status[5] = stat.S_IFREG | 0o664, status[5] + 1

    def refuse(descriptor: int, uid: int, gid: int) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        file_editor._keep_access(descriptor, os.stat_result(status))  # pyright: ignore[reportPrivateUsage]  # needs a chown
    finally:
        os.close(descriptor)
    assert mode(file) == 0o604


def test_a_lock_that_root_made_is_of_use_to_the_folders_owner(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []

    def fchown(descriptor: int, uid: int, gid: int) -> None:
        given.append((uid, gid))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", fchown)
    ServersConfig(file).add("new", ENTRY)
    assert given == [(file.parent.stat().st_uid, file.parent.stat().st_gid)]


@pytest.mark.requirement("F-099d")
def test_a_link_stays_and_its_target_is_changed(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(Path("folder") / file.name)
    (tmp_path / "second.json").symlink_to(link)
    ServersConfig(tmp_path / "second.json").add("new", ENTRY)
    assert link.is_symlink()
    assert names(file) == ["old", "new"]
    assert leftovers(file) == []


@pytest.mark.requirement("F-099d")
@pytest.mark.parametrize(
    ("target", "expected"),
    [("nowhere.json", "is a link to a file that does not exist"), ("link.json", "Too many levels of symbolic links")],
)
def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path, target: str, expected: str) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(target)
    with pytest.raises(ConfigError, match=expected):
        edit_json(link, lambda file: "{}")
    [layer] = ServersConfig(link).layers
    assert layer.error is not None
    assert os.readlink(link) == target
    assert leftovers(link) == []


@pytest.mark.requirement("F-099d")
def test_a_file_of_somebody_else_is_not_changed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    with pytest.raises(ConfigError, match=f"belongs to user {file.stat().st_uid}, not to you"):
        ServersConfig(file).add("new", ENTRY)
    assert file.read_text(encoding="utf-8") == OLD


@pytest.mark.requirement("F-099", "S3-21")
@pytest.mark.parametrize("content", ["{", '{"a": 1, "a": 2}', "[]", '{"mcpServers": []}', '{"a": NaN}', "{}//", ""])
def test_a_file_that_is_no_configuration_is_never_overwritten(file: Path, content: str) -> None:
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=str(file)):
        ServersConfig(file).add("new", ENTRY)
    assert file.read_text(encoding="utf-8") == content


def test_a_file_that_would_become_too_large_to_be_read_is_not_written(file: Path) -> None:
    with pytest.raises(ConfigError, match="would become larger than 1,048,576 bytes"):
        ServersConfig(file).add("new", {"command": "x" * 1024 * 1024})
    assert file.read_text(encoding="utf-8") == OLD
    assert leftovers(file) == []


def test_what_does_not_change_is_not_written(file: Path) -> None:
    before = file.stat()
    ServersConfig(file).set_disabled("old", False)
    assert file.stat().st_ino == before.st_ino
    assert file.read_text(encoding="utf-8") == OLD


@pytest.mark.requirement("F-099e")
def test_processes_that_edit_at_the_same_time_keep_all_edits(file: Path) -> None:
    assert ran("race", file) == [0, 0, 0, 0]
    expected = {"old"} | {f"s{writer}-{number}" for writer in range(4) for number in range(25)}
    assert (len(names(file)), set(names(file))) == (101, expected)
    assert leftovers(file) == []


@pytest.mark.requirement("F-099e")
def test_threads_that_edit_at_the_same_time_keep_all_edits(file: Path) -> None:
    config = ServersConfig(file)
    threads = [threading.Thread(target=config.add, args=(f"s{number}", ENTRY)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert set(names(file)) == {"old"} | {f"s{number}" for number in range(20)}
    assert set(config.entries) == set(names(file))


@pytest.mark.requirement("F-099e")
def test_who_waits_for_the_lock_in_vain_is_told_for_whom(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_editor, "LOCK_TIMEOUT", 0.05)
    errors: list[ConfigError] = []

    def second() -> None:
        with pytest.raises(ConfigError) as caught:
            edit_json(file, lambda current: "{}")
        errors.append(caught.value)

    def first(current: object) -> None:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(PATIENCE)

    edit_json(file, first)
    [error] = errors
    assert f"process {os.getpid()} has been changing it for 0.05 seconds" in str(error)
    assert file.read_text(encoding="utf-8") == OLD


@pytest.mark.requirement("F-099f")
def test_a_process_that_is_killed_leaves_the_old_or_the_new_file(file: Path) -> None:
    outcomes = ran("kill", file)
    killed = [was_killed for was_killed, _, _ in outcomes]
    assert killed == [True] * (len(killed) - 1) + [False]
    assert len(killed) > 20, "a save has more steps than that"
    contents = [content for _, content, _ in outcomes]
    assert set(contents) == {OLD, contents[-1]}
    assert list(json.loads(contents[-1])["mcpServers"]) == ["old", "new"]
    # What a killed process left is gone with the next save, and its lock never stood in the way.
    assert any(beside for _, _, beside in outcomes)
    assert outcomes[-1][2] == []


@pytest.mark.requirement("F-099f")
def test_only_our_own_leftovers_are_removed(file: Path) -> None:
    theirs = [f".{file.name}.abc.tmp", f".{file.name}.bak.abcdefgh.tmp", f"{file.name}.abcdefgh.tmp", ".x.abcdefgh.tmp"]
    for name in [*theirs, f".{file.name}.abcd_123.tmp"]:
        (file.parent / name).touch()
    ServersConfig(file).add("new", ENTRY)
    assert leftovers(file) == sorted(theirs)


@pytest.mark.requirement("F-099f")
def test_a_step_that_fails_leaves_the_old_or_the_new_file(file: Path) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, "the disk is broken")

    steps = tuple(name for name in editing.STEPS if name not in ("close", "unlink"))  # whose failure leaves something
    number, failures = 0, 0
    while True:
        file.write_text(OLD, encoding="utf-8")
        config = ServersConfig(file)
        with at_step(number, fail, steps) as made:
            try:
                config.add("new", ENTRY)
            except ConfigError as error:
                failures += 1
                assert str(file) in str(error)
                assert file.read_text(encoding="utf-8") == OLD
            else:
                assert names(file) == ["old", "new"]
        assert leftovers(file) == []
        if len(made) <= number:
            break
        number += 1
    assert failures > 5


@pytest.mark.requirement("F-099g", "F-099h")
@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("write", errno.ENOSPC),
        ("write", errno.EDQUOT),
        ("fsync", errno.EIO),
        ("replace", errno.EXDEV),
        ("replace", errno.EACCES),
        ("replace", errno.ESTALE),
        ("fchmod", errno.EPERM),
        ("open", errno.EROFS),
        ("open", errno.EMFILE),
    ],
)
def test_a_disk_that_refuses_leaves_the_old_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    config = ServersConfig(file)
    original: Callable[..., Any] = getattr(os, step)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if step == "write" and args[1][:1] != b"{":  # the lock's own file is of no consequence
            return original(*args, **kwargs)
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, step, refuse)
        with pytest.raises(ConfigError) as caught:
            config.add("new", ENTRY)
    assert os.strerror(code) in str(caught.value)
    assert file.read_text(encoding="utf-8") == OLD
    assert leftovers(file) == []
    assert "new" not in config.entries


def test_a_write_that_is_cut_short_is_carried_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.write

    def write_little(descriptor: int, data: memoryview) -> int:
        return original(descriptor, bytes(data[:3]))

    monkeypatch.setattr(os, "write", write_little)
    ServersConfig(file).add("new", ENTRY)
    assert names(file) == ["old", "new"]


def test_a_disk_that_takes_nothing_is_not_asked_for_ever(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_nothing(descriptor: int, data: memoryview) -> int:
        return 0

    monkeypatch.setattr(os, "write", write_nothing)
    with pytest.raises(ConfigError, match="nothing more can be written"):
        ServersConfig(file).add("new", ENTRY)
    assert file.read_text(encoding="utf-8") == OLD


@pytest.mark.requirement("F-099g")
def test_a_full_disk_leaves_the_old_file(file: Path) -> None:
    reading, saving = ran("full disk", file)
    assert reading == ""
    assert saving == f"{file}: cannot be saved: File too large (the file is as it was)"
    assert file.read_text(encoding="utf-8") == OLD
    assert leftovers(file) == []


@pytest.mark.requirement("F-099h")
def test_a_folder_that_cannot_be_written_leaves_the_old_file(file: Path) -> None:
    file.parent.chmod(0o500)
    try:
        reading, saving = ran("no rights", file)
    finally:
        file.parent.chmod(0o700)
    assert reading == ""
    assert saving == f"{file}: cannot be saved: Permission denied (the file is as it was)"
    assert file.read_text(encoding="utf-8") == OLD
    assert leftovers(file) == []


@pytest.mark.requirement("F-099b")
def test_a_file_that_may_not_be_read_is_reported_and_left_alone(file: Path) -> None:
    file.chmod(0)
    reading, saving = ran("no rights", file)
    file.chmod(0o600)
    assert reading == saving == f"{file}: cannot be read: Permission denied"
    assert file.read_text(encoding="utf-8") == OLD


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO])
def test_a_file_system_without_locks_is_named_with_the_file_and_a_remedy(
    number: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(ConfigError) as refusal:
        edit_json(file, lambda _: "{}")
    told = "have HOME name a folder of this machine"
    for part in (f".{file.name}.lock cannot be locked: {os.strerror(number)}", told):
        assert part in str(refusal.value)
