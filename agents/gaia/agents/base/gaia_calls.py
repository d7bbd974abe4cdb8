"""Methods that agents of AMD GAIA have beside ours, for files that were written for it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import Any, Final, cast

from gaia.agents.base.console import Console
from gaia.agents.base.tools import ToolRegistry
from gaia_bridge.errors import BridgeError
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge.text.likeness import did_you_mean

__all__ = ["GaiaCalls", "QueryResult"]

logger = logging.getLogger(__name__)

_CHARACTERS_OF_A_TOKEN: Final = 4


class QueryResult(str):
    """The answer to a query: a text, that also reads as the mapping which GAIA's `process_query` returns."""

    __slots__ = ()

    def as_mapping(self) -> dict[str, Any]:
        """Return GAIA's mapping: `status` and `result`."""
        return {"status": "success", "result": str(self)}

    def __getitem__(self, key: Any) -> Any:
        return self.as_mapping()[key] if isinstance(key, str) else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value as a mapping does."""
        return self.as_mapping().get(key, default)


class GaiaCalls:
    """Implemented on an agent's registry and console."""

    tool_registry: ToolRegistry
    console: Console

    @property
    def _tool_seconds(self) -> float:
        raise NotImplementedError

    def _confirm_tool(self, tool_name: str, arguments: dict[str, Any]) -> bool:
        raise NotImplementedError

    def execute_tool(self, tool_name: str, tool_args: Mapping[str, Any] | None = None) -> Any:
        """Run a tool of the registry, and wait for its result. Not for coroutines, whose loop it would block.

        Args:
            tool_name: Its name; that of an MCP tool may come without `mcp_SERVER_`, where one server has it.
            tool_args: Its arguments.

        Returns:
            What it returns; for whatever fails `{"status": "error", "error": ...}`, as in GAIA.
        """
        entries = self.tool_registry.snapshot()
        name = tool_name if tool_name in entries else _completed(tool_name, entries)
        if name is None:
            return _failed(_unknown(tool_name, entries))
        entry, arguments = entries[name], dict(tool_args or {})
        hints = entry.get("annotations")
        if is_object(hints) and hints.get("destructiveHint") is True and not self._confirm_tool(name, arguments):
            return _failed(f"{name} was not confirmed, and is not run")
        try:
            value = entry["function"](**arguments)
            return _awaited(value, self._tool_seconds) if inspect.isawaitable(value) else value
        except Exception as error:
            if not isinstance(error, BridgeError | ValueError | TypeError):
                logger.exception("tool %r failed", name)
            return _failed(f"{name} failed: {_words(error)}")

    def list_tools(self, verbose: bool = True) -> None:
        """Show the registered tools on the console.

        Args:
            verbose: Whether with their descriptions and parameters.
        """
        entries = self.tool_registry.snapshot()
        self.console.print_info(f"{len(entries)} tool{'' if len(entries) == 1 else 's'} of {type(self).__name__}")
        for name, entry in sorted(entries.items()):
            raw_parameters = entry.get("parameters")
            parameters: JSON = raw_parameters if is_object(raw_parameters) else {}
            shown = ", ".join(_parameter(key, about) for key, about in parameters.items() if is_object(about))
            self.console.print_info(f"  {name}({shown})" if verbose else f"  {name}")
            if verbose and (description := " ".join(str(entry.get("description") or "").split())):
                self.console.print_info(f"      {description}")

    def estimate_tokens(self, text: str) -> int:
        """Estimate how many tokens a text has: four characters are one. Override it for a model's own."""
        return len(text) // _CHARACTERS_OF_A_TOKEN


def _completed(tool_name: str, entries: Mapping[str, Any]) -> str | None:
    names = [name for name in entries if name.startswith("mcp_") and name.endswith(f"_{tool_name}")]
    return names[0] if len(names) == 1 else None


def _unknown(tool_name: str, entries: Mapping[str, Any]) -> str:
    hint = did_you_mean(tool_name, entries)
    return f"there is no tool {tool_name!r}" + (f"; {hint}" if hint else "")


def _failed(problem: str) -> JSON:
    return {"status": "error", "error": problem}


def _parameter(name: str, about: JSON) -> str:
    text = f"{name}: {about.get('type', 'Any')}"
    return text if about.get("required") else f"{text} = {about.get('default')!r}"


def _words(error: Exception) -> str:
    errors: Any = getattr(error, "errors", None)
    if callable(errors) and type(error).__name__ == "ValidationError":  # of pydantic, which need not be loaded
        problems = cast("list[dict[str, Any]]", errors())
        return "; ".join(f"{'/'.join(map(str, item['loc']))}: {item['msg']}" for item in problems)
    return str(error) or type(error).__name__


def _awaited(value: Any, seconds: float) -> Any:
    from gaia.background_loop import BACKGROUND

    async def wait() -> Any:
        return await value

    with BACKGROUND.acquire() as lease:
        return lease.run(wait, seconds)
