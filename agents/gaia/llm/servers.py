"""The model servers that are known by name: where they listen, how they are started, what their users set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from gaia_bridge.errors import ModelError

__all__ = ["KNOWN", "KnownServer", "Lookup", "complete_url", "known_server", "server_at", "shown_url"]

Lookup = Callable[[str], str | None]
"""Reads one variable of the environment."""

_PATH = "/v1"
"""Where all of them have the protocol, unless it is said otherwise."""


class KnownServer(Struct, frozen=True):
    """One server."""

    name: str
    """As `PROVIDER` has it."""
    title: str
    base_urls: tuple[str, ...]
    """Where it listens by default; the first that answers is used."""
    start: str
    """How it is started, for people."""
    longer: str
    """How its models get a longer context, for people."""
    get: str = ""
    """How it gets a model, for people; `MODEL` stands for its name."""
    url_variable: str = ""
    """The environment variable with the server's address."""
    key_variable: str = ""
    """The environment variable with the server's key, which is never sent anywhere else."""
    is_local: bool = True
    """Whether it is looked for on this machine, when no server is named."""

    def places(self, look_up: Lookup) -> tuple[str, ...]:
        """Return its possible addresses: the one in its variable, else the usual ones."""
        place = (look_up(self.url_variable) or "").strip() if self.url_variable else ""
        return (complete_url(place, self.base_urls[0]),) if place else self.base_urls


KNOWN: Final = (
    KnownServer(
        "lemonade",
        "Lemonade",
        ("http://localhost:13305/api/v1", "http://localhost:8000/api/v1"),  # since 10.1, and before
        "lemond, or lemonade-server serve before 10.1",
        "give it a larger ctx_size (lemonade config)",
        get="lemonade pull MODEL",
        url_variable="LEMONADE_BASE_URL",
        key_variable="LEMONADE_API_KEY",
    ),
    KnownServer(
        "ollama",
        "Ollama",
        ("http://localhost:11434/v1",),
        "ollama serve",
        "start it with OLLAMA_CONTEXT_LENGTH=32768",
        get="ollama pull MODEL",
        url_variable="OLLAMA_HOST",
        key_variable="OLLAMA_API_KEY",
    ),
    KnownServer(
        "llamacpp",
        "llama.cpp",
        ("http://localhost:8080/v1",),
        "llama-server -m MODEL.gguf --jinja",
        "start it with a larger -c",
        key_variable="LLAMA_API_KEY",
    ),
    KnownServer(
        "lmstudio",
        "LM Studio",
        ("http://localhost:1234/v1",),
        "lms server start",
        "load the model with a larger context length",
        get="lms load MODEL",
    ),
    KnownServer(
        "vllm",
        "vLLM",
        ("http://localhost:8000/v1",),
        "vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER",
        "start it with a larger --max-model-len",
        key_variable="VLLM_API_KEY",
    ),
    KnownServer(
        "openai",
        "OpenAI",
        ("https://api.openai.com/v1",),
        "see https://status.openai.com",
        "choose a model with a larger one",
        url_variable="OPENAI_BASE_URL",
        key_variable="OPENAI_API_KEY",
        is_local=False,
    ),
    KnownServer(
        "anthropic",
        "Anthropic",
        ("https://api.anthropic.com/v1",),
        "see https://status.anthropic.com",
        "choose a model with a larger one",
        key_variable="ANTHROPIC_API_KEY",
        is_local=False,
    ),
)
"""In the order in which they are looked for."""


def known_server(name: str) -> KnownServer:
    """Return the server that `PROVIDER` or an argument names.

    Raises:
        ModelError: There is no such row.
    """
    for server in KNOWN:
        if server.name == name.strip().lower().replace(".", "").replace("_", "").replace("-", ""):
            return server
    names = ", ".join(server.name for server in KNOWN)
    raise ModelError(
        f"{name!r} is no provider that is known; there are {names}.",
        "For another server that speaks OpenAI's protocol, set GAIA_BASE_URL instead.",
    )


def server_at(url: str, look_up: Lookup) -> KnownServer | None:
    """Return the known server at an address; `None` if the address does not decide."""
    for server in KNOWN:
        if any(_origin(place) == _origin(url) and place == url for place in server.places(look_up)):
            return server
    same_origin = [
        server for server in KNOWN if any(_origin(place) == _origin(url) for place in server.places(look_up))
    ]
    return same_origin[0] if len(same_origin) == 1 else None


def complete_url(text: str, default: str = "") -> str:
    """Complete an address as people write it: `gpu-box` or `http://gpu-box:11434` will do.

    Args:
        text: The address.
        default: Whose scheme, port and path are taken where the text has none.

    Raises:
        ModelError: It is no address of a web server.
    """
    usual = urlsplit(default or f"http://localhost{_PATH}")
    text = text.strip()
    try:
        given = urlsplit(text if "://" in text else f"{usual.scheme}://{text}")
        host, port = given.hostname, given.port or (usual.port if default and "://" not in text else None)
    except ValueError:
        raise _no_address(text) from None
    if not host or given.scheme not in ("http", "https"):
        raise _no_address(text)
    if host in ("0.0.0.0", "::"):  # where a server listens is not always where it is reached
        host = "127.0.0.1"
    user = f"{given.netloc.rpartition('@')[0]}@" if "@" in given.netloc else ""
    shown_host = f"[{host}]" if ":" in host else host
    path = given.path.rstrip("/") or usual.path
    return urlunsplit((given.scheme, user + shown_host + (f":{port}" if port else ""), path, "", ""))


def _no_address(text: str) -> ModelError:
    return ModelError(
        f"{shown_url(text)!r} is no address of a model server.",
        "It looks like http://localhost:13305/api/v1, and is set as base_url or GAIA_BASE_URL.",
    )


def shown_url(url: str) -> str:
    """Return an address without user, password and query, which may be secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "..."
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    host = "localhost" if parts.hostname in ("127.0.0.1", "::1") else parts.hostname
    return parts.scheme, host, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
