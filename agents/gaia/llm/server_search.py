"""The search for a server and one of its models, where none was named."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from gaia.llm.failures import Report, nothing_found, several_models
from gaia.llm.limits import ModelLimits
from gaia.llm.servers import shown_url
from gaia.llm.settings import Place
from gaia.llm.wire import Wire
from gaia_bridge.errors import ModelCredentialsError, ModelError
from gaia_bridge.text.json_types import JSON, is_array

__all__ = ["chat_models", "close_all", "find_server", "only_model"]

logger = logging.getLogger(__name__)

_NO_CHAT_LABELS = frozenset({"audio", "embeddings", "image", "reranking", "speech", "transcription", "tts"})
"""Lemonade's labels of models that do not chat."""
_NO_CHAT_NAMES = ("dall-e", "embed", "kokoro", "moderation", "rerank", "sdxl", "stable-diffusion", "tts-", "whisper")
"""Parts of the names of such models, where the list has no labels."""


async def find_server(places: Sequence[Place], limits: ModelLimits) -> tuple[Wire, list[JSON]]:
    """Ask everywhere at once; the first place counts that has a model for chats, else the first that answers.

    No key is shown while it is not known who is there: anybody on this machine may listen at a place. The one that is
    chosen is shown it; where all want one first, they are asked with it one after the other.

    Args:
        places: Where to look.
        limits: See there.

    Returns:
        The server, and the models that it lists.

    Raises:
        ModelError: None answers, or none without a key.
    """
    wires = [Wire(replace(place, key=""), limits) for place in places]
    models: dict[int, list[JSON]] = {}
    locked: dict[int, ModelError] = {}

    async def ask(number: int) -> None:
        try:
            models[number] = await wires[number].models(limits.probe)
        except ModelCredentialsError as error:
            locked[number] = error
        except ModelError as error:
            logger.debug("%s", error)

    try:
        async with anyio.create_task_group() as tasks:
            for number in range(len(wires)):
                tasks.start_soon(ask, number)
        for number in sorted(locked) if not models else ():
            if places[number].key and not models:
                await close_all([wires[number]])
                wires[number] = Wire(places[number], limits)
                await ask(number)
        if not models:
            raise locked[min(locked)] if locked else nothing_found(places)
        best = min(models, key=lambda number: (not chat_models(models[number]), number))
        chosen = wires[best] if wires[best].place == places[best] else Wire(places[best], limits)
    except BaseException:
        await close_all(wires)
        raise
    await close_all([wire for wire in wires if wire is not chosen])
    server = chosen.place.server
    title = server.title if server else "a model server"
    logger.info("using %s at %s; set GAIA_BASE_URL for another", title, shown_url(chosen.place.url))
    return chosen, models[best]


async def close_all(wires: Sequence[Wire]) -> None:
    """Close them, also where whoever does it is cancelled."""
    with anyio.CancelScope(shield=True):  # nothing is sent to the server, so nothing is waited for
        for wire in wires:
            await wire.aclose()


def only_model(place: Place, listed: Sequence[JSON]) -> str:
    """Return the only model of a server that can chat.

    Raises:
        ModelNotFoundError: There is none, or more than one.
    """
    models = chat_models(listed)
    if len(models) != 1:
        raise several_models(Report(place), models)
    logger.info("using the model %s", models[0])
    return models[0]


def chat_models(listed: Sequence[JSON]) -> list[str]:
    """Return the names of the models that can chat, as far as the list tells."""
    names: list[str] = []
    for item in listed:
        name, labels = item.get("id"), item.get("labels")
        if not isinstance(name, str) or not name or item.get("downloaded") is False:
            continue
        if is_array(labels) and any(label in _NO_CHAT_LABELS for label in labels if isinstance(label, str)):
            continue
        if not any(part in name.lower() for part in _NO_CHAT_NAMES):
            names.append(name)
    return names
