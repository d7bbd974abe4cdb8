"""The suite's fixture is complete and valid, without the suite: fast, and without npm."""

from __future__ import annotations

import jsonschema_rs
import pytest

from tests.conformance.fixture_agent import ConformanceAgent
from tests.support.on_demand import mcp_types

TOOLS = {
    "json_schema_2020_12_tool",
    "test_audio_content",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_embedded_resource",
    "test_error_handling",
    "test_image_content",
    "test_input_required_result_capabilities",
    "test_input_required_result_elicitation",
    "test_input_required_result_list_roots",
    "test_input_required_result_multi_round",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_request_state",
    "test_input_required_result_sampling",
    "test_input_required_result_tampered_state",
    "test_logging_tool",
    "test_missing_capability",
    "test_multiple_content_types",
    "test_reconnection",
    "test_sampling",
    "test_simple_text",
    "test_streaming_elicitation",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_trigger_prompt_change",
    "test_trigger_tool_change",
    "test_x_mcp_header",
}
PROMPTS = {
    "test_input_required_result_prompt",
    "test_prompt_with_arguments",
    "test_prompt_with_embedded_resource",
    "test_prompt_with_image",
    "test_simple_prompt",
}
RESOURCES = {"test://static-binary", "test://static-text", "test://watched-resource"}


@pytest.fixture
def agent() -> ConformanceAgent:
    return ConformanceAgent()


def test_every_name_that_the_suite_looks_for_is_offered_once(agent: ConformanceAgent) -> None:
    tools = [tool["name"] for tool in agent.get_mcp_tool_definitions()]
    prompts = [prompt["name"] for prompt in agent.get_mcp_prompts()]
    resources = [resource["uri"] for resource in agent.get_mcp_resources()]

    assert sorted(tools) == sorted(TOOLS)
    assert sorted(prompts) == sorted(PROMPTS)
    assert sorted(resources) == sorted(RESOURCES)
    assert [template["uriTemplate"] for template in agent.get_mcp_resource_templates()] == ["test://template/{id}/data"]


def test_every_definition_is_what_the_protocol_allows(agent: ConformanceAgent) -> None:
    for tool in agent.get_mcp_tool_definitions():
        assert mcp_types.Tool.model_validate(tool).description
        jsonschema_rs.meta.validate(tool["inputSchema"])
    for prompt in agent.get_mcp_prompts():
        assert mcp_types.Prompt.model_validate(prompt).description
    for resource in agent.get_mcp_resources():
        assert mcp_types.Resource.model_validate(resource).mime_type
    for template in agent.get_mcp_resource_templates():
        assert mcp_types.ResourceTemplate.model_validate(template).mime_type


def test_every_listed_resource_can_be_read_and_no_other(agent: ConformanceAgent) -> None:
    assert all(agent.read_mcp_resource(uri) for uri in RESOURCES)
    assert agent.read_mcp_resource("test://template/123/data")["id"] == "123"
    assert agent.read_mcp_resource("test://nonexistent") is None


def test_a_list_is_different_after_its_change_was_announced(agent: ConformanceAgent) -> None:
    tools, prompts = agent.get_mcp_tool_definitions(), agent.get_mcp_prompts()
    agent.change_tools()
    agent.change_prompts()

    assert agent.get_mcp_tool_definitions() != tools
    assert agent.get_mcp_prompts() != prompts


def test_what_the_user_typed_narrows_the_suggestions(agent: ConformanceAgent) -> None:
    ref = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}

    assert agent.complete_mcp_argument(ref, "arg1", "par", {}) == ["paris", "park", "party"]
    assert agent.complete_mcp_argument(ref, "arg1", "pari", {}) == ["paris"]
