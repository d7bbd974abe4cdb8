"""Checks each server of the configuration: whether it starts, its features, and which of those an editor loses.

The features of an editor are in `gaia_bridge_desk.editors.table`; this module knows the substitutes for missing ones.
"""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import entry_points
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.bridge.discovery import ENTRY_POINT_GROUP
from gaia_bridge.client import ClientDelegate, connect
from gaia_bridge.client.oauth.errors import LoginRequiredError
from gaia_bridge.client.transport import LaunchError, StartTimeoutError, UnreachableError, UpstreamError
from gaia_bridge.client.transport_factory import kind_of, limits_for, secrets_of, transport_for
from gaia_bridge.client.transports.http.http_values import url_for_log, usable_url
from gaia_bridge.config.launching.failure_causes import cause_for
from gaia_bridge.constants import SHIPPED_AGENTS
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import AgentServerSpec, HttpServerSpec, ServerSpec
from gaia_bridge.protocol.kinds import KINDS
from gaia_bridge.runtime.exceptions import only_error_in
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.eras import only_era
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge.text.redaction import Redactor
from gaia_bridge_daemon.front.greeting import STATUS
from gaia_bridge_daemon.front.launching import BridgeDownError, ask
from gaia_bridge_daemon.front.place import is_private, places, runtime_path
from gaia_bridge_desk.doctor.checks import Finding, Kind, Level, Subject, in_thread, is_missing, looked_up
from gaia_bridge_desk.doctor.surroundings import ServerEntry, State, Surroundings
from gaia_bridge_desk.editors.finding import is_here
from gaia_bridge_desk.editors.table import EDITORS, Editor


class Feature(Struct, frozen=True):
    """A feature that servers offer, or ask clients for.

    Args:
        name: Its name here.
        is_asked: Whether servers ask clients for it in the middle of a call, without declaring it before.
        otherwise: The bridge's substitute for a client without the feature; empty if there is none.
    """

    name: str
    is_asked: bool = False
    otherwise: str = ""


FEATURES: Final = (
    Feature("tools"),
    Feature("prompts"),
    Feature("resources"),
    Feature("resource updates"),
    Feature("list changes", otherwise="the client sees them when it lists again"),
    Feature("tasks", otherwise="the bridge waits for the result"),
    Feature("elicitation", is_asked=True),
    Feature("sampling", is_asked=True),
    Feature("roots", is_asked=True),
)
"""All features, in the order in which they are shown."""


def features_of(capabilities: JSON) -> list[str]:
    """Return the features of a server, by the capabilities that it declares.

    Args:
        capabilities: As on the wire.
    """
    features = list[str](name for name in ("tools", "prompts", "resources") if name in capabilities)
    resources = capabilities.get("resources")
    if is_object(resources) and resources.get("subscribe"):
        features.append("resource updates")
    if any(is_object(capability) and capability.get("listChanged") for capability in capabilities.values()):
        features.append("list changes")
    return [*features, "tasks"] if "tasks" in capabilities else features


def crossing(offers: Mapping[str, Sequence[str]], editors: Sequence[Editor]) -> list[JSON]:
    """Return a row for each feature that a server offers or may ask for, with its way to each editor.

    Args:
        offers: The features of each server.
        editors: The editors.
    """
    rows: list[JSON] = []
    for feature in FEATURES:
        servers = [server for server, names in offers.items() if feature.is_asked or feature.name in names]
        if servers:
            cells = {editor.name: _cell(feature, editor) for editor in editors}
            rows.append({"feature": feature.name, "asked": feature.is_asked, "servers": servers, "clients": cells})
    return rows


def _cell(feature: Feature, editor: Editor) -> str:
    if editor.has_feature(feature.name):
        return "yes"
    return "bridged" if feature.otherwise else "unknown"


_WORKS = Kind("server.works", Level.OK, "a server starts and says what it offers", "editors can use it")
_FAILS = Kind(
    "server.fails",
    Level.ERROR,
    "a server does not start, or does not answer as it should",
    "none of its tools is there for any editor",
    "gaia-bridge test-client NAME shows all that it says",
)
_LOGIN = Kind(
    "server.login",
    Level.WARNING,
    "a server wants to know who asks",
    "it is connected to, and offers nothing, until you have logged in",
    "gaia-bridge login NAME",
)
_INCOMPLETE = Kind(
    "server.incomplete",
    Level.WARNING,
    "a server does not list what it says that it has",
    "what it does not list is not published",
    "update the server, or report it to its authors: gaia-bridge test-client NAME shows what it says",
)
_NOT_STARTED = Kind(
    "server.not-started",
    Level.INFO,
    "servers were not started, as was asked",
    "whether they work is not known",
    "gaia-bridge doctor without --offline starts them",
)
_AGENT = Kind(
    "server.agent",
    Level.INFO,
    "an entry names an agent of the bridge itself",
    "it is there while the bridge publishes that agent",
    "gaia-bridge tools NAME shows its tools",
)
_NO_AGENT = Kind(
    "server.no-agent",
    Level.WARNING,
    "an entry names an agent that nothing publishes",
    "every bridge lists the server as failed, but for one that is started with that agent",
    "gaia-bridge remove NAME, unless you serve the agent by a file of your own",
)
_MANY = Kind(
    "server.many-tools",
    Level.INFO,
    "there are more tools than an editor takes",
    "the editor is shown two tools, that search and call the others, in place of all",
    'choose those that you need: "allowed_tools" in the entries, or gaia-bridge connect NAME for one server alone',
)
_LOST = Kind(
    "server.lost",
    Level.INFO,
    "an editor is not known to use a feature of a server",
    "it works for other editors; in this one it is not there",
)

_PROGRAM: Final = "mend its entry, or install the program that it names"
_KEPT: Final = 40
"""The most lines of error output that are searched for the cause."""
_SHOWN: Final = 5
"""The most names that are shown of many."""
_USUAL: Final = ("vscode", "cursor", "claude-code")
"""The editors to report on where none is installed here."""


def clients_here() -> list[Editor]:
    """Return the editors of this machine whose features are known; some usual ones if there are none."""
    editors = [editor for editor in EDITORS if editor.features]
    here = [editor for editor in editors if is_here(editor)]
    return here or [editor for editor in editors if editor.name in _USUAL]


async def _check(at: Surroundings) -> list[Finding]:
    usable = [entry for entry in at.wanted if entry.state is State.USABLE]
    if at.is_offline:
        names = ", ".join(entry.name for entry in usable)
        return [_NOT_STARTED.finding(f"not started: {names}")] if usable else []
    answers: dict[str, list[Finding]] = {}
    tools: dict[str, list[JSON]] = {}
    at_once = anyio.CapacityLimiter(max(1, at.limits.servers))

    async def look(entry: ServerEntry) -> None:
        async with at_once:
            answers[entry.name] = await _examine(at, entry, tools)

    async with anyio.create_task_group() as tasks:
        for entry in usable:
            tasks.start_soon(look, entry)
    order = [entry.name for entry in usable]
    at.reports.sort(key=lambda report: order.index(report["name"]))
    findings = [finding for name in order for finding in answers[name]]
    editors = await in_thread(clients_here)
    return [*findings, *_of_number(tools, editors), *_of_features(at, editors)]


async def _examine(at: Surroundings, entry: ServerEntry, tools: dict[str, list[JSON]]) -> list[Finding]:
    """Start one server, and report on it."""
    spec = entry.spec
    assert spec is not None
    if isinstance(spec, AgentServerSpec):
        return [await in_thread(partial(_of_agent, at, entry.name, spec.agent))]
    report: JSON = {"name": entry.name, "transport": kind_of(spec), "state": "fails"}
    at.reports.append(report)
    lines: deque[str] = deque(maxlen=_KEPT)
    again = f"gaia-bridge test-client {shlex.quote(entry.name)}{at.config_words}"
    try:
        with anyio.fail_after(at.limits.server_timeout):
            tools[entry.name], problems = await _probe(spec, at, lines.append, report)
    except TimeoutError:
        text = f"took longer than {at.limits.server_timeout:g} s"
        finding = _FAILS.finding(_failure(entry.name, text, lines), entry.name, again)
    except Exception as error:
        cause = only_error_in(error)
        finding = _failed(at, entry, cause, lines, again)
        command = looked_up(spec)
        if command and isinstance(cause, LaunchError) and await in_thread(partial(is_missing, command, at)):
            report["problem"] = finding.message
            return []  # one finding for all servers that need it: see `programs`
    else:
        report["state"] = "works"
        secretless = Redactor(secrets_of(spec))
        incomplete = [_INCOMPLETE.finding(f"{entry.name}: {secretless(text)}", entry.name, again) for text in problems]
        return [_WORKS.finding(_introduced(report), entry.name), *incomplete]
    if finding.kind is _LOGIN:
        report["state"] = "wants a login"
    report["problem"] = finding.message
    return [finding]


def _of_agent(at: Surroundings, name: str, agent: str) -> Finding:
    if agent in SHIPPED_AGENTS or entry_points(group=ENTRY_POINT_GROUP, name=agent) or agent in _running_agents():
        return _AGENT.finding(f"{name} is an agent of the bridge", name)
    message = f"{name} is agent {agent!r}, which is neither installed nor published by a bridge in the background"
    return _NO_AGENT.finding(message, name, f"gaia-bridge remove {shlex.quote(name)}{at.config_words}")


def _running_agents() -> Iterator[str]:
    """Yield the agents that bridges in the background publish, as far as they answer."""
    folder = runtime_path()
    for place in places(folder) if os.path.isdir(folder) and is_private(folder) else ():
        with suppress(BridgeDownError, OSError):
            status = ask(place, STATUS) or {}
            yield from (item["name"] for item in status.get("report", {}).get("sources", ()) if item["kind"] == "agent")


def _failed(at: Surroundings, entry: ServerEntry, error: BaseException, lines: Sequence[str], again: str) -> Finding:
    """Return the finding for an error of a server.

    Raises:
        BaseException: The error is not one of the server's.
    """
    spec = entry.spec
    assert spec is not None
    secretless = Redactor(secrets_of(spec))
    if isinstance(error, LoginRequiredError):
        remedy = f"gaia-bridge login {shlex.quote(entry.name)}{at.config_words}"
        remedy += f"; or add it {error.with_token}" if error.with_token else ""
        return _LOGIN.finding(f"{entry.name} {secretless(str(error))}", entry.name, remedy)
    if isinstance(error, ProtocolError):
        text = f"answered with an error: {error.message} ({error.code})"
    elif isinstance(error, UpstreamError):
        text = str(error)
    else:
        raise error
    cause = cause_for(spec, lines, at.environ, timed_out=isinstance(error, StartTimeoutError))
    shown = lines if cause is None or not cause.line else [cause.line]
    if cause is not None:
        remedy = cause.remedy
    elif isinstance(error, UnreachableError) and isinstance(spec, HttpServerSpec):
        remedy = f"start the server at {url_for_log(usable_url(spec.url))}, or correct its address; then {again}"
    else:
        remedy = _PROGRAM if type(error) is LaunchError else again
    return _FAILS.finding(_failure(entry.name, secretless(text), shown), entry.name, remedy)


async def _probe(
    spec: ServerSpec, at: Surroundings, hear: Callable[[str], None], report: JSON
) -> tuple[list[JSON], list[str]]:
    """Connect to a server and fill its report; return its tools, and the promised features that did not work."""
    limits = limits_for(UpstreamLimits(), spec)
    longest = at.limits.server_timeout
    limits = replace(limits, connect_timeout=min(limits.connect_timeout, longest), download_timeout=longest)
    began = anyio.current_time()
    transport = transport_for(spec, limits, hear)
    problems: list[str] = []
    async with connect(transport, ClientDelegate(), limits, only=only_era(spec.options)) as connection:
        handshake = connection.handshake
        report["seconds"] = round(anyio.current_time() - began, 3)
        report["revision"], report["era"] = handshake.revision, handshake.era.value
        report["server"] = {key: one_line(str(handshake.info.get(key, "")), 100) for key in ("name", "version")}
        report["features"] = features_of(handshake.capabilities)
        offers: dict[str, int] = {}
        tools: list[JSON] = []
        for kind, listed in KINDS.items():
            if listed.is_declared(handshake.capabilities):
                items = await connection.list_declared(listed, problems) or []
                offers[f"{kind}s"] = len(items)
                tools = items if kind == "tool" else tools
        report["offers"] = offers
    return tools, problems


def _failure(name: str, text: str, lines: Sequence[str]) -> str:
    last = one_line(lines[-1], 300) if lines else ""
    return f"{name} {text}" + (f"; the last that it said: {last}" if last and last not in text else "")


def _introduced(report: JSON) -> str:
    who = report["server"]
    name = " ".join(filter(None, (who["name"], who["version"]))) or "a server that does not say its name"
    counts = [f"{number} {kind if number != 1 else kind[:-1]}" for kind, number in report["offers"].items() if number]
    offers = ", ".join(counts) or "nothing"
    return f"{report['name']}: {name}, MCP {report['revision']} over {report['transport']}; {offers}"


def _of_number(tools: dict[str, list[JSON]], editors: Sequence[Editor]) -> Iterator[Finding]:
    number = sum(map(len, tools.values()))
    for editor in editors:
        most = editor.most_tools
        if most is not None and number > most:
            yield _MANY.finding(f"{editor.title} takes {most} tools, and the servers have {number}", editor.name)


def _of_features(at: Surroundings, editors: Sequence[Editor]) -> Iterator[Finding]:
    """Yield findings about features of servers that an editor is not known to use, and that have no substitute."""
    for editor in editors:
        lost: list[str] = []
        for feature in FEATURES:
            servers = [report["name"] for report in at.reports if feature.name in report.get("features", ())]
            if servers and not feature.otherwise and not editor.has_feature(feature.name):
                lost.append(f"{feature.name} (of {', '.join(servers)})")
        if lost:
            yield _LOST.finding(f"{editor.title} is not known to use {', '.join(lost)}", editor.name)


SERVERS = Subject(
    "Servers",
    (_WORKS, _FAILS, _LOGIN, _INCOMPLETE, _NOT_STARTED, _AGENT, _NO_AGENT, _MANY, _LOST),
    _check,
    "servers_timeout",
)
