"""Schemas from signatures: what they say, and that the function takes everything they allow."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from annotated_types import Ge, Le, MaxLen, MinLen
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from gaia.agents.base.tool_schema import flat_parameters
from gaia.agents.base.tools import _TOOL_REGISTRY, tool  # pyright: ignore[reportPrivateUsage]  # specified name
from gaia.agents.chat.messages import decoded
from gaia_bridge.sources.functions.docstrings import split_docstring
from gaia_bridge.sources.functions.typed_function import TypedFunction


class Colour(Enum):
    """What paint can be."""

    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A place."""

    x: int
    y: float = 0.0


@dataclass
class Node:
    """A tree."""

    label: str
    children: list[Node]


class Plain:
    """A class that has no JSON form."""


steady = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""No example is judged by how busy the machine is."""

TYPES: list[Any] = [
    bool,
    int,
    str,
    float,
    type(None),
    Colour,
    Point,
    Literal["fast", "slow"],
    Annotated[int, Ge(1), Le(10)],
    Annotated[str, MinLen(1), MaxLen(5)],
    list[int],
    set[str],
    tuple[int, str],
    tuple[bool, ...],
    dict[str, int],
    int | None,
    int | str,
    list[Point] | None,
    dict[str, list[Colour]],
]


finite_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def input_schema(function: Callable[..., Any], name: str) -> dict[str, Any]:
    return TypedFunction(function, f"tool '{name}'").input_schema


def function_of(annotations: dict[str, Any], optional: set[str]) -> Callable[..., dict[str, Any]]:
    """A function of keyword parameters with these types, that returns what it was given."""

    def example(**given: Any) -> dict[str, Any]:
        return given

    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None if name in optional else empty
        )
        for name, annotation in annotations.items()
    ]
    example.__dict__["__signature__"] = inspect.Signature(parameters)
    example.__annotations__ = dict(annotations)
    return example


@st.composite
def functions_and_arguments(draw: st.DrawFn) -> tuple[Callable[..., Any], dict[str, Any], bool]:
    """A function, JSON arguments for it, and whether they were made from its own types."""
    annotations = {f"p{index}": kind for index, kind in enumerate(draw(st.lists(st.sampled_from(TYPES), max_size=4)))}
    optional = draw(st.sets(st.sampled_from(sorted(annotations)))) if annotations else set[str]()
    arguments: dict[str, Any] = {}
    fitting = True
    for name, annotation in annotations.items():
        if name in optional and draw(st.booleans()):
            continue
        if draw(st.integers(0, 3)):
            value = draw(st.from_type(annotation).filter(is_finite))
            arguments[name] = TypeAdapter(annotation).dump_python(value, mode="json")
        else:
            fitting = False
            arguments[name] = draw(finite_json)
    return function_of(annotations, optional), arguments, fitting


def is_finite(value: Any) -> bool:
    if isinstance(value, Point):
        return is_finite(value.y)
    if isinstance(value, list):
        return all(is_finite(item) for item in value)  # pyright: ignore[reportUnknownVariableType]  # lists of anything
    return not isinstance(value, float) or math.isfinite(value)


@steady
@example((function_of({"n": int}, set()), {"n": 9.223372036908546e18}, False))
@given(functions_and_arguments())
def test_what_the_schema_accepts_the_function_accepts(made: tuple[Callable[..., Any], dict[str, Any], bool]) -> None:
    function, written, fitting = made
    arguments = decoded(json.dumps(written))  # as a model's are
    tool(function)
    entry = _TOOL_REGISTRY["example"]
    accepted = jsonschema_rs.validator_for(entry["inputSchema"]).is_valid(arguments)
    assert accepted or not fitting
    if accepted:
        assert entry["function"](**arguments).keys() >= arguments.keys()


@steady
@given(functions_and_arguments())
def test_every_schema_is_valid_json_schema_and_plain_json(example: tuple[Callable[..., Any], Any, Any]) -> None:
    schema = input_schema(example[0], "example")
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema
    assert schema["type"] == "object"


@steady
@given(functions_and_arguments())
def test_the_flat_parameters_name_every_property_with_a_type_and_whether_it_is_required(
    example: tuple[Callable[..., Any], Any, Any],
) -> None:
    schema = input_schema(example[0], "example")
    flat = flat_parameters(schema)
    assert {name for name, facts in flat.items() if facts["required"]} == set(schema.get("required", ()))
    assert flat.keys() == schema["properties"].keys()
    known = {"string", "integer", "number", "boolean", "array", "object"}
    assert all(
        facts.keys() == {"type", "required", "description"} and facts["type"] in known for facts in flat.values()
    )


def test_a_rich_signature_keeps_everything_a_schema_can_say() -> None:
    def paint(
        where: Annotated[list[Point], Field(min_length=1, description="Explicit wins.")],
        colour: Colour = Colour.RED,
        mode: Literal["fast", "slow"] | None = None,
        **extra: int,
    ) -> None:
        """Paint.

        Args:
            where: Docstring loses.
            colour: The paint.
            **extra: Anything else.
        """

    schema = input_schema(paint, "paint")
    assert schema["properties"] == {
        "where": {
            "type": "array",
            "items": {"$ref": "#/$defs/Point"},
            "minItems": 1,
            "description": "Explicit wins.",
        },
        "colour": {"$ref": "#/$defs/Colour", "default": "red", "description": "The paint."},
        "mode": {"anyOf": [{"enum": ["fast", "slow"], "type": "string"}, {"type": "null"}], "default": None},
    }
    assert schema["required"] == ["where"]
    assert schema["additionalProperties"] == {"type": "integer"}
    assert schema["$defs"]["Point"]["required"] == ["x"]
    assert {name: facts["type"] for name, facts in flat_parameters(schema).items()} == {
        "where": "array",
        "colour": "string",
        "mode": "string",
    }


def test_a_type_may_refer_to_itself() -> None:
    def grow(tree: Node) -> None: ...

    schema = input_schema(grow, "grow")
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"tree": {"label": "a", "children": [{"label": "b", "children": []}]}})
    assert not validator.is_valid({"tree": {"label": "a", "children": [{"label": "b"}]}})
    assert flat_parameters(schema)["tree"]["type"] == "object"


def test_parameters_without_annotation_take_anything() -> None:
    def anything(value: Any, other: Any = 1) -> None: ...

    anything.__annotations__.clear()
    schema = input_schema(anything, "anything")
    assert schema["properties"] == {"value": {}, "other": {"default": 1}}
    assert flat_parameters(schema)["value"] == {"type": "string", "required": True, "description": ""}


@pytest.mark.parametrize("default", [math.nan, math.inf, object()], ids=["nan", "inf", "object"])
def test_a_default_that_json_cannot_carry_is_left_out(default: Any) -> None:
    def wait(seconds: Any = default) -> None: ...

    schema = input_schema(wait, "wait")
    assert schema["properties"] == {"seconds": {}}
    assert "required" not in schema


@pytest.mark.parametrize("annotation", [Plain, Callable[[int], int]], ids=str)
def test_a_type_without_a_json_form_is_refused_by_name(annotation: Any) -> None:
    with pytest.raises(TypeError, match=r"tool 'odd' has no JSON Schema: .*annotate its parameters with types"):
        input_schema(function_of({"value": annotation}, set()), "odd")


def test_an_annotation_that_names_nothing_is_refused_by_name() -> None:
    def odd(value: int) -> None: ...

    odd.__annotations__["value"] = "NOWHERE"
    with pytest.raises(TypeError, match="tool 'odd' has no JSON Schema: name 'NOWHERE' is not defined"):
        input_schema(odd, "odd")


def test_a_type_with_a_textual_form_is_described_as_text() -> None:
    def remind(when: datetime) -> None: ...

    assert input_schema(remind, "remind")["properties"] == {"when": {"type": "string", "format": "date-time"}}


@pytest.mark.parametrize(
    ("section", "described"),
    [
        ("", {}),
        ("Args:\n    a: One.\n    b (int, optional): Two.", {"a": "One.", "b": "Two."}),
        ("Args:\n    a:\n        On the next line.\n        And on.\n", {"a": "On the next line. And on."}),
        ("Args:\n  a: One: with a colon.\n\n  b: Two.", {"a": "One: with a colon.", "b": "Two."}),
        ("Arguments:\n\t*rest: Many.\n\t**more (dict[str, tuple[int]]): Most.", {"rest": "Many.", "more": "Most."}),
        ("Args:\n    no entry\n        nor this\n    a: One.", {"a": "One."}),
    ],
)
def test_the_arguments_section_is_taken_out_of_a_docstring(section: str, described: dict[str, str]) -> None:
    assert split_docstring(section) == ("", described)
    assert split_docstring(f"Say.\n\n{section}") == ("Say.", described)
    assert split_docstring(f"Say.\n\n{section}\n\nReturns:\n    It.")[1] == described
    assert split_docstring(f"Say.\n\n{section}\n\nReturns:\n    It.")[0].split() == ["Say.", "Returns:", "It."]


def test_a_line_that_only_starts_like_the_section_is_text() -> None:
    assert split_docstring("Args: are discussed here, inline.") == ("Args: are discussed here, inline.", {})


@steady
@given(st.text(alphabet="Args: \n\tabc()*", max_size=60))
def test_no_docstring_breaks_the_reader(text: str) -> None:
    rest, described = split_docstring(f"Args:\n{text}")
    assert rest == rest.strip()
    assert all(name.isidentifier() and value == value.strip() for name, value in described.items())


def test_a_schema_that_refers_to_itself_in_a_circle_still_has_a_type() -> None:
    circle = {"$ref": "#/$defs/A"}
    flat = flat_parameters({"properties": {"a": circle}, "$defs": {"A": circle}})
    assert flat == {"a": {"type": "string", "required": False, "description": ""}}


def test_the_flat_type_is_the_first_that_is_not_null() -> None:
    schemas: dict[str, dict[str, Any]] = {
        "string": {},
        "integer": {"type": ["null", "integer"]},
        "array": {"anyOf": [{"type": "null"}, {"type": "array"}]},
        "object": {"anyOf": [{"$ref": "#/$defs/missing"}, {"type": "object"}]},
    }
    flat = flat_parameters({"properties": schemas, "required": ["array"]})
    assert {name: facts["type"] for name, facts in flat.items()} == {name: name for name in schemas}
    assert [name for name, facts in flat.items() if facts["required"]] == ["array"]
