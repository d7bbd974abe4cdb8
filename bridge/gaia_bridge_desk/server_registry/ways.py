"""Ways to a server: its packages and addresses, which of them can be used here, and which is chosen. Pure.

A package is fetched and run by a program. The options of that program decide what is fetched, from where, and with
what rights; so a program that fetches from a registry of packages is given only options that change nothing of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge_desk.review.foreign_entries import NPX_OPTIONS, UVX_OPTIONS
from gaia_bridge_desk.server_registry.documents import Argument, Package, Remote, Server
from gaia_bridge_desk.server_registry.slots import plain

_NPM: Final = re.compile(r"(?:@[A-Za-z0-9~][A-Za-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*")
_PYPI: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._-]+(?:,[A-Za-z0-9._-]+)*\])?")
_NUGET: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
_OCI: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"  # the host
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?P<digest>@sha256:[a-f0-9]{64})?"
)
_VERSION: Final = re.compile(r"v?[0-9][A-Za-z0-9.+!_-]{0,254}")
_WILD: Final = re.compile(r"(?:^|\.)[xX*](?:\.|$)")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@=<>~!,\[\]-]{0,200}")
"""A package, or a version. Nothing with a slash: `good@evil/repo` is a repository for npx, a file for uv."""
_NPM_WORD: Final = re.compile(rf"{_NPM.pattern}(?:@[A-Za-z0-9^~<>=][A-Za-z0-9.+_-]{{0,100}})?")
_MAX_IDENTIFIER: Final = 300


class Runner(Struct, frozen=True):
    """A program that runs packages of one kind.

    Args:
        words: The program and its fixed arguments.
        version: The separator between the name of a package and its version.
        allowed: The options that are allowed: each with the pattern of its value, or `None` if it has none.
        own: The options whose value has to be the package itself.
        dropped: Options that are left out, because they are always or never given.
        before_arguments: The words between the package and its arguments.
    """

    words: tuple[str, ...]
    version: str = "@"
    allowed: Mapping[str, re.Pattern[str] | None] | None = None
    own: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    before_arguments: tuple[str, ...] = ()


_CONTAINERS: Final = ("run", "-i", "--interactive", "--rm", "-t", "--tty", "-it", "-ti", "-d", "--detach")
_UV_OPTIONS: Final = {option: _WORD if has_value else None for option, has_value in UVX_OPTIONS.items()}

RUNNERS: Final[Mapping[str, tuple[Runner, ...]]] = {
    "npm": (
        Runner(
            ("npx", "-y"),
            allowed={option: _NPM_WORD if has_value else None for option, has_value in NPX_OPTIONS.items()},
            own=("-p", "--package"),
            dropped=("-y", "--yes"),
        ),
    ),
    "pypi": (
        Runner(("uvx",), allowed=_UV_OPTIONS, own=("--from",)),
        Runner(("uv", "tool", "run"), allowed=_UV_OPTIONS, own=("--from",)),
        Runner(("pipx", "run"), "==", allowed={}),
    ),
    "oci": (
        Runner(("docker", "run", "-i", "--rm"), ":", dropped=_CONTAINERS),
        Runner(("podman", "run", "-i", "--rm"), ":", dropped=_CONTAINERS),
    ),
    "nuget": (
        Runner(("dnx", "--yes"), allowed={"--prerelease": None}, dropped=("-y", "--yes"), before_arguments=("--",)),
    ),
}
"""The runners by the kinds of packages; the first installed one is chosen, or the one that the author names."""

_RISKY: Final = {
    "--privileged": "gives the container all rights of this machine",
    **dict.fromkeys(("--cap-add", "--security-opt", "--device", "--userns"), "widens what the container may do"),
    **dict.fromkeys(("--pid", "--ipc", "--uts"), "lets the container see other processes, if it is host"),
    **dict.fromkeys(("--network", "--net"), "gives the container the network of this machine, if it is host"),
}
_WIDE_MOUNT: Final = re.compile(r"(?:^|[=,])(?:/|~/?|/(?:etc|root|home|var|usr|proc|sys)/?|.*docker\.sock)(?=[:,]|$)")


def package_problem(package: Package) -> str:
    """Return why a package cannot be named to a program that runs it; empty if it can."""
    kind, name = package.registry_type, package.identifier
    pattern = {"npm": _NPM, "pypi": _PYPI, "oci": _OCI, "nuget": _NUGET}[kind]
    if len(name) > _MAX_IDENTIFIER or not pattern.fullmatch(name):
        return f"{name[:100]!r} is no name of a package of this kind"
    if not package.version:
        return ""
    versions = _TAG if kind == "oci" else _VERSION
    if not versions.fullmatch(package.version) or (kind != "oci" and _WILD.search(package.version)):
        return f"{package.version[:100]!r} is no version, or more than one"
    return ""


def package_word(package: Package, runner: Runner) -> str:
    """Return a package and its version in one word."""
    name, version = package.identifier, package.version
    if package.registry_type != "oci":
        return f"{name}{runner.version}{version}" if version else name
    image = _OCI.fullmatch(name)
    pinned = image is not None and (image["tag"] or image["digest"])
    host = package.registry_base_url.removeprefix("https://").strip("/")
    first = name.partition("/")[0] if "/" in name else ""
    has_host = "." in first or ":" in first or first == "localhost"
    if 0 < len(host) < _MAX_IDENTIFIER and not has_host and _OCI.fullmatch(f"{host}/{name}"):
        name = f"{host}/{name}"
    return name if pinned or not version else f"{name}:{version}"


def runtime_problem(package: Package, runner: Runner, words: list[str]) -> str:
    """Return why an author's options must not be passed to a program; empty if they may.

    Args:
        package: The package.
        runner: The program.
        words: The author's words before the package.
    """
    if runner.allowed is None:
        return ""
    value_of: str | None = None
    for word in words:
        option, equals, value = word.partition("=")
        if value_of is not None:
            option, equals, value, value_of = value_of, "=", word, None
        elif option not in runner.allowed or (runner.allowed[option] is None and equals):
            return f"it has {runner.words[0]} told {word[:100]!r}, which may run something else"
        elif runner.allowed[option] is None:
            continue
        if not equals:
            value_of = option
        elif problem := _value_problem(package, runner, option, value):
            return problem
    return "" if value_of is None else f"it has {runner.words[0]} told {value_of!r} without a value"


def _value_problem(package: Package, runner: Runner, option: str, value: str) -> str:
    pattern = (runner.allowed or {}).get(option)
    if pattern is None or not pattern.fullmatch(value):
        return f"it has {runner.words[0]} told {option} {value[:100]!r}, which may come from anywhere"
    if option in runner.own and not _is_same(package, value):
        return f"it has {runner.words[0]} fetch {value[:100]!r}, which is another package"
    return ""


def _is_same(package: Package, word: str) -> bool:
    """Return whether a word names the package, in whatever version."""
    name = package.identifier.partition("[")[0]
    match = re.match(r"@?[^@=<>~!\[]+", word)
    return match is not None and match[0].lower().replace("_", "-") == name.lower().replace("_", "-")


def container_warnings(words: list[str]) -> list[str]:
    """Return warnings about risky options of a container."""
    warnings = [f"{option} {meaning}" for option, meaning in _RISKY.items() if _has(words, option)]
    warnings += [f"{word!r} gives the container much of this machine" for word in words if _WIDE_MOUNT.search(word)]
    return warnings


def _has(words: list[str], option: str) -> bool:
    return any(word == option or word.startswith(f"{option}=") for word in words)


REMOTE: Final = "remote"
KINDS: Final = (*RUNNERS, REMOTE)
"""The values of `--package`."""

_LONGEST: Final = 8_192
"""The most characters of one word, or of one address, that a person can still check."""

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
        kind: One of `KINDS`, or an unknown one.
        what: The author's description.
        runner: The program that runs a package, if there is one.
        problem: Why it cannot be used here; empty if it can.
    """

    kind: str
    what: Package | Remote
    runner: Runner | None = None
    problem: str = ""

    @property
    def title(self) -> str:
        """A short description of the way."""
        if isinstance(self.what, Remote):
            return f"{self.what.type} at {self.what.url}"
        return " ".join(filter(None, (self.kind, self.what.identifier, self.what.version)))


def ways_to(server: Server, is_installed: Callable[[str], bool]) -> list[Way]:
    """Return all ways to a server, the preferred ones first.

    Packages come before addresses, in the order of the author; of addresses, Streamable HTTP comes before HTTP+SSE.

    Args:
        server: The server.
        is_installed: Returns whether a program is installed.
    """
    packages = [_package(package, is_installed) for package in server.packages]
    remotes = sorted(server.remotes, key=lambda remote: remote.type == "sse")
    return [*packages, *(Way(REMOTE, remote, problem=_remote_problem(remote)) for remote in remotes)]


def chosen(ways: list[Way], kind: str | None) -> Way | None:
    """Return the first way that can be used.

    Args:
        ways: As `ways_to` orders them.
        kind: The only kind that is allowed; `None` for any.
    """
    return next((way for way in ways if not way.problem and kind in (None, way.kind)), None)


def url_problem(url: str) -> str:
    """Return why an author's address must not be used; empty if it may.

    Args:
        url: The address, with all its variables filled in.
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
    programs = {runner.words[0] for runner in RUNNERS[kind]}
    if package.runtime_arguments and package.runtime_hint and package.runtime_hint not in programs:
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
