"""A model of any server that speaks OpenAI's protocol: hosted, or on this machine."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import anyio
from msgspec import Struct

from gaia.llm.assembly import Assembly, repaired_arguments
from gaia.llm.failures import Refusal, Report
from gaia.llm.limits import ModelLimits
from gaia.llm.retries import Tries
from gaia.llm.server_search import chat_models, close_all, find_server, only_model
from gaia.llm.servers import shown_url
from gaia.llm.settings import wanted
from gaia.llm.wire import BrokenBeforeAnswerError, Patience, Wire, load_library
from gaia_bridge.chat_types import Reply, Thought
from gaia_bridge.errors import ModelError, ModelNotFoundError, ModelUnreachableError
from gaia_bridge.text.json_text import with_valid_text
from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["OpenAIModel"]

logger = logging.getLogger(__name__)

_OURS = frozenset({"messages", "model", "n", "stream", "stream_options", "tools"})
"""Options that are not for the caller to decide."""

_ABOUT_TOOLS = frozenset({"parallel_tool_calls", "tool_choice"})
"""Options that are refused where there are no tools."""

_STREAM_OPTIONS, _STREAM_WITH_TOOLS, _STREAM = "stream_options", "streams with tools", "streams"
"""Features that a server may lack."""


class _ChosenModel(Struct, frozen=True):
    """The model that is used."""

    wire: Wire
    model: str
    report: Report


class OpenAIModel:
    """A `ChatModel` on a server. It is found when it is first used, which is always on the same event loop.

    Args:
        model: Its name; else `GAIA_MODEL`, else the only one that the server has.
        base_url: Where the server has its API, such as `http://localhost:13305/api/v1`; else as `gaia.llm.settings`
            says: from the environment, else the first known server that answers on this machine.
        api_key: What the server wants to be shown; else from the environment.
        provider: A server by its name: `lemonade`, `ollama`, `llamacpp`, `lmstudio`, `vllm` or `openai`.
        options: For every reply, in OpenAI's words, such as `{"temperature": 0}`.
        limits: Deadlines and sizes.
        thoughts: Whether `stream` also yields what the model says to itself, where its server tells that.

    Raises:
        ModelError: An argument is an address or a provider that there cannot be.
    """

    def __init__(
        self,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str | None = None,
        options: Mapping[str, Any] | None = None,
        limits: ModelLimits | None = None,
        *,
        thoughts: bool = False,
    ) -> None:
        self._arguments = (base_url, model, api_key, provider)
        self._wanted = wanted(
            *self._arguments, look_up=_nothing, in_file=_nothing
        )  # the environment counts when it is used
        self._options = dict(options or {})
        self._limits = limits or ModelLimits()
        self._thoughts = thoughts
        self._lacks: set[str] = set()
        self._active = 0
        self._forget()

    @property
    def name(self) -> str:
        """The model's name, or where it will be looked for."""
        if self._chosen is not None:
            return self._chosen.model
        try:
            choice = wanted(*self._arguments)
        except ModelError:
            choice = self._wanted
        place = "this machine" if choice.is_guess else shown_url(choice.places[0].url)
        return choice.model or f"the model of {place}"

    async def stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[str | Thought | Reply]:
        """Continue a conversation; closing the generator ends the request. See `ChatModel.stream`."""
        self._active += 1
        try:
            async with aclosing(self._stream(messages, tools, options)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self._active -= 1

    async def _stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON], options: Mapping[str, Any] | None
    ) -> AsyncGenerator[str | Thought | Reply]:
        chosen = await self._choose()
        asked = {**self._options, **(options or {})}
        body: JSON = {
            **_options(asked, bool(tools)),
            "model": chosen.model,
            "messages": [_sendable(message) for message in messages],
            **({"tools": list(tools)} if tools else {}),
        }
        tries = Tries(self._limits)
        is_clean = False
        while True:
            has_begun = False
            try:
                async with aclosing(self._reply(chosen, self._with_streaming(body))) as pieces:
                    async for piece in pieces:
                        has_begun = has_begun or not isinstance(piece, Thought)
                        yield piece
                return
            except Refusal as refusal:
                if has_begun or not (self._adapt(body, refusal) or await tries.pause(refusal)):
                    raise await self._failure(chosen, refusal) from None
            except BrokenBeforeAnswerError as error:
                if not await tries.pause_after_break():
                    raise chosen.report.unreachable(str(error)) from None
            except ModelUnreachableError:
                await self._look_again()
                raise
            except UnicodeEncodeError:
                if is_clean:
                    raise
                body, is_clean = with_valid_text(body), True

    async def aclose(self) -> None:
        """Close all connections, on the loop that they were used on. It may be used again afterwards."""
        chosen = self._chosen
        self._forget()
        if chosen is not None:
            await chosen.wire.aclose()

    def _forget(self) -> None:
        self._chosen: _ChosenModel | None = None
        self._lock = anyio.Lock()

    # One reply

    async def _reply(self, chosen: _ChosenModel, body: JSON) -> AsyncGenerator[str | Thought | Reply]:
        offered = [tool["function"]["name"] for tool in body.get("tools", ()) if is_object(tool.get("function"))]
        assembly = Assembly(offered, most_calls=self._limits.tool_calls)
        patience = Patience(chosen.report, self._limits)
        is_done = False
        async with aclosing(chosen.wire.answers(body, patience, chosen.report)) as chunks:
            async for chunk in chunks:
                is_done = is_done or "done" in chunk or "message" in _choice(chunk)
                text = assembly.feed(chunk)
                if self._thoughts and assembly.thought:
                    yield Thought(assembly.thought)
                if text:
                    yield text
                patience.has_begun, patience.has_finished = assembly.has_begun, assembly.is_finished
        yield self._complete(assembly, is_done, chosen.report)

    def _complete(self, assembly: Assembly, is_done: bool, report: Report) -> Reply:
        reply = assembly.reply()
        if assembly.overfull:
            raise report.oversized("tool calls in one reply", self._limits.tool_calls, "tool_calls")
        if assembly.failed:
            raise report.broken("it says that it failed")
        if not (assembly.is_finished or is_done):
            raise report.broken("the stream ended too early")
        if reply.finish_reason == "length" and not reply.text and not reply.tool_calls:
            raise report.nothing_said()
        return reply

    def _with_streaming(self, body: JSON) -> JSON:
        lacks = self._lacks
        if _STREAM in lacks or (_STREAM_WITH_TOOLS in lacks and body.get("tools")):
            return {**body, "stream": False}
        options = {} if _STREAM_OPTIONS in lacks else {"stream_options": {"include_usage": True}}
        return {**body, "stream": True, **options}

    def _adapt(self, body: JSON, refusal: Refusal) -> bool:
        """Learn what the server does not know; returns whether to ask again without it."""
        before = len(self._lacks)
        if refusal.refuses("stream_options"):
            self._lacks.add(_STREAM_OPTIONS)
        elif refusal.refuses_streaming(with_tools=bool(body.get("tools"))):
            self._lacks.add(_STREAM_WITH_TOOLS if body.get("tools") else _STREAM)
        return len(self._lacks) > before

    async def _failure(self, chosen: _ChosenModel, refusal: Refusal) -> ModelError:
        error = chosen.report.failure(refusal)
        if not isinstance(error, ModelNotFoundError):
            return error
        try:
            models = chat_models(await chosen.wire.models(self._limits.models))
        except ModelError:
            models = []
        await self._look_again()
        return chosen.report.failure(refusal, models)

    async def _look_again(self) -> None:
        """Forget a server or model that was looked up, and may be gone: the next request looks anew."""
        is_found = self._wanted.model is None or len(self._wanted.places) > 1
        if is_found and self._active == 1:  # no other reply is under way on these connections
            await self.aclose()

    # Which server, which model

    async def _choose(self) -> _ChosenModel:
        async with self._lock:
            if self._chosen is None:
                await load_library()
                self._wanted = wanted(*self._arguments)
                places, listed = self._wanted.places, None
                if len(places) == 1:
                    wire = Wire(places[0], self._limits)
                else:
                    wire, listed = await find_server(places, self._limits)
                try:
                    model = self._wanted.model
                    if model is None:
                        listed = listed or await wire.models(self._limits.models)
                        model = only_model(wire.place, listed)
                except BaseException:
                    await close_all([wire])
                    raise
                self._chosen = _ChosenModel(wire, model, Report(wire.place, model))
            return self._chosen


def _nothing(name: str) -> None:
    """Look up a variable in an environment in which nothing is set."""


def _options(asked: Mapping[str, Any], with_tools: bool) -> JSON:
    """Return the options that may be sent."""
    left_out = _OURS if with_tools else _OURS | _ABOUT_TOOLS
    return {name: value for name, value in asked.items() if name not in left_out and value is not None}


def _choice(chunk: JSON) -> JSON:
    choices = chunk.get("choices")
    choice = choices[0] if is_array(choices) and choices else None
    return choice if is_object(choice) else {}


def _sendable(message: JSON) -> JSON:
    """Return a message that every server takes: the arguments of its tool calls are repaired."""
    calls = message.get("tool_calls")
    if not is_array(calls):
        return message
    repaired: list[Any] = []
    for call in calls:
        function = call.get("function") if is_object(call) else None
        if is_object(call) and is_object(function):
            arguments = repaired_arguments(function.get("arguments"))
            repaired.append({**call, "function": {**function, "arguments": arguments}})
        else:
            repaired.append(call)
    return {**message, "tool_calls": repaired}
