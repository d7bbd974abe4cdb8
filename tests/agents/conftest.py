"""Tools registered by one test are gone before the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gaia.agents.base import tools


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    """The process-wide registry is empty, and after the test what it was before: other modules register as well."""
    registry = tools._TOOL_REGISTRY  # pyright: ignore[reportPrivateUsage]  # the specification's name for it
    before = dict(registry)
    registry.clear()
    yield
    registry.clear()
    registry.update(before)
