"""What tools promise of their structured content, and whether they keep it.

MCP server/tools, "Output Schema": servers must keep to it, clients should check.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from gaia_bridge.json_schema.parts import SchemaError
from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)


class OutputSchemas:
    """The output schemas of one server's tools. Each is compiled once, when its tool first answers; any thread may ask.

    Args:
        server: What the server is called, for the log.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._promises: dict[str, _Promise] = {}

    def replace(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """Take over what the server promises from now on."""
        old, new = self._promises, dict[str, _Promise]()
        for tool in tools:
            name, schema = tool.get("name"), tool.get("outputSchema")
            if isinstance(name, str) and is_object(schema):
                known = old.get(name)
                if known is None or known.schema != schema:
                    known = _Promise(f"{self._server}: tool {name!r}", schema)
                new[name] = known
        self._promises = new

    def problem(self, tool: str, result: Mapping[str, Any]) -> str | None:
        """How a result breaks its tool's promise, or `None` if it does not.

        Nothing is promised of a failure, nor of a round that asks for input (2026-07-28). Structured content that is
        absent is not judged either: a client that wants it will say so, and others live on the text.

        Args:
            result: What it answered, wire-shaped.

        Returns:
            Lines as `SchemaValidator.errors` makes them.
        """
        promise, content = self._promises.get(tool), result.get("structuredContent")
        if promise is None or content is None or result.get("isError") is True:
            return None
        if result.get("resultType", "complete") != "complete":
            return None
        return promise.problem(content)


class _Promise:
    """One tool's output schema.

    Args:
        whose: The server and the tool, for the log.
    """

    def __init__(self, whose: str, schema: JSON) -> None:
        self.schema = schema
        self._whose = whose

    def problem(self, content: Any) -> str | None:
        """How structured content breaks the promise; `None` if it keeps it, or if nobody can say at a bounded price."""
        validator = self._validator
        # Checking is a courtesy to the client: what cannot be judged is let through as it is.
        return None if validator is None else validator.errors(content, unjudged=None)

    @cached_property
    def _validator(self) -> SchemaValidator | None:
        try:
            return SchemaValidator(self.schema)
        except SchemaError as error:
            logger.warning("%s", printable(f"{self._whose}: its output schema cannot be used: {error}"))
        try:
            return SchemaValidator.tolerant(self.schema)
        except SchemaError:
            return None
