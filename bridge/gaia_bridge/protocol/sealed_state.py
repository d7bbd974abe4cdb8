"""Encrypts the `requestState` that a client returns in the next round of a request (MCP 2026-07-28, SEP-2322).

The client can neither read nor change it, and can use it only for the same method, target and arguments, at the
endpoint that created it, and within its lifetime.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.codes import INVALID_PARAMS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

logger = logging.getLogger(__name__)

_FORMAT: Final = "s1."
_NONCE: Final = 12


class StateSeal:
    """Encrypts states with AES-GCM, under a random key of this object that never leaves the process.

    A state is valid for `lifetime` seconds.
    """

    def __init__(self, lifetime: float, clock: Callable[[], float] = time.time) -> None:
        self._lifetime = lifetime
        self._clock = clock

    @cached_property
    def _cipher(self) -> AESGCM:
        # Imported late: most servers never ask for input, and the import costs three MiB.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(AESGCM.generate_key(256))

    def seal(self, state: str, method: str, params: Mapping[str, Any]) -> str:
        """Encrypt a state into the `requestState` that a client is sent, for the request that asks it for input."""
        nonce = os.urandom(_NONCE)
        content = json.dumps({"until": self._clock() + self._lifetime, "state": state}).encode()
        sealed = nonce + self._cipher.encrypt(nonce, content, self._binding(method, params))
        return _FORMAT + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def opened(self, sealed: str, method: str, params: Mapping[str, Any]) -> str:
        """Decrypt the `requestState` of a client.

        Raises:
            ProtocolError: It is from elsewhere, for another request, or expired; only the log has the cause.
        """
        try:
            return self._state(sealed, self._binding(method, params))
        except ValueError as error:
            logger.warning("the requestState of a %s was refused: %s", method, error)
            reason = {"reason": "invalid_request_state"}
            raise ProtocolError(INVALID_PARAMS, "Invalid or expired requestState", reason) from None

    def _state(self, sealed: str, binding: bytes) -> str:
        from cryptography.exceptions import InvalidTag

        # Base64 has several spellings of the same bytes; only the one that `seal` writes is accepted.
        text = sealed.removeprefix(_FORMAT)
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if text == sealed or base64.urlsafe_b64encode(raw).decode().rstrip("=") != text:
            raise ValueError("it is none")
        try:
            content = json.loads(self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], binding))
        except InvalidTag:
            raise ValueError("it was changed, or made for another request or by another endpoint") from None
        if not self._clock() < content["until"]:
            raise ValueError("it is too old")
        state: str = content["state"]
        return state

    def _binding(self, method: str, params: Mapping[str, Any]) -> bytes:
        """Hash the method, target and arguments that a state is bound to, whatever the order of the arguments' keys."""
        target = params.get("uri" if method == "resources/read" else "name")
        arguments: Any = None if method == "resources/read" else params.get("arguments") or {}
        content = json.dumps([method, target, arguments], sort_keys=True)
        return hashlib.sha256(content.encode()).digest()
