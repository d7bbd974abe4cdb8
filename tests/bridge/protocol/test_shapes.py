"""Shapes: whether a value fits is found in one go where that is possible, and nothing else is found so."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia_bridge.protocol import content, parameters, questions, vocabulary
from gaia_bridge.protocol.shapes import (
    ANYTHING,
    FRACTION,
    NUMBER,
    TEXT,
    TOKEN,
    WHOLE,
    Items,
    Record,
    Shape,
    Tagged,
    first_problem,
    one_of,
    optional,
    required,
)
from gaia_bridge.text.json_types import is_object

ODD: Final[list[Any]] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    0.5,
    1.0,
    2.0,
    1e300,
    2**70,
    "",
    "text",
    "user",
    "object",
    "\ud800",
    [],
    {"type": "\ud800"},
    {"\ud800": "\udfff"},
    {},
    [None],
]
ODD_VALUES: Final = st.one_of(st.sampled_from(ODD), st.text(max_size=3), st.integers(), st.floats(allow_nan=False))


def shapes_of(*modules: ModuleType) -> Iterator[tuple[str, Shape]]:
    for module in modules:
        values: dict[str, Any] = vars(module)
        for name, value in values.items():
            of_value: Any = value if is_object(value) else {"": value}
            for key, item in of_value.items():
                if isinstance(item, Shape):
                    yield f"{name} {key}", item


ALL: Final = dict(shapes_of(content, questions, parameters, vocabulary))


def _of_kind(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "type": kind}


def nearly(shape: Shape, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that fit a shape, or do not quite."""
    match shape:
        case Record():
            fields: dict[str, st.SearchStrategy[Any]] = {
                field.name: nearly(field.shape, depth + 1) for field in shape.fields
            }
            objects = st.fixed_dictionaries({}, optional={**fields, "more": ODD_VALUES, "type": ODD_VALUES})
            return st.one_of(objects, ODD_VALUES) if depth else objects
        case Tagged():
            kinds: Any = vars(shape)["_kinds"]
            tagged = [nearly(record, 0).map(partial(_of_kind, kind)) for kind, record in kinds.items()]
            return st.one_of(*tagged, ODD_VALUES)
        case Items():
            return st.one_of(st.lists(nearly(vars(shape)["_item"], depth + 1), max_size=3), ODD_VALUES)
        case _:
            return ODD_VALUES


@settings(max_examples=20 * settings().max_examples)
@given(name=st.sampled_from(sorted(ALL)), data=st.data())
def test_what_is_accepted_in_one_go_is_what_fits(name: str, data: st.DataObject) -> None:
    shape = ALL[name]
    value = data.draw(nearly(shape))
    assert shape.accepts(value) == bool(shape.fits(value))
    assert (first_problem(shape, value) is None) == bool(shape.fits(value))


@pytest.mark.parametrize("shape", [ANYTHING, FRACTION, NUMBER, TEXT, TOKEN, WHOLE, one_of("user", "text")])
def test_a_value_alone_is_accepted_if_it_fits(shape: Shape) -> None:
    for value in ODD:
        assert shape.accepts(value) == bool(shape.fits(value))


@pytest.mark.parametrize("shape", [ANYTHING, TEXT, Shape("odd", lambda value: bool(value == 1))])
def test_a_field_is_required_or_not_whatever_its_shape(shape: Shape) -> None:
    for value in ({}, {"a": None}, {"a": 1}, {"a": "x"}, {"b": None}, {"a": "x", "b": 2}):
        for record in (Record(required("a", shape)), Record(*optional("a", shape=shape)), Record(values=shape)):
            assert record.accepts(value) == bool(record.fits(value))


def test_most_of_what_comes_is_accepted_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    result: dict[str, Any] = {"content": [{"type": "text", "text": "hello"}], "isError": False, "_meta": {}}
    shape = content.RESULTS["tools/call"]
    looked_through: list[Any] = []
    monkeypatch.setattr(shape, "fits", looked_through.append)
    assert shape.accepts(result)
    assert looked_through == []
