"""A person's prompt in an editor as messages for an agent: texts, files, pictures, and commands with a slash."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.acp.errors import invalid

_TITLE: Final = 80
"""Characters of a conversation's title."""


def user_message(blocks: Sequence[Any], *, images: bool) -> JSON:
    """Return a prompt as one message of the role user, in OpenAI's shape.

    Texts and links stay in one line, as they were typed; files that came with them follow below, each with its URI.

    Args:
        blocks: The blocks of the editor, read by the package's models.
        images: Whether the model accepts pictures.

    Raises:
        RequestError: The agent cannot accept one of the blocks, or the prompt is empty.
    """
    texts: list[str] = []
    files: list[str] = []
    pictures: list[JSON] = []
    for number, block in enumerate(blocks):
        match block:
            case TextContentBlock():
                texts.append(block.text)
            case ResourceContentBlock():
                texts.append(_link(block))
            case EmbeddedResourceContentBlock():
                resource: Any = block.resource
                if isinstance(resource, TextResourceContents):
                    files.append(f'<file uri="{resource.uri}">\n{resource.text}\n</file>')
                elif images and str(resource.mime_type).startswith("image/"):
                    pictures.append(_picture(resource.mime_type, resource.blob))
                else:
                    kind = resource.mime_type or "unknown type"
                    files.append(f'<file uri="{resource.uri}">(binary, {kind}: not shown)</file>')
            case ImageContentBlock() if images:
                pictures.append(_picture(block.mime_type, block.data))
            case _:
                taken = "text, resource_link, resource" + (", image" if images else "")
                raise invalid(f"prompt[{number}].type", f"{block.type!r} came", f"one of {taken}")
    text = "\n\n".join(part for part in ("".join(texts), *files) if part)
    if not text and not pictures:
        raise invalid("prompt", "nothing came", "a text, a file or a link")
    if not pictures:
        return {"role": "user", "content": text}
    return {"role": "user", "content": [*([{"type": "text", "text": text}] if text else []), *pictures]}


def title_of(message: JSON) -> str:
    """Return the title of a conversation that begins with this message."""
    content = message["content"]
    text = content if isinstance(content, str) else next((it["text"] for it in content if it["type"] == "text"), "")
    return one_line(text.strip().partition("\n")[0], _TITLE)


def command_of(blocks: Sequence[Any]) -> tuple[str, str, Sequence[Any]] | None:
    """Return the command that a prompt begins with, the rest of its line, and the blocks after the line.

    A link belongs to the line if a space is before it, as a person types it. `None` if there is no command.
    """
    first = blocks[0] if blocks else None
    if not isinstance(first, TextContentBlock) or not first.text.startswith("/"):
        return None
    line, left = first.text[1:], list(blocks[1:])
    while left and (more := _in_line(left[0])) and (line[-1:].isspace() or more[0].isspace()):
        line += more
        del left[0]
    name, *rest = line.split(maxsplit=1) or [""]
    return name, rest[0].strip() if rest else "", left


def hint_of(definition: JSON) -> str:
    """Return the form of a prompt's arguments; empty if it takes none."""
    return " ".join(name if is_required else f"[{name}]" for name, is_required in _listed(definition).items())


def command_arguments(definition: JSON, text: str) -> dict[str, str]:
    """Return the arguments of a prompt that follow a command: in their order, or by name.

    A prompt with one argument takes all of the text; of several, the last takes the rest.

    Args:
        definition: The prompt.
        text: The typed text.

    Raises:
        RequestError: The text has too few arguments, or too many.
    """
    listed = _listed(definition)
    at = f"/{definition['name']}"
    if not listed:
        if text:
            raise invalid(at, f"{text!r:.80} came", "no argument")
        return {}
    given = {next(iter(listed)): text} if len(listed) == 1 and text else _given(list(listed), text)
    if missing := [name for name, is_required in listed.items() if is_required and name not in given]:
        raise invalid(at, f"no {' and no '.join(missing)} came", f"{at} {hint_of(definition)}")
    return given


def messages_of_prompt(result: Mapping[str, Any], *, images: bool) -> list[JSON]:
    """Return the messages of a filled-in MCP prompt, in OpenAI's shape."""
    messages: list[JSON] = []
    for message in result.get("messages") or ():
        content = message.get("content")
        parts = [_part(block, images=images) for block in (content if is_array(content) else [content])]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        is_text = len(texts) == len(parts)
        messages.append({"role": str(message.get("role")), "content": "\n".join(texts) if is_text else parts})
    return messages


def _in_line(block: Any) -> str:
    """Return a block's text in the line that a person types; empty for files and pictures."""
    if isinstance(block, TextContentBlock):
        return block.text
    return _link(block) if isinstance(block, ResourceContentBlock) else ""


def _link(block: ResourceContentBlock) -> str:
    return f"[{block.title or block.name}]({block.uri})"


def _part(block: Any, *, images: bool) -> JSON:
    kind = block.get("type") if is_object(block) else None
    if kind == "image" and images:
        return _picture(block.get("mimeType"), block.get("data"))
    if kind == "resource" and is_object(resource := block.get("resource")):
        text = resource.get("text", "(binary: not shown)")
        return {"type": "text", "text": f'<file uri="{resource.get("uri")}">\n{text}\n</file>'}
    if kind == "resource_link":
        return {"type": "text", "text": f"[{block.get('name')}]({block.get('uri')})"}
    return {"type": "text", "text": str(block.get("text")) if kind == "text" else f"({kind}: not shown)"}


def _picture(mime_type: Any, data: Any) -> JSON:
    return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}


def _listed(definition: JSON) -> dict[str, bool]:
    """Return the arguments of a prompt, each with whether it is required."""
    return {str(item["name"]): item.get("required") is True for item in definition.get("arguments") or ()}


def _given(names: list[str], text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError:  # an apostrophe
        words = text.split()
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        free = [name for name in names if name not in given]
        if equals and name in free:
            given[name] = value
        elif free:
            given[free[0]] = word
        else:
            given[names[-1]] += f" {word}"
    return given
