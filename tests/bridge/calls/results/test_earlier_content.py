"""Content of kinds that clients of early revisions do not have."""

from __future__ import annotations

from typing import Final

import pytest

from gaia_bridge.calls.results.earlier_content import content_for
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS
from gaia_bridge.text.json_types import JSON

SOUND: Final[JSON] = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", "annotations": {"priority": 1}}
LINK: Final[JSON] = {"type": "resource_link", "uri": "note://1", "name": "note", "_meta": {"a": 1}}
AS_RESOURCE: Final[JSON] = {
    "type": "resource",
    "resource": {"uri": "cid:0@content", "mimeType": "audio/wav", "blob": "aGk="},
    "annotations": {"priority": 1},
}
AS_TEXT: Final[JSON] = {"type": "text", "text": "[resource: note://1, note]", "_meta": {"a": 1}}


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_sound_is_a_resource_and_a_link_is_words_where_there_is_no_such_content(revision: str) -> None:
    sound = AS_RESOURCE if revision == "2024-11-05" else SOUND
    link = AS_TEXT if revision in ("2024-11-05", "2025-03-26") else LINK
    result: JSON = {"content": [SOUND, LINK, {"type": "text", "text": ""}], "isError": False}
    shown = content_for(revision, "tools/call", result)
    assert shown == {"content": [sound, link, {"type": "text", "text": ""}], "isError": False}
    messages: JSON = {"messages": [{"role": "user", "content": block} for block in (SOUND, LINK)]}
    prompt = content_for(revision, "prompts/get", messages)
    assert prompt == {"messages": [{"role": "user", "content": block} for block in (sound, link)]}


def test_no_other_result_is_looked_at() -> None:
    for revision, method in (
        ("2024-11-05", "resources/read"),
        ("2025-06-18", "tools/call"),
        ("2026-07-28", "tools/call"),
    ):
        result: JSON = {"content": [LINK]}
        assert content_for(revision, method, result) is result


def test_what_is_no_content_stays_as_it_came() -> None:
    for odd in ("?", None, {"type": "of nobody"}, {}):
        assert content_for("2024-11-05", "tools/call", {"content": [odd]}) == {"content": [odd]}
    assert content_for("2024-11-05", "prompts/get", {"messages": ["?"]}) == {"messages": ["?"]}
    assert content_for("2024-11-05", "tools/call", {"content": 1}) == {"content": 1}


def test_only_2025_11_25_is_told_how_a_tool_runs_as_a_task() -> None:
    tool = {"name": "a", "inputSchema": {"type": "object"}}
    result = {"tools": [tool, {**tool, "execution": {"taskSupport": "optional"}}]}
    for revision in ("2024-11-05", "2025-03-26", "2025-06-18"):
        assert content_for(revision, "tools/list", result) == {"tools": [tool, tool]}
