"""How the known model servers differ in what they call OpenAI's protocol. Data only; `model_server` answers by it.

Where each fact comes from is said beside it, as a repository and the number of an issue or pull request there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gaia_bridge.text.json_types import JSON

__all__ = ["DIALECTS", "Dialect", "Failure"]

HEXADECIMAL = "0123456789abcdef"
DIGITS = "0123456789"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
SMALL = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Failure:
    """One way to say no. `$model`, `$tokens` and `$limit` in the body's texts are filled in."""

    status: int
    body: JSON
    in_stream: bool = False
    """A request for a stream gets status 200, and the error as its only event."""
    event: str = ""
    """The event's name, where it is not a plain one."""


def _openai(status: int, message: str, kind: str, code: str | None = None, param: str | None = None) -> Failure:
    return Failure(status, {"error": {"message": message, "type": kind, "param": param, "code": code}})


def _llamacpp(status: int, message: str, kind: str, **more: Any) -> Failure:
    return Failure(status, {"error": {"code": status, "message": message, "type": kind, **more}})


def _vllm(status: int, message: str, kind: str) -> Failure:
    return Failure(status, {"error": {"message": message, "type": kind, "param": None, "code": status}})


OPENAI_FAILURES: Mapping[str, Failure] = {
    "unauthorized": _openai(401, "Incorrect API key provided: $key.", "invalid_request_error", "invalid_api_key"),
    "forbidden": _openai(
        403, "Project does not have access to model `$model`", "invalid_request_error", "model_not_found"
    ),
    "unknown_model": _openai(
        404,
        "The model `$model` does not exist or you do not have access to it.",
        "invalid_request_error",
        "model_not_found",
    ),
    "rate_limited": _openai(
        429, "Rate limit reached for $model in requests per min (RPM): Limit 3.", "requests", "rate_limit_exceeded"
    ),
    "quota": _openai(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    "context_overflow": _openai(
        400,
        "This model's maximum context length is $limit tokens. However, your messages resulted in $tokens tokens. "
        "Please reduce the length of the messages.",
        "invalid_request_error",
        "context_length_exceeded",
        "messages",
    ),
    "server_error": _openai(500, "The server had an error while processing your request.", "server_error"),
    "loading": _openai(503, "The engine is currently overloaded, please try again later", "server_error"),
    "bad_request": _openai(400, "$message", "invalid_request_error"),
    "no_route": _openai(404, "Invalid URL ($path)", "invalid_request_error"),
}

LEMONADE_FAILURES: Mapping[str, Failure] = {
    # lemonade-sdk/lemonade 735
    "unknown_model": Failure(
        404,
        {
            "error": {
                "code": "model_not_found",
                "message": "Model '$model' was not found. Available models include: $models. "
                "Use 'lemonade list' or GET /api/v1/models?show_all=true to see all available models.",
                "type": "model_not_found",
            }
        },
    ),
    "no_route": Failure(
        404, {"error": {"message": "The requested endpoint does not exist", "path": "$path", "type": "not_found"}}
    ),
}

LLAMACPP_FAILURES: Mapping[str, Failure] = {
    "unauthorized": _llamacpp(401, "Invalid API Key", "authentication_error"),
    # ggml-org/llama.cpp 15780: an error type of its own, with the figures beside the message
    "context_overflow": _llamacpp(
        400,
        "the request exceeds the available context size, try increasing it",
        "exceed_context_size_error",
        n_prompt_tokens="$tokens",
        n_ctx="$limit",
    ),
    "server_error": _llamacpp(500, "Failed to parse input at pos 12", "server_error"),
    "loading": _llamacpp(503, "Loading model", "unavailable_error"),
    "bad_request": _llamacpp(400, "$message", "invalid_request_error"),
    "no_route": _llamacpp(404, "File Not Found", "not_found_error"),
}

OLLAMA_FAILURES: Mapping[str, Failure] = {
    # netease-youdao/QAnything 555 shows the whole body
    "unknown_model": _openai(404, 'model "$model" not found, try pulling it first', "api_error"),
    # Most models' prompts are cut silently (ollama/ollama 4967); some refuse, naming both sizes (17944)
    "context_overflow": _openai(
        400, "prompt too long; exceeded max context length by 100 tokens", "invalid_request_error"
    ),
    "server_error": _openai(500, "model runner has unexpectedly stopped", "api_error"),
    "loading": _openai(503, "server busy, please try again. maximum pending requests exceeded", "api_error"),
    "bad_request": _openai(400, "$message", "invalid_request_error"),
}

VLLM_FAILURES: Mapping[str, Failure] = {
    "unauthorized": Failure(401, {"error": "Unauthorized"}),
    "unknown_model": _vllm(404, "The model `$model` does not exist.", "NotFoundError"),
    # FoundationAgents/OpenManus 840 shows the flat body of earlier versions, which is still in use
    "context_overflow": Failure(
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is $limit tokens. However, you requested $tokens "
            "tokens ($tokens in the messages, 0 in the completion). Please reduce the length of the messages or "
            "completion.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "server_error": _vllm(500, "EngineCore encountered an issue.", "InternalServerError"),
    "bad_request": _vllm(400, "$message", "BadRequestError"),
    "no_route": Failure(404, {"detail": "Not Found"}),
}

LMSTUDIO_FAILURES: Mapping[str, Failure] = {
    # gitbutlerapp/gitbutler 8706
    "unknown_model": _openai(
        404,
        'Model "$model" not found. Please specify a valid model.\n\nYour models:\n\n$models',
        "invalid_request_error",
        "model_not_found",
        "model",
    ),
    # tinyhumansai/openhuman 4181
    "loading": _openai(400, "No models loaded. Please load a model in the developer page.", "invalid_request_error"),
    # lmstudio-ai/lmstudio-bug-tracker 2322 and 546: status 200, and the error in the stream
    "context_overflow": Failure(
        400,
        {
            "error": {
                "message": "Trying to keep the first $tokens tokens when context the overflows. However, the model is "
                "loaded with context length of only $limit tokens, which is not enough. "
                "Try to load the model with a larger context length, or provide a shorter input"
            }
        },
        in_stream=True,
        event="error",
    ),
    # A route that is not there is answered with 200 and this
    "no_route": Failure(200, {"error": "Unexpected endpoint or method. (POST $path)"}),
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one server does in its own way."""

    name: str
    base_path: str = "/v1"
    id_prefix: str = "call_"
    """Before the id of a tool call."""
    id_letters: str = LETTERS
    id_length: int = 24
    calls: Literal["pieces", "whole"] = "pieces"
    """Whether a tool call's arguments are streamed in pieces, or come in one chunk."""
    indexes: Literal["counted", "zero", "missing"] = "counted"
    """What `index` says of the tool calls in a stream."""
    arguments: Literal["text", "object"] = "text"
    usage: Literal["asked", "never", "always"] = "asked"
    """Whether a stream ends with usage figures: where `stream_options` ask for them, or not."""
    opening_content: str | None = ""
    """`content` in the first chunk, which tells the role."""
    silent_content: str | None = None
    """`content` of a whole answer that has tool calls and no text."""
    call_finish: str = "tool_calls"
    """The finish reason of tool calls."""
    reasoning: str = "reasoning_content"
    """The field for what a model thinks before it answers."""
    model: JSON = field(default_factory=dict[str, Any])
    """What the list of models says of each, beside its id."""
    list_beside: JSON = field(default_factory=dict[str, Any])
    """What is beside `data` in the list of models."""
    extra: JSON = field(default_factory=dict[str, Any])
    """Further fields of each chunk and answer."""
    reads_history: bool = True
    """Whether arguments of earlier tool calls must be JSON, because they are put into a template."""
    max_tools: int | None = None
    failures: Mapping[str, Failure] = field(default_factory=dict[str, Failure])

    def failure(self, name: str) -> Failure:
        """How it says this; as OpenAI where nothing else is known."""
        return self.failures.get(name) or OPENAI_FAILURES[name]


DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            "openai",
            model={"created": 1_700_000_000, "owned_by": "system"},
            extra={"system_fingerprint": "fp_0", "service_tier": "default"},
            reads_history=False,
            max_tools=128,  # the documentation of `tools`
        ),
        Dialect(
            "ollama",
            id_length=8,
            id_letters=SMALL,
            calls="whole",
            indexes="zero",  # ollama/ollama 15457; missing altogether before 0.4.7 (7881)
            silent_content="",
            reasoning="reasoning",
            model={"created": 1_700_000_000, "owned_by": "library"},
            extra={"system_fingerprint": "fp_ollama"},
            failures=OLLAMA_FAILURES,
        ),
        Dialect(
            "lemonade",  # its GGUF models are run by llama.cpp, whose answers it passes on
            base_path="/api/v1",
            id_prefix="",
            id_length=32,
            opening_content=None,
            model={
                "created": 1_700_000_000,
                "owned_by": "lemonade",
                "recipe": "llamacpp",
                "downloaded": True,
                "labels": ["tool-calling"],
            },
            failures={**LLAMACPP_FAILURES, **LEMONADE_FAILURES},
        ),
        Dialect(
            "llamacpp",
            id_prefix="",
            id_length=32,
            opening_content=None,
            model={"created": 1_700_000_000, "owned_by": "llamacpp", "meta": {"n_ctx_train": 32_768}},
            list_beside={"models": []},  # Ollama's list, for clients that expect it
            extra={"timings": {"prompt_n": 1}},
            failures=LLAMACPP_FAILURES,
        ),
        Dialect(
            "vllm",
            id_prefix="chatcmpl-tool-",
            id_letters=HEXADECIMAL,
            id_length=32,
            model={"created": 1_700_000_000, "owned_by": "vllm", "root": "/models", "max_model_len": 8192},
            failures=VLLM_FAILURES,
        ),
        Dialect(
            "lmstudio",
            id_prefix="",
            id_letters=DIGITS,
            id_length=9,  # lmstudio-ai/lmstudio-bug-tracker 830
            usage="never",  # 713: no figures in streams for a long time
            silent_content="",
            model={"owned_by": "organization_owner"},
            failures=LMSTUDIO_FAILURES,
        ),
    )
}
"""Each known server."""
