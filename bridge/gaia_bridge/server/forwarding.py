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
from gaia_bridge.protocol.json_types import JSON
from gaia_bridge.protocol.task_ids import TASK_ID
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.introduction import TASKS_EXTENSION, capabilities_of

__all__ = ["target_of"]

_TASKS: Final = "tasks/"


def target_of(catalog: Catalog, method: str, params: Mapping[str, Any], *, modern: bool) -> tuple[Source, JSON] | None:
    """Who a request of a method is for that the endpoint itself does not know, and its parameters there.

    Args:
        catalog: What the endpoint publishes.
        method: The method.
        params: The parameters, as they came.
        modern: Whether the client speaks 2026-07-28 or later.

    Returns:
        `None` if it is for nobody here.

    Raises:
        ProtocolError: It is about a task that there is not.
    """
    servers = [source for source in catalog.sources if source.kind is SourceKind.SERVER]
    own = {key: value for key, value in params.items() if key != "_meta"}
    if len(catalog.sources) == 1:
        return (servers[0], own) if servers else None
    if not method.startswith(_TASKS) or TASK_ID not in params:
        return None
    identifier = str(params[TASK_ID])
    source = next((source for source in servers if identifier.startswith(catalog.task_prefix(source))), None)
    if source is None:
        told = capabilities_of(catalog, modern=modern)
        if "tasks" not in told and TASKS_EXTENSION not in told.get("extensions", {}):
            return None  # nobody here has tasks, so that there is no such method either
        raise ProtocolError(INVALID_PARAMS, "There is no such task")
    return source, {**own, TASK_ID: identifier.removeprefix(catalog.task_prefix(source))}
