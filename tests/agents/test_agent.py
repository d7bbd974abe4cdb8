"""`Agent`: built offline and at once, with three hooks, in any company of base classes."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from gaia.agents.base import Agent, ApiAgent, MCPAgent, gaia_options, tool
from gaia.agents.base.console import AgentConsole, Console, SilentConsole
from gaia.agents.base.tools import ToolRegistry


class Forwarding:
    """A mixin that takes an option and hands on the rest, as `MCPClientMixin` of the specification does."""

    def __init__(self, *args: Any, config_file: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.config_file = config_file


class TakesNothing:
    """A base class that knows nothing of cooperative initialisation."""

    def __init__(self) -> None:
        self.was_initialised = True


class Publishing(MCPAgent):
    """The two methods every MCP agent needs."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return []

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        raise ValueError(f"Unknown tool: {tool_name}")


@pytest.mark.requirement("S1-3")
def test_an_agent_is_built_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("an agent opened a socket while it was built")

    monkeypatch.setattr(socket, "socket", refuse)
    agent = Agent()
    assert (agent.silent_mode, agent.debug, agent.system_prompt) == (False, False, "")


@pytest.mark.requirement("S1-3")
@pytest.mark.parametrize(
    "bases",
    [
        (Agent,),
        (ApiAgent, Agent),
        (Publishing, Agent),
        (Publishing, ApiAgent, Agent),
        (ApiAgent, Publishing, Agent),
        (Agent, Forwarding),
        (Forwarding, Agent),
        (Publishing, Agent, Forwarding),
        (Publishing, ApiAgent, Agent, Forwarding),
        (Forwarding, Publishing, ApiAgent, Agent),
        (Agent, TakesNothing),
        (Publishing, ApiAgent, Agent, TakesNothing),
    ],
    ids=lambda bases: "-".join(base.__name__ for base in bases),
)
def test_every_mixing_order_builds_and_initialises_every_base(bases: tuple[type, ...]) -> None:
    mixed: type[Any] = type("MixedAgent", bases, {})
    options = {"config_file": "x.json"} if Forwarding in bases else {}
    agent = mixed(silent_mode=True, debug=True, **options)
    assert isinstance(agent, Agent)
    assert (agent.silent_mode, agent.debug) == (True, True)
    assert isinstance(agent.console, SilentConsole)
    assert getattr(agent, "config_file", None) == options.get("config_file")
    assert getattr(agent, "was_initialised", False) is (TakesNothing in bases)


@pytest.mark.requirement("S1-4")
def test_the_console_and_tools_hooks_run_in_the_constructor_and_the_prompt_hook_when_it_is_read() -> None:
    called: list[str] = []
    silent = SilentConsole()

    class HookedAgent(Agent):
        def _get_system_prompt(self) -> str:
            called.append("prompt")
            return "You are hooked."

        def _create_console(self) -> Console:
            called.append("console")
            return silent

        def _register_tools(self) -> None:
            called.append("tools")

    agent = HookedAgent()
    assert called == ["console", "tools"]
    assert agent.console is silent
    assert agent.system_prompt == "You are hooked."
    assert called == ["console", "tools", "prompt"]


@pytest.mark.requirement("S1-4")
def test_an_overridden_console_hook_wins_over_silent_mode() -> None:
    class TalkativeAgent(Agent):
        def _create_console(self) -> Console:
            return AgentConsole()

    assert isinstance(TalkativeAgent(silent_mode=True).console, AgentConsole)
    assert isinstance(Agent(silent_mode=True).console, SilentConsole)
    assert isinstance(Agent(silent_mode=False).console, AgentConsole)


def test_a_mixin_behind_the_agent_finds_it_ready_for_use() -> None:
    seen: dict[str, object] = {}

    class Curious:
        def __init__(self) -> None:
            seen.update(vars(self))

    class MixedAgent(Agent, Curious):
        pass

    MixedAgent(silent_mode=True, debug=True)
    assert (seen["silent_mode"], seen["debug"]) == (True, True)
    assert isinstance(seen["console"], SilentConsole)
    assert isinstance(seen["tool_registry"], ToolRegistry)


def test_the_tools_hook_finds_every_mixin_initialised() -> None:
    class ConfiguredAgent(Agent, Forwarding):
        def _register_tools(self) -> None:
            @tool
            def where() -> str:
                return self.config_file

    agent = ConfiguredAgent(silent_mode=True, config_file="x.json")
    assert agent.tool_registry["where"]["function"]() == "x.json"


def test_an_option_that_no_base_knows_is_refused_by_name() -> None:
    class MisspeltAgent(Agent):
        pass

    with pytest.raises(TypeError, match="MisspeltAgent does not know silentmode; no base class takes it"):
        MisspeltAgent(silentmode=True)


def test_the_system_prompt_is_composed_once_and_again_after_a_rebuild() -> None:
    class CountingAgent(Agent):
        composed = 0

        def _get_system_prompt(self) -> str:
            self.composed += 1
            return f"Prompt {self.composed}."

    agent = CountingAgent(silent_mode=True)
    assert (agent.system_prompt, agent.system_prompt) == ("Prompt 1.", "Prompt 1.")
    agent.rebuild_system_prompt()
    assert agent.system_prompt == "Prompt 2."


def test_a_rebuild_during_construction_does_not_call_the_prompt_hook_too_early() -> None:
    class LateAgent(Agent):
        def __init__(self) -> None:
            super().__init__(silent_mode=True)
            self.subject = "weather"

        def _register_tools(self) -> None:
            self.rebuild_system_prompt()

        def _get_system_prompt(self) -> str:
            return f"You know the {self.subject}."

    assert LateAgent().system_prompt == "You know the weather."


@pytest.mark.requirement("S3-14")
def test_the_system_prompt_lists_tools_without_repeating_the_server() -> None:
    class AcerAgent(Agent):
        def _get_system_prompt(self) -> str:
            return "You help."

        def _register_tools(self) -> None:
            @tool
            def count_words(text: str, limit: int = 3) -> int:
                """Count the words
                of a text.

                At most `limit` of them.
                """
                return min(limit, len(text.split()))

            self.tool_registry.register(
                {
                    "name": "mcp_acer_launch",
                    "description": "[MCP:acer] launch is a tool",
                    "parameters": {},
                    "atomic": True,
                    "_mcp_server": "acer",
                    "_mcp_tool_name": "launch",
                }
            )

    agent = AcerAgent(silent_mode=True)
    assert agent.system_prompt == (
        "You help.\n\nTools:\n"
        "- count_words(text: string, limit?: integer): Count the words of a text.\n"
        "- mcp_acer_launch(): launch is a tool\n\n"
        "Tools of MCP servers have long names. Call them by their names exactly as listed; when you speak of one to "
        "the user, use what stands behind it:\n"
        "- mcp_acer_launch: launch (acer)"
    )
    assert agent.tool_registry["mcp_acer_launch"]["description"] == "[MCP:acer] launch is a tool"


def test_the_system_prompt_follows_the_tools_after_a_rebuild() -> None:
    agent = Agent(silent_mode=True)
    assert agent.system_prompt == ""
    agent.tool_registry.register({"name": "blink", "description": "Blink", "parameters": {}})
    agent.rebuild_system_prompt()
    assert agent.system_prompt == "Tools:\n- blink(): Blink"


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"max_sessions": 0}, {"max_steps": -1}])
def test_numbers_that_leave_nothing_to_do_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"max_s\w+ is at least 1; got "):
        Agent(silent_mode=True, **options)


GAIA_OPTIONS: dict[str, Any] = {
    "use_claude": True,
    "use_chatgpt": True,
    "claude_model": "claude-x",
    "base_url": "http://127.0.0.1:9/v1",
    "model_id": "qwen3",
    "max_steps": 7,
    "debug_prompts": True,
    "show_prompts": True,
    "output_dir": "/tmp",
    "streaming": True,
    "show_stats": True,
    "silent_mode": True,
    "debug": True,
    "output_handler": SilentConsole(),
    "max_plan_iterations": 9,
    "max_consecutive_repeats": 9,
    "min_context_size": 32_768,
    "skip_lemonade": True,
    "device": "npu",
    "skill_set": "x",
    "resend_reasoning_across_requests": True,
    "max_output_tokens": 9,
    "context_eviction": "on",
    "context_eviction_threshold_tokens": 9,
    "context_eviction_keep_steps": 9,
    "context_eviction_min_batch_tokens": 9,
}
"""Everything that constructors of amd-gaia 0.15 to 0.25 take."""


@pytest.mark.requirement("F-291")
@pytest.mark.parametrize("bases", [(Agent,), (ApiAgent, Agent), (Publishing, ApiAgent, Agent, Forwarding)])
def test_every_option_of_gaia_is_taken_and_is_an_attribute(bases: tuple[type, ...]) -> None:
    mixed: type[Any] = type("MixedAgent", bases, {})
    for option in GAIA_OPTIONS:
        agent = mixed(**{option: GAIA_OPTIONS[option]})
        if option != "base_url":
            assert getattr(agent, option) == GAIA_OPTIONS[option]
    assert isinstance(mixed(**GAIA_OPTIONS).max_steps, int)


@pytest.mark.requirement("F-291")
def test_an_agent_built_without_options_has_those_of_gaia_as_attributes() -> None:
    class Kitchen(Agent):
        device = "oven"

    agent: Any = Kitchen()
    assert (agent.streaming, agent.max_plan_iterations, agent.model_id, agent.device) == (False, 3, None, "oven")


@pytest.mark.requirement("F-291")
@pytest.mark.parametrize(
    ("options", "model", "base_url"),
    [
        ({"model_id": "qwen3"}, "qwen3", None),
        ({"model_id": "qwen3", "model": "phi"}, "phi", None),
        ({"use_claude": True}, "claude-sonnet-5", "https://api.anthropic.com/v1"),
        ({"use_claude": True, "claude_model": "claude-x", "model_id": "q"}, "claude-x", "https://api.anthropic.com/v1"),
        ({"use_chatgpt": True, "model_id": "gpt"}, "gpt", "https://api.openai.com/v1"),
        ({"use_claude": True, "base_url": "http://proxy/v1"}, "claude-sonnet-5", "http://proxy/v1"),
    ],
)
def test_options_of_gaia_say_which_model_is_meant(options: dict[str, Any], model: str, base_url: str | None) -> None:
    meant = Agent(**options)._chat_options  # pyright: ignore[reportPrivateUsage]
    assert (meant.model, meant.base_url) == (model, base_url)


@pytest.mark.requirement("F-291")
def test_an_option_without_effect_is_told_once_and_only_where_it_asks_for_something(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gaia_options.tell.cache_clear()
    caplog.set_level("DEBUG", "gaia.agents.base.gaia_options")
    for _ in range(3):
        Agent(show_stats=True, device=None, skip_lemonade=True, max_plan_iterations=3)
    assert caplog.messages == ["option show_stats of GAIA has no effect here: the model's server shows its own"]


@pytest.mark.requirement("F-291")
def test_an_option_that_a_mixin_takes_is_the_mixins() -> None:
    class Oven:
        def __init__(self, device: str = "") -> None:
            self.heated = device

    class Kitchen(Agent, Oven):
        pass

    assert Kitchen(device="oven").heated == "oven"


@pytest.mark.requirement("F-291")
def test_what_no_gaia_knows_is_still_refused() -> None:
    with pytest.raises(TypeError, match="does not know modle_id"):
        Agent(modle_id="x")
    with pytest.raises(ValueError, match="max_output_tokens is at least 1"):
        Agent(max_output_tokens=0)
