"""What a model reads of a tool's result: text, never base64, never more than it may be given."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia.agents.chat.rendering import as_text, content_text, cut
from gaia_bridge.errors import ToolError
from tests.support.on_demand import mcp_types

LIMIT = 10_000
PIXELS = base64.b64encode(bytes(range(256)) * 4).decode()
IMAGE = {"type": "image", "data": PIXELS, "mimeType": "image/png"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
pictures = st.sampled_from(
    [
        IMAGE,
        {"type": "audio", "data": PIXELS, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///x", "blob": PIXELS}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}"}},
        f"data:image/png;base64,{PIXELS}",
    ]
)
nested_pictures = st.recursive(
    pictures,
    lambda inner: (
        st.lists(inner | json_values, max_size=3)
        | st.fixed_dictionaries({"content": st.lists(inner, max_size=3)})
        | st.dictionaries(st.sampled_from(["content", "data", "structuredContent", "x"]), inner, max_size=3)
    ),
    max_leaves=4,
)


@given(value=json_values, limit=st.integers(0, 300))
def test_every_json_value_is_text_that_can_be_sent_and_is_within_the_limit(value: Any, limit: int) -> None:
    assert len(as_text(value, limit).encode()) <= limit or value is None


@given(value=nested_pictures)
def test_base64_is_never_shown_wherever_it_is(value: Any) -> None:
    assert PIXELS[:64] not in as_text(value, 1_000_000)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "(no output)"),
        ("plain", "plain"),
        ("", ""),
        (5, "5"),
        (True, "true"),
        ([], "[]"),
        ({}, "{}"),
        ({"a": [1, "ü"]}, '{"a":[1,"ü"]}'),
        (math.nan, "null"),
        ({1}, "[1]"),
        (b"text", "text"),
        (b"\x89PNG\r\n\xff", "[File: 7 bytes]"),
        ("half \ud800", "half ?"),
        ({"half": "\ud800"}, '{"half":"?"}'),
    ],
)
def test_plain_values_are_shown_as_they_are(value: Any, text: str) -> None:
    assert as_text(value, LIMIT) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}, "one\ntwo"),
        ({"content": [IMAGE]}, "[Image: image/png]"),
        ({"content": [{"type": "resource", "resource": {"uri": "file:///x", "text": "hello"}}]}, "hello"),
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///x", "blob": PIXELS}}]},
            "[Resource: file:///x]",
        ),
        ({"content": [{"type": "resource_link", "uri": "file:///x", "name": "x"}]}, "[Resource: file:///x]"),
        ({"content": [], "structuredContent": {"sum": 3}}, '{"sum":3}'),
        ({"content": []}, "(no output)"),
        (IMAGE, "[Image: image/png]"),
        ([{"type": "text", "text": "one"}, IMAGE], "one\n[Image: image/png]"),
    ],
)
def test_mcp_results_are_read_out(value: Any, text: str) -> None:
    assert as_text(value, LIMIT) == text


def test_results_of_the_sdk_are_read_out() -> None:
    assert (
        as_text(mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text="of the SDK")]), LIMIT)
        == "of the SDK"
    )


@pytest.mark.parametrize(
    "value",
    [
        {"title": "A page", "content": []},
        {"title": "A page", "content": [{"type": "text", "text": "hello"}]},
        {"type": "text", "text": "hello", "x": 3},
        {"type": "image", "path": "/a.png"},
        [{"type": "text", "text": "hello", "x": 3}],
        {"content": [{"type": "paragraph", "text": "hello"}]},
        {"data": "not a picture", "type": "report"},
    ],
)
def test_what_only_resembles_mcp_content_loses_nothing(value: Any) -> None:
    assert json.loads(as_text(value, LIMIT)) == value


def test_a_result_that_says_it_failed_is_a_failure() -> None:
    with pytest.raises(ToolError, match=r"^no such file$"):
        as_text({"content": [{"type": "text", "text": "no such file"}], "isError": True}, LIMIT)
    with pytest.raises(ToolError, match="failed without saying why"):
        as_text({"content": [], "isError": True}, LIMIT)


def test_objects_with_fields_are_read_and_others_have_no_text() -> None:
    @dataclass
    class Point:
        x: int

    assert as_text(Point(3), LIMIT) == '{"x":3}'
    with pytest.raises(ToolError, match="no JSON form"):
        as_text(object(), LIMIT)


def test_a_long_text_is_cut_between_characters_and_says_so() -> None:
    shown = cut("ü" * 1_000, 201)
    assert shown.startswith("üüü")
    assert shown.endswith("\n[cut off: of 2,000 bytes, at most 201 are shown; ask for less]")
    assert len(shown.encode()) in (200, 201)
    assert cut("ü" * 1_000, 5) == "üü"


def test_unknown_blocks_of_content_are_shown_as_json() -> None:
    assert (
        content_text([{"type": "text", "text": "a"}, {"type": "poem", "data": "x"}]) == 'a\n{"type":"poem","data":"x"}'
    )
