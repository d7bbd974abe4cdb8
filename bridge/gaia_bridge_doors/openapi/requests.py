"""HTTP requests for calls of tools, and results for the responses of an HTTP API. Pure."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

import httpx2
from msgspec import Struct

from gaia_bridge.calls.results.conversion import error_result
from gaia_bridge.client.transports.http.http_values import named_status, origin
from gaia_bridge.client.transports.http.refusals import words_in
from gaia_bridge.errors import ToolError
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import from_json, to_json
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_doors.openapi.bodies import encoded_body
from gaia_bridge_doors.openapi.media_types import charset_of, is_json, is_text
from gaia_bridge_doors.openapi.operations import Operation, Parameter, arguments_of_body
from gaia_bridge_doors.openapi.parameters import cookie_pairs, header_value, path_segment, query_pairs

_ACCEPT: Final = "application/json, text/*;q=0.8, */*;q=0.5"
_IN_PATHS: Final = "/%:@!$&'()*+,;="
"""Characters that can stand in a path unencoded (RFC 3986, section 3.3)."""


class ApiRequest(Struct, frozen=True):
    """One request to an HTTP API."""

    method: str
    url: httpx2.URL
    headers: Mapping[str, str]
    body: bytes | None


def request_for(operation: Operation, arguments: JSON, base: httpx2.URL, headers: Mapping[str, str]) -> ApiRequest:
    """Return the HTTP request for a call of a tool.

    Args:
        operation: The operation of the tool.
        arguments: Its arguments, which fit its schema.
        base: The address of the API.
        headers: The configured headers, in lower case: they override those of the call.

    Raises:
        ToolError: An argument cannot be sent.
    """
    segments: dict[str, str] = {}
    query: list[str] = [base.query.decode("ascii")] if base.query else []
    own: dict[str, str] = {"accept": _ACCEPT}
    cookies: list[str] = []
    for parameter in operation.parameters:
        if parameter.argument not in arguments:
            continue
        value = _value(parameter, arguments[parameter.argument])
        if parameter.place == "path":
            segments[parameter.name] = path_segment(parameter.name, value, parameter.style, explode=parameter.explode)
        elif parameter.place == "query":
            query += query_pairs(
                parameter.name, value, parameter.style, explode=parameter.explode, reserved=parameter.reserved
            )
        elif parameter.place == "header":
            own[parameter.name.lower()] = header_value(parameter.name, value, explode=parameter.explode)
        else:
            cookies += cookie_pairs(parameter.name, value, explode=parameter.explode)
    if cookies:
        own["cookie"] = "; ".join([*filter(None, [headers.get("cookie")]), *cookies])
    body = None
    if (described := operation.body) is not None:
        value = arguments_of_body(described, operation, arguments)
        is_null = described.kind == "json" and not described.is_merged and described.argument in arguments
        if value is not None or is_null:
            own["content-type"], body = encoded_body(described, value)
    kept = {name: value for name, value in own.items() if name == "cookie" or name not in headers}
    return ApiRequest(operation.method, _url(base, _path(operation.path, segments), query), kept, body)


def _path(template: str, segments: Mapping[str, str]) -> str:
    """Return a path with its parameters filled in, and the rest percent-encoded where it is not yet."""

    def written(part: re.Match[str]) -> str:
        return quote(part[0], safe=_IN_PATHS) if part[1] is None else segments[part[1]]

    return re.sub(r"\{([^{}]*)\}|[^{}]+|[{}]", written, template)


def _value(parameter: Parameter, value: Any) -> Any:
    if not parameter.is_json:
        return value
    return json.dumps(value) if parameter.place == "header" else to_json(value).decode()  # headers are ASCII


def _url(base: httpx2.URL, path: str, query: list[str]) -> httpx2.URL:
    whole = base.raw_path.partition(b"?")[0].decode("ascii").rstrip("/") + path
    # Each value was looked at; side by side, two of them can still make a step.
    if any(unquote(step) in (".", "..") for step in path.split("/")):
        raise ToolError("the arguments make a path with '.' or '..' as a step; expected names without")
    raw = f"{whole}?{'&'.join(query)}" if query else whole
    try:
        url = base.copy_with(raw_path=raw.encode("ascii"), userinfo=b"", fragment=None)
    except (httpx2.InvalidURL, UnicodeEncodeError, ValueError):
        raise ToolError("the arguments make no URL that can be requested; expected shorter ones") from None
    if origin(url) != origin(base):
        raise ToolError("the arguments lead to another server")
    return url


_COMPLETE: Final[JSON] = {"resultType": "complete"}
_HEADER: Final = 1_000
"""Characters of one header that are shown."""


def success_result(status: int, media: str, body: bytes, url: str) -> JSON:
    """Return the result of a call that succeeded.

    Args:
        status: The status of the response.
        media: Its content type, with parameters; may be empty.
        body: Its body.
        url: The address of the response, without secrets.
    """
    if not body:
        return _with_content(_text(f"HTTP {named_status(status)}, without content"))
    if not media or is_json(media):
        text = _decoded(body, media)
        try:
            value = from_json(text, allow_inf_nan=False)
        except ValueError:  # whatever its type is
            return _with_content(_text(text) if media or _is_readable(text) else _blob(body, media, url))
        result = _with_content(_text(text))
        return {**result, "structuredContent": value} if is_object(value) else result
    kind = media.partition(";")[0].strip().lower()
    if is_text(media):
        return _with_content(_text(_decoded(body, media)))
    for family in ("image", "audio"):
        if kind.startswith(f"{family}/"):
            return _with_content({"type": family, "data": b64encode(body).decode("ascii"), "mimeType": kind})
    return _with_content(_blob(body, kind, url))


def head_result(status: int, headers: Mapping[str, str]) -> JSON:
    """Return the result of a call that asks for headers only."""
    lines = [f"{name}: {one_line(value, _HEADER)}" for name, value in headers.items() if name != "set-cookie"]
    return _with_content(_text("\n".join([f"HTTP {named_status(status)}", *lines])))


def failure_result(status: int, media: str, body: bytes, asked: str, limit: int) -> JSON:
    """Return the result of a call that failed.

    Args:
        status: The status of the response.
        media: Its content type.
        body: The part of its body that was read; of a page for browsers, only the title is shown.
        asked: The request, without secrets.
        limit: The most bytes of the body that are shown.
    """
    shown, more = "", ""
    if media.partition(";")[0].strip().lower() == "text/html":
        shown = words_in("text/html", body[:limit])
    elif not media or is_json(media) or is_text(media):
        shown = _decoded(body[:limit], media).strip()
        more = " [...]" if shown and len(body) > limit else ""
    return error_result(
        f"{asked} was answered with HTTP {named_status(status)}" + (f":\n{shown}{more}" if shown else "")
    )


def _with_content(block: JSON) -> JSON:
    return {**_COMPLETE, "content": [block]}


def _text(text: str) -> JSON:
    return {"type": "text", "text": text}


def _blob(body: bytes, kind: str, url: str) -> JSON:
    media = kind or "application/octet-stream"
    data = b64encode(body).decode("ascii")
    return {"type": "resource", "resource": {"uri": url, "mimeType": media, "blob": data}}


def _is_readable(text: str) -> bool:
    return "\ufffd" not in text and "\0" not in text


def _decoded(body: bytes, media: str) -> str:
    try:
        return body.decode(charset_of(media), "replace")
    except (LookupError, UnicodeError):  # there are encodings that know no "replace"
        return body.decode("utf-8", "replace")
