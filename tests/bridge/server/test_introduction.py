"""What an endpoint says that it can do, and what it wants models to know, within what a client takes of it."""

from __future__ import annotations

import itertools
from typing import Any, Final

import pytest
from msgspec.structs import replace

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.model import NamingPolicy, ServerInfo, SourceKind
from gaia_bridge.protocol.meta import CLIENT_INFO_KEY
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.introduction import capabilities_of
from gaia_bridge.settings import ClientLimits, Settings, UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent, one_tool
from tests.support.bridges import RunningBridge, both_eras, running_bridge
from tests.support.clients_of_revisions import client_of_revision
from tests.support.fixed_sources import FixedSource
from tests.support.on_demand import mcp, mcp_lowlevel, mcp_server, mcp_types
from tests.support.waiting import PATIENCE

CLAUDE: Final = "claude-code"
LONG: Final = "".join(f"Sentence number {number} of many. " for number in range(300)).rstrip()


# What it can do


def server(name: str, declared: JSON, **offered: Any) -> FixedSource:
    """A server that declares that, and has one tool and what is given."""
    source = FixedSource(name, f"tool_of_{name}", kind=SourceKind.SERVER, **offered)
    capabilities = frozenset(declared) & {"tools", "prompts", "resources", "completions", "logging"}
    source.features = replace(source.features, declared=declared, capabilities=capabilities)
    return source


def told(*sources: FixedSource, modern: bool, merges: bool = True) -> JSON:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT, merges=merges)
    for source in sources:
        catalog.add(source)
    return capabilities_of(catalog, modern=modern)


EMPTY: Final[JSON] = {"listChanged": False}
CHANGING: Final[JSON] = {"listChanged": True}
LISTED: Final = {"prompts": {"prompts": ("p",)}, "resources": {"templates": ("a://{b}",)}}


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("kind", ["prompts", "resources"])
def test_three_sources_declare_what_one_of_them_has_or_may_come_to_have(kind: str, modern: bool) -> None:
    states: dict[str, JSON] = {
        "none": {},
        "empty": {kind: EMPTY},
        "mute": {kind: {}},
        "changing": {kind: CHANGING},
        "has": {kind: {}},
    }
    for chosen in itertools.product(states, repeat=3):
        sources = [
            server(f"s{place}", {"tools": {}, **states[state]}, **(LISTED[kind] if state == "has" else {}))
            for place, state in enumerate(chosen)
        ]
        declared = told(*sources, modern=modern)
        offered = not {"changing", "has"}.isdisjoint(chosen)
        assert (kind in declared) is offered, chosen
        assert declared.get(kind, CHANGING)["listChanged"] is True
        assert declared.keys() - {kind} == {"tools"}


@pytest.mark.parametrize("modern", [False, True])
def test_a_server_of_its_own_endpoint_declares_what_it_declares(modern: bool) -> None:
    declared: JSON = {"tools": {}, "prompts": EMPTY, "resources": {}, "completions": {}, "logging": {}}
    assert told(server("s", declared), modern=modern, merges=False) == declared


@pytest.mark.parametrize("modern", [False, True])
def test_completions_are_declared_where_there_is_something_to_complete(modern: bool) -> None:
    bare: JSON = {"tools": {}, "completions": {}, "prompts": EMPTY}
    assert "completions" not in told(server("a", bare), server("b", bare), server("c", bare), modern=modern)
    full = server("c", bare, prompts=("p",))
    assert "completions" in told(server("a", bare), server("b", bare), full, modern=modern)


@pytest.mark.parametrize("modern", [False, True])
def test_logging_and_extensions_are_declared_where_one_source_has_them(modern: bool) -> None:
    bare: JSON = {"tools": {}}
    sources = [server(name, bare) for name in "abc"]
    assert told(*sources, modern=modern).keys() == {"tools"}
    extras: JSON = {"extensions": {"a/b": {}}}
    sources[1].features = replace(sources[1].features, declared={**bare, "logging": {}, **extras}, extras=extras)
    declared = told(*sources, modern=modern)
    assert declared.keys() == {"tools", "logging", "extensions"}
    assert declared["extensions"] == extras["extensions"]


@pytest.mark.parametrize("modern", [False, True])
def test_what_is_not_known_yet_may_be_anything(modern: bool) -> None:
    sources = [server(name, {"tools": {}, "prompts": {}}) for name in "abc"]
    sources[1].features = replace(sources[1].features, is_known=False)
    assert {"tools", "prompts", "resources"} <= told(*sources, modern=modern).keys()


@both_eras
@pytest.mark.anyio
async def test_servers_of_the_sdk_that_announce_changes_of_empty_lists_are_believed(mode: str) -> None:
    async with running_bridge() as running:
        for name in "abc":
            made = mcp_server.MCPServer(name)
            made.add_tool(lambda: "", name=f"tool_{name}", description="Nothing.")
            await running.bridge.add_agent(made, name)
        async with running.client(mode) as client:
            declared = client.server_capabilities.model_dump(exclude_none=True, by_alias=True)
            assert declared["prompts"] == {"listChanged": True}
            assert (await client.list_prompts()).prompts == []


@both_eras
@pytest.mark.anyio
async def test_a_list_that_was_empty_without_a_word_is_declared_to_whoever_comes_when_it_is_not(mode: str) -> None:
    prompts = list[mcp_types.Prompt]()

    async def list_prompts(context: Any, params: Any) -> mcp_types.ListPromptsResult:
        return mcp_types.ListPromptsResult(prompts=prompts)

    async def list_resources(context: Any, params: Any) -> mcp_types.ListResourcesResult:
        return mcp_types.ListResourcesResult(resources=[])

    mute = mcp_lowlevel.Server("mute", on_list_prompts=list_prompts, on_list_resources=list_resources)
    settings = Settings(upstream=UpstreamLimits(list_max_age=0, refresh_interval=0, renewal=PATIENCE))
    async with running_bridge(one_tool(lambda _: ""), one_tool(lambda _: "", "b"), settings=settings) as running:
        await running.bridge.add_agent(mute, "mute")
        async with running.client(mode, "servers/mute") as client:
            declared = client.server_capabilities
            assert declared.prompts is not None and not declared.prompts.list_changed
        async with running.client(mode) as early:
            assert early.server_capabilities.prompts is None
            assert early.server_capabilities.resources is None
            prompts.append(mcp_types.Prompt(name="greet"))
            for _ in range(2):
                async with running.client(mode) as client:
                    assert client.server_capabilities.prompts == mcp_types.PromptsCapability(list_changed=True)
                    assert client.server_capabilities.resources is None
                    assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["mute__greet"]
            assert [prompt.name for prompt in (await early.list_prompts()).prompts] == ["mute__greet"]
            prompts.clear()
            async with running.client(mode) as client:
                assert client.server_capabilities.prompts is None


# What it wants models to know


def saying(instructions: str | None, name: str = "work") -> ScriptedAgent:
    return one_tool(
        lambda _: "", name, get_mcp_server_info=lambda: {"instructions": instructions} if instructions else {}
    )


def known_as(running: RunningBridge, name: str, mode: str, path: str = "") -> mcp.Client:
    info = mcp_types.Implementation(name=name, version="2.1.197")
    return running.client(mode, path, client_info=info)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.anyio
async def test_another_bridge_is_given_all_instructions_and_cuts_them_itself(revision: str) -> None:
    async with running_bridge(saying(LONG), saying(LONG, "b"), saying(LONG, "c")) as running:
        async with client_of_revision(running.endpoint(), revision) as client:
            told: JSON = {
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": {"name": CLAUDE, "version": "1"},
            }
            method = "server/discover" if client.modern else "initialize"
            for hops, whole in (({}, False), ({HOPS_META_KEY: ["0123456789abcdef"]}, True)):
                meta = {**hops, **({CLIENT_INFO_KEY: told["clientInfo"]} if client.modern else {})}
                result = await client.result(method, {"_meta": meta} if client.modern else {**told, "_meta": meta})
                assert (len(result["instructions"]) > 4_096) is whole
                assert ("resources" not in result["capabilities"]) is whole


@both_eras
@pytest.mark.anyio
async def test_instructions_of_three_sources_fit_claude_code_and_are_read_whole(mode: str) -> None:
    async with running_bridge(saying("Short."), saying(LONG), saying(f"{LONG} The end.")) as running:
        async with known_as(running, CLAUDE, mode) as client:
            instructions = client.instructions or ""
            assert 3_900 < len(instructions) <= 4_096
            assert "## a0\n\nShort.\n\n## a1\n\nSentence number 0 of many." in instructions
            assert instructions.count("of many. […]") == 2
            assert "gaia-instructions://NAME" in instructions.splitlines()[0]
            assert client.server_capabilities.resources is not None
            (contents,) = (await client.read_resource("gaia-instructions://a2")).contents
            assert isinstance(contents, mcp_types.TextResourceContents)
            assert contents.text == f"{LONG} The end."
            with pytest.raises(mcp.MCPError):
                await client.read_resource("gaia-instructions://a3")
        for other in ("codex-mcp-client", "copilot-cli", "x", ""):
            async with known_as(running, other, mode) as client:
                assert client.instructions == f"## a0\n\nShort.\n\n## a1\n\n{LONG}\n\n## a2\n\n{LONG} The end."


@both_eras
@pytest.mark.anyio
async def test_instructions_of_a_single_source_say_where_the_rest_is(mode: str) -> None:
    async with running_bridge(saying("Short."), saying(LONG), saying(None)) as running:
        async with known_as(running, CLAUDE, mode, "agents/a1") as client:
            instructions = client.instructions or ""
            assert len(instructions) <= 4_096
            assert instructions.startswith("Sentence number 0 of many.")
            assert instructions.endswith("of many. [… all of it: resource gaia-instructions://a1]")
            (contents,) = (await client.read_resource("gaia-instructions://a1")).contents
            assert isinstance(contents, mcp_types.TextResourceContents)
            assert contents.text == LONG
        async with known_as(running, CLAUDE, mode, "agents/a0") as client:
            assert client.instructions == "Short."
            assert client.server_capabilities.resources is None


@both_eras
@pytest.mark.anyio
async def test_instructions_have_numbers_of_ones_own_and_the_table_can_be_switched_off(mode: str) -> None:
    own = Settings(clients=ClientLimits(instructions=(("My Editor", 500), (CLAUDE, 0))))
    async with running_bridge(saying(LONG), saying(LONG), settings=own) as running:
        async with known_as(running, "my editor", mode) as client:
            assert 400 < len(client.instructions or "") <= 500
        async with known_as(running, CLAUDE, mode) as client:
            assert len(client.instructions or "") > 2 * len(LONG)
    off = Settings(clients=ClientLimits(known_instructions=False))
    async with running_bridge(saying(LONG), saying(LONG), settings=off) as running:
        async with known_as(running, CLAUDE, mode) as client:
            assert len(client.instructions or "") > 2 * len(LONG)
