"""Ways to a server: its packages and addresses, which of them can be used here, and which is taken."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge_desk.server_registry.documents import Argument, Package, Remote, Server
from gaia_bridge_desk.server_registry.runners import RUNNERS, Runner, package_problem
from gaia_bridge_desk.server_registry.slots import plain

__all__ = ["KINDS", "REMOTE", "Way", "chosen", "url_problem", "ways_to"]

REMOTE: Final = "remote"
KINDS: Final = (*RUNNERS, REMOTE)
"""What `--package` takes."""

_LONGEST: Final = 8_192
"""Characters of one word, or of one address, that somebody can still look at."""

_COMES_WITH: Final = {
    "npm": "npx, which comes with Node.js (https://nodejs.org)",
    "pypi": "uvx, which comes with uv (https://docs.astral.sh/uv)",
    "oci": "docker or podman",
    "nuget": "dnx, which comes with .NET 10",
}
_NOT_RUN: Final = {
    "mcpb": (
        "a bundle (MCPB), which is not unpacked here, nor its SHA-256 checked; install it into an editor that takes "
        "bundles, or add the program that is in it: gaia-bridge add NAME COMMAND"
    ),
    "cargo": "is built with Rust: run `cargo install` yourself, then gaia-bridge add NAME COMMAND",
    "go": "is built with Go: run `go install` yourself, then gaia-bridge add NAME COMMAND",
}


class Way(Struct, frozen=True):
    """One way to a server.

    Args:
        kind: One of `KINDS`, or another that is not known.
        what: What its author says.
        runner: What runs it, if it is a package that can be run.
        problem: Why it cannot be used here; empty if it can.
    """

    kind: str
    what: Package | Remote
    runner: Runner | None = None
    problem: str = ""

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        if isinstance(self.what, Remote):
            return f"{self.what.type} at {self.what.url}"
        return " ".join(filter(None, (self.kind, self.what.identifier, self.what.version)))


def ways_to(server: Server, is_installed: Callable[[str], bool]) -> list[Way]:
    """All ways to a server, in the order in which they are preferred.

    Packages come before addresses, in the order of the author; of addresses, Streamable HTTP comes before HTTP+SSE.

    Args:
        server: The server.
        is_installed: Whether there is a program.
    """
    packages = [_package(package, is_installed) for package in server.packages]
    remotes = sorted(server.remotes, key=lambda remote: remote.type == "sse")
    return [*packages, *(Way(REMOTE, remote, problem=_remote_problem(remote)) for remote in remotes)]


def chosen(ways: list[Way], kind: str | None) -> Way | None:
    """The way that is taken: the first that can be used.

    Args:
        ways: As `ways_to` orders them.
        kind: The only kind that will do.
    """
    return next((way for way in ways if not way.problem and kind in (None, way.kind)), None)


def url_problem(url: str) -> str:
    """Why an address is not used that a stranger names; empty if it is.

    Args:
        url: The address, everything in it filled in.
    """
    if len(url) > _LONGEST:
        return f"the address has more than {_LONGEST} characters"
    if not url.isprintable() or re.search(r"\s", url):
        return "the address has a blank, or what cannot be seen"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "the address is no URL"
    if parts.scheme not in ("http", "https") or not host:
        return "the address is no URL of https"
    if "@" in parts.netloc:
        return "the address has a user in it, which makes it look like another one"
    if parts.scheme == "http" and not is_loopback_host(host):
        return "the address is not encrypted (http)"
    return ""


def _package(package: Package, is_installed: Callable[[str], bool]) -> Way:
    kind = package.registry_type
    way = Way(kind, package)
    if kind not in RUNNERS:
        reason = _NOT_RUN.get(kind, "is of a kind that is not known here")
        return replace(way, problem=reason)
    if problem := _package_problem(package):
        return replace(way, problem=problem)
    runners = [runner for runner in RUNNERS[kind] if is_installed(runner.words[0])]
    hinted = [runner for runner in runners if runner.words[0] == package.runtime_hint]
    if not runners:
        return replace(way, problem=f"needs {_COMES_WITH[kind]}")
    known = {runner.words[0] for runner in RUNNERS[kind]}
    if package.runtime_arguments and package.runtime_hint and package.runtime_hint not in known:
        return replace(way, problem=f"is started by {package.runtime_hint[:60]!r}, which is not done for strangers")
    return replace(way, runner=(hinted or runners)[0])


def _package_problem(package: Package) -> str:
    if problem := package_problem(package):
        return problem
    if package.transport.type != "stdio":
        return (
            f"speaks {package.transport.type[:40]} once it runs, so it is started apart from the bridge; start it "
            "yourself, then gaia-bridge add NAME URL"
        )
    if package.file_sha256:
        return "wants its SHA-256 checked, which the program that fetches it does not do"
    texts = [package.identifier, *_texts((*package.runtime_arguments, *package.package_arguments))]
    texts += [text for each in package.environment_variables for text in (each.name, plain(each.value or ""))]
    if any(len(text) > _LONGEST for text in texts):
        return f"has a word of more than {_LONGEST} characters"
    if not all(text.isprintable() for text in texts):
        return "has words with characters that cannot be seen"
    wrong = [v.name for v in package.environment_variables if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", v.name)]
    return f"{wrong[0][:60]!r} is no name of a variable" if wrong else ""


def _texts(arguments: tuple[Argument, ...]) -> list[str]:
    return [text for argument in arguments for text in (argument.name, plain(argument.value or ""))]


def _remote_problem(remote: Remote) -> str:
    if remote.type not in ("streamable-http", "sse"):
        return f"speaks {remote.type[:40]!r}, which is not known here"
    if "{" in remote.url.partition("://")[2].partition("/")[0] or remote.url.startswith("{"):
        return "" if remote.url.isprintable() else "the address has what cannot be seen"
    return url_problem(re.sub(r"\{[^{}]*\}", "x", remote.url))
