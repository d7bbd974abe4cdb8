"""An agent of the GAIA kind as MCP clients see it: its tools, and a tool that asks it; beside other sources."""

from __future__ import annotations

from abc import ABC
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gaia.agents.base import Agent, ApiAgent, MCPAgent, tool
from gaia.mcp import MCPClientMixin
from gaia_bridge import Bridge
from gaia_bridge.bridge.discovery import find_agents
from gaia_bridge.errors import AgentLoadError, ConfigError
from gaia_bridge.sources.agent.ask_tool import AskTool
from gaia_bridge.sources.agent.parts import parts_of
from tests.interaction.connecting import ERAS, client_of
from tests.support.agents import one_tool
from tests.support.bridges import text_of
from tests.support.fake_model import FakeModel, call, say
from tests.support.on_demand import mcp_server, mcp_types

if TYPE_CHECKING:
    import mcp

pytestmark = pytest.mark.anyio

NO_MODEL = (
    "GAIA_BASE_URL",
    "GAIA_MODEL",
    "GAIA_API_KEY",
    "PROVIDER",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "LEMONADE_BASE_URL",
)


class ShopAgent(ApiAgent, Agent):
    """Helps in a flower shop.

    For the whole day.
    """

    def _get_system_prompt(self) -> str:
        return "You help in a flower shop."

    @tool(destructive=True)
    def burn(self, what: str) -> str:
        """Burn something."""
        return f"burnt {what}"

    def _register_tools(self) -> None:
        @tool
        def price_of(flower: str, count: int = 1) -> float:  # pyright: ignore[reportUnusedFunction]
            """Tell what flowers cost."""
            return count * {"rose": 2.5, "tulip": 1.2}[flower]

        @tool(destructive=True)
        def throw_away(flower: str) -> str:  # pyright: ignore[reportUnusedFunction]
            return f"no {flower} any more"


@asynccontextmanager
async def connected(era: str, agent: Any, bridge: Bridge | None = None, **options: Any) -> AsyncGenerator[mcp.Client]:
    """A client of a bridge that publishes the agent, another one, and a server of the SDK."""
    server = mcp_server.MCPServer("sums")

    @server.tool()
    def add_up(a: int, b: int) -> int:  # pyright: ignore[reportUnusedFunction]
        return a + b

    async with bridge or Bridge() as bridge:
        for source in (agent, one_tool(lambda arguments: arguments, "echo"), server):
            await bridge.add_agent(source)
        for source in bridge.sources:
            await source.learn()
        async with client_of(bridge.sdk_server(), era, **options) as client:
            yield client


def answering(sure: bool, asked: list[str]) -> Any:
    async def answer(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"run": sure})

    return answer


@pytest.mark.parametrize("era", ERAS)
async def test_all_its_tools_are_published_and_one_that_asks_it(era: str) -> None:
    async with connected(era, ShopAgent(silent_mode=True)) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed) == ["burn", "price_of", "throw_away", "ask", "echo", "sums__add_up"]
        assert listed["ask"].description == "Helps in a flower shop."
        assert listed["throw_away"].annotations == mcp_types.ToolAnnotations(destructive_hint=True)
        priced = await client.call_tool("price_of", {"flower": "rose", "count": 3})
        assert (text_of(priced), priced.structured_content) == ("7.5", {"result": 7.5})
        wrong = await client.call_tool("price_of", {"flower": 3})
        assert "- at /flower: got 3" in text_of(wrong)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("name", "done"), [("burn", "burnt x"), ("throw_away", "no x any more")])
async def test_what_may_destroy_something_is_confirmed_by_the_clients_user(era: str, name: str, done: str) -> None:
    argument = {"burn": {"what": "x"}, "throw_away": {"flower": "x"}}[name]
    asked: list[str] = []
    async with connected(era, ShopAgent(silent_mode=True), elicitation_callback=answering(True, asked)) as client:
        assert text_of(await client.call_tool(name, argument)) == done
    async with connected(era, ShopAgent(silent_mode=True), elicitation_callback=answering(False, asked)) as client:
        refused = await client.call_tool(name, argument)
        assert refused.is_error
        assert f"{name} was not run" in text_of(refused)
    assert [question.split()[0] for question in asked] == [name, name]
    async with connected(era, ShopAgent(silent_mode=True)) as client:  # it cannot ask anybody
        assert "nobody confirmed it" in text_of(await client.call_tool(name, argument))
    async with connected(era, ShopAgent(silent_mode=True, confirm_destructive=False)) as client:
        assert text_of(await client.call_tool(name, argument)) == done


@pytest.mark.parametrize("era", ERAS)
async def test_it_is_asked_with_progress_and_tells_its_usage(era: str) -> None:
    model = FakeModel(call("price_of", flower="rose", count=3), say("Seven fifty."))
    told: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with connected(era, ShopAgent(silent_mode=True, model=model)) as client:
        answer = await client.call_tool("ask", {"prompt": "What do three roses cost?"}, progress_callback=on_progress)
    assert text_of(answer) == "Seven fifty."
    assert answer.structured_content is not None
    assert answer.structured_content["answer"] == "Seven fifty."
    assert answer.structured_content["tools"] == ["price_of"]
    assert answer.structured_content["usage"].keys() == {"promptTokens", "completionTokens"}
    assert "".join(message or "" for _, message in told) == "Seven fifty."
    assert told[-1][0] == len("Seven fifty.")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("with_tools", [True, False])
async def test_without_a_model_server_the_clients_model_thinks(
    era: str, with_tools: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in NO_MODEL:
        monkeypatch.delenv(variable, raising=False)
    asked: list[Any] = []

    async def sample(context: Any, params: Any) -> Any:
        asked.append(params)
        content: Any
        if len(asked) > 1:
            content = mcp_types.TextContent(type="text", text="Seven fifty.")
        elif with_tools:
            content = [
                mcp_types.ToolUseContent(type="tool_use", id="1", name="price_of", input={"flower": "rose", "count": 3})
            ]
            return mcp_types.CreateMessageResultWithTools(
                role="assistant", content=content, model="m", stop_reason="toolUse"
            )
        else:
            written = '```json\n{"tool": "price_of", "arguments": {"flower": "rose", "count": 3}}\n```'
            content = mcp_types.TextContent(type="text", text=written)
        return mcp_types.CreateMessageResult(role="assistant", content=content, model="m", stop_reason="endTurn")

    options: dict[str, Any] = {"sampling_callback": sample}
    if with_tools:
        options["sampling_capabilities"] = mcp_types.SamplingCapability(tools=mcp_types.SamplingToolsCapability())
    async with connected(era, ShopAgent(silent_mode=True), **options) as client:
        answer = await client.call_tool("ask", {"prompt": "What do three roses cost?"})
    assert (text_of(answer), answer.is_error) == ("Seven fifty.", False)
    assert answer.structured_content is not None
    assert answer.structured_content["tools"] == ["price_of"]
    first, second = asked
    assert first.system_prompt.startswith("You help in a flower shop.")
    assert bool(first.tools) is with_tools
    assert (
        "price_of" in first.system_prompt and '"tool": "NAME"' in first.system_prompt
    ) is not with_tools or with_tools
    assert "7.5" in second.model_dump_json()


class PlainMCPAgent(MCPAgent):
    """Lists its tools by hand, and has others for its model."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": "by-hand", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        return "by hand"

    def _get_system_prompt(self) -> str:
        return "You are somebody."

    def _register_tools(self) -> None:
        @tool
        def internal() -> str:  # pyright: ignore[reportUnusedFunction]
            return "for the model"


def published(agent: Agent) -> list[str]:
    return [item["name"] for part in agent.get_mcp_parts() for item in part.get_mcp_tool_definitions()]


def test_an_agent_that_lists_its_tools_by_hand_publishes_nothing_else_unless_it_says_so() -> None:
    assert published(PlainMCPAgent()) == []

    class WholeAgent(PlainMCPAgent):
        mcp_tools = ("internal",)
        mcp_ask = "ask_me"

    assert published(WholeAgent()) == ["internal", "ask_me"]


def test_which_tools_are_published_is_for_the_class_to_say() -> None:
    class SomeAgent(ShopAgent):
        mcp_tools = ("price_of",)
        mcp_ask = False

    class NoneAgent(ShopAgent):
        mcp_tools = False
        mcp_ask_description = "Ask a florist."

    assert published(SomeAgent()) == ["price_of"]
    assert published(NoneAgent()) == ["ask"]
    [part] = NoneAgent().get_mcp_parts()
    assert part.get_mcp_tool_definitions()[0]["description"] == "Ask a florist."


@pytest.mark.parametrize("bases", [(Agent,), (MCPAgent,), (ApiAgent, Agent), (MCPClientMixin, Agent), (Agent, ABC)])
def test_the_docstring_of_a_base_class_of_agents_does_not_describe_an_agent(bases: tuple[type, ...]) -> None:
    members = {"__module__": __name__, "mcp_ask": True, "hello": ShopAgent.burn}
    silent = type("SilentAgent", bases, members)
    documented = type("DocumentedAgent", bases, {**members, "__doc__": "Knows all.\n\nMore."})
    heir = type("HeirAgent", (documented,), {"__module__": __name__})

    def description(kind: type) -> str:
        (ask,) = [part for part in parts_of(kind(silent_mode=True)) if isinstance(part, AskTool)]
        return str(ask.get_mcp_tool_definitions()[0]["description"])

    assert description(silent) == "Gives SilentAgent a task."
    assert description(documented) == description(heir) == "Knows all."


class WhollyDecorated(Agent):
    """Has tools that are decorated methods."""

    mcp_tools = ("one",)

    @tool
    def one(self) -> str:
        """Say one."""
        return "one"

    @tool
    def two(self) -> str:
        """Say two."""
        return "two"


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_class_does_not_choose_is_not_published_where_it_is_decorated_either(era: str) -> None:
    async with connected(era, WhollyDecorated(silent_mode=True)) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed == ["one", "ask", "echo", "sums__add_up"]
        with pytest.raises(Exception, match="Unknown tool"):
            await client.call_tool("two", {})


SOME = frozenset({"price_of", "burn", "add", "by-hand", "echo"})


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("offer", "shop", "by_hand", "amd"),
    [
        ({}, ["burn", "price_of", "throw_away", "ask"], ["by-hand"], ["add", "ask"]),
        ({"agent_tools": True}, ["burn", "price_of", "throw_away", "ask"], ["by-hand", "internal"], ["add", "ask"]),
        ({"agent_tools": False}, ["ask"], [], ["ask"]),
        ({"agent_tools": SOME}, ["burn", "price_of", "ask"], ["by-hand"], ["add", "ask"]),
        ({"ask": False}, ["burn", "price_of", "throw_away"], ["by-hand"], ["add"]),
        ({"ask": True, "agent_tools": []}, ["ask"], ["ask"], ["ask"]),
    ],
    ids=["nothing", "all", "none", "some", "no ask", "ask alone"],
)
async def test_what_is_published_of_agents_is_for_the_bridge_to_say(
    era: str, offer: dict[str, Any], shop: list[str], by_hand: list[str], amd: list[str]
) -> None:
    agents = [(ShopAgent(silent_mode=True), shop), (PlainMCPAgent(silent_mode=True), by_hand), (AmdAgent(), amd)]
    for agent, expected in agents:
        async with connected(era, agent, Bridge(**offer)) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
        others = 1 if offer.get("agent_tools") in (False, []) else 2  # the other agent's tools are chosen as well
        assert listed[:-others] == expected
        assert listed[-1] == "sums__add_up"


async def test_one_agent_is_published_otherwise_than_the_others() -> None:
    async with Bridge(agent_tools=False, ask=True) as bridge:
        await bridge.add_agent(ShopAgent(silent_mode=True), "one", tools=["price_of"])
        await bridge.add_agent(ShopAgent(silent_mode=True), "two", ask=False)
        await bridge.add_agent(AmdAgent(), "three")
        names = [[item["name"] for item in source.features.tools] for source in bridge.sources]
        assert names == [["price_of", "ask"], [], ["ask"]]
        with pytest.raises(AgentLoadError) as refused:
            await bridge.add_agent(ShopAgent(silent_mode=True), "four", tools=["price_off"])
        assert "no agent has a tool 'price_off'; the tools that there are: ask, burn, price_of" in str(refused.value)
        with pytest.raises(AgentLoadError, match="no agent can be asked"):
            await bridge.add_agent(one_tool(lambda arguments: arguments), "five", ask=True)
        assert [source.name for source in bridge.sources] == ["one", "two", "three"]
        await bridge.replace_agent("one", AmdAgent())
        assert [item["name"] for item in bridge.sources[0].features.tools] == ["ask"]


async def test_a_bridge_says_which_tools_there_are_if_one_is_named_that_is_not() -> None:
    bridge = Bridge(ShopAgent(silent_mode=True), AmdAgent(), agent_tools=["add", "price", "burn"])
    with pytest.raises(
        ConfigError, match="no agent has a tool 'price'; the tools that there are: add, ask, burn, price_"
    ):
        await bridge.__aenter__()


async def test_names_that_are_none_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"got 'add'; write \['add'\]"):
        Bridge(agent_tools="add")

    class Odd(ShopAgent):
        mcp_tools = "add"

    with pytest.raises(AgentLoadError, match=r"mcp_tools of Odd is 'add'; expected True, False, or names: \('add',\)"):
        async with Bridge() as bridge:
            await bridge.add_agent(Odd(silent_mode=True))


class AmdAgent:
    """As agents of amd-gaia are: methods, and entries that are made otherwise than ours."""

    def __init__(self) -> None:
        self._tools_registry: dict[str, Any] = {
            "add": {
                "name": "add",
                "description": "Add two numbers.",
                "parameters": {
                    "a": {"type": "integer", "required": True},
                    "b": {"type": "unknown", "required": False, "description": "More."},
                },
                "function": self._add,
            }
        }

    def _register_tools(self) -> None: ...

    def _add(self, a: int, b: int = 1) -> dict[str, int]:
        return {"sum": a + b}

    def process_query(self, user_input: str) -> dict[str, Any]:
        return {"status": "success", "result": f"about {user_input}"}


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_of_amd_gaia_is_published_whole(era: str) -> None:
    async with connected(era, AmdAgent()) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed)[:2] == ["add", "ask"]
        assert listed["add"].input_schema == {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"description": "More."}},
            "required": ["a"],
        }
        assert (await client.call_tool("add", {"a": 1})).structured_content == {"sum": 2}
        assert (await client.call_tool("ask", {"prompt": "x"})).structured_content == {"answer": "about x"}


def test_functions_that_are_served_beside_an_agent_are_not_tools_of_it_unless_it_imports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    functions = "from gaia.agents.base import tool\n@tool\ndef add(a: int) -> int:\n    return a\n"
    for name in ("beside", "elsewhere"):
        agent = f"class {name.title()}(MCPAgent):\n    @tool\n    def greet(self) -> str: ..."
        (tmp_path / f"{name}.py").write_text(f"from gaia.agents.base import MCPAgent, tool\n{agent}\n", "utf-8")
    for name, text in (
        ("sums_beside", functions),
        ("user", f"from sums_beside import add\n{(tmp_path / 'beside.py').read_text('utf-8')}"),
        ("own", f"{functions.replace('add', 'own')}\n{(tmp_path / 'elsewhere.py').read_text('utf-8')}"),
    ):
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    found = find_agents(["beside.py", "user.py", "own.py", "sums_beside.py"])
    tools = [_tool_names(agent.agent) for result in found for agent in result.agents]
    assert [names & {"greet", "add"} for names in tools] == [{"greet"}, {"greet", "add"}, {"greet"}, {"add"}]
    assert "own" in tools[2], "a function of the agent's own file is one of its tools"


def _tool_names(agent: Any) -> set[str]:
    listing = (agent, *parts_of(agent))
    return {definition["name"] for part in listing for definition in part.get_mcp_tool_definitions()}
