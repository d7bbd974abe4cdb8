"""Who runs which server in this process, and who would use it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec.structs import replace

from gaia_bridge.model import HttpServerSpec, OpenApiServerSpec, ServerOptions, ServerSpec, StdioServerSpec
from gaia_bridge.sources.upstream.shared_servers import Lender, SharedServers, covers

CHILD = StdioServerSpec("child", "program", ("one", "two"), {"A": "1"}, "/folder")
PLACE = HttpServerSpec("place", "http://127.0.0.1:9/mcp", {"Authorization": "Bearer x"})


class FakeLender:
    """Runs a server, as far as it says."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec


def lender(spec: ServerSpec) -> Lender:
    return cast("Lender", FakeLender(spec))


@pytest.mark.parametrize("spec", [CHILD, PLACE])
def test_a_server_is_found_whatever_it_is_called_until_it_is_taken_back(spec: ServerSpec) -> None:
    servers = SharedServers()
    one, other = lender(spec), lender(spec)
    take_back = servers.add(one)
    assert servers.find(replace(spec, name="another")) is one
    take_other_back = servers.add(other)
    assert servers.find(spec) is other
    take_other_back()
    take_other_back()
    assert servers.find(spec) is one
    take_back()
    assert servers.find(spec) is None


@pytest.mark.parametrize(
    ("spec", "differs"),
    [
        (CHILD, {"command": "another"}),
        (CHILD, {"args": ("one",)}),
        (CHILD, {"env": {"A": "2"}}),
        (CHILD, {"cwd": None}),
        (CHILD, {"options": ServerOptions(era="handshake")}),
        (CHILD, {"options": ServerOptions(isolation="session")}),
        (CHILD, {"options": ServerOptions(is_of_one_client=True)}),
        (PLACE, {"url": "http://127.0.0.1:9/other"}),
        (PLACE, {"headers": {"Authorization": "Bearer y"}}),
        (PLACE, {"sse": True}),
        (PLACE, {"oauth": None}),
    ],
)
def test_a_server_that_differs_is_another(spec: ServerSpec, differs: dict[str, Any]) -> None:
    servers = SharedServers()
    servers.add(lender(spec))
    told: list[str] = []
    servers.seek(replace(spec, **differs), lambda: told.append("another"))
    assert servers.find(replace(spec, **differs)) is None
    servers.add(lender(spec))
    assert not told


def test_options_that_concern_one_side_alone_make_no_difference() -> None:
    servers = SharedServers()
    options = ServerOptions(timeout=5, allowed_tools=("a",), lazy=False, max_concurrency=1)
    servers.add(one := lender(replace(CHILD, options=options)))
    assert servers.find(CHILD) is one


def test_an_http_api_is_not_shared() -> None:
    api = OpenApiServerSpec("api", "http://127.0.0.1:9/openapi.json")
    servers = SharedServers()
    servers.add(lender(CHILD))
    assert servers.find(api) is None
    servers.seek(api, lambda: None)()
    assert not servers.wanted(api)


def test_those_who_would_use_a_server_are_told_whenever_somebody_runs_it() -> None:
    servers = SharedServers()
    told: list[str] = []
    wanted = replace(CHILD, inherit_env=True)
    stop = servers.seek(wanted, lambda: told.append("child"))
    servers.seek(PLACE, lambda: told.append("place"))
    assert servers.wanted(CHILD) == [wanted]
    servers.add(lender(CHILD))
    servers.add(lender(CHILD))
    assert told == ["child", "child"]
    stop()
    stop()
    servers.add(lender(CHILD))
    assert told == ["child", "child"]
    assert not servers.wanted(CHILD)


def test_what_a_server_inherits_may_be_more_than_somebody_wants_and_never_less() -> None:
    for wanted, running, does in [
        (True, (), True),
        (True, ("A",), True),
        (True, True, True),
        (("A", "B"), ("A",), True),
        (("A",), (), True),
        ((), (), True),
        (False, (), True),
        ((), False, True),
        ((), True, False),
        (("A",), True, False),
        (("A",), ("B",), False),
        (False, ("A",), False),
    ]:
        specs = (replace(CHILD, inherit_env=names) for names in (wanted, running))
        assert covers(*specs) is does, (wanted, running)
    assert covers(PLACE, PLACE)
