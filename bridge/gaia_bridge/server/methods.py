"""The methods of MCP that ask the sources of an endpoint for something."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY, passed
from gaia_bridge.calls.direct_call import direct_of
from gaia_bridge.calls.results.conversion import error_result, is_input_required, with_told_content
from gaia_bridge.contract import FollowsRoots, Source
from gaia_bridge.errors import INVALID_PARAMS, AnswerError, ClientCapabilityError, ProtocolError, ResourceNotFoundError
from gaia_bridge.model import SourceKind
from gaia_bridge.protocol.codes import LEGACY_RESOURCE_NOT_FOUND, METHOD_NOT_FOUND
from gaia_bridge.protocol.kinds import KIND_OF_METHOD, PROMPT, SKILL, TOOL
from gaia_bridge.protocol.meta import TASK_ID, made_task
from gaia_bridge.protocol.parameters import FORWARDED, METHOD_TABLE, Method
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, LATEST_HANDSHAKE
from gaia_bridge.protocol.shapes import OBJECT, Shape
from gaia_bridge.protocol.skills import DIRECTORY_READ, SKILLS_GET, declares_skills
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.client_results import ClientResults, lost_result
from gaia_bridge.server.instructions import INSTRUCTIONS_SCHEME, instructions_uri
from gaia_bridge.server.introduction import TASKS_EXTENSION, Introduction, capabilities_of, wait_for_offers
from gaia_bridge.server.middleware_chain import Handler, MiddlewareChain
from gaia_bridge.server.pagination import Pager, page_of_server
from gaia_bridge.server.published_search import PublishedSearch
from gaia_bridge.server.rounds import brought_to_an_end
from gaia_bridge.server.skill_methods import SkillMethods, without_skill_prompts
from gaia_bridge.server.subscriptions import Subscribers
from gaia_bridge.server.tool_search import SearchError
from gaia_bridge.settings import Settings
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_array, is_object

_TASKS: Final = "tasks/"
"""The first characters of the methods of tasks."""
_OF_EXTENSION: Final = frozenset({"tasks/cancel", "tasks/get", "tasks/update"})
"""The methods of tasks in 2026-07-28, where they are an extension. There is no list, as there is no session."""


class Row(NamedTuple):
    """A method for clients of one era, as one endpoint has it."""

    method: Method
    params: Shape
    handler: Handler


class Methods:
    """The methods of one endpoint, by the table in `protocol/parameters`. Handlers get valid parameters."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        tool_search: PublishedSearch,
        results: ClientResults,
        subscriptions: Subscribers,
        own: str,
        chain: MiddlewareChain,
    ) -> None:
        self._catalog = catalog
        self._settings = settings
        self._search = tool_search
        self._results = results
        self._subscriptions = subscriptions
        self._own = own
        self._pagers = {key: Pager(settings.pages) for key in product(KIND_OF_METHOD, (False, True), (False, True))}
        self._skills = SkillMethods(catalog, settings)
        self._chain = chain
        introduction = Introduction(catalog, settings, self._added_capabilities)
        self._tool_call = chain.around("tools/call", self._call_tool)
        behind_middleware: Mapping[str, Handler] = {
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
            "prompts/get": self._get_prompt,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "subscriptions/listen": subscriptions.listen,
            SKILLS_GET: self._skills.get,
            DIRECTORY_READ: self._skills.read_directory,
            **dict.fromkeys(KIND_OF_METHOD, self._list),
        }
        handlers = {
            "initialize": introduction.initialize,
            "ping": self._ping,
            "server/discover": introduction.discover,
            "tools/call": self._called_tool,
            **{method: chain.around(method, handler) for method, handler in behind_middleware.items()},
        }
        self._forwarding = Row(FORWARDED, OBJECT, chain.around("", self._forward))
        self._rows = {
            (name, modern): Row(method, shape, handlers[name])
            for name, method in METHOD_TABLE.items()
            for modern, shape in zip((False, True), method.shapes, strict=True)
            if shape is not None
        }

    def row(self, call: Call) -> Row:
        """Return the row of a request's method: that of forwarding, where the client has no such method here."""
        row = self._rows.get((call.method, call.modern), self._forwarding)
        return self._forwarding if row.method.is_of_skills and not self._has_skills(call) else row

    def _has_skills(self, call: Call) -> bool:
        """Return whether requests about skills are answered here: if the client was sent that, or a source has any."""
        return (
            self._catalog.server is not None
            or declares_skills(call.connection.sent_capabilities or {})  # even if its server has left since
            or declares_skills(capabilities_of(self._catalog, modern=call.modern))
        )

    def roots_changed(self, call: Call) -> None:
        """Notify the sources that the client's root folders changed."""
        for source in self._catalog.sources:
            if isinstance(source, FollowsRoots):
                source.roots_changed(call)

    def _added_capabilities(self, call: Call) -> JSON:
        return {**self._chain.capabilities, **self._results.capabilities(call)}

    async def _ping(self, call: Call) -> JSON:
        return {}

    async def _forward(self, call: Call) -> JSON:
        """Return the result of a request that the endpoint itself does not know."""
        target, is_of_tasks = None, call.method.startswith(_TASKS)
        if is_of_tasks:
            await self._catalog.settle()
        if call.connection.is_greeted and call.method not in METHOD_TABLE:
            target = target_of(self._catalog, call.method, call.params, call.connection.revision)
        if target is None:
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found", printable(call.method))
        is_own = partial(self._subscriptions.has_made, call.connection)
        if is_of_tasks and not call.modern and TASK_ID in call.params and not is_own(call.params[TASK_ID]):
            raise _no_such_task()
        source, params = target
        call.task_prefix = self._catalog.task_prefix(source)
        result = await source.forward(call.method, params, call)
        if is_input_required(result):
            return result
        if is_of_tasks and is_array(tasks := result.get("tasks")):
            result = {**result, "tasks": [task for task in tasks if is_object(task) and is_own(task.get(TASK_ID))]}
        return self._catalog.outward(source, result)

    async def _list(self, call: Call) -> JSON:
        await wait_for_offers(self._catalog, call, self._settings.clients)
        await self._catalog.refresh()
        kind = KIND_OF_METHOD[call.method]
        cursor, bridge = call.params.get("cursor"), HOPS_META_KEY in call.meta
        definitions = shown = self._catalog.definitions(kind.name, modern=call.modern, marked=bridge)
        if kind is PROMPT and declares_skills(call.client_capabilities):
            shown = without_skill_prompts(definitions)
        if kind is TOOL:
            shown = self._search.visible_tools(definitions, call)
            shown = self._results.with_reader(call, shown)
        server = self._catalog.server
        if server is not None and kind is SKILL:  # asked each time: no notification says that they changed
            return await server.forward(call.method, {} if cursor is None else {"cursor": cursor}, call)
        page: JSON
        if server is not None and shown is definitions and server.features.implementation is not None:
            page = await page_of_server(server, kind, cursor, definitions, call)
        else:
            kept = shown is definitions
            pager = self._pagers[call.method, call.modern, bridge] if kept else Pager(self._settings.pages)
            items, following = pager.page(shown, cursor)
            page = {kind.field: items} if following is None else {kind.field: items, "nextCursor": following}
        if bridge:
            page = {**page, kind.field: [passed(definition, self._own) for definition in page[kind.field]]}
        # A list that is not complete yet must not be kept.
        ttl = self._settings.list_ttl if self._catalog.is_settled else 0
        return {"resultType": "complete", "ttlMs": ttl, "cacheScope": "private", **page}

    def _called_tool(self, call: Call) -> Awaitable[JSON]:
        """Return the result of the called tool; middleware sees that tool, not our tool that calls others by name."""
        name: str = call.params["name"]
        if self._catalog.listed_tool(name) is None and self._search.is_call(name, call):
            return self._call_by_name(call)
        return self._tool_call(call)

    async def _call_by_name(self, call: Call) -> JSON:
        """Call the tool that is named in the arguments of our own tool."""
        try:
            name, arguments = await self._search.called_tool(call.params.get("arguments") or {})
        except SearchError as error:
            problem = f"{error}. {error.suggestion}"

            async def refuse(call: Call) -> JSON:
                return error_result(problem)

            return await self._chain.around("tools/call", refuse)(call)
        inner = call.with_params({**call.params, "name": name, "arguments": arguments})
        try:
            return await self._tool_call(inner)
        finally:
            call.served_by, call.task_prefix = inner.served_by, inner.task_prefix

    async def _call_tool(self, call: Call) -> JSON:
        name: str = call.params["name"]
        arguments: JSON = call.params.get("arguments") or {}
        direct = direct_of(call)
        target = self._catalog.listed_tool(name) if direct is None else direct.route.target
        if target is None:
            if (read := self._results.called(call, name, arguments)) is not None:
                return read
            if self._search.is_search(name, call):
                return await self._search.search(arguments, modern=call.modern)
            target = await self._catalog.lookup(lambda: self._catalog.tool(name), name)
        source, own = target
        call.served_by, call.task_prefix = source.name, self._catalog.task_prefix(source)
        try:
            result = await brought_to_an_end(partial(source.call_tool, own, arguments), call, self._settings.agent)
        except (AnswerError, ClientCapabilityError) as error:
            if call.modern:
                raise
            result = error_result(str(error))
        result = with_told_content(result)
        if not call.modern and "structuredContent" in result and not is_object(result["structuredContent"]):
            result = {key: value for key, value in result.items() if key != "structuredContent"}
        result = self._catalog.outward(source, result)
        if "task" in result and not call.modern and (task := made_task(result)) is not None:
            if isinstance(call, Call):  # pyright: ignore[reportUnnecessaryIsInstance] # an `OwnRequest` has no connection
                self._subscriptions.made_task(call.connection, task)
        return result

    async def _get_prompt(self, call: Call) -> JSON:
        name: str = call.params["name"]
        source, own = await self._catalog.lookup(lambda: self._catalog.prompt(name), name)
        call.served_by = source.name
        if (skill := self._catalog.skill_prompt(name)) is not None:
            return await self._skills.prompt(*skill, call)
        ask = partial(source.get_prompt, own, call.params.get("arguments") or {})
        return self._catalog.outward(source, await brought_to_an_end(ask, call, self._settings.agent))

    async def _read_resource(self, call: Call) -> JSON:
        if (kept := self._results.read(call)) is not None:
            return kept
        if (instructions := self._instructions(call)) is not None:
            return instructions
        with self._not_found_as_in_its_era(call) as public:
            source, uri = await self._skills.reader(public, call)
            call.served_by = source.name
            result = await brought_to_an_end(partial(source.read_resource, uri), call, self._settings.agent)
        return self._catalog.outward(source, result)

    def _instructions(self, call: Call) -> JSON | None:
        """Return all instructions of a source, of which clients get only the beginning; `None` for other resources."""
        uri: str = call.params["uri"]
        if not uri.startswith(INSTRUCTIONS_SCHEME):
            return None
        for name, text in self._catalog.instructions(modern=call.modern):
            if uri == instructions_uri(name):
                return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}
        return None

    @contextmanager
    def _not_found_as_in_its_era(self, call: Call) -> Generator[str]:
        """Name a missing resource by the client's URI for it, with the error code of the client's revision."""
        uri: str = call.params["uri"]
        try:
            yield uri
        except ProtocolError as problem:
            lost = lost_result(uri)
            if isinstance(problem, ResourceNotFoundError):
                error = problem
            elif lost:  # servers say in many ways that they have no such resource
                error = ResourceNotFoundError(uri)
            else:
                raise
            if error.original is not None and self._catalog.server is not None and not lost:
                raise error.original from None
            words = lost or error.own_words or ResourceNotFoundError(uri).message
            code = INVALID_PARAMS if call.modern else LEGACY_RESOURCE_NOT_FOUND
            raise ProtocolError(code, words, {**error.data, "uri": uri}) from None

    async def _complete(self, call: Call) -> JSON:
        ref: JSON = dict(call.params["ref"])
        if ref["type"] == "ref/prompt":
            source, ref["name"] = await self._catalog.lookup(lambda: self._catalog.prompt(ref["name"]))
        else:
            source, ref["uri"] = await self._catalog.lookup(lambda: self._catalog.template(ref["uri"]))
        context: JSON = call.params.get("context") or {}
        return await source.complete(ref, dict(call.params["argument"]), context.get("arguments") or {}, call)

    async def _subscribe(self, call: Call) -> JSON:
        with self._not_found_as_in_its_era(call) as public:
            source, uri = await self._catalog.lookup(lambda: self._catalog.resource(public))
            declared: Any = (source.features.for_era(modern=False).declared or {}).get("resources")
            can_subscribe = is_object(declared) and declared.get("subscribe") is True
            if source is self._catalog.server and not can_subscribe:
                await source.forward("resources/subscribe", {"uri": uri}, call)
            await self._subscriptions.subscribe(call.connection, public)
        return {}

    async def _unsubscribe(self, call: Call) -> JSON:
        self._subscriptions.unsubscribe(call.connection, call.params["uri"])
        return {}

    async def _set_level(self, call: Call) -> JSON:
        level: str = call.params["level"]
        server = self._catalog.server
        if server is not None and "logging" not in server.features.for_era(modern=False).capabilities:
            return await server.forward("logging/setLevel", {"level": level}, call)
        call.connection.log_level = level
        return {}


def target_of(catalog: Catalog, method: str, params: Mapping[str, Any], revision: str) -> tuple[Source, JSON] | None:
    """Return the source of a request whose method the endpoint does not know, and its parameters there; else `None`.

    Raises:
        ProtocolError: The request is about a task that does not exist.
    """
    if method.startswith(_TASKS) and not _has_tasks(catalog, method, revision):
        return None
    servers = [source for source in catalog.sources if source.kind is SourceKind.SERVER]
    own = {key: value for key, value in params.items() if key != "_meta"}
    if len(catalog.sources) == 1:
        return (servers[0], own) if servers else None
    if not method.startswith(_TASKS) or TASK_ID not in params:
        return None
    identifier = str(params[TASK_ID])
    source = next((source for source in servers if identifier.startswith(catalog.task_prefix(source))), None)
    if source is None:
        raise _no_such_task()
    return source, {**own, TASK_ID: identifier.removeprefix(catalog.task_prefix(source))}


def _no_such_task() -> ProtocolError:
    """Return the error for a task that does not exist, or that another client made."""
    return ProtocolError(INVALID_PARAMS, "There is no such task")


def _has_tasks(catalog: Catalog, method: str, revision: str) -> bool:
    """Return whether a client of a revision sees that there are tasks, and its revision has the method."""
    if revision in HANDSHAKE_REVISIONS:
        return revision == LATEST_HANDSHAKE and "tasks" in capabilities_of(catalog, modern=False)
    extensions = capabilities_of(catalog, modern=True).get("extensions", {})
    return method in _OF_EXTENSION and TASKS_EXTENSION in extensions
