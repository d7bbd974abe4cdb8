"""The base of all agents: a system prompt, a console, tools, and conversations. Building one needs no model yet."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from gaia.agents.base.console import AgentConsole, Console, SilentConsole
from gaia.agents.base.gaia_calls import GaiaCalls, QueryResult
from gaia.agents.base.gaia_options import GAIA_DEFAULTS, gaia_options, meaning_of
from gaia.agents.base.tool_class import Tool
from gaia.agents.base.tools import ToolEntry, ToolRegistry, given_entry, is_published_alone, method_entries
from gaia.agents.chat.limits import DEFAULT_SESSION, SERVED_SESSION, ChatLimits
from gaia.agents.chat.options import ChatOptions
from gaia.agents.chat.prompts import compose, is_deferred
from gaia.agents.chat.requests import AgentHooks, TurnRequest
from gaia_bridge.model import AS_AGENTS_SAY, AgentOffer
from gaia_bridge.protocol.meta import is_model_visible
from gaia_bridge.text.json_types import JSON

if TYPE_CHECKING:
    from gaia.agents.chat.engine import ChatEngine
    from gaia.agents.chat.sessions import AgentSession
    from gaia.llm.model import ChatModel
    from gaia_bridge.chat_types import ChatRequest, Piece
    from gaia_bridge.contract import AgentLike
    from gaia_bridge_cli.serving.serve_function import Serving

__all__ = ["Agent"]

logger = logging.getLogger(__name__)


class Agent(GaiaCalls):
    """Base class of agents.

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

        print(WeatherAgent().run("Do I need an umbrella in Graz?"))

    `run`, `stream` and `chat` are one loop: the model answers, its tool calls are run, it is told what came of them,
    until it has no more calls. Failures of tools are told to the model; failures of the model are a `ModelError`.

    Mixins may stand before or behind `Agent` among the bases: options that `Agent` does not know go on to the next
    class. When a mixin behind it is initialised, `silent_mode`, `debug`, `console` and `tool_registry` are there;
    the agent's own tools are registered afterwards.

    Args:
        silent_mode: Print nothing, unless `_create_console` is overridden.
        debug: Whether whoever builds the agent wants to see what it does.
        model: The model's name, or anything of the shape of `gaia.llm.ChatModel`.
        base_url: Where the model's server is; by default as the environment says, else a local server.
        api_key: What it wants to see; by default as the environment says.
        tools: More tools: `Tool` objects, and functions, decorated with `tool` or not.
        system_prompt: Who the agent is, where `_get_system_prompt` is not overridden.
        agent_type: What kind of agent it is, for whoever wants to tell several apart.
        max_steps: Answers of the model in one turn; then it is asked to come to an end.
        deferred_tools: Whether the model searches for its tools, however few they are.
        tool_threshold: From how many tools on it does so.
        ranked_search: Whether it is given a search by words, too (`tool_search`).
        confirm_destructive: Whether a person is asked before a tool runs that says that it may destroy something.
        session_timeout: Seconds without activity after which a session is stale.
        max_sessions: How many sessions there may be.
        session_file: Where sessions are kept that outlive the process (SQLite).
        chat_limits: Deadlines and bounds of conversations.
        **kwargs: Options of mixins, and those of AMD GAIA's `Agent`: `model_id` is the model's name, `use_claude` with
            `claude_model`, and `use_chatgpt`, name a server, `output_handler` is the console, `max_output_tokens`
            bounds an answer. The others have no effect here, which the log tells once. All are attributes of the agent.

    Raises:
        TypeError: An option that no base class knows, or a tool or model that is none.
        ValueError: A number of steps or sessions that leaves none.
    """

    console: Console
    """Where the agent talks to the person who runs it."""
    tool_registry: ToolRegistry
    """The tools that this agent's model may call."""

    mcp_tools: ClassVar[bool | Collection[str] | None] = None
    """The tools that MCP clients may call: all, none, or those of these names. By default all, but none of an agent
    that lists its tools for clients itself (`get_mcp_tool_definitions`)."""
    mcp_ask: ClassVar[bool | str | None] = None
    """Whether MCP clients have a tool that asks the agent, or the name of that tool (`ask`). By default they have; of
    an `MCPAgent`, if it says who it is (`_get_system_prompt`) and does not list its tools itself."""
    mcp_ask_description: ClassVar[str] = ""
    """The description of that tool; by default the first paragraph of the class's docstring."""

    def __init__(
        self,
        *,
        silent_mode: bool = False,
        debug: bool = False,
        model: ChatModel | str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        system_prompt: str = "",
        agent_type: str = "",
        max_steps: int | None = None,
        deferred_tools: bool = False,
        tool_threshold: int = 15,
        ranked_search: bool = False,
        confirm_destructive: bool = True,
        session_timeout: float = 3_600,
        max_sessions: int = 1_000,
        session_file: Path | str | None = None,
        chat_limits: ChatLimits | None = None,
        **kwargs: Any,
    ) -> None:
        if model is not None and not isinstance(model, str) and not hasattr(model, "stream"):
            raise TypeError(
                f"{model!r} is no model; expected its name, or an object of the shape of gaia.llm.ChatModel"
            )
        classes = type(self).__mro__
        options = gaia_options(kwargs, classes[classes.index(Agent) + 1 :])
        meaning = meaning_of(options, model, base_url)
        self._keep_gaia_options(options, max_steps)
        self.silent_mode = silent_mode
        self.debug = debug
        self.agent_type = agent_type
        self._chat_options = ChatOptions(
            meaning.model if model is None else model,
            meaning.base_url,
            api_key,
            max_steps,
            deferred_tools,
            tool_threshold,
            ranked_search,
            confirm_destructive,
            session_timeout,
            max_sessions,
            session_file,
            chat_limits or ChatLimits(),
            options.get("max_output_tokens"),
        )
        self._given_prompt = system_prompt
        self._own_prompt: str | None = None
        self.tool_registry = ToolRegistry(type(self).__name__)
        handler: Console | None = options.get("output_handler")
        self.console = self._create_console() if handler is None else handler
        self._engine: ChatEngine | None = None
        self._is_closed = False
        self._making_engine = threading.Lock()
        if kwargs and getattr(super().__init__, "__objclass__", None) is object:
            unknown = ", ".join(sorted(kwargs))
            raise TypeError(f"{type(self).__name__} does not know {unknown}; no base class takes it (see help(Agent))")
        super().__init__(**kwargs)
        with self.tool_registry.filling():
            self._register_tools()
        for entry in method_entries(self):
            self.tool_registry.register(entry)
        for tool in tools:
            self.tool_registry.register(_entry_of(tool))

    # Conversation

    def run(self, prompt: str, *, session_id: str = DEFAULT_SESSION, max_steps: int | None = None) -> str:
        """Let the agent work on something, and wait for its answer.

        Args:
            prompt: What it is asked or told.
            session_id: Which conversation this continues; `clear_session_history` begins it anew.
            max_steps: As for the agent, for this turn.

        Returns:
            The answer.

        Raises:
            ModelError: The model gave none; says what to start or set. The conversation is as it was before.
        """
        return self._chat.run(TurnRequest.of(prompt, session_id, True, max_steps)).text

    def process_query(
        self,
        user_input: str,
        max_steps: int | None = None,
        trace: bool = False,
        filename: str | None = None,
        *,
        session_id: str = DEFAULT_SESSION,
    ) -> QueryResult:
        """Another name of `run`, for callers who know GAIA.

        Args:
            user_input: What it is asked or told.
            max_steps: As for `run`.
            trace: Nothing is written: what was said is in `get_session_history()`.
            filename: As `trace`.
            session_id: As for `run`.

        Returns:
            The answer, a text that also reads as GAIA's mapping: `answer["result"]`.

        Raises:
            ModelError: As for `run`.
        """
        if trace or filename is not None:
            logger.debug("process_query writes no trace; get_session_history() has what was said")
        return QueryResult(self.run(user_input, session_id=session_id, max_steps=max_steps))

    def stream(self, prompt: str, *, session_id: str = DEFAULT_SESSION, max_steps: int | None = None) -> Generator[str]:
        """As `run`, but yield the text in pieces, as it comes. Whoever stops reading ends the turn.

        Raises:
            ModelError: The model gave no answer.
        """
        return self._chat.stream(TurnRequest.of(prompt, session_id, True, max_steps))

    async def chat(
        self,
        user_input: str,
        session_id: str = DEFAULT_SESSION,
        create_if_missing: bool = True,
        *,
        max_steps: int | None = None,
    ) -> str:
        """As `run`, without blocking the event loop. Works on any event loop.

        Args:
            user_input: What the agent is asked or told.
            session_id: Which conversation this continues.
            create_if_missing: Whether there may be no such session yet.
            max_steps: As for the agent, for this turn.

        Raises:
            ValueError: There is no such session, and `create_if_missing` is false.
            ModelError: The model gave no answer.
        """
        return (await self._chat.chat(TurnRequest.of(user_input, session_id, create_if_missing, max_steps))).text

    def answer_chat(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """Answer a client of the bridge; see `gaia_bridge.chat_types.AnswersChats`."""
        return self._chat.answer(request)

    # What those know who serve the agent's conversations (`gaia_bridge.chat_types.KeepsChats`)

    @property
    def keeps_chats(self) -> bool:
        """Whether conversations outlive the process: there is a `session_file`."""
        return self._chat_options.session_file is not None

    def describe_chat(self, session_id: str, about: dict[str, Any]) -> None:
        """Remember what a conversation is about."""
        self._chat.sessions.create(f"{SERVED_SESSION}{session_id}", metadata=about)

    def list_chats(self) -> list[dict[str, Any]]:
        """List the served conversations, by the names that whoever serves the agent gave them."""
        sessions = [item for item in self._chat.sessions.summaries() if item["session_id"].startswith(SERVED_SESSION)]
        return [{**item, "session_id": item["session_id"].removeprefix(SERVED_SESSION)} for item in sessions]

    def get_chat(self, session_id: str) -> list[JSON] | None:
        """Return the messages of a served conversation, without the system message; `None` if there is no such one."""
        try:
            session = self._chat.sessions.take(f"{SERVED_SESSION}{session_id}", create=False)
        except ValueError:
            return None
        return copy.deepcopy(session.history)

    def end_chat(self, session_id: str) -> None:
        """Forget a served conversation."""
        self._chat.sessions.destroy(f"{SERVED_SESSION}{session_id}")

    # Publication

    def get_mcp_parts(self, offer: AgentOffer = AS_AGENTS_SAY) -> list[AgentLike]:
        """Return the parts of this agent for MCP clients beside its own methods: its tools, and a tool that asks it.

        Args:
            offer: What counts more than `mcp_tools` and `mcp_ask`.
        """
        from gaia_bridge.sources.agent.ask_tool import AskTool
        from gaia_bridge.sources.agent.parts import refuse_unbuilt
        from gaia_bridge.sources.agent.registry_tools import RegistryTools

        parts: list[AgentLike] = []
        lists = getattr(type(self), "get_mcp_tool_definitions", None)
        by_hand = lists is not None and (lists.__module__ or "").rpartition(".")[0] != __package__  # else it is ours
        if not by_hand and "tool_registry" not in vars(self):
            refuse_unbuilt(self)
        chosen = self.mcp_tools if offer.tools is None else offer.tools
        chosen = not by_hand if chosen is None else chosen
        if chosen is not False:
            decorated = frozenset(entry["name"] for entry in method_entries(self))
            parts.append(RegistryTools(lambda: self._published_tools(decorated), chosen, self.confirm_mcp_tool))
        asked = self.mcp_ask if offer.ask is None else offer.ask and (self.mcp_ask or True)
        if asked is None:
            asked = lists is None or (not by_hand and self._says_who_it_is())
        if asked is not False:
            name = asked if isinstance(asked, str) else "ask"
            parts.append(AskTool(self, name, self.mcp_ask_description, self._chat_options.limits.turn_timeout))
        return parts

    def confirm_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> bool:
        """Whether a tool that may destroy something may be used for a client; may block. See `_confirm_tool`."""
        return not self._chat_options.confirm_destructive or self._confirm_tool(tool_name, arguments)

    def serve(self, **options: Unpack[Serving]) -> None:
        """Publish this agent, as `gaia-bridge serve` does: the last line of a program.

            if __name__ == "__main__":
                MyAgent().serve()

        Args:
            **options: See `gaia_bridge.serve`, such as `port=8765`.

        Raises:
            SystemExit: It could not be served.
        """
        from gaia_bridge import serve

        serve(self, **options)

    def _published_tools(self, decorated: Collection[str]) -> dict[str, ToolEntry]:
        """Return the tools of the registry without those that are published by themselves.

        These are the methods decorated in the class, and shared functions of a module that is served beside the agent.
        The agent publishes such a function as well if its own module has imported it.
        """
        tools, module = self.tool_registry.snapshot(), type(self).__module__
        return {
            name: entry
            for name, entry in tools.items()
            if name not in decorated and ("_owner" in entry or not is_published_alone(entry, module))
        }

    def _says_who_it_is(self) -> bool:
        return bool(self._given_prompt) or type(self)._get_system_prompt is not Agent._get_system_prompt

    def close(self) -> None:
        """End conversations, and what they hold: connections to the model, threads, the session file.

        Optional: an agent that is forgotten does so by itself. Afterwards there are no conversations any more.
        """
        with self._making_engine:
            self._is_closed, engine = True, self._engine
        if engine is not None:
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Sessions

    def create_session(
        self, session_id: str, system_message: str | None = None, metadata: dict[str, Any] | None = None
    ) -> AgentSession:
        """Make a conversation with a history and loaded tools of its own ("Session handling").

        Args:
            session_id: What it is called. If there is one already, it is kept, and given what is given here.
            system_message: Said to the model instead of the agent's own prompt.
            metadata: Whatever the application wants to know of it.

        Raises:
            ValueError: That is no name.
            SessionLimitError: There are `max_sessions` already, none of them stale.
        """
        return self._chat.sessions.create(session_id, system_message, metadata)

    def destroy_session(self, session_id: str) -> bool:
        """End a conversation; whether there was one."""
        return self._chat.sessions.destroy(session_id)

    def list_sessions(self) -> list[dict[str, Any]]:
        """List all conversations: `session_id`, `message_count`, `created_at` and `last_activity` (ISO), `metadata`."""
        return self._chat.sessions.summaries()

    def cleanup_stale_sessions(self) -> int:
        """End the conversations in which nothing happened for `session_timeout`; how many those were."""
        return self._chat.sessions.clean_up()

    def set_session_callbacks(
        self,
        on_session_created: Callable[[str], object] | None = None,
        on_session_destroyed: Callable[[str], object] | None = None,
    ) -> None:
        """Have functions called with a session's name when it is made or ended; `None` for no function."""
        self._chat.sessions.set_callbacks(on_session_created, on_session_destroyed)

    def get_session_history(self, session_id: str = DEFAULT_SESSION) -> list[JSON]:
        """Return the messages of a conversation, in OpenAI's shape, the system message first.

        Raises:
            ValueError: There is no such session.
        """
        session = self._chat.sessions.take(session_id, create=False)
        system: JSON = {"role": "system", "content": self._composed(session.system_message)}
        return [system, *copy.deepcopy(session.history)]

    def clear_session_history(self, session_id: str = DEFAULT_SESSION, keep_system: bool = True) -> None:
        """Begin a conversation anew. A turn that is being played in it is not remembered.

        Args:
            session_id: Which.
            keep_system: Whether its own system message stays.

        Raises:
            ValueError: There is no such session.
        """
        self._chat.sessions.clear(session_id, keep_system=keep_system)

    # The system prompt

    @property
    def system_prompt(self) -> str:
        """The system message: `_get_system_prompt`, read once, then how to use the present tools."""
        return self._composed(None)

    def rebuild_system_prompt(self) -> None:
        """Ask `_get_system_prompt` again when it is next needed. The tools in it are always those of the moment."""
        self._own_prompt = None

    def _composed(self, system_message: str | None) -> str:
        options, tools = self._chat_options, self._model_tools()
        own = self._read_own_prompt() if system_message is None else system_message
        return compose(own, tools, searched=is_deferred(len(tools), options.tool_threshold, options.deferred_tools))

    def _read_own_prompt(self) -> str:
        if self._own_prompt is None:
            self._own_prompt = self._get_system_prompt()
        return self._own_prompt

    def _keep_gaia_options(self, options: Mapping[str, Any], max_steps: int | None) -> None:
        """GAIA's agents read their options as attributes. What a class says of itself stays, where none was given."""
        for name, default in {**GAIA_DEFAULTS, "max_steps": max_steps}.items():
            if name in options or not hasattr(type(self), name):
                self.__dict__[name] = options.get(name, default)

    @property
    def _chat(self) -> ChatEngine:
        """The engine of conversations, made on first use: an agent that only serves its tools does without it."""
        with self._making_engine:
            if self._is_closed:
                raise RuntimeError(f"this {type(self).__name__} was closed; make a new one to converse with")
            if self._engine is None:
                from gaia.agents.chat.engine import ChatEngine

                self._engine = ChatEngine(self._hooks(), type(self).__name__, self._chat_options)
            return self._engine

    def _hooks(self) -> AgentHooks:
        return AgentHooks(
            console=lambda: self.console,
            own_prompt=lambda: self._read_own_prompt(),
            model_tools=lambda: self._model_tools(),
            confirm_tool=lambda tool_name, arguments: self._confirm_tool(tool_name, arguments),
            prepare_turn=lambda: self._prepare_turn(),
        )

    # Hooks

    def _get_system_prompt(self) -> str:
        """Return the agent's role and way of working, for the model (hook). Default: the argument `system_prompt`."""
        return self._given_prompt

    def _create_console(self) -> Console:
        """Return the agent's console (hook, called while the agent is built). Default: `silent_mode` decides."""
        return SilentConsole() if self.silent_mode else AgentConsole()

    def _register_tools(self) -> None:
        """Register tools (hook, called while the agent is built): `tool` functions in it belong to this agent only."""

    def _model_tools(self) -> Mapping[str, ToolEntry]:
        """Return all tools that the model may call right now (hook). May block.

        Default: the tools of the registry, but for those that MCP Apps keep from models.
        """
        return {name: entry for name, entry in self.tool_registry.snapshot().items() if is_model_visible(entry)}

    async def _prepare_turn(self) -> None:
        """Do what has to be done before each turn (hook). Runs on the background loop, and must not block it."""

    @property
    def _tool_seconds(self) -> float:
        return self._chat_options.limits.tool_timeout

    def _confirm_tool(self, tool_name: str, arguments: dict[str, Any]) -> bool:
        """Return whether a tool that may destroy something may be used (hook); may block.

        Default: the client is asked that the agent is working for, if it can be; else the console asks.
        """
        from gaia.agents.chat.confirmation import ask_to_confirm

        return ask_to_confirm(self.console, tool_name, arguments)


def _entry_of(tool: object) -> ToolEntry:
    if isinstance(tool, Tool):
        return tool.entry()
    if callable(tool):
        return given_entry(tool)
    raise TypeError(f"{tool!r} is no tool; expected a Tool, or a function with type hints and a docstring")
