"""Every error the bridge raises, one class for each way in which its catcher can react.

    BridgeError
    ├── ConfigError              a configuration file or option: fix the named place
    ├── AgentLoadError           an agent that could not be found or built: fix the reference or the class
    ├── PublishError             a name that is taken or not allowed: choose another
    ├── ListenError              an address that cannot be served: choose another, or allow it explicitly
    ├── ServerUnavailableError   a configured server that cannot be reached: read its message, or repair its entry
    └── RequestError             one request failed; the connection and everything else go on
        ├── ToolError            anticipated by the agent: its text is meant for the model
        ├── ProtocolError        becomes a JSON-RPC error with the code and data given
        │   ├── ResourceNotFoundError
        │   └── ClientCapabilityError
        ├── BusyError            all threads of an agent are busy and its queue is full: try again
        ├── ModelError           the language model gave no usable answer: do what the message says
        │   ├── ModelUnreachableError   ModelNotFoundError   ModelCredentialsError
        │   └── ModelBusyError   ContextOverflowError
        ├── SessionLimitError    the limit of chat sessions is reached: end some
        ├── UnknownSessionError  there is no such chat session: begin one
        ├── SkillChangedError    a skill's file is not what its entry says: get the entry anew
        ├── AnswerError          the client's user declined or cancelled, or the client failed to answer
        └── RequestCancelledError   the client, a deadline or a shutdown ended the request

    RuntimeError                 what Python's event loops raise once they are closed
    └── LoopEndedError           the event loop of another thread has ended: connect again

Exceptions take facts, keep them as attributes, and compose their own sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INTERNAL_ERROR = -32603
"""JSON-RPC 2.0 section 5.1: the request was valid, but serving it failed."""

INVALID_PARAMS = -32602
"""JSON-RPC 2.0 section 5.1. Also the code of an unknown tool, prompt or (since 2026-07-28) resource."""

INVALID_REQUEST = -32600
"""JSON-RPC 2.0 section 5.1: the request is not valid, or not at this moment."""

MISSING_CLIENT_CAPABILITY = -32021
"""MCP 2026-07-28, basic/lifecycle: the request needs a capability that the client did not declare."""


class BridgeError(Exception):
    """Base of every error that the bridge raises on purpose."""


class ConfigError(BridgeError):
    """A configuration file or option that cannot be used as it stands.

    Args:
        place: The file, option or key, as the user would name it.
        problem: The value that came and the values that were expected.
        hint: The remedy.
    """

    def __init__(self, place: str, problem: str, hint: str = "") -> None:
        super().__init__(f"{place}: {problem}" + (f" ({hint})" if hint else ""))
        self.place = place
        self.problem = problem
        self.hint = hint


class AgentLoadError(BridgeError):
    """An agent reference that leads to no publishable agent.

    Args:
        reference: The reference that the user wrote, such as `module:Class`.
        problem: Why the reference leads nowhere.
        hint: The remedy.
    """

    def __init__(self, reference: str, problem: str, hint: str = "") -> None:
        super().__init__(f"agent {reference!r}: {problem}" + (f" ({hint})" if hint else ""))
        self.reference = reference
        self.problem = problem
        self.hint = hint


class PublishError(BridgeError):
    """A source that cannot be published under the name given."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"cannot publish {name!r}: {problem}")
        self.name = name
        self.problem = problem


class ListenError(BridgeError):
    """An address that the bridge cannot, or will not, listen on."""

    def __init__(self, address: str, problem: str, hint: str = "") -> None:
        super().__init__(f"cannot listen on {address}: {problem}" + (f" ({hint})" if hint else ""))
        self.address = address
        self.problem = problem
        self.hint = hint


class ServerUnavailableError(BridgeError):
    """A configured server that cannot be reached, or breaks the protocol; or an agent in the place of one.

    Args:
        name: The server.
        problem: The failure.
        kind: The word for it in messages: `server` or `agent`.
    """

    def __init__(self, name: str, problem: str, kind: str = "server") -> None:
        super().__init__(f"{kind} {name!r}: {problem}")
        self.name = name
        self.problem = problem
        self.kind = kind


class LoopEndedError(RuntimeError):
    """The event loop of another thread has ended, or ended while it ran a coroutine."""


class RequestError(BridgeError):
    """One request failed. Nothing but that request is affected."""


class ToolError(RequestError):
    """A failure that the agent anticipated: its text reaches the model word for word, as an `isError` result."""


class ProtocolError(RequestError):
    """A failure that is answered with a JSON-RPC error instead of a result.

    Args:
        code: The JSON-RPC error code.
        message: One sentence for the peer.
        data: JSON-serialisable details for the peer.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ResourceNotFoundError(ProtocolError):
    """No resource at that URI (MCP 2026-07-28, server/resources, SEP-2164).

    Args:
        uri: The URI.
        message: The message of the server or agent that looked for it; empty for a message of our own.
        data: The `data` of its error.
        original: The error of a server that its client understands unchanged.
    """

    def __init__(
        self,
        uri: str,
        message: str = "",
        data: Mapping[str, Any] | None = None,
        original: ProtocolError | None = None,
    ) -> None:
        super().__init__(INVALID_PARAMS, message or f"Resource not found: {uri}", {"uri": uri, **(data or {})})
        self.uri = uri
        self.own_words = message
        self.original = original


class SkillChangedError(RequestError):
    """A file of a skill differs from the skill's entry. It must not be used (SEP-2640, "Verification on Read").

    Args:
        uri: The file.
        reason: How it differs.
    """

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"{uri}: {reason}; get the skill's entry anew")
        self.uri = uri
        self.reason = reason


class ClientCapabilityError(ProtocolError):
    """The request cannot go on without something that the client did not declare.

    Args:
        capabilities: The missing client capabilities, in wire shape: `{"sampling": {}}`.
    """

    def __init__(self, capabilities: Mapping[str, Any]) -> None:
        names = ", ".join(sorted(capabilities))
        super().__init__(
            MISSING_CLIENT_CAPABILITY,
            f"This request needs the client capability {names}, which the client did not declare",
            {"requiredCapabilities": dict(capabilities)},
        )
        self.capabilities = dict(capabilities)


class BusyError(RequestError):
    """All threads of an agent are busy, and its queue is full.

    Args:
        name: The agent.
        running: How many calls it is working on.
        waiting: How many calls wait for a worker.
    """

    def __init__(self, name: str, running: int, waiting: int) -> None:
        super().__init__(f"{name} is busy: {running} calls running, {waiting} waiting. Try again in a moment.")
        self.name = name
        self.running = running
        self.waiting = waiting


class AnswerError(RequestError):
    """The client did not answer a question that was put to it.

    Args:
        text: Why not.
        refusal: The JSON-RPC error that it answered with, if that is why.
    """

    def __init__(self, text: str, refusal: ProtocolError | None = None) -> None:
        super().__init__(text)
        self.refusal = refusal

    def for_server(self) -> ProtocolError:
        """Return the error for the server that asked: the client's own, if it sent one."""
        return self.refusal or ProtocolError(INTERNAL_ERROR, str(self))


class RequestCancelledError(RequestError):
    """The request that this code works for was cancelled, so its result is not needed."""

    def __init__(self, reason: str = "the client cancelled the request") -> None:
        super().__init__(reason)
        self.reason = reason


class ModelError(RequestError):
    """A language model gave no usable answer.

    Args:
        problem: The failure, as a sentence.
        hint: The thing to start, set or change.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(f"{problem} {hint}" if hint else problem)
        self.problem = problem
        self.hint = hint


class ModelUnreachableError(ModelError):
    """Nothing that speaks the protocol answers at the model server's address."""


class ModelNotFoundError(ModelError):
    """The server has no such model, or no model was chosen and it has several."""


class ModelCredentialsError(ModelError):
    """The server refuses the key, or the key lacks permission."""


class ModelBusyError(ModelError):
    """The server refuses more requests for now.

    Args:
        problem: The failure, as a sentence.
        hint: The remedy.
        retry_after: Seconds after which the server may be asked again, if it named them.
    """

    def __init__(self, problem: str, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(problem, hint)
        self.retry_after = retry_after


class ContextOverflowError(ModelError):
    """The conversation is longer than the model can read."""


class SessionLimitError(RequestError):
    """The limit of chat sessions is reached.

    Args:
        limit: The highest number of sessions.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"There are {limit} sessions already, none of them stale. "
            "Destroy those that are done with, or build the agent with a larger max_sessions."
        )
        self.limit = limit


class UnknownSessionError(RequestError, ValueError):
    """There is no such chat session.

    Args:
        session_id: Its name.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} does not exist; create_session() makes it")
        self.session_id = session_id
