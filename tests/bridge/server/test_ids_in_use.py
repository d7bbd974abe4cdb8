"""Two requests of one id on one connection: the second is refused while the first is in flight, which goes on.

The specification has clients use an id once (basic, "Requests"). With two answers of one id nobody could tell which is
whose, nor which of the two a cancellation means.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup

from gaia_bridge.bridge import Bridge
from gaia_bridge.text.json_types import JSON, is_array
from tests.probes.reaching import MODERN, hello, meta, serving_http, stream
from tests.support.agents import ScriptedAgent
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio

ACCEPT = {"accept": "application/json, text/event-stream"}
ACCEPTED: JSON = {"jsonrpc": "2.0", "method": "notifications/initialized"}
WAIT: JSON = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}


class Agent(ScriptedAgent):
    """Has a tool that answers when it is let."""

    def __init__(self) -> None:
        self.calls = threading.Semaphore(0)
        self.let = threading.Event()
        super().__init__(self._wait, "wait")

    def _wait(self, name: str, arguments: Mapping[str, Any]) -> str:
        self.calls.release()
        assert self.let.wait(PATIENCE)
        return "done"

    async def called(self) -> None:
        await wait_in_thread(lambda seconds: self.calls.acquire(timeout=seconds))


class Client:
    """One client, and what it was answered, in order.

    Args:
        tasks: Where answers are waited for.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self.tasks = tasks
        self._answers: asyncio.Queue[JSON] = asyncio.Queue()
        self._lines: Any = None
        self.say: Callable[[object], Any]

    def take(self, message: Any) -> None:
        for item in message if is_array(message) else [message]:
            if "id" in item:
                self._answers.put_nowait(item)

    async def answer(self) -> JSON:
        return await self._answers.get()

    async def close(self) -> None:
        self.tasks.cancel_scope.cancel()
        if self._lines is not None:
            with anyio.CancelScope(shield=True):
                await self._lines.close()

    async def over_lines(self, bridge: Bridge, tasks: TaskGroup) -> None:
        lines = await stream(bridge, tasks)
        self.say = lines.write
        self._lines = lines

        async def listen() -> None:
            while True:
                self.take(await lines.next())

        self.tasks.start_soon(listen)

    async def over_sse(self, http: httpx2.AsyncClient) -> None:
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def listen() -> None:
            async with http.stream("GET", "/sse", headers={"accept": "text/event-stream"}) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        self.take(json.loads(line.removeprefix("data: ")))
                    elif line.startswith("data: "):
                        address.set_result(line.removeprefix("data: "))

        self.tasks.start_soon(listen)
        path = await address

        async def say(message: object) -> None:
            assert (await http.post(path, json=message)).status_code == 202

        self.say = say

    async def over_http(self, http: httpx2.AsyncClient) -> None:
        session: dict[str, str] = {}

        async def post(message: object) -> None:
            async with http.stream("POST", "/mcp", json=message, headers={**ACCEPT, **session}) as response:
                if "mcp-session-id" in response.headers:
                    session["mcp-session-id"] = response.headers["mcp-session-id"]
                async for line in response.aiter_lines():
                    if (data := line.removeprefix("data: ")).startswith("{"):
                        self.take(json.loads(data))

        async def say(message: object) -> None:
            self.tasks.start_soon(post, message)

        self.say = say


@asynccontextmanager
async def connected(way: str, revision: str = "2025-11-25") -> AsyncGenerator[tuple[Client, Agent]]:
    agent = Agent()
    with anyio.fail_after(PATIENCE * 2):
        async with Bridge() as bridge, anyio.create_task_group() as tasks:
            await bridge.add_agent(agent, "agent")
            async with serving_http(bridge, tasks) as http, anyio.create_task_group() as listening:
                client = Client(listening)
                match way:
                    case "stdio":
                        await client.over_lines(bridge, tasks)
                    case "sse":
                        await client.over_sse(http)
                    case _:
                        await client.over_http(http)
                await greet(client, revision)
                yield client, agent
                agent.let.set()
                await client.close()
            tasks.cancel_scope.cancel()


async def greet(client: Client, revision: str) -> None:
    if revision != MODERN:
        await client.say(hello(revision))
        assert "result" in await client.answer()
        await client.say(ACCEPTED)


@pytest.mark.requirement("F-084")
@pytest.mark.parametrize("way", ["stdio", "sse", "http"])
async def test_the_second_request_of_an_id_in_flight_is_refused_and_the_first_goes_on(way: str) -> None:
    async with connected(way) as (client, agent):
        await client.say(WAIT)
        await agent.called()
        for again in (WAIT, {"jsonrpc": "2.0", "id": 7, "method": "ping"}):
            await client.say(again)
            refused = await client.answer()
            assert (refused["id"], refused["error"]["code"]) == (7, -32600)
            assert "not answered yet" in refused["error"]["message"]
        await client.say({"jsonrpc": "2.0", "id": "7", "method": "ping"})  # another id: it is no number
        assert await client.answer() == {"jsonrpc": "2.0", "id": "7", "result": {}}
        agent.let.set()
        assert (await client.answer())["result"]["content"] == [{"type": "text", "text": "done"}]
        await client.say({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        assert await client.answer() == {"jsonrpc": "2.0", "id": 7, "result": {}}


@pytest.mark.requirement("F-084")
@pytest.mark.parametrize("way", ["stdio", "sse", "http"])
async def test_a_cancellation_means_the_first_of_two_requests_of_one_id(way: str) -> None:
    async with connected(way) as (client, agent):
        await client.say(WAIT)
        await agent.called()
        await client.say(WAIT)
        assert (await client.answer())["error"]["code"] == -32600
        await client.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        if way == "http":  # where a stream ends with a response
            assert "cancelled" in (await client.answer())["error"]["message"]
        await client.say({"jsonrpc": "2.0", "id": 8, "method": "ping"})
        assert await client.answer() == {"jsonrpc": "2.0", "id": 8, "result": {}}


@pytest.mark.requirement("F-084")
@pytest.mark.parametrize("way", ["stdio", "sse", "http"])
async def test_of_two_requests_of_one_id_in_a_batch_the_second_is_refused_and_both_are_answered(way: str) -> None:
    async with connected(way, "2025-03-26") as (client, agent):
        agent.let.set()
        await client.say([WAIT, WAIT])
        answers = [await client.answer(), await client.answer()]
        assert sorted(next(iter(answer.keys() - {"jsonrpc", "id"})) for answer in answers) == ["error", "result"]
        await client.say({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        assert await client.answer() == {"jsonrpc": "2.0", "id": 7, "result": {}}


@pytest.mark.requirement("F-084")
async def test_the_second_request_of_an_id_on_a_stream_of_the_latest_revision_is_refused() -> None:
    async with connected("stdio", MODERN) as (client, agent):
        params = {**WAIT["params"], "_meta": meta()}
        await client.say({**WAIT, "params": params})
        await agent.called()
        await client.say({**WAIT, "params": params})
        assert (await client.answer())["error"]["code"] == -32600
        agent.let.set()
        assert (await client.answer())["result"]["resultType"] == "complete"


@pytest.mark.requirement("F-084")
async def test_over_http_of_the_latest_revision_each_request_stands_alone_whatever_its_id() -> None:
    agent, answers = Agent(), list[JSON]()
    with anyio.fail_after(PATIENCE * 2):
        async with Bridge() as bridge, anyio.create_task_group() as tasks:
            await bridge.add_agent(agent, "agent")
            async with serving_http(bridge, tasks) as http, anyio.create_task_group() as calls:
                headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "wait"}

                async def post() -> None:
                    message = {**WAIT, "params": {**WAIT["params"], "_meta": meta()}}
                    answers.append((await http.post("/mcp", json=message, headers=headers)).json())

                for _ in range(2):
                    calls.start_soon(post)
                    await agent.called()
                agent.let.set()
            assert [answer["result"]["resultType"] for answer in answers] == ["complete"] * 2
            tasks.cancel_scope.cancel()
