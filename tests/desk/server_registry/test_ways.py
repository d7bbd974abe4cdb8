"""Of the ways to a server, the first that can be used here is taken; of the others it is said why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gaia_bridge_desk.server_registry.documents import (
    Argument,
    KeyValueInput,
    Package,
    PackageTransport,
    Remote,
    Server,
)
from gaia_bridge_desk.server_registry.ways import REMOTE, chosen, url_problem, ways_to

NPM = Package("npm", "tool", "1.0.0")
PYPI = Package("pypi", "tool", "1.0.0")
SSE = Remote("sse", "https://a.example/sse")
HTTP = Remote("streamable-http", "https://a.example/mcp")


def having(*programs: str) -> Callable[[str], bool]:
    return programs.__contains__


def problem_of(what: Package | Remote) -> str:
    listed = Server("a.b/c", packages=(what,)) if isinstance(what, Package) else Server("a.b/c", remotes=(what,))
    [way] = ways_to(listed, having("npx", "uvx", "pipx", "docker"))
    return way.problem


def test_packages_come_before_addresses_and_sse_comes_last() -> None:
    ways = ways_to(Server("a.b/c", packages=(PYPI, NPM), remotes=(SSE, HTTP)), having("npx"))
    assert [way.what for way in ways] == [PYPI, NPM, HTTP, SSE]
    assert ways[0].problem == "needs uvx, which comes with uv (https://docs.astral.sh/uv)"
    assert chosen(ways, None) is ways[1]
    assert chosen(ways, REMOTE) is ways[2]
    assert chosen(ways, "pypi") is None
    assert chosen([], None) is None


@pytest.mark.parametrize(
    ("hint", "programs", "runner"),
    [
        ("", ("uvx", "pipx"), "uvx"),
        ("pipx", ("uvx", "pipx"), "pipx"),
        ("pipx", ("uvx",), "uvx"),
        ("python", ("uv",), "uv"),
    ],
)
def test_the_program_that_the_author_names_is_taken_if_it_is_there(
    hint: str, programs: tuple[str, ...], runner: str
) -> None:
    listed = Server("a.b/c", packages=(replace(PYPI, runtime_hint=hint),))
    [way] = ways_to(listed, having(*programs))
    assert way.runner is not None
    assert way.runner.words[0] == runner


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"identifier": "-g"}, "no name of a package"),
        ({"version": "latest"}, "no version"),
        ({"transport": PackageTransport("streamable-http", "http://127.0.0.1:1")}, "started apart from the bridge"),
        ({"file_sha256": "0" * 64}, "wants its SHA-256 checked"),
        ({"registry_type": "mcpb"}, "a bundle"),
        ({"registry_type": "tar"}, "not known here"),
        ({"package_arguments": (Argument(type="positional", value="x" * 9_000),)}, "more than 8192 characters"),
        ({"package_arguments": (Argument(type="named", name="--a\x1b[2J"),)}, "cannot be seen"),
        ({"runtime_arguments": (Argument(type="positional", value="\u202ea"),)}, "cannot be seen"),
        ({"environment_variables": (KeyValueInput(name="A", value="a\nb"),)}, "cannot be seen"),
        ({"environment_variables": (KeyValueInput(name="A=B"),)}, "no name of a variable"),
        (
            {"runtime_hint": "bash", "runtime_arguments": (Argument(type="positional", value="x"),)},
            "is started by 'bash'",
        ),
    ],
)
def test_a_package_that_is_not_run_is_told_with_the_reason(change: dict[str, Any], said: str) -> None:
    assert said in problem_of(replace(NPM, **change))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://a.example/mcp", ""),
        ("http://127.0.0.1:8000/mcp", ""),
        ("http://localhost/mcp", ""),
        ("http://a.example/mcp", "not encrypted"),
        ("http://127.0.0.1.a.example/mcp", "not encrypted"),
        ("https://127.0.0.1@a.example/mcp", "has a user in it"),
        ("https://a.example/m cp", "a blank"),
        ("https://a.example/\u202e", "cannot be seen"),
        ("https://a.example:port/", "no URL"),
        ("https://[::1", "no URL"),
        ("file:///etc/passwd", "no URL of https"),
        ("//a.example", "no URL of https"),
        ("https:///mcp", "no URL of https"),
        ("https://a.example/" + "x" * 8_200, "more than 8192"),
    ],
)
def test_an_address_is_one_that_means_to_everybody_what_it_seems_to(url: str, said: str) -> None:
    assert (said in url_problem(url)) if said else url_problem(url) == ""


@given(st.text(max_size=40) | st.text(max_size=20).map("https://".__add__))
def test_any_text_is_judged_as_an_address(url: str) -> None:
    if not url_problem(url):
        assert url.lower().startswith(("https://", "http://"))
        assert url.isprintable()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://a.example/{path}", ""),
        ("https://{region}.a.example/mcp", ""),
        ("{base}/mcp", ""),
        ("{base}\x1b/mcp", "cannot be seen"),
        ("http://a.example/{path}", "not encrypted"),
    ],
)
def test_an_address_with_places_is_judged_as_far_as_it_is_known(url: str, said: str) -> None:
    problem = problem_of(Remote("sse", url))
    assert (said in problem) if said else problem == ""


def test_a_transport_that_is_not_known_is_told() -> None:
    assert (
        problem_of(Remote("carrier-pigeon", "https://a.example")) == "speaks 'carrier-pigeon', which is not known here"
    )
