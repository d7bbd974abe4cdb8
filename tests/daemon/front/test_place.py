"""Where the bridge in the background is found: the same place for the same wish, in a folder that is the user's own."""

from __future__ import annotations

import os
import pwd
import re
import stat
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from gaia_bridge.constants import SHIPPED_AGENTS
from gaia_bridge_daemon.front import place as module
from gaia_bridge_daemon.front.place import Place, PlaceError, Scope, current_folder, places, runtime_folder

LONGEST_OF_MACOS = 103


def private(folder: Path) -> Path:
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    return folder


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A folder with a short path, where a folder of sockets can be made."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="g") as folder:
        monkeypatch.setattr(module, "_SHORT", folder)
        yield Path(folder)


@pytest.fixture
def short_home(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home in which a folder of sockets can be made, however long the paths of these tests are."""
    monkeypatch.setenv("HOME", str(short / "home"))


def fallback() -> str:
    return os.path.expanduser("~/.gaia/run")


# Which bridge.


def test_without_options_it_is_the_same_one_everywhere(tmp_path: Path) -> None:
    assert Scope.of(None, [], str(tmp_path)).name == Scope.of(None, [], "/").name == "default"


def test_one_file_is_one_bridge_however_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "hello.py").touch()
    home = Path.home()
    for folder, config, agent in [
        (tmp_path, "servers.json", "hello.py:Hello"),
        (tmp_path / "sub", "../servers.json", "../hello.py:Hello"),
        (home, str(tmp_path / "servers.json"), str(tmp_path / "sub" / ".." / "hello.py") + ":Hello"),
    ]:
        scope = Scope.of(config, [agent], str(folder))
        assert scope == Scope(str(tmp_path / "servers.json"), [f"{tmp_path}/hello.py:Hello"])
        assert scope.folder == ""
    assert Scope.of("~/servers.json", [], "/").config == str(home / "servers.json")


def test_a_folder_with_servers_of_its_own_has_a_bridge_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mcp_servers.json").write_text("{}")
    assert Scope.of(None, [], str(tmp_path)).folder == str(tmp_path)
    assert Scope.of("other.json", [], str(tmp_path)).folder == ""


def test_the_folder_of_the_users_own_servers_is_no_such_folder() -> None:
    gaia = Path.home() / ".gaia"
    gaia.mkdir()
    (gaia / "mcp_servers.json").write_text("{}")
    assert Scope.of(None, [], str(gaia)).name == "default"


def test_an_agent_that_is_no_file_is_looked_for_where_one_is(tmp_path: Path) -> None:
    assert Scope.of(None, ["package.module:Agent"], str(tmp_path)).folder == str(tmp_path)


def test_scopes_that_differ_have_other_names_that_any_file_system_takes(tmp_path: Path) -> None:
    scopes = [
        Scope("/a/servers.json"),
        Scope("/b/servers.json"),
        Scope(agents=["/a/x.py"]),
        Scope(agents=["/a/x.py", "/a/y.py"]),
        Scope(folder="/a/../../x"),
        Scope(folder="/" + "long" * 60),
        Scope(folder="/Zürich ☃"),
        Scope(folder="/\udcff"),
        Scope(folder="/"),
    ]
    names = {scope.name for scope in scopes}
    assert len(names) == len(scopes)
    for name in names:
        assert name.isascii()
        assert name.replace("-", "").isalnum()
        assert len(name) <= len("-00000000") + 20


def test_the_bridges_of_a_folder_are_found_by_their_sockets(tmp_path: Path) -> None:
    for name in ("default.front.sock", "default.sock", "x-00000001.front.sock", "default.log", "default.lock"):
        (tmp_path / name).touch()
    assert [place.name for place in places(str(tmp_path))] == ["default", "x-00000001"]


def test_a_folder_that_is_gone_is_replaced_by_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert current_folder() == os.path.expanduser("~")
    monkeypatch.undo()


# Where its sockets are.


def test_the_runtime_folder_of_the_user_is_taken(short: Path) -> None:
    runtime = private(short / "run")
    folder = runtime_folder({"XDG_RUNTIME_DIR": str(runtime)})
    assert folder == f"{runtime}/gaia-bridge"
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def symlink(path: Path) -> None:
    path.symlink_to(private(path.parent / "real"))


def open_to_all(path: Path) -> None:
    private(path).chmod(0o777)


def of_another_user(path: Path) -> None:
    os.chown(private(path), 65534, 65534)


def a_file(path: Path) -> None:
    path.touch()


def absent(path: Path) -> None:
    assert not path.exists()


HOSTILE = [symlink, open_to_all, of_another_user, a_file, absent]
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
PARAMS = [pytest.param(make, marks=as_root if make is of_another_user else ()) for make in HOSTILE]


@pytest.mark.usefixtures("short_home")
@pytest.mark.parametrize("make", PARAMS)
def test_a_runtime_folder_that_is_not_the_users_own_is_left_alone(tmp_path: Path, make: Callable[[Path], None]) -> None:
    runtime = tmp_path / "run"
    make(runtime)
    assert runtime_folder({"XDG_RUNTIME_DIR": str(runtime)}) == fallback()
    assert not runtime.is_dir() or not any(runtime.iterdir())


@pytest.mark.usefixtures("short_home")
@pytest.mark.parametrize("nonsense", ["relative", "", "~", "/nowhere/at/all", "/" + "x" * 5_000])
def test_nonsense_for_a_runtime_folder_is_none(nonsense: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    private(tmp_path / "relative")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)  # who has no /run/user/...
    monkeypatch.setattr(module, "is_private", private_of(os.geteuid()))
    assert runtime_folder({"XDG_RUNTIME_DIR": nonsense}) == fallback()


def private_of(user: int) -> Callable[[str], bool]:
    def is_private(folder: str) -> bool:
        try:
            return os.lstat(folder).st_uid == user
        except (OSError, ValueError):
            return False

    return is_private


@pytest.mark.parametrize("make", [param for param in PARAMS if param.values != (absent,)])
def test_a_folder_of_its_own_that_others_can_write_to_is_refused(short: Path, make: Callable[[Path], None]) -> None:
    runtime = private(short / "run")
    make(runtime / "gaia-bridge")
    with pytest.raises(PlaceError) as refused:
        runtime_folder({"XDG_RUNTIME_DIR": str(runtime)})
    assert str(refused.value).startswith(f"{runtime}/gaia-bridge: ")
    assert "expected" in str(refused.value) or "cannot be made" in str(refused.value)


def unchanged(path: str) -> str:
    """As for a user that the system does not know."""
    return path


def test_without_a_home_it_is_a_folder_that_depends_on_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, short: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "expanduser", unchanged)
    folder = runtime_folder({"XDG_RUNTIME_DIR": "/nowhere"})
    assert re.fullmatch(f"{short}/gaia-bridge-[0-9a-f]{{8}}-{os.getuid()}", folder)
    assert os.listdir(tmp_path) == []


def test_another_home_has_bridges_of_its_own(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "deep" * 20
    folders: set[str] = set()
    for home in (pwd.getpwuid(os.getuid()).pw_dir, f"{short}/{deep}/one", f"{short}/{deep}/two"):
        monkeypatch.setenv("HOME", home)
        monkeypatch.setattr(module, "_SOCKET_PATH", 0)  # so that none is below its home
        folders.add(runtime_folder({}))
    assert len(folders) == 3
    assert f"{short}/gaia-bridge-{os.getuid()}" in folders


def test_no_path_of_a_socket_is_longer_than_a_system_takes(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", f"{short}/{'home' * 20}")
    for depth in range(20, 110, 3):
        runtime = short / ("x" * depth)
        private(runtime)
        folder = runtime_folder({"XDG_RUNTIME_DIR": str(runtime)})
        longest = Place(folder, Scope(folder="/" + "y" * 100).name)
        assert len(os.fsencode(longest.front)) <= LONGEST_OF_MACOS
        assert len(os.fsencode(longest.http)) <= LONGEST_OF_MACOS


def test_an_agent_that_ships_is_the_same_one_everywhere_whatever_a_folder_is_called(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for name in SHIPPED_AGENTS:
        assert Scope.of(None, [name], str(tmp_path)) == Scope("", [name])


def test_a_bridge_without_the_configured_servers_is_another_one_and_is_meant_by_the_option(tmp_path: Path) -> None:
    (tmp_path / "mcp_servers.json").touch()
    file = str(tmp_path / "a.py")
    Path(file).touch()
    alone = Scope.of(None, [file], str(tmp_path), servers=False)
    assert alone.folder == "", "what the folder lists is left out, too"
    assert alone.words == ["--no-servers", file]
    assert alone.name != Scope.of(None, [file], "/").name
    assert Scope(servers=False).name != Scope().name == "default"
    assert Scope.from_json(alone.as_json()) == alone
    assert Scope.from_json(Scope().as_json()).servers
    assert "servers" not in Scope().as_json(), "older bridges compare what they know"
