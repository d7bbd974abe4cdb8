"""The builders make what they say, and MCP knows all of it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.content import (
    audio,
    elicitation_request,
    embedded_blob,
    embedded_text,
    form_params,
    image,
    input_required,
    resource_link,
    roots_request,
    sampling_request,
    text,
    tool_result,
    user_message,
)
from gaia_bridge.protocol.vocabulary import result_problem
from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import mcp_types

BLOCKS = [
    text("x"),
    image(b"\x89PNG", "image/png"),
    audio(b"RIFF", "audio/wav"),
    resource_link("file:///x", "x", title="X", mimeType="text/plain", size=3),
    embedded_text("file:///x", "x"),
    embedded_blob("file:///x", b"\x00\xff"),
]


@pytest.mark.requirement("P-11")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block["type"]))
def test_every_block_is_one_that_clients_know(block: JSON) -> None:
    result = tool_result(block)
    assert result_problem("tools/call", result) is None
    parsed = mcp_types.CallToolResult.model_validate(result, by_name=False)
    assert parsed.content[0].model_dump(by_alias=True, mode="json", exclude_none=True) == block


@given(st.binary())
def test_binary_data_comes_back_as_it_was(data: bytes) -> None:
    encoded = image(data, "x/y")["data"], audio(data, "x/y")["data"], embedded_blob("u:x", data)["resource"]["blob"]
    assert [base64.b64decode(item, validate=True) for item in encoded] == [data] * 3


def test_a_complete_result_says_whether_it_failed() -> None:
    assert tool_result(text("x")) == {"content": [text("x")], "isError": False}
    failed = tool_result(text("no"), structured={"code": 3}, is_error=True)
    assert (failed["isError"], failed["structuredContent"]) == (True, {"code": 3})


def test_a_message_is_made_for_each_block_or_text() -> None:
    assert user_message("a", image(b"", "image/png")) == [
        {"role": "user", "content": text("a")},
        {"role": "user", "content": image(b"", "image/png")},
    ]


def test_properties_alone_make_a_form_in_which_all_are_required() -> None:
    properties = {"name": {"type": "string"}, "age": {"type": "integer"}}
    assert form_params("?", properties) == {
        "mode": "form",
        "message": "?",
        "requestedSchema": {"type": "object", "properties": properties, "required": ["name", "age"]},
    }


def test_a_whole_schema_is_a_form_as_it_is() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    assert form_params("?", schema)["requestedSchema"] == schema
    assert elicitation_request("?", schema) == {"method": "elicitation/create", "params": form_params("?", schema)}


def test_a_question_for_a_model_takes_text_or_messages_and_further_parameters() -> None:
    asked = sampling_request("why?", 10, temperature=0.5)
    assert asked["params"] == {"messages": user_message("why?"), "maxTokens": 10, "temperature": 0.5}
    history = [*user_message("a"), {"role": "assistant", "content": text("b")}]
    assert sampling_request(history, 10)["params"]["messages"] == history


def test_a_request_for_input_carries_what_it_was_given_and_no_more() -> None:
    assert input_required(state="s") == {"resultType": "input_required", "requestState": "s"}
    requests = {"r": roots_request()}
    assert input_required(requests) == {"resultType": "input_required", "inputRequests": requests}
    assert result_problem("tools/call", input_required(requests, "s")) is None
