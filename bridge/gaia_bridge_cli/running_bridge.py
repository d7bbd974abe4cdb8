"""Asks a running bridge for its status: it must prove that it is ours before it is sent the token.

Another program that takes the port first would be sent the token otherwise. So the bridge gets a challenge, which can
only be answered with the token; the answer is valid for the requested address alone, so that it cannot be relayed from
a bridge elsewhere. Bytes and time are bounded, whatever answers.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from threading import Event, Timer
from typing import Final
from urllib.parse import urlsplit

from gaia_bridge.config.paths import home_folder
from gaia_bridge.errors import ServerUnavailableError
from gaia_bridge.server.http.token import MAX_LENGTH, token_proof
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.web_addresses import is_loopback_host

_PATIENCE: Final = 5.0
"""Seconds for the bridge to answer, in all: it answers from memory."""

_PATIENCE_FOR_HINT: Final = 0.5
"""Seconds for a program to show that it is a bridge, where only a hint depends on that."""

_LARGEST: Final = 8 * 1024 * 1024
"""The most bytes of an answer; a bridge with a thousand servers sends less."""

_TOKEN_FILE: Final = Path(".gaia/bridge-token")


def bridge_status(url: str) -> JSON:
    """Return the status of the bridge at an address.

    Args:
        url: The address, without a path behind it.

    Raises:
        ServerUnavailableError: No bridge answers there, or it refuses.
    """
    asked = _ListeningProgram(url)
    try:
        with asked.bounded():
            return asked.status()
    except (OSError, HTTPException, ValueError) as error:
        hint = "is `gaia-bridge serve` running? `gaia-bridge ps` shows the bridges of editors"
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        problem = f"no gaia-bridge answers there: {reason}; {hint}"
        raise ServerUnavailableError(url, problem) from None


def is_bridge_at(url: str) -> bool:
    """Return whether a bridge listens at an address, as far as it shows that soon and without a token."""
    from gaia_bridge.bridge.report import INFO  # slow to load, and known to commands that serve

    bridge = _ListeningProgram(url, _PATIENCE_FOR_HINT)
    try:
        with bridge.bounded():
            health = bridge.health("status")
    except (OSError, HTTPException, ValueError):
        return False
    # A bridge with a token only reports that it runs, and proves that it knows the token.
    return is_object(health) and (health.get("service") == INFO.title or "proof" in health)


def published_at(url: str, name: str) -> str | None:
    """Return the URL at which a running bridge publishes an agent or server; `None` if it does not, or none answers.

    Args:
        url: The bridge's address.
        name: The agent or server.

    Raises:
        ServerUnavailableError: The bridge publishes it, and wants a token.
    """
    asked = _ListeningProgram(url)
    try:
        with asked.bounded():
            sources = asked.status().get("sources")
    except (OSError, HTTPException, ValueError, ServerUnavailableError):
        return None
    for source in sources if is_array(sources) else ():
        if is_object(source) and source.get("name") == name and isinstance(path := source.get("path"), str):
            if asked.needs_token:
                header = f"--header 'Authorization:Bearer ${{file:~/{_TOKEN_FILE}}}'"
                hint = f"add it: gaia-bridge add NAME {url}{path} {header}"
                raise ServerUnavailableError(name, f"the bridge that runs at {url} publishes it, with a token; {hint}")
            return f"{url}{path}"
    return None


class _ListeningProgram:
    """The program that listens at an address.

    Args:
        url: The address.
        patience: Seconds for its answers, in all.
    """

    def __init__(self, url: str, patience: float | None = None) -> None:
        self._url = url
        self._patience = _PATIENCE if patience is None else patience
        parts = urlsplit(url)
        self._authority = parts.netloc.rpartition("@")[2]
        self._path = parts.path
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(self._authority, timeout=self._patience)
        self._socket: socket.socket | None = None
        self.needs_token = False
        """Whether the bridge has proved that it knows the token, and so requires the token from clients."""
        self._late = Event()

    @contextmanager
    def bounded(self) -> Generator[None]:
        """Close the connection when the time is over, however much still comes."""

        def tear_down() -> None:
            self._late.set()
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

        timer = Timer(self._patience, tear_down)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, HTTPException, ValueError):
            self._check_time()
            raise
        finally:
            timer.cancel()
            self._connection.close()

    def status(self) -> JSON:
        """Return the status of the bridge.

        Raises:
            ServerUnavailableError: The bridge refuses.
            ValueError: The program is no bridge.
        """
        token = _token(self._url)
        proven = self.needs_token = token is not None and self._proves(token)
        status, answer = self._get("/status", {"Authorization": f"Bearer {token}"} if proven else {})
        if status == HTTPStatus.OK:
            if not is_object(answer):
                raise ValueError("the answer is no status of a bridge")
            return answer
        reason = f"it answered {status}"
        if not (words := _own_words(answer)):  # which every refusal of a bridge has
            reason = f"no gaia-bridge answers there: {reason}"
        if status == HTTPStatus.UNAUTHORIZED and not proven:
            reason += "; it was not sent the token, because it does not prove that it is the bridge that knows it"
        raise ServerUnavailableError(self._url, f"{reason}{words}")

    def health(self, challenge: str) -> object:
        """Return the answer to a health check; one that knows the token proves that, by the challenge."""
        return self._get(f"/health?challenge={challenge}", {})[1]

    def _check_time(self) -> None:
        if self._late.is_set():
            raise TimeoutError(f"it took longer than {self._patience:g} seconds") from None

    def _proves(self, token: str) -> bool:
        """Return whether it knows the token, which may only be sent on the connection on which that was proven."""
        challenge = secrets.token_hex(32)
        answer = self.health(challenge)
        proof = answer.get("proof") if is_object(answer) else None
        expected = token_proof(token, challenge, self._authority)
        same = isinstance(proof, str) and hmac.compare_digest(proof.encode(), expected.encode())
        return same and self._connection.sock is not None

    def _get(self, path: str, headers: dict[str, str]) -> tuple[int, object]:
        """Return the status and the parsed body; `None` if the body is no JSON."""
        if self._connection.sock is None:
            self._connection.connect()
            self._socket = self._connection.sock
            self._check_time()
        fields = {"Host": self._authority, "Accept": "application/json", **headers}
        self._connection.request("GET", self._path + path, headers=fields)
        response = self._connection.getresponse()
        body = response.read(_LARGEST + 1)
        self._check_time()  # a body that was cut off looks like one that has ended
        if len(body) > _LARGEST:
            raise ValueError(f"the answer has more than {_LARGEST:,} bytes")
        try:
            return response.status, json.loads(body)
        except (ValueError, RecursionError):
            return response.status, None


def _own_words(answer: object) -> str:
    error = answer.get("error") if is_object(answer) else None
    message = error.get("message") if is_object(error) else None
    return f": {one_line(message, 300)}" if isinstance(message, str) else ""


def _token(url: str) -> str | None:
    """Return the token of the bridges of this machine, if there is one; it is for no other machine."""
    if not is_loopback_host(urlsplit(url).hostname or ""):
        return None
    try:
        with open(home_folder() / _TOKEN_FILE, encoding="ascii") as file:
            return file.read(MAX_LENGTH).strip() or None
    except (OSError, RuntimeError, ValueError):
        return None
