"""Whatever arguments come: what validates is converted, what does not is refused with its JSON pointer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin
from uuid import UUID

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from gaia_bridge.errors import ToolError
from gaia_bridge.sources.functions.typed_function import TypedFunction
from gaia_bridge.text.json_types import is_array

LINE = re.compile(r"- at (\(root\)|(?:/[^/:]*)+): got .+; .+|- and more")


class Colour(Enum):
    RED = "red"
    TWO = 2


class Point(BaseModel):
    x: int
    names: dict[str, int] = {}


class Tree(BaseModel):
    label: str
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]
    age: int


class Address(TypedDict):
    street: str


@dataclass
class Size:
    width: int


TYPES: list[Any] = [
    int,
    str,
    bool,
    float,
    bytes,
    date,
    datetime,
    timedelta,
    Decimal,
    UUID,
    Path,
    Colour,
    Point,
    Tree,
    Address,
    Size,
    int | None,
    Literal["a", 1],
    list[Point],
    set[int],
    frozenset[str],
    tuple[int, str],
    tuple[int, ...],
    dict[str, Point],
    dict[int, str],
    Mapping[str, list[int]],
    Iterable[int],
    Point | list[int] | None,
    Annotated[Cat | Dog, Field(discriminator="kind")],
    Annotated[int, Field(ge=1, le=5)],
    Annotated[str, Field(pattern="^a", max_length=3)],
    Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=1)],
]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)  # lone surrogates as well
    | st.sampled_from(["red", "a", "cat", "dog", "2026-01-01", "1.5", "P1D", "x/y", "a~b", "line\nline"])
)
KEYS = st.sampled_from(
    ["x", "label", "children", "kind", "age", "street", "width", "names", "a/b", "c~d", ""]
) | st.text(max_size=3)
JSON_VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


VALUES: dict[Any, st.SearchStrategy[Any]] = {
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    float: st.floats(allow_nan=False, allow_infinity=False),
    Path: st.builds(Path, st.text()),
    Tree: st.recursive(
        st.builds(Tree, label=st.text(), children=st.just([])),
        lambda inner: st.builds(Tree, label=st.text(), children=st.lists(inner, max_size=3)),
        max_leaves=5,
    ),
}
"""Where the type alone does not say it all."""


def taking(annotation: Any) -> TypedFunction:
    def take(value: Any, *, other: Any = None) -> Any:
        return [value]

    take.__annotations__["value"] = annotation
    return TypedFunction(take, "tool 'take'")


FUNCTIONS: list[tuple[Any, TypedFunction]] = [(annotation, taking(annotation)) for annotation in TYPES]


@given(
    st.sampled_from(FUNCTIONS),
    st.fixed_dictionaries({}, optional={"value": JSON_VALUES, "other": SCALARS, "more": SCALARS}),
)
def test_arguments_are_converted_or_refused_with_a_pointer(
    typed: tuple[Any, TypedFunction], arguments: dict[str, Any]
) -> None:
    annotation, function = typed
    try:
        [arrived] = function.call(arguments)
    except ToolError as refused:
        first, *lines = str(refused).split("\n")
        assert first == "The arguments do not fit tool 'take':"
        assert lines
        for line in lines:
            assert LINE.fullmatch(line), line
            assert _is_there(line, arguments), line
        return
    assert arguments.keys() <= {"value", "other"}
    if annotation != Iterable[int]:
        expected = TypeAdapter(annotation).validate_python(arguments["value"])
        assert repr(arrived) == repr(expected)


def _is_there(line: str, arguments: Any) -> bool:
    """Whether a line's pointer leads to something in the arguments."""
    pointer = line.removeprefix("- at ").partition(": got ")[0]
    if pointer.startswith("- and") or pointer == "(root)":
        return True
    value: Any = arguments
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        value = value[int(key)] if is_array(value) else value[key]
    return True


@pytest.mark.parametrize("annotation", [it for it in TYPES if get_origin(it) not in (Annotated, Iterable)], ids=str)
def test_what_is_of_a_type_goes_there_and_back(annotation: Any) -> None:
    function = taking(annotation)
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    is_valid: Callable[[Any], bool] = jsonschema_rs.validator_for(function.input_schema).is_valid

    @given(VALUES[annotation] if annotation in VALUES else st.from_type(annotation))
    def check(value: Any) -> None:
        try:
            wire = json.loads(adapter.dump_json(value))
        except ValueError:  # bytes that are no text
            return
        [arrived] = function.call({"value": wire})
        assert is_valid({"value": wire})
        assert arrived == value

    check()
