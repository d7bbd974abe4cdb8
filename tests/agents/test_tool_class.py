"""`Tool` in the envelopes of providers."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from gaia.agents.base import Tool
from tests.support.provider_rules import violations

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"url": {"type": "string", "title": "URL"}},
    "required": ["url"],
    "additionalProperties": False,
}
OPEN = {key: value for key, value in CLOSED.items() if key != "additionalProperties"}
TOLD = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}


@pytest.fixture(autouse=True)
def no_provider_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROVIDER", raising=False)


@pytest.mark.requirement("S4-19")
def test_openai_is_told_in_the_flat_form_of_its_responses_api() -> None:
    assert Tool("fetch", "Fetches a URL", OPEN).construct_schema() == {
        "type": "function",
        "name": "fetch",
        "description": "Fetches a URL",
        "parameters": TOLD,
    }


@pytest.mark.requirement("S4-19")
def test_a_tool_is_strict_exactly_if_its_parameters_are_closed() -> None:
    declared = Tool("fetch", "Fetches a URL", CLOSED).construct_schema("openai")
    assert declared["strict"] is True
    assert declared["parameters"] == TOLD | {"additionalProperties": False}


@pytest.mark.requirement("S4-19")
def test_closed_parameters_of_which_one_is_optional_are_sent_open() -> None:
    optional: dict[str, Any] = CLOSED | {"required": []}
    declared = Tool("fetch", "", optional).construct_schema("openai")
    assert "strict" not in declared
    assert violations("openai", declared["parameters"]) == []
    assert "additionalProperties" not in declared["parameters"]


@pytest.mark.requirement("S4-19")
def test_ollama_is_told_in_the_nested_form_of_chat_completions() -> None:
    assert Tool("fetch", "Fetches a URL", CLOSED).construct_schema("ollama") == {
        "type": "function",
        "function": {"name": "fetch", "description": "Fetches a URL", "parameters": TOLD},
    }


def test_anthropic_and_gemini_have_envelopes_of_their_own() -> None:
    tool = Tool("fetch", "Fetches a URL", OPEN)
    assert tool.construct_schema("anthropic") == {"name": "fetch", "description": "Fetches a URL", "input_schema": TOLD}
    assert tool.construct_schema("claude") == tool.construct_schema("anthropic")
    assert tool.construct_schema("gemini") == {"name": "fetch", "description": "Fetches a URL", "parameters": TOLD}


def test_gemini_is_not_told_of_parameters_that_are_not_there() -> None:
    assert Tool("now", "The time").construct_schema("gemini") == {"name": "now", "description": "The time"}


def test_the_setting_provider_says_which_form_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tool = Tool("fetch", "", OPEN)
    assert "name" in tool.construct_schema()
    (tmp_path / ".env").write_text("PROVIDER=Ollama\n", "utf-8")
    assert "function" in tool.construct_schema()
    monkeypatch.setenv("PROVIDER", "anthropic")
    assert "input_schema" in tool.construct_schema()
    assert "function" in tool.construct_schema("ollama")
    monkeypatch.setenv("PROVIDER", "bard")
    with pytest.raises(ValueError, match="the provider is 'bard'; expected anthropic, gemini, ollama, openai"):
        tool.construct_schema()


def test_constructing_a_schema_changes_no_parameters() -> None:
    before = deepcopy(CLOSED)
    tool = Tool("fetch", "", CLOSED)
    for provider in ("openai", "ollama", "anthropic", "gemini"):
        tool.construct_schema(provider)
    assert tool.parameters == before


def test_a_parameter_may_be_called_self() -> None:
    class Mirror(Tool):
        def call(self, /, **kwargs: Any) -> Any:
            return kwargs

    assert Mirror("mirror").call(self=1) == {"self": 1}
