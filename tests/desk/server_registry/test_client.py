"""What is asked of a registry has bounds, and what it answers is what was asked for."""

from __future__ import annotations

import socket

import pytest
from msgspec.structs import replace

from gaia_bridge.settings import RegistryLimits
from gaia_bridge_desk.server_registry.client import NotListedError, RegistryClient, RegistryError, base_of
from tests.support.mcp_registry import listed, registry

LIMITS = RegistryLimits()


@pytest.mark.anyio
async def test_a_registry_that_says_nothing_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryError, match=r"did not answer within 0\.1 s; try again"):
            await RegistryClient(base, replace(LIMITS, timeout=0.1)).search("x", 1)


@pytest.mark.anyio
async def test_an_answer_that_is_too_large_is_not_read() -> None:
    with registry(listed("a.b/c", description="x" * 5_000)) as running:
        with pytest.raises(RegistryError, match="sent more than 1000 bytes"):
            await RegistryClient(running.url, replace(LIMITS, answer_bytes=1_000)).search("c", 1)


@pytest.mark.anyio
async def test_a_registry_that_lists_without_end_is_read_for_some_pages() -> None:
    with registry(*(listed(f"a.b/c{number}", isLatest=number == 0) for number in range(50))) as running:
        found, more = await RegistryClient(running.url, replace(LIMITS, pages=3)).search("c", 5)
    assert ([each.server.name for each in found], more, len(running.asked)) == (["a.b/c0"], True, 3)


@pytest.mark.anyio
async def test_names_and_versions_are_escaped_as_the_api_wants_them() -> None:
    with registry(listed("a.b/c", "1.0.0+build/7")) as running:
        client = RegistryClient(running.url, LIMITS)
        assert (await client.server("a.b/c", "1.0.0+build/7")).server.version == "1.0.0+build/7"
        with pytest.raises(NotListedError):
            await client.server("a.b/d")
    assert running.asked[0] == "/v0.1/servers/a.b%2Fc/versions/1.0.0%2Bbuild%2F7"


@pytest.mark.anyio
async def test_what_is_null_or_unknown_is_not_there() -> None:
    entry = listed("a.b/c", packages=None, remotes=[None], title=None, novelty={"x": 1})
    with registry(entry) as running:
        found = await RegistryClient(running.url, LIMITS).server("a.b/c")
    assert (found.server.kinds, found.server.title, found.official.status) == ([], "", "active")


@pytest.mark.anyio
async def test_nesting_without_end_is_no_answer() -> None:
    with registry() as running:
        running.answer = (200, {"content-type": "application/json"}, b'{"servers":' + b"[" * 100_000)
        with pytest.raises(RegistryError, match="what is no JSON"):
            await RegistryClient(running.url, LIMITS).search("x", 1)


def test_the_address_of_a_registry_is_taken_as_it_may_have_been_copied() -> None:
    for end in ("", "/", "/v0", "/v0.1/", "/v0.1/servers"):
        assert base_of(f"https://r.example/api{end}") == "https://r.example/api"
