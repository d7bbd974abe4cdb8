"""Whatever an agent returns or raises becomes a result that every client can read, or a defined failure."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import json
import math
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from gaia_bridge.calls.results.conversion import (
    as_protocol_error,
    completion_result,
    error_result,
    failure_text,
    is_input_required,
    jsonable,
    prompt_result,
    resource_result,
    tool_result,
    with_told_content,
)
from gaia_bridge.content import audio, embedded_blob, embedded_text, image, resource_link, text
from gaia_bridge.content import tool_result as complete
from gaia_bridge.errors import (
    INVALID_PARAMS,
    BusyError,
    ClientCapabilityError,
    ProtocolError,
    ResourceNotFoundError,
    ToolError,
)
from gaia_bridge.protocol.vocabulary import result_problem
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_larger
from tests.support.on_demand import mcp_methods, mcp_types, mcp_versions

LIMIT = 1_000_000
URI = "test://x"


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Book:
    title: str
    pages: Any = None


class Model(BaseModel):
    name: str = "m"
    extra: Any = None


class OwnError(Exception):
    """What the code of a value raises."""


class Raises:
    """A value whose every use fails."""

    def __iter__(self) -> Iterator[Any]:
        raise LookupError("no")

    def __str__(self) -> str:
        raise LookupError("no")

    __repr__ = __str__


def _counting(stop: int = 0, error: bool = False) -> Iterator[int]:
    yield from range(stop)
    if error:
        raise OwnError("stopped")


any_text = st.text(st.characters(exclude_categories=()), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**400)])
    | st.floats()
    | st.complex_numbers()
    | any_text
    | st.binary(max_size=20)
    | st.decimals()
    | st.fractions()
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.sampled_from([Colour.RED, Colour, object(), object, len, Ellipsis, Path("/x"), Point(1, 2)])
    | st.builds(Raises)
    | st.builds(_counting, st.integers(0, 3), st.booleans())
    | st.builds(Model, extra=st.floats() | any_text)
)
content_like: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "tool_use", "x"])},
    optional={
        "text": any_text | st.none(),
        "data": any_text,
        "mimeType": any_text,
        "uri": any_text,
        "name": any_text,
        "resource": st.dictionaries(st.sampled_from(["uri", "text", "blob"]), any_text),
        "annotations": st.sampled_from([None, {}, {"audience": ["user"]}, {"audience": "user"}, 5]),
        "_meta": st.sampled_from([None, {}, {"a": 1}, []]),
    },
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hashable = st.none() | st.booleans() | st.integers() | any_text | st.binary(max_size=5) | st.floats()
    keys = hashable | st.tuples(st.integers()) | st.just(object())
    return (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.lists(inner, max_size=4).map(deque)
        | st.sets(hashable, max_size=4)
        | st.frozensets(hashable, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
        | st.builds(Book, any_text, inner)
        | st.fixed_dictionaries(
            {"content": st.lists(content_like | inner, max_size=3)},
            optional={
                "structuredContent": inner,
                "isError": st.booleans() | inner,
                "_meta": inner,
                "resultType": st.sampled_from(["complete", "weird", None, 5]),
            },
        )
    )


values = st.recursive(scalars | content_like | st.lists(content_like, max_size=3), containers, max_leaves=15)


def on_the_wire(result: JSON, version: str) -> mcp_types.CallToolResult:
    """What the SDK sends of a tool result, as a client reads it from strict JSON.

    Raises:
        Exception: The SDK refuses it, or it is no strict JSON in UTF-8.
    """
    if version == mcp_versions.LATEST_HANDSHAKE_VERSION and not isinstance(result.get("structuredContent"), dict):
        result = {key: value for key, value in result.items() if key != "structuredContent"}
    sent = mcp_methods.serialize_server_result("tools/call", version, result)
    encoded = json.dumps(sent, allow_nan=False, ensure_ascii=False).encode()
    return mcp_types.CallToolResult.model_validate(json.loads(encoded), by_name=False)


@given(values, st.booleans())
@pytest.mark.requirement("S1-20", "F-103", "F-104", "F-105")
def test_any_value_is_a_result_for_both_eras_or_a_failure_that_says_why(value: Any, structured: bool) -> None:
    try:
        result = tool_result(value, LIMIT, structured=structured)
    except (ToolError, OwnError) as error:
        assert str(error).encode()
        result = error_result(str(error))
    for version in (mcp_versions.LATEST_MODERN_VERSION, mcp_versions.LATEST_HANDSHAKE_VERSION):
        assert on_the_wire(result, version).result_type == "complete"


@given(values)
def test_any_value_is_a_prompt_a_resource_and_a_completion_or_a_failure(value: Any) -> None:
    converters: dict[str, Callable[[], JSON]] = {
        "prompts/get": lambda: prompt_result(value, "d", LIMIT),
        "resources/read": lambda: resource_result(value, URI, None, LIMIT),
        "completion/complete": lambda: completion_result(value, LIMIT),
    }
    for method, convert in converters.items():
        try:
            result = convert()
        except (ToolError, ResourceNotFoundError, OwnError) as error:
            assert str(error).encode()
        else:
            json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
            problem = result_problem(method, result)
            assert problem is None or problem.encode()


@pytest.mark.requirement("S1-11")
def test_a_dict_is_structured_content_and_its_json_text() -> None:
    result = tool_result({"answer": 42, "list": [1, None, "é"]}, LIMIT, structured=False)
    assert result["structuredContent"] == {"answer": 42, "list": [1, None, "é"]}
    [block] = result["content"]
    assert json.loads(block["text"]) == result["structuredContent"]
    assert not result.get("isError")


@pytest.mark.requirement("F-103")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "2026-01-02T03:04:05Z"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.timedelta(minutes=1), "PT1M"),
        (decimal.Decimal("1.50"), "1.50"),
        ({1}, [1]),
        (frozenset({"a"}), ["a"]),
        ((1, 2), [1, 2]),
        (deque([1]), [1]),
        (Point(1, 2), [1, 2]),
        (b"bytes", "bytes"),
        (Book("Emma", 3), {"title": "Emma", "pages": 3}),
        (Model(), {"name": "m", "extra": None}),
        (Colour.RED, "red"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/x"), "/x"),
        (OrderedDict({"a": 1}), {"a": 1}),
        ((number for number in (1, 2)), [1, 2]),
        ({1: "int", None: "none", False: "bool"}, {"1": "int", "None": "none", "false": "bool"}),
        (1j, "1j"),
        (fractions.Fraction("1/3"), "1/3"),
    ],
)
def test_common_python_values_have_their_json_form(value: Any, expected: Any) -> None:
    assert jsonable({"value": value}, LIMIT)[0] == {"value": expected}


def _cyclic() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


def _deep() -> Any:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.requirement("S1-20", "F-103")
@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"nested": [object()]},
        _cyclic(),
        _deep(),
        b"\xff\xfe",
        len,
        Raises(),
        10**5000,
        {(1, 2): object()},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_json_form_is_a_failure_that_names_its_type(value: Any) -> None:
    with pytest.raises(ToolError, match=rf"no JSON form \({type(value).__name__}\)") as caught:
        tool_result(value, LIMIT, structured=False)
    assert "object at 0x" not in str(caught.value)


@pytest.mark.requirement("F-100")
def test_a_failure_of_the_values_own_code_is_not_taken_for_words_to_the_model() -> None:
    with pytest.raises(OwnError):
        tool_result(_counting(2, error=True), LIMIT, structured=False)


@pytest.mark.requirement("F-104")
def test_numbers_that_json_does_not_have_are_null() -> None:
    result = tool_result({"a": math.nan, "b": [math.inf, -math.inf]}, LIMIT, structured=False)
    assert result["structuredContent"] == {"a": None, "b": [None, None]}
    assert result["content"][0]["text"] == '{"a":null,"b":[null,null]}'


@pytest.mark.requirement("F-105")
@pytest.mark.parametrize(
    "value", ["a\ud800b", {"k": ["\udfff"]}, {"\ud800": 1}, [{"k\udc80": {"\ud800": "\ud800"}}], text("\ud800")]
)
def test_lone_surrogates_are_replaced_wherever_they_are(value: Any) -> None:
    result = tool_result(value, LIMIT, structured=True)
    encoded = json.dumps(result, ensure_ascii=False).encode()
    assert b"?" in encoded


@pytest.mark.requirement("F-105")
def test_other_strange_characters_pass_unchanged() -> None:
    strange = "\x00\x1b[2J\u2028\u202e\U0001f600"
    assert tool_result(strange, LIMIT, structured=False)["content"][0]["text"] == strange


def test_a_number_in_text_may_have_any_length() -> None:
    digits = "7" * 10_000
    assert tool_result({"pi": digits}, LIMIT, structured=False)["structuredContent"] == {"pi": digits}


@pytest.mark.requirement("F-106")
@pytest.mark.parametrize("value", ["x" * 101, {"k": "x" * 100}, [text("x" * 100)], ["x" * 50] * 2])
def test_a_result_over_the_limit_is_a_failure_that_says_what_to_do(value: Any) -> None:
    with pytest.raises(ToolError, match=r"at most 100 can be sent. Return less, or a link"):
        tool_result(value, 100, structured=False)


@pytest.mark.requirement("F-106")
def test_an_error_text_is_cut_where_nobody_reads_on() -> None:
    assert len(failure_text(ValueError("x" * 10_000_000), "tool", "r")) < 100_000
    assert len(json.dumps(error_result("x" * 10_000_000))) < 100_000


@pytest.mark.requirement("P-11")
@pytest.mark.parametrize(
    "block",
    [
        text("x"),
        image(b"png", "image/png"),
        audio(b"wav", "audio/wav"),
        resource_link("file:///x", "x", description="d", size=3),
        embedded_text("file:///x", "x"),
        embedded_blob("file:///x", b"\x00"),
        {**text("x"), "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"k": 1}},
    ],
    ids=lambda block: str(block["type"]),
)
def test_content_passes_unflattened_alone_in_a_list_and_in_a_complete_result(block: JSON) -> None:
    for value in (block, [block], complete(block), {"content": [block]}):
        result = tool_result(value, LIMIT, structured=False)
        assert result["content"] == [block]
        assert "structuredContent" not in result


@pytest.mark.requirement("P-11")
def test_the_sdks_own_models_are_content_too() -> None:
    words, picture = (
        mcp_types.TextContent(type="text", text="x"),
        mcp_types.ImageContent(type="image", data="", mime_type="image/png"),
    )
    result = tool_result([words, picture], LIMIT, structured=False)
    assert result["content"] == [text("x"), {"type": "image", "data": "", "mimeType": "image/png"}]
    whole = mcp_types.CallToolResult(content=[words], is_error=True)
    assert tool_result(whole, LIMIT, structured=False)["isError"] is True


_LINK = {"type": "resource_link", "uri": "a:b", "name": "x"}


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({**text("x"), "annotations": None, "_meta": None}, text("x")),
        ({**text("x"), "annotations": 5}, text("x")),
        (
            {**text("x"), "annotations": {"audience": ["robot"], "priority": 0.5}},
            {**text("x"), "annotations": {"priority": 0.5}},
        ),
        ({**_LINK, "title": None, "mimeType": None, "size": None, "icons": None}, _LINK),
        (
            {"type": "resource", "resource": {"uri": "a:b", "text": "x", "blob": None, "mimeType": None}},
            {"type": "resource", "resource": {"uri": "a:b", "text": "x"}},
        ),
    ],
)
def test_a_block_is_sent_without_nulls_and_invalid_annotations_wherever_an_agent_returns_it(
    block: JSON, shown: JSON
) -> None:
    for value in (block, [block], {"content": [block], "structuredContent": {"a": None}, "_meta": None}):
        result = tool_result(value, LIMIT, structured=False)
        assert result["content"] == [shown]
        assert "_meta" not in result and result.get("structuredContent", {"a": None}) == {"a": None}
    message = {"role": "user", "content": block}
    for value in (block, [message], {"messages": [message], "description": None}):
        result = prompt_result(value, None, LIMIT)
        assert result == {"resultType": "complete", "messages": [{"role": "user", "content": shown}]}
    if block["type"] == "resource":
        contents = {"contents": [block["resource"]]}
        assert resource_result(contents, "a:b", None, LIMIT)["contents"] == [shown["resource"]]


@pytest.mark.parametrize(
    "value",
    [
        {"type": "resource", "resource": {"uri": "x"}},
        {"type": "text", "text": 5},
        {"type": ["text"]},
        {"content": [{"type": "image", "data": "x"}]},
        {"content": [text("x")], "isError": "perhaps"},
        {"content": [text("x")], "_meta": 5},
        {"content": [text("x")], "count": 1},
    ],
)
def test_what_only_looks_like_content_is_data(value: JSON) -> None:
    result = tool_result(value, LIMIT, structured=False)
    assert result["structuredContent"] == value
    assert json.loads(result["content"][0]["text"]) == value


def test_a_complete_result_is_complete_whatever_it_calls_itself() -> None:
    result = tool_result({"content": [text("x")], "resultType": "task"}, LIMIT, structured=False)
    assert result["resultType"] == "complete"


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("value", ["text", 5, True, [1, 2], []])
def test_other_values_are_text_and_structured_where_the_tool_promised_it(value: Any, structured: bool) -> None:
    result = tool_result(value, LIMIT, structured=structured)
    assert result["content"] == [text(value if isinstance(value, str) else json.dumps(value, separators=(",", ":")))]
    assert ("structuredContent" in result) is structured


def test_nothing_is_an_empty_result() -> None:
    assert tool_result(None, LIMIT, structured=True)["content"] == []


@pytest.mark.requirement("S1-13", "F-292")
@pytest.mark.parametrize(
    "value",
    [
        {"error": "no such file"},
        {"status": "error", "error": "no such file", "code": 2},
        {"success": False, "error": "no such file"},
        {"error": "no such file", "success": False, "hint": "look elsewhere"},
    ],
)
def test_an_error_dict_is_a_failure_with_its_message(value: JSON) -> None:
    result = tool_result(value, LIMIT, structured=False)
    assert result["isError"] is True
    assert result["content"] == [text("no such file")]
    assert result["structuredContent"] == value


@pytest.mark.parametrize(
    "value",
    [
        {"error": None},
        {"error": "x", "rows": []},
        {"status": "success", "error": "x"},
        {"errors": ["x"]},
        {"success": True, "error": "x"},
        {"success": False, "error": None},
        {"success": False},
        {"success": "false", "error": "x"},
    ],
)
def test_a_dict_that_also_speaks_of_errors_is_no_failure(value: JSON) -> None:
    assert not tool_result(value, LIMIT, structured=False).get("isError")


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hello", [{"role": "user", "content": text("hello")}]),
        (text("hello"), [{"role": "user", "content": text("hello")}]),
        (
            ["a", image(b"", "image/png")],
            [{"role": "user", "content": c} for c in (text("a"), image(b"", "image/png"))],
        ),
        ([{"role": "assistant", "content": "hi"}], [{"role": "assistant", "content": text("hi")}]),
        ({"messages": [{"role": "user", "content": text("x")}]}, [{"role": "user", "content": text("x")}]),
    ],
)
@pytest.mark.requirement("S1-14")
def test_a_prompt_can_be_given_in_every_usual_way(value: Any, messages: list[JSON]) -> None:
    result = prompt_result(value, "what it is for", LIMIT)
    assert result["messages"] == messages
    assert result["description"] == "what it is for"
    assert result_problem("prompts/get", result) is None


def test_a_prompt_that_brings_its_description_keeps_it() -> None:
    assert prompt_result({"messages": [], "description": "own"}, "listed", LIMIT)["description"] == "own"


@pytest.mark.parametrize("value", [5, None, [5], [{"role": "system", "content": "x"}], {"text": "x"}, [[]]])
def test_what_is_no_prompt_is_a_failure_that_says_what_was_expected(value: Any) -> None:
    with pytest.raises(ToolError, match="prompt message was expected"):
        prompt_result(value, None, LIMIT)


@pytest.mark.requirement("S1-15")
@pytest.mark.parametrize(
    ("value", "listed", "contents"),
    [
        ("text", None, {"uri": URI, "mimeType": "text/plain", "text": "text"}),
        ("# x", "text/markdown", {"uri": URI, "mimeType": "text/markdown", "text": "# x"}),
        (b"\xff", None, {"uri": URI, "mimeType": "application/octet-stream", "blob": "/w=="}),
        (bytearray(b"x"), "image/png", {"uri": URI, "mimeType": "image/png", "blob": "eA=="}),
        ({"a": 1}, None, {"uri": URI, "mimeType": "application/json", "text": '{"a":1}'}),
        ([1], None, {"uri": URI, "mimeType": "application/json", "text": "[1]"}),
        ({"contents": [{"uri": "u", "text": "t"}]}, "x/y", {"uri": "u", "text": "t"}),
    ],
)
def test_a_resource_can_be_given_in_every_usual_way(value: Any, listed: str | None, contents: JSON) -> None:
    result = resource_result(value, URI, listed, LIMIT)
    assert result["contents"] == [contents]
    assert result_problem("resources/read", result) is None


def test_nothing_at_a_uri_is_not_found() -> None:
    with pytest.raises(ResourceNotFoundError) as caught:
        resource_result(None, URI, None, LIMIT)
    assert caught.value.data == {"uri": URI}


@pytest.mark.requirement("F-106")
@pytest.mark.parametrize("value", [b"x" * 100, "x" * 101, {"k": "x" * 100}])
def test_a_resource_over_the_limit_is_a_failure(value: Any) -> None:
    with pytest.raises(ToolError, match="at most 100"):
        resource_result(value, URI, None, 100)


def test_completions_are_cut_at_what_the_protocol_allows() -> None:
    result = completion_result([str(number) for number in range(150)], LIMIT)
    assert len(result["completion"]["values"]) == 100
    assert result["completion"]["total"] == 150
    assert result["completion"]["hasMore"] is True


def test_completions_can_be_given_whole() -> None:
    given_whole = {"values": ["a"], "total": 9, "hasMore": True}
    assert completion_result(given_whole, LIMIT) == {"completion": given_whole}
    assert completion_result(None, LIMIT)["completion"]["values"] == []


@pytest.mark.parametrize("value", ["a", [1], {"values": "a"}, {}, 5])
def test_what_is_no_completion_is_a_failure(value: Any) -> None:
    with pytest.raises(ToolError, match="expected a list of strings"):
        completion_result(value, LIMIT)


def test_a_result_that_asks_for_input_is_recognised() -> None:
    value = {"resultType": "input_required", "requestState": "s"}
    assert is_input_required(tool_result(value, LIMIT, structured=True))
    assert not is_input_required({"resultType": "complete"})
    assert not is_input_required(None)


class BadWords(ValueError):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.requirement("F-100", "F-101")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("password=hunter2"), "RuntimeError"),
        (KeyError("password=hunter2"), "KeyError"),
        (SystemExit("password=hunter2"), "SystemExit"),
        (KeyboardInterrupt("password=hunter2"), "KeyboardInterrupt"),
        (GeneratorExit("password=hunter2"), "GeneratorExit"),
        (BadWords("password=hunter2"), "BadWords"),
        (ValueError(), "ValueError"),
        (ToolError(""), "ToolError"),
    ],
    ids=lambda item: str(type(item).__name__),
)
def test_an_unexpected_failure_tells_only_its_kind_and_where_to_look(error: BaseException, kind: str) -> None:
    told = failure_text(error, "tool 'x'", "cafe")
    assert "hunter2" not in told
    assert kind in told
    assert "tool 'x'" in told
    assert "reference cafe" in told


def test_a_tool_that_waits_for_a_line_of_its_input_is_led_to_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(EOFError) as failure:
        input()
    text = failure_text(failure.value, "tool 'x'", "cafe")
    assert "EOFError (nobody answers input() here; ask the user by get_request_context().elicit(" in text
    assert "input()" not in failure_text(EOFError("Ran out of input"), "tool 'x'", "cafe")


@pytest.mark.requirement("S1-13", "F-100")
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ToolError("there is no such branch"), "there is no such branch"),
        (ValueError("limit must be positive"), "limit must be positive"),
        (FileNotFoundError(2, "No such file or directory", "/home/me/secret"), "FileNotFoundError: No such file"),
        (PermissionError(13, "Permission denied", "/home/me/secret"), "PermissionError: Permission denied"),
        (asyncio.CancelledError(), "tool 'x' was cancelled before it finished"),
    ],
    ids=lambda item: str(type(item).__name__),
)
def test_an_anticipated_failure_tells_what_happened_without_a_path(error: BaseException, told: str) -> None:
    assert failure_text(error, "tool 'x'", "r").startswith(told)
    assert "secret" not in failure_text(error, "tool 'x'", "r")


@pytest.mark.requirement("F-105")
def test_a_failure_with_lone_surrogates_is_told_without_them() -> None:
    assert failure_text(ValueError("bad name \ud800"), "tool", "r") == "bad name ?"
    assert error_result("\ud800")["content"] == [text("?")]


@pytest.mark.requirement("S1-13")
def test_an_unknown_tool_is_a_protocol_error_however_the_agent_says_so() -> None:
    found = as_protocol_error(ValueError("Unknown tool: x"))
    assert found is not None
    assert (found.code, found.message) == (INVALID_PARAMS, "Unknown tool: x")
    own = ProtocolError(-32000, "own")
    assert as_protocol_error(own) is own
    for other in (ValueError("x"), BadWords(), ToolError("Unknown tool: x"), BusyError("a", 1, 2), SystemExit()):
        assert as_protocol_error(other) is None


def test_a_missing_capability_is_named() -> None:
    error = ClientCapabilityError({"sampling": {}})
    assert error.data == {"requiredCapabilities": {"sampling": {}}}
    assert "sampling" in str(error)


def test_bytes_in_a_blob_come_back() -> None:
    [contents] = resource_result(bytes(range(256)), URI, None, LIMIT)["contents"]
    assert base64.b64decode(contents["blob"]) == bytes(range(256))


WRAPS: list[Callable[[Any], Any]] = [lambda it: it, lambda it: {"a": it}, lambda it: {"content": it}]


@pytest.mark.requirement("F-252")
@pytest.mark.parametrize("wrap", WRAPS)
def test_a_result_that_is_too_large_is_refused_before_it_is_read_to_its_end(wrap: Callable[[Any], Any]) -> None:
    class Trap(dict[str, Any]):
        def values(self) -> Any:
            raise AssertionError("was read")

    with pytest.raises(ToolError, match="at most 1,000 can be sent"):
        tool_result(wrap([*(["x" * 100] * 20), Trap()]), 1_000, structured=False)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.recursive(SCALARS, lambda below: st.lists(below) | st.dictionaries(st.text(), below)))
def test_no_value_is_said_to_be_larger_than_it_is(value: Any) -> None:
    assert not is_larger(value, len(to_json(value)))


def test_a_value_without_end_is_larger_than_anything() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert not is_larger(circle, 10_000), "that it is nested too deep is for its writer to say"
    assert is_larger(["x"] * 5_000, 10_000)
    assert not is_larger(["x"] * 1_000, 10_000)


def wrapped_in_nothing(value: object) -> object:
    return value


def wrapped_in_list(value: object) -> object:
    return [value]


def wrapped_in_tuple(value: object) -> object:
    return {"a": ({"b": value},)}


@pytest.mark.requirement("F-224")
@pytest.mark.parametrize("wrap", [wrapped_in_nothing, wrapped_in_list, wrapped_in_tuple])
@pytest.mark.parametrize("item", ["", "x" * 1000, [1]])
def test_what_is_yielded_without_end_is_refused_with_the_bound(wrap: Callable[[Any], Any], item: Any) -> None:
    def yielding() -> Generator[Any]:
        while True:
            yield item

    with pytest.raises(ToolError, match="yielded more than 10,000 bytes"):
        jsonable(wrap(yielding()), 10_000)


@pytest.mark.requirement("F-224")
def test_what_is_yielded_within_the_bound_is_a_list_however_deep() -> None:
    value = {"a": (number for number in range(3)), "b": [({"c": (text for text in "xy")},)]}
    assert jsonable(value, 10_000)[0] == {"a": [0, 1, 2], "b": [[{"c": ["x", "y"]}]]}


def test_structured_content_alone_is_text_as_well() -> None:
    for structured in ({"a": [1, "é"]}, [1], 0, False, ""):
        told = with_told_content({"content": [], "structuredContent": structured, "isError": True})
        [block] = told["content"]
        assert json.loads(block["text"]) == told["structuredContent"] == structured
    others: list[JSON] = [{"content": []}, {"content": [], "structuredContent": None}, {"resultType": "input_required"}]
    for result in others:
        assert with_told_content(result) is result
    both: JSON = {"content": [{"type": "text", "text": "a"}], "structuredContent": {}}
    assert with_told_content(both) is both
