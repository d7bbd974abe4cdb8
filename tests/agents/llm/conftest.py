"""One scripted model server for all tests of a process, which each test gives a script of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.scripted_model import ModelHandle, script, scripted_model

VARIABLES = ("LEMONADE_BASE_URL", "OLLAMA_HOST", "PROVIDER")


@pytest.fixture(autouse=True)
def no_models_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer's own model servers are nobody's default here."""
    for name in tuple(os.environ):
        if name in VARIABLES or name.startswith("OPENAI_") or name.endswith(("_API_KEY", "_PROXY", "_proxy")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def running_server() -> Iterator[ModelHandle]:
    """The process."""
    with scripted_model() as handle:
        yield handle
        handle.play(script())


@pytest.fixture
def server(running_server: ModelHandle) -> Iterator[ModelHandle]:
    """The server, without a script; afterwards, the script must have had an answer to everything."""
    running_server.play(script())
    yield running_server
    assert running_server.state()["problems"] == []
