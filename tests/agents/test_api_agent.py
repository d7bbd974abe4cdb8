"""`ApiAgent`: the name and the facts under which a chat client finds the agent."""

from __future__ import annotations

from typing import Any

import pytest

from gaia.agents.base import Agent, ApiAgent


def named(name: str) -> ApiAgent:
    agent: ApiAgent = type(name, (ApiAgent, Agent), {})(silent_mode=True)
    return agent


@pytest.mark.requirement("S1-9")
@pytest.mark.parametrize(
    ("class_name", "model_id"),
    [
        ("JiraAgent", "gaia-jira"),
        ("Weather", "gaia-weather"),
        ("AgentSmith", "gaia-agentsmith"),
        ("Agent", "gaia-agent"),
    ],
)
def test_the_model_id_is_made_of_the_class_name(class_name: str, model_id: str) -> None:
    assert named(class_name).get_model_id() == model_id


@pytest.mark.requirement("S1-9")
def test_the_model_info_has_both_limits_and_a_description() -> None:
    info = named("JiraAgent").get_model_info()
    assert isinstance(info["max_input_tokens"], int)
    assert isinstance(info["max_output_tokens"], int)
    assert info["description"] == "GAIA JiraAgent"


def test_the_description_is_the_first_line_of_the_class_docstring() -> None:
    class PoetAgent(ApiAgent, Agent):
        """Writes verse.

        And nothing else.
        """

    assert PoetAgent(silent_mode=True).get_model_info()["description"] == "Writes verse."


@pytest.mark.requirement("S1-9")
def test_id_and_info_can_be_overridden_and_keep_the_agent_an_agent() -> None:
    class CodeAgent(ApiAgent, Agent):
        def get_model_id(self) -> str:
            return "gaia-coder"

        def get_model_info(self) -> dict[str, Any]:
            return {**super().get_model_info(), "max_input_tokens": 32768}

    agent = CodeAgent(silent_mode=True)
    assert isinstance(agent, ApiAgent)
    assert isinstance(agent, Agent)
    assert agent.get_model_id() == "gaia-coder"
    assert agent.get_model_info()["max_input_tokens"] == 32768
