"""Logins on disk: private, whole, shared, and never shown."""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
from collections.abc import Generator
from functools import cache
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from gaia_bridge.client.transport import AuthorizationError
from tests.support.on_demand import mcp_auth, oauth_store

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"
HOLDER = """
import filelock, sys
with filelock.FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@cache
def tokens() -> mcp_auth.OAuthToken:
    return mcp_auth.OAuthToken(access_token="s3cret-a", refresh_token="s3cret-r", expires_in=60, scope="x")


@cache
def client() -> mcp_auth.OAuthClientInformationFull:
    return mcp_auth.OAuthClientInformationFull(client_id="me", client_secret="s3cret-c")


@cache
def metadata() -> mcp_auth.OAuthMetadata:
    issuer = "https://as.example.com"
    return mcp_auth.OAuthMetadata.model_validate(
        {"issuer": issuer, "authorization_endpoint": f"{issuer}/a", "token_endpoint": f"{issuer}/t"}
    )


@cache
def protection() -> mcp_auth.ProtectedResourceMetadata:
    return mcp_auth.ProtectedResourceMetadata.model_validate(
        {"resource": URL, "authorization_servers": ["https://as.example.com"]}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "gaia" / "oauth"


@pytest.fixture
def open_umask() -> Generator[None]:
    old = os.umask(0)
    yield
    os.umask(old)


async def filled(folder: Path) -> oauth_store.TokenStore:
    store = oauth_store.TokenStore(URL, folder=folder)
    async with store.locked(1):
        await store.load()
        store.set_metadata(metadata(), protection())
        await store.set_client_info(client())
        await store.set_tokens(tokens())
    return store


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.requirement("S-24")
async def test_a_login_is_readable_by_its_owner_alone_whatever_the_umask(folder: Path, open_umask: None) -> None:
    store = await filled(folder)
    assert mode_of(folder) == mode_of(folder.parent) == 0o700
    assert {path.suffix for path in files_in(folder)} == {".json", ".lock"}
    assert all(mode_of(path) == 0o600 for path in files_in(folder))
    assert store.path.parent == folder


@pytest.mark.requirement("S-24")
async def test_what_was_open_to_others_is_closed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = await filled(folder)
    os.chmod(store.path, 0o644)
    os.chmod(folder, 0o755)
    async with store.locked(1):
        assert (await store.load()).access_token == "s3cret-a"
    assert (mode_of(store.path), mode_of(folder)) == (0o600, 0o700)
    assert "was open to other users" in caplog.text


async def test_another_process_finds_everything_that_belongs_to_the_tokens(folder: Path) -> None:
    await filled(folder)
    login = await oauth_store.TokenStore(URL, folder=folder).load()
    assert login.tokens == tokens()
    assert login.client == client()
    assert login.issuer == "https://as.example.com"
    assert login.server == metadata()
    assert login.protection == protection()
    assert not login.stale
    assert login.model_copy(update={"expires_at": 1.0}).stale


@pytest.mark.requirement("S-21")
async def test_tokens_are_kept_with_the_authorization_server_that_gave_them(folder: Path) -> None:
    store = oauth_store.TokenStore(URL, "registered-by-the-user", folder=folder)
    async with store.locked(1):
        await store.load()
        store.set_metadata(metadata(), protection())
        await store.set_tokens(tokens())
    login = await oauth_store.TokenStore(URL, "registered-by-the-user", folder=folder).load()
    assert (login.tokens, login.server, login.protection) == (tokens(), metadata(), protection())


@pytest.mark.requirement("S-21")
async def test_logins_belong_to_one_resource_one_client_and_one_issuer(folder: Path) -> None:
    await filled(folder)
    for other in (
        oauth_store.TokenStore("https://mcp.example.com/other", folder=folder),
        oauth_store.TokenStore("https://mcp.example.com:444/mcp", folder=folder),
        oauth_store.TokenStore(URL, "another-client", folder=folder),
        oauth_store.TokenStore(URL, None, "https://as.example.com", folder),
    ):
        assert (await other.load()).tokens is None
    assert (await oauth_store.TokenStore("HTTPS://MCP.example.com/mcp#x", folder=folder).load()).tokens == tokens()


@pytest.mark.requirement("S-21")
async def test_tokens_do_not_outlive_the_client_that_they_were_given_to(folder: Path) -> None:
    store = await filled(folder)
    await store.set_client_info(mcp_auth.OAuthClientInformationFull(client_id="another"))
    assert (await oauth_store.TokenStore(URL, folder=folder).load()).tokens is None


@pytest.mark.requirement("C-14")
@pytest.mark.parametrize(
    "url",
    ["https://x/../../../etc/passwd", "https://../a", "https://a%2f..%2fb/", "https://[::1]/", "https://" + "a" * 500],
)
async def test_no_server_chooses_where_its_login_is_kept(folder: Path, url: str) -> None:
    store = oauth_store.TokenStore(url, folder=folder)
    async with store.locked(1):
        await store.set_tokens(tokens())
    assert [path.parent for path in files_in(folder)] == [folder, folder]
    assert (await oauth_store.TokenStore(url, folder=folder).load()).tokens == tokens()


async def test_forgetting_keeps_the_client_unless_it_is_forgotten_too(folder: Path) -> None:
    store = await filled(folder)
    await store.forget()
    assert (await store.load()).tokens is None
    assert await store.get_client_info() == client()
    await store.forget(client=True)
    assert (await store.load()).client is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b'{"resource": 1}', b'{"resource": "other"}', b"x" * 2_000_000]
)
async def test_a_damaged_file_is_put_aside_and_told(
    folder: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    store = await filled(folder)
    store.path.write_bytes(content)
    assert (await store.load()).tokens is None
    assert store.path.exists(), "without the lock, nothing is moved"
    async with store.locked(1):
        assert (await store.load()).tokens is None
        await store.set_tokens(tokens())
    assert store.path.with_suffix(".damaged").read_bytes() == content
    assert f"{store.path} is no login of ours" in caplog.text
    assert json.loads(store.path.read_bytes())["tokens"]["access_token"] == "s3cret-a"


async def test_a_link_or_a_folder_in_its_place_is_an_error(folder: Path) -> None:
    store = await filled(folder)
    store.path.unlink()
    store.path.symlink_to(folder / "elsewhere")
    with pytest.raises(AuthorizationError, match="cannot be kept"):
        await store.load()
    store.path.unlink()
    store.path.mkdir()
    with pytest.raises(AuthorizationError, match="cannot be kept"):
        await store.load()


@pytest.mark.requirement("S-24")
async def test_nothing_secret_is_shown(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = await filled(folder)
    await store.load()
    assert "s3cret" not in repr(store.login) + repr(store) + str(store.path) + caplog.text
    assert isinstance(store.login, oauth_store.StoredLogin)


async def test_a_write_that_fails_leaves_the_old_login(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await filled(folder)
    before = store.path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AuthorizationError, match="No space left"):
        await store.forget()
    assert store.path.read_bytes() == before
    assert store.login.tokens == tokens()
    assert not [path for path in files_in(folder) if path.name.startswith(".")]


async def test_the_lock_is_held_across_processes_and_waiting_stops_nobody(folder: Path) -> None:
    store = await filled(folder)
    lock = store.path.with_suffix(".lock")
    async with await anyio.open_process([sys.executable, "-c", HOLDER, str(lock)]) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert (await holder.stdout.receive()).startswith(b"held")
        with pytest.raises(AuthorizationError, match="another process"):
            async with store.locked(0.05):
                pass
        entered = anyio.Event()

        async def wait() -> None:
            async with store.locked(5):
                entered.set()

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.lowlevel.checkpoint()
                assert not entered.is_set()
                await holder.stdin.aclose()
                await entered.wait()
