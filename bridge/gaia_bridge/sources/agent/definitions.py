"""Reads the definitions of an agent, in the agent's own threads; checks and compiles them.

An invalid definition is left out, with a reason; the others are served.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Final

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from gaia_bridge.calls.results.conversion import failure_text, jsonable
from gaia_bridge.contract import CompletesArguments, GivesPrompts, ListsResourceTemplates, ListsSkills, ReadsResources
from gaia_bridge.errors import AgentLoadError, BusyError, ToolError
from gaia_bridge.json_schema.parts import SchemaError
from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge.model import LeftOut, ServerFeatures, ServerInfo
from gaia_bridge.protocol.definition_repairs import OUTPUT_PART, repaired, with_portable_output
from gaia_bridge.protocol.kinds import KINDS
from gaia_bridge.protocol.skills import SKILLS_EXTENSION
from gaia_bridge.protocol.vocabulary import INFO_TEXTS, definition_problem, read_server_info
from gaia_bridge.runtime.agent_runner import AgentRunner
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.skill_part import SkillPart
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_array, is_object

logger = logging.getLogger(__name__)

_METHODS = {
    "tool": "get_mcp_tool_definitions",
    "prompt": "get_mcp_prompts",
    "resource": "get_mcp_resources",
    "resource template": "get_mcp_resource_templates",
    "skill": "get_mcp_skills",
}
_WITH_SKILLS: Final[Mapping[str, JSON]] = {"extensions": {SKILLS_EXTENSION: {"directoryRead": True}}}
_SHOWN_NAME = 100
_DEFAULT_VERSION = "2.0.0"
"""The version of an agent that states none, as in GAIA's own `get_mcp_server_info`."""


class CompiledTool(Struct, frozen=True):
    """One tool, ready to be called."""

    definition: JSON
    arguments: SchemaValidator
    output: SchemaValidator | None
    takes_kwargs: bool
    """Whether the tool has a parameter named `kwargs`, so that an argument of that name is not VS Code's envelope."""
    timeout: float | None = None
    """Seconds for one call, if the tool has a limit of its own."""


class Definitions(Struct, frozen=True):
    """Everything one agent declares at one moment."""

    features: ServerFeatures
    tools: Mapping[str, CompiledTool] = field(default_factory=dict[str, CompiledTool])
    owners: Mapping[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])
    """The part that each definition belongs to, by kind and key; without definitions of the agent itself."""
    tool_names: tuple[str, ...] = ()
    """The names of all tools that can be chosen from, published or not."""


async def read_definitions(
    agent: Any,
    runner: AgentRunner,
    limits: AgentLimits,
    before: ServerFeatures | None = None,
    parts: Sequence[Any] = (),
    is_chosen: Callable[[str, Any], bool] = lambda name, owner: True,
) -> Definitions:
    """Read all definitions of an agent. Bounded; invalid ones are left out, with a reason.

    Args:
        before: Its earlier definitions, kept where the agent fails or does not answer in time.
        parts: More objects whose definitions are published with its own; of equal names, the first wins.
        is_chosen: Whether a tool is published, given its name and the object that it belongs to.

    Raises:
        AgentLoadError: A decorated function has the name of another definition, and there were none before.
    """
    reader = _Reader(agent, runner, limits, parts, is_first=before is None)
    agents = (agent, *parts)
    info = await reader.info(before.info if before else None)
    before = before or ServerFeatures(info)
    tools = await reader.compiled_tools(before.tools, is_chosen)
    prompts = await reader.definitions("prompt", before.prompts)
    skills = await reader.skills(before.skills)
    resources = await reader.definitions("resource", before.resources)
    templates = await reader.definitions("resource template", before.templates)
    capabilities = {"tools", "logging"}
    if prompts or any(isinstance(item, GivesPrompts) for item in agents):
        capabilities.add("prompts")
    if resources or templates or any(isinstance(item, ReadsResources | ListsResourceTemplates) for item in agents):
        capabilities.add("resources")
    # Clients read the capabilities once; the folders may be empty now, and not later.
    has_skills = bool(skills) or isinstance(agent, ListsSkills) or any(isinstance(part, SkillPart) for part in parts)
    # Skills are resources, and prompts for clients that do not support skills.
    if has_skills:
        capabilities |= {"prompts", "resources"}
    if any(isinstance(item, CompletesArguments) for item in agents):
        capabilities.add("completions")
    features = ServerFeatures(
        info=info,
        tools=tuple(tool.definition for tool in tools.values()),
        prompts=tuple(prompts),
        resources=tuple(resources),
        templates=tuple(templates),
        skills=tuple(skills),
        capabilities=frozenset(capabilities),
        extras=_WITH_SKILLS if has_skills else {},
        left_out=tuple(reader.left_out),
    )
    return Definitions(features, tools, reader.owners, tuple(reader.tool_names))


async def ask_agent(agent: Any, runner: AgentRunner, limits: AgentLimits, method: str) -> Any:
    """Call a method of an agent and return its result as JSON; `None` if there is no such method.

    Raises:
        ToolError: It failed, or did not return in time.
    """
    try:
        with anyio.fail_after(limits.definitions_timeout):
            outcome = await runner.run(
                partial(_called, agent, method),
                copy_context(),
                lambda value: jsonable(value, limits.definitions_bytes)[0],
            )
    except TimeoutError:
        raise ToolError(f"{method}() did not return within {limits.definitions_timeout:g} s") from None
    except BusyError:
        raise ToolError(f"{method}() did not return yet from an earlier call") from None
    if outcome.error is not None:
        reference = secrets.token_hex(4)
        logger.error("%s: %s failed, reference %s", runner.name, method, reference, exc_info=outcome.error)
        raise ToolError(failure_text(outcome.error, f"{method}()", reference))
    return outcome.value


class _Reader:
    """Reads the definitions of one agent once."""

    def __init__(
        self, agent: Any, runner: AgentRunner, limits: AgentLimits, parts: Sequence[Any], *, is_first: bool
    ) -> None:
        self._agent = agent
        self._parts = parts
        self._is_first = is_first
        self.owners: dict[tuple[str, str], Any] = {}
        self._decorated: dict[str, Any] = {}
        """The decorated functions behind the tools that the agent lists itself, by the tool's name."""
        self._runner = runner
        self._limits = limits
        self.left_out: list[LeftOut] = []
        self.tool_names: list[str] = []

    async def compiled_tools(
        self, before: Iterable[Mapping[str, Any]], is_chosen: Callable[[str, Any], bool]
    ) -> dict[str, CompiledTool]:
        """Return the tools that can be published, by name, in the agent's order."""
        compiled: dict[str, CompiledTool] = {}
        definitions = await self.definitions("tool", before)
        timeouts_of = {id(part): getattr(part, "timeouts", None) for part in (self._agent, *self._parts)}
        for definition in definitions:
            try:
                name = definition["name"]
                owner = self.owners.get(("tool", name), self._agent)
                self.tool_names.append(name)
                if not is_chosen(name, owner):
                    continue
                stated = (timeouts_of.get(id(part)) for part in (owner, self._decorated.get(name)))
                timeout = next((seconds[name] for seconds in stated if is_object(seconds) and name in seconds), None)
                tool = _compile(definition, self._limits.schema_bytes, timeout)
                published, fault = with_portable_output(definition)
                compiled[name] = tool if published is definition else replace(tool, definition=published)
                if fault is not None:
                    self._leave_out(OUTPUT_PART, name, fault)
            except SchemaError as error:
                self._leave_out("tool", definition["name"], str(error))
        return compiled

    async def skills(self, before: Iterable[Mapping[str, Any]]) -> list[JSON]:
        """Return the valid entries of skills; record those as left out that a part of the agent cannot publish."""
        entries = await self.definitions("skill", before)
        for part in self._parts:
            if isinstance(part, SkillPart):
                for name, reason in part.left_out:
                    self._leave_out("skill", name, reason)
        return entries

    async def definitions(self, kind: str, before: Iterable[Mapping[str, Any]]) -> list[JSON]:
        """Return the valid definitions of a kind: none if there is no method for them, `before` if that fails."""
        method = _METHODS[kind]
        try:
            listed = [(part, item) for part in (self._agent, *self._parts) for item in await self._listed(part, method)]
        except ToolError as error:
            self._leave_out(kind, f"all of {method}()", str(error))
            return [dict(definition) for definition in before]
        valid: dict[str, JSON] = {}
        for number, (part, item) in enumerate(listed):
            name = f"#{number + 1}"
            problem: str | None = "it is not an object"
            if is_object(item):
                definition = repaired(kind, item)
                name = str(item.get(KINDS[kind].key, name))[:_SHOWN_NAME]
                problem = definition_problem(kind, definition)
                if name in valid:
                    if self._is_same(kind, name, part, valid[name] == definition):
                        continue
                    problem = f"another {kind} has the same {KINDS[kind].key}"
                if problem is None:
                    valid[name] = definition
                    if part is not self._agent:
                        self.owners[kind, name] = part
                    continue
            self._leave_out(kind, name, problem or "")
        return list(valid.values())

    def _is_same(self, kind: str, name: str, part: Any, is_equal: bool) -> bool:
        """Return whether an agent lists a definition for its own decorated function, which is then called.

        For a tool, the agent is called, which may have something to do before and after.

        Raises:
            AgentLoadError: The two definitions differ, and this is the first reading.
        """
        places: Mapping[tuple[str, str], str] | None = getattr(part, "places", None)
        if places is None:
            return False
        if is_equal:
            if kind == "tool":
                self._decorated[name] = part
            else:
                self.owners[kind, name] = part
            return True
        if self._is_first:
            kept = self.owners.get((kind, name), self._agent)
            others: Mapping[tuple[str, str], str] = getattr(kept, "places", None) or {}
            other = others.get((kind, name), f"{type(kept).__name__}.{_METHODS[kind]}()")
            problem = f"{kind} {name!r} is defined twice: by {places[kind, name]} and by {other}"
            raise AgentLoadError(self._runner.name, problem, "give one of them another name")
        return False

    async def info(self, before: ServerInfo | None) -> ServerInfo:
        """Return the server info of the agent, with defaults for the fields that it does not state."""
        try:
            stated = await ask_agent(self._agent, self._runner, self._limits, "get_mcp_server_info")
        except ToolError as error:
            self._leave_out("server info", "all of get_mcp_server_info()", str(error))
            if before is not None:
                return before
            stated = None
        sent: JSON = stated if is_object(stated) else {}
        texts = {key: str(sent[key]) for key in (*INFO_TEXTS, "instructions") if sent.get(key) not in (None, "")}
        default = f"GAIA {type(self._agent).__name__}"
        info, problem = read_server_info({**sent, **texts}, default, _DEFAULT_VERSION, texts.get("instructions"))
        if problem:
            self._leave_out("server info", "icons and websiteUrl", problem)
        return info

    async def _listed(self, agent: Any, method: str) -> list[Any]:
        listed = await ask_agent(agent, self._runner, self._limits, method)
        if listed is not None and not is_array(listed):
            raise ToolError(f"{method}() returned {type(listed).__name__} where a list was expected")
        if listed is not None and len(listed) > self._limits.definitions:
            raise ToolError(
                f"{method}() returned {len(listed):,} definitions; at most {self._limits.definitions:,} may be"
            )
        return list(listed or ())

    def _leave_out(self, kind: str, name: str, reason: str) -> None:
        self.left_out.append(LeftOut(kind, name, reason))


def _called(agent: Any, method: str) -> Any:
    function: Callable[[], Any] | None = getattr(agent, method, None)
    return function() if callable(function) else None


def _compile(definition: JSON, schema_limit: int, timeout: float | None) -> CompiledTool:
    schema: JSON = definition["inputSchema"]
    output = definition.get("outputSchema")
    size = len(to_json([schema, output]))
    if size > schema_limit:
        raise SchemaError(f"its schemas have {size:,} bytes; at most {schema_limit:,} are published")
    properties = schema.get("properties")
    return CompiledTool(
        definition=definition,
        arguments=SchemaValidator(schema),
        output=None if output is None else SchemaValidator(output),
        takes_kwargs=is_object(properties) and "kwargs" in properties,
        timeout=timeout,
    )
