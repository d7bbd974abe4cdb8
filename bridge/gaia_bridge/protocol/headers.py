"""The headers that a request of 2026-07-28 repeats from its body, and whether they agree (SEP-2243).

What lies between client and server may route by headers, so a request whose headers say something else is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gaia_bridge.protocol import meta
from gaia_bridge.protocol.codes import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_REVISION
from gaia_bridge.protocol.json_types import JSON, is_array, is_object
from gaia_bridge.protocol.messages import Refusal, identifier
from gaia_bridge.protocol.revisions import PUBLISHED, Revisions

__all__ = [
    "METHOD_HEADER",
    "NAMED",
    "NAME_HEADER",
    "PARAM_PREFIX",
    "REVISION_HEADER",
    "ROUTING",
    "HeaderMap",
    "ParameterHeaders",
    "annotation_problem",
    "decoded_value",
    "encoded_value",
    "envelope_problem",
    "header_map",
    "name_header",
    "parameter_headers",
    "repeated_header",
    "revision_problem",
]

REVISION_HEADER: Final = "mcp-protocol-version"
METHOD_HEADER: Final = "mcp-method"
NAME_HEADER: Final = "mcp-name"
PARAM_PREFIX: Final = "mcp-param-"
"""What the headers of single arguments begin with."""

_ANNOTATION: Final = "x-mcp-header"
"""The keyword of a schema that asks for such a header."""

NAMED: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that `Mcp-Name` repeats, by method."""

_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=")
_PLAIN: Final = re.compile(r"[\x20-\x7E]*")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""The name of a header (RFC 9110, section 5.6.2)."""
_NUMBER: Final = re.compile(r"-?[0-9]+(\.0+)?")
_MOST_DIGITS: Final = 4_000
"""Digits that Python turns into a number and back."""

_ONE_SCHEMA: Final = frozenset(
    "additionalProperties contains contentSchema else if items not propertyNames then unevaluatedItems "
    "unevaluatedProperties".split()
)
_SCHEMAS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED_SCHEMAS: Final = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties"))
"""The keywords of JSON Schema 2020-12 that hold schemas, beside `properties`: one, a list, or by name."""

_Path = tuple[str, ...]
HeaderMap = Mapping[_Path, str]
"""Names of headers, each without what all begin with, by the properties that lead to an argument."""


def encoded_value(value: str) -> str:
    """Text as a header can carry it: as it is, or in Base64 between `=?base64?` and `?=`."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decoded_value(value: str | None) -> str | None:
    """The text that a header carries; `None` if there is none, or it cannot be read."""
    if value is None or (found := _ENCODED.fullmatch(value)) is None:
        return value
    try:
        decoded = base64.b64decode(found[1], validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode() == found[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def repeated_header(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """A header for routing that came more than once: readers would not agree which of them counts."""
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in ROUTING:
            if name in seen:
                return ROUTING[name]
            seen.add(name)
    return None


ROUTING: Final = {name.encode(): name for name in (REVISION_HEADER, METHOD_HEADER, NAME_HEADER)}
"""The headers that repeat what a request says, by their names as they come."""


def name_header(message: Mapping[str, Any]) -> dict[str, str]:
    """`Mcp-Name`, where a request in the terms of 2026-07-28 has it."""
    params = message.get("params")
    name = params.get(NAMED.get(message["method"], "")) if is_object(params) else None
    return {NAME_HEADER: encoded_value(name)} if isinstance(name, str) else {}


def envelope_problem(
    message: JSON, headers: Mapping[str, str] | None = None, revisions: Revisions = PUBLISHED
) -> Refusal | None:
    """Why a request is none of 2026-07-28 or later, or `None` if it is one (basic, "Per-request protocol fields").

    Args:
        message: A JSON-RPC request.
        headers: Those of the HTTP request that it came with, by lowercase names; `None` where there are none.
        revisions: What is served.
    """
    params = message.get("params")
    told = params.get("_meta") if is_object(params) else None
    if not is_object(told) or not is_object(params):
        problem = f"params._meta must be an object with {meta.PROTOCOL_VERSION_KEY} and {meta.CLIENT_CAPABILITIES_KEY}"
        return Refusal(INVALID_PARAMS, problem, identifier(message))
    if missing := [key for key in (meta.PROTOCOL_VERSION_KEY, meta.CLIENT_CAPABILITIES_KEY) if key not in told]:
        return Refusal(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}", identifier(message))
    revision = told[meta.PROTOCOL_VERSION_KEY]
    if headers is not None and (mismatch := _mismatch(message, revision, headers, revisions)):
        return Refusal(HEADER_MISMATCH, mismatch, identifier(message))
    if not isinstance(revision, str):
        return Refusal(INVALID_PARAMS, f"{meta.PROTOCOL_VERSION_KEY} in _meta must be a string", identifier(message))
    return revision_problem(revision, identifier(message), revisions)


def revision_problem(
    revision: str, request_id: int | str | None = None, revisions: Revisions = PUBLISHED
) -> Refusal | None:
    """Why a revision is not served to requests that stand alone, or `None` if it is."""
    if revision in revisions:
        return None
    data = {"supported": list(revisions.names), "requested": revision}
    return Refusal(UNSUPPORTED_REVISION, "Unsupported protocol version", request_id, data)


def _mismatch(message: JSON, revision: Any, headers: Mapping[str, str], revisions: Revisions) -> str:
    if headers.get(REVISION_HEADER) != revision:
        return f"{REVISION_HEADER} header does not match the request envelope's protocol version"
    if headers.get(METHOD_HEADER) != message["method"]:
        return f"{METHOD_HEADER} header does not match the request body's method"
    if (translating := revisions.translating(revision)) is not None:
        message = translating.read(message, message["method"])
    key = NAMED.get(message["method"])
    wanted = None if key is None else message["params"].get(key)
    if wanted is not None and decoded_value(headers.get(NAME_HEADER)) != wanted:
        return f"{NAME_HEADER} header does not match the request body's {key!r} parameter"
    return ""


def annotation_problem(schema: Any) -> str | None:
    """Why a schema asks for headers in a way that no client can follow, or `None` if it does not."""
    seen: dict[str, str] = {}
    for path, part in _positions(schema):
        if _ANNOTATION not in part:
            continue
        if not path:
            return f"{_ANNOTATION} stands where no chain of properties leads to"
        place, name, kind = ".".join(path), part[_ANNOTATION], part.get("type")
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            shown = repr(name) if isinstance(name, str) else f"a {type(name).__name__}"
            return f"property {place!r}: {_ANNOTATION} must be a name of a header, not {shown}"
        if kind not in ("string", "integer", "boolean"):
            return f"property {place!r}: {_ANNOTATION} needs the type string, integer or boolean"
        if name.lower() in seen:
            return f"{_ANNOTATION} {name!r} of property {place!r} is that of property {seen[name.lower()]!r}"
        seen[name.lower()] = place
    return None


def header_map(schema: Any) -> HeaderMap:
    """The headers that a schema asks for, by the properties that lead to an argument.

    Args:
        schema: An input schema that `annotation_problem` has nothing against.
    """
    return {path: name for path, name, _ in _annotated(schema)}


def parameter_headers(asked: HeaderMap, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that a call repeats its arguments in.

    Args:
        asked: What the tool's schema asks for.
        arguments: The arguments.
    """
    told: dict[str, str] = {}
    for path, name in asked.items():
        if (text := _header_text(_at(arguments, path))) is not None:
            told[f"Mcp-Param-{name}"] = encoded_value(text)
    return told


class ParameterHeaders:
    """The headers that the arguments of one tool have to be repeated in (SEP-2243).

    A schema that asks for headers in a way that no client can follow asks for none.

    Args:
        schema: The input schema of the tool.
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._asked = [] if annotation_problem(schema) is not None else list(_annotated(schema))

    def problem(self, arguments: Mapping[str, Any], headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Why the headers of a call do not say what its arguments say, or `None` if they do.

        Args:
            arguments: What the tool is called with.
            headers: Those of the HTTP request.
        """
        if not self._asked:
            return None
        came: dict[str, list[str]] = {}
        for field, content in headers:
            if field.startswith(_PARAM_BYTES):
                came.setdefault(field.decode("latin-1"), []).append(content.decode("latin-1"))
        for path, name, part in self._asked:
            header, argument = f"Mcp-Param-{name}", ".".join(path)
            values, value = came.get(header.lower(), []), _at(arguments, path)
            if len(values) > 1:
                return f"{header} header appears more than once"
            text = _header_text(value)
            if not values and text is not None:
                return f"{header} header is missing but the request body's {argument!r} argument is present"
            if values and value is None:
                return f"{header} header is present but the request body's {argument!r} argument is absent"
            if values and not _agree(part.get("type"), value, text, decoded_value(values[0])):
                return f"{header} header does not match the request body's {argument!r} argument"
        return None


_PARAM_BYTES: Final = PARAM_PREFIX.encode()


def _agree(kind: Any, value: Any, text: str | None, came: str | None) -> bool:
    """Whether a header says what an argument says; `42` and `42.0` are one whole number."""
    if came is None or text is None:
        return False
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind == "integer" and whole and not isinstance(value, bool) and len(came) < _MOST_DIGITS:
        return bool(_NUMBER.fullmatch(came)) and int(came.partition(".")[0]) == int(value)
    return came == text


def _header_text(value: Any) -> str | None:
    """An argument as a header says it; `None` if it is not there, or none can."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        try:
            return str(value)
        except ValueError:  # too many digits
            return None
    return None


def _at(arguments: Mapping[str, Any], path: _Path) -> Any:
    found: Any = arguments
    for key in path:
        if not is_object(found):
            return None
        found = found.get(key)
    return found


def _annotated(schema: Any) -> Iterator[tuple[_Path, str, JSON]]:
    for path, part in _positions(schema):
        if path and isinstance(name := part.get(_ANNOTATION), str):
            yield path, name, part


def _positions(schema: Any) -> Iterator[tuple[_Path | None, JSON]]:
    """Every schema within a schema, with the properties that lead to it; `None` where something else does."""
    waiting: list[tuple[_Path | None, Any]] = [((), schema)]
    while waiting:
        path, part = waiting.pop()
        if not is_object(part):
            continue
        yield path, part
        for keyword, value in part.items():
            if keyword == "properties" and is_object(value):
                waiting += [(None if path is None else (*path, name), below) for name, below in value.items()]
            elif keyword in _ONE_SCHEMA:
                waiting.append((None, value))
            elif keyword in _SCHEMAS and is_array(value):
                waiting += [(None, below) for below in value]
            elif keyword in _NAMED_SCHEMAS and is_object(value):
                waiting += [(None, below) for below in value.values()]
