"""The requests by which a source serves its clients, for a source whose capabilities come from a server."""

from __future__ import annotations

from abc import ABC, abstractmethod

from gaia_bridge.contract import ClientRequest
from gaia_bridge.text.json_types import JSON


class AsksServer(ABC):
    """Part of a `Source` whose capabilities come from a server."""

    @abstractmethod
    async def ask(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Forward a request to the server.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error, or not at all.
        """

    async def get_prompt(self, name: str, arguments: dict[str, str], request: ClientRequest) -> JSON:
        """Fill in a prompt of the server. Raises as `ask` does."""
        return await self.ask("prompts/get", {"name": name, "arguments": arguments}, request)

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        """Read a resource of the server.

        Raises:
            ResourceNotFoundError: The server has nothing there.
            ProtocolError: The server answered with another JSON-RPC error, or not at all.
        """
        return await self.ask("resources/read", {"uri": uri}, request)

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        """Ask the server for suggestions. Raises as `ask` does."""
        params: JSON = {"ref": ref, "argument": argument}
        if context:
            params["context"] = {"arguments": context}
        return await self.ask("completion/complete", params, request)
