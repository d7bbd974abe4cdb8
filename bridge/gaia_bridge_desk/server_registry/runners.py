"""Programs that fetch a package and run it: which there are, and what a stranger may have them told. Pure.

What they are told before the package decides what is fetched, from where, and with what rights; so of those that fetch
from a registry of packages, only options are passed on that change nothing of that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from gaia_bridge.config.foreign_entries import NPX_OPTIONS, UVX_OPTIONS
from gaia_bridge_desk.server_registry.documents import Package

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
        words: The program and what it is always told.
        version: What stands between the name of a package and its version.
        known: What it may be told beside: options, each with what its value looks like, or `None` if it has none.
        own: Those of them whose value has to be the package itself.
        dropped: What it is told anyway, or must not be told, so that it is left out.
        before_arguments: What stands between the package and its arguments.
    """

    words: tuple[str, ...]
    version: str = "@"
    known: Mapping[str, re.Pattern[str] | None] | None = None
    own: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    before_arguments: tuple[str, ...] = ()


_CONTAINERS: Final = ("run", "-i", "--interactive", "--rm", "-t", "--tty", "-it", "-ti", "-d", "--detach")
_UV_OPTIONS: Final = {option: _WORD if has_value else None for option, has_value in UVX_OPTIONS.items()}

RUNNERS: Final[Mapping[str, tuple[Runner, ...]]] = {
    "npm": (
        Runner(
            ("npx", "-y"),
            known={option: _NPM_WORD if has_value else None for option, has_value in NPX_OPTIONS.items()},
            own=("-p", "--package"),
            dropped=("-y", "--yes"),
        ),
    ),
    "pypi": (
        Runner(("uvx",), known=_UV_OPTIONS, own=("--from",)),
        Runner(("uv", "tool", "run"), known=_UV_OPTIONS, own=("--from",)),
        Runner(("pipx", "run"), "==", known={}),
    ),
    "oci": (
        Runner(("docker", "run", "-i", "--rm"), ":", dropped=_CONTAINERS),
        Runner(("podman", "run", "-i", "--rm"), ":", dropped=_CONTAINERS),
    ),
    "nuget": (
        Runner(("dnx", "--yes"), known={"--prerelease": None}, dropped=("-y", "--yes"), before_arguments=("--",)),
    ),
}
"""By the kinds of packages; the first that is installed is taken, or the one that the author names."""

_RISKY: Final = {
    "--privileged": "gives the container all rights of this machine",
    **dict.fromkeys(("--cap-add", "--security-opt", "--device", "--userns"), "widens what the container may do"),
    **dict.fromkeys(("--pid", "--ipc", "--uts"), "lets the container see other processes, if it is host"),
    **dict.fromkeys(("--network", "--net"), "gives the container the network of this machine, if it is host"),
}
_WIDE_MOUNT: Final = re.compile(r"(?:^|[=,])(?:/|~/?|/(?:etc|root|home|var|usr|proc|sys)/?|.*docker\.sock)(?=[:,]|$)")


def package_problem(package: Package) -> str:
    """Why a package cannot be named to a program that runs it; empty if it can."""
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
    """A package and its version in one word."""
    name, version = package.identifier, package.version
    if package.registry_type != "oci":
        return f"{name}{runner.version}{version}" if version else name
    found = _OCI.fullmatch(name)
    pinned = found is not None and (found["tag"] or found["digest"])
    host = package.registry_base_url.removeprefix("https://").strip("/")
    first = name.partition("/")[0] if "/" in name else ""
    has_host = "." in first or ":" in first or first == "localhost"
    if 0 < len(host) < _MAX_IDENTIFIER and not has_host and _OCI.fullmatch(f"{host}/{name}"):
        name = f"{host}/{name}"
    return name if pinned or not version else f"{name}:{version}"


def runtime_problem(package: Package, runner: Runner, words: list[str]) -> str:
    """Why a program is not told what a stranger wants it told; empty if it is.

    Args:
        package: The package.
        runner: The program.
        words: What stands before the package, as far as the stranger says it.
    """
    if runner.known is None:
        return ""
    value_of: str | None = None
    for word in words:
        option, equals, value = word.partition("=")
        if value_of is not None:
            option, equals, value, value_of = value_of, "=", word, None
        elif option not in runner.known or (runner.known[option] is None and equals):
            return f"it has {runner.words[0]} told {word[:100]!r}, which may run something else"
        elif runner.known[option] is None:
            continue
        if not equals:
            value_of = option
        elif problem := _value_problem(package, runner, option, value):
            return problem
    return "" if value_of is None else f"it has {runner.words[0]} told {value_of!r} without a value"


def _value_problem(package: Package, runner: Runner, option: str, value: str) -> str:
    pattern = (runner.known or {}).get(option)
    if pattern is None or not pattern.fullmatch(value):
        return f"it has {runner.words[0]} told {option} {value[:100]!r}, which may come from anywhere"
    if option in runner.own and not _is_same(package, value):
        return f"it has {runner.words[0]} fetch {value[:100]!r}, which is another package"
    return ""


def _is_same(package: Package, word: str) -> bool:
    """Whether a word names the package, in whatever version."""
    name = package.identifier.partition("[")[0]
    found = re.match(r"@?[^@=<>~!\[]+", word)
    return found is not None and found[0].lower().replace("_", "-") == name.lower().replace("_", "-")


def container_warnings(words: list[str]) -> list[str]:
    """What to look at twice in the options of a container."""
    found = [f"{option} {meaning}" for option, meaning in _RISKY.items() if _has(words, option)]
    found += [f"{word!r} gives the container much of this machine" for word in words if _WIDE_MOUNT.search(word)]
    return found


def _has(words: list[str], option: str) -> bool:
    return any(word == option or word.startswith(f"{option}=") for word in words)
