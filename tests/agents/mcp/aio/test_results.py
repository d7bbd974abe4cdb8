"""Results of MCP tools as document 002 has them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaia.mcp.aio.results import failure, outcome

TEXT = {"type": "text", "text": "said"}


@pytest.mark.requirement("S2-12")
@pytest.mark.parametrize(
    ("block", "text"),
    [
        (TEXT, "said"),
        ({"type": "text"}, ""),
        ({"type": "image", "data": "aGk=", "mimeType": "image/png"}, "[Image: image/png]"),
        ({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}, "[Audio: audio/wav]"),
        ({"type": "resource", "resource": {"uri": "a://b", "text": "inside"}}, "[Resource: a://b]"),
        ({"type": "resource", "resource": {"uri": "a://b", "blob": "aGk="}}, "[Resource: a://b]"),
        ({"type": "resource", "uri": "a://b"}, "[Resource: a://b]"),
        ({"type": "resource_link", "uri": "a://b", "name": "b"}, "[Resource: a://b]"),
        ({"type": "hologram"}, '{"type":"hologram"}'),
    ],
)
def test_each_kind_of_content_has_its_text(block: dict[str, Any], text: str) -> None:
    assert outcome({"content": [block]}) == {"success": True, "content": text}
    assert outcome({"content": [TEXT, block, TEXT]}) == {"success": True, "content": f"said\n{text}\nsaid"}


@pytest.mark.requirement("S2-13")
def test_a_result_that_says_it_failed_is_a_failure() -> None:
    assert outcome({"content": [TEXT], "isError": True}) == {"success": False, "error": "said"}
    assert outcome({"content": [TEXT], "isError": False}) == {"success": True, "content": "said"}
    assert outcome({"content": [], "isError": True}) == failure("The tool failed without saying why")


@pytest.mark.requirement("S2-13")
def test_structured_content_is_the_text_where_there_is_no_other() -> None:
    assert outcome({"content": [], "structuredContent": {"a": "ü"}}) == {"success": True, "content": '{"a":"ü"}'}
    assert outcome({"content": [TEXT], "structuredContent": {"a": 1}}) == {"success": True, "content": "said"}
    assert outcome({"structuredContent": {"why": 1}, "isError": True}) == failure('{"why":1}')


def test_a_tool_that_asks_something_has_not_succeeded() -> None:
    asked = outcome({"resultType": "input_required", "inputRequests": {}})
    assert (asked["success"], "asks for input" in asked["error"]) == (False, True)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["content", "isError", "structuredContent"]), st.recursive(
    st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)))  # fmt: skip
def test_whatever_comes_is_an_outcome(result: dict[str, Any]) -> None:
    found = outcome(result)
    assert found["success"] is (result.get("isError") is not True)
    assert isinstance(found["content" if found["success"] else "error"], str)
