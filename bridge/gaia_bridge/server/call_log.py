"""Records of calls: a line in the log, and a span where the program traces (OpenTelemetry)."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from gaia_bridge.calls.call_log import KEPT, CallRecord, is_wanted, leave
from gaia_bridge.calls.cancellation import was_too_late
from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.headers import NAMED
from gaia_bridge.protocol.meta import PROTOCOL_VERSION_KEY
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.text.json_types import JSON, is_object

_UNNAMED_CLIENT: Final = "unnamed client"
"""Stands for a client that does not give its name."""


def begin_of(call: Call) -> float | None:
    """Return the time when a call begins; `None` if the call is not logged."""
    if call.method not in NAMED or not is_wanted():
        return None
    return time.monotonic() if call.direct is None else call.direct.began


def log_call(catalog: Catalog, call: Call, began: float, outcome: str, size: int) -> None:
    """Log a call whose answer has so many bytes."""
    seconds = time.monotonic() - began
    wanted = str(call.params.get(NAMED[call.method]))
    source = call.served_by or _source_of(catalog, call.method, wanted)
    client, number = client_of(call.client_info), number_of(call.connection)
    leave(CallRecord(client, number, call.method, wanted[:KEPT], source, outcome, seconds, call.size, size))


def client_of(info: Mapping[str, Any]) -> str:
    """Return the name and version of a client for the log."""
    name, version = (str(info.get(key) or "")[:KEPT] for key in ("name", "version"))
    return f"{name or _UNNAMED_CLIENT}/{version}" if version else name or _UNNAMED_CLIENT


def number_of(connection: object) -> int:
    """Return a number that identifies a connection in the log: the lowest bits of an address are always zero."""
    return id(connection) >> 4


def _source_of(catalog: Catalog, method: str, wanted: str) -> str:
    find = {"tools/call": catalog.tool, "prompts/get": catalog.prompt}.get(method, catalog.addresses.find)
    try:
        return find(wanted)[0].name
    except ProtocolError:
        return "-"


def outcome_of(result: JSON) -> str:
    """Return the outcome of a call with this result, in a word for the log."""
    if result.get("resultType") == "input_required":
        return "asked for input"
    if result.get("isError") is not True:
        return "ok"
    return "timed out" if was_too_late() else "tool error"


def outcome_of_error(code: int) -> str:
    """Return the outcome of a call that failed with an error, in a word for the log."""
    return "timed out" if was_too_late() else f"error {code}"


@contextmanager
def request_span(call: Call) -> Generator[Callable[[object], None]]:
    """Open the span of one request, below that of the client if the client names one (SEP-414).

    Yields:
        A function that records the result.
    """
    from opentelemetry.propagate import extract
    from opentelemetry.trace import SpanKind, StatusCode, get_current_span, get_tracer

    name = call.params.get("name")
    target = name if isinstance(name, str) else ""
    parent = extract(dict(call.meta))
    with get_tracer("gaia-mcp-bridge").start_as_current_span(
        f"{call.method} {target}".rstrip(),
        kind=SpanKind.SERVER,
        attributes=_attributes(call, target),
        context=parent if get_current_span(parent).get_span_context().is_valid else None,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:

        def record(result: object) -> None:
            if call.method == "tools/call" and is_object(result) and result.get("isError") is True:
                span.set_attribute("error.type", "tool_error")
                span.set_status(StatusCode.ERROR)

        try:
            yield record
        except ProtocolError as error:
            span.set_attributes({"error.type": str(error.code), "rpc.response.status_code": str(error.code)})
            span.set_status(StatusCode.ERROR, error.message)
            raise
        except Exception as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.record_exception(error)
            span.set_status(StatusCode.ERROR, str(error))
            raise


def _attributes(call: Call, target: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "mcp.method.name": call.method,
        # A stream of the modern era can carry requests of several revisions; each names its own.
        "mcp.protocol.version": str(call.meta.get(PROTOCOL_VERSION_KEY) or call.connection.revision),
        "jsonrpc.request.id": str(call.id),
    }
    if call.method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
        if target:
            attributes["gen_ai.tool.name"] = target
    elif call.method == "prompts/get" and target:
        attributes["gen_ai.prompt.name"] = target
    return attributes
