"""What is published beside the server of a test: an agent and a server of each era, so that nothing is alone.

Their names all begin with `near-`, their URIs with `near`. None of them may be noticed by whoever uses the server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from gaia_bridge.bridge import Bridge
from gaia_bridge.content import resource_link
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import ERAS, serving
from tests.translation.legacy_only import forget_discovery

__all__ = ["LinkingAgent", "ReadingAgent", "add_neighbours", "neighbour_servers", "without_neighbours"]

_NEAR: Final = "near"
_LINK: Final = "near-nobody://reads/this.txt"


class LinkingAgent:
    """Links to resources, and has none that can be read."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """One tool, with a view that is nowhere to be read."""
        return [{"name": "near-link", "inputSchema": {}, "_meta": {"ui": {"resourceUri": "ui://near-nobody/view"}}}]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> list[JSON]:
        """A link to what is elsewhere."""
        return [resource_link(_LINK, "elsewhere")]


class ReadingAgent(LinkingAgent):
    """Has resources, a template and prompts.

    Args:
        name: Tells it from others of its kind.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """One tool."""
        return [{"name": f"near-{self._name}", "inputSchema": {}}]

    def get_mcp_prompts(self) -> list[JSON]:
        """One prompt."""
        return [{"name": f"near-{self._name}-prompt"}]

    def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Its name."""
        return name

    def get_mcp_resources(self) -> list[JSON]:
        """One resource."""
        return [{"uri": f"near-{self._name}://one", "name": "one"}]

    def get_mcp_resource_templates(self) -> list[JSON]:
        """One template."""
        return [{"uriTemplate": f"near-{self._name}://{{number}}", "name": "any"}]

    def read_mcp_resource(self, uri: str) -> str:
        """Its URI."""
        return uri


@asynccontextmanager
async def neighbour_servers() -> AsyncGenerator[list[HttpServerSpec]]:
    """A server of each era, over HTTP."""
    async with AsyncExitStack() as stack:
        specs: list[HttpServerSpec] = []
        for era in ERAS:
            url, bridge = await stack.enter_async_context(serving({era: ReadingAgent(era)}))
            if era == "legacy":
                forget_discovery(bridge)
            specs.append(HttpServerSpec(f"near-{era}", f"{url}/mcp"))
        yield specs


async def add_neighbours(bridge: Bridge, specs: Sequence[HttpServerSpec]) -> None:
    """Publish an agent that only links, and servers, beside what a bridge has."""
    await bridge.add_agent(LinkingAgent(), "near-agent")
    for spec in specs:
        await bridge.add_upstream(spec)


def without_neighbours(definitions: Sequence[JSON]) -> list[JSON]:
    """Tools, prompts, resources or templates, without those of neighbours."""

    def name(definition: JSON) -> Any:
        return definition.get("uri") or definition.get("uriTemplate") or definition["name"]

    return [definition for definition in definitions if not name(definition).startswith(_NEAR)]
