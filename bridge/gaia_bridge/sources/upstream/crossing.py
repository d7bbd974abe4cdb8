"""Translates a request of a client on its way to a server; translates and checks the answer on the way back.

With OpenTelemetry, the server gets our span as the parent, whose own parent is that of the client; otherwise the trace
context of the client (`traceparent`, `tracestate` in `_meta`, SEP-414) goes on as it came.

A server of 2025-11-25 answers with an error that lists links which a user has to open first (URL elicitation required).
Clients of 2026-07-28 get them as questions in a result, and their next request is made anew: the server knows the
outcome.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread

from gaia_bridge.calls.results.conversion import is_input_required
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.constants import KIB
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import (
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    ClientCapabilityError,
    ProtocolError,
    ResourceNotFoundError,
    ToolError,
)
from gaia_bridge.protocol.codes import METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED
from gaia_bridge.protocol.content import RESULTS
from gaia_bridge.protocol.definition_repairs import repaired_result
from gaia_bridge.protocol.meta import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    PROGRESS_TOKEN_KEY,
    PROTOCOL_VERSION_KEY,
    SERVER_INFO_KEY,
    without_key,
)
from gaia_bridge.protocol.parameters import METHODS
from gaia_bridge.protocol.vocabulary import (
    CAPABILITY_OF,
    is_complete,
    missing_capability,
    question_problem,
    result_problem,
)
from gaia_bridge.sources.upstream.relayed_request import ASKABLE, Relay
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_text import measure
from gaia_bridge.text.json_types import JSON, MAX_NESTING, is_array, is_object
from gaia_bridge.version import __version__

_OUR_HOP: Final = frozenset(
    {PROGRESS_TOKEN_KEY, CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, PROTOCOL_VERSION_KEY}
)
"""Keys of a request's `_meta` about the connection between the client and us: they are not passed on. The log level and
the capabilities are added again where the server's era has them: they limit its messages and questions for this
request."""
_KNOWN: Final = frozenset({"_meta", "arguments", "context", "inputResponses", "requestState"})
"""Parameters that are translated or handled separately."""
_STATE: Final = "upstream:"
"""The prefix of a `requestState` that the server created; see `parked_calls` for the others."""
_LINK: Final = "gaia-link-"
"""The prefix of our keys of questions to open a link."""
_ASK: Final = "elicitation/create"
_RESOURCE_NOT_FOUND: Final = -32002
"""The code of MCP up to 2025-11-25, server/resources; later revisions report invalid parameters, with the URI."""
_OF_SDK_1: Final = "Invalid request parameters"
"""The message of version 1 of the Python SDK for an unknown method, with the code of invalid parameters."""
_LARGE: Final = 256 * KIB
"""Bytes from which on a result is checked in a thread: below, that takes a few milliseconds at most."""
_THREADS: Final = 1
"""Results of one server that are checked in threads at once: more would only take time from the event loop."""
_BLOCKS: Final = 250
"""Blocks of content that are checked in one go: nothing else runs meanwhile, even from another thread."""
_LISTS: Final[Mapping[str, str]] = {"tools/call": "content", "prompts/get": "messages", "resources/read": "contents"}


def params_for_server(relay: Relay, *, modern: bool) -> JSON:
    """Return the parameters of a request for a server of one era.

    Raises:
        ProtocolError: The request continues a call that another server or an agent began.
    """
    request = relay.request
    more: JSON = {}
    if not modern:
        meta = {key: value for key, value in request.meta.items() if key not in _OUR_HOP} if request.meta else {}
    else:
        meta = meta_for_server(request.meta, request.client_capabilities, request.log_level)
        if request.input_responses:
            more["inputResponses"] = dict(request.input_responses)
        if (state := request.request_state) is not None:
            if not state.startswith(_STATE):
                problem = "The server that asked has changed since; call again from the start"
                raise ProtocolError(INVALID_PARAMS, problem)
            more["requestState"] = state.removeprefix(_STATE)
    unknown = {key: value for key, value in request.params.items() if key not in _KNOWN and key not in relay.params}
    return {**unknown, **relay.params, **more, **({"_meta": meta} if meta else {})}


def meta_for_server(meta: Mapping[str, Any], capabilities: Mapping[str, Any], log_level: str | None) -> JSON:
    """Return the `_meta` of a request for a server of 2026-07-28, without the keys of our own connection."""
    own = {key: value for key, value in meta.items() if key not in _OUR_HOP}
    if log_level is not None:
        own[LOG_LEVEL_KEY] = log_level
    own[CLIENT_CAPABILITIES_KEY] = {
        name: declared for name, declared in capabilities.items() if name in (*ASKABLE, "extensions")
    }
    return own


@contextmanager
def request_span(upstream: str, method: str, params: JSON) -> Generator[JSON]:
    """Trace one request until the end of the block; yield the parameters to send."""
    from opentelemetry.propagate import inject
    from opentelemetry.trace import SpanKind, get_tracer

    name = params.get("name")
    target = f" {name}" if isinstance(name, str) else ""
    attributes = {"mcp.method.name": method, "gaia_bridge.upstream": upstream}
    tracer = get_tracer("gaia-mcp-bridge", __version__)
    with tracer.start_as_current_span(
        f"{method}{target}", kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
    ):
        meta = params.get("_meta")
        traced: JSON = dict(meta) if is_object(meta) else {}
        inject(traced)
        yield {**params, "_meta": traced}


def result_for_client(result: JSON, request: ClientRequest, *, modern: bool) -> JSON:
    """Return a result for the client: with a `resultType`, and without `serverInfo`, which is for our connection.

    Raises:
        UpstreamError: The result has a question that the client did not declare.
    """
    if "_meta" in result:
        result = without_key(result, SERVER_INFO_KEY)
    if not modern or "resultType" not in result:
        return result | {"resultType": "complete"}
    if not is_input_required(result):
        return result
    questions, state = result.get("inputRequests"), result.get("requestState")
    for question in questions.values() if is_object(questions) else ():
        _check_declared(question, request.client_capabilities)
    return result | {"requestState": _STATE + state} if isinstance(state, str) else result


def _check_declared(question: Any, declared: Mapping[str, Any]) -> None:
    asked: JSON = question if is_object(question) else {}
    method = asked.get("method")
    params: JSON = asked.get("params") or {}
    if (
        not isinstance(method, str)
        or method not in CAPABILITY_OF
        or not is_object(params)
        or missing_capability(method, params, declared)
    ):
        raise UpstreamError(f"asks for {printable(str(method), 200)}, which the client did not declare")


def error_for_client(error: ProtocolError, method: str, params: JSON, *, same_era: bool) -> ProtocolError:
    """Return an error of a server in the form that the rest of the core expects.

    Args:
        same_era: Whether the client is of the server's era, and understands the error unchanged.
    """
    if not same_era and error.code == INVALID_PARAMS and error.message == _OF_SDK_1:
        return error if method in METHODS else ProtocolError(METHOD_NOT_FOUND, "Method not found")
    if method != "resources/read" or isinstance(error, ResourceNotFoundError):
        return error
    uri, data = str(params.get("uri")), error.data if is_object(error.data) else {}
    if error.code == _RESOURCE_NOT_FOUND or (error.code == INVALID_PARAMS and data.get("uri") == uri):
        return ResourceNotFoundError(uri, error.message, data, original=error if same_era else None)
    return error


def server_error(code: int, message: str, data: Any) -> ProtocolError:
    """Return an error of a server; that of a missing capability in a form for clients of both eras."""
    needed = data.get("requiredCapabilities") if is_object(data) else None
    if code == MISSING_CLIENT_CAPABILITY and is_object(needed):
        return ClientCapabilityError(needed)
    return ProtocolError(code, message, data)


def links_of(error: ProtocolError) -> list[JSON]:
    """Return the links in an error; none if it is another error, or does not list them as it should."""
    named = error.data.get("elicitations") if is_object(error.data) else None
    if error.code != URL_ELICITATION_REQUIRED or not is_array(named):
        return []
    links: list[JSON] = [{**link, "mode": "url"} for link in named if is_object(link)]
    return [] if any(question_problem(_ASK, link) for link in links) else links


def asking_for(links: Sequence[JSON], declared: Mapping[str, Any]) -> JSON:
    """Return the result that asks to open links.

    Raises:
        ClientCapabilityError: The client did not declare that it can open links.
    """
    if (missing := missing_capability(_ASK, links[0], declared)) is not None:
        raise ClientCapabilityError(missing)
    asked = {
        f"{_LINK}{number}": {"method": _ASK, "params": {key: link[key] for key in link if key != "elicitationId"}}
        for number, link in enumerate(links, 1)
    }
    return {"resultType": "input_required", "inputRequests": asked}


def check_links(answers: Mapping[str, JSON]) -> None:
    """Check the answers that a request brings.

    Raises:
        ToolError: The user refused to open a link: the server need not be asked again.
    """
    for key, answer in answers.items():
        if key.startswith(_LINK) and answer.get("action") != "accept":
            raise ToolError(f"The server needs a link to be opened, and the user's answer was: {answer.get('action')}")


def with_list(method: str, result: JSON) -> JSON:
    """Return the result with its list, where the server left that out or wrote null, as servers in Go do for none.

    A result of another type, and one that names a task, is returned unchanged.
    """
    name = _LISTS.get(method)
    if name is None or result.get(name) is not None:
        return result
    if result.get("resultType", "complete") != "complete" or is_object(result.get("task")):
        return result
    return {**result, name: []}


class ResultChecker:
    """Checks the results of one server."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def checked(self, method: str, result: JSON) -> JSON:
        """Return the result in a form that can be passed on.

        Raises:
            UpstreamError: The result cannot be passed on; the message says why.
        """
        size, is_too_deep = measure(result)
        if is_too_deep:
            raise UpstreamError(f"answered {method} with a result that is nested deeper than {MAX_NESTING} levels")
        if size <= _LARGE and "task" not in result and result.get("resultType", "complete") == "complete":
            shape = RESULTS.get(method)
            if shape is not None and shape.is_plain(result):  # as nearly all are; a "no" may be wrong
                return result
        result = with_list(method, result)
        if size > _LARGE:
            check = partial(_checked, method, result)
            result, problem = await anyio.to_thread.run_sync(check, limiter=self._threads)
        else:
            result, problem = _checked(method, result)
        if problem is not None:
            raise UpstreamError(f"answered {method} with a result that {problem}")
        return result


def _checked(method: str, result: JSON) -> tuple[JSON, str | None]:
    if is_complete(method, result):
        if all(map(RESULTS[method].is_plain, _parts(result))):
            return result, None
        result = repaired_result(method, result)
    problem = next(filter(None, (result_problem(method, part) for part in _parts(result))), None)
    return result, None if problem is None else f"MCP does not allow: {problem}"


def _parts(result: JSON) -> Sequence[JSON]:
    """Return results that together have the blocks of one; none of them has many blocks."""
    content = result.get("content")
    if not is_array(content) or len(content) <= _BLOCKS:
        return (result,)
    about = {key: value for key, value in result.items() if key != "structuredContent"}
    starts = range(0, len(content), _BLOCKS)
    return [result | {"content": []}, *(about | {"content": content[at : at + _BLOCKS]} for at in starts)]
