"""The servers that the OAuth tests talk to."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest

from tests.servers.auth_server import AuthServer, auth_server


@pytest.fixture
async def server() -> AsyncGenerator[AuthServer]:
    async with auth_server() as running:
        with anyio.fail_after(20):
            yield running


@pytest.fixture(autouse=True)
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
