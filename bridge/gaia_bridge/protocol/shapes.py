"""Shapes that JSON values are checked against, with errors that say what came and what was expected. Pure.

Fields that a shape does not name are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeGuard

import msgspec

from gaia_bridge.json_schema.parts import preview
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import is_array, is_object


def is_identifier(value: object) -> TypeGuard[int | str]:
    """Whether a value can be the id of a request: a string, or an integer written without a fraction."""
    return type(value) is str or type(value) is int


class Problem(NamedTuple):
    """One violation of a shape: its place in the value, what was expected there, and what came."""

    place: tuple[str | int, ...]
    expected: str
    came: Any = None
    is_missing: bool = False

    @property
    def message(self) -> str:
        """The problem in words, without the place."""
        if self.is_missing:
            return f"nothing came; expected {self.expected}"
        return f"got {printable(preview(self.came))}; expected {self.expected}"


_NOTHING: Final[Any] = Annotated[int, msgspec.Meta(gt=0, lt=0)]
"""A type to which msgspec converts no value, since no integer is both above and below 0."""


class Shape:
    """A condition on JSON values.

    Args:
        expected: What is expected, in words, for error messages.
        check: Returns whether a value meets the condition; shapes that override `problems` have none.
        plain: A type for msgspec: decoded JSON that can be converted to it meets the condition.
    """

    def __init__(self, expected: str, check: Callable[[Any], bool] | None = None, plain: Any = _NOTHING) -> None:
        self.expected = expected
        self._check = check
        self._plain = plain

    @cached_property
    def plain(self) -> Any:
        """A type for msgspec: decoded JSON that can be converted to it fits. Other values may fit as well."""
        return self._plain

    def accepts(self, value: Any) -> bool:
        """Whether decoded JSON fits. Nearly every value does, and then costs a single call of msgspec."""
        return self.is_plain(value) or self.fits(value)

    def is_plain(self, value: Any) -> bool:
        """Whether decoded JSON fits, and has no `null` in place of an optional field. `False` may be wrong."""
        try:
            msgspec.convert(value, self.plain)
        except (msgspec.ValidationError, UnicodeEncodeError):  # lone surrogates cannot be compared there
            return False
        return True

    def passes(self, value: Any) -> bool:
        """Whether the check of the value itself, not of its parts, suffices to know that the value fits."""
        return self._check is not None and self._check(value)

    def fits(self, value: Any) -> bool:
        """Whether a value has no problem."""
        return next(iter(self.problems(value)), None) is None

    def problems(self, value: Any) -> Iterable[Problem]:
        """Return the problems of a value; none if it fits."""
        return () if self.passes(value) else (Problem((), self.expected, value),)


class Field(NamedTuple):
    """A field of an object. An optional field may also be `null`, which some languages write for absent values."""

    name: str
    shape: Shape
    is_required: bool = False

    def problems(self, holder: Mapping[str, Any]) -> Iterable[Problem]:
        """Return the problems of this field in an object."""
        value = holder.get(self.name)
        if value is not None:
            return _below(self.name, self.shape.problems(value))
        if not self.is_required or (self.shape is ANYTHING and self.name in holder):
            return ()
        return (Problem((self.name,), self.shape.expected, None, self.name not in holder),)


class Record(Shape):
    """An object. `values` is the shape of the values of all fields, if these are checked."""

    def __init__(self, *fields: Field, values: Shape | None = None) -> None:
        super().__init__("an object")
        self.fields = fields
        self._values = values

    @cached_property
    def plain(self) -> Any:
        if self._values is None:
            return _struct(self.fields) if self.fields else dict
        return _NOTHING if self.fields else dict[str, self._values.plain]  # type: ignore[name-defined]

    def problems(self, value: Any) -> Iterator[Problem]:
        if not is_object(value):
            yield Problem((), self.expected, value)
            return
        for field in self.fields:
            item = value.get(field.name)
            is_sound = not field.is_required if item is None else field.shape.passes(item)
            if not is_sound:  # most fields are absent or simple, and cost no generator
                yield from field.problems(value)
        if self._values is not None:
            for key, item in value.items():
                yield from _below(key, self._values.problems(item))


class Items(Shape):
    """An array whose items are all alike.

    Args:
        item: The shape of each item.
        most: The most items allowed; `None` for no limit.
    """

    def __init__(self, item: Shape, expected: str = "a list", most: int | None = None) -> None:
        super().__init__(expected)
        self._item = item
        self._most = most

    @cached_property
    def plain(self) -> Any:
        return Annotated[list[self._item.plain], msgspec.Meta(max_length=self._most)]  # type: ignore[name-defined]

    def problems(self, value: Any) -> Iterator[Problem]:
        if not is_array(value):
            yield Problem((), self.expected, value)
            return
        if self._most is not None and len(value) > self._most:
            yield Problem((), f"at most {self._most} items", value)
        for number, item in enumerate(value):
            yield from _below(number, self._item.problems(item))


class Chosen(Shape):
    """A value whose shape depends on the value. `choose` returns the shape, or `None` to refuse the value."""

    def __init__(self, expected: str, choose: Callable[[Any], Shape | None]) -> None:
        super().__init__(expected)
        self._choose = choose

    def problems(self, value: Any) -> Iterable[Problem]:
        shape = self._choose(value)
        return super().problems(value) if shape is None else shape.problems(value)


class Tagged(Chosen):
    """An object whose shape depends on one of its fields; `others` is that for other values, `None` refuses them."""

    def __init__(self, key: str, kinds: Mapping[str, Record], others: Record | None = None) -> None:
        super().__init__(f"an object whose {key} is one of {', '.join(kinds)}", self._of_its_kind)
        self._key = key
        self._kinds = kinds
        self._others = others

    @cached_property
    def plain(self) -> Any:
        """A tagged union: a new type for each kind, since kinds may share a shape, which others may hold too."""
        plain: Any = _NOTHING
        for kind, shape in self._kinds.items():
            plain |= _struct(shape.fields, self._key, kind)
        return plain

    def _of_its_kind(self, value: Any) -> Shape | None:
        kind = value.get(self._key) if is_object(value) else None
        return self._kinds.get(kind, self._others) if isinstance(kind, str) else None


def _below(step: str | int, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of a part of a value, with their places in the whole."""
    for problem in problems:
        yield problem._replace(place=(step, *problem.place))


def required(name: str, shape: Shape) -> Field:
    return Field(name, shape, is_required=True)


def optional(*names: str, shape: Shape) -> tuple[Field, ...]:
    return tuple(Field(name, shape) for name in names)


def one_of(*values: str) -> Shape:
    """Make the shape of a string that is one of several."""
    return Shape(
        " or ".join(map(repr, values)) if len(values) < 3 else f"one of {', '.join(values)}",
        values.__contains__,
        Literal[values],
    )


def _struct(fields: Sequence[Field], key: str | None = None, kind: str | None = None) -> type:
    """Build the msgspec type of objects with these fields; `key` is the field that holds the kind, if there is one."""
    # Members are numbered and renamed: names of fields in MCP, such as `_meta`, need not be valid for a struct.
    checked = [field for field in fields if field.name != key]
    members: list[Any] = [
        (f"field{number}", field.shape.plain, *(() if field.is_required else (msgspec.UNSET,)))
        for number, field in enumerate(checked)
    ]
    names = {f"field{number}": field.name for number, field in enumerate(checked)}
    return msgspec.defstruct("Plain", members, tag_field=key, tag=kind, rename=names, kw_only=True, gc=False)


def first_problem(shape: Shape, value: Any) -> str | None:
    """Describe the first problem of a value as `place: message`; return `None` if the value fits."""
    if shape.accepts(value):
        return None
    problem = next(iter(shape.problems(value)))
    place = ".".join(part for part in problem.place if isinstance(part, str))
    return f"{place}: {problem.message}" if place else problem.message


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


TEXT: Final = Shape("a string", str.__instancecheck__, str)
FLAG: Final = Shape("true or false", bool.__instancecheck__, bool)
NUMBER: Final = Shape("a number", _is_number, int | float)
WHOLE: Final = Shape("a whole number", _is_whole, int)
FRACTION: Final = Shape(
    "a number from 0 to 1",
    lambda value: _is_number(value) and 0 <= value <= 1,
    Annotated[float, msgspec.Meta(ge=0, le=1)],
)
TOKEN: Final = Shape("a string or an integer", lambda value: isinstance(value, str) or _is_whole(value), str | int)
ANYTHING: Final = Shape("anything", lambda value: True, Any)
OBJECT: Final = Record()
TEXTS: Final = Items(TEXT, "a list of strings")
