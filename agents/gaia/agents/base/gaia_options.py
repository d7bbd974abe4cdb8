"""The options of AMD GAIA's `Agent`: those with a meaning here are taken, the log explains the others."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

__all__ = ["GAIA_DEFAULTS", "Meant", "gaia_options", "meaning_of", "tell"]

logger = logging.getLogger(__name__)

_CLAUDE: Final = "https://api.anthropic.com/v1"
_OPENAI: Final = "https://api.openai.com/v1"

GAIA_DEFAULTS: Final[Mapping[str, Any]] = {
    "use_claude": False,
    "use_chatgpt": False,
    "claude_model": "claude-sonnet-5",
    "model_id": None,
    "debug_prompts": False,
    "show_prompts": False,
    "output_dir": None,
    "streaming": False,
    "show_stats": False,
    "output_handler": None,
    "max_plan_iterations": 3,
    "max_consecutive_repeats": 4,
    "min_context_size": None,
    "skip_lemonade": False,
    "device": None,
    "skill_set": None,
    "resend_reasoning_across_requests": False,
    "max_output_tokens": None,
    "context_eviction": "off",
    "context_eviction_threshold_tokens": None,
    "context_eviction_keep_steps": None,
    "context_eviction_min_batch_tokens": None,
}
"""The options of GAIA's agents (0.15 to 0.25) that our `Agent` does not have, with their defaults."""

_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "debug_prompts": "prompts are in the session's history: get_session_history()",
    "show_prompts": "prompts are in the session's history: get_session_history()",
    "output_dir": "no files are written; keep what run() returns",
    "streaming": "the model is always read as it answers; stream() yields the text in pieces",
    "show_stats": "the model's server shows its own",
    "max_plan_iterations": "there are no plans; max_steps bounds a turn",
    "max_consecutive_repeats": "max_steps bounds a turn",
    "min_context_size": "the model's server decides; start it with a larger context",
    "device": "the model's server decides",
    "skill_set": "there are no skills",
    "resend_reasoning_across_requests": "reasoning is not kept",
    "context_eviction": "results are bounded instead: ChatLimits.result_bytes",
    "context_eviction_threshold_tokens": "results are bounded instead: ChatLimits.result_bytes",
    "context_eviction_keep_steps": "results are bounded instead: ChatLimits.result_bytes",
    "context_eviction_min_batch_tokens": "results are bounded instead: ChatLimits.result_bytes",
}


class Meant(NamedTuple):
    """The values of our own options that GAIA's options stand for."""

    model: str | None
    base_url: str | None


def gaia_options(given: dict[str, Any], bases: Iterable[type]) -> dict[str, Any]:
    """Take GAIA's options out of those that go on to the next class, and log once which have no effect here.

    Args:
        given: What the agent was built with beside our own options; GAIA's are removed.
        bases: The classes that what is left goes on to. What one of them takes by name is its own.

    Returns:
        GAIA's options that were given.
    """
    taken_behind = _taken_by(bases) if given.keys() & GAIA_DEFAULTS.keys() else frozenset[str]()
    options = {name: given.pop(name) for name in GAIA_DEFAULTS if name in given and name not in taken_behind}
    for name, value in options.items():
        if name in _WITHOUT_EFFECT and value is not None and value != GAIA_DEFAULTS[name]:
            tell(name)
    return options


def meaning_of(options: Mapping[str, Any], model: object, base_url: str | None) -> Meant:
    """Return the model and the address that GAIA's options ask for, where `model` and `base_url` do not.

    Args:
        options: GAIA's options.
        model: The option `model`; if it is one, nothing else counts.
        base_url: The option `base_url`.
    """
    name: str | None = options.get("model_id")
    if options.get("use_claude"):
        name = options.get("claude_model") or GAIA_DEFAULTS["claude_model"]
        base_url = base_url or _CLAUDE
    elif options.get("use_chatgpt"):
        base_url = base_url or _OPENAI
    return Meant(None if model is not None else name, base_url)


def _taken_by(bases: Iterable[type]) -> frozenset[str]:
    constructors = (vars(base)["__init__"] for base in bases if "__init__" in vars(base) and base is not object)
    return frozenset(name for constructor in constructors for name in inspect.signature(constructor).parameters)


@cache
def tell(name: str) -> None:
    """Say that an option does nothing; once in a process, since agents are built often."""
    logger.debug("option %s of GAIA has no effect here: %s", name, _WITHOUT_EFFECT[name])
