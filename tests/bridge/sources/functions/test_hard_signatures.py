"""Signatures that are seldom, and what functions return that is easily taken for something else."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from types import ModuleType
from typing import Annotated, Any, Literal, Protocol

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from gaia_bridge import Bridge, Progress, RequestContext, prompt, tool
from gaia_bridge.errors import ProtocolError, ToolError
from gaia_bridge.sources.functions.collection import (
    DecoratedFunctions,
    ModuleFunctions,
    decorated_functions,
    decorated_members,
)
from gaia_bridge.sources.functions.docstrings import Docstring
from gaia_bridge.sources.functions.typed_function import TypedFunction
from tests.interaction.connecting import client_of
from tests.support.bridges import text_of
from tests.support.on_demand import mcp_types

pytestmark = pytest.mark.anyio


NO_WORDS: list[str] = []
NO_NUMBERS: Any = Field(default_factory=list)


class Point(BaseModel):
    x: int


class Address(TypedDict):
    street: str


class Block(BaseModel):
    """Of the author's own, though it has the fields of a block of content."""

    type: Literal["text"] = "text"
    text: str


class Page(BaseModel):
    """Of the author's own, though it has the fields of a result."""

    content: list[str]


def typed(function: Callable[..., Any]) -> TypedFunction:
    return TypedFunction(function, "tool 'f'")


def published(*functions: Any) -> DecoratedFunctions:
    return DecoratedFunctions(marked for function in functions for marked in decorated_members(function))


def base(a: int, b: str, request: RequestContext | None = None) -> str:
    """Say both.

    Args:
        a: A number.
    """
    return f"{a}{b}{request}"


class Adder:
    """Adds."""

    def __init__(self, more: int) -> None:
        self.more = more

    def __call__(self, number: int) -> int:
        return number + self.more


def test_a_request_that_is_optional_is_none_outside_of_one() -> None:
    assert typed(base)(a=1, b="x") == "1xNone"

    def annotated(request: Annotated[RequestContext | None, "the request"] = None) -> bool:
        return request is None

    assert typed(annotated)() is True


def test_where_one_parameter_needs_the_request_there_has_to_be_one() -> None:
    def both(one: RequestContext | None, two: RequestContext) -> None: ...

    with pytest.raises(LookupError, match="no MCP request"):
        typed(both)()


@pytest.mark.parametrize(
    ("function", "name", "required", "arguments", "result"),
    [
        (functools.partial(base, b="z"), "base", ["a"], {"a": 1}, "1zNone"),
        (functools.partial(base, 5), "base", ["b"], {"b": "z"}, "5zNone"),
        (functools.partial(base, request=None), "base", ["a", "b"], {"a": 1, "b": "z"}, "1zNone"),
        (functools.partial(functools.partial(base, 5), b="y"), "base", None, {}, "5yNone"),
        (functools.lru_cache(base), "base", ["a", "b"], {"a": 1, "b": "z"}, "1zNone"),
        (Adder(2), "Adder", ["number"], {"number": 1}, 3),
        (functools.partial(Adder(2), number=2), "Adder", None, {}, 4),
    ],
    ids=["partial", "by position", "the request", "twice", "lru_cache", "object", "partial of an object"],
)
def test_what_can_be_called_like_a_function_is_published(
    function: Any, name: str, required: list[str] | None, arguments: dict[str, Any], result: Any
) -> None:
    functions = published(tool(function))
    [definition] = functions.get_mcp_tool_definitions()
    assert (definition["name"], definition["inputSchema"].get("required")) == (name, required)
    assert definition["description"] == ("Adds." if name == "Adder" else "Say both.")
    assert functions.execute_mcp_tool(name, arguments)["structuredContent"] == {"result": result}


def test_an_object_whose_author_described_nothing_has_no_description_of_pythons() -> None:
    class Bare:
        def __call__(self, number: int) -> int:
            return number

    for function in (Bare(), functools.partial(Bare(), number=2)):
        [definition] = published(tool(function)).get_mcp_tool_definitions()
        assert "Call self" not in definition.get("description", "")


def test_a_module_publishes_its_partials_and_objects() -> None:
    module = ModuleType("shop")
    adder = Adder(1)
    adder.__module__ = "shop"
    for name, value in (("one", tool(name="one")(functools.partial(base, b="z"))), ("two", tool(name="two")(adder))):
        setattr(module, name, value)
    module.unmarked = functools.partial(base, b="z")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert [it["name"] for it in ModuleFunctions(module).get_mcp_tool_definitions()] == ["one", "two"]


def test_two_partials_of_one_function_need_names_and_are_told_where_it_is() -> None:
    with pytest.raises(TypeError, match=r"'base' is defined twice: by two decorators of base \(test_hard_sig.*:\d+\)"):
        published(tool(functools.partial(base, 1)), tool(functools.partial(base, 2)))


async def test_functions_and_modules_are_published_under_their_names() -> None:
    module = ModuleType("my.shop", "Sells.")
    module.sell = tool(name="sell")(functools.partial(base, b="z"))  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    async with Bridge() as bridge:
        names = [await bridge.add_agent(it) for it in (tool(nothing), tool(functools.partial(base, 1)), module)]
        assert names == ["nothing", "base", "shop"]
        assert [tool["name"] for source in bridge.sources for tool in source.features.tools] == [
            "nothing",
            "base",
            "sell",
        ]


def test_a_wrapped_function_is_called_as_it_is_wrapped() -> None:
    @tool
    def once() -> int:
        return 1

    decorated_functions(once)

    @functools.wraps(once)
    def twice() -> int:
        return 2 * once()

    functions = decorated_functions(twice)
    assert functions is not None
    assert functions.execute_mcp_tool("once", {})["structuredContent"] == {"result": 2}


class Named(Protocol):
    name: str


class Selves:
    """Its methods say of their object what they like."""

    name = "x"

    @tool
    def protocol(self: Named, number: int) -> str:
        return self.name * number

    @tool
    def anything(this: Any, number: int) -> str:
        return str(this.name * number)

    @tool
    def text(this: "Selves", number: int) -> str:  # noqa: UP037
        return this.name * number

    @tool
    @classmethod
    def of_class(cls: type[Selves], number: int) -> str:
        return cls.name * number

    @tool
    @staticmethod
    def static(number: int) -> str:
        return "x" * number


def test_what_a_method_says_of_its_object_is_no_parameter() -> None:
    functions = decorated_functions(Selves())
    assert functions is not None
    for definition in functions.get_mcp_tool_definitions():
        assert list(definition["inputSchema"]["properties"]) == ["number"]
        assert functions.execute_mcp_tool(definition["name"], {"number": 2})["structuredContent"] == {"result": "xx"}


def test_a_class_is_no_tool() -> None:
    with pytest.raises(TypeError, match="is a class; decorate its methods"):
        tool(Point)


def test_names_that_python_and_the_wire_use_are_names_of_parameters() -> None:
    def take(name: str, cls: str, arguments: int, function: int, tool_name: int, args: int, kwargs: int) -> list[Any]:
        return [name, cls, arguments, function, tool_name, args, kwargs]

    given = {"name": "n", "cls": "c", "arguments": 1, "function": 2, "tool_name": 3, "args": 4, "kwargs": 5}
    assert typed(take).published(given) == ["n", "c", 1, 2, 3, 4, 5]

    def annotated(self: int) -> int:
        return self

    assert typed(annotated)(self=3) == 3


def test_a_parameter_without_a_default_may_stand_behind_one_that_has_one() -> None:
    def take(a: int = 1, b: int = Field(description="needed"), c: list[int] = NO_NUMBERS) -> list[Any]:
        return [a, b, c]

    function = typed(take)
    assert function.input_schema["required"] == ["b"]
    assert function.published({"b": 2}) == [1, 2, []]


def test_a_field_that_contradicts_itself_is_told_with_the_tool() -> None:
    def take(a: Annotated[list[int], Field(default_factory=list)] = []) -> None: ...  # noqa: B006

    with pytest.raises(TypeError, match="tool 'f' has no JSON Schema: cannot specify both default and default_factory"):
        typed(take).input_schema  # noqa: B018


def test_what_is_missing_is_named() -> None:
    def take(where: Point, when: str) -> None: ...

    with pytest.raises(ToolError) as caught:
        typed(take).call({"where": {}})
    assert str(caught.value).splitlines()[1:] == [
        "- at /where: got {}; 'x' is required",
        "- at (root): got {'where': {}}; 'when' is required",
    ]

    @prompt
    def ask(where: Point) -> str:
        return ""

    with pytest.raises(ProtocolError, match="at /where: got {}; 'x' is required"):
        published(ask).get_mcp_prompt("ask", {"where": "{}"})


def test_a_misspelled_argument_comes_with_the_name_that_was_probably_meant() -> None:
    @prompt
    def ask(where: str, when: str = "now") -> str:
        return where

    with pytest.raises(ToolError, match=r"'where' is required\n- at /wher: .* argument; did you mean 'where'\?$"):
        typed(ask).call({"wher": "here"})
    with pytest.raises(ProtocolError, match=r"did you mean 'when'\?$"):
        published(ask).get_mcp_prompt("ask", {"where": "here", "wen": "today"})


def nothing() -> Iterator[str]:
    yield from ()


def no_text() -> Iterator[Progress | str]:
    yield Progress(1)


def no_report() -> Iterator[Progress | int]:
    yield 1
    yield 2


def text_or_none() -> Iterator[Progress | str | None]:
    yield None
    yield "a"


def only_text() -> Iterator[Point | str]:
    yield "a"
    yield "b"


def words() -> Iterator[Literal["a", "b"]]:
    yield "a"
    yield "b"


def word() -> Iterator[Progress | Literal["a", "b"]]:
    yield "a"
    yield "b"


def returned() -> Generator[str, None, int | None]:
    yield "a"
    return None


def unsaid():  # type: ignore[no-untyped-def]  # the point
    yield "a"
    yield "b"


async def told() -> AsyncIterator[str]:
    for text in NO_WORDS:
        yield text


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (nothing, ""),
        (no_text, ""),
        (no_report, 2),
        (text_or_none, "a"),
        (only_text, ["a", "b"]),
        (words, ["a", "b"]),
        (word, "b"),
        (returned, None),
        (unsaid, "ab"),
        (told, ""),
    ],
)
async def test_what_a_generator_comes_to_is_what_its_type_promised(function: Any, result: Any) -> None:
    async with Bridge() as bridge:
        await bridge.add_agent(tool(name="f")(function))
        async with client_of(bridge.sdk_server(), "modern") as client:
            called = await client.call_tool("f", {})
            assert not called.is_error, text_of(called)
            if function is unsaid:
                assert text_of(called) == result
            else:
                assert called.structured_content == {"result": result}


def a_block() -> Block:
    return Block(text="hi")


def a_page() -> Page:
    return Page(content=["a"])


def a_mapping() -> dict[str, str]:
    return {"type": "text", "text": "hi"}


def a_typed_dict() -> Address | None:
    return {"street": "S"}


def a_union() -> dict[str, int] | int:
    return {"a": 1}


@pytest.mark.parametrize(
    ("function", "structured"),
    [
        (a_block, {"type": "text", "text": "hi"}),
        (a_page, {"content": ["a"]}),
        (a_mapping, {"type": "text", "text": "hi"}),
        (a_typed_dict, {"result": {"street": "S"}}),
        (a_union, {"result": {"a": 1}}),
    ],
)
async def test_what_is_of_its_type_is_structured_content_whatever_it_looks_like(function: Any, structured: Any) -> None:
    async with Bridge() as bridge:
        await bridge.add_agent(tool(name="f")(function))
        async with client_of(bridge.sdk_server(), "modern") as client:
            called = await client.call_tool("f", {})
            assert not called.is_error, text_of(called)
            assert called.structured_content == structured


async def test_content_of_the_sdk_is_content() -> None:
    def picture() -> Any:
        return mcp_types.ImageContent(type="image", data="aGk=", mime_type="image/png")

    picture.__annotations__["return"] = mcp_types.ImageContent
    async with Bridge() as bridge:
        await bridge.add_agent(tool(picture))
        async with client_of(bridge.sdk_server(), "modern") as client:
            [listed] = (await client.list_tools()).tools
            assert listed.output_schema is None
            [block] = (await client.call_tool("picture", {})).content
            assert block.type == "image"


async def test_what_is_not_of_its_type_is_refused_with_what_was_promised() -> None:
    def number() -> int:
        return "one"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    async with Bridge() as bridge:
        await bridge.add_agent(tool(number))
        async with client_of(bridge.sdk_server(), "modern") as client:
            called = await client.call_tool("number", {})
            assert called.is_error
            assert "at /result" in text_of(called)


def numpy_style(x: int) -> None:
    """Short.

    Parameters
    ----------
    x : int
        The x.

        More of it.

    Raises
    ------
    ValueError
        Never.

    Other Parameters
    ----------------
    z : int
        The z.

    Notes
    -----
    Take care.
    """


def rest_style(x: int, y: int) -> None:
    """Short.

    :param x: The x
        goes on.
    :type x: int
    :param int y: The y.
    :raises ValueError: Never.
    """


def only_arguments(x: int, y: int) -> None:
    """Args:
    x: The x.
    y: The y.
    """


@pytest.mark.parametrize(
    ("function", "description", "parameters"),
    [
        (
            numpy_style,
            "Short.\n\nRaises\n------\nValueError\n    Never.\n\nNotes\n-----\nTake care.",
            {"x": "The x. More of it.", "z": "The z."},
        ),
        (rest_style, "Short.\n\n:raises ValueError: Never.", {"x": "The x goes on.", "y": "The y."}),
        (only_arguments, "", {"x": "The x.", "y": "The y."}),
    ],
)
def test_of_a_docstring_only_what_it_says_of_parameters_is_taken_out(
    function: Any, description: str, parameters: dict[str, str]
) -> None:
    assert Docstring.of(function) == Docstring(description, parameters)
