"""Why a server does not start is read off what real tools said, and what to do is told beside it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gaia_bridge.config.launching.failure_causes import Cause, Failure, cause_for, cause_of
from gaia_bridge.model import HttpServerSpec, StdioServerSpec

RECORDED = tomllib.loads(Path(__file__).with_name("recorded_failures.toml").read_text(encoding="utf-8"))["failure"]


def test_the_line_that_says_why_is_found_in_what_tools_said_and_has_a_remedy() -> None:
    for recorded in RECORDED:
        lines = recorded["said"].splitlines()
        cause = cause_of(Failure(lines, recorded["command"].split()[0]))
        assert cause is not None, recorded
        assert recorded["line"] in cause.line, (recorded["tool"], cause)
        assert recorded["remedy"] in cause.remedy, (recorded["tool"], cause)
        assert "{" not in cause.remedy
        assert cause_of(Failure([*lines, *lines])) == cause  # it was started twice, to find out its era


@pytest.mark.parametrize(
    "line", ["listening on port 3000", "npm warn deprecated glob@7", "warning: no key", "", "error"]
)
def test_what_says_nothing_of_a_cause_is_not_explained(line: str) -> None:
    assert cause_of(Failure([line], "python")) is None
    assert cause_of(Failure([line], "python", timed_out=True)) is None


@pytest.mark.requirement("F-270")
def test_a_variable_that_a_server_lacks_and_we_have_is_named() -> None:
    ours = {"BRAVE_API_KEY": "k", "GAIA_BRIDGE_TOKEN": "t", "HOME": "/h", "OTHER_KEY": "o"}
    said = ["starting", "Error: BRAVE_API_KEY environment variable is required", "OTHER_KEY too"]
    spec = StdioServerSpec("x", "x")
    cause = cause_for(spec, said, ours)
    assert cause is not None and cause.line == said[1]
    assert cause.remedy.startswith(
        "you have BRAVE_API_KEY set, and servers see only what is named: --env BRAVE_API_KEY"
    )
    for lines in ([], ["GAIA_BRIDGE_TOKEN is there"], ["HOME"]):
        assert cause_for(spec, lines, ours) is None
    assert cause_for(StdioServerSpec("x", "x", inherit_env=True), ["BRAVE_API_KEY is wrong"], ours) is None
    assert cause_for(HttpServerSpec("x", "http://x"), said, ours) is None


@pytest.mark.parametrize(
    "line",
    [
        "Error: MY_API_KEY environment variable is required",
        "Please set the MY_API_KEY environment variable",
        "ValueError: Missing required environment variable: MY_API_KEY",
        "MY_API_KEY is not set",
    ],
)
def test_a_variable_that_nobody_set_is_named(line: str) -> None:
    assert cause_of(Failure([line])) == Cause(line, "set the variable MY_API_KEY, and hand it on with --env MY_API_KEY")
    assert cause_of(Failure([line], seen=frozenset({"MY_API_KEY"}))) is None


def test_a_setting_of_ours_that_the_server_does_not_see_explains_what_it_does_not_find() -> None:
    line = "cause: Because ours was not found in the package registry and you require ours"
    cause = cause_of(Failure([line], "uvx", ours=frozenset({"UV_DEFAULT_INDEX"})))
    assert cause is not None and "misspelled? Or: you have UV_DEFAULT_INDEX set" in cause.remedy
    seen = frozenset({"UV_DEFAULT_INDEX"})
    cause = cause_of(Failure([line], "uvx", ours=seen, seen=seen))
    assert cause is not None and "misspelled" in cause.remedy


def test_what_is_still_downloaded_when_its_time_is_over_is_given_more() -> None:
    silent = cause_of(Failure([], "npx", timed_out=True))
    assert silent is not None and str(silent).startswith("npx may still be downloading it: --startup-timeout 1200")
    ended = cause_of(Failure(["npm error A complete log of this run can be found in: /x"], "npx", timed_out=True))
    assert ended == silent
    told = cause_of(Failure(["Downloading numpy (16.2MiB)"], "uvx", timed_out=True))
    assert told is not None and str(told).startswith("Downloading numpy (16.2MiB); uvx may still be downloading it")
    assert cause_of(Failure([], "npx")) is None


def test_a_long_line_is_cut() -> None:
    cause = cause_of(Failure(["x" * 500 + " SELF_SIGNED_CERT_IN_CHAIN"]))
    assert cause is not None and len(cause.line) <= 300
