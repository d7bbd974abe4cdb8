"""`tools` in a request: functions that the client runs itself, and tools of this bridge that are lent to the agent."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.conversation.tool_request import Borrowing, RequestedTools
from gaia_bridge_doors.openai_api.options import array_at, invalid, object_at, string_at

logger = logging.getLogger(__name__)

_FUNCTION_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_NAMES: Final = 1_000
_FLAT: Final = ("name", "description", "parameters", "strict")
_IN: Final = "namespace"
_HOSTED: Final = re.compile(
    r"web_search(_preview)?(_[0-9_]+)?|file_search|code_interpreter|image_generation|computer(_use)?(_preview)?"
    r"|local_shell|shell|apply_patch|custom|tool_search"
)
"""Kinds of tools that OpenAI runs, or that only its own models can call; clients offer them to every server."""
_REFUSED: Final = {
    "server_url": "the bridge connects to no address that a request names. Add the server to its configuration under"
    " a name, and write that name as server_label",
    "connector_id": "the bridge has no connectors. Write the name of one of its agents or servers as server_label",
    "authorization": "the bridge logs in to its servers itself, as its configuration says",
    "headers": "the bridge sends its servers what its configuration says",
}
"""Fields of OpenAI's hosted-MCP tool that this one lacks: a request must not make the bridge call any server
(server-side request forgery), or call with other people's credentials."""


def read_tools(value: Any, limit: int, *, flat: bool = False) -> RequestedTools:
    """Read the field `tools`.

    Args:
        value: The field.
        limit: The most entries that are allowed.
        flat: Whether a function's fields are those of its entry, as in the Responses API. That API has more kinds,
            which OpenAI runs itself; here they are left out.

    Raises:
        ChatError: An entry is unknown, not allowed, or there twice.
    """
    if value is None:
        return RequestedTools()
    functions: dict[str, JSON] = {}
    names_at: list[str] = []
    borrowings: list[Borrowing] = []
    namespaces: dict[str, tuple[str, str]] = {}
    for at, fields in _entries(value, limit, flat=flat):
        match fields.get("type"):
            case "function":
                inner = at if flat else f"{at}.function"
                name, function = _function(inner, _nested(fields) if flat else fields)
                if name in functions:
                    raise invalid(f"{inner}.name", name, "a name that no other tool has")
                functions[name] = function
                names_at.append(f"{inner}.name")
                if _IN in fields:
                    namespaces[name] = fields[_IN], fields["name"]
            case "mcp":
                borrowings.append(_borrowing(at, fields))
            case str(kind) if flat and _HOSTED.fullmatch(kind):
                logger.info("%s: the bridge has no tool of the type %s; it is left out", at, kind)
            case other:
                raise invalid(f"{at}.type", other, "function (run by the client) or mcp (run by the bridge)")
    return RequestedTools(tuple(functions.values()), tuple(borrowings), tuple(names_at), namespaces)


def function_name(namespace: object, name: str) -> str:
    """Return an agent's name of a function: models' servers have no namespaces.

    Args:
        namespace: The function's namespace, if it is in one.
        name: The name in it.
    """
    if not isinstance(namespace, str) or not namespace:
        return name
    return f"{namespace}{'' if namespace.endswith('_') else '__'}{name}"


def _entries(value: Any, limit: int, *, flat: bool) -> Iterator[tuple[str, JSON]]:
    """Yield the entries with their places; those in a namespace one by one, together with the namespace."""
    count = 0
    for number, item in enumerate(array_at("tools", value, limit, "a list of tools")):
        at = f"tools[{number}]"
        fields = object_at(at, item, "an object with type")
        if not flat or fields.get("type") != "namespace":
            yield at, {key: value for key, value in fields.items() if key != _IN}
            continue
        namespace = string_at(f"{at}.name", fields.get("name"), "the name of the namespace")
        items = array_at(f"{at}.tools", fields.get("tools"), limit - count, "a list of functions")
        count += len(items)
        for place, inner in enumerate(items):
            inner_at = f"{at}.tools[{place}]"
            yield inner_at, {**object_at(inner_at, inner, "an object with type"), _IN: namespace}


def _nested(fields: JSON) -> JSON:
    """Return a function of the Responses API in the shape of chat completions."""
    function = {key: fields[key] for key in _FLAT if fields.get(key) is not None}
    if isinstance(name := fields.get("name"), str):
        function["name"] = function_name(fields.get(_IN), name)
    return {"type": "function", "function": function}


def _function(at: str, fields: JSON) -> tuple[str, JSON]:
    function = object_at(at, fields.get("function"), "an object with name and parameters")
    name = function.get("name")
    if not isinstance(name, str) or not _FUNCTION_NAME.fullmatch(name):
        raise invalid(f"{at}.name", name, "1 to 64 characters of A-Z a-z 0-9 _ -")
    if (description := function.get("description")) is not None and not isinstance(description, str):
        raise invalid(f"{at}.description", description, "a text")
    if (parameters := function.get("parameters")) is not None and not is_object(parameters):
        raise invalid(f"{at}.parameters", parameters, "a JSON Schema of an object")
    return name, fields


def _borrowing(at: str, fields: JSON) -> Borrowing:
    for name, reason in _REFUSED.items():
        if fields.get(name) is not None:
            raise ChatError(400, f"{at}.{name} is not allowed: {reason}.", "unsupported_parameter", f"{at}.{name}")
    if (approval := fields.get("require_approval")) not in (None, "never"):
        expected = "'never', or nothing: there is nobody to approve a call within this API"
        raise invalid(f"{at}.require_approval", approval, expected)
    label = string_at(f"{at}.server_label", fields.get("server_label"), "the name of an agent or server of this bridge")
    return Borrowing(at, label, _allowed(f"{at}.allowed_tools", fields.get("allowed_tools")))


def _allowed(at: str, value: Any) -> frozenset[str] | None:
    """Return the allowed names, of a list or of an object with that list; refuse further limits in the object."""
    if value is None:
        return None
    expected = "a list of names"
    if is_object(value):
        for name in value.keys() - {"tool_names"}:
            if value[name] is not None:
                raise invalid(f"{at}.{name}", value[name], "nothing: write the names of the tools as tool_names")
        value = value.get("tool_names")
    return frozenset(
        string_at(f"{at}[{number}]", item) for number, item in enumerate(array_at(at, value, _MAX_NAMES, expected))
    )
