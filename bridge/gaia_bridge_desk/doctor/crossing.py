"""Which features of servers reach which client. Facts, and what becomes of a feature that a client does not have.

What a client has is what it declares, or was seen to use; of what is not listed, nobody has seen it. Sources: the
registry apify/mcp-client-capabilities, the clients' documentation that `gaia_bridge_desk.editors.formats` names, and
for VS Code what it sent to our own tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from gaia_bridge.server.known_clients import tool_limit
from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["CLIENTS", "FEATURES", "Client", "Feature", "crossing", "features_of"]


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


class Client(Struct, frozen=True):
    """What a client has.

    Args:
        features: Names of `FEATURES`.
        called: What it introduces itself as, where that has a limit of tools.
    """

    features: frozenset[str]
    called: str = ""

    @property
    def most_tools(self) -> int | None:
        """How many tools it takes, as far as that is known."""
        return tool_limit(self.called)


def _client(features: str, called: str = "") -> Client:
    return Client(frozenset(features.split(", ")), called)


_VSCODE: Final = _client(
    "tools, prompts, resources, resource updates, list changes, tasks, elicitation, sampling, roots",
    "visual studio code",
)

CLIENTS: Final[Mapping[str, Client]] = {
    "vscode": _VSCODE,
    "vscode-insiders": _VSCODE,
    "code-server": _VSCODE,
    "cursor": _client("tools, prompts, resources, list changes, elicitation, roots", "cursor-vscode"),
    "windsurf": _client("tools, prompts, resources, list changes", "windsurf"),
    "claude-code": _client("tools, prompts, resources, list changes, elicitation, roots", "claude-code"),
    "claude-desktop": _client("tools, prompts, resources"),
    "zed": _client("tools, prompts"),
    "junie": _client("tools"),
    "jetbrains": _client("tools"),
    "codex": _client("tools, elicitation"),
    "gemini-cli": _client("tools, prompts"),
    "copilot-cli": _client("tools"),
    "opencode": _client("tools, list changes"),
    "cline": _client("tools, resources, list changes"),
    "cline-cli": _client("tools, resources, list changes"),
    "roo": _client("tools, resources"),
}
"""By the names of `gaia_bridge_desk.editors.formats.EDITORS`."""


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


def crossing(offers: Mapping[str, Sequence[str]], clients: Sequence[str]) -> list[JSON]:
    """What reaches whom: a row for each feature that a server offers or may ask for.

    Args:
        offers: The features of each server.
        clients: Names of `CLIENTS`.
    """
    rows: list[JSON] = []
    for feature in FEATURES:
        servers = [server for server, names in offers.items() if feature.asked or feature.name in names]
        if servers:
            cells = {client: _cell(feature, CLIENTS[client]) for client in clients}
            rows.append({"feature": feature.name, "asked": feature.asked, "servers": servers, "clients": cells})
    return rows


def _cell(feature: Feature, client: Client) -> str:
    if feature.name in client.features:
        return "yes"
    return "bridged" if feature.otherwise else "unknown"
