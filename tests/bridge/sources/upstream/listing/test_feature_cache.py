"""What is remembered of servers on disk: whole, private, bounded, and worth nothing once it is damaged."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.client import Era
from gaia_bridge.config import fingerprint
from gaia_bridge.model import HttpServerSpec, ServerFeatures, ServerInfo, ServerOptions, ServerSpec, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.listing import feature_cache as catalog_cache
from gaia_bridge.sources.upstream.listing.feature_cache import (
    FeatureCache,
    Remembered,
    default_cache_folder,
    lock_entry,
)

pytestmark = pytest.mark.anyio

OFFER = ServerFeatures(
    info=ServerInfo("raw", "1", title="Raw ü", instructions="Be raw.", icons=({"src": "https://example.com/i.png"},)),
    tools=({"name": "a", "inputSchema": {"type": "object"}, "x-extra": [None, "\u2028"]},),
    prompts=({"name": "p", "x-extra": 1},),
    resources=({"uri": "a:b", "name": "b"},),
    templates=({"uriTemplate": "a:{b}", "name": "t"},),
    capabilities=frozenset({"tools", "prompts", "resources", "completions", "logging"}),
    declared={
        "tools": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "x-extra": 1},
        "completions": {},
        "logging": {},
    },
    implementation={
        "name": "raw",
        "version": "1",
        "title": "Raw ü",
        "icons": [{"src": "https://example.com/i.png"}],
        "x-extra": [None],
    },
    modern=True,
)
KNOWN = Remembered(OFFER, Era.MODERN)


def modes(folder: Path) -> dict[str, int]:
    """What lies in a folder, and who may do what with it."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} if folder.exists() else {}


def written(folder: Path, content: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / "f1.json").write_bytes(content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "gaia" / "cache"


async def test_what_was_stored_is_loaded_as_it_was(folder: Path) -> None:
    await FeatureCache(folder).store("f1", KNOWN)
    assert await FeatureCache(folder).load("f1", "up") == KNOWN
    assert await FeatureCache(folder).load("f2", "up") is None


@pytest.mark.requirement("F-345")
@pytest.mark.parametrize("modern", [True, False])
async def test_what_was_said_in_each_era_is_kept(folder: Path, modern: bool) -> None:
    other = replace(OFFER, declared={"tools": {}}, capabilities=frozenset({"tools"}), modern=not modern)
    known = Remembered(replace(OFFER, modern=modern, other=other), Era.LEGACY, both=True)
    await FeatureCache(folder).store("f1", known)
    assert await FeatureCache(folder).load("f1", "up") == known


async def test_what_is_stored_replaces_what_was_there(folder: Path) -> None:
    cache = FeatureCache(folder)
    newer = Remembered(replace(OFFER, tools=()), Era.LEGACY)
    await cache.store("f1", KNOWN)
    await cache.store("f1", newer)
    assert await cache.load("f1", "up") == newer
    await cache.forget("f1")
    assert await cache.load("f1", "up") is None


async def test_only_its_owner_can_read_it(folder: Path) -> None:
    await FeatureCache(folder).store("f1", KNOWN)
    assert modes(folder.parent) == {"cache": 0o700}
    assert modes(folder) == {"f1.json": 0o600}


@pytest.mark.requirement("S-36")
async def test_an_offer_that_repeats_a_secret_is_not_kept(folder: Path) -> None:
    cache = FeatureCache(folder)
    await cache.store("f1", KNOWN)
    telling = replace(OFFER, info=replace(OFFER.info, instructions='Your key is "s3cr3t\\canary".'))
    await cache.store("f1", Remembered(telling, Era.LEGACY), ("another", 's3cr3t\\canary".'))
    assert modes(folder) == {}


def damaged(**fields: Any) -> bytes:
    return json.dumps({**catalog_cache._document(KNOWN), **fields}).encode()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"[]",
        b"{}",
        b"[" * 100_000,
        damaged()[:-5],
        damaged(version="0.0.0"),
        damaged(era="stone age"),
        damaged(era=[]),
        damaged(tools={}),
        damaged(serverInfo=5),
        damaged(capabilities=None),
        b" " * (4 * UpstreamLimits().cache_bytes) + damaged(),
    ],
    ids=lambda content: str(content[:20]),
)
async def test_what_is_damaged_or_of_another_version_is_worth_nothing(folder: Path, content: bytes) -> None:
    written(folder, content)
    assert await FeatureCache(folder).load("f1", "up") is None


async def test_what_was_changed_by_hand_is_checked_as_if_the_server_had_sent_it(folder: Path) -> None:
    tools = [{"name": "a", "inputSchema": {"$ref": "http://example.com"}}, {"name": 5}, *OFFER.tools]
    written(folder, damaged(tools=tools, serverInfo={"name": 5, "icons": [{}]}, instructions=[]))
    remembered = await FeatureCache(folder).load("f1", "up")
    assert remembered is not None
    assert remembered.features.tools == OFFER.tools
    assert (remembered.features.info.name, remembered.features.info.icons) == ("up", ())


async def test_one_that_is_too_large_is_not_kept(folder: Path) -> None:
    cache = FeatureCache(folder, UpstreamLimits(cache_bytes=100))
    await cache.store("f1", KNOWN)
    assert modes(folder) == {}


async def test_as_many_are_kept_as_may_be_and_those_that_were_used_last(folder: Path) -> None:
    cache = FeatureCache(folder, UpstreamLimits(cache_entries=3))
    for number in range(3):
        await cache.store(f"f{number}", KNOWN)
        os.utime(folder / f"f{number}.json", (number, number))
    (folder / "tmp-left-behind").touch()
    os.utime(folder / "tmp-left-behind", (0, 0))
    assert await cache.load("f0", "up") == KNOWN
    await cache.store("new", KNOWN)
    assert set(modes(folder)) == {"f0.json", "f2.json", "new.json"}


async def test_a_cache_of_no_entries_keeps_none(folder: Path) -> None:
    await FeatureCache(folder, UpstreamLimits(cache_entries=0)).store("f1", KNOWN)
    assert modes(folder) == {}


async def test_locks_count_as_no_entries_and_are_removed_unless_a_process_holds_them(folder: Path) -> None:
    cache = FeatureCache(folder, UpstreamLimits(cache_entries=1))
    await cache.store("f0", KNOWN)
    held = lock_entry(folder / "f0.lock")
    assert held is not None
    (folder / "gone.lock").touch()
    await cache.store("f1", KNOWN)
    assert set(modes(folder)) == {"f1.json", "f0.lock"}
    assert lock_entry(folder / "f0.lock") is None
    os.close(held)
    await cache.store("f1", KNOWN)
    assert set(modes(folder)) == {"f1.json"}


async def test_a_lock_that_was_removed_after_it_was_opened_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f0.lock"
    opened = os.open

    def removed_meanwhile(*given: Any) -> int:
        descriptor = opened(*given)
        path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", removed_meanwhile)
    assert lock_entry(path) is None


async def test_a_folder_that_cannot_be_used_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "cache", None):
        cache = FeatureCache(folder)
        await cache.store("f1", KNOWN)
        assert await cache.load("f1", "up") is None
        await cache.forget("f1")


async def test_a_full_disk_leaves_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FeatureCache(folder)
    await cache.store("f1", KNOWN)

    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    await cache.store("f1", Remembered(replace(OFFER, tools=()), Era.LEGACY))
    assert await cache.load("f1", "up") == KNOWN
    assert set(modes(folder)) == {"f1.json"}


async def test_many_may_store_at_once_and_each_reader_sees_a_whole_file(folder: Path) -> None:
    cache = FeatureCache(folder)
    await cache.store("f1", KNOWN)
    async with anyio.create_task_group() as tasks:
        for number in range(30):
            features = replace(OFFER, tools=OFFER.tools * (number % 2))
            tasks.start_soon(cache.store, "f1", Remembered(features, Era.LEGACY))
        for _ in range(30):
            assert await cache.load("f1", "up") is not None


def test_it_lies_in_the_users_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_cache_folder() == Path.home() / ".gaia" / "cache"

    def nowhere() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nowhere)
    assert default_cache_folder() is None


def test_the_key_is_the_launch_line_and_tells_nothing_of_it() -> None:
    spec = StdioServerSpec("up", "npx", ("-y", "server"), {"TOKEN": "s3cr3t"})
    same = replace(spec, name="other", options=ServerOptions(lazy=False, allowed_tools=("a",)))
    others: list[ServerSpec] = [
        replace(spec, command="uvx"),
        replace(spec, args=("-y server",)),
        replace(spec, env={}),
        replace(spec, cwd="/"),
        replace(spec, inherit_env=True),
        HttpServerSpec("up", "https://example.com/mcp"),
        HttpServerSpec("up", "https://example.com/mcp", sse=True),
        HttpServerSpec("up", "https://example.com/mcp", {"Authorization": "s3cr3t"}),
    ]
    key = fingerprint(spec)
    assert fingerprint(same) == key
    assert len({key, *map(fingerprint, others)}) == 9
    assert len(key) == 64
    assert key.isalnum()
