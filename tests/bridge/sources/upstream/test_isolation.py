"""Clients that do not share a connection: each has a process of its own, for as long as its session lasts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from gaia_bridge.model import ServerOptions
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.support.bridges import running_bridge
from tests.support.bridges import text_of as said
from tests.support.clients_of_revisions import RevisionClient, client_of_revision
from tests.support.upstreams import FakeRequest, raw_server, running, text_of, until_ready
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

SPEC = replace(raw_server(), options=ServerOptions(isolation="session"))


class Visitor(FakeRequest):
    """A client with a session, until it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.leaves: list[Callable[[], None]] = []

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        self.leaves.append(callback)
        return True


async def pid(upstream: Upstream, client: FakeRequest) -> str:
    return text_of(await upstream.call_tool("pid", {}, client))


async def test_every_client_with_a_session_has_a_process_of_its_own_while_it_is_there() -> None:
    ada, ben, nobody = Visitor(), Visitor(), FakeRequest()
    async with running(SPEC) as upstream:
        first: dict[int, str] = {}
        async with anyio.create_task_group() as tasks:

            async def ask(number: int, client: FakeRequest) -> None:
                first[number] = await pid(upstream, client)

            for number, client in enumerate((ada, ada, ben, nobody)):
                tasks.start_soon(ask, number, client)
        assert first[0] == first[1] == await pid(upstream, ada)
        assert len(set(first.values())) == 3
        assert upstream.details["sessions"] == 2
        [leave] = ada.leaves
        leave()
        leave()
        assert upstream.details["sessions"] == 1
        assert await pid(upstream, ben) == first[2]
        assert await pid(upstream, nobody) == first[3]
        assert await pid(upstream, Visitor()) not in first.values()


async def test_there_are_no_more_than_there_may_be() -> None:
    first, second = Visitor(), Visitor()
    nothing: JSON = {}
    async with running(SPEC, UpstreamLimits(max_sessions=1)) as upstream, anyio.create_task_group() as tasks:
        assert int(await pid(upstream, first)) > 0
        tasks.start_soon(upstream.call_tool, "hang", nothing, first)
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            assert "serves 1 clients with a connection of their own" in await pid(upstream, second)
        assert int(await pid(upstream, FakeRequest())) > 0, "who has no session needs no connection of its own"
        tasks.cancel_scope.cancel()
    [leave] = second.leaves  # however often it asks
    leave()


@pytest.mark.requirement("F-249")
async def test_a_connection_that_its_client_is_not_using_gives_way_to_another_client() -> None:
    async with running(SPEC, UpstreamLimits(max_sessions=2)) as upstream:
        ada, ben, eve = Visitor(), Visitor(), Visitor()
        of_ada, of_ben = await pid(upstream, ada), await pid(upstream, ben)
        assert await pid(upstream, ada) == of_ada
        of_eve = await pid(upstream, eve)
        assert upstream.details["sessions"] == 2
        assert await pid(upstream, ada) == of_ada, "ben had not used his for longer"
        again = await pid(upstream, ben)
        assert int(again) > 0
        assert again not in (of_ada, of_ben, of_eve)
        assert len(ben.leaves) == 1, "that a client leaves is told once"


async def test_a_connection_gives_way_to_no_other_client_while_a_call_waits_for_the_answer_of_its_own() -> None:
    ada, ben = Visitor(), Visitor()
    ada.modern, ada.client_capabilities = True, {"elicitation": {"form": {}}}
    async with running(SPEC, UpstreamLimits(max_sessions=1)) as upstream:
        form: JSON = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
        question: JSON = {"method": "elicitation/create", "params": form}
        asked = await upstream.call_tool("ask", question, ada)
        assert "serves 1 clients with a connection of their own" in await pid(upstream, ben)
        [key] = asked["inputRequests"]
        ada.request_state, ada.input_responses = asked["requestState"], {key: {"action": "decline"}}
        assert "decline" in text_of(await upstream.call_tool("ask", question, ada))
        ada.request_state, ada.input_responses = None, {}
        assert int(await pid(upstream, ben)) > 0


async def test_sessions_of_real_clients_are_kept_apart_and_end_with_them() -> None:
    async with running_bridge(settings=Settings(upstream=UpstreamLimits(announce_interval=0))) as running_one:
        await running_one.bridge.add_upstream(SPEC)
        [source] = running_one.bridge.sources
        await until_ready(source)
        assert isinstance(source, Upstream)
        async with running_one.client("legacy") as one, running_one.client("legacy") as two:
            pids = [said(await client.call_tool("up__pid")) for client in (one, two, one)]
            assert pids[0] == pids[2] != pids[1]
        await until(lambda: source.details["sessions"] == 0)


@pytest.mark.requirement("F-286")
async def test_the_server_is_told_who_the_client_is_and_what_it_can() -> None:
    client = Visitor()
    client.client_info = {"name": "ada", "version": "7", "title": "Ada"}
    client.client_capabilities = {"roots": {"listChanged": True}, "experimental": {"x": {}}}
    async with running(SPEC) as upstream:
        greeted = json.loads(text_of(await upstream.call_tool("greeted", {}, client)))
        shared = json.loads(text_of(await upstream.call_tool("greeted", {}, FakeRequest())))
    assert (greeted["clientInfo"], greeted["capabilities"]) == (client.client_info, client.client_capabilities)
    assert shared["clientInfo"]["name"] == "gaia-mcp-bridge"


async def test_a_start_goes_on_when_the_request_that_caused_it_is_given_up() -> None:
    async with running(SPEC) as upstream:
        for steps in range(4):  # before it begins, while it starts, and when it has
            ada = Visitor()
            given_up = asyncio.create_task(pid(upstream, ada))
            for _ in range(steps):
                await checkpoint()
            given_up.cancel()
            with anyio.fail_after(PATIENCE):
                assert int(await pid(upstream, ada)) > 0
            [leave] = ada.leaves
            leave()
            assert upstream.details["sessions"] == 0


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_what_a_server_says_and_asks_reaches_the_client_that_it_works_for_alone(revision: str) -> None:
    link: JSON = {"mode": "url", "url": "https://example.com"}
    async with running_bridge() as running_one:
        await running_one.bridge.add_upstream(SPEC)
        await until_ready(*running_one.bridge.sources)
        endpoint = running_one.endpoint("servers/up")
        async with client_of_revision(endpoint, revision) as one, client_of_revision(endpoint, revision) as two:
            people = {"one": one, "two": two}

            async def work(name: str) -> None:
                client = people[name]
                await client.introduce()
                form: JSON = {"message": f"secret of {name}", "requestedSchema": {"type": "object", "properties": {}}}
                opened: JSON = {"message": f"secret of {name}", "elicitationId": f"secret of {name}", **link}
                for asked in (form, opened) if revision == "2025-11-25" else (form,):
                    arguments: JSON = {"method": "elicitation/create", "params": asked}
                    await client.result("tools/call", {"name": "ask", "arguments": arguments})
                log: JSON = {"level": "error", "data": f"secret of {name}"}
                for method, params in (
                    ("message", log),
                    ("elicitation/complete", {"elicitationId": f"secret of {name}"}),
                ):
                    arguments = {"method": method, "params": params}
                    await client.result("tools/call", {"name": "afterwards", "arguments": arguments})
                told = ["notifications/message", "notifications/elicitation/complete"]
                told = told if revision == "2025-11-25" else told[:1]
                await client.until(lambda: [it["method"] for it in client.notifications] == told)

            async with anyio.create_task_group() as tasks:
                for name in people:
                    tasks.start_soon(work, name)
        for name, client in people.items():
            [other] = people.keys() - {name}
            assert f"secret of {other}" not in json.dumps(client.messages)
            assert all(question["params"]["message"] == f"secret of {name}" for question in client.asked)


async def test_what_a_server_says_when_it_starts_reaches_the_client_that_it_starts_for_alone() -> None:
    async with running_bridge() as running_one:
        await running_one.bridge.add_upstream(replace(raw_server("logs at start"), options=SPEC.options))
        await until_ready(*running_one.bridge.sources)
        endpoint = running_one.endpoint("servers/up")
        async with client_of_revision(endpoint, "2025-11-25") as one, client_of_revision(endpoint, "2025-11-25") as two:
            await one.introduce()
            await two.introduce()
            pids = [await _process_of(client) for client in (one, two)]
            assert [pid in json.dumps(one.notifications) for pid in pids] == [True, False]
            assert [pid in json.dumps(two.notifications) for pid in pids] == [False, True]


async def _process_of(client: RevisionClient) -> str:
    """What the process of a client has said of itself, once the client has heard that."""
    result = await client.result("tools/call", {"name": "pid"})
    said_at_start = f"process {result['content'][0]['text']}"
    await client.until(lambda: said_at_start in json.dumps(client.notifications))
    return said_at_start
