"""Converts questions of an agent, its tools and its servers to requests of an editor.

The question whether a tool may run, and every other one for yes or no, is a permission; forms and links need
the editor's capability for ACP's elicitation. Forms of MCP, of every revision, are put in the narrower shape that
editors accept.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from acp import CLIENT_METHODS, RequestError
from acp.schema import ElicitationSchema
from pydantic import ValidationError

from gaia_bridge.calls.editor_access import RunningTool
from gaia_bridge.calls.own_request import nobody_to_ask
from gaia_bridge.errors import AnswerError, ClientCapabilityError
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.acp.updates import call_running, kind_of, question_over, text_content

_NAMES: Final = "enumNames"
"""The field for the names of options in a choice, before options had titles."""


def form_for_editors(schema: JSON) -> JSON:
    """Return the schema of a form with a title for every option, as editors require.

    Raises:
        AnswerError: The form has a field that editors do not show.
    """
    fields: JSON = schema.get("properties") or {}
    form = {**schema, "type": "object", "properties": {name: _field(about) for name, about in fields.items()}}
    try:
        ElicitationSchema.model_validate(form)
    except ValidationError as error:
        names = sorted({str(item["loc"][1]) for item in error.errors() if len(item["loc"]) > 1}) or ["all of it"]
        raise AnswerError(f"editors cannot show this form: {', '.join(names)} is no field that they have") from None
    return form


def _field(about: Any) -> Any:
    if not is_object(about):
        return about
    field = dict(about)
    names, values = field.pop(_NAMES, None), field.get("enum")
    if is_array(names) and is_array(values) and len(names) == len(values):
        del field["enum"]
        field["oneOf"] = [{"const": value, "title": str(name)} for value, name in zip(values, names, strict=True)]
    if is_array(field.get("oneOf")):
        field["oneOf"] = _titled(field["oneOf"])
    items = field.get("items")
    if is_object(items) and is_array(items.get("anyOf")):
        field["items"] = {**items, "anyOf": _titled(items["anyOf"])}
    return field


def _titled(options: Sequence[Any]) -> list[Any]:
    return [{"title": str(it.get("const")), **it} if is_object(it) else it for it in options]


_PERMISSION: Final = CLIENT_METHODS["session_request_permission"]
_ELICITATION: Final = CLIENT_METHODS["elicitation_create"]
_YES: Final = "allow"
_ALWAYS: Final = "allow_always"
_NO: Final = "reject"

_OF_TOOLS: Final = (
    {"optionId": _YES, "name": "Allow", "kind": "allow_once"},
    {"optionId": _ALWAYS, "name": "Always allow in this conversation", "kind": "allow_always"},
    {"optionId": _NO, "name": "Reject", "kind": "reject_once"},
)
_OF_OTHERS: Final = (
    {"optionId": _YES, "name": "Yes", "kind": "allow_once"},
    {"optionId": _NO, "name": "No", "kind": "reject_once"},
)


class EditorQuestions:
    """The questions of one conversation. Only on the event loop.

    Args:
        ask: Sends a request to the editor, and returns its result.
        notify: Sends the editor an update of this conversation.
        session_id: The conversation.
        declared: The editor's `elicitation` capability; `None` if it has none.
        folders: The folders that the person works in: that of the conversation, then others.
        patience: Seconds for one answer.
    """

    def __init__(
        self,
        ask: Callable[[str, JSON], Awaitable[Any]],
        notify: Callable[[JSON], Awaitable[None]],
        session_id: str,
        declared: Mapping[str, Any] | None,
        folders: Sequence[Path],
        patience: float,
    ) -> None:
        self._ask = ask
        self._notify = notify
        self._session_id = session_id
        self._declared = declared or {}
        self._folders = folders
        self._patience = patience
        self._allowed: set[str] = set()
        """The tools that may always run."""

    @property
    def capabilities(self) -> JSON:
        """The questions that agents and servers can ask, as MCP capabilities."""
        modes: JSON = {mode: {} for mode in ("form", "url") if mode == "form" or self._has(mode)}
        return {"elicitation": modes, "roots": {}}

    async def answer(self, method: str, params: JSON, running: RunningTool | None) -> JSON:
        """Put a question of MCP to the person.

        Args:
            method: `elicitation/create` or `roots/list`.
            params: The parameters of the question.
            running: The call that asks.

        Raises:
            ClientCapabilityError: No editor supports the question, or this one does not.
            AnswerError: There is no answer, or no valid one.
        """
        if method == "roots/list":
            return {"roots": [{"uri": folder.as_uri(), "name": folder.name} for folder in self._folders]}
        if method != "elicitation/create":
            raise nobody_to_ask(method)
        if params.get("mode", "form") == "url":
            if not self._has("url"):
                raise ClientCapabilityError({"elicitation": {"url": {}}})
            fields = {key: params[key] for key in ("mode", "message", "url", "elicitationId")}
            return await self._elicited(fields, running)
        schema = params["requestedSchema"]
        field = _yes_or_no(schema)
        is_confirming = running is not None and running.is_confirming
        if field is not None and (is_confirming or not self._has("form")):
            return await self._permitted(str(params["message"]), field, running)
        if not self._has("form"):
            raise AnswerError(
                "this editor shows no forms: it can be asked what yes or no answers, which is one boolean. Ask that, "
                "or take the value as an argument of the tool"
            )
        fields = {"mode": "form", "message": params["message"], "requestedSchema": form_for_editors(schema)}
        return await self._elicited(fields, running)

    def _has(self, mode: str) -> bool:
        return self._declared.get(mode) is not None

    async def _elicited(self, fields: JSON, running: RunningTool | None) -> JSON:
        of_call = {} if running is None else {"toolCallId": running.call.id}
        result = await self.put(_ELICITATION, {"sessionId": self._session_id, **of_call, **fields})
        action = result.get("action")
        if action not in ("accept", "decline", "cancel"):
            raise AnswerError(f"the editor answered {_ELICITATION} with the action {action!r:.80}")
        content = result.get("content")
        return {"action": action, **({"content": content} if action == "accept" and is_object(content) else {})}

    async def _permitted(self, question: str, field: str, running: RunningTool | None) -> JSON:
        """Ask for a permission; `field` becomes true if it is given, and is empty if the form has no field."""
        confirmed = running.call if running is not None and running.is_confirming else None
        if confirmed is not None and confirmed.name in self._allowed:
            return {"action": "accept", "content": {field: True}}
        call: JSON
        if confirmed is None:
            call_id = f"question_{secrets.token_hex(8)}" if running is None else running.call.id
            call = {"toolCallId": call_id, "title": one_line(question), "content": [text_content(question)]}
        else:
            call = {
                "toolCallId": confirmed.id,
                "title": confirmed.title,
                "kind": kind_of(confirmed),
                "status": "pending",
                "rawInput": confirmed.arguments,
            }
        options = _OF_OTHERS if confirmed is None else _OF_TOOLS
        params = {"sessionId": self._session_id, "toolCall": call, "options": list(options)}
        try:
            chosen = _chosen(await self.put(_PERMISSION, params), [option["optionId"] for option in options])
        finally:
            if confirmed is None:
                await self._notify(question_over(call["toolCallId"], None if running is None else running.call.title))
        if chosen is None:
            return {"action": "cancel"}
        if confirmed is not None and chosen != _NO:
            if chosen == _ALWAYS:
                self._allowed.add(confirmed.name)
            await self._notify(call_running(confirmed.id))
        if not field:
            return {"action": "decline"} if chosen == _NO else {"action": "accept", "content": {}}
        return {"action": "accept", "content": {field: chosen != _NO}}

    async def put(self, method: str, params: JSON, patience: float | None = None) -> JSON:
        """Send the editor a request, and return its result.

        Args:
            method: The method of ACP.
            params: The parameters in wire shape.
            patience: Seconds for the answer; by default those for a question.

        Raises:
            AnswerError: There is no answer, or no valid one.
        """
        seconds = self._patience if patience is None else patience
        try:
            with anyio.fail_after(seconds):
                result = await self._ask(method, params)
        except TimeoutError:
            raise AnswerError(f"the editor did not answer {method} within {seconds:g} s") from None
        except RequestError as error:
            raise AnswerError(f"the editor refused {method}: {one_line(str(error))}") from None
        except ConnectionError:
            raise AnswerError(f"the editor is gone, and has not answered {method}") from None
        if not is_object(result):
            raise AnswerError(f"the editor answered {method} with {result!r:.80}; expected an object")
        return result


def _yes_or_no(schema: Any) -> str | None:
    """Return the one field of a form, if it is a boolean; empty if the form has no field: one can only agree."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(properties) or len(properties) > 1:
        return None
    if not properties:
        return ""
    [(name, about)] = properties.items()
    return name if is_object(about) and about.get("type") == "boolean" else None


def _chosen(result: JSON, options: Sequence[str]) -> str | None:
    """Return the chosen option; `None` if the question was cancelled."""
    outcome = result.get("outcome")
    if is_object(outcome):
        if outcome.get("outcome") == "cancelled":
            return None
        if outcome.get("outcome") == "selected" and (chosen := outcome.get("optionId")) in options:
            return str(chosen)
    raise AnswerError(
        f"the editor answered {_PERMISSION} with {outcome!r:.120}; expected the outcome cancelled, or selected with "
        f"one of {', '.join(options)}"
    )
