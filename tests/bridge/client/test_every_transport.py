"""What a connection does with a real server, the same over every transport and in both eras."""

from __future__ import annotations

from itertools import product
from typing import Any

import anyio
import pytest

from gaia_bridge.client import ClientDelegate, Deadline, Era, RequestTimeoutError
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.model import LOG_LEVELS, Progress
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.reaching import TRANSPORTS, Place
from tests.bridge.client.scripted import Role
from tests.interaction.everything_agent import CONTENT, INFO, PROMPTS, RESOURCES, TEMPLATES, TOOLS
from tests.support.on_demand import mcp_versions

pytestmark = pytest.mark.anyio

AGAIN = 0.5
"""Seconds after which a change is made once more. A legacy client over HTTP opens its standing stream some time after
the handshake, and what happens before is not told."""


@pytest.fixture(
    params=[
        pytest.param(
            (transport, era),
            id=f"{transport}-{era.value}",
            # Each of these is a process of its own; tests of real servers use pipes, too.
            marks=[pytest.mark.thorough] if transport == "stdio" else [],
        )
        for transport, era in product(TRANSPORTS, Era)
    ]
)
def place(request: pytest.FixtureRequest) -> Place:
    return Place(*request.param)


async def called(connection: Any, name: str, **arguments: Any) -> JSON:
    result: JSON = await connection.request("tools/call", {"name": name, "arguments": arguments})
    return result


class Person(Role):
    """Answers everything."""

    def __init__(self, action: str = "accept") -> None:
        capabilities: JSON = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
        super().__init__(capabilities, elicitation=self._elicited, sampling=self._sampled, roots=self._roots)
        self._action = action

    async def _elicited(self, params: JSON) -> JSON:
        if params.get("mode") == "url" or self._action != "accept":
            return {"action": self._action}
        values: dict[str, Any] = {"integer": 42, "boolean": True}
        fields: dict[str, JSON] = params["requestedSchema"]["properties"]
        content = {name: values.get(field["type"], f"some {name}") for name, field in fields.items()}
        return {"action": "accept", "content": content}

    async def _sampled(self, params: JSON) -> JSON:
        return {"role": "assistant", "model": "m-1", "content": {"type": "text", "text": "for fun"}}

    async def _roots(self, params: JSON) -> JSON:
        return {"roots": [{"uri": "file:///home/ada", "name": "home"}]}


@pytest.mark.requirement("S0-28")
async def test_the_server_introduces_itself(place: Place) -> None:
    async with place.connected() as connection:
        handshake = connection.handshake
        assert handshake.revision == (
            mcp_versions.LATEST_MODERN_VERSION if place.modern else mcp_versions.LATEST_HANDSHAKE_VERSION
        )
        assert handshake.info == {key: value for key, value in INFO.items() if key != "instructions"}
        assert handshake.instructions == INFO["instructions"]
        assert handshake.capabilities["tools"] == {"listChanged": True}
        assert handshake.capabilities["resources"] == {"listChanged": True, "subscribe": True}
        assert 0 <= await connection.ping() < 5


@pytest.mark.requirement("P-4")
async def test_every_list_is_read(place: Place) -> None:
    async with place.connected() as connection:
        tools = await connection.list_all("tool")
        assert [item["name"] for item in tools] == [item["name"] for item in TOOLS]
        assert {key: value for key, value in tools[0].items() if key != "execution"} == TOOLS[0]
        assert await connection.list_all("prompt") == PROMPTS
        assert await connection.list_all("resource") == RESOURCES
        assert await connection.list_all("resource template") == TEMPLATES


@pytest.mark.requirement("S0-32")
async def test_tools_are_called_and_their_results_arrive_whole(place: Place) -> None:
    async with place.connected() as connection:
        anything: JSON = {"text": "Grüße 🎉\u2028", "null": None, "deep": [{"a": [1.5, True, []]}], "": {}}
        assert (await called(connection, "take-anything", **anything))["structuredContent"] == {"arguments": anything}
        shown = await called(connection, "show")
        assert shown["content"] == CONTENT
        assert shown["_meta"]["example.org/m"] == 1
        assert (await called(connection, "measure", n=21))["structuredContent"] == {"double": 42}
        failed = await called(connection, "fail", how="tool error")
        assert failed["isError"] is True
        assert failed["content"][0]["text"] == "the oven is cold"


@pytest.mark.requirement("S0-33")
async def test_failures_are_json_rpc_errors_and_the_next_request_works(place: Place) -> None:
    async with place.connected() as connection:
        with pytest.raises(ProtocolError, match="Unknown tool") as caught:
            await called(connection, "no-such-tool")
        assert caught.value.code == INVALID_PARAMS
        with pytest.raises(ProtocolError) as caught:
            await connection.request("resources/read", {"uri": "none://1"})
        assert caught.value.code == (INVALID_PARAMS if place.modern else -32002)
        with pytest.raises(ProtocolError) as caught:
            await connection.request("no/such/method", {})
        assert caught.value.code == -32601
        assert (await called(connection, "measure", n=1))["structuredContent"] == {"double": 2}


async def test_prompts_resources_and_completions_are_there(place: Place) -> None:
    async with place.connected() as connection:
        letter = await connection.request("prompts/get", {"name": "write-letter", "arguments": {"to": "Ada"}})
        assert letter["messages"][0]["content"]["text"] == "Write to Ada, kindly."
        data = await connection.request("resources/read", {"uri": "data://1"})
        assert data["contents"][0]["uri"] == "data://1"
        ref = {"type": "ref/prompt", "name": "write-letter"}
        params = {"ref": ref, "argument": {"name": "to", "value": "Pa"}}
        completed = await connection.request("completion/complete", params)
        assert completed["completion"]["values"] == ["Paris", "Parma"]


@pytest.mark.requirement("P-6")
async def test_progress_and_logs_arrive_in_order_and_before_the_result(place: Place) -> None:
    reports: list[Any] = []

    async def report(told: Progress) -> None:
        reports.append((told.progress, told.total, told.message))

    delegate = Role()
    async with place.connected(delegate) as connection:
        await connection.set_log_level("warning")
        result = await connection.request("tools/call", {"name": "narrate", "arguments": {}}, on_progress=report)
        logs = [params for method, params in delegate.heard if method == "notifications/message"]
        assert result["content"][0]["text"] == "done"
    assert reports == [(step, 8, f"step {step}") for step in range(1, 9)]
    wanted = LOG_LEVELS[LOG_LEVELS.index("warning") :]
    assert [(log["level"], log["data"]["level"], log["logger"]) for log in logs] == [
        (level, level, "narrator") for level in wanted
    ]


@pytest.mark.requirement("F-038", "S-32")
async def test_what_the_server_asks_is_answered_by_the_role(place: Place) -> None:
    person = Person()
    async with place.connected(person) as connection:
        form = await called(connection, "ask-user")
        assert form["structuredContent"] == {"action": "accept", "content": {"size": 42, "color": "some color"}}
        assert (await called(connection, "ask-user-to-visit"))["structuredContent"] == {"action": "accept"}
        model = await called(connection, "ask-model")
        assert model["structuredContent"]["answer"]["content"] == {"type": "text", "text": "for fun"}
        roots = await called(connection, "ask-roots")
        assert roots["structuredContent"] == {"roots": [{"uri": "file:///home/ada", "name": "home"}]}
        interview = await called(connection, "interview")
        assert interview["structuredContent"] == {"words": ["some word", "some word"]}
        trip = {"city": "some city", "reason": "for fun", "root": "file:///home/ada", "day": "some day"}
        assert (await called(connection, "plan-trip"))["structuredContent"] == trip
        prompt = await connection.request("prompts/get", {"name": "needs-form"})
        assert prompt["messages"][0]["content"]["text"] == "It is about some topic."
    assert len(person.asked) == 11


@pytest.mark.requirement("S-32")
async def test_nothing_is_asked_of_a_role_that_declared_nothing(place: Place) -> None:
    async with place.connected(ClientDelegate()) as connection:
        refused: JSON
        try:
            refused = await called(connection, "ask-user")
        except (ProtocolError, UpstreamError) as error:
            refused = {"isError": True, "content": [{"text": str(error)}]}
        assert refused["isError"] is True
        assert "elicitation" in refused["content"][0]["text"]
        assert (await called(connection, "measure", n=1))["structuredContent"] == {"double": 2}


@pytest.mark.requirement("F-007", "P-6")
async def test_a_call_that_nobody_waits_for_is_cancelled_in_the_server(place: Place) -> None:
    async with place.connected() as connection:
        with pytest.raises(RequestTimeoutError):
            params = {"name": "wait-for-cancel", "arguments": {"key": "late"}}
            await connection.request("tools/call", params, deadline=Deadline(0.2, 0.2))
        assert (await called(connection, "ended", key="late"))["structuredContent"] == {"cancelled": True}

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: called(connection, "wait-for-cancel", key="given up"))
            await called(connection, "started", key="given up")
            tasks.cancel_scope.cancel()
        assert (await called(connection, "ended", key="given up"))["structuredContent"] == {"cancelled": True}


@pytest.mark.requirement("C-24", "F-024", "P-3")
async def test_parallel_calls_get_their_own_answers(place: Place) -> None:
    answers: dict[int, Any] = {}

    async with place.connected() as connection:

        async def call(number: int) -> None:
            answers[number] = (await called(connection, "take-anything", n=number))["structuredContent"]

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(call, number)
    assert answers == {number: {"arguments": {"n": number}} for number in range(50)}


@pytest.mark.requirement("P-5")
async def test_changes_are_heard_of(place: Place) -> None:
    delegate = Role()
    wanted = {f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}

    def heard() -> set[str]:
        return {method for method, _ in delegate.heard}

    async with place.connected(delegate) as connection:
        await connection.subscribe("note://1")
        while not wanted <= heard():
            await called(connection, "grow", key="x")
            with anyio.move_on_after(AGAIN):
                await delegate.until(lambda: wanted <= heard())
        assert "tool-x" in [item["name"] for item in await connection.list_all("tool")]

        await called(connection, "touch", key="note://2")
        await called(connection, "touch", key="note://1")
        await delegate.until(lambda: "notifications/resources/updated" in heard())
        updates = [params["uri"] for method, params in delegate.heard if method == "notifications/resources/updated"]
        assert set(updates) == {"note://1"}

        await connection.unsubscribe("note://1")


async def test_a_connection_that_is_closed_while_a_call_runs_leaves_nothing_behind(place: Place) -> None:
    failures: list[UpstreamError] = []
    async with anyio.create_task_group() as tasks:
        async with place.connected() as connection:

            async def call() -> None:
                try:
                    await called(connection, "wait-for-cancel", key="open")
                except UpstreamError as error:
                    failures.append(error)

            tasks.start_soon(call)
            await called(connection, "started", key="open")
    assert len(failures) == 1
