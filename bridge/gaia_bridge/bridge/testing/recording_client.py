"""A client for tests: in memory, in one era, with a user and a model, and with a record of all messages to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import anyio

from gaia_bridge.bridge.embedding.client import Client
from gaia_bridge.bridge.testing.doubles import FakeModel, FakeUser
from gaia_bridge.model import Progress
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON

_PATIENCE: Final = 5.0
"""Seconds in which an announcement of an agent has come: it is a matter of milliseconds."""


class RecordingClient(Client):
    """A `Client` that records messages to it. Made by `connected`.

    Args:
        target: As `Client` takes it.
        user: Answers forms; nobody is there if `None`.
        model: Answers for a model; there is none if `None`.
        **options: As `Client` takes them.

    Attributes:
        user: The user who answers forms, with the questions so far.
        model: The model that answers, with the questions so far.
        changes: The notifications so far: method and parameters.
        log: The log messages so far, all levels: `level`, `data` and perhaps `logger`.
        progress: The progress reports of all calls so far.
    """

    def __init__(
        self, target: object, *, user: FakeUser | None = None, model: FakeModel | None = None, **options: Any
    ) -> None:
        self.user = user
        self.model = model
        self.changes: list[tuple[str, JSON]] = []
        self.log: list[JSON] = []
        self.progress: list[Progress] = []
        self._news = anyio.Event()
        super().__init__(
            target, on_elicitation=user, on_sampling=model, on_log=self.log.append, on_change=self._changed, **options
        )
        self._on_progress = self.progress.append

    async def __aenter__(self) -> RecordingClient:
        await super().__aenter__()
        await self.set_log_level("debug")
        return self

    async def heard(self, method: str) -> JSON:
        """Wait until a notification has come, unless one came before.

        Args:
            method: Such as `notifications/tools/list_changed`.

        Returns:
            The parameters of the first one, which is forgotten: the next call waits for the next.

        Raises:
            TimeoutError: None came; the message lists those that came instead.
        """
        with anyio.move_on_after(_PATIENCE):
            while True:
                for number, (came, params) in enumerate(self.changes):
                    if came == method:
                        del self.changes[number]
                        return params
                self._news = anyio.Event()
                await self._news.wait()
        came_instead = ", ".join(came for came, _ in self.changes) or "nothing"
        raise TimeoutError(f"no {method} came within {_PATIENCE:g} s, but {came_instead}")

    def _changed(self, method: str, params: JSON) -> None:
        self.changes.append((method, params))
        self._news.set()


def connected(
    target: object,
    *,
    era: Literal["legacy", "modern"] | None = None,
    user: FakeUser | None = None,
    model: FakeModel | None = None,
    roots: Sequence[str] = (),
    endpoint: str | None = None,
    limits: UpstreamLimits | None = None,
) -> RecordingClient:
    """Return a client for a test: `async with connected(MyAgent(), user=FakeUser(True)) as client`.

    Args:
        target: As `Client` takes it: an agent, a `Bridge`, a file, a command, a URL.
        era: The era to speak; by default the server's best. The fixture `mcp_client` runs a test in both.
        user: Answers forms; nobody is there if `None`.
        model: Answers for a model; there is none if `None`.
        roots: Folders, as URIs, that the server may look at.
        endpoint: As `Client` takes it.
        limits: Deadlines and bounds.
    """
    return RecordingClient(target, era=era, user=user, model=model, roots=roots, endpoint=endpoint, limits=limits)
