"""A span for each message of a client, where the program that the bridge runs in traces (OpenTelemetry)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from gaia_bridge.errors import ProtocolError
from gaia_bridge.text.json_types import is_object

if TYPE_CHECKING:
    from gaia_bridge.server.call import Call


class Span(Protocol):
    """What is told of one request."""

    def ended(self, result: object) -> None:
        """It was answered with this."""
        ...


@contextmanager
def request_span(call: Call) -> Generator[Span]:
    """The span of one request, below that of the client where it says which (SEP-414)."""
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

        class _Told:
            def ended(self, result: object) -> None:
                if call.method == "tools/call" and is_object(result) and result.get("isError") is True:
                    span.set_attribute("error.type", "tool_error")
                    span.set_status(StatusCode.ERROR)

        try:
            yield _Told()
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
        "mcp.protocol.version": call.connection.revision,
        "jsonrpc.request.id": str(call.id),
    }
    if call.method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
        if target:
            attributes["gen_ai.tool.name"] = target
    elif call.method == "prompts/get" and target:
        attributes["gen_ai.prompt.name"] = target
    return attributes
