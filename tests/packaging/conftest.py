"""One build for all packaging tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, build


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a release would build it."""
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))
