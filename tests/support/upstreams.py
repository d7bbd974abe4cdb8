"""Upstream servers for tests: started, watched, and gone at the end."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel

from gaia_bridge.client.transport import Transport
from gaia_bridge.contract import ClientRequest, Source
from gaia_bridge.model import Change, ChangeKind, LogMessage, Progress, ServerSpec, SourceState, StdioServerSpec
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.support.forking import forked
from tests.support.waiting import PATIENCE

__all__ = [
    "PATIENT",
    "FakeRequest",
    "Heard",
    "no_more_files",
    "raw_server",
    "running",
    "sdk_server",
    "shared_endpoints",
    "text_of",
    "until_ready",
]

TESTS = Path(__file__).parents[1]

PATIENT: Final = UpstreamLimits(probe_timeout=20)
"""For real servers that tell by the probe which era they are of, however long a busy machine takes to start them."""


def raw_server(mode: str = "", **env: str) -> StdioServerSpec:
    """The server in `tests/servers/raw_server.py`: quick to start, and as odd as needed."""
    script = TESTS / "servers" / "raw_server.py"
    return StdioServerSpec("up", sys.executable, ("-S", str(script), mode), env)


def sdk_server() -> StdioServerSpec:
    """The server in `tests/servers/stdio_upstream.py`: written with the SDK, as most are."""
    return StdioServerSpec("up", sys.executable, forked("stdio_upstream.py"))


@asynccontextmanager
async def running(
    spec: ServerSpec,
    limits: UpstreamLimits | None = None,
    *,
    transport: Transport | None = None,
    cache: FeatureCache | None = None,
) -> AsyncGenerator[Upstream]:
    """An upstream of which is known whether it works, or that nobody needs to know yet; stopped at the end."""
    upstream = Upstream(spec, limits or PATIENT, transport=transport, cache=cache)
    async with anyio.create_task_group() as tasks:
        with _on_shared_endpoints(upstream):
            await tasks.start(upstream.run)
            with anyio.fail_after(30):
                await upstream.wait_settled()
            yield upstream
        tasks.cancel_scope.cancel()


shared_endpoints: Final[list[Catalog]] = []
"""What publishes, beside sources of its own, every upstream that is `running`."""


@contextmanager
def _on_shared_endpoints(upstream: Upstream) -> Generator[None]:
    catalogs = [
        catalog
        for catalog in shared_endpoints
        if upstream.name not in {source.name for source in catalog.sources}  # several may have the usual name
    ]
    for catalog in catalogs:
        catalog.add(upstream)
    try:
        yield
    finally:
        for catalog in catalogs:
            catalog.remove(upstream.name)


async def until_ready(*sources: Source) -> None:
    """Wait until servers are there, however long a busy machine takes to start them; how soon is not what is tested."""
    with anyio.move_on_after(30):
        while any(source.status.state is not SourceState.READY for source in sources):  # noqa: ASYNC110
            await anyio.sleep(0.002)
    assert [source.status for source in sources if source.status.state is not SourceState.READY] == []


@contextmanager
def no_more_files() -> Generator[None]:
    """Let this process open no further file until the end of the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Heard:
    """Listens to an upstream."""

    def __init__(self, upstream: Upstream) -> None:
        self.changes: list[Change] = []
        self._more = anyio.Event()
        self.stop = upstream.listen(self._hear)

    async def until(self, kind: ChangeKind, uri: str = "") -> None:
        """Wait until such a change was heard."""
        await self.until_that(lambda: Change(kind, uri) in self.changes)

    async def until_that(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; asks after every change."""
        with anyio.fail_after(PATIENCE):
            while not holds():
                await self._more.wait()

    def _hear(self, change: Change) -> None:
        self.changes.append(change)
        self._more.set()
        self._more = anyio.Event()


class FakeRequest:
    """A client's request that remembers what was sent back for it."""

    def __init__(self, meta: Mapping[str, Any] | None = None, *, modern: bool = False) -> None:
        self.method = "tools/call"
        self.modern = modern
        self.client: Hashable = self
        self.principal: Hashable = self
        self.is_relayed = False
        self.address: str | None = None
        self.params: Mapping[str, Any] = {}
        self.meta: Mapping[str, Any] = meta or {}
        self.client_info: Mapping[str, Any] = {}
        self.client_capabilities: Mapping[str, Any] = {}
        self.client_folder: str | None = None
        self.log_level: str | None = None
        self.input_responses: Mapping[str, JSON] = {}
        self.request_state: str | None = None
        self.session_key: str | None = None
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.logs: list[tuple[str, Any, str | None]] = []

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        return False

    async def report_progress(self, report: Progress) -> None:
        await anyio.lowlevel.checkpoint()
        self.progress.append((report.progress, report.total, report.message))

    async def log(self, message: LogMessage) -> None:
        await anyio.lowlevel.checkpoint()
        self.logs.append((message.level, message.data, message.logger))

    async def push(self, method: str, params: JSON) -> JSON:
        raise AssertionError(f"{method} was pushed to the client")

    async def close_stream(self) -> None:
        raise AssertionError("the stream was closed")


def text_of(result: JSON) -> str:
    """The text of a result that is one block of text."""
    [block] = result["content"]
    assert block["type"] == "text"
    text: str = block["text"]
    return text


_request: type[ClientRequest] = FakeRequest
