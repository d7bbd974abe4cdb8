"""What a signature means: schemas, conversion in both directions, and errors that say what came instead of what."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from gaia_bridge.calls.request_context import RequestContext
from gaia_bridge.errors import ToolError
from gaia_bridge.model import Progress
from gaia_bridge.sources.functions.typed_function import TypedFunction

pytestmark = pytest.mark.anyio


class Colour(Enum):
    """What paint can be."""

    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A place."""

    x: int
    y: float = 0.0


class Renamed(BaseModel):
    """Whose field has another name on the wire."""

    real: int = Field(alias="wire")


@dataclass
class Size:
    """How large something is."""

    width: int
    height: int = 1


class Tree(BaseModel):
    """Refers to itself."""

    label: str
    children: list[Tree] = []


class Address(TypedDict):
    """Where somebody lives."""

    street: str
    number: int


class Plain:
    """A class without a JSON form."""


def typed(function: Callable[..., Any]) -> TypedFunction:
    return TypedFunction(function, f"tool '{function.__name__}'")


@pytest.mark.parametrize(
    ("annotation", "given", "expected"),
    [
        (int, 3, 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (Colour, "red", Colour.RED),
        (Literal["a", "b"], "b", "b"),
        (Point, {"x": 1}, Point(x=1)),
        (Renamed, {"wire": 1}, Renamed(wire=1)),
        (Size, {"width": 2}, Size(2)),
        (Address, {"street": "S", "number": 1}, {"street": "S", "number": 1}),
        (Tree, {"label": "a", "children": [{"label": "b"}]}, Tree(label="a", children=[Tree(label="b")])),
        (list[Point], [{"x": 1}], [Point(x=1)]),
        (dict[str, Size], {"a": {"width": 1}}, {"a": Size(1)}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (Path, "/tmp", Path("/tmp")),
        (date, "2026-11-23", date(2026, 11, 23)),
        (datetime, "2026-11-23T10:00:00Z", datetime(2026, 11, 23, 10, tzinfo=UTC)),
        (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        (Decimal, "1.5", Decimal("1.5")),
        (bytes, "text", b"text"),
        (int | None, None, None),
        (Point | str, "a", "a"),
        (Annotated[int, Field(ge=1)], 1, 1),
        (Any, {"a": [1]}, {"a": [1]}),
    ],
    ids=str,
)
def test_arguments_arrive_as_the_annotated_types(annotation: Any, given: Any, expected: Any) -> None:
    def take(value: Any) -> Any:
        return [value]

    take.__annotations__["value"] = annotation
    function = typed(take)
    assert jsonschema_rs.validator_for(function.input_schema).is_valid({"value": given})
    [arrived] = function.call({"value": given})
    assert (arrived, type(arrived)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("annotation", "value", "structured", "text"),
    [
        (str, "hi", {"result": "hi"}, "hi"),
        (int, 3, {"result": 3}, "3"),
        (bool, True, {"result": True}, "true"),
        (list[int], [1, 2], {"result": [1, 2]}, "[1,2]"),
        (tuple[int, str], (1, "a"), {"result": [1, "a"]}, '[1,"a"]'),
        (int | None, None, {"result": None}, None),
        (Colour, Colour.RED, {"result": "red"}, "red"),
        (datetime, datetime(2026, 1, 1, tzinfo=UTC), {"result": "2026-01-01T00:00:00Z"}, "2026-01-01T00:00:00Z"),
        (Point | int, 3, {"result": 3}, "3"),
    ],
    ids=str,
)
def test_what_is_no_object_is_the_result_of_an_object(annotation: Any, value: Any, structured: Any, text: Any) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = annotation
    function = typed(give)
    assert function.output_schema is not None
    assert function.output_schema["type"] == "object"
    jsonschema_rs.validator_for(function.output_schema).validate(structured)
    content = [] if text is None else [{"type": "text", "text": text}]
    assert function.published({}) == {"content": content, "structuredContent": structured}


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Point, Point(x=1), {"x": 1, "y": 0.0}),
        (Renamed, Renamed(wire=2), {"wire": 2}),
        (Size, Size(1), {"width": 1, "height": 1}),
        (Address, {"street": "S", "number": 1}, {"street": "S", "number": 1}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Tree, Tree(label="a"), {"label": "a", "children": []}),
        (Point, {"x": 5}, {"x": 5}),
    ],
    ids=str,
)
def test_an_object_is_structured_content_as_it_is(annotation: Any, value: Any, expected: Any) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = annotation
    function = typed(give)
    schema = function.output_schema
    assert schema is not None
    assert schema["type"] == "object"
    assert function.published({}) == expected


@pytest.mark.parametrize(
    "annotation", [Any, None, object, dict, dict[str, Any], list, list[Any], list[dict[str, Any]], Plain], ids=str
)
def test_a_return_type_that_says_nothing_promises_nothing(annotation: Any) -> None:
    def give() -> Any:
        return {"type": "text", "text": "a block of content"}

    give.__annotations__["return"] = annotation
    function = typed(give)
    assert function.output_schema is None
    assert function.published({}) == {"type": "text", "text": "a block of content"}


def test_what_has_no_annotation_is_made_json_if_pydantic_knows_how() -> None:
    def give():  # type: ignore[no-untyped-def]  # the point
        return {"points": [Point(x=1)], "size": Size(1), "when": date(2026, 1, 1)}

    function = typed(give)  # pyright: ignore[reportUnknownArgumentType]
    assert function.published({}) == {
        "points": [{"x": 1, "y": 0.0}],
        "size": {"width": 1, "height": 1},
        "when": "2026-01-01",
    }


def test_each_wrong_argument_is_told_with_its_pointer_what_came_and_what_was_expected() -> None:
    def paint(where: list[Point], colour: Colour, when: date) -> None: ...

    with pytest.raises(ToolError) as caught:
        typed(paint).call({"where": [{"x": 1}, {"x": "no"}], "colour": "green", "when": "today"})
    assert str(caught.value).splitlines() == [
        "The arguments do not fit tool 'paint':",
        "- at /where/1/x: got 'no'; input should be a valid integer, unable to parse string as an integer",
        "- at /colour: got 'green'; input should be 'red' or 'blue'",
        "- at /when: got 'today'; input should be a valid date or datetime, input is too short",
    ]


def test_a_place_inside_a_union_is_a_pointer_into_the_arguments() -> None:
    def take(value: Point | list[int]) -> None: ...

    with pytest.raises(ToolError) as caught:
        typed(take).call({"value": [1, "b"]})
    assert "- at /value/1: got 'b'; input should be a valid integer" in str(caught.value)
    assert "Point" not in str(caught.value).partition(";")[0]


def test_an_error_of_the_function_itself_is_not_taken_for_one_of_its_arguments() -> None:
    def read(text: str) -> None:
        Point.model_validate_json(text)

    with pytest.raises(ValueError, match="validation error") as caught:
        typed(read).call({"text": "{}"})
    assert not isinstance(caught.value, ToolError)


def test_a_parameter_with_the_request_is_not_in_the_schema() -> None:
    def work(a: int, request: RequestContext, *, other: RequestContext | None = None) -> int:
        return a

    function = typed(work)
    assert list(function.input_schema["properties"]) == ["a"]
    with pytest.raises(LookupError, match="no MCP request"):
        function.call({"a": 1})


async def test_a_coroutine_function_is_awaited_before_its_result_is_made() -> None:
    async def give(number: int) -> int:
        return number + 1

    assert await typed(give).published({"number": 1}) == {
        "content": [{"type": "text", "text": "2"}],
        "structuredContent": {"result": 2},
    }


def chatter() -> Iterator[Progress | str]:
    yield Progress(1, 2, "thinking")
    yield "Hello, "
    yield "world"


def counter() -> Iterator[int]:
    yield from range(3)


def worker() -> Generator[Progress, None, Point]:
    yield Progress(1)
    return Point(x=1)


async def walker() -> AsyncIterator[Progress | Size]:
    yield Progress(1)
    yield Size(3)


async def speaker() -> AsyncIterator[str]:
    yield "a"
    yield "b"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (chatter, "Hello, world"),
        (counter, [0, 1, 2]),
        (worker, {"x": 1, "y": 0.0}),
        (walker, {"width": 3, "height": 1}),
        (speaker, "ab"),
    ],
)
async def test_a_generator_comes_to_a_result_of_its_type(function: Callable[[], Any], expected: Any) -> None:
    made = typed(function)
    value = made.published({})
    result: Any = await value if inspect.isawaitable(value) else value
    structured = result.get("structuredContent", {"result": result})["result"]
    assert structured == expected
    assert made.output_schema is not None
    jsonschema_rs.validator_for(made.output_schema).validate(
        expected if isinstance(expected, dict) else {"result": expected}
    )


def test_a_generator_that_is_given_up_is_closed() -> None:
    seen: list[str] = []

    def work() -> Iterator[int]:
        try:
            yield 1
            raise ValueError("broken")
        finally:
            seen.append("closed")

    with pytest.raises(ValueError, match="broken"):
        typed(work).call({})
    assert seen == ["closed"]


TYPES: list[Any] = [
    bool,
    int,
    str,
    Colour,
    Point,
    Size,
    Address,
    Literal["fast", 3],
    list[int],
    dict[str, Point],
    int | None,
    list[Point] | str,
    tuple[int, bool],
]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TYPES), st.data())
def test_what_is_returned_fits_the_schema_that_is_promised(annotation: Any, data: st.DataObject) -> None:
    value = data.draw(st.from_type(annotation))

    def give() -> Any:
        return value

    give.__annotations__["return"] = annotation
    function = typed(give)
    assert function.output_schema is not None
    result: dict[str, Any] = json.loads(json.dumps(function.published({}), allow_nan=True))
    structured: Any = result.get("structuredContent", result) if "content" in result else result
    expected = TypeAdapter(annotation).dump_python(value, mode="json")
    assert json.dumps(structured) == json.dumps({"result": expected} if "content" in result else expected)
    if "NaN" not in json.dumps(structured) and "Infinity" not in json.dumps(structured):
        jsonschema_rs.validator_for(function.output_schema).validate(structured)
