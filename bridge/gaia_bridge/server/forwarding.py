"""What goes beyond the core of MCP: extensions, tasks, methods that only a server and its clients know.

The bridge does not know what they mean. It tells clients which of them its servers declare, and carries their requests
and results as they are, to the server that an endpoint is for, or that made the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gaia_bridge.contract import Source
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.model import SourceKind
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, LATEST_HANDSHAKE
from gaia_bridge.protocol.task_ids import TASK_ID
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.introduction import TASKS_EXTENSION, capabilities_of
from gaia_bridge.text.json_types import JSON

TASKS: Final = "tasks/"
"""How the methods of tasks begin."""

_OF_EXTENSION: Final = frozenset({"tasks/cancel", "tasks/get", "tasks/update"})
"""The methods of tasks in 2026-07-28, where they are an extension. There is no list, as there is no session."""


def target_of(catalog: Catalog, method: str, params: Mapping[str, Any], revision: str) -> tuple[Source, JSON] | None:
    """Who a request of a method is for that the endpoint itself does not know, and its parameters there.

    Returns:
        `None` if it is for nobody here.

    Raises:
        ProtocolError: It is about a task that there is not.
    """
    if method.startswith(TASKS) and not _has_tasks(catalog, method, revision):
        return None
    servers = [source for source in catalog.sources if source.kind is SourceKind.SERVER]
    own = {key: value for key, value in params.items() if key != "_meta"}
    if len(catalog.sources) == 1:
        return (servers[0], own) if servers else None
    if not method.startswith(TASKS) or TASK_ID not in params:
        return None
    identifier = str(params[TASK_ID])
    source = next((source for source in servers if identifier.startswith(catalog.task_prefix(source))), None)
    if source is None:
        raise no_such_task()
    return source, {**own, TASK_ID: identifier.removeprefix(catalog.task_prefix(source))}


def no_such_task() -> ProtocolError:
    """Return the error for a task that does not exist, or that another client made."""
    return ProtocolError(INVALID_PARAMS, "There is no such task")


def _has_tasks(catalog: Catalog, method: str, revision: str) -> bool:
    """Whether a client of a revision was told that there are tasks, and its revision has the method."""
    if revision in HANDSHAKE_REVISIONS:
        return revision == LATEST_HANDSHAKE and "tasks" in capabilities_of(catalog, modern=False)
    extensions = capabilities_of(catalog, modern=True).get("extensions", {})
    return method in _OF_EXTENSION and TASKS_EXTENSION in extensions
