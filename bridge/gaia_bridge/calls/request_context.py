"""The methods by which a running tool, prompt or resource reaches the client that called it.

    from gaia_bridge import get_request_context

    def execute_mcp_tool(self, tool_name, arguments):
        request = get_request_context()
        request.report_progress(1, 3, "reading")
        answer = request.elicit("Delete it?", {"sure": {"type": "boolean"}})

Every method may be called from a thread or from a coroutine. Methods that only send (`report_progress`, `log`) never
wait. Methods that ask (`elicit`, `sample`, `list_roots`) wait for an answer; coroutines use their `a` twins.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from msgspec import Struct, field

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY, hops_of
from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.content import form_params, sampling_request
from gaia_bridge.contract import ClientRequest, RequestFacts
from gaia_bridge.errors import ClientCapabilityError
from gaia_bridge.model import LOG_LEVELS, LogMessage, Progress
from gaia_bridge.text.json_types import JSON

if TYPE_CHECKING:
    from gaia_bridge.calls.editor_access import EditorAccess


class CallChannel(Protocol):
    """The connection that carries a request context's messages to the client; the core implements it."""

    @property
    def cancelled(self) -> bool:
        """Whether the request was cancelled."""
        ...

    @property
    def is_asking(self) -> bool:
        """Whether a question to the client is not answered yet."""
        ...

    def wait_cancelled(self, timeout: float) -> bool:
        """Block up to `timeout` seconds; return whether the request was cancelled."""
        ...

    def raise_if_cancelled(self) -> None:
        """Raise `RequestCancelledError` if the request was cancelled."""
        ...

    def post_progress(self, report: Progress) -> None:
        """Send progress; never waits."""
        ...

    def post_log(self, message: LogMessage) -> None:
        """Send a log message; never waits."""
        ...

    def ask(self, method: str, params: JSON) -> JSON:
        """Put a question to the client and block until it is answered."""
        ...

    async def aask(self, method: str, params: JSON) -> JSON:
        """Put a question to the client and wait until it is answered."""
        ...

    def close_stream(self) -> None:
        """End the event stream that carries the answer."""
        ...

    @property
    def editor(self) -> EditorAccess | None:
        """The editor that the work is done for, if it lets agents use its files or terminals."""
        ...


class Elicited(Struct, frozen=True):
    """A user's answer to a form or a link (MCP client/elicitation)."""

    action: str
    """`accept`, `decline` or `cancel`."""
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values that the user filled in; empty unless accepted."""

    @property
    def accepted(self) -> bool:
        """Whether the user agreed."""
        return self.action == "accept"


class RequestContext:
    """The request that is being worked on. Obtain it with `get_request_context()`; the bridge makes it.

    Args:
        channel: Carries messages to the client.
        request: The request of the client.
        request_state: The state of an earlier `input_required` result of this request, as the agent gave it.
    """

    def __init__(self, channel: CallChannel, request: RequestFacts, request_state: str | None) -> None:
        self._channel = channel
        self._request = request
        self._client: Hashable = None
        self.request_state = request_state

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`."""
        return {key: value for key, value in self._request.meta.items() if key != HOPS_META_KEY}

    @property
    def hops(self) -> tuple[str, ...]:
        """The bridges that the request has passed."""
        return hops_of(self._request.meta) or ()

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the client declared, in wire shape: `{"elicitation": {}, "sampling": {}}`."""
        return self._request.client_capabilities

    @property
    def client_folder(self) -> str | None:
        """The folder that an editor has started `gaia-bridge connect` in; `None` for all other clients.

        Such a client is a program of this user, on this machine: its word on folders can be taken.
        """
        return self._request.client_folder

    @property
    def input_responses(self) -> Mapping[str, JSON]:
        """Answers to an earlier `input_required` result of this request, by its keys; empty on the first round."""
        return self._request.input_responses

    @property
    def editor(self) -> EditorAccess | None:
        """The editor that the agent converses with (`gaia-bridge acp`): its files, and its terminals.

        `None` for MCP clients, and for editors that let agents use neither.
        """
        return self._channel.editor

    @property
    def session_key(self) -> str | None:
        """A secret that the requests of one session of one client share, as a scope for names that the client chooses.

        `None` where a request stands alone (2026-07-28 over HTTP), or comes through a bridge, whose clients share its
        session.
        """
        return None if self.hops else self._request.session_key

    @property
    def is_parked(self) -> bool:
        """Whether the work waits for the client to come back with an answer, which it may never do (2026-07-28)."""
        return self._request.modern and self._channel.is_asking

    @property
    def cancelled(self) -> bool:
        """Whether the request was cancelled. Check it between the steps of long work."""
        return self._channel.cancelled

    def raise_if_cancelled(self) -> None:
        """Stop the work if the request was cancelled.

        Raises:
            RequestCancelledError: The request was cancelled.
        """
        self._channel.raise_if_cancelled()

    def wait_cancelled(self, timeout: float) -> bool:
        """Block up to `timeout` seconds, or until the request is cancelled; return whether it was."""
        return self._channel.wait_cancelled(timeout)

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the work to the client; does nothing if the client did not ask for progress.

        Args:
            progress: The amount of work done, in any unit; must grow with every report.
            total: The amount of work in all, if known.
            message: The current step, for a person to read.

        Raises:
            ValueError: A number is not finite: JSON has no such numbers.
        """
        self._channel.post_progress(Progress(_finite(progress), None if total is None else _finite(total), message))

    def log(self, data: Any, level: str = "info", logger: str | None = None) -> None:
        """Send a log message to the client; dropped if the client does not want that level.

        Args:
            data: Text or any JSON-serialisable value.
            level: `debug info notice warning error critical alert emergency` (RFC 5424).
            logger: The name of the part of the agent that logs.

        Raises:
            ValueError: There is no such level.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"unknown log level {level!r}; expected one of {', '.join(LOG_LEVELS)}")
        self._channel.post_log(LogMessage(level, data, logger))

    def has_capability(self, name: str) -> bool:
        """Return whether the client declared `elicitation`, `sampling`, `roots` or another capability."""
        return self.client_capabilities.get(name) is not None

    def require_capability(self, name: str) -> None:
        """Refuse to go on with a client that lacks a capability.

        Raises:
            ClientCapabilityError: The client did not declare it. The error names the capability.
        """
        if not self.has_capability(name):
            raise ClientCapabilityError({name: {}})

    def elicit(self, message: str, schema: Mapping[str, Any]) -> Elicited:
        """Show the user a form and wait for the answer.

        Args:
            message: The question to the user.
            schema: A flat JSON Schema object, or just its `properties`, all of which are then required.

        Raises:
            ClientCapabilityError: The client has no forms.
            AnswerError: The client did not answer in time, or answered with an error.
            RequestCancelledError: The request was cancelled while the question was open.
        """
        return _elicited(self._channel.ask("elicitation/create", form_params(message, schema)))

    async def aelicit(self, message: str, schema: Mapping[str, Any]) -> Elicited:
        """Do the same as `elicit`, for coroutines."""
        return _elicited(await self._channel.aask("elicitation/create", form_params(message, schema)))

    def elicit_url(self, message: str, url: str) -> Elicited:
        """Ask the user to open a link, for data that must not pass through the client (keys, payments)."""
        return _elicited(self._channel.ask("elicitation/create", _url_params(message, url)))

    async def aelicit_url(self, message: str, url: str) -> Elicited:
        """Do the same as `elicit_url`, for coroutines."""
        return _elicited(await self._channel.aask("elicitation/create", _url_params(message, url)))

    def sample(self, messages: str | Sequence[JSON], max_tokens: int, **params: Any) -> JSON:
        """Ask the client's model; returns a wire `CreateMessageResult` with `role`, `content` and `model`."""
        return self._channel.ask("sampling/createMessage", sampling_request(messages, max_tokens, **params)["params"])

    async def asample(self, messages: str | Sequence[JSON], max_tokens: int, **params: Any) -> JSON:
        """Do the same as `sample`, for coroutines."""
        request = sampling_request(messages, max_tokens, **params)
        return await self._channel.aask("sampling/createMessage", request["params"])

    def list_roots(self) -> list[JSON]:
        """Ask the client for its root folders: `[{"uri": "file:///...", "name": ...}]`."""
        return list(self._channel.ask("roots/list", {}).get("roots", []))

    async def alist_roots(self) -> list[JSON]:
        """Do the same as `list_roots`, for coroutines."""
        return list((await self._channel.aask("roots/list", {})).get("roots", []))

    def as_request(self) -> ClientRequest:
        """Return this request in a form that can be passed on to a server on behalf of the same client."""
        if self._client is None:  # asked once: a request that stands alone says another one each time
            self._client = self._request.client
        return _PassedOn(self._channel, self._request, self._client)

    def close_stream(self) -> None:
        """Let the client disconnect and fetch the answer later, during very long work.

        Only Streamable HTTP clients of 2025-11-25 can resume; for all others this does nothing.
        """
        self._channel.close_stream()


class _PassedOn(OwnRequest):
    """A request of the agent, on any event loop. The client of its own request can be asked, whatever its era."""

    def __init__(self, channel: CallChannel, request: RequestFacts, client: Hashable) -> None:
        super().__init__(client, request.principal)
        self._channel = channel
        self._request = request
        self.method = request.method
        self.meta = request.meta
        self.is_relayed = request.is_relayed
        self.address = request.address
        self.client_info = request.client_info
        self.client_capabilities = request.client_capabilities
        self.client_folder = request.client_folder
        self.log_level = request.log_level

    async def report_progress(self, report: Progress) -> None:
        self._channel.post_progress(report)

    async def log(self, message: LogMessage) -> None:
        self._channel.post_log(message)

    async def push(self, method: str, params: JSON) -> JSON:
        return await self._channel.aask(method, params)

    async def close_stream(self) -> None:
        self._channel.close_stream()


_current: ContextVar[RequestContext] = ContextVar("gaia_bridge_request")


def get_request_context() -> RequestContext:
    """Return the context of the request that the calling tool, prompt or resource works for.

    Raises:
        LookupError: Called outside of a request. Threads that you start yourself need
            `contextvars.copy_context().run`.
    """
    try:
        return _current.get()
    except LookupError:
        raise LookupError(
            "no MCP request is being worked on here; get_request_context() works inside execute_mcp_tool, "
            "get_mcp_prompt, read_mcp_resource and complete_mcp_argument"
        ) from None


def request_scope(request: RequestContext) -> Context:
    """Return a copy of the current context variables in which `get_request_context()` returns `request`."""
    scope = copy_context()
    scope.run(_current.set, request)
    return scope


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(f"progress must be a finite number, got {number!r}")
    return number


def _elicited(result: JSON) -> Elicited:
    return Elicited(str(result.get("action", "cancel")), dict(result.get("content") or {}))


def _url_params(message: str, url: str) -> JSON:
    return {"mode": "url", "message": message, "url": url, "elicitationId": uuid4().hex}
