"""One line for each call: who asked what of whom, how long it took, how it ended, and how much was said, never what.

A line is put into words where it is written, by whichever thread does that: what is handed over is a tuple of texts and
numbers. It costs nothing where nobody listens: a test of a level.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import anyio
from mcp import MCPError
from mcp_types import CLIENT_INFO_META_KEY
from pydantic_core import to_json

from gaia_bridge.cancellation import was_too_late
from gaia_bridge.errors import ProtocolError
from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.inbound.client_request import Context, connection_of
from gaia_bridge.jsontypes import JSON, is_object
from gaia_bridge.text import one_line

__all__ = ["CALLS", "Begun", "Call", "CallLog", "size_of", "tell_of"]

logger = logging.getLogger(__name__)

CALLS: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""What is told of, since it is work and may have a large result, and which parameter says what was wanted."""

_SHOWN: Final = 120
"""Characters of a name that are told."""

_KEPT: Final = 4 * _SHOWN
"""Characters of a name that are kept until then, blanks and all."""

_TOOLS: Final = 20
"""Tools that the line of one turn names."""


_RECORD: Final = vars(logging.LogRecord(logger.name, logging.INFO, __file__, 0, "", None, None))
"""What all records of calls have: to find it out each time costs more than the rest."""


class Call(NamedTuple):
    """What is told of one call."""

    client: str
    """Name and version of the client, as it says."""
    number: int
    """Tells its connection, or its session, from others."""
    method: str
    target: str
    source: str
    outcome: str
    seconds: float
    bytes_in: int
    bytes_out: int
    tools: tuple[str, ...] = ()
    """That were called meanwhile, where it is a turn of an agent."""

    def __str__(self) -> str:
        """The line."""
        call = self.to_json()
        tools = f", called {', '.join(call['tools'])}" if self.tools else ""
        what = f"{call['client']} {self.method} {call['target']} of {self.source}"
        return f"{what}: {self.outcome} in {call['ms']:g} ms, {self.bytes_in} B in, {self.bytes_out} B out{tools}"

    def to_json(self) -> JSON:
        """The same for programs."""
        call = {
            "client": f"{one_line(self.client, _SHOWN)} #{self.number & 0xFFFF:04x}",
            "source": self.source,
            "method": self.method,
            "target": one_line(self.target.partition("?")[0], _SHOWN),
            "ms": round(self.seconds * 1000, 1),
            "outcome": self.outcome,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }
        return {**call, "tools": _named(self.tools)} if self.tools else call


def tell_of(make: Callable[[], Call]) -> None:
    """Leave the line of a call, if anybody wants to know of it.

    Args:
        make: Makes what is told.
    """
    if logger.isEnabledFor(logging.INFO):
        _tell(make())


def _tell(call: Call) -> None:
    now = time.time()
    record = logging.LogRecord.__new__(logging.LogRecord)
    record.__dict__ = {**_RECORD, "msg": call, "call": call, "created": now, "msecs": now % 1 * 1000}
    logger.handle(record)


def size_of(value: Any) -> int:
    """Bytes of it as JSON; 0 of nothing."""
    try:
        return 0 if value is None else len(to_json(value))
    except ValueError:
        return 0


class Begun:
    """A call that goes on.

    Args:
        ctx: The request.
        catalog: Knows whose a tool, a prompt or a resource is.
    """

    def __init__(self, ctx: Context, catalog: Catalog) -> None:
        self._ctx = ctx
        self._catalog = catalog
        self._began = time.monotonic()

    def answered(self, result: Any, size: int) -> None:
        """It was answered.

        Args:
            result: With what.
            size: How many bytes that has as JSON.
        """
        outcome = "ok"
        if is_object(result):
            if result.get("resultType") == "input_required":
                outcome = "asked for input"
            elif result.get("isError") is True:
                outcome = "timed out" if was_too_late() else "tool error"
        self._tell(outcome, size)

    def failed(self, error: BaseException) -> None:
        """It was not."""
        if isinstance(error, anyio.get_cancelled_exc_class()):
            outcome = "cancelled"
        elif was_too_late():
            outcome = "timed out"
        else:
            outcome = f"error {error.error.code}" if isinstance(error, MCPError) else "failed"
        self._tell(outcome, 0)

    def _tell(self, outcome: str, size: int) -> None:
        ctx, seconds = self._ctx, time.monotonic() - self._began
        wanted = str((ctx.params or {}).get(CALLS[ctx.method]))
        client, number = _client(ctx)
        source, wanted = self._source(wanted), wanted[:_KEPT]
        _tell(Call(client, number, ctx.method, wanted, source, outcome, seconds, size_of(ctx.params), size))

    def _source(self, wanted: str) -> str:
        catalog = self._catalog
        look: Any
        match self._ctx.method:
            case "tools/call":
                look = catalog.tool
            case "prompts/get":
                look = catalog.prompt
            case _:
                look = catalog.addresses.find
        try:
            return str(look(wanted)[0].name)
        except ProtocolError:
            return "-"


class CallLog:
    """Tells of the calls of one endpoint.

    Args:
        catalog: Knows whose a tool, a prompt or a resource is.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def begin(self, ctx: Context) -> Begun | None:
        """What a request came to is to be told when it is known; `None` where nobody wants to know."""
        return Begun(ctx, self._catalog) if ctx.method in CALLS and logger.isEnabledFor(logging.INFO) else None


def _client(ctx: Context) -> tuple[str, int]:
    """Name and version of the client, as it says, and a number that tells its connection from others."""
    connection, meta = connection_of(ctx), (ctx.params or {}).get("_meta")
    said: Any = meta.get(CLIENT_INFO_META_KEY) if is_object(meta) else None
    if is_object(said):
        name, version = said.get("name"), said.get("version")
    elif connection.client_params is not None:
        name, version = connection.client_params.client_info.name, connection.client_params.client_info.version
    else:
        name, version = "unknown", ""
    return f"{str(name)[:_KEPT]}/{str(version)[:_KEPT]}", id(connection) >> 4


def _named(tools: tuple[str, ...]) -> list[str]:
    """Each once, with how often it was called."""
    counted = Counter(tools)
    named = [one_line(name, _SHOWN) + (f" x{times}" if times > 1 else "") for name, times in counted.items()]
    return named if len(named) <= _TOOLS else [*named[:_TOOLS], f"{len(named) - _TOOLS} more"]
