"""The methods of the Agent Client Protocol, as an agent answers them."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from acp import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION, RequestError
from acp.core import Connection
from acp.schema import (
    AuthenticateRequest,
    CancelNotification,
    CloseSessionRequest,
    DeleteSessionRequest,
    InitializeRequest,
    ListSessionsRequest,
    LoadSessionRequest,
    NewSessionRequest,
    PromptRequest,
    ResumeSessionRequest,
)
from anyio.abc import TaskGroup
from pydantic import BaseModel, ValidationError

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.results.conversion import words
from gaia_bridge.chat_types import AnswersChats, KeepsChats
from gaia_bridge.errors import BridgeError
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.acp.errors import RESOURCE_NOT_FOUND, busy, failed, invalid, of_validation
from gaia_bridge_doors.acp.session import EditorSession, Served, server_specs
from gaia_bridge_doors.acp.updates import replayed
from gaia_bridge_doors.conversation.models import Model

logger = logging.getLogger(__name__)

T = TypeVar("T")

_UPDATE: Final = CLIENT_METHODS["session_update"]
_LISTS: Final = (
    ("mcpServers", "mcp_servers", "each with name, command, args, env; or with type http or sse, name, url, headers"),
    ("additionalDirectories", "additional_directories", "a path each"),
    ("prompt", "prompt", "each a block of content with type, such as text with text"),
)
"""Lists in requests: their names, their fields in the models, and their items."""
_USED: Final = ("elicitation", "fs", "terminal")
"""Capabilities of editors that the agent uses."""
_CANCEL: Final = AGENT_METHODS["session_cancel"]


class AcpEditor:
    """One editor, its conversations, and its requests. Only on the event loop.

    Args:
        model: The agent.
        bridge: Publishes the agent.
        images: Whether the agent's model accepts pictures.
        tasks: The task group of the conversations.
    """

    connection: Connection
    """The connection, set by the creator of this object; it passes requests to `handle`."""

    def __init__(
        self,
        model: Model,
        bridge: Bridge,
        images: bool,
        tasks: TaskGroup,
    ) -> None:
        settings = bridge.settings
        self._model = model
        self._limits = settings.acp
        self._images = images
        self._tasks = tasks
        endpoint, told = bridge.dispatcher(model.source.name), bridge.on_error_line
        more = self._ask, self._update, tasks.start_soon
        self._served = Served(model, endpoint, bridge.middleware, settings, images, told, *more)
        self._about: dict[str, Any] = {}
        self._sessions: dict[str, EditorSession] = {}
        self._methods: Mapping[str, tuple[type[BaseModel], Callable[[Any], Awaitable[Any]]]] = {
            AGENT_METHODS["initialize"]: (InitializeRequest, self._initialize),
            AGENT_METHODS["authenticate"]: (AuthenticateRequest, self._authenticate),
            AGENT_METHODS["session_new"]: (NewSessionRequest, self._new_session),
            AGENT_METHODS["session_load"]: (LoadSessionRequest, self._load_session),
            AGENT_METHODS["session_resume"]: (ResumeSessionRequest, self._resume_session),
            AGENT_METHODS["session_list"]: (ListSessionsRequest, self._list_sessions),
            AGENT_METHODS["session_close"]: (CloseSessionRequest, self._close_session),
            AGENT_METHODS["session_delete"]: (DeleteSessionRequest, self._delete_session),
            AGENT_METHODS["session_prompt"]: (PromptRequest, self._prompt),
            _CANCEL: (CancelNotification, self._cancel),
        }

    async def handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a request; the editor receives the errors that this raises.

        Raises:
            RequestError: The request cannot be answered.
        """
        try:
            return await self._handled(method, params, is_notification)
        except RequestError as error:
            problem = error
        except ValidationError as error:
            problem = of_validation(error)
        except BridgeError as error:
            problem = failed(words(error))
        except Exception:
            reference = secrets.token_hex(4)
            logger.exception("%s failed, reference %s", one_line(method), reference)
            problem = failed(f"{method} failed; the details are in the log of this agent under reference {reference}")
        if not is_notification:
            raise problem
        logger.warning("%s: %s", one_line(method), problem)
        return None

    def answered(self, result: Any) -> None:
        """Mark the conversation of a written result as announced: the editor knows its name from then on."""
        if is_object(result) and (session := self._sessions.get(str(result.get("sessionId")))) is not None:
            session.announced.set()

    async def _handled(self, method: str, params: Any, is_notification: bool) -> Any:
        found = self._methods.get(method)
        if found is None or (method == _CANCEL) is not is_notification:
            if is_notification:  # such as those of extensions
                logger.debug("the editor sent %s, which this agent does not know", one_line(method))
                return None
            raise RequestError.method_not_found(one_line(method))
        model, answer = found
        request = model.model_validate({} if params is None else params)
        _check_lists(request, params)
        return await answer(request)

    # The connection

    async def _initialize(self, request: InitializeRequest) -> JSON:
        declared, info = request.client_capabilities, request.client_info
        if declared is not None:
            able = declared.model_dump(mode="json", by_alias=True, exclude_none=True)
            self._about |= {name: able[name] for name in _USED if name in able}
        if info is not None:
            self._about |= {"name": info.name, "version": info.version}
        agent, told = self._model.source.agent, self._model.source.features.info
        takes_tools, keeps = isinstance(agent, AnswersChats), self._keeper is not None
        of_kept: JSON = {"list": {}, "resume": {}, "delete": {}} if keeps else {}
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": keeps,
                "promptCapabilities": {"image": self._images, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": takes_tools, "sse": takes_tools},
                "sessionCapabilities": {"additionalDirectories": {}, "close": {}, **of_kept},
            },
            "authMethods": [],
            "agentInfo": {"name": told.name, "title": told.title or told.name, "version": told.version or "0"},
        }

    async def _authenticate(self, request: AuthenticateRequest) -> JSON:
        raise invalid("methodId", f"{request.method_id!r} came", "no login at all: authMethods is empty")

    # Conversations

    async def _new_session(self, request: NewSessionRequest) -> JSON:
        session = await self._opened(f"session-{secrets.token_hex(12)}", request)
        return {"sessionId": session.session_id}

    async def _load_session(self, request: LoadSessionRequest) -> JSON:
        messages = await self._recalled(request.session_id)
        session = await self._opened(request.session_id, request)
        for update in replayed(messages, Path(request.cwd)):
            await session.notify(update)
        session.announced.set()
        return {}

    async def _resume_session(self, request: ResumeSessionRequest) -> JSON:
        await self._recalled(request.session_id)
        session = await self._opened(request.session_id, request)
        session.announced.set()
        return {}

    async def _list_sessions(self, request: ListSessionsRequest) -> JSON:
        keeper = self._keeper
        if keeper is None:
            raise RequestError.method_not_found(AGENT_METHODS["session_list"])
        begin = _offset(request.cursor)
        kept = await self._blocking(keeper.list_chats)
        kept = [item for item in kept if request.cwd in (None, item["metadata"].get("cwd"))]
        kept.sort(key=lambda item: str(item["last_activity"]), reverse=True)
        end = begin + self._limits.page
        listed: JSON = {"sessions": [_described(item) for item in kept[begin:end]]}
        return {**listed, "nextCursor": str(end)} if end < len(kept) else listed

    async def _close_session(self, request: CloseSessionRequest) -> JSON:
        session = self._session(request.session_id)
        del self._sessions[session.session_id]
        await session.end()
        await self._forget(session)
        return {}

    async def _delete_session(self, request: DeleteSessionRequest) -> JSON:
        keeper = self._keeper
        if keeper is None:
            raise RequestError.method_not_found(AGENT_METHODS["session_delete"])
        if (session := self._sessions.pop(request.session_id, None)) is not None:
            await session.end()
        await self._blocking(partial(keeper.end_chat, request.session_id))  # one that is not there is gone already
        return {}

    async def _prompt(self, request: PromptRequest) -> JSON:
        return await self._session(request.session_id).prompt(request.prompt)

    async def _cancel(self, request: CancelNotification) -> None:
        self._session(request.session_id).cancel()

    # Helpers of the methods

    async def _ask(self, method: str, params: JSON) -> Any:
        return await self.connection.send_request(method, params)

    async def _update(self, session_id: str, update: JSON) -> None:
        with suppress(ConnectionError):  # the editor is gone
            await self.connection.send_notification(_UPDATE, {"sessionId": session_id, "update": update})

    @property
    def _keeper(self) -> KeepsChats | None:
        """The agent, if its conversations outlive the process."""
        agent = self._model.source.agent
        return agent if isinstance(agent, KeepsChats) and agent.keeps_chats else None

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            expected = "one that session/new has made"
            raise invalid("sessionId", f"{session_id!r:.80} came", f"{expected}, and that is not closed")
        return session

    async def _opened(
        self, session_id: str, request: NewSessionRequest | LoadSessionRequest | ResumeSessionRequest
    ) -> EditorSession:
        folders = _folders([request.cwd, *(request.additional_directories or ())])
        servers = server_specs(request.mcp_servers or (), request.cwd, self._limits.servers)
        if servers and not isinstance(self._model.source.agent, AnswersChats):
            logger.warning("%s answers in one piece, and cannot use the editor's servers", self._model.id)
            servers = []
        if (old := self._sessions.pop(session_id, None)) is not None:
            await old.end()
        if len(self._sessions) >= self._limits.sessions:
            raise busy(f"there are {len(self._sessions)} conversations already; close one with session/close")
        noted = partial(self._note, session_id, folders)
        session = EditorSession(session_id, self._served, folders, servers, self._about, noted)
        self._sessions[session_id] = session
        try:
            await self._tasks.start(session.run)
        except BaseException:
            if self._sessions.get(session_id) is session:
                del self._sessions[session_id]
            raise
        if self._sessions.get(session_id) is not session:
            raise busy(f"conversation {session_id} was closed, deleted or opened again while it was being opened")
        return session

    async def _recalled(self, session_id: str) -> Sequence[JSON]:
        keeper = self._keeper
        if keeper is None:
            raise RequestError.method_not_found(AGENT_METHODS["session_load"])
        messages = await self._blocking(partial(keeper.get_chat, session_id))
        if messages is None:
            expected = "one that session/list tells"
            raise invalid("sessionId", f"{session_id!r:.80} came", expected, RESOURCE_NOT_FOUND)
        return messages

    async def _note(self, session_id: str, folders: Sequence[Path], title: str) -> None:
        if (keeper := self._keeper) is None:
            return
        others = list(map(str, folders[1:]))
        known = await self._blocking(partial(keeper.get_chat, session_id))
        if not known:
            about = {"cwd": str(folders[0]), "title": title, "additionalDirectories": others}
            await self._blocking(partial(keeper.describe_chat, session_id, about))

    async def _forget(self, session: EditorSession) -> None:
        agent = self._model.source.agent
        if self._keeper is None and isinstance(agent, KeepsChats):
            await self._blocking(partial(agent.end_chat, session.session_id))

    async def _blocking(self, function: Callable[[], T]) -> T:
        """Run code of the agent in its threads; the code may wait for the disk."""
        outcome = await self._model.source.chats.run(function, copy_context())
        if outcome.error is not None:
            raise outcome.error
        value: T = outcome.value
        return value


def _check_lists(request: BaseModel, params: Any) -> None:
    """Refuse list items that the package's models drop silently."""
    for name, field, expected in _LISTS:
        came, read = params.get(name) if is_object(params) else None, getattr(request, field, None)
        if is_array(came) and is_array(read) and len(came) != len(read):
            raise invalid(name, f"{len(came) - len(read)} of {len(came)} cannot be read", expected)


def _folders(given: Sequence[str]) -> list[Path]:
    for number, folder in enumerate(given):
        if not Path(folder).is_absolute() or "\0" in folder:
            at = "cwd" if number == 0 else f"additionalDirectories[{number - 1}]"
            raise invalid(at, f"{folder!r:.120} came", "an absolute path")
    return [Path(folder) for folder in given]


def _offset(cursor: str | None) -> int:
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise invalid("cursor", f"{cursor!r:.40} came", "nextCursor of an answer to session/list")
    return int(cursor or 0)


def _described(item: Mapping[str, Any]) -> JSON:
    about: JSON = item["metadata"]
    told: JSON = {"sessionId": item["session_id"], "cwd": str(about.get("cwd") or "/")}
    told["updatedAt"] = item["last_activity"]
    fields = {name: about[name] for name in ("title", "additionalDirectories") if about.get(name)}
    return {**told, **fields}
