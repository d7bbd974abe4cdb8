"""MCP content as text, in the style of whoever reads it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.calls.results.rendering import (
    ContentStyle,
    render_block,
    render_content,
    render_result,
    without_base64,
)

PLAIN = ContentStyle()
PIXELS = base64.b64encode(bytes(70)).decode()
TEXT = {"type": "text", "text": "said"}
IMAGE = {"type": "image", "data": PIXELS, "mimeType": "image/png"}
FILE = {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}}
LINK = {"type": "resource_link", "uri": "a://b", "name": "b", "mimeType": "text/plain", "description": "What b is"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
blocks = json_values | st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "hologram"])},
    optional={
        key: json_values | st.text()
        for key in ("text", "data", "mimeType", "resource", "uri", "name", "title", "description", "blob")
    },
)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (TEXT, "said"),
        ({"type": "text"}, ""),
        (IMAGE, "[image: image/png, 70 bytes]"),
        ({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}, "[audio: audio/wav, 2 bytes]"),
        (FILE, "inside"),
        ({"type": "resource", "resource": {"uri": "a://b", "blob": "aGk="}}, "[resource: a://b, 2 bytes]"),
        (LINK, "[resource: a://b, b, text/plain, What b is]"),
        (LINK | {"title": "B"}, "[resource: a://b, B, text/plain, What b is]"),
        ({"type": "image"}, "[image: of unknown kind]"),
    ],
)
def test_text_is_shown_and_all_else_is_named_in_a_note(block: Any, text: str) -> None:
    assert render_block(block, PLAIN) == text


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "hologram", "text": "described"}, "described"),
        ({"type": "hologram", "depth": 3}, '{"type":"hologram","depth":3}'),
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}"}},
         '{"type":"image_url","image_url":{"url":"data:image/png;base64,(70 bytes of base64 left out)"}}'),
        ("no block", '"no block"'),
        (None, "null"),
    ],
)  # fmt: skip
def test_a_block_of_an_unknown_type_is_its_text_or_else_json(block: Any, text: str) -> None:
    assert render_block(block, PLAIN) == text


def test_a_style_says_how_notes_look_and_which_facts_they_have() -> None:
    brief = ContentStyle("<{Kind} {facts}>", media=("mimeType",), link=("uri",), embedded_text=False)
    shown = render_content([TEXT, IMAGE, FILE, LINK], brief)
    assert shown.split("\n") == ["said", "<Image image/png>", "<Resource a://b>", "<Resource a://b>"]


def test_a_style_may_leave_out_what_is_no_text() -> None:
    assert render_content([TEXT, IMAGE, "odd", {"type": "hologram"}, FILE], ContentStyle(texts_only=True)) == (
        "said\ninside"
    )


def test_structured_content_is_shown_where_the_content_has_no_text() -> None:
    assert render_result({"content": [TEXT], "structuredContent": {"n": 1}}, PLAIN) == "said"
    assert render_result({"content": [], "structuredContent": {"n": 1}}, PLAIN) == '{"n":1}'
    assert render_result({"structuredContent": {"n": 1}}, ContentStyle(indent=2)) == '{\n  "n": 1\n}'
    assert render_result({"content": "odd"}, PLAIN) == ""


def test_control_characters_are_escaped_for_a_terminal_alone() -> None:
    text = {"type": "text", "text": "a\x1b[2J\tb\nc"}
    assert render_block(text, PLAIN) == "a\x1b[2J\tb\nc"
    assert render_block(text, ContentStyle(terminal=True)) == "a\\x1b[2J    b\nc"
    assert render_result({"structuredContent": "\x9b1m"}, ContentStyle(terminal=True)) == '"\\x9b1m"'


@given(block=blocks)
def test_a_note_is_one_line_and_nothing_on_a_terminal_is_a_command(block: Any) -> None:
    shown = render_block(block, ContentStyle(terminal=True))
    assert all(character.isprintable() or character == "\n" for character in shown)
    if shown.startswith(("[image: ", "[audio: ", "[resource: ")) and "text" not in str(block):
        assert "\n" not in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"data": PIXELS, "type": "image"}, {"data": "(70 bytes of base64 left out)", "type": "image"}),
        ({"data": PIXELS, "mimeType": "image/png"}, {"data": "(70 bytes of base64 left out)", "mimeType": "image/png"}),
        ({"blob": PIXELS, "uri": "a://b"}, {"blob": "(70 bytes of base64 left out)", "uri": "a://b"}),
        ({"data": "hello", "mimeType": "text/plain"}, {"data": "hello", "mimeType": "text/plain"}),
        ({"data": "no picture", "type": "report"}, {"data": "no picture", "type": "report"}),
    ],
)
def test_base64_is_left_out_where_something_says_that_it_is_that(value: Any, shown: Any) -> None:
    assert without_base64([value]) == [shown]
