"""The introduction of an endpoint: its name, its capabilities, and its instructions for models.

The endpoint of one server says what that server says. One that merges sources says what merging makes of them, and
nothing that none of them has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import anyio

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.errors import INVALID_REQUEST, ProtocolError
from gaia_bridge.model import ChangeKind, ServerFeatures
from gaia_bridge.protocol.kinds import LISTS
from gaia_bridge.protocol.names import known_name
from gaia_bridge.protocol.revisions import negotiated
from gaia_bridge.protocol.skills import SKILLS_EXTENSION, declares_skills
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.connection import ClientConnection
from gaia_bridge.server.instructions import fitted, fitted_alone
from gaia_bridge.server.known_clients import known_client
from gaia_bridge.settings import ClientLimits, Settings
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)

_NOTED: Final = 1.0
"""Seconds from which on a wait for servers is in the log."""
_EVERYTHING: Final[Mapping[str, JSON]] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}
"""All abilities of each capability."""
TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"


def capabilities_of(catalog: Catalog, *, modern: bool) -> JSON:
    """Return the capabilities of an endpoint that clients of one era see."""
    server = catalog.server
    if server is not None and server.features.is_known:
        return _for_era(server.features.for_era(modern=modern).declared or {}, modern=modern)
    all_features = [source.features.for_era(modern=modern) for source in catalog.sources]
    declared = [_offered(features) for features in all_features]
    merged: JSON = {"tools": {"listChanged": True}} if catalog.merges else {}
    if not catalog.is_settled:  # whatever comes is announced, but only to clients that were told that it may
        merged |= {kind.value: {"listChanged": True} for kind in LISTS}
    for name, everything in _EVERYTHING.items():
        items = [item for capabilities in declared if is_object(item := capabilities.get(name))]
        if items:
            # A list of several changes with what there is, whatever each of them announces.
            merged[name] = {
                ability: True
                for ability in everything
                if (catalog.merges and ability == "listChanged") or any(item.get(ability) is True for item in items)
            }
    extras = _extras(all_features)
    if any(source.features.skills_for(modern=modern) for source in catalog.sources):
        merged.setdefault("prompts", {"listChanged": True})  # for clients that know no skills
        # Their directories can be read, whichever source lists them.
        extras["extensions"] = {**extras.get("extensions", {}), SKILLS_EXTENSION: {"directoryRead": True}}
    if declares_skills(extras):  # whose files are resources, whatever their server declares
        merged.setdefault("resources", {"listChanged": True})
    return {**merged, **{name: extra for name, extra in _for_era(extras, modern=modern).items() if extra}}


async def wait_for_offers(catalog: Catalog, call: Call, limits: ClientLimits) -> None:
    """Wait for starting sources: longer for a client that may not list again."""
    if catalog.is_settled:
        return
    client = str(call.client_info.get("name", ""))
    if HOPS_META_KEY in call.meta or known_client(client).lists_again:
        await catalog.settle()
    else:
        names = ", ".join(source.name for source in catalog.sources if not source.features.is_known)
        began = anyio.current_time()
        with anyio.move_on_after(limits.first_request):
            await catalog.settle(listed_once=True)
        if (waited := anyio.current_time() - began) >= _NOTED:
            who = one_line(client, 100) or "a client"
            logger.info("%s: %s waited %.1f s for what starts for the first time: %s", call.method, who, waited, names)


def _offered(features: ServerFeatures) -> Mapping[str, Any]:
    """Return the capabilities of a source, without those of empty lists that do not announce changes."""
    declared = _declared(features)
    if not features.is_known:
        return declared
    empty = _empty(features)
    if "prompts" not in declared.keys() - empty and "resources" not in declared.keys() - empty:
        empty.add("completions")  # of what
    return {name: capability for name, capability in declared.items() if name not in empty}


def _empty(features: ServerFeatures) -> set[str]:
    """Return the lists that a source declares, that are empty, and whose changes it does not announce."""
    if not features.is_known:
        return set()
    declared = _declared(features)
    return {
        name
        for name, is_listed in (
            ("prompts", bool(features.prompts)),
            ("resources", bool(features.resources or features.templates)),
        )
        if not is_listed and is_object(abilities := declared.get(name)) and True not in abilities.values()
    }


def _declared(features: ServerFeatures) -> Mapping[str, Any]:
    """Return the capabilities of a source; for an agent, with all abilities of each."""
    if features.declared is not None:
        return features.declared
    return {name: everything for name, everything in _EVERYTHING.items() if name in features.capabilities}


def _extras(all_features: Sequence[ServerFeatures]) -> JSON:
    """Return the capabilities beyond the core (`tasks`, `extensions`, `experimental`); the first source counts."""
    declared: JSON = {}
    for features in all_features:
        for name, extra in features.extras.items():
            declared[name] = {**extra, **declared.get(name, {})}
    if len(all_features) > 1 and "tasks" in declared:  # a list of tasks has nothing that leads to one of several
        declared["tasks"] = {name: ability for name, ability in declared["tasks"].items() if name != "list"}
    return declared


def _for_era(declared: Mapping[str, Any], *, modern: bool) -> JSON:
    """Return the same for clients of one era: tasks are a capability before 2026-07-28, and an extension since."""
    capabilities = {name: value for name, value in declared.items() if not (modern and name == "tasks")}
    extensions = capabilities.get("extensions")
    if not modern and is_object(extensions) and TASKS_EXTENSION in extensions:
        capabilities["extensions"] = {key: value for key, value in extensions.items() if key != TASKS_EXTENSION}
        if not capabilities["extensions"]:
            del capabilities["extensions"]
    return capabilities


class Introduction:
    """Introduces one endpoint to its clients.

    Args:
        added: Returns capabilities that the client of a request is declared beside those of the sources.
    """

    def __init__(self, catalog: Catalog, settings: Settings, added: Callable[[Call], JSON]) -> None:
        self._catalog = catalog
        self._settings = settings
        self._added = added

    async def initialize(self, call: Call) -> JSON:
        """Answer `initialize`, and remember the client and what it was sent."""
        connection = call.connection
        if connection.is_initialized:  # until then a client may repeat itself
            problem = "The handshake of this connection is complete; open another one for a new one"
            raise ProtocolError(INVALID_REQUEST, problem)
        connection.initialize_result = dict(call.params)
        introduction = await self._introduction(call)
        connection.revision = negotiated(call.params)
        connection.sent_capabilities = introduction["capabilities"]
        connection.is_greeted = True
        server_info = self._catalog.implementation(modern=False)
        return {"protocolVersion": connection.revision, "serverInfo": server_info, **introduction}

    async def discover(self, call: Call) -> JSON:
        """Answer `server/discover`."""
        introduction = await self._introduction(call)
        return {"supportedVersions": list(self._settings.revisions.names), **introduction}

    async def _introduction(self, call: Call) -> JSON:
        """Return the capabilities and instructions for a client, which gets them only once."""
        catalog, modern = self._catalog, call.modern
        began = anyio.current_time()
        await wait_for_offers(catalog, call, self._settings.clients)
        # Else it has waited enough.
        if anyio.current_time() - began < max(self._settings.upstream.first_look, _NOTED):
            await catalog.meet(call)
        if catalog.merges and any(_empty(source.features.for_era(modern=modern)) for source in catalog.sources):
            await catalog.refresh()  # those of which nobody says when they are empty no longer
        capabilities = self._added(call)
        whole = instructions = catalog.info(modern=modern).instructions
        if whole is not None and (room := self._room(call)) is not None:
            sources = catalog.sources
            is_alone = len(sources) == 1
            texts = catalog.instructions(modern=modern)
            instructions = fitted_alone(sources[0].name, whole, room) if is_alone else fitted(texts, room)
            if instructions != whole:
                capabilities["resources"] = {}  # the rest can be read as one
        introduction: JSON = {"capabilities": {**capabilities, **capabilities_of(catalog, modern=modern)}}
        return introduction if instructions is None else {**introduction, "instructions": instructions}

    def _room(self, call: Call) -> int | None:
        """Return the characters of instructions that a client takes; `None` if it takes all, as another bridge does.

        The user's settings go before the table of clients.
        """
        if HOPS_META_KEY in call.meta:
            return None
        limits, client = self._settings.clients, str(call.client_info.get("name", ""))
        own = {known_name(name): size for name, size in limits.instructions}.get(known_name(client))
        if own is not None:
            return own or None
        return known_client(client).instructions if limits.known_instructions else None


def tells_of(connection: ClientConnection, kind: ChangeKind) -> bool:
    """Return whether a client of the handshake era saw that a list may change; true if it saw no capabilities."""
    if connection.sent_capabilities is None:
        return True
    declared = connection.sent_capabilities.get(kind.value)
    return is_object(declared) and declared.get("listChanged") is True
