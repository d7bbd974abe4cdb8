"""What the tests of commands share."""

from __future__ import annotations

import pytest

from gaia_bridge_cli import main
from tests.cli.running import Run


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; returns its exit code, what it printed and what it said."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return run
