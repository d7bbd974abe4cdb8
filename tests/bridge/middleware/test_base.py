"""Middleware is around requests: in order, once, in both eras, and nowhere where nobody wants it."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import pytest

from gaia_bridge import Bridge, ProtocolError, ToolError, get_request_context, prompt, resource, source, tool
from gaia_bridge.middleware import CallNext, McpRequest, Middleware
from gaia_bridge.model import Change, NamingPolicy, ServerInfo
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.settings import Settings
from gaia_bridge.sources.functions.collection import ModuleFunctions
from gaia_bridge.testing import FakeUser, connected
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent, one_tool
from tests.support.on_demand import mcp_server

pytestmark = pytest.mark.anyio

Era = Literal["legacy", "modern"]
both_eras = pytest.mark.parametrize("era", ["legacy", "modern"])


class Shop:
    """What is published: one of each kind."""

    @tool
    def add(self, a: int, b: int = 1) -> int:
        return a + b

    @prompt
    def greet(self, name: str) -> str:
        return f"Greet {name}"

    @resource("shop://sign", mime_type="text/plain")
    def sign(self) -> str:
        return "open"


def shop() -> ModuleFunctions:
    return ModuleFunctions(Shop())  # type: ignore[arg-type]


class Notes(Middleware):
    """Writes down where it was."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self._name = name
        self.notes = notes

    async def on_request(self, request: McpRequest, call_next: CallNext) -> JSON:
        self.notes.append(f"{self._name} {request.method} {request.name}".rstrip())
        result = await call_next(request)
        self.notes.append(f"{self._name} done")
        return result


class Every(Notes):
    async def on_list(self, request: McpRequest, call_next: CallNext) -> JSON:
        self.notes.append(f"list {request.method}")
        return await call_next(request)

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        self.notes.append(f"call {request.name} {dict(request.arguments)}")
        return await call_next(request)

    async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
        self.notes.append(f"read {request.name}")
        return await call_next(request)

    async def on_get_prompt(self, request: McpRequest, call_next: CallNext) -> JSON:
        self.notes.append(f"get {request.name} {dict(request.arguments)}")
        return await call_next(request)


class Doing(Middleware):
    """Does one thing around calls."""

    def __init__(self, do: Any) -> None:
        self._do = do

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        result: JSON = await self._do(request, call_next)
        return result


@both_eras
async def test_the_first_is_the_outermost_and_each_has_its_own_hook(era: Era) -> None:
    notes: list[str] = []
    async with (
        Bridge(shop(), middleware=[Every("a", notes), Notes("b", notes)]) as bridge,
        connected(bridge, era=era) as client,
    ):
        notes.clear()
        assert (await client.call_tool("add", a=1)).text == "2"
        assert notes == ["a tools/call add", "call add {'a': 1}", "b tools/call add", "b done", "a done"]
        notes.clear()
        await client.get_prompt("greet", {"name": "Ada"})
        assert notes[1] == "get greet {'name': 'Ada'}"
        notes.clear()
        await client.read_resource("shop://sign")
        assert notes[1] == "read shop://sign"
        notes.clear()
        await client.list_tools()
        assert "list tools/list" in notes


@both_eras
@pytest.mark.parametrize("endpoint", [None, "one", "own", "up"])
async def test_a_call_passes_once_whichever_endpoint_it_comes_by(era: Era, endpoint: str | None) -> None:
    server = mcp_server.MCPServer("up")

    @server.tool()
    def add(a: int, b: int = 1) -> int:
        return a + b

    seen: list[str] = []

    async def see(request: McpRequest, call_next: CallNext) -> JSON:
        seen.append(request.endpoint)
        return await call_next(request)

    async with Bridge(middleware=[Doing(see)]) as bridge:
        await bridge.add(shop(), "one")
        await bridge.add(source(shop()).prefixed("s"), "own")
        await bridge.add(server, "up")
        async with connected(bridge, era=era, endpoint=endpoint) as client:
            for listed in await client.list_tools():
                assert (await client.call_tool(listed["name"], a=1)).text == "2"
                assert seen == [endpoint or ""]
                seen.clear()


async def test_what_nobody_wants_is_no_step_on_the_way() -> None:
    class Calls(Middleware):
        async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
            return await call_next(request)

    def handlers(*middleware: Middleware) -> Mapping[str, object]:
        catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.BARE)
        methods = Dispatcher(catalog, Settings(), "/", middleware=middleware)._methods
        handlers = {method: row.handler for (method, _), row in methods._rows.items()}
        handlers["tools/call"] = methods._tool_call
        return {method: not isinstance(handler, partial) for method, handler in handlers.items()}

    assert all(handlers().values())
    assert [method for method, is_bare in handlers(Calls()).items() if not is_bare] == ["tools/call"]


@both_eras
async def test_arguments_names_and_results_can_be_others(era: Era) -> None:
    async def other(request: McpRequest, call_next: CallNext) -> JSON:
        result = await call_next(request.with_params(name="add").with_arguments(a=5))
        return {**result, "content": [{"type": "text", "text": result["content"][0]["text"] + "!"}]}

    async with Bridge(shop(), middleware=[Doing(other)]) as bridge, connected(bridge, era=era) as client:
        result = await client.call_tool("sum", a=1, b=2)
        assert result.text == "7!"


@both_eras
async def test_it_may_answer_itself_and_it_may_call_twice(era: Era) -> None:
    calls: list[int] = []

    async def do(request: McpRequest, call_next: CallNext) -> JSON:
        if request.arguments["a"] == 0:
            return {"content": [{"type": "text", "text": "nothing"}]}
        await call_next(request)
        return await call_next(request.with_arguments(b=9))

    def run(arguments: JSON) -> str:
        calls.append(arguments.get("b", 1))
        return str(arguments["a"])

    agent = one_tool(run)
    async with Bridge(agent, middleware=[Doing(do)]) as bridge, connected(bridge, era=era) as client:
        assert (await client.call_tool("work", a=0)).text == "nothing"
        assert calls == []
        assert (await client.call_tool("work", a=2)).text == "2"
        assert calls == [1, 9]


@both_eras
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ToolError("the shop is closed"), "the shop is closed"),
        (ProtocolError(-32602, "not like this"), "not like this"),
        (ZeroDivisionError("secret"), "Internal error"),
    ],
)
async def test_what_a_hook_raises_is_answered_without_a_traceback(
    era: Era, error: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(request: McpRequest, call_next: CallNext) -> JSON:
        raise type(error)(*error.args) if not isinstance(error, ProtocolError) else ProtocolError(-32602, told)

    async with Bridge(shop(), middleware=[Doing(refuse)]) as bridge, connected(bridge, era=era) as client:
        with pytest.raises((ToolError, ProtocolError), match=told) as caught:
            await client.call_tool("add", a=1)
        assert isinstance(caught.value, ToolError) == isinstance(error, ToolError)
        assert "secret" not in str(caught.value)
        assert (await client.list_tools())[0]["name"] == "add"
    assert ("secret" in caplog.text) == isinstance(error, ZeroDivisionError)


class _Odd(BaseException):
    """What `except Exception` does not catch."""


@both_eras
@pytest.mark.parametrize("error", [_Odd, SystemExit, asyncio.CancelledError])
async def test_what_is_no_exception_is_answered_too(
    era: Era, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def give_up(request: McpRequest, call_next: CallNext) -> JSON:
        raise error

    async with Bridge(shop(), middleware=[Doing(give_up)]) as bridge, connected(bridge, era=era) as client:
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.call_tool("add", a=1)
        assert (await client.list_tools())[0]["name"] == "add"
    assert f"middleware around tools/call raised {error.__name__}" in caplog.text


@both_eras
async def test_a_result_that_contains_itself_is_an_error_and_not_without_end(era: Era) -> None:
    endless: list[Any] = []
    endless.append(endless)

    async def tangle(request: McpRequest, call_next: CallNext) -> JSON:
        return {"content": [], "extra": endless}

    async with Bridge(shop(), middleware=[Doing(tangle)]) as bridge, connected(bridge, era=era) as client:
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.call_tool("add", a=1)


@both_eras
async def test_a_hook_may_ask_the_user_itself(era: Era) -> None:
    asked: JSON = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    question: JSON = {
        "resultType": "input_required",
        "requestState": "asked",
        "inputRequests": {"sure": {"method": "elicitation/create", "params": asked}},
    }

    async def confirm(request: McpRequest, call_next: CallNext) -> JSON:
        if not request.is_continued:
            return question
        if (answer := request.client_request.input_responses.get("sure")) is None:
            return await call_next(request)
        rounds.append(answer["action"])
        begun = request.without_answers()
        assert not begun.is_continued
        return await call_next(begun)

    def ask(arguments: Any) -> str:
        return get_request_context().elicit("How many?", {"type": "object", "properties": {}}).action

    rounds: list[str] = []
    server = mcp_server.MCPServer("goods")

    @server.tool()
    def stock() -> str:
        return "full"

    async with (
        Bridge(shop(), one_tool(ask), server, middleware=[Doing(confirm)]) as bridge,
        connected(bridge, era=era, user=FakeUser({}, {}, {}, {})) as client,
    ):
        assert (await client.call_tool("add", a=1)).text == "2"
        assert (await client.call_tool("goods__stock")).text == "full"
        assert (await client.call_tool("work")).text == "accept"
    assert rounds == ["accept"] * 3


async def test_a_hook_that_forgets_to_return_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    async def forget(request: McpRequest, call_next: CallNext) -> Any:
        await call_next(request)

    async with Bridge(shop(), middleware=[Doing(forget)]) as bridge, connected(bridge) as client:
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.call_tool("add", a=1)
    assert "Doing.on_call_tool returned NoneType; expected a result" in caplog.text


async def test_parameters_that_a_hook_made_are_looked_at_too() -> None:
    async def spoil(request: McpRequest, call_next: CallNext) -> JSON:
        return await call_next(request.with_params(arguments=["a"]))

    async with Bridge(shop(), middleware=[Doing(spoil)]) as bridge, connected(bridge) as client:
        with pytest.raises(ProtocolError, match="arguments"):
            await client.call_tool("add", a=1)


@both_eras
async def test_a_question_passes_and_its_answer_comes_again(era: Era) -> None:
    rounds: list[bool] = []

    async def see(request: McpRequest, call_next: CallNext) -> JSON:
        rounds.append(request.is_continued)
        return await call_next(request)

    def ask(request: Any) -> str:
        return get_request_context().elicit("How many?", {"type": "object", "properties": {}}).action

    async with (
        Bridge(one_tool(ask), middleware=[Doing(see)]) as bridge,
        connected(bridge, era=era, user=FakeUser({})) as client,
    ):
        assert (await client.call_tool("work")).text == "accept"
    assert rounds == ([False] if era == "legacy" else [False, True])


async def test_a_request_says_what_it_is_about() -> None:
    seen: list[McpRequest] = []

    async def see(request: McpRequest, call_next: CallNext) -> JSON:
        seen.append(request)
        return await call_next(request)

    @tool(annotations={"readOnlyHint": True})
    def look() -> str:
        return ""

    async with Bridge(look, middleware=[Doing(see)]) as bridge, connected(bridge) as client:
        await client.call_tool("look")
        with pytest.raises(ProtocolError):
            await client.call_tool("missing")
        found, missing = seen
        assert found.annotations == {"readOnlyHint": True}
        assert found.tool is not None
        assert found.client.startswith("gaia-mcp-bridge")
        assert (missing.tool, dict(missing.annotations), dict(missing.arguments)) == (None, {}, {})


async def test_it_is_told_of_changes() -> None:
    told: list[tuple[str, str]] = []

    class Listening(Middleware):
        def on_change(self, endpoint: str, change: Change) -> None:
            told.append((endpoint, change.kind.value))

    async with Bridge(middleware=[Listening()]) as bridge:
        await bridge.add(shop(), "shop")
        assert ("", "tools") in told


@both_eras
async def test_who_fails_at_a_change_keeps_nobody_from_being_told(era: Era, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Middleware):
        def on_change(self, endpoint: str, change: Change) -> None:
            raise ZeroDivisionError

    async with (
        Bridge(one_tool(lambda _: ""), middleware=[Failing()]) as bridge,
        connected(bridge, era=era) as client,
    ):
        await bridge.add(shop(), "shop")
        assert len(await client.list_tools()) == 2
    assert "Failing.on_change failed" in caplog.text


class _Waiting(Middleware):
    async def on_change(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, endpoint: str, change: Change
    ) -> None:
        """Would never be awaited."""


class Slip(Middleware):
    async def on_tool_call(self, request: McpRequest, call_next: CallNext) -> JSON:
        return await call_next(request)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (_Waiting(), "_Waiting.on_change is a coroutine function; expected `def on_change`"),
        (Slip(), "Slip.on_tool_call is no hook, so that nothing calls it; expected one of on_request, on_list"),
        (Notes, r"got the class Notes; write Notes\(\)"),
        (lambda: None, "expected objects of subclasses of"),
        (ScriptedAgent(lambda *_: ""), "expected objects of subclasses of"),
    ],
)
async def test_what_is_no_middleware_is_refused_at_once(given: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        Bridge(middleware=[given])
