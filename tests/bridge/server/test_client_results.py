"""Results for clients that pass on only so much of them: both ends, a link, and pieces; nothing changes for others."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Final, Literal

import httpx2
import pytest

from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.calls.results import kept_results
from gaia_bridge.calls.results.client_shortening import shortened_for_client
from gaia_bridge.calls.results.kept_results import KeptResults
from gaia_bridge.model import HttpServerSpec, ServerOptions
from gaia_bridge.protocol.meta import CLIENT_INFO_KEY
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS
from gaia_bridge.server import client_results
from gaia_bridge.server.call import Call
from gaia_bridge.server.client_results import content_for
from gaia_bridge.server.connection import NOWHERE, ClientConnection
from gaia_bridge.server.dispatcher import Answer
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.settings import AgentLimits, ClientLimits, Settings
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import nothing, returning
from tests.interaction.connecting import serving
from tests.support.agents import ScriptedAgent, one_tool, tool
from tests.support.bridges import RunningBridge, both_eras, running_bridge
from tests.support.clients_of_revisions import client_of_revision
from tests.support.on_demand import mcp, mcp_lowlevel, mcp_server, mcp_types
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio

CODEX: Final = "codex-mcp-client"
EARLY_COPILOT: Final = "github-copilot-developer"
LINES: Final = "".join(f"line {number:06} of a long result\n" for number in range(4_000))
URI: Final = re.compile(r"gaia-result://[\w-]+")

SOUND: Final[JSON] = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", "annotations": {"priority": 1}}
LINK: Final[JSON] = {"type": "resource_link", "uri": "note://1", "name": "note", "_meta": {"a": 1}}
AS_RESOURCE: Final[JSON] = {
    "type": "resource",
    "resource": {"uri": "cid:0@content", "mimeType": "audio/wav", "blob": "aGk="},
    "annotations": {"priority": 1},
}
AS_TEXT: Final[JSON] = {"type": "text", "text": "[resource: note://1, note]", "_meta": {"a": 1}}


def known_as(running: RunningBridge, name: str, mode: str, path: str = "") -> mcp.Client:
    info = mcp_types.Implementation(name=name, version="1.0.0")
    return running.client(mode, path, client_info=info)


def links_of(running: RunningBridge) -> KeptResults:
    """What is kept for the clients of the endpoint of everything."""
    return running.endpoint()._results._kept  # pyright: ignore[reportPrivateUsage]


@asynccontextmanager
async def three_sources(result: Any, settings: Settings | None = None) -> AsyncGenerator[RunningBridge]:
    """An endpoint of three agents, of which the second returns that."""
    agents = one_tool(lambda _: "small", "first"), one_tool(lambda _: result, "large"), one_tool(lambda _: "s", "third")
    async with running_bridge(*agents, settings=settings) as running:
        yield running


async def called(client: mcp.Client, name: str = "large", **arguments: Any) -> JSON:
    result = await client.call_tool(name, arguments)
    return result.model_dump(by_alias=True, exclude_none=True, mode="json")


async def unchecked(client: mcp.Client, name: str, **arguments: Any) -> JSON:
    """The same of a client that holds no result against a schema, as Codex does not."""
    params = mcp_types.CallToolRequestParams(name=name, arguments=arguments)
    result = await client.session.send_request(mcp_types.CallToolRequest(params=params), mcp_types.CallToolResult)
    return result.model_dump(by_alias=True, exclude_none=True, mode="json")


def texts(result: JSON) -> list[str]:
    return [block["text"] for block in result["content"] if block["type"] == "text"]


def uri_in(result: JSON) -> str:
    found = URI.search("".join(texts(result)))
    assert found is not None
    return found[0]


async def read(client: mcp.Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, mcp_types.TextResourceContents)
    return contents.text


def bytes_of_text(result: JSON) -> int:
    return sum(len(to_json(text)) for text in texts(result))


@both_eras
async def test_of_what_codex_would_lose_both_ends_stay_and_the_rest_is_read_in_pieces(mode: str) -> None:
    async with three_sources(LINES) as running:
        for path in ("", "agents/a1"):
            async with known_as(running, CODEX, mode, path) as client:
                result = await called(client)
                assert bytes_of_text(result) <= 10_000
                text, link = result["content"]
                assert text["text"].startswith("line 000000 ")
                assert text["text"].endswith("line 003999 of a long result\n")
                assert link["type"] == "resource_link"
                assert (link["uri"], link["size"]) == (uri_in(result), len(LINES))
                told = re.search(r"in (\d+) pieces", text["text"])
                assert told is not None
                pieces = [await read(client, f"{link['uri']}/{number}") for number in range(1, int(told[1]) + 1)]
                assert "".join(pieces) == LINES == await read(client, link["uri"])
                assert max(len(to_json(piece)) for piece in pieces) <= 10_000
                assert all(piece.endswith("\n") for piece in pieces)
                for wrong in ("/0", f"/{len(pieces) + 1}", "/x", "x", "/1/1", "/-1"):
                    with pytest.raises(mcp.MCPError):
                        await read(client, link["uri"] + wrong)


@both_eras
@pytest.mark.parametrize(
    "name", ["claude-code", "copilot-cli", "Visual Studio Code", "opencode", "cursor-vscode", "x", ""]
)
async def test_others_are_given_what_the_tool_returned(mode: str, name: str) -> None:
    async with three_sources(LINES) as running, known_as(running, name, mode) as client:
        assert texts(await called(client)) == [LINES]
        assert [item.name for item in (await client.list_tools()).tools] == ["first", "large", "third"]
        assert client.server_capabilities.resources is None


@both_eras
async def test_what_is_not_too_large_is_left_as_it_is(mode: str) -> None:
    fitting = "x" * 9_998  # and two quotation marks
    image = {"type": "image", "data": "A" * 40_000, "mimeType": "image/png"}
    content = [{"type": "text", "text": fitting}, image]
    async with three_sources({"content": content, "_meta": {"a": 1}}) as running:
        async with known_as(running, CODEX, mode) as client:
            result = await called(client)
            assert result["content"] == content
            assert result["_meta"]["a"] == 1


@both_eras
async def test_a_failure_stays_one_and_pictures_and_meta_stay_where_they_are(mode: str) -> None:
    image = {"type": "image", "data": "A" * 40_000, "mimeType": "image/png"}
    embedded = {"type": "resource", "resource": {"uri": "a://b", "text": "embedded " * 3_000}}
    content = [{"type": "text", "text": "begin"}, {"type": "text", "text": LINES}, image, embedded]
    async with three_sources({"content": content, "isError": True, "_meta": {"a": 1}}) as running:
        async with known_as(running, CODEX, mode) as client:
            result = await called(client)
            assert result["isError"] is True
            assert result["_meta"]["a"] == 1
            assert [block["type"] for block in result["content"]] == ["text", "text", "resource_link", "image"]
            assert result["content"][3] == image
            assert await read(client, uri_in(result)) == f"{LINES}\n\n{embedded['resource']['text']}"  # type: ignore[index]


@both_eras
async def test_structured_content_gives_way_where_it_would_take_the_place_of_what_can_be_read(mode: str) -> None:
    rows = {"rows": [f"row {number} of many" for number in range(2_000)]}
    many = {"rows": rows["rows"] * 10, "über": 0.5}
    definition = {**tool("large"), "outputSchema": {"type": "object"}}
    for told_of, content in (
        (rows, []),
        (rows, [{"type": "text", "text": "2,000 rows"}]),
        (rows, [{"type": "text", "text": json.dumps(rows)}]),
        (many, [{"type": "text", "text": json.dumps(many, indent=2)}]),
        (many, [{"type": "text", "text": json.dumps(many, separators=(",", ":"), ensure_ascii=False)}]),
    ):
        returned = {"content": content, "structuredContent": told_of}
        agent = ScriptedAgent(returning(returned), definition)
        async with running_bridge(agent, one_tool(lambda _: ""), one_tool(lambda _: "", "b")) as running:
            async with known_as(running, CODEX, mode) as client:
                told = await unchecked(client, "large")
                assert "structuredContent" not in told
                assert bytes_of_text(told) <= 10_000
                assert json.loads(await read(client, uri_in(told))) == told_of
            async with known_as(running, EARLY_COPILOT, mode) as client:
                assert (await called(client))["structuredContent"] == told_of  # its program holds it against the schema


@both_eras
async def test_a_picture_is_shown_to_a_model_that_would_be_shown_structured_content_in_its_place(mode: str) -> None:
    picture = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    text = {"type": "text", "text": '{"a": 1}'}
    definition = {**tool("large"), "outputSchema": {"type": "object"}}
    for content, shown in (
        ([picture, text], ["image", "text"]),
        ([picture], ["image", "text"]),
        ([text], None),
        ([], None),
    ):
        returned = {"content": content, "structuredContent": {"a": 1}}
        async with running_bridge(ScriptedAgent(returning(returned), definition)) as running:
            async with known_as(running, CODEX, mode) as client:
                told = await unchecked(client, "large")
                assert ("structuredContent" in told) == (shown is None)
                assert [block["type"] for block in told["content"]] == (shown or ["text"])
                assert [json.loads(said) for said in texts(told)] == [{"a": 1}]
            async with known_as(running, "another", mode) as client:
                assert (await called(client))["structuredContent"] == {"a": 1}


@both_eras
async def test_a_client_whose_model_reads_no_resources_has_a_tool_for_it(mode: str) -> None:
    async with three_sources(LINES) as running, known_as(running, EARLY_COPILOT, mode) as client:
        assert [item.name for item in (await client.list_tools()).tools] == ["first", "large", "third", "read_result"]
        result = await called(client)
        assert bytes_of_text(result) <= 10_240
        told = re.search(r"Call read_result with uri (\S+) and piece 1 to (\d+)", texts(result)[0])
        assert told is not None
        read_back = [await called(client, "read_result", uri=told[1], piece=n + 1) for n in range(int(told[2]))]
        assert "".join(texts(piece)[1] for piece in read_back) == LINES
        assert texts(read_back[0])[0] == f"[Piece 1 of {told[2]}]"
        assert max(map(bytes_of_text, read_back)) <= 10_240
        assert texts(await called(client, "read_result", uri=f"{told[1]}/2")) == texts(read_back[1])
        for same in ({"piece": None}, {"piece": 1.0}, {"piece": "1"}):  # as models say it
            assert texts(await called(client, "read_result", uri=told[1], **same)) == texts(read_back[0])
        pieces: list[Any] = [99, 0, -1, 1.5, "one", "", "/1", [], {}, True, False]
        uris: list[Any] = ["x", "", None, [told[1]], {"a": 1}, f"{told[1]}/1/2", f"{told[1]}/2/.."]
        for wrong in (*({"uri": told[1], "piece": piece} for piece in pieces), *({"uri": uri} for uri in uris), {}):
            failed = await called(client, "read_result", **wrong)
            assert failed["isError"] is True
            assert "Expected a uri and a piece" in texts(failed)[0]
        async with known_as(running, CODEX, mode) as other:
            with pytest.raises(mcp.MCPError, match="Unknown tool"):
                await other.call_tool("read_result", {"uri": told[1]})


@both_eras
async def test_our_tool_gives_way_to_one_of_its_name(mode: str) -> None:
    own = one_tool(lambda _: "their own", "read_result")
    async with running_bridge(own, one_tool(lambda _: LINES, "large"), one_tool(lambda _: "")) as running:
        async with known_as(running, EARLY_COPILOT, mode) as client:
            assert texts(await called(client, "read_result")) == ["their own"]
            text = texts(await called(client))[0]
            assert "Call gaia-bridge__read_result with uri" in text


@both_eras
async def test_nobody_else_reads_what_is_kept_and_it_goes_with_its_client(mode: str) -> None:
    async with three_sources(LINES) as running:
        kept = links_of(running)
        async with known_as(running, CODEX, mode) as client:
            uri = uri_in(await called(client))
            async with known_as(running, CODEX, mode) as other:
                for address in (uri, f"{uri}/1"):
                    with pytest.raises(mcp.MCPError):
                        await read(other, address)
            assert await read(client, uri) == LINES
        assert (kept._uses, len(kept._kept)) == ({}, 0)  # pyright: ignore[reportPrivateUsage]


@both_eras
async def test_what_is_kept_is_bounded_in_number_size_and_time(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(kept_results, "time", SimpleNamespace(monotonic=lambda: now[0]))
    limits = ClientLimits(kept=2, kept_seconds=60, kept_bytes=3 * len(LINES))
    async with three_sources(LINES, Settings(clients=limits)) as running, known_as(running, CODEX, mode) as client:
        uris = [uri_in(await called(client)) for _ in range(3)]
        with pytest.raises(mcp.MCPError):
            await read(client, uris[0])
        assert await read(client, uris[2]) == LINES
        now[0] += 61
        with pytest.raises(mcp.MCPError):
            await read(client, uris[2])
        await called(client)
        assert len(links_of(running)._kept) == 1  # pyright: ignore[reportPrivateUsage]
    small = Settings(clients=ClientLimits(kept_bytes=1_000))
    async with three_sources(LINES, small) as running, known_as(running, CODEX, mode) as client:
        assert texts(await called(client)) == [LINES]


@both_eras
async def test_large_results_are_made_smaller_in_a_thread_and_others_at_once(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[int]()

    def shorten(*given: Any) -> Any:
        threads.append(threading.get_ident())
        return shortened_for_client(*given)

    monkeypatch.setattr(client_results, "shortened_for_client", shorten)
    for large, elsewhere in ((len(LINES), True), (len(LINES) * 2, False)):
        threads.clear()
        settings = Settings(agent=AgentLimits(large_result_bytes=large))
        async with three_sources(LINES, settings) as running, known_as(running, CODEX, mode) as client:
            assert await read(client, uri_in(await called(client))) == LINES
            assert [thread != threading.get_ident() for thread in threads] == [elsewhere]


async def test_a_call_that_is_cancelled_while_its_result_is_made_smaller_is_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, let = threading.Event(), threading.Event()

    def shorten(*given: Any) -> Any:
        begun.set()
        assert let.wait(PATIENCE)
        return shortened_for_client(*given)

    monkeypatch.setattr(client_results, "shortened_for_client", shorten)
    answers = list[Answer]()

    async def answered(answer: Answer) -> None:
        answers.append(answer)

    connection = ClientConnection(NOWHERE, "2025-11-25")
    connection.initialize_result = {"clientInfo": {"name": CODEX}, "capabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "large"}}
    settings = Settings(agent=AgentLimits(large_result_bytes=1_000))
    async with three_sources(LINES, settings) as running:
        leavings: list[Callable[[], object]] = [lambda: connection.received.cancel(1, None), connection.close]
        for leave in leavings:
            begun.clear()
            let.clear()
            task = running.endpoint().begin(Call(connection, NOWHERE, message), answered)
            await wait_in_thread(begun.wait)
            leave()
            let.set()
            await task
            kept = links_of(running)
            assert (kept._uses, len(kept._kept)) == ({}, 0)  # pyright: ignore[reportPrivateUsage]
    assert [answer.body for answer in answers] == [b"", b""]


@both_eras
async def test_a_client_with_many_results_pushes_out_nothing_of_others(mode: str) -> None:
    limits = ClientLimits(kept=3, kept_bytes=3 * len(LINES))
    async with three_sources(LINES, Settings(clients=limits)) as running:
        async with known_as(running, CODEX, mode) as client, known_as(running, CODEX, mode) as other:
            uri = uri_in(await called(client))
            many = [uri_in(await called(other)) for _ in range(5)]
            assert await read(client, uri) == LINES
            assert await read(other, many[-1]) == await read(other, many[-2]) == LINES
            with pytest.raises(mcp.MCPError):
                await read(other, many[-3])


@both_eras
async def test_numbers_of_ones_own_count_and_the_table_can_be_switched_off(mode: str) -> None:
    own = ClientLimits(results=(("My Editor", 4_096), (CODEX, 0)))
    async with three_sources(LINES, Settings(clients=own)) as running:
        async with known_as(running, "my editor (via mcp-remote 0.1.37)", mode) as client:
            assert 2_048 < bytes_of_text(await called(client)) <= 4_096
        async with known_as(running, CODEX, mode) as client:
            assert texts(await called(client)) == [LINES]
    off = Settings(clients=ClientLimits(known_results=False))
    async with three_sources(LINES, off) as running, known_as(running, CODEX, mode) as client:
        assert texts(await called(client)) == [LINES]
        assert client.server_capabilities.resources is None


@both_eras
@pytest.mark.parametrize(
    "text",
    [
        "x" * 90_000,
        "👩\u200d👩\u200d👧🏽" * 9_000,
        "\x00" * 20_000,
        '"\\' * 20_000,
        "語" * 20_000,
        "\n" * 50_000,
        "a\n" * 9_000,
        "\ud83d" * 20_000,
    ],
)
async def test_whatever_the_text_is_it_fits_and_nothing_of_it_is_lost(mode: str, text: str) -> None:
    async with three_sources(text) as running, known_as(running, CODEX, mode) as client:
        result = await called(client)
        assert bytes_of_text(result) <= 10_000
        uri = uri_in(result)
        count = links_of(running).pieces(uri)
        assert "".join([await read(client, f"{uri}/{number + 1}") for number in range(count)]) == text.replace(
            "\ud83d", "?"
        )


@pytest.mark.parametrize("one", ["👩\u200d👩\u200d👧🏽", "e\u0301\u0323", "\r\n", "👍🏽"])
async def test_what_is_one_to_the_eye_stays_together(one: str) -> None:
    def is_whole(text: str) -> bool:
        return text.strip("x").replace(one, "") == ""

    for shift in range(3):
        async with three_sources("x" * shift + one * 9_000) as running:
            async with known_as(running, CODEX, "auto") as client:
                result = await called(client)
                head, _, rest = texts(result)[0].partition("\n[")
                assert is_whole(head.removesuffix("\r")) and is_whole(rest.partition("to read all.]\n")[2])
                uri, kept = uri_in(result), links_of(running)
                for number in range(kept.pieces(uri)):
                    assert is_whole(await read(client, f"{uri}/{number + 1}"))


@both_eras
async def test_what_is_said_of_a_single_text_is_said_of_its_ends_and_its_link(mode: str) -> None:
    about = {"audience": ["user"], "priority": 0.5}
    embedded = {"uri": "a://b", "text": LINES, "mimeType": "text/markdown"}
    for block, mime in (
        ({"type": "text", "text": LINES, "annotations": about}, "text/plain"),
        ({"type": "resource", "resource": embedded, "annotations": about}, "text/markdown"),
    ):
        async with three_sources({"content": [block]}) as running, known_as(running, CODEX, mode) as client:
            text, link = (await called(client))["content"]
            assert text["annotations"] == link["annotations"] == about
            (contents,) = (await client.read_resource(link["uri"])).contents
            assert (link["mimeType"], contents.mime_type) == (mime, mime)


@both_eras
async def test_many_blocks_become_one_text(mode: str) -> None:
    content = [{"type": "text", "text": f"{number:04} {'y' * 200}"} for number in range(400)]
    async with three_sources({"content": content}) as running, known_as(running, CODEX, mode) as client:
        result = await called(client)
        assert bytes_of_text(result) <= 10_000
        everything = "".join(texts(result)) + await read(client, uri_in(result))
        assert all(f"{number:04} y" in everything for number in range(400))


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_revision_without_links_is_told_of_it_in_words(revision: str) -> None:
    async with three_sources(LINES, Settings(clients=ClientLimits(results=(("client", 4_096),)))) as running:
        async with client_of_revision(running.endpoint(), revision) as client:
            await client.introduce()
            result = await client.result("tools/call", {"name": "large", "arguments": {}})
            kinds = [block["type"] for block in result["content"]]
            assert kinds == ["text", "text" if revision < "2025-06-18" else "resource_link"]
            (contents,) = (await client.result("resources/read", {"uri": uri_in(result)}))["contents"]
            assert contents["text"] == LINES


@both_eras
async def test_a_question_passes_and_the_result_after_it_is_shortened(mode: str) -> None:
    def ask(arguments: JSON) -> str:
        get_request_context().elicit("Go on?", {"type": "object", "properties": {}})
        return LINES

    async def agree(context: Any, params: Any) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action="accept", content={})

    async with running_bridge(one_tool(lambda _: ""), one_tool(ask, "ask"), one_tool(lambda _: "", "b")) as running:
        info = mcp_types.Implementation(name=CODEX, version="0.169.0")
        async with running.client(mode, client_info=info, elicitation_callback=agree) as client:
            assert await read(client, uri_in(await called(client, "ask"))) == LINES


@both_eras
async def test_results_of_servers_are_shortened_as_those_of_agents(mode: str) -> None:
    server = mcp_server.MCPServer("far")

    def report(lines: int) -> str:
        """Many lines."""
        return LINES[: lines * 10]

    server.add_tool(report)
    async with running_bridge(one_tool(lambda _: ""), one_tool(lambda _: "", "b")) as running:
        await running.bridge.add_agent(server, "far")
        for path, name in (("", "far__report"), ("servers/far", "report")):
            async with known_as(running, CODEX, mode, path) as client:
                result = await unchecked(client, name, lines=3_000)
                assert "structuredContent" not in result
                assert await read(client, uri_in(result)) == LINES[:30_000]
                assert texts(await unchecked(client, name, lines=10)) == [LINES[:100]]


@both_eras
@pytest.mark.parametrize("isolation", ["shared", "session"])
async def test_of_two_bridges_only_the_one_in_front_makes_results_smaller(
    mode: str, isolation: Literal["shared", "session"]
) -> None:
    behind = Settings(clients=ClientLimits(results=((CODEX, 4_096), ("gaia-mcp-bridge", 4_096))))
    reads = one_tool(
        lambda _: "",
        "reads",
        get_mcp_resources=lambda: [{"uri": "a://b", "name": "b"}],
        read_mcp_resource=nothing,
    )
    async with serving({"behind": one_tool(lambda _: LINES, "large")}, behind) as (url, _):
        async with running_bridge(reads, one_tool(lambda _: "", "b")) as running:
            spec = HttpServerSpec("far", f"{url}/mcp", options=ServerOptions(isolation=isolation))
            await running.bridge.add_upstream(spec)
            for path, name in (("", "far__large"), ("servers/far", "large")):
                async with known_as(running, CODEX, mode, path) as client:
                    text, link = (await called(client, name))["content"]
                    assert 4_096 < len(to_json(text["text"])) <= 10_000
                    assert len(URI.findall(text["text"])) == 3
                    for uri in {*URI.findall(text["text"]), link["uri"]}:
                        assert await read(client, uri) == LINES


@both_eras
@pytest.mark.parametrize("code", [-32602, -32603, -32000])
async def test_whoever_reads_what_is_kept_no_longer_is_told_what_to_do(mode: str, code: int) -> None:
    server = mcp_server.MCPServer("far")
    server.add_tool(lambda: "", name="nothing", description="Nothing.")

    async def refuse(context: Any, params: Any) -> mcp_types.ReadResourceResult:
        raise mcp.MCPError(code, f"no {params.uri} here")

    async def list_resources(context: Any, params: Any) -> mcp_types.ListResourcesResult:
        return mcp_types.ListResourcesResult(resources=[mcp_types.Resource(name="b", uri="a://b")])

    curt = mcp_lowlevel.Server("curt", on_list_resources=list_resources, on_read_resource=refuse)
    async with three_sources(LINES) as running:
        await running.bridge.add_agent(server, "far")
        await running.bridge.add_agent(curt, "curt")
        async with known_as(running, CODEX, mode) as client:
            with pytest.raises(mcp.MCPError, match="no a://other here"):
                await read(client, "a://other")
        for path in ("", "agents/a1", "servers/far", "servers/curt"):
            async with known_as(running, CODEX, mode, path) as client:
                with pytest.raises(mcp.MCPError, match=r"gaia-result://gone/1\. It is kept .* so call its tool again"):
                    await read(client, "gaia-result://gone/1")


class Programs:
    """Programs that speak 2026-07-28 over HTTP, each of whose requests stands alone.

    Args:
        running: The bridge.
    """

    def __init__(self, running: RunningBridge) -> None:
        self._app = running.bridge.asgi(AccessPolicy.for_address("127.0.0.1", 8765))

    async def said(self, method: str, params: JSON, name: str = CODEX, version: str = "1", host: str = "::1") -> JSON:
        """What the bridge answers to one request of a program at an address."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            CLIENT_INFO_KEY: {"name": name, "version": version},
        }
        head = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
        head |= {"mcp-method": method, "mcp-name": params.get("name") or params["uri"]}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        transport = httpx2.ASGITransport(self._app, client=(host, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765", timeout=10) as client:
            response = await client.post("/mcp", json=body, headers=head)
        lines = response.text.splitlines()
        text = next((line[6:] for line in reversed(lines) if line.startswith("data: {")), response.text)
        answer: JSON = json.loads(text)
        return answer

    async def uri(self, name: str = CODEX) -> str:
        """The address of what is kept of a result."""
        return uri_in((await self.said("tools/call", {"name": "large", "arguments": {}}, name))["result"])


async def test_over_http_without_sessions_programs_at_one_address_read_what_is_kept() -> None:
    async with three_sources(LINES) as running:
        programs = Programs(running)
        uri = await programs.uri()
        for address in (uri, f"{uri}/1"):
            answer = await programs.said("resources/read", {"uri": address})
            assert LINES.startswith(answer["result"]["contents"][0]["text"])
            refused = await programs.said("resources/read", {"uri": address}, host="10.0.0.9")
            assert "call its tool again" in refused["error"]["message"]
        assert "result" in await programs.said("resources/read", {"uri": uri})
        uri = await programs.uri(EARLY_COPILOT)
        call = {"name": "read_result", "arguments": {"uri": uri}}
        assert "isError" not in (await programs.said("tools/call", call, EARLY_COPILOT))["result"]
        assert (await programs.said("tools/call", call, EARLY_COPILOT, host="10.0.0.9"))["result"]["isError"] is True


async def test_the_length_of_a_name_adds_nothing_to_what_is_kept() -> None:
    async with three_sources(LINES) as running:
        name = f"{CODEX} (via {'x' * 500_000})"
        programs = Programs(running)
        assert "result" in await programs.said("resources/read", {"uri": await programs.uri(name)}, name)
        owners = [kept.owner for kept in links_of(running)._kept.values()]  # pyright: ignore[reportPrivateUsage]
        assert len(repr(owners)) < 1_000


async def test_a_client_that_does_not_say_who_it_is_is_given_everything() -> None:
    async with three_sources(LINES) as running, client_of_revision(running.endpoint(), "2026-07-28") as client:
        for info in ({}, {"name": None}, {"name": 7}, CODEX):
            meta = {CLIENT_INFO_KEY: info}
            answer = await client.response("tools/call", {"name": "large", "arguments": {}, "_meta": meta})
            assert "result" not in answer or texts(answer["result"]) == [LINES]
            assert "result" in answer or answer["error"]["code"] == -32602


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_sound_is_a_resource_and_a_link_is_words_where_there_is_no_such_content(revision: str) -> None:
    sound = AS_RESOURCE if revision == "2024-11-05" else SOUND
    link = AS_TEXT if revision in ("2024-11-05", "2025-03-26") else LINK
    result: JSON = {"content": [SOUND, LINK, {"type": "text", "text": ""}], "isError": False}
    shown = content_for(revision, "tools/call", result)
    assert shown == {"content": [sound, link, {"type": "text", "text": ""}], "isError": False}
    messages: JSON = {"messages": [{"role": "user", "content": block} for block in (SOUND, LINK)]}
    prompt = content_for(revision, "prompts/get", messages)
    assert prompt == {"messages": [{"role": "user", "content": block} for block in (sound, link)]}


def test_no_other_result_is_looked_at() -> None:
    for revision, method in (
        ("2024-11-05", "resources/read"),
        ("2025-06-18", "tools/call"),
        ("2026-07-28", "tools/call"),
    ):
        result: JSON = {"content": [LINK]}
        assert content_for(revision, method, result) is result


def test_what_is_no_content_stays_as_it_came() -> None:
    for odd in ("?", None, {"type": "of nobody"}, {}):
        assert content_for("2024-11-05", "tools/call", {"content": [odd]}) == {"content": [odd]}
    assert content_for("2024-11-05", "prompts/get", {"messages": ["?"]}) == {"messages": ["?"]}
    assert content_for("2024-11-05", "tools/call", {"content": 1}) == {"content": 1}


def test_only_2025_11_25_is_told_how_a_tool_runs_as_a_task() -> None:
    tool = {"name": "a", "inputSchema": {"type": "object"}}
    result = {"tools": [tool, {**tool, "execution": {"taskSupport": "optional"}}]}
    for revision in ("2024-11-05", "2025-03-26", "2025-06-18"):
        assert content_for(revision, "tools/list", result) == {"tools": [tool, tool]}
