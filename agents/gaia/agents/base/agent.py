"""The base of all agents: a system prompt, a console and tools. Building one needs no model and no network."""

from __future__ import annotations

from typing import Any

from gaia.agents.base.console import AgentConsole, Console, SilentConsole
from gaia.agents.base.tools import ToolRegistry, describe_tools

__all__ = ["Agent"]


class Agent:
    """Base class of agents (document 001).

    A subclass says what it is by overriding three hooks, each of which has a default:

        class WeatherAgent(Agent):
            def _get_system_prompt(self):
                return "You know the weather."

            def _create_console(self):
                return SilentConsole()

            def _register_tools(self):
                @tool
                def forecast(city: str) -> str:
                    '''Tell tomorrow's weather.'''
                    return self.look_up(city)

    Mixins may stand before or behind `Agent` among the bases: options that `Agent` does not know go on to the next
    class. When a mixin behind it is initialised, `silent_mode`, `debug`, `console` and `tool_registry` are there;
    the agent's own tools are registered afterwards.

    Args:
        silent_mode: Print nothing, unless `_create_console` is overridden.
        debug: Whether whoever builds the agent wants to see what it does.
        **kwargs: Options of mixins.

    Raises:
        TypeError: An option that no base class knows.
    """

    console: Console
    """Where the agent talks to the person who runs it."""
    tool_registry: ToolRegistry
    """The tools that this agent's model may call."""

    def __init__(self, *, silent_mode: bool = False, debug: bool = False, **kwargs: Any) -> None:
        self.silent_mode = silent_mode
        self.debug = debug
        self.tool_registry = ToolRegistry(type(self).__name__)
        self.console = self._create_console()
        self._system_prompt: str | None = None
        if kwargs and getattr(super().__init__, "__objclass__", None) is object:
            unknown = ", ".join(sorted(kwargs))
            raise TypeError(f"{type(self).__name__} does not know {unknown}; Agent takes silent_mode and debug")
        super().__init__(**kwargs)
        with self.tool_registry.filling():
            self._register_tools()

    @property
    def system_prompt(self) -> str:
        """What the model is told first: `_get_system_prompt`, then the list of tools. Composed on first use."""
        if self._system_prompt is None:
            parts = [self._get_system_prompt()]
            if tools := self.tool_registry.snapshot():
                parts.append(f"Tools:\n{describe_tools(tools)}")
            self._system_prompt = "\n\n".join(part for part in parts if part)
        return self._system_prompt

    def rebuild_system_prompt(self) -> None:
        """Compose the system prompt anew when it is next read: call it after tools came or went."""
        self._system_prompt = None

    def _get_system_prompt(self) -> str:
        """Hook: who the agent is and how it should work. Default: nothing."""
        return ""

    def _create_console(self) -> Console:
        """Hook, called while the agent is built: its console. Default: `silent_mode` decides."""
        return SilentConsole() if self.silent_mode else AgentConsole()

    def _register_tools(self) -> None:
        """Hook, called while the agent is built: `tool` functions registered in here belong to this agent only."""
