"""The `tool` decorator and the registries it fills."""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gaia.agents.base import Agent, tool
from gaia.agents.base.tools import (
    _TOOL_REGISTRY,  # pyright: ignore[reportPrivateUsage]  # the specification's name for it
    ToolRegistry,
    describe_tools,
    get_tool_display_name,
)


class CountingAgent(Agent):
    """An agent with one tool, whose answer tells the instances apart."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        super().__init__(silent_mode=True)

    def _register_tools(self) -> None:
        @tool
        def current() -> int:
            """Tell the count."""
            return self.start


def mcp_entry(server: str, name: str) -> dict[str, Any]:
    return {
        "name": f"mcp_{server}_{name}",
        "description": f"[MCP:{server}] {name} it",
        "parameters": {},
        "atomic": True,
        "_mcp_server": server,
        "_mcp_tool_name": name,
    }


def test_a_bare_decorator_registers_the_documented_entry_and_returns_the_function() -> None:
    @tool
    def count_words(text: str, limit: int = 3) -> int:
        """Count the words of a text.

        Stops early for long texts.

        Args:
            text: What to count.
            limit (int, optional): Where to stop,
                at the latest.

        Returns:
            How many.
        """
        return min(limit, len(text.split()))

    assert count_words("a b", 1) == 1
    entry = _TOOL_REGISTRY["count_words"]
    function = entry.pop("function")
    assert function(text="a b c d") == 3
    assert entry == {
        "name": "count_words",
        "description": "Count the words of a text.\n\nStops early for long texts.\n\nReturns:\n    How many.",
        "parameters": {
            "text": {"type": "string", "required": True, "description": "What to count."},
            "limit": {"type": "integer", "required": False, "description": "Where to stop, at the latest."},
        },
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "What to count."},
                "limit": {"type": "integer", "default": 3, "description": "Where to stop, at the latest."},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
        "atomic": False,
    }


def test_options_win_over_what_the_function_says() -> None:
    @tool(name="count-words", description="Count.", atomic=True, display_label="Counting...")
    def count(text: str) -> int:
        """Not this."""
        return len(text.split())

    assert count("a b") == 2
    assert "count" not in _TOOL_REGISTRY
    entry = _TOOL_REGISTRY["count-words"]
    assert (entry["name"], entry["description"], entry["atomic"], entry["display_label"]) == (
        "count-words",
        "Count.",
        True,
        "Counting...",
    )


def test_a_tool_validates_and_converts_its_arguments() -> None:
    @tool
    def parent(path: Path, depth: int = 1) -> str:
        return str(path.parents[depth - 1])

    function = _TOOL_REGISTRY["parent"]["function"]
    assert function(path="/a/b") == "/a"
    with pytest.raises(ValidationError, match="depth"):
        function(path="/a/b", depth="deep")
    with pytest.raises(ValueError, match="path"):
        function()
    with pytest.raises(ValueError, match="colour"):
        function(path="/a/b", colour="red")
    assert parent(Path("/a/b")) == "/a"


@pytest.mark.anyio
async def test_an_async_function_is_a_tool_too() -> None:
    @tool
    async def double(number: int) -> int:
        return 2 * number

    assert await _TOOL_REGISTRY["double"]["function"](number=21) == 42
    assert await double(1) == 2


def test_a_bound_method_is_a_tool_of_its_object() -> None:
    class MethodAgent(Agent):
        def _register_tools(self) -> None:
            tool(self.greet)

        def greet(self, name: str) -> str:
            """Greet someone."""
            return f"{type(self).__name__} greets {name}"

    agent = MethodAgent(silent_mode=True)
    assert agent.tool_registry["greet"]["function"](name="you") == "MethodAgent greets you"
    assert list(agent.tool_registry["greet"]["parameters"]) == ["name"]


def test_a_method_without_its_object_is_refused_with_the_remedy() -> None:
    class MethodAgent(Agent):
        def greet(self, name: str) -> str:
            return name

        def _register_tools(self) -> None:
            tool(MethodAgent.greet)

    with pytest.raises(TypeError, match=r"tool 'greet' is a method without its object; .*`tool\(self\.greet\)`"):
        MethodAgent()
    assert "greet" not in _TOOL_REGISTRY


def test_a_function_that_cannot_be_called_by_name_is_refused() -> None:
    def positional(text: str, /) -> str:
        return text

    def variable(*texts: str) -> str:
        return "".join(texts)

    for function, parameter in ((positional, "text"), (variable, "texts")):
        with pytest.raises(TypeError, match=f"tool '{function.__name__}' takes '{parameter}' by position"):
            tool(function)


@pytest.mark.parametrize("odd", [len, dict, functools.partial(int, base=2), functools.lru_cache(str)])
def test_anything_but_a_python_function_is_refused(odd: Any) -> None:
    with pytest.raises(TypeError, match=f"tool 'odd' is a {type(odd).__name__}; expected a Python function"):
        tool(name="odd")(odd)


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(TypeError, match=r"has no name of its own; give the tool one with `tool\(name=\.\.\.\)`"):
        tool(lambda: 1)
    tool(name="one")(lambda: 1)
    assert _TOOL_REGISTRY["one"]["function"]() == 1


def test_tools_registered_by_an_agent_are_its_own() -> None:
    first, second = CountingAgent(1), CountingAgent(2)
    assert first.tool_registry["current"]["function"]() == 1
    assert second.tool_registry["current"]["function"]() == 2
    assert list(Agent(silent_mode=True).tool_registry) == []
    assert first.tool_registry["current"]["_owner"] == first.tool_registry.owner
    assert first.tool_registry.owner != second.tool_registry.owner


def test_the_default_registry_has_the_entry_that_was_registered_last() -> None:
    CountingAgent(1)
    second = CountingAgent(2)
    assert _TOOL_REGISTRY["current"] is second.tool_registry["current"]


def test_tools_registered_outside_of_an_agent_are_shared_by_all() -> None:
    early = Agent(silent_mode=True)

    @tool
    def current() -> int:
        return 0

    late = CountingAgent(3)
    assert early.tool_registry["current"]["function"]() == current() == 0
    assert late.tool_registry["current"]["function"]() == 3


def test_an_entry_written_into_the_default_registry_by_hand_is_shared_as_the_specification_does_it() -> None:
    agent = Agent(silent_mode=True)
    entry = mcp_entry("fs", "read_file")
    _TOOL_REGISTRY[entry["name"]] = entry
    assert agent.tool_registry["mcp_fs_read_file"] is entry


def test_unregistering_takes_away_only_what_belongs_to_the_agent() -> None:
    first, second = CountingAgent(1), CountingAgent(2)
    first.tool_registry.unregister("current")
    assert "current" not in first.tool_registry
    assert second.tool_registry["current"]["function"]() == 2
    assert _TOOL_REGISTRY["current"] is second.tool_registry["current"]
    second.tool_registry.unregister("current")
    assert "current" not in _TOOL_REGISTRY


def test_a_shared_or_unknown_tool_cannot_be_unregistered_by_an_agent() -> None:
    @tool
    def shared() -> int:
        return 0

    registry = CountingAgent().tool_registry
    for name in ("shared", "nothing"):
        with pytest.raises(KeyError, match=name):
            registry.unregister(name)
    assert registry["shared"]["function"]() == shared()


def test_an_own_tool_hides_a_shared_one_until_it_is_unregistered() -> None:
    @tool
    def shout() -> str:
        return "shared"

    registry = ToolRegistry("test")
    with registry.filling():

        @tool(name="whisper")
        def whisper() -> str:
            return "own"

    registry.register({"name": "shout", "function": whisper})
    assert registry["shout"]["function"]() == "own"
    assert shout() == "shared"
    assert sorted(registry) == ["shout", "whisper"]
    assert len(registry) == 2


def test_an_agent_built_while_another_registers_keeps_its_tools_apart() -> None:
    class OuterAgent(Agent):
        def _register_tools(self) -> None:
            self.inner = CountingAgent(5)

            @tool
            def outer() -> int:
                return 1

    agent = OuterAgent(silent_mode=True)
    assert list(agent.tool_registry) == ["outer"]
    assert list(agent.inner.tool_registry) == ["current"]


def test_a_failing_tools_hook_leaves_later_tools_to_their_rightful_owner() -> None:
    class FailingAgent(Agent):
        def _register_tools(self) -> None:
            raise RuntimeError("no tools today")

    with pytest.raises(RuntimeError, match="no tools today"):
        FailingAgent(silent_mode=True)

    @tool
    def after() -> int:
        return 1

    assert "_owner" not in _TOOL_REGISTRY["after"]
    assert after() == 1


def test_agents_built_at_once_in_several_threads_keep_their_tools_apart() -> None:
    agents: dict[int, CountingAgent] = {}
    start = threading.Barrier(8)

    def build(number: int) -> None:
        start.wait(5)
        agents[number] = CountingAgent(number)

    threads = [threading.Thread(target=build, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert {number: agent.tool_registry["current"]["function"]() for number, agent in agents.items()} == {
        number: number for number in range(8)
    }


def test_an_agent_whose_tools_were_replaced_is_not_kept_alive() -> None:
    first = CountingAgent(1)
    gone = weakref.ref(first)
    second = CountingAgent(2)
    del first
    gc.collect()
    assert gone() is None
    assert second.tool_registry["current"]["function"]() == 2


def test_a_registry_shows_its_owner_and_tools() -> None:
    registry = CountingAgent().tool_registry
    assert repr(registry) == f"ToolRegistry(owner={registry.owner!r}, tools=['current'])"
    assert registry.owner.startswith("CountingAgent-")


@pytest.mark.requirement("S3-10")
def test_the_display_name_of_a_server_tool_names_tool_and_server_and_any_other_is_unchanged() -> None:
    ToolRegistry("test").register(mcp_entry("acer", "launch_experience_zone"))
    CountingAgent()
    assert get_tool_display_name("mcp_acer_launch_experience_zone") == "launch_experience_zone (acer)"
    assert get_tool_display_name("current") == "current"
    assert get_tool_display_name("mcp_unknown_tool") == "mcp_unknown_tool"


def test_a_description_in_a_prompt_loses_its_own_server_prefix_only() -> None:
    foreign = {**mcp_entry("acer", "launch"), "description": "[MCP:other] launch it"}
    assert describe_tools({"a": mcp_entry("acer", "launch"), "b": foreign}) == (
        "- a(): launch it\n- b(): [MCP:other] launch it"
    )


def test_an_entry_written_by_hand_may_lack_everything_but_its_name() -> None:
    assert describe_tools({"bare": {}, "half": {"parameters": {"x": {}}}}) == "- bare(): \n- half(x?: string): "
