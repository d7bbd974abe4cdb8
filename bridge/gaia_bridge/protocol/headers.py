"""The headers in which a request of 2026-07-28 repeats parts of its body, and the check that both agree (SEP-2243).

Proxies between client and server may route by these headers, so a request whose headers contradict it is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gaia_bridge.protocol import meta
from gaia_bridge.protocol.codes import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_REVISION
from gaia_bridge.protocol.messages import Refusal, identifier
from gaia_bridge.protocol.revisions import PUBLISHED, Revisions
from gaia_bridge.text.json_types import JSON, is_array, is_object, value_at

REVISION_HEADER: Final = "mcp-protocol-version"
METHOD_HEADER: Final = "mcp-method"
NAME_HEADER: Final = "mcp-name"
PARAM_PREFIX: Final = "mcp-param-"
"""The prefix of headers that repeat single arguments of a tool call."""
_ANNOTATION: Final = "x-mcp-header"
"""The keyword in the schema of an argument that names the header to repeat it in."""
NAMED: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that `Mcp-Name` repeats, by method."""
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=")
_PLAIN: Final = re.compile(r"[\x20-\x7E]*")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""The name of a header (RFC 9110, section 5.6.2)."""
_NUMBER: Final = re.compile(r"-?[0-9]+(\.0+)?")
_MOST_DIGITS: Final = 4_000
"""The most digits of an integer that is converted; Python's own limit is 4,300."""

_ONE_SCHEMA: Final = frozenset(
    "additionalProperties contains contentSchema else if items not propertyNames then unevaluatedItems "
    "unevaluatedProperties".split()
)
_SCHEMAS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED_SCHEMAS: Final = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties"))
"""The keywords of JSON Schema 2020-12, besides `properties`, that hold a schema, a list of them, or a map of them."""
_Path = tuple[str, ...]
HeaderMap = Mapping[_Path, str]
"""Header names without their common prefix, by the path of properties that leads to the argument."""


def encoded_value(value: str) -> str:
    """Encode text as a header value: unchanged where possible, otherwise in Base64 between `=?base64?` and `?=`."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decoded_value(value: str | None) -> str | None:
    """Decode the text of a header value; `None` if the header is absent or its Base64 is invalid."""
    if value is None or (match := _ENCODED.fullmatch(value)) is None:
        return value
    try:
        decoded = base64.b64decode(match[1], validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode() == match[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def repeated_header(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the name of a routing header that was sent twice, if any: recipients may disagree which value counts."""
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in _ROUTING:
            if name in seen:
                return _ROUTING[name]
            seen.add(name)
    return None


_ROUTING: Final = {name.encode(): name for name in (REVISION_HEADER, METHOD_HEADER, NAME_HEADER)}
"""The headers that repeat parts of a request, by their names as bytes."""


def name_header(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the `Mcp-Name` header of a request in the form of 2026-07-28; empty if its method has none."""
    params = message.get("params")
    name = params.get(NAMED.get(message["method"], "")) if is_object(params) else None
    return {NAME_HEADER: encoded_value(name)} if isinstance(name, str) else {}


def envelope_problem(
    message: JSON, headers: Mapping[str, str] | None = None, revisions: Revisions = PUBLISHED
) -> Refusal | None:
    """Return the refusal of a request without the fields that 2026-07-28 and later require, or `None` if it has them.

    See basic, "Per-request protocol fields".

    Args:
        headers: Headers of the HTTP request, by lowercase names; `None` on other transports.
    """
    params = message.get("params")
    request_meta = params.get("_meta") if is_object(params) else None
    if not is_object(request_meta):
        problem = f"params._meta must be an object with {meta.PROTOCOL_VERSION_KEY} and {meta.CLIENT_CAPABILITIES_KEY}"
        return Refusal(INVALID_PARAMS, problem, identifier(message))
    if meta.PROTOCOL_VERSION_KEY not in request_meta or meta.CLIENT_CAPABILITIES_KEY not in request_meta:
        missing = [key for key in (meta.PROTOCOL_VERSION_KEY, meta.CLIENT_CAPABILITIES_KEY) if key not in request_meta]
        return Refusal(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}", identifier(message))
    revision = request_meta[meta.PROTOCOL_VERSION_KEY]
    if headers is not None and (mismatch := _mismatch(message, revision, headers, revisions)):
        return Refusal(HEADER_MISMATCH, mismatch, identifier(message))
    if not isinstance(revision, str):
        return Refusal(INVALID_PARAMS, f"{meta.PROTOCOL_VERSION_KEY} in _meta must be a string", identifier(message))
    return None if revision in revisions else revision_problem(revision, identifier(message), revisions)


def revision_problem(
    revision: str, request_id: int | str | None = None, revisions: Revisions = PUBLISHED
) -> Refusal | None:
    """Return the refusal of a revision without handshake that is not supported, or `None` if it is."""
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
    expected = None if key is None else message["params"].get(key)
    if expected is not None and decoded_value(headers.get(NAME_HEADER)) != expected:
        return f"{NAME_HEADER} header does not match the request body's {key!r} parameter"
    return ""


def annotation_problem(schema: Any) -> str | None:
    """Explain why the `x-mcp-header` annotations of a schema are invalid; return `None` if they are valid."""
    seen: dict[str, str] = {}
    for path, part in _positions(schema):
        if _ANNOTATION not in part:
            continue
        if not path:
            return f"{_ANNOTATION} stands where no chain of properties leads to"
        place, name, kind = ".".join(path), part[_ANNOTATION], part.get("type")
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            described = repr(name) if isinstance(name, str) else f"a {type(name).__name__}"
            return f"property {place!r}: {_ANNOTATION} must be a name of a header, not {described}"
        if kind not in ("string", "integer", "boolean"):
            return f"property {place!r}: {_ANNOTATION} needs the type string, integer or boolean"
        if name.lower() in seen:
            return f"{_ANNOTATION} {name!r} of property {place!r} is that of property {seen[name.lower()]!r}"
        seen[name.lower()] = place
    return None


def header_map(schema: Any) -> HeaderMap:
    """Return the headers that a schema without `annotation_problem` asks for, by the path to each argument."""
    return {path: name for path, name, _ in _annotated(schema)}


def parameter_headers(asked: HeaderMap, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the `Mcp-Param-*` headers of a tool call."""
    headers: dict[str, str] = {}
    for path, name in asked.items():
        if (text := _header_text(value_at(arguments, *path))) is not None:
            headers[f"Mcp-Param-{name}"] = encoded_value(text)
    return headers


class ParameterHeaders:
    """The `Mcp-Param-*` headers that calls of one tool must have (SEP-2243); none if its annotations are invalid."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._annotations = [] if annotation_problem(schema) is not None else list(_annotated(schema))

    @property
    def is_empty(self) -> bool:
        """Whether calls of the tool need no such headers."""
        return not self._annotations

    def problem(self, arguments: Mapping[str, Any], headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Explain why the headers of a call do not match its arguments; return `None` if they do."""
        if not self._annotations:
            return None
        came: dict[str, list[str]] = {}
        for field, content in headers:
            if field.startswith(_PARAM_BYTES):
                came.setdefault(field.decode("latin-1"), []).append(content.decode("latin-1"))
        for path, name, part in self._annotations:
            header, argument = f"Mcp-Param-{name}", ".".join(path)
            values, value = came.get(header.lower(), []), value_at(arguments, *path)
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
    """Whether a header has the value of an argument; `42` and `42.0` are the same integer."""
    if came is None or text is None:
        return False
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind == "integer" and whole and not isinstance(value, bool) and len(came) < _MOST_DIGITS:
        return bool(_NUMBER.fullmatch(came)) and int(came.partition(".")[0]) == int(value)
    return came == text


def _header_text(value: Any) -> str | None:
    """Write an argument as the text of a header; `None` if it is absent or has no such form."""
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


def _annotated(schema: Any) -> Iterator[tuple[_Path, str, JSON]]:
    for path, part in _positions(schema):
        if path and isinstance(name := part.get(_ANNOTATION), str):
            yield path, name, part


def _positions(schema: Any) -> Iterator[tuple[_Path | None, JSON]]:
    """Yield every schema within a schema, with its path; the path is `None` if not of properties alone."""
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
