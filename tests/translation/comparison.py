"""Servers reached directly and through a bridge, compared: `python -m tests.translation.comparison` lists differences.

A client gets everything from a server through the bridge as it does without. What differs all the same, and why, is in
`allowed_differences.toml`; the test suite compares too, and exactly that has to come of it.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import anyio
from msgspec.structs import replace

from gaia_bridge.model import HttpServerSpec, ServerSpec
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import is_array, is_object
from tests.interaction.connecting import ERAS, serving
from tests.interaction.everything_agent import EverythingAgent
from tests.support.on_demand import mcp_streamable_http
from tests.support.upstreams import until_ready
from tests.support.waiting import until
from tests.translation.legacy_only import forget_discovery
from tests.translation.recording import LOG, Recording, record
from tests.translation.steps import AGENT_STEPS, everything_steps
from tests.translation.through import AT_ONCE, NAME, QUICK
from tests.upstreams.catalogs import target_of
from tests.upstreams.servers import EVERYTHING, everything_servers

__all__ = [
    "ALLOWED",
    "Allowed",
    "Difference",
    "allowed",
    "compare_agent",
    "compare_everything",
    "differences",
    "routes_of",
    "unexpected",
]

ALLOWED: Final = Path(__file__).with_name("allowed_differences.toml")
ATTEMPTS: Final = 3
"""To be there when the server asks for roots, once, a third of a second after the handshake. Over HTTP it asks on a
stream that the client has to open first."""
SHOWN: Final = 400
"""Characters of a value."""
_MISSING: Final = "(nothing)"


class Difference(NamedTuple):
    """Something that is not the same through the bridge."""

    route: str
    """The server, and the era of the client that reaches it through the bridge."""
    at: str
    """Where in the recordings: the step, and the keys from there on."""
    directly: Any
    through: Any


@dataclass(frozen=True)
class Allowed:
    """A difference that has to be.

    Args:
        routes: Where it occurs, all of them; `*` stands for anything.
        at: Where in the recordings it occurs, all of them; `*` stands for anything.
        why: The reason.
    """

    routes: Sequence[str]
    at: Sequence[str]
    why: str


def allowed(path: Path = ALLOWED) -> list[Allowed]:
    """The differences that have to be."""
    return [Allowed(**entry) for entry in tomllib.loads(path.read_text("utf-8"))["difference"]]


def unexpected(found: Sequence[Difference], known: Sequence[Allowed], routes: Sequence[str]) -> list[str]:
    """What is wrong: each difference that is not allowed, and each that is allowed and did not occur.

    Args:
        found: All differences.
        known: Those that are allowed.
        routes: Those that were compared.
    """
    occurred = set[tuple[int, str, str]]()
    problems: list[str] = []
    for difference in found:
        matches = {
            (number, difference.route, at)
            for number, entry in enumerate(known)
            for at in entry.at
            if _is_of(difference.route, entry) and fnmatchcase(difference.at, at)
        }
        occurred |= matches
        if not matches:
            problems.append(_shown(difference))
    return problems + [
        f"{route}: {at}: is allowed to differ, and does not"
        for number, entry in enumerate(known)
        for route in routes
        for at in entry.at
        if _is_of(route, entry) and (number, route, at) not in occurred
    ]


def _is_of(route: str, entry: Allowed) -> bool:
    return any(fnmatchcase(route, pattern) for pattern in entry.routes)


def _shown(difference: Difference) -> str:
    route, at, *values = difference
    directly, through = (json.dumps(value, ensure_ascii=False)[:SHOWN] for value in values)
    return f"{route}: {at}:\n  directly {directly}\n  through  {through}"


def differences(route: str, directly: Recording, through: Recording) -> Iterator[Difference]:
    """What is not the same in two recordings, each difference as deep inside as can be told."""
    for step in directly.keys() | through.keys():
        yield from _differences(route, step, directly.get(step, _MISSING), through.get(step, _MISSING))


def _differences(route: str, at: str, directly: Any, through: Any) -> Iterator[Difference]:
    if is_object(directly) and is_object(through):
        for key in directly.keys() | through.keys():
            yield from _differences(route, f"{at} / {key}", directly.get(key, _MISSING), through.get(key, _MISSING))
    elif is_array(directly) and is_array(through) and len(directly) == len(through):
        for number, (one, other) in enumerate(zip(directly, through, strict=True)):
            yield from _differences(route, f"{at} / {number}", one, other)
    elif directly != through:
        yield Difference(route, at, directly, through)


# Who is compared


async def compare_everything(name: str, spec: ServerSpec) -> list[Difference]:
    """A server of the handshake era: what an official client gets of it, and what those of both eras get through us.

    Args:
        name: One of `EVERYTHING`.
        spec: How it is reached.
    """
    directly = await _directly(spec)
    found: list[Difference] = []
    for era in ERAS:
        async with _published(spec, asks=True) as url:
            steps = everything_steps(directly=False)
            through = await record(mcp_streamable_http.streamable_http_client(url), era, steps, logs=era == "legacy")
        found += differences(f"{name} {era}", directly, through)
    return found


async def _directly(spec: ServerSpec) -> Recording:
    """What an official client of the handshake era gets of the server."""
    recording: Recording = {}
    for _ in range(ATTEMPTS):
        target = target_of(spec)
        transport = mcp_streamable_http.streamable_http_client(target) if isinstance(target, str) else target
        recording = await record(transport, "legacy", everything_steps(directly=True), greetings=[LOG])
        if recording["introduction"]["asked"]:
            break
    return recording


async def compare_agent(server_era: str) -> list[Difference]:
    """Our own agent, of one era, reached directly by clients of its era and by those of both through a bridge."""
    found: list[Difference] = []
    for era in ERAS:
        direct_era = "legacy" if server_era == "legacy" else era
        async with _agent(server_era) as spec:
            directly = await record(mcp_streamable_http.streamable_http_client(spec.url), direct_era, AGENT_STEPS)
        async with _agent(server_era) as spec, _published(spec) as url:
            through = await record(mcp_streamable_http.streamable_http_client(url), era, AGENT_STEPS)
        found += differences(f"agent-{server_era} {era}", directly, through)
    return found


@asynccontextmanager
async def _agent(era: str) -> AsyncGenerator[HttpServerSpec]:
    async with serving({"everything": EverythingAgent()}, Settings(agent=AgentLimits(definitions_max_age=0))) as served:
        url, bridge = served
        if era == "legacy":
            forget_discovery(bridge)
        yield HttpServerSpec(NAME, f"{url}/mcp")


@asynccontextmanager
async def _published(spec: ServerSpec, *, asks: bool = False) -> AsyncGenerator[str]:
    """The URL of a server, published by a bridge in this process.

    Args:
        spec: The server.
        asks: Whether it asks something by itself when somebody comes. Nobody can answer that, as nobody has called
            anything; and when somebody has, it is to be over.
    """
    async with serving({}, QUICK) as (url, bridge):
        await bridge.add_upstream(replace(spec, options=AT_ONCE))
        [source] = bridge.sources
        assert isinstance(source, Upstream)
        await until_ready(source)
        if asks:
            with suppress(TimeoutError):  # see `ATTEMPTS`
                await until(lambda: bool(source._shared.relays.askers))  # pyright: ignore[reportPrivateUsage]
        yield f"{url}/servers/{spec.name}/mcp"


async def compare_all(servers: Mapping[str, ServerSpec]) -> list[Difference]:
    """Everything with everything."""
    found = [difference for era in ERAS for difference in await compare_agent(era)]
    for name, spec in servers.items():
        found += await compare_everything(name, spec)
    return found


def routes_of(*servers: str) -> list[str]:
    """The routes to some servers."""
    return [f"{server} {era}" for server in servers for era in ERAS]


def _main() -> int:
    with everything_servers() as servers:
        found = anyio.run(compare_all, servers, backend_options={"use_uvloop": True})
    for difference in sorted(found, key=lambda difference: difference[:2]):
        sys.stdout.write(f"{_shown(difference)}\n")
    problems = unexpected(found, allowed(), routes_of(*EVERYTHING, "agent-modern", "agent-legacy"))
    sys.stderr.write("".join(f"Unexpected: {problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as home:  # what the bridge remembers of servers is not to stay
        os.environ["HOME"] = home
        sys.exit(_main())
