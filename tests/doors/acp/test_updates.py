"""What an editor is shown of calls, of their results, and of what was said before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.chat_types import ToolBegun, ToolEnded
from tests.support.on_demand import acp_updates

CWD = Path("/src")


@pytest.mark.parametrize(
    ("name", "hints", "kind"),
    [
        ("read_file", {}, "read"),
        ("searchCode", {}, "search"),
        ("code__write_file", {}, "edit"),
        ("delete-branch", {}, "delete"),
        ("rename", {}, "move"),
        ("run_tests", {}, "execute"),
        ("fetch_url", {}, "fetch"),
        ("forecast", {}, "other"),
        ("forecast", {"readOnlyHint": True}, "read"),
        ("update_status", {"readOnlyHint": True}, "read"),
        ("find_text", {"readOnlyHint": True}, "search"),
        ("already", {}, "other"),
    ],
)
def test_the_kind_of_a_call_is_what_its_name_and_its_hints_say(name: str, hints: Any, kind: str) -> None:
    assert acp_updates.kind_of(ToolBegun("1", name, name, {}, hints)) == kind


@pytest.mark.parametrize(
    ("arguments", "locations"),
    [
        ({"path": "a.py"}, [{"path": "/src/a.py"}]),
        ({"file_path": "/else/a.py", "line": 3}, [{"path": "/else/a.py", "line": 3}]),
        ({"path": "a.py", "line": -1}, [{"path": "/src/a.py"}]),
        ({"path": "a.py", "line": 2**32}, [{"path": "/src/a.py"}]),
        ({"path": "a.py", "line": True}, [{"path": "/src/a.py"}]),
        ({"path": 5}, None),
        ({"path": ""}, None),
        ({"path": "a\0b"}, None),
        ({"path": "file:///a%20b.py"}, [{"path": "/a b.py"}]),
        ({"path": "/a%20b.py"}, [{"path": "/a%20b.py"}]),
        ({"path": "file:///a%00b"}, None),
        ({"city": "Graz"}, None),
    ],
)
def test_a_call_is_where_its_arguments_say(arguments: Any, locations: Any) -> None:
    assert acp_updates.call_begun(ToolBegun("1", "x", "x", arguments), CWD).get("locations") == locations


def test_the_content_of_an_mcp_result_is_shown_as_it_is() -> None:
    blocks = [{"type": "image", "data": "aGk=", "mimeType": "image/png"}, {"type": "text", "text": "a picture"}]
    value = {"content": blocks, "structuredContent": {"diffs": [{"path": "a", "newText": "x"}]}}
    shown = acp_updates.call_ended(ToolEnded("1", "[Image]", value), CWD)
    diff = {"type": "diff", "path": "/src/a", "newText": "x"}
    assert shown["content"] == [diff, *({"type": "content", "content": block} for block in blocks)]
    assert (shown["kind"], shown["status"], shown["rawOutput"]) == ("edit", "completed", value)


def test_what_fails_says_why() -> None:
    shown = acp_updates.call_ended(ToolEnded("1", '{"status": "error"}', None, "no such file"), CWD)
    assert (shown["status"], shown["content"][0]["content"]["text"]) == ("failed", "no such file")
    assert "rawOutput" not in shown


@pytest.mark.parametrize(
    "value",
    [
        {"diffs": "none", "locations": 5, "plan": {}},
        {"diffs": [{"path": 1, "newText": "x"}, {"path": "a"}, 5], "locations": [{"path": 5}, {}, "x"], "plan": []},
        {"content": [5]},
        {"content": [{"type": "unknown"}]},
        {"content": [{"type": "text"}]},
        [{"diffs": []}],
        "diffs",
        5,
    ],
)
def test_fields_of_other_shapes_mean_something_else(value: Any) -> None:
    ended = ToolEnded("1", "text", value)
    shown = acp_updates.call_ended(ended, CWD)
    assert shown["content"] == [{"type": "content", "content": {"type": "text", "text": "text"}}]
    assert "locations" not in shown
    assert "kind" not in shown
    assert acp_updates.plan_in(ended) is None


def test_what_was_said_before_is_shown_again() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    call = {"id": "c", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
    messages: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "Read"}, picture, {"type": "odd"}]},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "x = 1"},
        {"role": "assistant", "content": "It is 1."},
        {"role": "odd"},
    ]
    shown = list(acp_updates.replayed(messages, CWD))
    assert [(update["sessionUpdate"], update.get("content")) for update in shown] == [
        ("user_message_chunk", {"type": "text", "text": "Read"}),
        ("user_message_chunk", {"type": "image", "mimeType": "image/png", "data": "aGk="}),
        ("tool_call", None),
        ("tool_call_update", [{"type": "content", "content": {"type": "text", "text": "x = 1"}}]),
        ("agent_message_chunk", {"type": "text", "text": "It is 1."}),
    ]
    assert shown[2]["rawInput"] == {"path": "a"}
