"""Every error of the `/v1/` routes, in the shape that clients of OpenAI's API read.

    {"error": {"message": "...", "type": "...", "param": null, "code": "..."}}

Also what the guard and the listener answer there, so that a client library makes its own exceptions of them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Mapping
from typing import Final

from gaia_bridge.errors import (
    BusyError,
    ContextOverflowError,
    ModelBusyError,
    ModelCredentialsError,
    ModelError,
    ModelNotFoundError,
    ModelUnreachableError,
    RequestCancelledError,
    RequestError,
    SessionLimitError,
)
from gaia_bridge.protocol.json_text import to_json
from gaia_bridge.protocol.json_types import JSON
from gaia_bridge.results.conversion import words
from gaia_bridge.sanitize.escaping import one_line, valid_text

__all__ = ["CHAT_PREFIX", "NEVER_AGAIN", "ChatError", "as_chat_error", "refusal_body"]

logger = logging.getLogger(__name__)

CHAT_PREFIX: Final = "/v1/"
"""What the paths of this API begin with."""

_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_REFUSAL_CODES: Final = {401: "invalid_api_key", 403: "origin_not_allowed", 413: "request_too_large"}
NEVER_AGAIN: Final = {"x-should-retry": "false"}
"""OpenAI's own client libraries send a request again after many failures, unless told not to. A turn may have run tools
by then, and what may have had an effect is never sent twice."""


class ChatError(RequestError):
    """A request that is answered with an error.

    Args:
        status: The HTTP status; decides which exception a client library raises.
        message: What came, what was expected, what to do.
        code: A word for programs.
        param: The field of the request that it is about, such as `messages[2].role`.
        headers: Headers of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    def payload(self) -> JSON:
        """The body of the response, or the data of an event."""
        kind = _TYPES.get(self.status) or ("server_error" if self.status >= 500 else "invalid_request_error")
        message = valid_text(self.message)
        return {"error": {"message": message, "type": kind, "param": self.param, "code": self.code}}


def refusal_body(status: int, message: str) -> bytes:
    """What the guard answers, serialised."""
    if status == 401:
        message += " Clients of this API send what they call the API key in this way."
    return to_json(ChatError(status, message, _REFUSAL_CODES.get(status)).payload())


def as_chat_error(error: BaseException, model: str) -> ChatError:
    """What a client is told about a turn that failed. Never a traceback: that is in the log.

    Args:
        error: What the agent's code raised.
        model: The model that was asked.
    """
    match error:
        case ChatError():
            return error
        case ModelError():
            logger.warning("model %s: %s", model, one_line(words(error)))
            return _of_model(error)
        case BusyError():
            return ChatError(429, str(error), "agent_busy", headers={"retry-after": "1"})
        case SessionLimitError():
            return ChatError(429, str(error), "session_limit_reached")
        case RequestCancelledError() | asyncio.CancelledError():
            message = f"The answer of model '{model}' was cancelled before it was complete. Ask again."
            return ChatError(503, message, "cancelled")
        case _:
            reference = secrets.token_hex(4)
            logger.error("model %s: the agent failed, reference %s", model, reference, exc_info=error)
            message = f"The agent failed. The details are in the bridge's log under reference {reference}."
            return ChatError(500, message, "agent_failed", headers=NEVER_AGAIN)


def _of_model(error: ModelError) -> ChatError:
    text = words(error)
    match error:
        case ContextOverflowError():
            return ChatError(400, text, "context_length_exceeded", "messages")
        case ModelBusyError():
            seconds = 1 if error.retry_after is None else max(0, math.ceil(error.retry_after))
            return ChatError(429, text, "rate_limit_exceeded", headers={"retry-after": f"{seconds}"})
        case ModelUnreachableError():
            status, code = 503, "agent_model_unreachable"
        case ModelNotFoundError():
            status, code = 502, "agent_model_not_found"
        case ModelCredentialsError():
            status, code = 502, "agent_model_credentials"
        case _:
            status, code = 502, "agent_model_failed"
    return ChatError(status, text, code)
