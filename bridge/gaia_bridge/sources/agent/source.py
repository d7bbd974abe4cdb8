"""One agent as a source: keeps its definitions current, and runs its code in threads of its own, within limits.

Whatever the agent does, the client gets a proper answer, and the next call works.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from gaia_bridge.calls.direct_call import DirectCall, begun_by
from gaia_bridge.calls.results.conversion import (
    completion_result,
    error_result,
    is_input_required,
    prompt_result,
    resource_result,
    tool_result,
)
from gaia_bridge.contract import ChangeListener, ClientRequest, KnowsItsEnd, KnowsPublisher, Publishable
from gaia_bridge.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AgentLoadError,
    BusyError,
    ProtocolError,
    PublishError,
    RequestError,
    ResourceNotFoundError,
    ToolError,
)
from gaia_bridge.model import (
    AS_AGENTS_SAY,
    AgentOffer,
    Change,
    ChangeKind,
    ServerFeatures,
    ServerInfo,
    SourceKind,
    SourceState,
    SourceStatus,
)
from gaia_bridge.protocol.codes import METHOD_NOT_FOUND
from gaia_bridge.protocol.kinds import LISTS
from gaia_bridge.protocol.skills import changed_files, skill_labels
from gaia_bridge.runtime.agent_runner import AgentRunner, LoopHandle
from gaia_bridge.runtime.own_loop import own_loop_of
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.ask_tool import AskTool
from gaia_bridge.sources.agent.definitions import CompiledTool, Definitions, ask_agent, read_definitions
from gaia_bridge.sources.agent.envelope import without_envelope
from gaia_bridge.sources.agent.invoker import AgentInvoker, AgentTool
from gaia_bridge.sources.agent.parts import ToolChoice, parts_of, unmet
from gaia_bridge.sources.agent.skill_part import SkillPart, skill_folders
from gaia_bridge.sources.change_queue import ChangeQueue
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_types import JSON, copied

logger = logging.getLogger(__name__)

_IDLE = 100
"""The least wait between two looks at the folders of skills, as a multiple of a look's duration: they may be large."""


class _Runners(NamedTuple):
    """The threads of one agent, on the same loop: those of chats are beside those of tools, so that neither wait."""

    calls: AgentRunner
    reader: AgentRunner
    chats: AgentRunner


class AgentSource:
    """Publishes one agent. Implements `gaia_bridge.contract.Source`.

    Args:
        own_files: Returns the files that the process itself loads; the agent is asked not to change them.
        offer: The choice of the published tools, where that is not left to the agent.
        checks: Whether everything that `offer` wants has to be there.
    """

    kind = SourceKind.AGENT

    def __init__(
        self,
        agent: Publishable,
        name: str,
        limits: AgentLimits,
        own_files: Callable[[], Iterable[Path]] = tuple,
        offer: AgentOffer = AS_AGENTS_SAY,
        checks: bool = False,
    ) -> None:
        self.agent: Any = agent
        self._offer = offer
        self._limits = limits
        self._checks = checks
        self._parts = self._parts_of(agent)
        self._choice = ToolChoice(agent, offer)
        self.name = name
        self._own_files = own_files
        self._runners = self._new_runners(agent)
        self._definitions = Definitions(ServerFeatures(ServerInfo(name, "")))
        self._read_at = 0.0
        self._reading = anyio.Lock()
        self._listeners: dict[object, ChangeListener] = {}
        self._invoker = AgentInvoker(self._runners.calls, limits)
        self._announcements: ChangeQueue
        self._publisher: _Publisher
        self._retiring: TaskGroup | None = None

    @property
    def chats(self) -> AgentRunner:
        """The threads of its chats."""
        return self._runners.chats

    async def ask(self, method: str) -> Any:
        """Call one more method of the agent and return its result as JSON; `None` if it has no such method. Bounded.

        Raises:
            ToolError: The method failed.
        """
        return await ask_agent(self.agent, self._runners.reader, self._limits, method)

    @property
    def features(self) -> ServerFeatures:
        """The definitions of the agent, as last read."""
        return self._definitions.features

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of all tools that can be chosen from, published or not."""
        return self._definitions.tool_names

    @property
    def can_be_asked(self) -> bool:
        """Whether the agent has a tool that asks it."""
        return any(isinstance(part, AskTool) for part in self._parts)

    @property
    def status(self) -> SourceStatus:
        """Always ready: an agent is there as soon as it is published."""
        return SourceStatus(SourceState.READY)

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` after every change; return an idempotent function that stops it."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Publish the agent until cancelled. Reports started once the definitions were read."""
        self._announcements = announcements = ChangeQueue()
        self._publisher = self._new_publisher()
        try:
            await self._read()
            for kind in LISTS:
                self._emit(Change(kind))
            await self._tell(self.agent, self._runners.reader, "on_mcp_published", self._publisher)
            async with anyio.create_task_group() as self._retiring:
                if self._skills is not None:
                    self._retiring.start_soon(self._watch_skills)
                task_status.started()
                while True:
                    change = await announcements.get()
                    if change.kind.is_list:
                        await self._read()
                    self._emit(change)
        finally:
            self._retiring = None
            self._invoker.close()
            await self._leave(self.agent, self._publisher, self._runners)

    async def replace(self, agent: Publishable, *, for_good: bool = False) -> None:
        """Publish another agent in the place of this one, once its definitions were read. Announce the differences.

        Calls in flight end with the old agent; afterwards its hook `on_mcp_unpublished` is called.

        Args:
            for_good: Whether nobody else uses the old one; then its hook `on_mcp_replaced` is called, too.

        Raises:
            AgentLoadError: Its definitions cannot be read. Nothing has changed.
            PublishError: This source does not run.
        """
        retiring = self._retiring
        if retiring is None:
            raise PublishError(self.name, "it is not published, so that nothing can take its place")
        parts, choice, runners = self._parts_of(agent), ToolChoice(agent, self._offer), self._new_runners(agent)
        try:
            async with self._reading:
                definitions = await read_definitions(agent, runners.reader, self._limits, None, parts, choice.has)
                if failed := next(
                    (item for item in definitions.features.left_out if item.name.startswith("all of get_mcp_")), None
                ):
                    raise AgentLoadError(self.name, f"{failed.name} cannot be read: {failed.reason}")
                if self._retiring is not retiring:  # it was removed meanwhile
                    raise PublishError(self.name, "it was removed while it was being replaced")
                before = self.features
                old = (self.agent, self._publisher, self._runners)
                self.agent, self._parts, self._choice, self._definitions = agent, parts, choice, definitions
                self._runners, self._publisher, self._read_at = runners, self._new_publisher(), time.monotonic()
                self._invoker.move_to(runners.calls)
                retiring.start_soon(self._retire, *old, for_good)
        except BaseException:
            if self._runners is not runners:
                for runner in runners:
                    runner.close()
            raise
        self._emit_differences(before)
        await self._tell(self.agent, self._runners.reader, "on_mcp_published", self._publisher)

    async def settle(self, *, listed_once: bool = False) -> None:
        """Do nothing: an agent is published only after its definitions were read."""

    async def learn(self) -> None:
        """Do nothing: the definitions were read when the agent was published."""

    async def seek(self) -> None:
        """Read the definitions again, as `refresh` does."""
        await self.refresh()

    @property
    def is_due(self) -> bool:
        """Whether the definitions are old, or there are folders of skills to look at."""
        return self._skills is not None or not self._is_fresh

    async def refresh(self) -> None:
        """Read the definitions again if they are older than `definitions_max_age`, and announce the changes."""
        if not self._reading.locked() and (not self._is_fresh or await self._skills_changed()):
            await self._read_anew()

    @property
    def _is_fresh(self) -> bool:
        return time.monotonic() - self._read_at < self._limits.definitions_max_age

    async def _read_anew(self) -> None:
        before = self.features
        await self._read()
        self._emit_differences(before)

    async def _skills_changed(self) -> bool:
        skills = self._skills
        return skills is not None and await anyio.to_thread.run_sync(skills.is_changed)

    async def _watch_skills(self) -> None:
        """Announce changes of the folders, for clients that do not list again by themselves."""
        took = 0.0
        while True:
            await anyio.sleep(max(self._limits.skill_interval, _IDLE * took))
            began = time.monotonic()
            has_changed = await self._skills_changed()
            took = time.monotonic() - began
            if has_changed:
                await self._read_anew()

    @property
    def _skills(self) -> SkillPart | None:
        return next((part for part in self._parts if isinstance(part, SkillPart)), None)

    def _parts_of(self, agent: Publishable) -> tuple[Any, ...]:
        folders, parts = skill_folders(agent), parts_of(agent, self._offer)
        return (*parts, SkillPart(folders, self._limits)) if folders else parts

    def _emit_differences(self, before: ServerFeatures) -> None:
        old, new = _announced(before), _announced(self.features)
        for kind in old:
            if old[kind] != new[kind]:
                self._emit(Change(kind))
        if before.skills != self.features.skills:
            for uri in changed_files(before.skills, self.features.skills):
                self._emit(Change(ChangeKind.RESOURCE_UPDATED, uri))

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        """Validate the arguments, run the tool, and return its result or a defined failure.

        Raises:
            ProtocolError: There is no such tool, or the agent answered with a protocol error.
        """
        what = f"tool '{name}'"
        try:
            if (begun := begun_by(self, request)) is not None:
                return await self._invoker.take_over(begun, request, what, begun.route.deadline)
            tool = self._definitions.tools.get(name)
            if tool is None:
                raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
            arguments, problems = _arguments_for(tool, arguments)
            if problems:
                return error_result(f"The arguments do not fit the input schema of {what}:\n{problems}")
            call, convert = self._work(tool, name, arguments)
            return await self._invoker.perform(call, request, what, convert, tool.timeout)
        except ProtocolError:
            raise
        except RequestError as error:
            return error_result(str(error))

    def direct_tool(self, name: str) -> AgentTool | None:
        """Return the way for direct calls of a tool."""
        tool = self._definitions.tools.get(name)
        if tool is None:
            return None
        return AgentTool(self, name, tool.timeout or self._limits.call_timeout, self._begin, self._invoker)

    def _begin(self, call: DirectCall, name: str, arguments: JSON) -> bool:
        """Run a tool for a direct call, if its arguments fit and there is room."""
        tool = self._definitions.tools.get(name)
        if tool is None:
            return False
        arguments, problems = _arguments_for(tool, arguments)
        return not problems and self._invoker.begin(call, *self._work(tool, name, arguments))

    def _work(self, tool: CompiledTool, name: str, arguments: JSON) -> tuple[Callable[[], Any], Callable[[Any], JSON]]:
        """Return the function that runs a tool, and the one that converts its value."""
        agent, most = self._agent_of("tool", name), self._limits.result_bytes
        # A copy: an agent that changes its arguments must not change those of further rounds.
        return (
            lambda: agent.execute_mcp_tool(name, copied(arguments)),
            lambda value: _with_promised_output(tool, value, most),
        )

    async def get_prompt(self, name: str, arguments: dict[str, str], request: ClientRequest) -> JSON:
        """Fill in a prompt. For an agent without the hook, return its description and the arguments.

        Raises:
            ProtocolError: No such prompt, a required argument is missing, or the agent failed.
        """
        definition = next((prompt for prompt in self.features.prompts if prompt["name"] == name), None)
        if definition is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name}")
        listed: list[JSON] = definition.get("arguments") or []
        missing = [item["name"] for item in listed if item.get("required") and item["name"] not in arguments]
        if missing:
            raise ProtocolError(INVALID_PARAMS, f"Prompt '{name}' needs the arguments: {', '.join(missing)}")
        description = definition.get("description")
        hook = getattr(self._agent_of("prompt", name), "get_mcp_prompt", None)
        if hook is None:
            lines = [description or name, *(f"{key}: {value}" for key, value in arguments.items())]
            return prompt_result("\n".join(lines), description, self._limits.result_bytes)
        call, most = partial(hook, name, arguments), self._limits.result_bytes
        return await self._perform(
            call, request, f"prompt '{name}'", lambda value: prompt_result(value, description, most)
        )

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        """Read a resource.

        Raises:
            ResourceNotFoundError: There is nothing at that URI, or the agent has no hook to read it.
            ProtocolError: The agent failed.
        """
        agent = self._agent_of("resource", uri)
        if (skills := self._skills) is not None and (agent is skills or (not self._lists(uri) and skills.has(uri))):
            return await self._read_skill(skills, uri, request)
        hook = getattr(agent, "read_mcp_resource", None)
        hooks = [read for part in self._parts if (read := getattr(part, "read_mcp_resource", None)) is not None]
        if agent is self.agent and hooks and not self._lists(uri):
            hook = partial(_read_by_any, hooks if hook is None else [hook, *hooks])
        if hook is None:
            lacks = f"{uri} is listed, and the agent has no method read_mcp_resource" if self._lists(uri) else ""
            raise ResourceNotFoundError(uri, lacks)
        mime_type = next((item.get("mimeType") for item in self.features.resources if item["uri"] == uri), None)
        call, most = partial(hook, uri), self._limits.result_bytes
        return await self._perform(
            call, request, f"resource '{uri}'", lambda value: resource_result(value, uri, mime_type, most)
        )

    async def _read_skill(self, skills: SkillPart, uri: str, request: ClientRequest) -> JSON:
        """Read a file of a skill. If the skill changed just now, list it anew first, so that the list fits the file."""
        most = 2 * self._limits.skill_bytes  # in Base64
        call = partial(skills.read_mcp_resource, uri)
        result = await self._perform(
            call, request, f"resource '{uri}'", lambda value: resource_result(value, uri, None, most)
        )
        if skills is self._skills and skills.is_ahead:
            await self._read_anew()
        return result

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Refuse: agents have no methods beyond the core protocol."""
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        """Return suggested values for an argument; none if the agent has no hook.

        Raises:
            ProtocolError: The agent failed.
        """
        is_prompt = ref.get("type") == "ref/prompt"
        key = ("prompt", str(ref.get("name"))) if is_prompt else ("resource template", str(ref.get("uri")))
        hook = getattr(self._agent_of(*key), "complete_mcp_argument", None)
        name, most = argument["name"], self._limits.result_bytes
        if hook is None:
            return completion_result(None, most)
        call = partial(hook, ref, name, argument["value"], context)
        return await self._perform(
            call, request, f"completion of '{name}'", lambda value: completion_result(value, most)
        )

    async def _perform(
        self, call: Callable[[], Any], request: ClientRequest, what: str, convert: Callable[[Any], JSON]
    ) -> JSON:
        """Run agent code whose results have no place for a failure: prompts, resources, completions."""
        try:
            return await self._invoker.perform(call, request, what, convert)
        except ProtocolError:
            raise
        except RequestError as error:
            raise ProtocolError(INTERNAL_ERROR, str(error)) from error

    async def subscribe(self, uri: str) -> None:
        """Do nothing: an agent announces every update, and the endpoint knows the subscribers."""

    async def unsubscribe(self, uri: str) -> None:
        """Do nothing, as with `subscribe`."""

    async def _read(self) -> None:
        async with self._reading:
            before = self.features if self._read_at else None
            self._definitions = await read_definitions(
                self.agent, self._runners.reader, self._limits, before, self._parts, self._choice.has
            )
            if before is None and self._checks and (problem := unmet(self._offer, [self])):
                raise AgentLoadError(self.name, problem)
            self._read_at = time.monotonic()
            for item in self.features.left_out:
                if before is None or item not in before.left_out:
                    logger.warning("%s: %s %s is left out: %s", self.name, item.kind, item.name, item.reason)

    def _agent_of(self, kind: str, key: str) -> Any:
        return self._definitions.owners.get((kind, key), self.agent)

    def _lists(self, uri: str) -> bool:
        return any(item["uri"] == uri for item in self.features.resources)

    def _new_runners(self, agent: object) -> _Runners:
        limits, own = self._limits, own_loop_of(agent)
        runner = AgentRunner(self.name, limits.threads, limits.queue, None if own is None else own.lease())
        return _Runners(runner, runner.beside(threads=2, queue=0), runner.beside(limits.threads, limits.queue))

    def _new_publisher(self) -> _Publisher:
        return _Publisher(LoopHandle(), self._announcements, self._own_files)

    async def _retire(self, agent: Any, publisher: _Publisher, runners: _Runners, for_good: bool) -> None:
        """Let an agent that was replaced finish its calls and chats, then end it."""
        try:
            with anyio.move_on_after(self._limits.call_timeout):
                for runner in (runners.calls, runners.chats):
                    await runner.wait_idle()
        finally:
            await self._leave(agent, publisher, runners, for_good)

    async def _leave(self, agent: Any, publisher: _Publisher, runners: _Runners, for_good: bool = False) -> None:
        with anyio.CancelScope(shield=True):
            await self._tell(agent, runners.reader, "on_mcp_unpublished", publisher)
            if for_good and isinstance(agent, KnowsItsEnd):
                await self._run_hook(runners.reader, agent.on_mcp_replaced, "on_mcp_replaced")
            for runner in runners:
                runner.close()
            await runners.calls.wait_closed(self._limits.farewell)

    async def _tell(self, agent: Any, reader: AgentRunner, hook: str, publisher: _Publisher) -> None:
        if isinstance(agent, KnowsPublisher):
            await self._run_hook(reader, partial(getattr(agent, hook), publisher), hook)

    async def _run_hook(self, reader: AgentRunner, tell: Callable[[], object], hook: str) -> None:
        with anyio.move_on_after(self._limits.definitions_timeout), suppress(BusyError):
            outcome = await reader.run(tell, copy_context())
            if outcome.error is not None:
                logger.error("%s: %s failed", self.name, hook, exc_info=outcome.error)

    def _emit(self, change: Change) -> None:
        for listener in list(self._listeners.values()):
            listener(change)


class _Publisher:
    """Implements `gaia_bridge.contract.Publisher`: brings announcements from any thread to the source's task."""

    def __init__(self, loop: LoopHandle, announcements: ChangeQueue, own_files: Callable[[], Iterable[Path]]) -> None:
        self._loop = loop
        self._announcements = announcements
        self.own_files = own_files

    def tools_changed(self) -> None:
        self._tell(Change(ChangeKind.TOOLS))

    def prompts_changed(self) -> None:
        self._tell(Change(ChangeKind.PROMPTS))

    def resources_changed(self) -> None:
        self._tell(Change(ChangeKind.RESOURCES))

    def resource_updated(self, uri: str) -> None:
        self._tell(Change(ChangeKind.RESOURCE_UPDATED, valid_text(str(uri))))

    def _tell(self, change: Change) -> None:
        self._loop.call_soon(partial(self._announcements.put, change))


def _announced(features: ServerFeatures) -> dict[ChangeKind, object]:
    """Return the parts of the definitions whose differences are announced, by the kind of the announcement."""
    return {
        ChangeKind.TOOLS: features.tools,
        ChangeKind.PROMPTS: (features.prompts, skill_labels(features.skills)),
        ChangeKind.RESOURCES: (features.resources, features.templates, features.skills),
        ChangeKind.INTRODUCTION: features.extras,
    }


async def _read_by_any(hooks: Iterable[Callable[[str], Any]], uri: str) -> Any:
    """Read a URI that is in no list: a template of the agent or of one of its parts leads to it."""
    for hook in hooks:
        with suppress(ResourceNotFoundError):
            value = hook(uri)
            if inspect.isawaitable(value):
                value = await value
            if value is not None:
                return value
    return None


def _arguments_for(tool: CompiledTool, arguments: JSON) -> tuple[JSON, str | None]:
    """Return arguments without an envelope, and their problems."""
    if "kwargs" in arguments:
        arguments = without_envelope(arguments, takes_kwargs=tool.takes_kwargs)
    return arguments, tool.arguments.errors(arguments)


def _with_promised_output(tool: CompiledTool, value: Any, limit: int) -> JSON:
    result = tool_result(value, limit, structured=tool.output is not None)
    if tool.output is None or result.get("isError") or is_input_required(result):
        return result
    name = tool.definition["name"]
    if "structuredContent" not in result:
        raise ToolError(f"tool '{name}' declares an output schema but returned no structured content")
    if problems := tool.output.errors(result["structuredContent"], unjudged=None):
        raise ToolError(f"tool '{name}' returned what its own output schema does not allow:\n{problems}")
    return result
