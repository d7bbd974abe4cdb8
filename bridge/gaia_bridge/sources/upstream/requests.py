"""The requests of clients that are one request to the server, and the errors for features that it lacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError, ResourceNotFoundError
from gaia_bridge.protocol.codes import METHOD_NOT_FOUND
from gaia_bridge.protocol.parameters import METHODS
from gaia_bridge.text.json_types import JSON, is_object

_RESOURCE_NOT_FOUND: Final = -32002
"""The code of MCP up to 2025-11-25, server/resources; later revisions report invalid parameters, with the URI."""

_OF_SDK_1: Final = "Invalid request parameters"
"""The message of version 1 of the Python SDK for an unknown method, with the code of invalid parameters."""


def understood(error: ProtocolError, method: str, params: JSON, *, same_era: bool) -> ProtocolError:
    """Return an error of a server in the form that the rest of the core expects.

    Args:
        error: The server's error.
        method: The method of the request.
        params: The parameters of the request.
        same_era: Whether the client is of the server's era, and understands the error unchanged.
    """
    if not same_era and error.code == INVALID_PARAMS and error.message == _OF_SDK_1:
        return error if method in METHODS else ProtocolError(METHOD_NOT_FOUND, "Method not found")
    if method != "resources/read" or isinstance(error, ResourceNotFoundError):
        return error
    uri, data = str(params.get("uri")), error.data if is_object(error.data) else {}
    if error.code == _RESOURCE_NOT_FOUND or (error.code == INVALID_PARAMS and data.get("uri") == uri):
        return ResourceNotFoundError(uri, error.message, data, original=error if same_era else None)
    return error


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
