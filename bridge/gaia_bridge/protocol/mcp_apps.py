"""Whether a tool is meant for models, for the views of MCP Apps, or for both. Pure.

In MCP Apps (SEP-1865) a server may have tools that only its views call; the host hides them from its model. Where the
bridge itself lists tools for a model, or calls them for one, as tool search does, it has to hide them. A direct
`tools/call` does not say who calls, so that check stays with the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gaia_bridge.text.json_types import is_array, is_object


def is_model_visible(definition: Mapping[str, Any]) -> bool:
    """Whether a model may see and call a tool: not if `_meta.ui.visibility` is a list without `model`.

    Args:
        definition: The tool's definition, in any revision of MCP.
    """
    meta = definition.get("_meta")
    ui = meta.get("ui") if is_object(meta) else None
    visibility = ui.get("visibility") if is_object(ui) else None
    return not is_array(visibility) or "model" in visibility
