"""Which features of servers reach which editor, and what becomes of a feature that an editor does not have.

What an editor has is in `gaia_bridge_desk.editors.table`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_desk.editors.table import Editor


class Feature(Struct, frozen=True):
    """Something that servers offer, or ask for.

    Args:
        name: What it is called here.
        asked: Whether servers ask clients for it in the middle of a call, without declaring it before.
        otherwise: What the bridge does for a client without it; empty if it is not there for that client.
    """

    name: str
    asked: bool = False
    otherwise: str = ""


FEATURES: Final = (
    Feature("tools"),
    Feature("prompts"),
    Feature("resources"),
    Feature("resource updates"),
    Feature("list changes", otherwise="the client sees them when it lists again"),
    Feature("tasks", otherwise="the bridge waits for the result"),
    Feature("elicitation", asked=True),
    Feature("sampling", asked=True),
    Feature("roots", asked=True),
)
"""In the order in which they are shown."""


def features_of(capabilities: JSON) -> list[str]:
    """What a server offers, by what it declares.

    Args:
        capabilities: As on the wire.
    """
    found = list[str](name for name in ("tools", "prompts", "resources") if name in capabilities)
    resources = capabilities.get("resources")
    if is_object(resources) and resources.get("subscribe"):
        found.append("resource updates")
    if any(is_object(told) and told.get("listChanged") for told in capabilities.values()):
        found.append("list changes")
    return [*found, "tasks"] if "tasks" in capabilities else found


def crossing(offers: Mapping[str, Sequence[str]], editors: Sequence[Editor]) -> list[JSON]:
    """What reaches whom: a row for each feature that a server offers or may ask for.

    Args:
        offers: The features of each server.
        editors: The editors.
    """
    rows: list[JSON] = []
    for feature in FEATURES:
        servers = [server for server, names in offers.items() if feature.asked or feature.name in names]
        if servers:
            cells = {editor.name: _cell(feature, editor) for editor in editors}
            rows.append({"feature": feature.name, "asked": feature.asked, "servers": servers, "clients": cells})
    return rows


def _cell(feature: Feature, editor: Editor) -> str:
    if editor.has_feature(feature.name):
        return "yes"
    return "bridged" if feature.otherwise else "unknown"
