"""Objects with decorated methods: when they are freed, and what copies of them call."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator

import pytest

from gaia.agents.base import MCPAgent
from gaia_bridge import completion, prompt, resource, tool
from gaia_bridge.sources.functions.collection import DecoratedFunctions, decorated_functions


class Shelf:
    """Has one of each kind."""

    def __init__(self, name: str = "first") -> None:
        self.name = name

    @tool
    def label(self) -> str:
        return self.name

    @classmethod
    @tool
    def kind(cls) -> str:
        return cls.__name__

    @prompt
    def describe(self) -> str:
        return f"Describe {self.name}"

    @resource("shelf://{item}")
    def item(self, item: str) -> str:
        return f"{self.name}: {item}"

    @completion("shelf://{item}", "item")
    def items(self, value: str) -> list[str]:
        return [f"{value}{self.name}"]


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def published(owner: object) -> DecoratedFunctions:
    functions = decorated_functions(owner)
    assert functions is not None
    return functions


def structured(owner: object, name: str) -> object:
    return published(owner).execute_mcp_tool(name, {})["structuredContent"]["result"]


@pytest.mark.usefixtures("no_collector")
def test_an_object_is_freed_with_its_last_reference() -> None:
    shelf = Shelf()
    functions = published(shelf)
    assert structured(shelf, "label") == "first"
    assert len(list(published(shelf).marked_tools)) == 2
    freed = weakref.ref(shelf)
    del shelf
    assert functions.get_mcp_prompt("describe", {}) == "Describe first"  # who has the functions has the object
    del functions
    assert freed() is None


def test_everything_of_an_object_is_called_on_that_object() -> None:
    one, other = Shelf("one"), Shelf("other")
    for _ in range(2):  # the second time, with what the object keeps
        assert [structured(shelf, "label") for shelf in (one, other)] == ["one", "other"]
        assert structured(one, "kind") == "Shelf"
        functions = published(one)
        assert functions.get_mcp_prompt("describe", {}) == "Describe one"
        assert functions.read_mcp_resource("shelf://a") == "one: a"
        assert functions.complete_mcp_argument({"uri": "shelf://{item}"}, "item", "x", {}) == ["xone"]


def pickled(shelf: Shelf) -> Shelf:
    kept: Shelf = pickle.loads(pickle.dumps(shelf))
    return kept


COPIES: list[Callable[[Shelf], Shelf]] = [copy.copy, copy.deepcopy, pickled]


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_of_an_object_calls_its_own_methods(copied: Callable[[Shelf], Shelf]) -> None:
    shelf = Shelf("one")
    published(shelf)
    other = copied(shelf)
    other.name = "copy"
    assert [structured(it, "label") for it in (other, shelf)] == ["copy", "one"]


class ShelfAgent(MCPAgent):
    """Whose tools are in its registry, too."""

    @tool
    async def label(self, number: int = 1) -> str:
        return f"label {number}"

    @tool
    def walk(self) -> Iterator[str]:
        yield "a"


@pytest.mark.usefixtures("no_collector")
def test_an_agent_is_freed_with_its_last_reference() -> None:
    agent = ShelfAgent()
    walk = agent.tool_registry["walk"]["function"]
    assert walk() == "a"
    agent.get_mcp_tool_definitions()
    assert agent.get_mcp_parts()
    freed = weakref.ref(agent)
    del agent
    assert freed() is None
    with pytest.raises(ReferenceError, match=r"the agent of ShelfAgent\.walk\(\) is gone"):
        walk()
