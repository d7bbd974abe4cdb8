"""Servers of both eras: each client is given a connection of its own era, and what only that one can do works."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.client import Era, ServerHandshake
from gaia_bridge.model import HttpServerSpec, ServerOptions, ServerSpec, SourceState, StdioServerSpec
from gaia_bridge.settings import Settings
from gaia_bridge.sources.upstream.eras import KnownEras
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.bridge.sources.agent.people import opened, thought_of
from tests.servers.http_upstream import served
from tests.support.agents import one_tool
from tests.support.bridges import RunningBridge, both_eras, running_bridge, text_of
from tests.support.forking import forked
from tests.support.on_demand import mcp, mcp_types, pushing_server
from tests.support.upstreams import PATIENT, FakeRequest, Heard, raw_server, running, until_ready
from tests.support.upstreams import text_of as said
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]


def pushing_spec() -> StdioServerSpec:
    return StdioServerSpec("push", sys.executable, forked("pushing_server.py"))


"""Over stdio, each era has a process of its own: the SDK settles a stream by its first request."""

EraOption = Literal["auto", "handshake", "2026-07-28"]


async def named(context: Any, params: Any) -> mcp_types.ElicitResult:
    """A user with a name."""
    return mcp_types.ElicitResult(action="accept", content={"name": "Ada"})


PERSON: dict[str, Any] = {
    "elicitation_callback": named,
    "sampling_callback": thought_of,
    "list_roots_callback": opened,
}


@asynccontextmanager
async def reachable(way: str) -> AsyncGenerator[ServerSpec]:
    if way == "stdio":
        yield pushing_spec()
    else:
        with served(server=pushing_server.SERVER._lowlevel_server) as url:  # pyright: ignore[reportPrivateUsage]
            yield HttpServerSpec("push", f"{url}/mcp/")


def source_of(running_one: RunningBridge, name: str = "push") -> Upstream:
    [source] = [source for source in running_one.bridge.sources if source.name == name]
    assert isinstance(source, Upstream)
    return source


@asynccontextmanager
async def among_three(spec: ServerSpec) -> AsyncGenerator[RunningBridge]:
    """A bridge with an agent, a server of the handshake era, and the one that it is about."""
    async with running_bridge(one_tool(lambda _: "worked"), settings=Settings(upstream=PATIENT)) as running_one:
        await running_one.bridge.add_upstream(replace(raw_server(), name="old"))
        await running_one.bridge.add_upstream(spec)
        await until_ready(*running_one.bridge.sources)
        yield running_one


async def asked(client: mcp.Client) -> list[str]:
    return [text_of(await client.call_tool(f"push__{tool}")) for tool in ("ask_name", "ask_model", "ask_roots")]


@pytest.mark.requirement("P-200", "F-280")
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_server_of_both_eras_asks_clients_of_the_handshake_as_if_there_were_no_bridge(way: str) -> None:
    async with reachable(way) as spec, among_three(spec) as running_one:
        source = source_of(running_one)
        assert source.details["protocolVersion"] == "2026-07-28"
        async with running_one.client("legacy", **PERSON) as old, running_one.client("auto", **PERSON) as new:
            answers: list[list[str]] = []
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    answers.append(await asked(old))

                tasks.start_soon(ask)
                for _ in range(3):  # meanwhile, a client of the other era is served as well
                    assert text_of(await new.call_tool("push__add", {"a": 1, "b": 2})) == "3"
            assert answers == [["Hello, Ada", "It says because", "file:///project"]]
            with pytest.raises(
                mcp.MCPError, match="no back-channel"
            ):  # as the server answers when it is asked directly
                await new.call_tool("push__ask_name")
            for client in (old, new):
                assert text_of(await client.call_tool("work")) == "worked"
                assert int(text_of(await client.call_tool("old__pid"))) > 0
            pids = {text_of(await client.call_tool("push__pid")) for client in (old, new, old, new)}
            assert len(pids) == (2 if way == "stdio" else 1), "a process for each era, where the server needs it"
        [other] = source.details["otherEras"]
        assert (other["state"], other["reason"]) == ("ready", "")
        assert {source.details["protocolVersion"], other["protocolVersion"]} == {"2025-11-25", "2026-07-28"}


@pytest.mark.requirement("P-200")
async def test_it_asks_both_at_once_and_each_is_asked_only_its_own() -> None:
    async with reachable("http") as spec, among_three(spec) as running_one:
        questions: dict[str, list[str]] = {"one": [], "two": []}

        def person(who: str) -> dict[str, Any]:
            async def answer(context: Any, params: Any) -> mcp_types.ElicitResult:
                questions[who].append(params.message)
                return mcp_types.ElicitResult(action="accept", content={"name": who})

            return {"elicitation_callback": answer}

        async with running_one.client("legacy", **person("one")) as one:
            async with running_one.client("legacy", "servers/push", **person("two")) as two:
                greetings: dict[str, str] = {}

                async def ask(who: str, client: mcp.Client, tool: str) -> None:
                    greetings[who] = text_of(await client.call_tool(tool))

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(ask, "one", one, "push__ask_name")
                    tasks.start_soon(ask, "two", two, "ask_name")
        assert greetings == {"one": "Hello, one", "two": "Hello, two"}
        assert questions == {"one": ["Who are you?"], "two": ["Who are you?"]}


@both_eras
@pytest.mark.requirement("P-201")
@pytest.mark.parametrize(("era", "revision"), [("handshake", "2025-11-25"), ("2026-07-28", "2026-07-28")])
async def test_an_entry_may_say_which_era_it_is_for_everybody(
    era: EraOption, revision: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with reachable("http") as spec:
        spec = replace(spec, options=ServerOptions(era=era))
        async with among_three(spec) as running_one, running_one.client(mode, **PERSON) as client:
            source = source_of(running_one)
            assert source.details["protocolVersion"] == revision
            assert source.details["era"] == era
            if era == "handshake":
                assert await asked(client) == ["Hello, Ada", "It says because", "file:///project"]
            else:
                for _ in range(2):
                    with pytest.raises(mcp.MCPError, match="no back-channel"):
                        await client.call_tool("push__ask_name")
            remedies = [text for text in caplog.messages if 'write "era": "handshake" into its entry' in text]
            assert len(remedies) == (era != "handshake"), "once for a server"
            assert source.details["otherEras"] == []


@pytest.mark.requirement("P-201")
@pytest.mark.parametrize(("mode", "era"), [("", "2026-07-28"), ("modern-only", "handshake")])
async def test_a_server_that_lacks_the_era_of_its_entry_is_not_tried_again_and_says_why(
    mode: str, era: EraOption
) -> None:
    spec = replace(raw_server(mode), options=ServerOptions(era=era))
    async with running(spec) as upstream:
        assert upstream.status.state is SourceState.FAILED
        assert "refused" in upstream.status.reason
        assert "-32601" in upstream.status.reason


@pytest.mark.requirement("P-200")
async def test_a_server_that_lacks_the_handshake_serves_its_clients_as_before_and_is_asked_once() -> None:
    async with running(raw_server("modern-only")) as upstream:
        for _ in range(3):
            assert int(said(await upstream.call_tool("pid", {}, FakeRequest()))) > 0
        assert (upstream.details["starts"], upstream.details["otherEras"]) == (2, [])
        assert upstream.details["protocolVersion"] == "2026-07-28"


@pytest.mark.requirement("P-200")
async def test_a_server_that_lacks_the_handshake_and_is_in_use_is_asked_for_it_beside() -> None:
    async with running(raw_server("modern-only")) as upstream:
        for modern in (True, False, False):
            assert int(said(await upstream.call_tool("pid", {}, FakeRequest(modern=modern)))) > 0
        [other] = upstream.details["otherEras"]
        assert (other["state"], other["era"]) == ("failed", "handshake")
        assert (upstream.status.state, upstream.details["starts"]) == (SourceState.READY, 1)


@pytest.mark.requirement("P-202")
async def test_a_server_whose_clients_are_of_one_era_has_one_process_and_lists_from_it() -> None:
    async with running(pushing_spec(), replace(PATIENT, refresh_interval=0)) as upstream:
        assert upstream.details["protocolVersion"] == "2026-07-28"
        heard = Heard(upstream)
        nothing: JSON = {}
        async with anyio.create_task_group() as tasks:  # all that come at once
            for _ in range(3):
                tasks.start_soon(upstream.call_tool, "grow", nothing, FakeRequest())
        await heard.until_that(lambda: "grown" in [tool["name"] for tool in upstream.features.tools])
        assert (upstream.details["protocolVersion"], upstream.details["otherEras"]) == ("2025-11-25", [])


@pytest.mark.requirement("F-281")
async def test_a_second_process_that_cannot_start_takes_nothing_with_it(tmp_path: Path) -> None:
    """A server that lets no second one run beside it, as those with a database do."""
    spec = raw_server("both alone", LOCK=str(tmp_path / "lock"))
    async with running(spec, replace(PATIENT, backoff_start=0.01)) as upstream:
        first = said(await upstream.call_tool("pid", {}, FakeRequest(modern=True)))
        for _ in range(3):
            assert said(await upstream.call_tool("pid", {}, FakeRequest())) == first
        assert upstream.status.state is SourceState.READY
        assert upstream.details["starts"] == 1
        [other] = upstream.details["otherEras"]
        assert other["state"] in ("backoff", "starting", "failed")


@pytest.mark.requirement("F-281")
async def test_a_second_process_that_waits_for_the_first_holds_up_one_call_and_no_more(tmp_path: Path) -> None:
    spec = raw_server("both alone", LOCK=str(tmp_path / "lock"), WAITS="1")
    async with running(spec, replace(PATIENT, connect_timeout=2, backoff_start=0.01)) as upstream:

        def state() -> str:
            [other] = upstream.details["otherEras"]
            return str(other["state"])

        first = said(await upstream.call_tool("pid", {}, FakeRequest(modern=True)))
        assert said(await upstream.call_tool("pid", {}, FakeRequest())) == first
        await until(lambda: state() == "starting")
        for _ in range(3):
            assert said(await upstream.call_tool("pid", {}, FakeRequest())) == first
        assert state() == "starting"


SHORT = replace(PATIENT, first_look=0.1, first_list=0.1, connect_timeout=600, backoff_start=0.01)
"""For what hangs when it is started: nobody waits for all of that time."""


@pytest.mark.requirement("F-341")
@pytest.mark.parametrize("first", [True, False], ids=["beside another", "instead of one that nobody used"])
async def test_a_connection_of_a_second_era_that_hangs_holds_a_call_up_for_a_moment_once_and_is_told_once(
    first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(raw_server("both, silent in one"), SHORT) as upstream:
        if first:
            await upstream.call_tool("pid", {}, FakeRequest(modern=True))
        with anyio.fail_after(20):  # of ten minutes
            pids = {said(await upstream.call_tool("pid", {}, FakeRequest())) for _ in range(3)}
            pids.add(said(await upstream.call_tool("pid", {}, FakeRequest(modern=True))))
        assert len(pids) == 1
        [other] = upstream.details["otherEras"]
        assert (other["era"], other["state"]) == ("handshake", "starting"), "it may be there one day"
        assert upstream.details["protocolVersion"] == "2026-07-28"
        told = [record for record in caplog.records if "in translation" in record.getMessage()]
        assert [record.levelname for record in told] == ["WARNING"]


@pytest.mark.requirement("F-341")
async def test_a_connection_of_a_second_era_that_comes_late_is_used_from_then_on(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with running(raw_server("both, late", GATE=str(gate)), SHORT) as upstream:
        first = said(await upstream.call_tool("pid", {}, FakeRequest(modern=True)))
        assert said(await upstream.call_tool("pid", {}, FakeRequest())) == first
        gate.touch()
        await until(lambda: [other["state"] for other in upstream.details["otherEras"]] == ["ready"])
        assert said(await upstream.call_tool("pid", {}, FakeRequest())) != first
        assert said(await upstream.call_tool("pid", {}, FakeRequest(modern=True))) == first


@pytest.mark.requirement("F-281")
async def test_each_connection_may_crash_without_the_other() -> None:
    async with running(raw_server("both"), replace(PATIENT, backoff_start=0.01)) as upstream:
        old, new = FakeRequest(), FakeRequest(modern=True)
        pids = {client: said(await upstream.call_tool("pid", {}, client)) for client in (new, old)}
        assert len(set(pids.values())) == 2
        assert "exited with code 5" in said(await upstream.call_tool("crash", {}, old))
        assert said(await upstream.call_tool("pid", {}, new)) == pids[new]
        assert upstream.status.state is SourceState.READY
        again = said(await upstream.call_tool("pid", {}, old))
        assert again not in pids.values()
        assert "exited with code 5" in said(await upstream.call_tool("crash", {}, new))
        assert said(await upstream.call_tool("pid", {}, old)) == again
        assert int(said(await upstream.call_tool("pid", {}, new))) > 0
        assert upstream.details["protocolVersion"] == "2026-07-28"


@pytest.mark.requirement("F-281")
async def test_a_connection_that_ends_is_opened_again_for_the_clients_that_it_had() -> None:
    async with running(raw_server("both"), replace(PATIENT, backoff_start=0.01)) as upstream:
        old, new = FakeRequest(), FakeRequest(modern=True)
        for client in (new, old, new):
            await upstream.call_tool("pid", {}, client)
        await upstream.call_tool("crash", {}, old)
        pid = said(await upstream.call_tool("pid", {}, old))
        starts = upstream.details["starts"]
        await upstream.call_tool("crash", {}, new)
        await until(lambda: upstream.details["starts"] > starts and upstream.status.state is SourceState.READY)
        assert upstream.details["protocolVersion"] == "2026-07-28"
        assert said(await upstream.call_tool("pid", {}, old)) == pid


@pytest.mark.requirement("P-200")
async def test_a_list_that_a_server_changes_for_one_client_is_news_for_the_clients_of_both_eras() -> None:
    async with reachable("http") as spec, running(spec, replace(PATIENT, refresh_interval=0)) as upstream:
        heard = Heard(upstream)
        try:
            await upstream.call_tool("grow", {}, FakeRequest())
            await heard.until_that(lambda: "grown" in [tool["name"] for tool in upstream.features.tools])
            assert said(await upstream.call_tool("grown", {}, FakeRequest(modern=True))) == "grown"
        finally:
            pushing_server.SERVER.remove_tool("grown")


@pytest.mark.requirement("P-200")
async def test_an_update_on_the_connection_of_one_era_is_news_for_the_clients_of_both() -> None:
    async with running(raw_server("both"), replace(PATIENT, refresh_interval=0)) as upstream:
        heard = Heard(upstream)
        await upstream.call_tool("pid", {}, FakeRequest(modern=True))
        before = len(heard.changes)
        await upstream.call_tool("announce", {"uri": "a:b"}, FakeRequest())
        await heard.until_that(lambda: any(change.uri == "a:b" for change in heard.changes[before:]))


@pytest.mark.requirement("P-202")
async def test_what_is_known_to_have_both_eras_is_started_once_for_whoever_comes_first(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    spec = raw_server("both")
    async with running(spec, cache=cache) as upstream:
        await upstream.call_tool("pid", {}, FakeRequest(modern=True))
        await upstream.call_tool("pid", {}, FakeRequest())
        await until(lambda: any(tmp_path.iterdir()) and '"both": true' in next(tmp_path.iterdir()).read_text())
        assert upstream.details["protocolVersion"] == "2026-07-28"
    async with running(spec, cache=cache) as upstream:
        assert upstream.status.state is SourceState.STOPPED
        await upstream.call_tool("pid", {}, FakeRequest())
        assert (upstream.details["protocolVersion"], upstream.details["otherEras"]) == ("2025-11-25", [])
        assert upstream.details["starts"] == 1
        await upstream.call_tool("pid", {}, FakeRequest(modern=True))
        assert [other["era"] for other in upstream.details["otherEras"]] == ["2026-07-28"]


async def test_a_client_with_a_connection_of_its_own_has_one_of_its_own_era() -> None:
    spec = replace(pushing_spec(), options=ServerOptions(isolation="session"))
    async with among_three(spec) as running_one, running_one.client("legacy", **PERSON) as client:
        assert await asked(client) == ["Hello, Ada", "It says because", "file:///project"]
        assert source_of(running_one).details["sessions"] == 1


def handshake(era: Era, *, also_modern: bool = False) -> ServerHandshake:
    return ServerHandshake("", era is Era.MODERN, {}, {}, None, also_modern)


def test_what_is_known_of_eras_is_what_was_tried() -> None:
    known = KnownEras(ServerOptions())
    known.record(handshake(Era.MODERN), known.begin())
    assert (known.both, known.first) == (None, Era.MODERN)
    known.prefer(Era.LEGACY)
    assert known.first is Era.MODERN, "it may not have the other"
    known.note(Era.LEGACY, had=True)
    known.prefer(Era.LEGACY)
    assert (known.both, known.begin(), known.begin()) == (True, Era.LEGACY, None)
    known.record(handshake(Era.MODERN), Era.LEGACY)
    assert (known.both, known.may_have(Era.LEGACY)) == (False, False)
    known.record(handshake(Era.LEGACY), None)
    assert not known.may_have(Era.MODERN)
    known.record(handshake(Era.LEGACY, also_modern=True), None)
    assert (known.both, known.first) == (True, Era.MODERN)
    forced = KnownEras(ServerOptions(era="handshake"))
    forced.recall(Era.MODERN, True)
    assert (forced.only, forced.begin(), forced.begin()) == (Era.LEGACY, Era.LEGACY, Era.LEGACY)


@pytest.mark.parametrize(
    ("era", "both", "legacy", "modern"),
    [
        (Era.LEGACY, None, True, False),
        (Era.LEGACY, True, True, True),
        (Era.MODERN, None, True, True),
        (Era.MODERN, False, False, True),
    ],
)
def test_what_was_known_last_time_counts(era: Era, both: bool | None, legacy: bool, modern: bool) -> None:
    known = KnownEras(ServerOptions())
    known.recall(era, both)
    assert (known.may_have(Era.LEGACY), known.may_have(Era.MODERN), known.first) == (legacy, modern, era)
