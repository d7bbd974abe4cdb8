"""The updates that an editor shows while an agent works: the `update` of a `session/update`, in wire shape. Pure.

A tool's result may hold more than text. In an object that it returns, or in the `structuredContent` of an MCP
result, these fields are read:

    {"diffs": [{"path": "src/a.py", "oldText": "x = 1", "newText": "x = 2"}],    # without oldText: a new file
     "locations": [{"path": "src/a.py", "line": 12}],
     "plan": [{"content": "Fix it", "status": "in_progress", "priority": "high"}]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from acp.schema import ContentToolCallContent
from pydantic import ValidationError

from gaia_bridge.chat_types import ToolBegun, ToolEnded
from gaia_bridge.protocol.vocabulary import CONTENT_TYPES
from gaia_bridge.text.json_types import JSON, is_array, is_object

_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("delete", "remove", "rm", "unlink"), "delete"),
    **dict.fromkeys(("move", "rename", "mv"), "move"),
    **dict.fromkeys(("search", "find", "grep", "query", "lookup"), "search"),
    **dict.fromkeys(("edit", "write", "create", "update", "patch", "replace", "insert", "apply", "append"), "edit"),
    **dict.fromkeys(("run", "execute", "exec", "shell", "bash", "build", "test", "start", "stop"), "execute"),
    **dict.fromkeys(("fetch", "download", "browse", "http"), "fetch"),
    **dict.fromkeys(("think", "plan"), "think"),
    **dict.fromkeys(("read", "get", "list", "show", "view", "open", "cat", "describe", "status"), "read"),
}
"""Kinds of tools by the words in their names; the first word that is listed decides."""

_READING: Final = ("read", "search", "fetch", "think")
"""Kinds of tools that change nothing."""

_PATHS: Final = ("path", "file_path", "filepath", "file", "filename")
"""Arguments that name the file of a call."""

_MAX_LINE: Final = 2**32 - 1
"""The largest line number: editors drop an update with a greater one."""

_STATUSES: Final = ("pending", "in_progress", "completed")
_PRIORITIES: Final = ("high", "medium", "low")


def agent_text(text: str) -> JSON:
    """Return the update with a piece of the answer."""
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


def thought(text: str) -> JSON:
    """Return the update with a piece of the model's reasoning."""
    return {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}


def plan(entries: Sequence[JSON]) -> JSON:
    """Return the update with the agent's plan; invalid entries are left out."""
    return {"sessionUpdate": "plan", "entries": [entry for item in entries if (entry := _entry(item)) is not None]}


def plan_in(ended: ToolEnded) -> JSON | None:
    """Return the update with the plan in a tool's result, if it holds one."""
    entries = _said(ended.value).get("plan")
    made = plan(entries) if is_array(entries) and entries else None
    return made if made is not None and made["entries"] else None


def commands(available: Sequence[JSON]) -> JSON:
    """Return the update with the commands that the person can type with a slash."""
    return {"sessionUpdate": "available_commands_update", "availableCommands": list(available)}


def call_begun(call: ToolBegun, cwd: Path) -> JSON:
    """Return the update for a call that begins."""
    begun: JSON = {
        "sessionUpdate": "tool_call",
        "toolCallId": call.id,
        "title": call.title,
        "kind": kind_of(call),
        "status": "in_progress",
        "rawInput": call.arguments,
    }
    if locations := _locations([_place(call.arguments)], cwd):
        begun["locations"] = locations
    return begun


def call_running(call_id: str, *content: JSON) -> JSON:
    """Return the update for a call that goes on; `content`, if there is any, replaces the call's content."""
    update: JSON = {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "in_progress"}
    return {**update, "content": list(content)} if content else update


def question_over(call_id: str, title: str | None) -> JSON:
    """Return the update after a question: a call gets its title back; a call shown only for the question ends."""
    if title is not None:
        return {**call_running(call_id), "title": title}
    return {**call_running(call_id), "status": "completed"}


def terminal(terminal_id: str) -> JSON:
    """Return a terminal of the editor as the content of a call."""
    return {"type": "terminal", "terminalId": terminal_id}


def call_ended(ended: ToolEnded, cwd: Path) -> JSON:
    """Return the update for a call that has ended."""
    said = _said(ended.value)
    diffs = list(_diffs(said.get("diffs"), cwd))
    update: JSON = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": ended.id,
        "status": "completed" if ended.problem is None else "failed",
        "content": [*diffs, *_content(ended)],
    }
    if ended.value is not None:
        update["rawOutput"] = ended.value
    if diffs:
        update["kind"] = "edit"
    listed = said.get("locations")
    places = [*(listed if is_array(listed) else ()), *({"path": diff["path"]} for diff in diffs)]
    if locations := _locations(places, cwd):
        update["locations"] = locations
    return update


def call_cancelled(call_id: str, terminals: Sequence[JSON] = ()) -> JSON:
    """Return the update for a call that was cancelled with its turn; the terminals that it opened stay in it."""
    content = [*terminals, text_content("cancelled")]
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "failed", "content": content}


def text_content(text: str) -> JSON:
    """Return a text as the content of a call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def kind_of(call: ToolBegun) -> str:
    """Return a tool's kind, by its name and its annotations."""
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", call.name).lower())
    kind = next((_WORDS[word] for word in words if word in _WORDS), None)
    if call.annotations.get("readOnlyHint") is True:
        return kind if kind in _READING else "read"
    return kind or "other"


def replayed(messages: Sequence[JSON], cwd: Path) -> Iterator[JSON]:
    """Yield the updates that show an earlier conversation again.

    Args:
        messages: The messages in OpenAI's shape.
        cwd: The folder of the conversation.
    """
    for message in messages:
        match message.get("role"):
            case "user":
                for block in _blocks(message.get("content")):
                    yield {"sessionUpdate": "user_message_chunk", "content": block}
            case "assistant":
                for block in _blocks(message.get("content")):
                    yield {"sessionUpdate": "agent_message_chunk", "content": block}
                for call in message.get("tool_calls") or ():
                    yield call_begun(_tool_begun(call), cwd)
            case "tool":
                told = str(message.get("content"))
                yield call_ended(ToolEnded(str(message.get("tool_call_id")), told, _decoded(told)), cwd)
            case _:
                pass


def _tool_begun(call: JSON) -> ToolBegun:
    function: JSON = call.get("function") or {}
    name = str(function.get("name"))
    arguments = _decoded(str(function.get("arguments")))
    return ToolBegun(str(call.get("id")), name, name, arguments if is_object(arguments) else {})


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _blocks(content: Any) -> Iterator[JSON]:
    if isinstance(content, str):
        if content:
            yield {"type": "text", "text": content}
        return
    for part in content if is_array(content) else ():
        if is_object(part) and part.get("type") == "text":
            yield {"type": "text", "text": str(part.get("text"))}
        elif is_object(part) and (image := _image(part)) is not None:
            yield image


def _image(part: JSON) -> JSON | None:
    image = part.get("image_url")
    url = str(image.get("url")) if is_object(image) else ""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return {"type": "image", "mimeType": head[len("data:") : -len(";base64")], "data": data}


def _said(value: Any) -> JSON:
    """Return the object that a tool returned, or that its MCP result holds."""
    if not is_object(value):
        return {}
    structured = value.get("structuredContent")
    return structured if is_object(structured) else value


def _content(ended: ToolEnded) -> list[JSON]:
    """Return the blocks of an MCP result as they are; for any other result, the text for the model."""
    blocks = ended.value.get("content") if is_object(ended.value) else None
    if is_array(blocks) and blocks and all(map(_is_block, blocks)):
        return [{"type": "content", "content": block} for block in blocks]
    text = ended.problem or ended.text
    return [text_content(text)] if text else []


def _is_block(value: Any) -> bool:
    """Return whether an editor can read a block. Of another, it drops the update: the call shows as running."""
    if not is_object(value) or value.get("type") not in CONTENT_TYPES:
        return False
    try:
        ContentToolCallContent.model_validate({"type": "content", "content": value})
    except ValidationError:
        return False
    return True


def _diffs(value: Any, cwd: Path) -> Iterator[JSON]:
    for item in value if is_array(value) else ():
        if not is_object(item) or not isinstance(item.get("path"), str) or not isinstance(item.get("newText"), str):
            continue
        diff: JSON = {"type": "diff", "path": _absolute(item["path"], cwd), "newText": item["newText"]}
        if isinstance(item.get("oldText"), str):
            diff["oldText"] = item["oldText"]
        yield diff


def _place(arguments: JSON) -> JSON:
    path = next((value for name in _PATHS if isinstance(value := arguments.get(name), str) and value), None)
    return {} if path is None else {"path": path, "line": arguments.get("line")}


def _locations(places: Sequence[Any], cwd: Path) -> list[JSON]:
    found: list[JSON] = []
    for place in places:
        if not is_object(place) or not isinstance(path := place.get("path"), str) or not path:
            continue
        location: JSON = {"path": _absolute(path, cwd)}
        if "\0" in location["path"]:
            continue
        if isinstance(line := place.get("line"), int) and not isinstance(line, bool) and 0 <= line <= _MAX_LINE:
            location["line"] = line
        if location not in found:
            found.append(location)
    return found


def _absolute(path: str, cwd: Path) -> str:
    """Return the absolute path of a file that is named by a path or a URI (RFC 8089)."""
    return str(cwd / (unquote(path.removeprefix("file://")) if path.startswith("file://") else path))


def _entry(item: Any) -> JSON | None:
    if not is_object(item) or not isinstance(content := item.get("content"), str):
        return None
    status, priority = item.get("status"), item.get("priority")
    return {
        "content": content,
        "status": status if status in _STATUSES else "pending",
        "priority": priority if priority in _PRIORITIES else "medium",
    }
