"""The errors of turns, in the form of OpenAI's API; an editor gets the same message.

{"error": {"message": "...", "type": "...", "param": null, "code": "..."}}
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Mapping

from gaia_bridge.calls.results.conversion import words
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
from gaia_bridge.server.http.error_bodies import NEVER_AGAIN, chat_error
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)


class ChatError(RequestError):
    """A request that is answered with an error.

    Args:
        status: The HTTP status; it decides which exception a client library raises.
        message: The value, the expected value, the remedy.
        code: A word for programs.
        param: The field of the request with the error, such as `messages[2].role`.
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
        """Return the body of the response, or the data of an event."""
        return chat_error(self.status, self.message, self.code, self.param)


def as_chat_error(error: BaseException, model: str) -> ChatError:
    """Return the error for the client of a failed turn. Never a traceback: that is in the log.

    Args:
        error: The exception of the agent's code.
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
            message = f"The agent failed. The details are logged under reference {reference}."
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
