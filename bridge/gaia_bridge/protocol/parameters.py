"""Checks the parameters of client requests against the types in the specification.

Fields that the specification does not define are not checked, and are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
from gaia_bridge.protocol.skills import DIRECTORY_READ, SKILLS_GET, SKILLS_LIST
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

_PAGE: Final = (Field("cursor", TEXT),)
_URI: Final = (required("uri", TEXT),)
_ANSWER: Final = Shape(
    f"the result of {' or '.join(sorted(ANSWERS))}", lambda value: any(shape.fits(value) for shape in ANSWERS.values())
)
_ROUNDS: Final = (Field("inputResponses", Record(values=_ANSWER)), Field("requestState", TEXT))

_BOTH: Final[Mapping[str, tuple[Field, ...]]] = {
    "completion/complete": (
        required("ref", _REFERENCE),
        required("argument", Record(required("name", TEXT), required("value", TEXT))),
        Field("context", Record(Field("arguments", Record(values=TEXT)))),
    ),
    "prompts/get": (required("name", TEXT), Field("arguments", Record(values=TEXT))),
    "resources/read": _URI,
    "tools/call": (required("name", TEXT), Field("arguments", OBJECT)),
    **dict.fromkeys((kind.method for kind in KINDS.values() if kind is not SKILL), _PAGE),
}
_OF_EXTENSIONS: Final[Mapping[str, tuple[Field, ...]]] = {
    DIRECTORY_READ: (*_URI, *_PAGE),
    SKILLS_GET: _URI,
    SKILLS_LIST: _PAGE,
}
_ONLY_HANDSHAKE: Final[Mapping[str, tuple[Field, ...]]] = {
    "initialize": (
        required("protocolVersion", TEXT),
        required("capabilities", _CAPABILITIES),
        required("clientInfo", _IMPLEMENTATION),
    ),
    "logging/setLevel": (required("level", one_of(*LOG_LEVELS)),),
    "ping": (),
    "resources/subscribe": _URI,
    "resources/unsubscribe": _URI,
    "tools/call": (*_BOTH["tools/call"], Field("task", Record(Field("ttl", NUMBER)))),
}
_NEWS: Final = Record(
    *(Field(flag, FLAG) for flag in LISTEN_FLAGS),
    Field("resourceSubscriptions", TEXTS),
)
_ONLY_MODERN: Final[Mapping[str, tuple[Field, ...]]] = {
    **{method: (*_BOTH[method], *_ROUNDS) for method in ("tools/call", "prompts/get", "resources/read")},
    "server/discover": (),
    "subscriptions/listen": (required("notifications", _NEWS),),
}
_OF_HANDSHAKE: Final = {
    method: Record(*fields, _META) for method, fields in {**_BOTH, **_ONLY_HANDSHAKE, **_OF_EXTENSIONS}.items()
}
_OF_MODERN: Final = {
    method: Record(*fields, _MODERN_META) for method, fields in {**_BOTH, **_ONLY_MODERN, **_OF_EXTENSIONS}.items()
}
EXTENSION_METHODS: Final = frozenset(_OF_EXTENSIONS)
"""The request methods of the extensions that the bridge knows, in either era."""
HANDSHAKE_METHODS: Final = frozenset(_OF_HANDSHAKE) - EXTENSION_METHODS
"""The request methods of the core protocol in the handshake era, without extensions."""
MODERN_METHODS: Final = frozenset(_OF_MODERN) - EXTENSION_METHODS
"""The request methods of the core protocol since 2026-07-28, without extensions."""
METHODS: Final = HANDSHAKE_METHODS | MODERN_METHODS
"""The request methods of the core protocol in either era."""
_NOTHING: Final[Mapping[str, Any]] = {}


def check_parameters(method: str, params: Mapping[str, Any] | None, *, modern: bool) -> None:
    """Check the parameters of a request; those of methods that are neither of the core nor of an extension pass.

    Args:
        modern: Whether the client speaks 2026-07-28 or later.

    Raises:
        ProtocolError: A parameter is invalid; the message names it, what came and what was expected.
    """
    shape = (_OF_MODERN if modern else _OF_HANDSHAKE).get(method, OBJECT)
    if not shape.accepts(_NOTHING if params is None else params):
        raise ProtocolError(INVALID_PARAMS, parameter_problem(method, params, modern=modern))


def parameter_problem(method: str, params: Mapping[str, Any] | None, *, modern: bool) -> str:
    """Explain why the parameters of a request are invalid; empty if they are valid. See `check_parameters`."""
    given = _NOTHING if params is None else params
    shape = (_OF_MODERN if modern else _OF_HANDSHAKE).get(method, OBJECT)
    if shape.accepts(given):
        return ""
    problems = list(shape.problems(given))
    shown = [f"at {json_pointer(('params', *problem.place))}: {problem.message}" for problem in problems[:_SHOWN]]
    return "Invalid request parameters: " + "; ".join([*shown, *(["and more"] if len(problems) > _SHOWN else [])])
