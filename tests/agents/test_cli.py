"""The `gaia` command: `mcp` goes to the bridge, anything else is explained."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from gaia import __version__
from gaia.cli import main


@pytest.fixture
def bridge_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """What the bridge's command line was called with; it answers 7."""
    calls: list[tuple[list[str], str]] = []

    def bridge(args: Sequence[str] | None = None, prog_name: str = "gaia-bridge") -> int:
        calls.append((list(args or ()), prog_name))
        return 7

    module = ModuleType("gaia_bridge_cli")
    module.__dict__["main"] = bridge
    monkeypatch.setitem(sys.modules, "gaia_bridge_cli", module)
    return calls


@pytest.mark.parametrize("rest", [[], ["serve", "--stdio"], ["--help"], ["mcp"]])
def test_mcp_is_the_bridge_under_another_name(rest: list[str], bridge_calls: list[tuple[list[str], str]]) -> None:
    assert main(["mcp", *rest]) == 7
    assert bridge_calls == [(rest, "gaia mcp")]


def test_the_command_line_of_the_process_is_the_default(
    monkeypatch: pytest.MonkeyPatch, bridge_calls: list[tuple[list[str], str]]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gaia", "mcp", "agents", "--json"])
    assert main() == 7
    assert bridge_calls == [(["agents", "--json"], "gaia mcp")]


@pytest.mark.parametrize(
    ("args", "came"),
    [([], "`gaia` needs a command"), (["chat"], "`gaia chat` is not a command"), (["-x"], "`gaia -x`")],
)
def test_any_other_command_is_a_usage_error(
    args: list[str], came: str, bridge_calls: list[tuple[list[str], str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage: gaia mcp COMMAND" in captured.err
    assert came in captured.err
    assert bridge_calls == []


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_no_error(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([option]) == 0
    captured = capsys.readouterr()
    assert "Usage: gaia mcp COMMAND" in captured.out
    assert captured.err == ""


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gaia-mcp-bridge {__version__}\n"
