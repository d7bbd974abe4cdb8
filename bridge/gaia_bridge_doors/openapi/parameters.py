"""Parameters of operations in URLs, headers and cookies: OpenAPI's styles, after RFC 6570. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

from gaia_bridge.errors import ToolError
from gaia_bridge.text.json_types import is_array, is_object

Quote = Callable[[str], str]

_RESERVED: Final = "!$'()*,/:;?@[]"
"""Reserved characters (RFC 3986, section 2.2) that can stand in a query without ending or splitting it."""

_DELIMITERS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_EXACT: Final = 2**53
"""The first integer whose neighbours are not all floats."""
_HEADER: Final = re.compile(r"[\x20-\x7e\t]*")


def text_of_value(value: Any) -> str:
    """Return a value as text; a value that is no text as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)  # 5.0 is an integer in JSON, and is none to most that read one from text
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def path_segment(name: str, value: Any, style: str, *, explode: bool) -> str:
    """Return a parameter's part of a path.

    Args:
        name: The parameter.
        value: Its value.
        style: `simple`, `label` or `matrix`.
        explode: Whether the parts of a value are written separately.

    Raises:
        ToolError: The value would change the path: it is empty, or has a step upwards.
    """
    for part in _leaves(value):
        if any(step in (".", "..") for step in re.split(r"[/\\]", part)):
            raise ToolError(f"the argument {name!r} has '.' or '..' as a step of a path; expected a name without")
    if style == "simple":
        segment = ",".join(_simple(value, explode, _quoted))
    elif style == "label":
        segment = "." + ("." if explode else ",").join(_simple(value, explode, _quoted))
    else:
        # An empty value has no `=` there (RFC 6570, section 3.2.7).
        segment = "".join(f";{pair.removesuffix('=')}" for pair in expanded(name, value, "form", explode, _quoted))
    if not segment.strip(".,"):
        raise ToolError(f"the argument {name!r} is empty, and stands in the path; expected a value")
    return segment


def query_pairs(name: str, value: Any, style: str, *, explode: bool, reserved: bool) -> list[str]:
    """Return a parameter's part of a query: `name=value` pairs.

    Args:
        name: The parameter.
        value: Its value.
        style: `form`, `spaceDelimited`, `pipeDelimited` or `deepObject`.
        explode: Whether the parts of a value are written separately.
        reserved: Whether reserved characters are sent unencoded.
    """
    return list(expanded(name, value, style, explode, _quoted_less if reserved else _quoted))


def header_value(name: str, value: Any, *, explode: bool) -> str:
    """Return the value of a header.

    Raises:
        ToolError: No header can carry the value.
    """
    text = ",".join(_simple(value, explode, str))
    if not _HEADER.fullmatch(text):
        raise ToolError(f"the argument {name!r} is sent in a header, which can only carry visible ASCII")
    return text


def cookie_pairs(name: str, value: Any, *, explode: bool) -> list[str]:
    """Return a parameter's part of the `Cookie` header."""
    return list(expanded(name, value, "form", explode, _quoted))


def expanded(name: str, value: Any, style: str, explode: bool, quoted: Quote) -> Iterator[str]:
    """Yield `name=value` pairs for a value in a style of queries and forms; none for an empty one.

    Args:
        name: The parameter.
        value: Its value.
        style: The style; an unknown one is treated as `form`.
        explode: Whether the parts of a value are written separately.
        quoted: Encodes a name or a part of a value.
    """
    key = quoted(name)
    if (is_object(value) or is_array(value)) and style == "deepObject":
        yield from _deep(name, value, quoted)
    elif is_object(value) and explode:
        yield from (f"{quoted(inner)}={quoted(text_of_value(item))}" for inner, item in value.items())
    elif is_array(value) and explode:
        yield from (f"{key}={quoted(text_of_value(item))}" for item in value)
    elif is_object(value) or is_array(value):
        parts = [quoted(part) for part in _flat(value)]
        if parts:
            yield f"{key}={_DELIMITERS.get(style, ',').join(parts)}"
    elif value is not None:
        yield f"{key}={quoted(text_of_value(value))}"


def _deep(name: str, value: Any, quoted: Quote) -> Iterator[str]:
    """Yield `name[key]=value`. Deeper values, which OpenAPI does not define, are written as most servers read them."""
    waiting: list[tuple[str, Any]] = [(name, value)]
    while waiting:
        path, item = waiting.pop()
        if is_array(item) and path != name and not any(is_object(inner) or is_array(inner) for inner in item):
            yield from (f"{quoted(path)}={quoted(text_of_value(inner))}" for inner in item)
        elif is_object(item) or is_array(item):
            parts = item.items() if is_object(item) else enumerate(item)
            waiting += [(f"{path}[{key}]", inner) for key, inner in reversed(list(parts))]
        elif item is not None:
            yield f"{quoted(path)}={quoted(text_of_value(item))}"


def _simple(value: Any, explode: bool, quoted: Quote) -> list[str]:
    """Return the parts of a value, in style `simple`."""
    if is_object(value) and explode:
        return [f"{quoted(key)}={quoted(text_of_value(item))}" for key, item in value.items()]
    if is_object(value) or is_array(value):
        return [quoted(part) for part in _flat(value)]
    return [quoted(text_of_value(value))]


def _flat(value: Any) -> list[str]:
    """Return the texts in a list; for an object, its keys and values in turn."""
    parts: list[Any] = [part for pair in value.items() for part in pair] if is_object(value) else value
    return [text_of_value(part) for part in parts]


def _leaves(value: Any) -> list[str]:
    return _flat(value) if is_object(value) or is_array(value) else [text_of_value(value)]


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


def _quoted_less(text: str) -> str:
    return quote(text, safe=_RESERVED, errors="replace")
