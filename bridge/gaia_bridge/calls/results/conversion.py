"""The conversion of return values and exceptions of agents to MCP results. Pure.

A plain dictionary becomes `structuredContent` and its JSON text; MCP content passes as it is; everything else has a
defined conversion or a defined failure. The results are complete on the wire: they carry
`resultType`, which earlier revisions ignore.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections.abc import Iterable, Sequence
from types import GeneratorType
from typing import Any, Final, TypeGuard, cast

from gaia_bridge.errors import INVALID_PARAMS, ProtocolError, RequestError, ResourceNotFoundError, ToolError
from gaia_bridge.protocol.definition_repairs import repaired_result
from gaia_bridge.protocol.vocabulary import CONTENT_TYPES, result_problem
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_text import to_json, with_valid_text
from gaia_bridge.text.json_types import JSON, MAX_NESTING, SMALL_BYTES, is_array, is_object, is_small

_RESULT_FIELDS = frozenset({"_meta", "content", "isError", "resultType", "structuredContent"})
_COMPLETE: JSON = {"resultType": "complete"}
_PLAIN: Final = frozenset({bool, int, str, type(None)})
_LEVELS: Final = 32
"""Levels of plain JSON that a recursive function copies; few results have ten."""
_MAX_FAILURE = 65_536
"""Characters of an error text: a model that reads more than that learns nothing from it."""
_MAX_DIGITS = 4_300
"""Digits of a number: Python's own JSON reads and writes no more."""
_MAX_BITS = 14_280
"""Bits of a number that has so many digits."""
_MAX_COMPLETIONS = 100
"""MCP server/utilities/completion: at most 100 values in one answer."""


def tool_result(value: Any, limit: int, *, structured: bool) -> JSON:
    """Turn the return value of `execute_mcp_tool` into a wire `CallToolResult` or `InputRequiredResult`.

    Args:
        limit: Bytes that the result may have.
        structured: Whether values other than dictionaries become structured content too; set where the tool
            declares an output schema.

    Raises:
        ToolError: The value has no JSON form, or is too large.
    """
    plain, text = jsonable(value, limit)
    if is_object(plain):
        return _from_mapping(plain, text)
    if is_array(plain) and (blocks := _blocks(plain)):
        return _COMPLETE | {"content": blocks}
    content: list[JSON] = [] if plain is None else [_text(plain if isinstance(plain, str) else text)]
    result = _COMPLETE | {"content": content}
    if structured and plain is not None:
        result["structuredContent"] = plain
    return result


def error_result(text: str) -> JSON:
    """Return the result of a failed tool call, for the model to read."""
    return _COMPLETE | {"content": [_text(valid_text(text)[:_MAX_FAILURE])], "isError": True}


def prompt_result(value: Any, description: str | None, limit: int) -> JSON:
    """Turn the return value of `get_mcp_prompt` into a wire `GetPromptResult` or `InputRequiredResult`.

    Args:
        value: Text, a content block, a list of messages or content blocks, or a complete result.
        description: The prompt's description, used where the value brings none.
        limit: Bytes that the result may have.

    Raises:
        ToolError: The value is none of these, or too large.
    """
    plain, _ = jsonable(value, limit)
    if is_input_required(plain):
        return plain
    if is_object(plain) and is_array(plain.get("messages")):
        result = _COMPLETE | plain
    else:
        result = _COMPLETE | {"messages": [_message(item) for item in (plain if is_array(plain) else [plain])]}
    result = repaired_result("prompts/get", result)
    if description is not None:
        result.setdefault("description", description)
    return result


def resource_result(value: Any, uri: str, mime_type: str | None, limit: int) -> JSON:
    """Turn the return value of `read_mcp_resource` into a wire `ReadResourceResult` or `InputRequiredResult`.

    Args:
        value: Text, bytes, a JSON-serialisable value, or a complete result `{"contents": [...]}`.
        mime_type: The type that the resource was listed with, if it was.
        limit: Bytes that the result may have.

    Raises:
        ResourceNotFoundError: The value is `None`: there is nothing at that URI.
        ToolError: The value has no JSON form, or is too large.
    """
    if value is None:
        raise ResourceNotFoundError(uri)
    if isinstance(value, bytes | bytearray):
        _check_size(len(value), limit)
        blob = base64.b64encode(value).decode("ascii")
        _check_size(len(blob), limit)
        content = {"uri": uri, "mimeType": mime_type or "application/octet-stream", "blob": blob}
        return _COMPLETE | {"contents": [content]}
    plain, text = jsonable(value, limit)
    if is_input_required(plain):
        return plain
    if is_object(plain) and is_array(plain.get("contents")):
        return repaired_result("resources/read", _COMPLETE | plain)
    if isinstance(plain, str):
        return _COMPLETE | {"contents": [{"uri": uri, "mimeType": mime_type or "text/plain", "text": plain}]}
    return _COMPLETE | {"contents": [{"uri": uri, "mimeType": mime_type or "application/json", "text": text}]}


def completion_result(value: Any, limit: int) -> JSON:
    """Turn the return value of `complete_mcp_argument` into a wire `CompleteResult`.

    Raises:
        ToolError: It is neither a list of strings nor a completion.
    """
    plain, _ = jsonable(value, limit)
    completion: JSON = plain if is_object(plain) else {"values": [] if plain is None else plain}
    values = completion.get("values")
    if not is_array(values) or not all(isinstance(item, str) for item in values):
        raise ToolError(f"expected a list of strings, or an object with 'values'; got {type(value).__name__}")
    completion.setdefault("total", len(values))
    if len(values) > _MAX_COMPLETIONS:
        completion |= {"values": values[:_MAX_COMPLETIONS], "hasMore": True}
    return {"completion": completion}


def is_input_required(result: object) -> TypeGuard[JSON]:
    """Return whether a wire result asks for input instead of answering (MCP 2026-07-28, SEP-2322)."""
    return is_object(result) and result.get("resultType") == "input_required"


_NO_INPUT: Final = frozenset({"EOF when reading a line", ""})
"""The texts of an `EOFError` of `input()` and of `getpass`."""
_ASK_THE_CLIENT: Final = "nobody answers input() here; ask the user by get_request_context().elicit(MESSAGE, FORM)"


def failure_text(error: BaseException, what: str, reference: str) -> str:
    """Return the text that a peer may read about a failure of agent code, such as `tool 'x'`.

    Anticipated failures (`ToolError`, `ValueError`, the specification's own choice, and operating system errors
    without the path they name) are described. Of all others, only the type is named: the details are in the
    log, under the reference.
    """
    match error:
        case RequestError() | ValueError() if text := words(error):
            return text
        case OSError() if error.strerror:
            return f"{type(error).__name__}: {error.strerror}"
        case asyncio.CancelledError():
            return f"{what} was cancelled before it finished"
        case _:
            kind = type(error).__name__
            if isinstance(error, EOFError) and words(error) in _NO_INPUT:
                kind += f" ({_ASK_THE_CLIENT})"
            return f"{what} failed with {kind}; the details are logged under reference {reference}"


def as_protocol_error(error: BaseException) -> ProtocolError | None:
    """Return the JSON-RPC error that a failure stands for, if it stands for one."""
    if isinstance(error, ProtocolError):
        return error
    if isinstance(error, ValueError) and (text := words(error)).startswith("Unknown tool"):
        return ProtocolError(INVALID_PARAMS, text)
    return None


def words(error: BaseException) -> str:
    """Return the text of an exception, whatever its `__str__` does."""
    try:
        return valid_text(str(error))[:_MAX_FAILURE]
    except BaseException:  # noqa: B036 - it is the agent's code
        return ""


def _from_mapping(value: JSON, text: str) -> JSON:
    if value.get("resultType") == "input_required":
        return value
    if block := _as_content(value):
        return _COMPLETE | {"content": [block]}
    if is_array(value.get("content")) and value.keys() <= _RESULT_FIELDS and (result := _as_result(value)):
        return result | _COMPLETE
    if _says_it_failed(value):
        error = value["error"]
        return error_result(error if isinstance(error, str) else text) | {"structuredContent": value}
    return _COMPLETE | {"content": [_text(text)], "structuredContent": value}


def with_told_content(result: JSON) -> JSON:
    """Return the result of a tool with its structured content as text, if it has no other content.

    Many clients show their model nothing else (MCP, server/tools, "Structured Content").
    """
    if result.get("content") != [] or result.get("structuredContent") is None:
        return result
    return {**result, "content": [_text(to_json(result["structuredContent"]).decode())]}


def _says_it_failed(value: JSON) -> bool:
    """Return whether a value reports a failure as GAIA's agents do; `error` beside other fields may be one finding."""
    if value.get("error") is None:
        return False
    return len(value) == 1 or value.get("status") == "error" or value.get("success") is False


def _blocks(items: list[Any]) -> list[JSON] | None:
    """Return the content blocks of a list, which may contain texts; `None` if it is another list."""
    if not any(map(is_object, items)):
        return None
    blocks = [_text(item) if isinstance(item, str) else _as_content(item) for item in items]
    return None if None in blocks else cast("list[JSON]", blocks)


def _as_content(item: Any) -> JSON | None:
    if not is_object(item) or str(item.get("type")) not in CONTENT_TYPES:
        return None
    result = _as_result({"content": [item]})
    return None if result is None else result["content"][0]


def _as_result(value: JSON) -> JSON | None:
    """Return the value as all clients can read it; `None` if it is no result.

    Optional fields that are null, and invalid annotations, icons and sizes, are left out. Revisions differ only in the
    structured content that they allow.
    """
    if not all(is_object(block) and str(block.get("type")) in CONTENT_TYPES for block in value["content"]):
        return None
    result = repaired_result("tools/call", value)
    complete = {**result, "structuredContent": None, "resultType": "complete"}
    return result if result_problem("tools/call", complete) is None else None


def _message(item: Any) -> JSON:
    if isinstance(item, str):
        return {"role": "user", "content": _text(item)}
    if is_object(item):
        if block := _as_content(item):
            return {"role": "user", "content": block}
        content = item.get("content")
        if item.get("role") in ("user", "assistant") and isinstance(content, str | dict):
            return item | {"content": _text(content)} if isinstance(content, str) else item
    raise ToolError(
        f"the agent returned {type(item).__name__} where a prompt message was expected: "
        "text, a content block, or {'role': ..., 'content': ...}"
    )


def _text(value: str) -> JSON:
    return {"type": "text", "text": value}


def jsonable(value: Any, limit: int) -> tuple[Any, str]:
    """Return `value` as plain JSON data and as JSON text, with NaN as null and lone surrogates replaced.

    Raises:
        ToolError: It has no JSON form, or more than `limit` bytes.
        Exception: Whatever the value's own code raises while it is read, as a generator can.
    """
    is_harmless = limit >= SMALL_BYTES and is_small(value)
    too_large, has_generator = (False, False) if is_harmless else _surveyed(value, limit)
    if too_large:
        # To write it holds up everybody: the interpreter does nothing else meanwhile, in whatever thread that is.
        raise ToolError(
            f"the result has too many bytes; at most {limit:,} can be sent. Return less, or a link to the data."
        )
    if has_generator:
        value = _Drawing(limit).drawn(value)
    try:
        try:
            plain = _plain(value)
        except UnicodeEncodeError:  # a key
            plain = _plain(with_valid_text(value))
        try:
            encoded = to_json(plain)
        except ValueError:  # lone surrogates
            plain = with_valid_text(plain)
            encoded = to_json(plain)
        if len(encoded) >= _MAX_DIGITS and _has_long_number(plain):
            json.dumps(plain)  # raises if it is too long
    except ValueError as error:
        reason = words(error).partition("\n")[0]
        problem = f"the agent returned a value that has no JSON form ({type(value).__name__}): {reason}"
        raise ToolError(problem) from error
    _check_size(len(encoded), limit)
    return plain, encoded.decode()


def _has_long_number(plain: Any) -> bool:
    waiting: list[Any] = [plain]
    while waiting:
        item = waiting.pop()
        if is_object(item):
            waiting.extend(item.values())
        elif is_array(item):
            waiting.extend(item)
        elif isinstance(item, int) and item.bit_length() >= _MAX_BITS:
            return True
    return False


def _surveyed(value: Any, limit: int) -> tuple[bool, bool]:
    """Return whether a value has more than `limit` bytes as JSON, and whether it holds a generator, after one look.

    As `is_larger` finds it out: nothing is looked at beyond its first `limit` bytes.
    """
    waiting = [iter((value,))]
    left, has_generator = limit + 1, False
    while waiting:
        item = next(waiting[-1], _END)
        if item is _END:
            waiting.pop()
            continue
        left -= 1
        if isinstance(item, str | bytes | bytearray):
            left -= len(item) + 2
        elif is_object(item):
            waiting += [iter(item.values()), iter(item)]
        elif isinstance(item, list | tuple):
            waiting.append(iter(cast("Sequence[Any]", item)))
        elif isinstance(item, GeneratorType):
            has_generator = True
        if left < 0:
            return True, has_generator
        if len(waiting) > MAX_NESTING:  # a circle, perhaps
            return False, _has_generator(value)
    return False, has_generator


_END = object()


def _has_generator(value: Any) -> bool:
    """Return whether a value is, or holds in lists and objects, a generator, which may never end."""
    todo: list[Any] = [value]
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, GeneratorType):
            return True
        if _may_hold(value) and id(value) not in seen:
            seen.add(id(value))
            todo.extend(filter(_may_hold, value.values() if is_object(value) else value))
    return False


def _may_hold(value: Any) -> bool:
    return isinstance(value, dict | list | tuple | GeneratorType)


class _Drawing:
    """Replaces generators by lists of their items, until these have too many bytes of JSON together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0

    def drawn(self, value: Any) -> Any:
        """Return the value with lists instead of generators; raise `ToolError` if they yield too much, or for ever."""
        if isinstance(value, GeneratorType):
            return [self._counted(item) for item in cast("Iterable[Any]", value)]
        if isinstance(value, list | tuple):
            return [self.drawn(item) for item in cast("Sequence[Any]", value)]
        if is_object(value):
            return {key: self.drawn(item) for key, item in value.items()}
        return value

    def _counted(self, item: Any) -> Any:
        if _has_generator(item):
            item = self.drawn(item)  # which counts what it draws
        else:
            self._bytes += _size(item)
        self._bytes += 1  # a comma
        if self._bytes > self._limit:
            raise ToolError(
                f"the agent yielded more than {self._limit:,} bytes, and did not come to an end. "
                "Return less, or a link to the data."
            )
        return item


def _size(value: Any) -> int:
    try:
        return len(to_json(value))
    except ValueError:  # which is told later
        return 1


def _plain(value: Any) -> Any:
    try:
        return _copy(value, _LEVELS)
    except _NotPlainError:
        from pydantic_core import to_jsonable_python  # slow to load, and most agents return plain JSON

    return to_jsonable_python(value, by_alias=True, exclude_none=_is_protocol_model(value), inf_nan_mode="null")


class _NotPlainError(Exception):
    """A value that is not plain JSON, or nested too deep."""


def _copy(value: Any, levels: int) -> Any:
    """Copy plain JSON, with NaN and the infinities as null."""
    item: object = value
    kind = type(item)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if levels:
        if kind is list or kind is tuple:
            return [_copy(below, levels - 1) for below in value]
        if kind is dict and all(type(key) is str for key in value):
            return {key: _copy(below, levels - 1) for key, below in value.items()}
    raise _NotPlainError


def _is_protocol_model(value: Any) -> bool:
    """Return whether `value` is, or holds, a model of the SDK, whose unset fields must not appear as null."""
    first: object = value[0] if is_array(value) and value else value
    return hasattr(type(first), "model_dump") and type(first).__module__.partition(".")[0] in ("mcp", "mcp_types")


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise ToolError(
            f"the result has {size:,} bytes; at most {limit:,} can be sent. Return less, or a link to the data."
        )
