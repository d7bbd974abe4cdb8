"""The table of request methods, and the check of their parameters against the types in the specification.

Fields that the specification does not define are not checked, and are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.protocol import meta
from gaia_bridge.protocol.codes import INVALID_PARAMS
from gaia_bridge.protocol.kinds import KINDS, LISTEN_FLAGS, SKILL
from gaia_bridge.protocol.questions import ANSWERS
from gaia_bridge.protocol.shapes import (
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    TOKEN,
    Chosen,
    Field,
    Record,
    Shape,
    one_of,
    optional,
    required,
)
from gaia_bridge.protocol.skills import DIRECTORY_READ, SKILLS_GET
from gaia_bridge.text.json_types import is_object, json_pointer

_SHOWN: Final = 3
"""The most invalid parameters that one error message lists."""


def _reference_shape(value: Any) -> Shape | None:
    kind = value.get("type") if is_object(value) else None
    return _REFERENCES.get(kind) if isinstance(kind, str) else None


_REFERENCES: Final = {"ref/prompt": Record(required("name", TEXT)), "ref/resource": Record(required("uri", TEXT))}
_REFERENCE: Final = Chosen('a reference of type "ref/prompt" or "ref/resource"', _reference_shape)
"""The `ref` of a completion request: a prompt or a resource template."""
_CAPABILITIES: Final = Record(
    *optional("elicitation", "experimental", "extensions", "roots", "sampling", "tasks", shape=OBJECT)
)
_IMPLEMENTATION: Final = Record(required("name", TEXT), required("version", TEXT))
_META: Final = Field("_meta", Record(Field(meta.PROGRESS_TOKEN_KEY, TOKEN)))
_MODERN_META: Final = required(
    "_meta",
    Record(
        Field(meta.PROGRESS_TOKEN_KEY, TOKEN),
        required(meta.PROTOCOL_VERSION_KEY, TEXT),
        required(meta.CLIENT_CAPABILITIES_KEY, _CAPABILITIES),
        Field(meta.CLIENT_INFO_KEY, _IMPLEMENTATION),
        Field(meta.LOG_LEVEL_KEY, one_of(*LOG_LEVELS)),
    ),
)

_URI: Final = (required("uri", TEXT),)
_ANSWER: Final = Shape(
    f"the result of {' or '.join(sorted(ANSWERS))}", lambda value: any(shape.fits(value) for shape in ANSWERS.values())
)
_ROUNDS: Final = (Field("inputResponses", Record(values=_ANSWER)), Field("requestState", TEXT))


class Method(Struct, frozen=True):
    """A request method: one row of `METHOD_TABLE`, or `FORWARDED`."""

    shapes: tuple[Shape | None, Shape | None] = (OBJECT, OBJECT)
    """The shapes of its parameters, in the handshake era and since 2026-07-28; `None` in an era that lacks it."""
    is_of_skills: bool = False
    """Whether it belongs to the extension for skills."""
    needs_greeting: bool = True
    """Whether a client of the handshake era has to shake hands before."""
    is_stateful: bool = False
    """Whether its result may ask for input, and carry a `requestState` until the next round."""
    is_small: bool = False
    """Whether its answer is short, or comes at no foreseeable time: it does not wait for a turn in the backlog."""
    is_cacheable: bool = False
    """Whether its result says how long it may be kept (2026-07-28, server/utilities/caching)."""


def _both(*fields: Field, old: tuple[Field, ...] = (), new: tuple[Field, ...] = ()) -> tuple[Shape, Shape]:
    """Return the shapes of a method of both eras, each with further fields of its own."""
    return Record(*fields, *old, _META), Record(*fields, *new, _MODERN_META)


def _handshake(*fields: Field) -> tuple[Shape, None]:
    return Record(*fields, _META), None


def _modern(*fields: Field) -> tuple[None, Shape]:
    return None, Record(*fields, _MODERN_META)


_NEWS: Final = Record(*(Field(flag, FLAG) for flag in LISTEN_FLAGS), Field("resourceSubscriptions", TEXTS))
_SUBSCRIPTION: Final = Method(_handshake(*_URI), is_small=True)
METHOD_TABLE: Final[Mapping[str, Method]] = {
    **{
        kind.method: Method(_both(Field("cursor", TEXT)), is_of_skills=kind is SKILL, is_cacheable=True)
        for kind in KINDS.values()
    },
    "completion/complete": Method(
        _both(
            required("ref", _REFERENCE),
            required("argument", Record(required("name", TEXT), required("value", TEXT))),
            Field("context", Record(Field("arguments", Record(values=TEXT)))),
        )
    ),
    "initialize": Method(
        _handshake(
            required("protocolVersion", TEXT),
            required("capabilities", _CAPABILITIES),
            required("clientInfo", _IMPLEMENTATION),
        ),
        needs_greeting=False,
        is_small=True,
    ),
    "logging/setLevel": Method(_handshake(required("level", one_of(*LOG_LEVELS))), is_small=True),
    "ping": Method(_handshake(), needs_greeting=False, is_small=True),
    "prompts/get": Method(
        _both(required("name", TEXT), Field("arguments", Record(values=TEXT)), new=_ROUNDS), is_stateful=True
    ),
    DIRECTORY_READ: Method(_both(*_URI, Field("cursor", TEXT)), is_of_skills=True),
    "resources/read": Method(_both(*_URI, new=_ROUNDS), is_stateful=True, is_cacheable=True),
    "resources/subscribe": _SUBSCRIPTION,
    "resources/unsubscribe": _SUBSCRIPTION,
    "server/discover": Method(_modern(), is_cacheable=True),
    SKILLS_GET: Method(_both(*_URI), is_of_skills=True, is_cacheable=True),
    "subscriptions/listen": Method(_modern(required("notifications", _NEWS)), is_small=True),
    "tools/call": Method(
        _both(
            required("name", TEXT),
            Field("arguments", OBJECT),
            old=(Field("task", Record(Field("ttl", NUMBER))),),
            new=_ROUNDS,
        ),
        is_stateful=True,
    ),
}
"""The request methods of MCP, and of the extension for skills."""
FORWARDED: Final = Method(needs_greeting=False)
"""Stands for all other methods: of further extensions, or known to a server and its clients alone."""
METHODS: Final = frozenset(name for name, method in METHOD_TABLE.items() if not method.is_of_skills)
"""The request methods of the core protocol in either era, without extensions."""
_NOTHING: Final[Mapping[str, Any]] = {}


def check_parameters(method: str, params: Mapping[str, Any] | None, *, modern: bool) -> None:
    """Check the parameters of a request; those of methods that its era lacks pass.

    Args:
        modern: Whether the client speaks 2026-07-28 or later.

    Raises:
        ProtocolError: A parameter is invalid; the message names it, what came and what was expected.
    """
    if problem := parameter_problem(method, params, modern=modern):
        raise ProtocolError(INVALID_PARAMS, problem)


def parameter_problem(method: str, params: Mapping[str, Any] | None, *, modern: bool) -> str:
    """Explain why the parameters of a request are invalid; empty if they are valid. See `check_parameters`."""
    given = _NOTHING if params is None else params
    shape = METHOD_TABLE.get(method, FORWARDED).shapes[modern] or OBJECT
    if shape.accepts(given):
        return ""
    problems = list(shape.problems(given))
    shown = [f"at {json_pointer(('params', *problem.place))}: {problem.message}" for problem in problems[:_SHOWN]]
    return "Invalid request parameters: " + "; ".join([*shown, *(["and more"] if len(problems) > _SHOWN else [])])
