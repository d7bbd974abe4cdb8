"""Who else could have written or read a file is told, and nothing that is harmless."""

from __future__ import annotations

import grp
import json
import os
import pwd
import stat
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.config import LayerState, ServersConfig
from gaia_bridge.config.file_reader import readable_by_others, writable_by_others
from tests.support.configured import load_servers

SECRET = "s3cr3t-canary-value"
URL = "https://example.com"
ME = os.geteuid()


def status(mode: int, uid: int = ME, gid: int = 12_345) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.fixture
def private_group(monkeypatch: pytest.MonkeyPatch) -> int:
    """A group that has this user as its only member, as most systems make one for each user."""
    name, gid = pwd.getpwuid(ME).pw_name, 12_345

    def user(uid: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", uid, gid, "", "", ""))

    def group(wanted: int) -> grp.struct_group:
        return grp.struct_group((name if wanted == gid else "staff", "x", wanted, []))

    monkeypatch.setattr(pwd, "getpwuid", user)
    monkeypatch.setattr(grp, "getgrgid", group)
    return gid


@pytest.mark.requirement("F-099c")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o400, 0o755])
def test_a_file_that_only_its_owner_writes_is_fine(mode: int) -> None:
    assert writable_by_others(status(mode)) is None
    assert writable_by_others(status(mode, uid=0)) is None


@pytest.mark.requirement("F-099c")
@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666, 0o664])
def test_a_file_that_others_write_is_told(mode: int) -> None:
    problem = writable_by_others(status(mode))
    assert problem == f"other users can change what is started (mode {mode:04o}, expected 0600): run chmod go-w"


@pytest.mark.requirement("F-099c", "F-099d")
def test_a_file_of_another_user_is_told() -> None:
    assert writable_by_others(status(0o600, uid=ME + 1)) == (
        f"it belongs to user {ME + 1}, who can change what is started"
    )


@pytest.mark.requirement("F-099c")
def test_the_group_of_one_user_is_that_user(private_group: int) -> None:
    assert writable_by_others(status(0o664, gid=private_group)) is None
    assert writable_by_others(status(0o666, gid=private_group)) is not None
    assert writable_by_others(status(0o664, gid=private_group + 1)) is not None
    assert not readable_by_others(status(0o640, gid=private_group))
    assert readable_by_others(status(0o644, gid=private_group))


@pytest.mark.requirement("F-099c")
@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({"env": {"GITHUB_TOKEN": SECRET}}, "'GITHUB_TOKEN' in 'env'"),
        ({"env": {"X": "ghp_0123456789abcdefghijklmn"}}, "'X' in 'env'"),
        ({"headers": {"Authorization": f"Bearer {SECRET}"}}, "'Authorization' in 'headers'"),
        ({"oauth": {"clientId": "a", "clientSecret": SECRET, "issuer": URL}}, "'clientSecret' in 'oauth'"),
        ({"tools": {"t": {"arguments": {"token": {"default": SECRET}}}}}, "'token' in 'tools'"),
    ],
)
def test_a_secret_that_everybody_can_read_is_told(tmp_path: Path, table: dict[str, Any], place: str) -> None:
    file = tmp_path / "mcp_servers.json"
    way = {"command": "true"} if "env" in table else {"url": URL}
    file.write_text(json.dumps({"mcpServers": {"x": {**way, **table}}}), encoding="utf-8")
    file.chmod(0o644)
    [warning] = load_servers(file, {}).warnings
    assert warning.startswith(f"{file}: other users can read the secret in {place} of server 'x': run chmod 600")
    assert SECRET not in warning
    assert ServersConfig(file).resolve({}).warnings == (warning,)
    file.chmod(0o600)
    assert load_servers(file, {}).warnings == ()


@pytest.mark.requirement("F-099c")
@pytest.mark.parametrize("env", [{"TOKEN": "${env:TOKEN}"}, {"LANG": "en"}, {"TOKEN": ""}])
def test_a_file_without_secrets_may_be_read_by_all(tmp_path: Path, env: dict[str, str]) -> None:
    file = tmp_path / "mcp_servers.json"
    file.write_text(json.dumps({"mcpServers": {"x": {"command": "true", "env": env}}}), encoding="utf-8")
    file.chmod(0o644)
    assert load_servers(file, {"TOKEN": SECRET}).warnings == ()


@pytest.mark.requirement("F-099c")
def test_a_file_that_others_write_is_a_warning_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "mcp_servers.json"
    file.write_text('{"mcpServers": {"x": {"command": "true"}}}', encoding="utf-8")
    file.chmod(0o666)
    [warning] = load_servers(file).warnings
    assert "other users can change what is started (mode 0666, expected 0600)" in warning
    lenient, strict = ServersConfig(file).resolve(), ServersConfig(file, strict=True).resolve()
    assert [spec.name for spec in lenient.servers] == ["x"]
    assert lenient.warnings == (warning,)
    assert strict.servers == ()
    assert strict.layers[0].layer.state is LayerState.FAILED
    assert "mode 0666" in str(strict.errors[0])
