"""A span for each request to a server, where OpenTelemetry is set up; nothing, and at no cost, where it is not.

The trace context of a client (`traceparent`, `tracestate` in `_meta`, SEP-414) goes on to the server as it came. With
OpenTelemetry, the server is given our span as the parent instead, whose own parent is that of the client.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge.version import __version__


@contextmanager
def request_span(upstream: str, method: str, params: JSON) -> Generator[JSON]:
    """Trace one request until the end of the block.

    Args:
        upstream: The name of the server.
        method: The request's method.
        params: Its parameters.

    Returns:
        Gives the parameters to send.
    """
    from opentelemetry.propagate import inject
    from opentelemetry.trace import SpanKind, get_tracer

    name = params.get("name")
    target = f" {name}" if isinstance(name, str) else ""
    attributes = {"mcp.method.name": method, "gaia_bridge.upstream": upstream}
    tracer = get_tracer("gaia-mcp-bridge", __version__)
    with tracer.start_as_current_span(
        f"{method}{target}", kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
    ):
        meta = params.get("_meta")
        traced: JSON = dict(meta) if is_object(meta) else {}
        inject(traced)
        yield {**params, "_meta": traced}
