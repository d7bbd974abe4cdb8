"""`gaia-bridge status`, `completion`: what a running bridge says of its servers; help for shells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from gaia_bridge.cli.exits import ExitCode
from gaia_bridge.cli.servers.naming import json_option, print_json, print_rows
from gaia_bridge.errors import ServerUnavailableError
from gaia_bridge.jsontypes import is_object
from gaia_bridge.loopback import is_loopback_host
from gaia_bridge.text import one_line

if TYPE_CHECKING:
    from gaia_bridge.jsontypes import JSON

__all__ = ["completion", "status"]

_PATIENCE = 5.0
"""Seconds for the bridge to answer: it answers from memory."""

_TOKEN_FILE = Path("~/.gaia/bridge-token")


@click.command()
@click.option(
    "--url", default="http://127.0.0.1:8765", show_default=True, help="Where the bridge runs: [http://]HOST:PORT"
)
@json_option
def status(url: str, as_json: bool) -> int:
    """Show how the agents and servers of a running bridge are, and what of the configuration it leaves out."""
    found = _status(_base_url(url))
    if as_json:
        print_json(found)
        return ExitCode.OK
    rows: list[tuple[str, ...]] = []
    for source in found.get("sources", []):
        tools = f"{source['tools']} tool{'' if source['tools'] == 1 else 's'}"
        rows.append((source["name"], source["kind"], source["state"], tools, one_line(source["reason"])))
        rows += [
            ("", f"for {other['era']}", other["state"], "", one_line(other["reason"]))
            for other in source.get("connection", {}).get("otherEras", [])
        ]
    rows += [
        (one_line(item["name"]), item["kind"], "left out", "", one_line(item["reason"]))
        for item in found.get("leftOut", [])
    ]
    rows += [
        (one_line(item["client"]), "client", "searches", f"{item['tools']} tools", f"it takes at most {item['limit']}")
        for item in found.get("toolSearch", {}).get("clients", [])
    ]
    print_rows(("name", "kind", "state", "offers", "why"), rows)
    return ExitCode.OK


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print what makes a shell complete commands and names of servers.

    For bash: eval "$(gaia-bridge completion bash)"
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    name = root.info_name or "gaia-bridge"
    variable = f"_{name.replace('-', '_').replace('.', '_').replace(' ', '_')}_COMPLETE".upper()
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root.command, {}, name, variable).source())
    return ExitCode.OK


def _base_url(text: str) -> str:
    """The address of a bridge, which may have been typed or copied in more ways than one."""
    expected = f"--url {text!r}: expected http://HOST:PORT, as `gaia-bridge serve` prints it"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        if parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 0) < 0:
            raise click.UsageError(expected)
    except ValueError:  # a port that is none
        raise click.UsageError(expected) from None
    return f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/mcp').rstrip('/')}"


def _status(url: str) -> JSON:
    # Needed here alone, and slow to load: every start of the program would pay for them.
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import ProxyHandler, Request, build_opener

    try:
        headers = {"Accept": "application/json", **_credential(url)}
        request = Request(f"{url}/status", headers=headers)
        with build_opener(ProxyHandler({})).open(request, timeout=_PATIENCE) as response:
            found: object = json.load(response)
        if is_object(found):
            return found
        raise ValueError("what answers says something else")
    except HTTPError as error:
        raise ServerUnavailableError(url, f"it answered {error.code} {error.reason}") from None
    except (URLError, OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ServerUnavailableError(
            url, f"no bridge answers there: {reason}; is `gaia-bridge serve` running?"
        ) from None


def _credential(url: str) -> dict[str, str]:
    """The header that opens the bridges of this machine; it belongs to no other."""
    token = _TOKEN_FILE.expanduser()
    if not is_loopback_host(urlsplit(url).hostname or "") or not token.is_file():
        return {}
    return {"Authorization": f"Bearer {token.read_text('ascii').strip()}"}
