"""One call through a bridge, with OpenTelemetry: prints the spans, and what the server was told of the trace."""

from __future__ import annotations

import json
import sys

import anyio
from mcp import Client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.bridges import running_bridge
from tests.support.upstreams import raw_server, until_ready

EXPORTER = InMemorySpanExporter()


async def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    async with running_bridge() as running:
        await running.bridge.add_upstream(raw_server())
        await until_ready(*running.bridge.sources)
        EXPORTER.clear()
        client: Client
        async with running.client("legacy") as client:
            result = await client.call_tool("up__meta")
        spans = [
            {
                "name": span.name,
                "kind": span.kind.name,
                "trace": f"{span.context.trace_id:032x}",
                "id": f"{span.context.span_id:016x}",
                "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
                "scope": span.instrumentation_scope.name,
            }
            for span in EXPORTER.get_finished_spans()
            if span.context is not None and span.instrumentation_scope is not None
        ]
    [block] = result.content
    sys.stdout.write(json.dumps({"spans": spans, "told": json.loads(getattr(block, "text", "{}"))}))


if __name__ == "__main__":
    anyio.run(main)
