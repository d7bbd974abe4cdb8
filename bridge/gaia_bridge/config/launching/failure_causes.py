"""The causes why a server does not start, by the messages of common tools: the decisive line, and a remedy. Pure.

The last line of an error output is seldom the decisive one: npm ends with the place of its log, uv with a hint, a
traceback of Node.js with its version. Loaded only when a server has failed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from msgspec import Struct

from gaia_bridge.config.launching.child_environment import OWN_PREFIX, PARTS_OF, child_environment
from gaia_bridge.config.launching.launchers import DOWNLOADING, launcher_in, program_name
from gaia_bridge.model import ServerSpec, StdioServerSpec
from gaia_bridge.text.escaping import one_line

_SHOWN: Final = 300
"""Characters of a line that are repeated; pip lists all versions of a package in one line."""

_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")
"""A word in an error message that may be the name of a variable."""

_MISSING_VARIABLE: Final = re.compile(
    r"KeyError: ['\"](?P<a>[A-Z][A-Z0-9]*_[A-Z0-9_]+)['\"]"
    r"|(?i:missing|required?|set|provide|define|needs?|expected)\b[^.]{0,60}?\b(?P<b>[A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
    r"|\b(?P<c>[A-Z][A-Z0-9]*_[A-Z0-9_]+)\b[^.]{0,40}?\b(?i:required|missing|not set|must be set|undefined|not found)"
)
"""A message that a variable is missing, whether our environment has the variable or not."""

_OF_REGISTRIES: Final = (
    *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
    *("npm_config_registry", "NPM_CONFIG_REGISTRY", "npm_config_userconfig", "NPM_CONFIG_USERCONFIG", "NPM_TOKEN"),
)
_OF_DOCKER: Final = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG")

_AUTHORITY: Final = "it does not know who signed the certificate, as behind a company's proxy"
_TOO_OLD: Final = "name a newer Python: `uvx --python 3.13 ...`, or the whole path of the python that it is written for"
_OTHER_MCP: Final = "runs with another: `uvx --with '{0}' ...`, or `pip install '{0}'` in its environment"
_SERVER_OF_MCP_1: Final = (
    "list_tools|call_tool|list_resources|list_resource_templates|read_resource|subscribe_resource|list_prompts"
    "|get_prompt|set_logging_level|completion|progress_notification|request_context|request_handlers"
)
"""Decorators and properties of `mcp.server.Server` that version 2 does not have."""
_NOT_FOUND: Final = re.compile(r"Cannot find (?:package|module) ")
_CACHE_OF_NPX: Final = re.compile(r"(?:file://)?([^\s'\"(]*[/\\]_npx[/\\][0-9a-f]{8,})(?=[/\\])")
"""The folder in which npx keeps the download of one launch line."""

_SPELLING: Final = "is its name, or its version, misspelled?"


class Cause(Struct, frozen=True):
    """The cause why a server does not start."""

    line: str
    """The server's own message about the cause; empty if it wrote none."""
    remedy: str

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.line, self.remedy)))


class Failure(Struct, frozen=True):
    """The facts about a start that failed."""

    lines: Sequence[str]
    """The last lines of the error output, redacted."""
    program: str = ""
    timed_out: bool = False
    """Whether the program was still running when the time for a start was over."""
    ours: Set[str] = frozenset()
    """The names of the variables in our own environment."""
    seen: Set[str] = frozenset()
    """The names of the variables that the program saw."""

    def withheld(self, names: Iterable[str]) -> str | None:
        """Return the first of some variables that we have and the program did not see."""
        missing = (name for name in names if name in self.ours and name not in self.seen)
        return next((name for name in missing if not name.startswith(OWN_PREFIX)), None)


class _Row(Struct, frozen=True):
    """One kind of failure.

    Args:
        pattern: The pattern of its line.
        remedy: The remedy; `{1}` and so on is a matched group, `{program}` the started program.
        settings: Variables that would explain it, if we have them and the server does not see them.
    """

    pattern: re.Pattern[str]
    remedy: str
    settings: tuple[str, ...] = ()


def _row(pattern: str, remedy: str, settings: tuple[str, ...] = ()) -> _Row:
    return _Row(re.compile(pattern), remedy, settings)


_ROWS: Final = (
    # docker
    _row(
        r"Cannot connect to the Docker daemon|[Ff]ailed to connect to the docker API|docker daemon is not running",
        "start Docker, and try again",
        _OF_DOCKER,
    ),
    _row(
        r"permission denied while trying to connect to the [Dd]ocker",
        "let yourself use Docker (sudo usermod -aG docker $USER), and log in anew",
        _OF_DOCKER,
    ),
    _row(
        r"pull access denied for ([^\s,]+)|manifest for (\S+) not found|manifest unknown",
        "is the name of the image right? If it is private: docker login",
    ),
    # certificates: of uv and other programs in Rust, Node.js, Python, Go
    _row(
        r"invalid peer certificate: .*(?:UnknownIssuer|CaUsedAsEndEntity)",
        f"{_AUTHORITY}: --env SSL_CERT_FILE=/path/of/its/authorities.pem",
        ("UV_SYSTEM_CERTS", "UV_NATIVE_TLS"),
    ),
    _row(
        r"SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE"
        r"|UNABLE_TO_GET_ISSUER_CERT(?:_LOCALLY)?",
        f"{_AUTHORITY}: --env NODE_EXTRA_CA_CERTS=/path/of/its/authorities.pem",
        ("NODE_OPTIONS", "npm_config_cafile", "NPM_CONFIG_CAFILE"),
    ),
    _row(
        r"CERTIFICATE_VERIFY_FAILED.*(?:self[- ]signed|unable to get (?:local )?issuer)"
        r"|certificate signed by unknown authority",
        f"{_AUTHORITY}: --env SSL_CERT_FILE=/path/of/its/authorities.pem (REQUESTS_CA_BUNDLE for requests)",
        ("PIP_CERT",),
    ),
    # another Python or Node.js
    _row(r"does not satisfy(?: Python|$)|incompatible with the project's Python requirement", _TOO_OLD),
    _row(r"No interpreter found for (Python \S+)", "install {1}, or name another one: `uvx --python VERSION ...`"),
    _row(r"requires a different Python: (\S+) not in|require a different python version", _TOO_OLD),
    _row(
        r"No such built-in module: (\S+)|requires Node(?:\.js)? (?:version )?[v>^]",
        "it needs a newer Node.js: https://nodejs.org/",
    ),
    # missing packages and programs
    _row(
        r"Because (\S+) was not found in the package registry",
        f"there is no package {{1}} for Python; {_SPELLING}",
        _OF_REGISTRIES,
    ),
    _row(r"there (?:is|are) no versions? of (\S+)", f"there is no {{1}} for Python; {_SPELLING}", _OF_REGISTRIES),
    _row(
        r"No matching distribution found for (\S+)",
        f"there is no package {{1}} for Python; {_SPELLING}",
        _OF_REGISTRIES,
    ),
    _row(
        r"404\s+(?:The requested resource )?'(@?[^'@]+)(?:@[^']*)?' (?:could not be found|is not in this registry)",
        f"there is no npm package {{1}} (or it is private); {_SPELLING}",
        _OF_REGISTRIES,
    ),
    _row(r"(?:code E404|404 Not Found - GET)", f"there is no such npm package; {_SPELLING}", _OF_REGISTRIES),
    _row(
        r"No matching version found for (\S+?)\.?$",
        f"there is no {{1}} at npm; {_SPELLING}",
        _OF_REGISTRIES,
    ),
    _row(
        r"could not determine executable to run|Package `(\S+?)` does not provide any executables"
        r"|executable named `(\S+?)` is not provided by package",
        "the package is there, and has no program of that name; is it a library, or is the program called otherwise "
        "(`uvx --from PACKAGE PROGRAM`, `npx -p PACKAGE PROGRAM`)?",
    ),
    _row(
        r"(?:getaddrinfo|connect) (?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT) |tcp connect error|dns error|"
        r"Temporary failure in name resolution|Name or service not known",
        "there is no way to where it downloads from; is the network there, and does it need a proxy (HTTPS_PROXY)?",
        _OF_REGISTRIES,
    ),
    _row(
        r"(?:^|: )(?:line \d+: |\d+: )?['\"‘]?(npx|node|npm|uvx|uv|docker)['\"’]?: (?:not found|command not found"
        r"|No such file or directory)",
        "{1} is not found by what starts it; it is a part of {source}",
    ),
    # the program itself
    _row(
        r"(?:can't open file |Cannot find module )'(/[^']+)'|Failed to spawn: `?(/[^`]+)",
        "there is no such file; was it moved?",
    ),
    _row(
        r"No module named '(mcp[\w.]*)'; '\w+' is not a package",
        "a file mcp.py, beside the server or in its folder, hides the package mcp: rename it",
    ),
    _row(
        r"No module named 'mcp\.server\.mcpserver|cannot import name '(?:MCPServer|MCPError)' from 'mcp\b",
        f"it is written for version 2 of the package mcp, and {_OTHER_MCP.format('mcp>=2')}",
    ),
    _row(
        r"No module named 'mcp\.|cannot import name '\w+' from 'mcp(?:\.[\w.]+)?' "
        rf"|'Server' object has no attribute '(?:{_SERVER_OF_MCP_1})'",
        f"it is written for version 1 of the package mcp, and {_OTHER_MCP.format('mcp<2')}",
    ),
    _row(
        r"ModuleNotFoundError: No module named '([\w.]+)'|: No module named ([\w.]+)$",
        "this Python does not have {1}: name the one that has it by its whole path (/path/.venv/bin/python), or "
        "`uv run --with {1} ...`",
    ),
    _row(r"Cannot find (?:package|module) '([^'/.][^']*)'", "run `npm install` in the folder of the server"),
    _row(
        r"ImportError: cannot import name '(\w+)' from '(?:typing|collections|enum|asyncio)'",
        f"this Python is too old for it: {_TOO_OLD}",
    ),
    _row(r"EBADENGINE\s+required: ", "it needs another Node.js: https://nodejs.org/"),  # which is but a warning
    _row(
        r"^(?:\w*Error: )?(?:SyntaxError|IndentationError): ", "is it written for another version of Python or Node.js?"
    ),
)
"""The kinds in the order of the search: one whose line explains other lines comes before them."""


def cause_for(
    spec: ServerSpec, lines: Iterable[str], environ: Mapping[str, str], *, timed_out: bool = False
) -> Cause | None:
    """Return the cause why a server of the configuration does not start; `None` if it is none of the usual ones.

    Args:
        spec: Its entry.
        lines: The last lines of its error output, redacted.
        environ: Our own environment.
        timed_out: Whether the server was still running when the time for a start was over.
    """
    if not isinstance(spec, StdioServerSpec):
        return None
    program = launcher_in((spec.command, *spec.args)) or program_name(spec.command)
    seen = frozenset(child_environment(spec, environ))
    return cause_of(Failure([*lines], program, timed_out, frozenset(environ), seen))


def cause_of(failure: Failure) -> Cause | None:
    """Return the cause why a server does not start; `None` if it is none of the usual ones."""
    return next(_causes(failure), None)


def _causes(failure: Failure) -> Iterator[Cause]:
    lines = [line for line in failure.lines if line.strip()]
    for line in (*filter(_MISSING_VARIABLE.search, lines), *lines):
        if (name := failure.withheld(_VARIABLE.findall(line))) is not None:
            yield Cause(_short(line), _withheld(name))
    yield from _incomplete(lines)
    for row in _ROWS:
        for line in reversed(lines):
            if (match := row.pattern.search(line)) is not None:
                yield Cause(_short(line), _remedy(row, match, failure))
    yield from _unset(lines, failure.seen)
    if failure.timed_out and launcher_in([failure.program]):
        yield Cause(
            _short(next(filter(DOWNLOADING.search, reversed(lines)), "")),
            f"{failure.program} may still be downloading it: --startup-timeout 1200 with `gaia-bridge add`, or "
            '"startup_timeout": 1200 in the entry, gives it more time; is this machine on the network?',
        )


def _incomplete(lines: Sequence[str]) -> Iterator[Cause]:
    """Yield the cause if a copy of npx lacks files. npx trusts its folder, so it fails the same way ever after."""
    line = next(filter(_NOT_FOUND.search, lines), None)
    folder = next(filter(None, map(_CACHE_OF_NPX.search, lines)), None)
    if line is not None and folder is not None:
        remedy = f"a download of npx was cut off, mostly; to have it downloaded anew: rm -rf {shlex.quote(folder[1])}"
        yield Cause(_short(line), remedy)


def _unset(lines: Sequence[str], seen: Set[str]) -> Iterator[Cause]:
    """Yield a cause for each variable that a message requires, and that the server does not see."""
    for line in lines:
        for match in _MISSING_VARIABLE.finditer(line):
            name = match["a"] or match["b"] or match["c"]
            if name not in seen:
                yield Cause(_short(line), f"set the variable {name}, and hand it on with --env {name}")


def _remedy(row: _Row, match: re.Match[str], failure: Failure) -> str:
    group = next(filter(None, match.groups()), "")
    remedy = row.remedy.replace("{1}", group).replace("{source}", PARTS_OF.get(group, ""))
    if (name := failure.withheld(row.settings)) is None:
        return remedy
    # a registry of one's own may lack a package, and its name may be misspelled: either is as likely
    return f"{remedy} Or: {_withheld(name)}" if row.settings is _OF_REGISTRIES else _withheld(name)


def _withheld(name: str) -> str:
    return (
        f"you have {name} set, and servers see only what is named: --env {name} with `gaia-bridge add`, or "
        f'"inherit_env": ["{name}"] in the entry'
    )


def _short(line: str) -> str:
    return one_line(line, _SHOWN)
