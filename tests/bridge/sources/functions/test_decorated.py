"""Decorated methods and functions as clients see them: in both eras, beside other sources."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel

from gaia.agents.base import MCPAgent, RequestContext
from gaia_bridge import Bridge, Progress, completion, prompt, resource, tool
from gaia_bridge.errors import AgentLoadError
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.sources.functions.collection import (
    DecoratedFunctions,
    ModuleFunctions,
    decorated_functions,
    decorated_members,
)
from gaia_bridge.sources.functions.marks import marks_of
from tests.interaction.connecting import ERAS, client_of
from tests.support.agents import one_tool
from tests.support.bridges import text_of
from tests.support.on_demand import mcp_server, mcp_types

if TYPE_CHECKING:
    import mcp

pytestmark = pytest.mark.anyio


class Note(BaseModel):
    """Something to remember."""

    title: str
    lines: list[str] = []


class NotesAgent(MCPAgent):
    """Keeps notes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.notes: dict[str, Note] = {"first": Note(title="first", lines=["one"])}

    @tool(title="Add a note", annotations={"idempotentHint": True}, tags=["notes"], meta={"a": 1}, timeout=30)
    def add(self, note: Note, *, loud: bool = False) -> Note:
        """Keep a note.

        Args:
            note: What to keep.
            loud: Whether to shout.
        """
        kept = Note(title=note.title.upper() if loud else note.title, lines=note.lines)
        self.notes[kept.title] = kept
        return kept

    @tool
    async def count(self, request: RequestContext) -> int:
        """Count the notes."""
        request.report_progress(1, 1, "counted")
        return len(self.notes)

    @tool
    def walk(self) -> Iterator[Progress | str]:
        for number, title in enumerate(self.notes, 1):
            yield Progress(number, len(self.notes), title)
            yield title

    @tool
    def ask(self, request: RequestContext) -> bool:
        return request.elicit("Really?", {"sure": {"type": "boolean"}}).content["sure"] is True

    @prompt(title="Sum up")
    def summary(self, style: Literal["short", "long"], words: int = 10) -> str:
        """Sum the notes up.

        Args:
            style: How long.
            words: How many words.
        """
        return f"Sum up in {words + 1} words, {style}: {', '.join(self.notes)}"

    @resource("notes://all", mime_type="text/plain")
    def all_notes(self) -> str:
        return "\n".join(self.notes)

    @resource("notes://by-title/{title}{?limit}")
    def note(self, title: str, limit: int = 5) -> Note | None:
        """One note."""
        found = self.notes.get(title)
        return None if found is None else Note(title=found.title, lines=found.lines[:limit])

    @completion("notes://by-title/{title}{?limit}", "title")
    def titles(self, value: str) -> list[str]:
        return [title for title in self.notes if title.startswith(value)]


@asynccontextmanager
async def connected(era: str, *agents: Any, **options: Any) -> AsyncGenerator[mcp.Client]:
    """A client of a bridge that publishes two sources more: an agent written by hand, and a server of the SDK."""
    server = mcp_server.MCPServer("sums")

    @server.tool()
    def add_up(a: int, b: int) -> int:  # pyright: ignore[reportUnusedFunction]
        return a + b

    async with Bridge(settings=Settings(agent=AgentLimits(call_timeout=5))) as bridge:
        for agent in (*agents, one_tool(lambda arguments: arguments, "echo"), server):
            await bridge.add_agent(agent)
        for source in bridge.sources:
            await source.learn()
        async with client_of(bridge.sdk_server(), era, **options) as client:
            yield client


@pytest.mark.parametrize("era", ERAS)
async def test_decorated_methods_are_tools_with_everything_that_was_said_of_them(era: str) -> None:
    async with connected(era, NotesAgent()) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed) == ["add", "count", "walk", "ask", "echo", "sums__add_up"]
        added = listed["add"].model_dump(by_alias=True, exclude_none=True)
        assert added["title"] == "Add a note"
        assert added["description"] == "Keep a note."
        assert added["annotations"] == {"idempotentHint": True}
        assert added["_meta"] == {"a": 1, "io.gaia-mcp-bridge/tags": ["notes"]}
        assert added["inputSchema"]["required"] == ["note"]
        assert added["inputSchema"]["properties"]["loud"] == {
            "type": "boolean",
            "default": False,
            "description": "Whether to shout.",
        }
        assert added["outputSchema"]["properties"]["title"] == {"type": "string"}
        assert listed["count"].input_schema["properties"] == {}


@pytest.mark.parametrize("era", ERAS)
async def test_decorated_methods_are_called_with_what_they_are_annotated_with(era: str) -> None:
    reported: list[tuple[float, str | None]] = []
    asked: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reported.append((progress, message))

    async def on_question(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"sure": True})

    async with connected(era, NotesAgent(), elicitation_callback=on_question) as client:
        kept = await client.call_tool("add", {"note": {"title": "second"}, "loud": True})
        assert kept.structured_content == {"title": "SECOND", "lines": []}
        counted = await client.call_tool("count", {}, progress_callback=on_progress)
        assert (text_of(counted), counted.structured_content) == ("2", {"result": 2})
        walked = await client.call_tool("walk", {}, progress_callback=on_progress)
        assert walked.structured_content == {"result": "firstSECOND"}
        assert reported == [(1, "counted"), (1, "first"), (2, "SECOND")]
        assert (await client.call_tool("ask", {})).structured_content == {"result": True}
        assert asked == ["Really?"]
        assert (await client.call_tool("sums__add_up", {"a": 1, "b": 2})).structured_content == {"result": 3}
        wrong = await client.call_tool("add", {"note": {"title": 5}})
        assert wrong.is_error
        assert "/note/title: got 5" in text_of(wrong)


@pytest.mark.parametrize("era", ERAS)
async def test_decorated_prompts_resources_and_completions(era: str) -> None:
    async with connected(era, NotesAgent()) as client:
        [listed] = (await client.list_prompts()).prompts
        assert [(it.name, it.required, it.description) for it in listed.arguments or []] == [
            ("style", True, "How long."),
            ("words", False, "How many words. (integer)"),
        ]
        filled = await client.get_prompt(listed.name, {"style": "short", "words": "4"})
        assert filled.messages[0].content == mcp_types.TextContent(text="Sum up in 5 words, short: first", type="text")
        with pytest.raises(mcp_types_error(), match=r"at /words: got 'x'"):
            await client.get_prompt(listed.name, {"style": "short", "words": "x"})
        assert [str(it.uri) for it in (await client.list_resources()).resources] == ["notes://all"]
        assert [it.uri_template for it in (await client.list_resource_templates()).resource_templates] == [
            "notes://by-title/{title}{?limit}"
        ]
        for uri, text, mime_type in (
            ("notes://all", "first", "text/plain"),
            ("notes://by-title/first?limit=0", '{"title":"first","lines":[]}', "application/json"),
        ):
            [read] = (await client.read_resource(uri)).contents
            assert read == mcp_types.TextResourceContents(uri=uri, text=text, mime_type=mime_type)
        with pytest.raises(mcp_types_error(), match="nowhere"):
            await client.read_resource("notes://by-title/nowhere")
        ref = mcp_types.PromptReference(type="ref/prompt", name="summary")
        found = await client.complete(ref, {"name": "style", "value": "S"})
        assert found.completion.values == ["short"]
        template = mcp_types.ResourceTemplateReference(type="ref/resource", uri="notes://by-title/{title}{?limit}")
        found = await client.complete(template, {"name": "title", "value": "fi"})
        assert found.completion.values == ["first"]


def mcp_types_error() -> type[Exception]:
    from tests.support.on_demand import mcp

    kind: type[Exception] = mcp.MCPError
    return kind


class MixedAgent(MCPAgent):
    """Lists one tool by hand, and has a decorated one."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": "by-hand", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        if tool_name == "by-hand":
            return "by hand"
        raise ValueError(f"Unknown tool: {tool_name}")

    @tool
    def decorated(self) -> str:
        return "decorated"


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_may_list_tools_and_decorate_others(era: str) -> None:
    async with connected(era, MixedAgent()) as client:
        assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["by-hand", "decorated"]
        assert text_of(await client.call_tool("by-hand", {})) == "by hand"
        assert text_of(await client.call_tool("decorated", {})) == "decorated"


class CountingAgent(NotesAgent):
    """Whose calls of tools go through a method of its own."""

    calls: list[str] = []

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        self.calls.append(tool_name)
        return super().execute_mcp_tool(tool_name, arguments)

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return super().get_mcp_tool_definitions()


async def test_an_agent_that_lists_its_decorated_tools_is_called_itself() -> None:
    async with connected("modern", CountingAgent()) as client:
        assert [tool.name for tool in (await client.list_tools()).tools].count("count") == 1
        assert (await client.call_tool("count", {})).structured_content == {"result": 1}
    assert CountingAgent.calls == ["count"]


class ClashingAgent(MixedAgent):
    """Whose decorated tool has the name of one that it lists."""

    @tool(name="by-hand")
    def decorated_too(self) -> str:
        return ""


async def test_a_name_that_is_listed_and_decorated_is_an_error_that_names_both_places() -> None:
    async with Bridge() as bridge:
        with pytest.raises(AgentLoadError) as caught:
            await bridge.add_agent(ClashingAgent())
        assert bridge.sources == []
    assert "tool 'by-hand' is defined twice: by ClashingAgent.decorated_too (test_decorated.py:" in str(caught.value)
    assert "and by ClashingAgent.get_mcp_tool_definitions()" in str(caught.value)


async def test_two_decorated_methods_of_one_name_are_an_error_that_names_both_places() -> None:
    class TwiceAgent(MCPAgent):
        @tool(name="x")
        def one(self) -> None: ...

        @tool(name="x")
        def two(self) -> None: ...

    with pytest.raises(TypeError, match=r"tool 'x' is defined twice: by .*TwiceAgent\.one .* and by .*TwiceAgent\.two"):
        TwiceAgent()


async def test_one_method_that_is_there_twice_is_an_error_that_names_the_cause() -> None:
    class DecoratedTwiceAgent(MCPAgent):
        @tool
        @tool
        def one(self) -> None: ...

    class RenamedAgent(MCPAgent):
        @tool
        def one(self) -> None: ...

        two = one

    for agent in (DecoratedTwiceAgent, RenamedAgent):
        cause = rf"by two decorators of .*{agent.__name__}\.one \(.*\), or by one under two names$"
        with pytest.raises(TypeError, match=cause):
            agent()


def test_an_overridden_method_stays_what_it_was_decorated_as() -> None:
    class QuietAgent(NotesAgent):
        async def count(self, request: RequestContext) -> int:
            return -1

        walk = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  # no tool any more

    names = [tool["name"] for tool in QuietAgent().get_mcp_tool_definitions()]
    assert names == ["add", "count", "ask"]


def test_the_base_contract_serves_what_is_decorated() -> None:
    agent = NotesAgent()
    assert [tool["name"] for tool in agent.get_mcp_tool_definitions()] == ["add", "count", "walk", "ask"]
    assert agent.execute_mcp_tool("add", {"note": {"title": "x"}}) == {"title": "x", "lines": []}
    with pytest.raises(ValueError, match="Unknown tool: nothing"):
        agent.execute_mcp_tool("nothing", {})
    assert {"add", "count", "walk", "ask"} <= agent.tool_registry.keys()


def test_a_function_is_returned_as_it_is() -> None:
    @tool(name="other")
    @prompt
    def both(a: int) -> str:
        return str(a)

    assert both(1) == "1"
    assert [type(mark).__name__ for mark in marks_of(both)] == ["PromptMark", "ToolMark"]


@pytest.mark.parametrize(
    ("decorate", "problem"),
    [
        (lambda: resource(len), "a resource needs its URI: write @resource"),  # type: ignore[arg-type]  # the point
        (lambda: resource("nowhere")(print), "resource 'nowhere' has no scheme"),
        (lambda: resource("x://{a")(print), "resource 'x://{a' is no URI template"),
        (lambda: tool(timeout=0), "timeout=0: expected a positive number of seconds"),
        (lambda: tool(len), "is a builtin_function_or_method, which cannot be marked"),
        (lambda: tool(NotesAgent().walk), "is a method, which cannot be marked"),
    ],
)
def test_what_cannot_be_decorated_is_refused_with_what_to_write(decorate: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        decorate()
    assert problem in str(caught.value)


def published(*functions: Any) -> DecoratedFunctions:
    return DecoratedFunctions(marked for function in functions for marked in decorated_members(function))


def test_parameters_of_a_resource_are_the_variables_of_its_uri() -> None:
    @resource("x://{a}/{b}")
    def lacking(a: str) -> None: ...

    @resource("x://{a}")
    def asking(a: str, other: int) -> None: ...

    with pytest.raises(TypeError, match=r"has a variable 'b', which lacking\(\) does not take"):
        published(lacking)
    with pytest.raises(TypeError, match=r"asking\(\) needs 'other', which is no variable of resource"):
        published(asking)


def test_it_has_the_methods_of_what_it_offers_and_no_other() -> None:
    @tool
    def work() -> None: ...

    only_tools = published(work)
    for method in ("get_mcp_prompt", "read_mcp_resource", "complete_mcp_argument", "get_mcp_resource_templates"):
        assert not hasattr(only_tools, method)
        assert hasattr(decorated_functions(NotesAgent()), method)


def test_the_functions_of_a_module_are_an_agent_of_its_name() -> None:
    module = ModuleType("my.sums", "Adds numbers.")

    def add(a: int, b: int) -> int:
        return a + b

    add.__module__ = "my.sums"
    module.add = module.same = tool(add)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    functions = ModuleFunctions(module)
    assert functions.get_mcp_server_info() == {"name": "sums", "version": "1.0.0", "instructions": "Adds numbers."}
    assert [tool["name"] for tool in functions.get_mcp_tool_definitions()] == ["add"]
