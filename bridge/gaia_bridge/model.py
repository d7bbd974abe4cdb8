"""Plain facts that every layer shares: frozen structs and the enums that name a policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from enum import Enum
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct, field

__all__ = [
    "AS_AGENTS_SAY", "LOG_LEVELS", "AgentOffer", "AgentServerSpec", "ArgumentTransform", "Change", "ChangeKind",
    "HttpServerSpec", "LeftOut", "ListPage", "LogMessage", "NamingPolicy", "Notification", "OAuthOptions",
    "OpenApiServerSpec", "Progress", "ServerFeatures", "ServerInfo", "ServerOptions", "ServerSpec", "SourceKind",
    "SourceState", "SourceStatus", "StdioServerSpec", "ToolSearchPolicy", "ToolTransform", "repr_without",
]  # fmt: skip


LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Severity, ascending (RFC 5424; MCP server/utilities/logging)."""


def repr_without(facts: Struct, *hidden: str) -> str:
    """Return the `repr` of a struct, without some of its fields.

    Args:
        facts: The struct.
        hidden: The names of the fields that are left out, because they are secret or useless.
    """
    shown = (f"{name}={getattr(facts, name)!r}" for name in facts.__struct_fields__ if name not in hidden)
    return f"{type(facts).__name__}({', '.join(shown)})"


class SourceKind(Enum):
    """The kind of a source: an agent or a server."""

    AGENT = "agent"
    """An agent in this process."""
    SERVER = "server"
    """An upstream MCP server."""


class SourceState(Enum):
    """The state of a source."""

    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    """Connected, but it does not answer properly."""
    BACKOFF = "backoff"
    """Not connected; the bridge tries again after a pause."""
    FAILED = "failed"
    """Not connected; the bridge tries again only on request."""
    STOPPED = "stopped"
    """Not running because it is not needed now."""


class SourceStatus(Struct, frozen=True):
    """The state of a source, and the reason for it."""

    state: SourceState
    reason: str = ""
    """The reason, fit to show to users and clients; empty while the source is ready."""


class NamingPolicy(Enum):
    """The names of tools and prompts where several sources share one endpoint."""

    DEFAULT = "default"
    """Agents keep their own names; upstream servers' are `<server>__<tool>`."""
    GAIA = "gaia"
    """`mcp_<server>_<tool>` for upstream servers, as in an agent's own registry."""
    DOUBLE = "double"
    """`<source>__<tool>` for every source."""
    BARE = "bare"
    """Original names; only a collision is qualified."""


class ToolSearchPolicy(Enum):
    """The clients that get two tools that find and call the others, instead of all tools."""

    AUTO = "auto"
    """Clients that are known to accept fewer tools than there are."""
    ALWAYS = "always"
    NEVER = "never"


class ChangeKind(Enum):
    """The part of a source that changed."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"
    INTRODUCTION = "introduction"
    """The server info or capabilities of the source. MCP cannot announce this; clients that connect later get it."""
    RESOURCE_UPDATED = "resource_updated"
    NOTIFIED = "notified"

    @property
    def is_list(self) -> bool:
        """Whether a list changed."""
        return self in {ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.RESOURCES}

    @property
    def is_offer(self) -> bool:
        """Whether this changes the offer of the source."""
        return self.is_list or self is ChangeKind.INTRODUCTION


class Notification(Struct, frozen=True, eq=False):
    """A server notification that belongs to no request; it goes to all clients of the handshake era,
    or to the one that made the task which it is about."""

    method: str
    params: Mapping[str, Any]


class Progress(Struct, frozen=True):
    """The progress of the work on a request (basic/utilities/progress)."""

    progress: float
    total: float | None = None
    message: str | None = None
    meta: Mapping[str, Any] | None = None
    """The `_meta` of the notification, without keys that concern one connection only."""


class LogMessage(Struct, frozen=True):
    """A log message of a server to its clients (server/utilities/logging)."""

    level: str
    """One of `LOG_LEVELS`."""
    data: Any
    logger: str | None = None
    meta: Mapping[str, Any] | None = None
    """The `_meta` of the notification, without keys that concern one connection only."""


class Change(Struct, frozen=True):
    """One change of a source; `uri` only with `RESOURCE_UPDATED`, `notification` only with `NOTIFIED`."""

    kind: ChangeKind
    uri: str = ""
    notification: Notification | None = None
    is_repeated: bool = False
    """Whether a server announced a list that turned out to be the same as before."""
    client: Hashable = None
    """The only client that is notified; all clients if `None`."""


class LeftOut(Struct, frozen=True):
    """Something that is not published, and the reason."""

    kind: str
    """`tool`, `prompt`, `resource`, `resource template` or `skill`; `part of the output schema of tool`; a whole
    `server`, a `change` of one, or all that a `file` lists."""
    name: str
    reason: str


class ServerInfo(Struct, frozen=True):
    """The name and description of a published endpoint (MCP `Implementation`, and the server's instructions)."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    instructions: str | None = None
    website_url: str | None = None
    icons: tuple[Mapping[str, Any], ...] = ()


class AgentOffer(Struct, frozen=True):
    """The tools of agents that are published, where that is not left to the agents."""

    tools: bool | frozenset[str] | None = None
    """All of their tools, none, or those of these names; each agent decides if `None`."""
    ask: bool | None = None
    """Whether agents that converse have a tool that asks them; each agent decides if `None`."""

    def over(self, other: AgentOffer) -> AgentOffer:
        """Return this offer, with the values of `other` where this one has `None`."""
        return AgentOffer(
            other.tools if self.tools is None else self.tools, other.ask if self.ask is None else self.ask
        )

    @property
    def names(self) -> frozenset[str]:
        """The tools that the offer names."""
        return frozenset[str]() if self.tools is None or isinstance(self.tools, bool) else self.tools


AS_AGENTS_SAY: Final = AgentOffer()
"""The offer that leaves everything to each agent."""


class ListPage(Struct, frozen=True):
    """One page of a list, as a server returns it."""

    cursor: str | None
    """The cursor that requests this page; `None` for the first page."""
    keys: tuple[str, ...]
    """The names or URIs of the definitions on this page."""
    more: Mapping[str, Any]
    """The other fields of the page, such as `nextCursor`, `ttlMs` and `_meta`."""


class ServerFeatures(Struct, frozen=True):
    """Everything one source offers at one moment, each definition a wire-shaped JSON object.

    `capabilities` names what the source can do, even while a list is empty: `tools`, `prompts`, `resources`,
    `completions`, `logging`.
    """

    info: ServerInfo
    tools: tuple[Mapping[str, Any], ...] = ()
    prompts: tuple[Mapping[str, Any], ...] = ()
    resources: tuple[Mapping[str, Any], ...] = ()
    templates: tuple[Mapping[str, Any], ...] = ()
    skills: tuple[Mapping[str, Any], ...] = ()
    capabilities: frozenset[str] = frozenset()
    extras: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Declared capabilities that are not in the core, unchanged: `tasks`, `extensions`, `experimental`."""
    declared: Mapping[str, Any] | None = None
    """All capabilities of a server, unchanged; `None` for an agent, which supports every option of each."""
    implementation: Mapping[str, Any] | None = None
    """The `serverInfo` of a server, unchanged; `None` where `info` has all of it."""
    pages: Mapping[str, tuple[ListPage, ...]] = field(default_factory=dict[str, tuple[ListPage, ...]])
    """The pages of a server's lists, by kind of definition (`protocol.kinds.KINDS`); without those not read."""
    left_out: tuple[LeftOut, ...] = ()
    is_known: bool = True
    """Whether the offer of the source is known. It is not while a server starts for the first time."""
    modern: bool | None = None
    """Whether a server offered this in 2026-07-28 or later (`True`), or in the handshake era; `None` if in both."""
    other: ServerFeatures | None = None
    """The offer of the server in the other era, if it was asked in both."""

    def for_era(self, *, modern: bool) -> ServerFeatures:
        """Return the offer of the source for clients of one era, as far as it is known.

        Args:
            modern: Whether they speak 2026-07-28 or later.
        """
        return self.other if self.other is not None and self.other.modern is modern else self

    def skills_for(self, *, modern: bool) -> tuple[Mapping[str, Any], ...]:
        """Return the skills of the source, for clients of one era: files, which can be read in both. If the source
        lists none there, return those that it lists in the other era.

        Args:
            modern: Whether they speak 2026-07-28 or later.
        """
        return self.for_era(modern=modern).skills or self.for_era(modern=not modern).skills


class ArgumentTransform(Struct, frozen=True):
    """The configuration of one argument of a tool; `None` where the argument stays as it is."""

    name: str | None = None
    """The name that clients see."""
    description: str | None = None
    """The description that clients see."""
    default: Any = None
    """The JSON value that is sent where the client gives none; none if `None`."""
    secret: bool = False
    """Whether `default` comes from outside the configuration, so that no client may see it."""
    hidden: bool = False
    """Whether clients neither see nor give the argument."""

    def __repr__(self) -> str:
        return repr_without(self, "default")


class ToolTransform(Struct, frozen=True):
    """The configuration of one tool; `None` where the tool stays as it is."""

    name: str | None = None
    """The name that clients see; qualified afterwards as any other name."""
    title: str | None = None
    """The title that clients show to people."""
    description: str | None = None
    """The description that clients see."""
    hidden: bool = False
    """Whether the tool is not published."""
    arguments: Mapping[str, ArgumentTransform] = field(default_factory=dict[str, ArgumentTransform])
    """The changed arguments, by their names at the server."""


class ServerOptions(Struct, frozen=True):
    """The options that an entry of `mcp_servers.json` may have for any kind of server; `None` where it has none."""

    timeout: float | None = None
    """Seconds for one request; progress starts this time anew."""
    startup_timeout: float | None = None
    """Seconds from launch to a completed handshake."""
    idle_timeout: float | None = None
    """Seconds without a request after which a lazily started server is stopped."""
    max_concurrency: int | None = None
    """Requests at once; more wait their turn."""
    isolation: Literal["shared", "session"] = "shared"
    """Whether all clients share one connection, or each session has its own."""
    disabled: bool = False
    """Whether the entry is kept in the configuration without being used."""
    lazy: bool = True
    """Whether the server is started on first use, once its definitions are known."""
    allowed_tools: tuple[str, ...] | None = None
    """The only tools that are published; all if `None`."""
    disabled_tools: tuple[str, ...] = ()
    """Tools that are not published, by their names at the server."""
    tools: Mapping[str, ToolTransform] = field(default_factory=dict[str, ToolTransform])
    """The changes of its published tools, by their names at the server."""
    secrets: tuple[str, ...] = ()
    """The values of the references in `tools`, for redaction."""
    era: Literal["auto", "handshake", "2026-07-28"] = "auto"
    """The revisions in which we speak to it: those of the client, where it has them, or always the same family."""
    approval: str = ""
    """The key of the approval that it needs, and has: of its launch line and of the programs that this runs."""
    is_of_one_client: bool = False
    """Whether one client has named the server for itself: it is lent to nobody else."""

    def __repr__(self) -> str:
        return repr_without(self, "secrets")


class OAuthOptions(Struct, frozen=True):
    """The user's arrangement with the authorization server of a server on the network; mostly empty.

    With nothing, the user logs in, as a client that registers itself. `client_id` is one that is registered already.
    With `grant="client_credentials"`, `client_assertion` or `identity_assertion` nobody logs in; these need `issuer`,
    because otherwise the MCP server would choose who gets to see the credentials.
    """

    client_id: str | None = None
    """The id under which the client is registered there."""
    client_secret: str | None = None
    """The client's secret, if it has one."""
    client_metadata_url: str | None = None
    """The URL of a document about us (Client ID Metadata Document); used where the server understands it."""
    issuer: str | None = None
    """The authorization server, by the name it gives itself. We talk to no other."""
    scope: str | None = None
    """The scopes to request, separated by blanks, where the server's challenge does not name any."""
    callback_port: int | None = None
    """The port of this machine that a login comes back to, where the client is registered with one; any, if `None`."""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    """The OAuth grant; with `client_credentials` nobody logs in."""
    token_endpoint_auth_method: Literal["client_secret_basic", "client_secret_post"] | None = None
    """The way in which `client_secret` is sent; in the `Authorization` header, if `None`."""
    client_assertion: Callable[[str], Awaitable[str]] | None = None
    """A function that makes a signed JWT that proves our identity to an audience (RFC 7523, section 2.2)."""
    identity_assertion: Callable[[str, str], Awaitable[str]] | None = None
    """A function that gets an identity assertion for an audience and a resource (SEP-990)."""

    def __repr__(self) -> str:
        return repr_without(self, "client_secret", "client_assertion", "identity_assertion")

    @property
    def asks_user(self) -> bool:
        """Whether the user has to log in."""
        return self.grant == "authorization_code" and self.client_assertion is None and self.identity_assertion is None

    @property
    def problem(self) -> str:
        """The mistake or the missing option, in words that show no value; empty if there is none."""
        if self.issuer is not None and not _is_plain_url(self.issuer):
            return "the issuer is not a plain URL; expected https://HOST, without user, query and fragment"
        document = self.client_metadata_url
        if document is not None and not (_is_plain_url(document) and _has_https_path(document)):
            return "the client metadata URL is not a plain URL; expected https://HOST/PATH"
        if self.callback_port is not None and not 0 < self.callback_port < 65_536:
            return "the callback port is none; expected 1 to 65535"
        if not set(self.scope or "") <= _SCOPE_CHARACTERS:
            return "a scope has a character that no scope can have"
        if self.client_secret is not None and self.client_id is None:
            return "there is a client secret, and no client id that it belongs to"
        return "" if self.asks_user else self._missing()

    def _missing(self) -> str:
        needed = {"client id": self.client_id, "issuer": self.issuer}
        if self.client_assertion is None:
            needed["client secret"] = self.client_secret
        missing = [name for name, value in needed.items() if not value]
        return f"without a login, it needs {' and '.join(missing)}" if missing else ""


_SCOPE_CHARACTERS: Final = frozenset(map(chr, range(0x20, 0x7F))) - {'"', "\\"}
"""The characters of scopes that are separated by blanks (RFC 6749, section 3.3)."""


def _is_plain_url(text: str) -> bool:
    """Return whether a text is a URL of a host and a path alone, without user, query and fragment."""
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for one that is none
    except ValueError:
        return False
    plain = text.isascii() and text.isprintable() and not set(text) & set(' ?#@\\"<>')
    return plain and parts.scheme in ("https", "http") and bool(parts.hostname)


def _has_https_path(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and parts.path not in ("", "/")


class StdioServerSpec(Struct, frozen=True):
    """The launch of one upstream server as a child process (an entry of `mcp_servers.json`)."""

    name: str
    command: str
    """The program; no shell reads it. Without `args`, the text is split as a shell would split it."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of its environment."""
    cwd: str | None = None
    """The folder that it is started in; if `None`, one of its own, or the current one for a project's entry."""
    inherit_env: bool | tuple[str, ...] = ()
    """Variables of our own environment that it sees beside the harmless ones (`True`: all of them)."""
    options: ServerOptions = ServerOptions()

    def __repr__(self) -> str:
        """Name the program, without arguments and values of the environment, which may be secrets."""
        return f"StdioServerSpec({self.name!r}, {self.command!r}, {len(self.args)} args, env={sorted(self.env)!r})"


class HttpServerSpec(Struct, frozen=True):
    """The address of one upstream server over HTTP (an entry of `mcp_servers.json`)."""

    name: str
    url: str
    """The server's address: `https://HOST/PATH`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers that are sent with every request, such as `Authorization`."""
    sse: bool = False
    """Whether the server speaks the HTTP+SSE transport of 2024-11-05 instead of Streamable HTTP."""
    options: ServerOptions = ServerOptions()
    oauth: OAuthOptions | None = OAuthOptions()
    """The login, if the server asks for one; none at all if `None`."""
    proxy: str | Literal[False] | None = None
    """The HTTP proxy to the server: `http://USER:PASSWORD@HOST:PORT`; `false`: none; if `None`, the one that
    `HTTPS_PROXY`, `NO_PROXY` and the like in our environment name. This machine is never reached by one.
    """

    def __repr__(self) -> str:
        """Name the place, without possible secrets: user, query and header values."""
        parts = urlsplit(self.url)
        place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return f"HttpServerSpec({self.name!r}, {place!r}, headers={sorted(self.headers)!r}, sse={self.sse})"


class AgentServerSpec(Struct, frozen=True):
    """The agent of this process that is used as a server (an entry of `mcp_servers.json`)."""

    name: str
    agent: str
    """The name that the agent is published under."""
    options: ServerOptions = ServerOptions()
    alike: bool = True
    """Whether the agent does the same in both eras, as ours do. A server object of a library may not."""


class OpenApiServerSpec(Struct, frozen=True):
    """The HTTP API that is used as a server: each operation of its OpenAPI document is a tool."""

    name: str
    document: str | Mapping[str, Any]
    """The document: its URL, the path of a file, or the document itself."""
    url: str | None = None
    """The address of the API; the one in its document if `None`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers that are sent with every request, such as `Authorization`."""
    options: ServerOptions = ServerOptions()
    proxy: str | Literal[False] | None = None
    """The HTTP proxy by which the API, and a document on the network, are reached; as for a server over HTTP."""

    def __repr__(self) -> str:
        """Name the entry, without possible secrets: addresses and header values."""
        return f"OpenApiServerSpec({self.name!r}, headers={sorted(self.headers)!r})"


ServerSpec = StdioServerSpec | HttpServerSpec | AgentServerSpec | OpenApiServerSpec
"""One entry of `mcp_servers.json`."""
