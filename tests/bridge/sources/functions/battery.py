"""Some sixty signatures, for what is asserted of their schemas here, and for comparisons with other frameworks.

Imports neither pytest nor the bridge, so that `benchmarks/fastmcp_schemas.py` can read it in other environments.
"""

# ruff: noqa: B008
# mypy: disable-error-code="empty-body, type-arg, no-untyped-def"
# pyright: basic
# No `from __future__ import annotations`: annotations both ways are in the table (`forward`).

import collections
import datetime
import decimal
import enum
import functools
import ipaddress
import pathlib
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Required, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypeAliasType, TypedDict

__all__ = ["SIGNATURES"]

T = TypeVar("T")
UserId = NewType("UserId", int)
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")
Positive = Annotated[int, Field(gt=0)]


class Colour(enum.Enum):
    """What paint can be."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    WORD = "word"
    NUMBER = 1


class Point(BaseModel):
    """A place."""

    x: int
    y: float = 0.0


class Line(BaseModel):
    start: Point
    end: Point = Point(x=0)
    name: str = Field(default="line", description="What it is called.", max_length=10)


class Tree(BaseModel):
    label: str
    children: "list[Tree]" = []


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    real: int = Field(alias="wire")


class Box(BaseModel, Generic[T]):
    item: T


class Numbers(RootModel[list[int]]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


@dataclass
class Size:
    """How large something is."""

    width: int
    tags: list[str] = field(default_factory=list)


class Address(TypedDict, total=False):
    street: Required[str]
    number: int


class Person(TypedDict):
    address: Address
    age: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


def nothing() -> None: ...
def unannotated(a, b=1): ...
def scalars(a: int, b: float, c: str, d: bool) -> int: ...
def defaults(a: int = 1, b: str = "x", c: float = 0.5, d: bool = False, e: None = None) -> str: ...
def optional(a: int | None, b: str | None = None) -> int | None: ...
def union(a: int | str, b: list[int] | Point) -> int | str: ...
def literal(a: Literal["x", "y"], b: Literal[1, "z", None] = None) -> Literal["x"]: ...
def enumeration(a: Colour, b: Level = Level.LOW, c: Mixed = Mixed.WORD) -> Colour: ...
def lists(a: list[int], b: list[list[str]], c: list) -> list[int]: ...
def tuples(a: tuple[int, str], b: tuple[int, ...] = ()) -> tuple[int, str]: ...
def sets(a: set[int], b: frozenset[str] = frozenset()) -> set[int]: ...
def mappings(a: dict[str, int], b: Mapping[str, Point], c: dict[int, str]) -> dict[str, int]: ...
def sequences(a: Sequence[int], b: collections.deque[int]) -> Sequence[int]: ...
def iterables(a: Iterable[int]) -> Iterable[int]: ...
def anything(a: Any, b: object = None) -> Any: ...
def bare_dict(a: dict) -> dict: ...
def open_dict(a: dict[str, Any]) -> dict[str, Any]: ...
def list_of_dicts() -> list[dict[str, Any]]: ...
def moments(a: datetime.datetime, b: datetime.date, c: datetime.time, d: datetime.timedelta) -> datetime.datetime: ...
def identity(a: uuid.UUID) -> uuid.UUID: ...
def decimals(a: decimal.Decimal, b: decimal.Decimal = decimal.Decimal("1.5")) -> decimal.Decimal: ...
def binary(a: bytes) -> bytes: ...
def paths(a: pathlib.Path, b: pathlib.Path = pathlib.Path("/tmp")) -> pathlib.Path: ...
def addresses(a: ipaddress.IPv4Address) -> ipaddress.IPv4Address: ...
def patterns(a: re.Pattern[str]) -> None: ...
def new_type(a: UserId) -> UserId: ...
def alias_type(a: Json) -> Json: ...
def bounds(
    a: Annotated[int, Field(ge=1, le=5)], b: Positive, c: Annotated[float, Field(multiple_of=0.5)] = 1.0
) -> int: ...
def texts(a: Annotated[str, Field(min_length=1, max_length=9, pattern="^a")]) -> str: ...
def lengths(a: Annotated[list[Positive], Field(min_length=1, max_length=3)]) -> list[Positive]: ...
def described(
    a: Annotated[int, Field(description="A number.", title="Number", examples=[1])],
) -> Annotated[int, Field(description="Another.")]: ...
def described_default(a: int = Field(3, description="A number."), b: int = Field(description="Needed.")) -> None: ...
def default_factory(a: list[int] = Field(default_factory=list)) -> None: ...
def annotated_text(a: Annotated[int, "A number."]) -> None: ...
def aliased(a: Annotated[int, Field(alias="b")]) -> None: ...
def model(a: Point) -> Point: ...
def nested_model(a: Line) -> Line: ...
def list_of_models(a: list[Point]) -> list[Point]: ...
def mapping_of_models(a: dict[str, Point]) -> dict[str, Point]: ...
def optional_model(a: Point | None = None) -> Point | None: ...
def default_model(a: Point = Point(x=1)) -> None: ...
def recursive_model(a: Tree) -> Tree: ...
def strict_model(a: Strict) -> Strict: ...
def generic_model(a: Box[int], b: Box[Point]) -> Box[int]: ...
def root_model(a: Numbers) -> Numbers: ...
def discriminated(a: Annotated[Cat | Dog, Field(discriminator="kind")]) -> Cat | Dog: ...
def dataclasses(a: Size) -> Size: ...
def typed_dict(a: Address) -> Address: ...
def nested_typed_dict(a: Person) -> Person: ...
def named_tuple(a: Pair) -> Pair: ...
def forward(a: "Point", b: "list[Colour] | None" = None) -> "Point": ...
def keyword_only(a: int, *, b: str, c: int = 1) -> None: ...
def collected(a: int, **others: int) -> None: ...
def wire_names(name: str, arguments: dict[str, int], ctx: str, kwargs: int = 1) -> None: ...
def odd_default(a: float = float("inf"), b: Any = object()) -> None: ...
async def coroutine(a: int) -> list[str]: ...
def generator() -> Iterator[str]:
    yield ""


async def async_generator() -> AsyncIterator[int]:
    yield 1


def google(a: int, b: Point) -> int:
    """Do it.

    More of it.

    Args:
        a: The first.
        b: The second, which
            goes on.

    Returns:
        A number.
    """
    ...


def numpy(a: int, b: int) -> int:
    """Do it.

    Parameters
    ----------
    a, b : int
        Both of them.

    Returns
    -------
    int
        A number.
    """
    ...


def rest(a: int) -> int:
    """Do it.

    :param a: The first.
    :returns: A number.
    """
    ...


@functools.lru_cache
def cached(a: int) -> int: ...


SIGNATURES: tuple[Callable[..., Any], ...] = (
    nothing,
    unannotated,
    scalars,
    defaults,
    optional,
    union,
    literal,
    enumeration,
    lists,
    tuples,
    sets,
    mappings,
    sequences,
    iterables,
    anything,
    bare_dict,
    open_dict,
    list_of_dicts,
    moments,
    identity,
    decimals,
    binary,
    paths,
    addresses,
    patterns,
    new_type,
    alias_type,
    bounds,
    texts,
    lengths,
    described,
    described_default,
    default_factory,
    annotated_text,
    aliased,
    model,
    nested_model,
    list_of_models,
    mapping_of_models,
    optional_model,
    default_model,
    recursive_model,
    strict_model,
    generic_model,
    root_model,
    discriminated,
    dataclasses,
    typed_dict,
    nested_typed_dict,
    named_tuple,
    forward,
    keyword_only,
    collected,
    wire_names,
    odd_default,
    coroutine,
    generator,
    async_generator,
    google,
    numpy,
    rest,
    cached,
)
