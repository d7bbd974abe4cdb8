"""The banner of `gaia-bridge serve`: the sources with their addresses, the next steps, and who may call."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click
from msgspec import Struct

from gaia_bridge.config import current_folder
from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge.contract import Published
from gaia_bridge.model import ServerFeatures, SourceKind, SourceState
from gaia_bridge.protocol.kinds import KINDS, SKILL
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge.version import __version__
from gaia_bridge_cli.output import counted
from gaia_bridge_desk.editors.vscode import TOKEN_VARIABLE, document, http_server, to_text

_NAMES = 12
"""The most names of one kind that are shown."""

_PATHS = {SourceKind.AGENT: "agents", SourceKind.SERVER: "servers"}


class ClientAccess(Struct, frozen=True):
    """The restrictions on clients.

    Args:
        host: The address on which the server listens.
        port: The port on which the server listens.
        allow_hosts: The host names that were allowed explicitly.
        hosts: All accepted `Host` headers.
        token_file: The file of the token that clients need, if they need one.
        public: The address that clients use, where a proxy is in front.
    """

    host: str
    port: int
    allow_hosts: Sequence[str]
    hosts: Collection[str]
    token_file: Path | None
    public: object = None

    @property
    def base_url(self) -> str:
        """A URL that is accepted: the public one, or with the address itself, else with the first allowed name."""
        if self.public is not None:
            return str(self.public)
        own = self._authority(self.host.lower())
        accepted = own in self.hosts or not self.allow_hosts
        return f"http://{own if accepted else self._authority(self.allow_hosts[0])}"

    @property
    def address(self) -> str:
        """The address and port on which the server listens."""
        return self._authority(self.host)

    def _authority(self, name: str) -> str:
        host = f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name
        has_port = ":" in host.rpartition("]")[2]
        return host if has_port else f"{host}:{self.port}"


class BannerFacts(Struct, frozen=True):
    """Further facts for the banner.

    Args:
        models: The ids of the models of the OpenAI-compatible API.
        installed: The arguments with which `gaia-bridge install` offers the same; `None` if it has to use this address.
        has_auth: Whether clients need a token.
        configured: The names of the servers of the user's configuration, which `--no-servers` leaves out.
        verbose: Whether everything is shown.
    """

    models: Sequence[str] = ()
    installed: Sequence[str] | None = ()
    has_auth: bool = False
    configured: Collection[str] = ()
    verbose: bool = False


_NOTHING_MORE: Final = BannerFacts()


def banner(sources: Iterable[Published], access: ClientAccess, facts: BannerFacts = _NOTHING_MORE) -> str:
    """Return the whole text. Its colours are removed later if the output is no terminal.

    Args:
        sources: The published sources.
        access: The restrictions on clients.
        facts: The further facts.
    """
    published = list(sources)
    return "\n".join(("", *_first_lines(published, access, facts), *_lines(published, access, facts)))


def _first_lines(sources: Sequence[Published], access: ClientAccess, facts: BannerFacts) -> Iterator[str]:
    """Yield the address with its sources, the next steps, and how to stop."""
    agents = [_with_offer(source) for source in sources if source.kind is SourceKind.AGENT]
    servers = [source.name for source in sources if source.kind is SourceKind.SERVER]
    own = [name for name in servers if name not in facts.configured]
    what = [*([_joined(agents)] if agents else []), *([_servers(own)] if own else [])]
    if configured := [name for name in servers if name in facts.configured]:
        leaves_out = f" (--no-servers leaves {'it' if len(configured) == 1 else 'them'} out)" if what else ""
        what.append(f"configured {_servers(configured)}{leaves_out}")
    url = click.style(f"{access.base_url}/mcp", fg="cyan", bold=True)
    yield f"{_bold('gaia-bridge')} {__version__} serves {' and '.join(what) or 'nothing yet'} at {url}"
    if not what:
        yield f"Add something:  {_command('gaia-bridge add NAME COMMAND')}, or name an agent"
    words = ["gaia-bridge", "install", "vscode"]
    if facts.installed is not None:
        words += facts.installed
    else:
        usual = access.base_url == f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
        words += ["--http", *(["--auth"] * facts.has_auth), *([] if usual else ["--url", f"{access.base_url}/mcp"])]
    yield f"Add to VS Code:  {_command(shlex.join(words))}"
    yield f"Stop:  {_command('Ctrl-C')}"


def _servers(names: Sequence[str]) -> str:
    return f"server{'s' * (len(names) > 1)} {_joined([one_line(name) for name in names])}"


def _with_offer(source: Published) -> str:
    features = source.features
    kinds = {"tool": features.tools, "prompt": features.prompts, "resource": features.resources}
    offer = ", ".join(filter(None, (counted(len(items), kind) for kind, items in kinds.items())))
    return f"{one_line(source.name)}{f' ({offer})' if offer else ''}"


def _lines(sources: Sequence[Published], access: ClientAccess, facts: BannerFacts) -> Iterator[str]:
    url, models = access.base_url, [one_line(model) for model in facts.models]
    yield ""
    yield f"  {_bold(f'{url}/mcp')}  everything"
    yield f"  {url}/sse  the same, for older editors"
    if models:
        yield f"  {url}/v1  for clients of OpenAI's API, with the model{'s' * (len(models) > 1)} {_joined(models)}"
    yield f"  working folder: {one_line(str(current_folder()), 200)}"
    for source in sources:
        yield ""
        yield from _source_lines(source, url)
    yield ""
    yield from _access_lines(access, facts.verbose)
    if facts.verbose:
        yield ""
        variable = TOKEN_VARIABLE if access.token_file else None
        asks_nobody = f", and start VS Code with the token in {variable}" if variable else ""
        yield f"{_bold('VS Code')}: save this as .vscode/mcp.json{asks_nobody}"
        yield to_text(document(http_server(f"{url}/mcp", token_variable=variable)))


def _source_lines(source: Published, url: str) -> Iterator[str]:
    path = f"{url}/{_PATHS[source.kind]}/{quote(source.name, safe='')}"
    yield f"  {_bold(f'{path}/mcp')}  {source.kind.value} {source.name}"
    if source.kind is SourceKind.AGENT:
        yield f"  {path}/sse"
    state = source.status.state
    if state is not SourceState.READY:
        reason = "what it offers follows" if state is SourceState.STARTING else one_line(source.status.reason)
        yield f"    {click.style(state.value, fg='yellow')}: {reason}"
    for label, names in _names(source.features).items():
        yield f"    {len(names)} {label if len(names) > 1 else label.removesuffix('s')}: {_joined(names)}"
    for item in source.features.left_out:
        yield f"    {click.style('left out', fg='yellow')}: {item.kind} {one_line(item.name)}: {one_line(item.reason)}"


def _names(features: ServerFeatures) -> Mapping[str, list[str]]:
    """Return the names of all features, by their kind; kinds without features are left out."""
    listed = [kind for kind in KINDS.values() if kind is not SKILL]
    names = {f"{kind.name}s": [one_line(str(item[kind.key])) for item in kind.of(features)] for kind in listed}
    return {label: items for label, items in names.items() if items}


def _joined(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def _access_lines(access: ClientAccess, verbose: bool) -> Iterator[str]:
    if access.token_file is None:
        who = "programs on this machine" if is_loopback_host(access.host) else "whoever reaches this address"
        yield f"{_bold('Access')}: {who}, without a token (--auth asks for one)"
    else:
        yield f"{_bold('Access')}: with the token in {access.token_file}; VS Code asks for it"
    if access.public is not None:
        yield f"  behind a proxy, which passes requests on to {access.address}"
    if verbose:
        yield f"  under the names {', '.join(sorted(access.hosts))}"


def _command(text: str) -> str:
    return click.style(text, fg="green")


def _bold(text: str) -> str:
    return click.style(text, bold=True)
