"""Plain types without pydantic: the schemas, arguments and results are those that pydantic gives."""

from __future__ import annotations

import inspect
import json
from functools import partial
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gaia_bridge.sources.functions.plain_types import PlainReader, PlainWriter, plain_type
from gaia_bridge.sources.functions.pydantic_schemas import ArgumentReader, ResultWriter
from gaia_bridge.text.json_types import JSON

EMPTY: Final = inspect.Parameter.empty
SCALARS: Final[list[Any]] = [
    str,
    int,
    float,
    bool,
    Literal["a"],
    Literal["a", "b"],
    Annotated[int, "how many"],
    Any,
    EMPTY,
]


def subscripted(*types: Any) -> Any:
    """As `list[int]`, of types that are known only here."""
    return GenericAlias(types[0], types[1:])


def optional(annotation: Any) -> Any:
    """As `annotation | None`, which not all types have."""
    return Optional[annotation]  # noqa: UP045


TYPES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([*SCALARS, list, dict]),
    lambda inner: st.one_of(
        inner.filter(lambda item: item is not EMPTY).map(partial(subscripted, list)),
        inner.filter(lambda item: item is not EMPTY).map(partial(subscripted, dict, str)),
        inner.filter(lambda item: item is not EMPTY).map(optional),
    ),
    max_leaves=3,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats()
    | st.sampled_from(["a", "b", "é", "3"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
DEFAULTS: Final = st.sampled_from([EMPTY, None, 1, True, 0.5, "a"])


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, with the types of numbers, and NaN like NaN."""
    return repr(one) == repr(other)


def outcome(read: Any, value: Any) -> str:
    try:
        return repr(read(value))
    except ValidationError as error:
        return repr(error.errors(include_url=False))


@given(st.dictionaries(st.sampled_from("abc"), st.tuples(TYPES, DEFAULTS), max_size=3), st.data())
def test_arguments_are_read_as_by_pydantic(types: dict[str, tuple[Any, Any]], data: st.DataObject) -> None:
    parameters = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in types.items()
    }
    whole = ArgumentReader("f", parameters)
    plain = PlainReader.of(parameters, lambda: whole)
    assert plain is not None
    assert json.dumps(plain.schema) == json.dumps(whole.schema)
    names = st.sampled_from([*parameters, *parameters, "unknown"])
    for _ in range(3):
        arguments = data.draw(st.dictionaries(names, VALUES, max_size=3))
        assert outcome(plain, arguments) == outcome(whole, arguments)


@given(TYPES.filter(lambda item: item is not EMPTY), VALUES)
def test_results_are_written_as_by_pydantic(annotation: Any, value: Any) -> None:
    whole, kind = ResultWriter(annotation), plain_type(annotation)
    assert kind is not None
    plain = PlainWriter(kind, lambda: whole)
    assert plain.schema == whole.schema
    assert same(plain(value), whole(value))
    assert plain.accepts(value) is whole.accepts(value)


@pytest.mark.parametrize(
    "annotation",
    [set[int], tuple[int, ...], list["int"], dict[int, str], bytes, Literal[1], int | str, Annotated[int, 3], object],
)
def test_other_types_are_not_plain(annotation: Any) -> None:
    assert plain_type(annotation) is None


def test_what_a_function_keeps_is_not_what_clients_get() -> None:
    kind = plain_type(list[int])
    assert kind is not None
    kept: Any = [1, 2]
    written = PlainWriter(kind, lambda: ResultWriter(list[int]))(kept)
    kept.append(3)
    assert written == [1, 2]


def test_what_fits_needs_no_pydantic() -> None:
    def never() -> Any:
        raise AssertionError("it was made")

    def find(name: str, most: int = 3, sizes: list[float] | None = None) -> None: ...

    reader = PlainReader.of(
        {
            name: parameter.replace(annotation=annotation)
            for (name, parameter), annotation in zip(
                inspect.signature(find).parameters.items(), (str, int, list[float] | None), strict=True
            )
        },
        never,
    )
    assert reader is not None
    given: JSON = {"name": "é", "sizes": [1, 2.5]}
    assert reader(given) == {"name": "é", "most": 3, "sizes": [1.0, 2.5]}
    with pytest.raises(AssertionError, match="it was made"):
        reader({"name": 5})
