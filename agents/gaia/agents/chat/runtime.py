"""Where the turns of one agent are played: a lease on the background loop, a model, and threads."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import Context

import anyio

from gaia.agents.chat.options import ChatOptions
from gaia.agents.chat.sampling_model import SamplingModel
from gaia.background_loop import BACKGROUND, BACKGROUND_FAREWELL
from gaia.llm.model import ChatModel
from gaia_bridge.calls.request_context import RequestContext
from gaia_bridge.errors import ModelError
from gaia_bridge.runtime.agent_runner import AgentRunner

__all__ = ["ChatRuntime"]


class ChatRuntime:
    """Taken when an agent first converses; there until it is closed or forgotten, or the process forks.

    Args:
        name: The agent, for threads and messages.
        options: How it converses.
    """

    def __init__(self, name: str, options: ChatOptions) -> None:
        limits = options.limits
        self._options = options
        self._lock = threading.Lock()
        self._model: ChatModel | None = None
        self._turns: set[anyio.CancelScope] = set()
        self._changed: anyio.Event | None = None
        self._is_model_closed = False
        self.lease = BACKGROUND.acquire()
        self._keeper = Context().run(self.lease.start, self._keep)  # it outlives the request that it was begun in
        self.tools = AgentRunner(name, limits.threads, limits.queue)
        """Runs tools."""
        self.own = self.tools.beside(limits.step_threads, limits.queue)
        """Runs whatever else of the agent may block: tools that hang do not hold it up."""
        self.console = AgentRunner(f"{name} console", 1, limits.console_lines)
        """Runs the console."""
        self.asking = AgentRunner(f"{name} asking", limits.threads, limits.queue)
        """Waits for the answers of clients."""
        self.is_left = False
        """Whether it is to be used no more."""

    def model(self) -> ChatModel:
        """Return the model, made when it is first needed, which takes a moment: a library is loaded."""
        with self._lock:
            if self._model is None:
                self._model = _made_model(self._options)
            return self._model

    def model_for(self, request: RequestContext | None) -> ChatModel:
        """Return the model for work on behalf of a client: its own, if it has one and no other is configured.

        Args:
            request: The client's; `None` if no client is waiting.
        """
        if request is None or not request.has_capability("sampling") or not _is_unconfigured(self._options):
            return self.model()
        return SamplingModel(request, self._options.max_output_tokens or self._options.limits.sampled_tokens)

    @contextmanager
    def playing(self, timeout: float) -> Generator[None]:
        """Bound the turn in the block: it is cut short, silently, when its time is up, or when the seat is left."""
        with anyio.move_on_after(timeout) as scope:
            self._turns.add(scope)
            try:
                yield
            finally:
                self._turns.discard(scope)
                if self._changed is not None:
                    self._changed.set()

    def leave(self) -> None:
        """End what is played here, close the model's connections, and give back threads and lease."""
        if self.lease.is_current:
            self.leave_later()
            return
        self.is_left = True
        try:
            with suppress(RuntimeError):  # the loop has ended, and all this with it
                self.lease.run(self._leave)
        finally:
            self._give_back()

    def leave_later(self) -> None:
        """Leave without waiting: a caller that forgets an agent does not expect to wait."""

        async def leave() -> None:
            try:
                await self._leave()
            finally:
                self._give_back()

        self.is_left = True
        try:
            self.lease.start(leave)
        except RuntimeError:
            self._give_back()

    async def _leave(self) -> None:
        for scope in tuple(self._turns):
            scope.cancel()
        with anyio.move_on_after(BACKGROUND_FAREWELL):
            while self._turns:
                self._changed = anyio.Event()
                await self._changed.wait()
        await self._close_model()

    async def _keep(self) -> None:
        """Close the model's connections with the loop, in a program that ends without having closed its agent."""
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.move_on_after(BACKGROUND_FAREWELL, shield=True):
                await self._close_model()

    async def _close_model(self) -> None:
        if self._model is not None and not self._is_model_closed:
            self._is_model_closed = True
            await self._model.aclose()

    def _give_back(self) -> None:
        self._keeper.cancel()
        for runner in (self.tools, self.own, self.console, self.asking):
            runner.close()  # its threads are daemons
        self.lease.release()


def _is_unconfigured(options: ChatOptions) -> bool:
    """Whether no model and no server is configured; one that runs on this machine would be guessed."""
    if options.model is not None or options.base_url is not None or options.api_key is not None:
        return False
    from gaia.llm.settings import wanted

    try:
        choice = wanted(None, None, None, None)
    except ModelError:  # something is said, which the model will complain of
        return False
    return choice.is_guess and choice.model is None


def _made_model(options: ChatOptions) -> ChatModel:
    model = options.model
    if model is None or isinstance(model, str):
        from gaia.llm import OpenAIModel

        bound = {} if options.max_output_tokens is None else {"max_tokens": options.max_output_tokens}
        return OpenAIModel(model, base_url=options.base_url, api_key=options.api_key, options=bound, thoughts=True)
    return model
