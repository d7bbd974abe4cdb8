"""The bodies of refusals: an error that the clients of a path can read.

Below `/v1/` that is OpenAI's, so that its client libraries make their own exceptions of it; elsewhere it is JSON-RPC's.
"""

from __future__ import annotations

from typing import Final

from gaia_bridge.protocol.codes import INVALID_REQUEST
from gaia_bridge.protocol.messages import Refusal, encoded_error
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON

CHAT_PREFIX: Final = "/v1/"
"""The beginning of the paths of OpenAI's API."""
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_REFUSAL_CODES: Final = {401: "invalid_api_key", 403: "origin_not_allowed", 413: "request_too_large"}
NEVER_AGAIN: Final = {"x-should-retry": "false"}
"""OpenAI's own client libraries send a request again after many failures, unless told not to. A turn may have run tools
by then, and what may have had an effect is never sent twice."""


def body_for(
    path: str, status: int, message: str, code: int = INVALID_REQUEST, request_id: int | str | None = None
) -> bytes:
    """Return the error that the clients of a path understand: of OpenAI's API, or of JSON-RPC."""
    if not path.startswith(CHAT_PREFIX):
        return encoded_error(Refusal(code, message, request_id))
    if status == 401:
        message += " Clients of this API send what they call the API key in this way."
    return to_json(chat_error(status, message, _REFUSAL_CODES.get(status)))


def chat_error(status: int, message: str, code: str | None = None, param: str | None = None) -> JSON:
    """Return an error of OpenAI's API."""
    kind = _TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": valid_text(message), "type": kind, "param": param, "code": code}}
