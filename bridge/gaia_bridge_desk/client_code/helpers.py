"""The parts of a generated client that are the same for every server."""

from __future__ import annotations

from typing import Final

CONNECTION: Final = '''class Connection(Protocol):
    """An open connection to the server."""

    def call_tool(self, name: str, arguments: dict[str, Any], /) -> Awaitable[Any]:
        """Call a tool."""
        ...'''

PROMPT_CONNECTION: Final = '''@runtime_checkable
class PromptConnection(Protocol):
    """A connection that gets prompts."""

    def get_prompt(self, name: str, arguments: dict[str, str], /) -> Awaitable[Any]:
        """Get a prompt."""
        ...'''

RESOURCE_CONNECTION: Final = '''@runtime_checkable
class ResourceConnection(Protocol):
    """A connection that reads resources."""

    def read_resource(self, uri: str, /) -> Awaitable[Any]:
        """Read a resource."""
        ...'''

ANSWER: Final = '''class ToolFailedError(Exception):
    """A tool says that it failed, or did not answer as it promised."""


class Answer(str):
    """The text of what a tool answered; `content` has all of it."""

    content: list[Any]
    structured: Any'''

FIELD: Final = '''def _field(value: Any, *names: str) -> Any:
    """A field of a result, which is a mapping or an object."""
    for name in names:
        if isinstance(value, Mapping):
            found = cast("Mapping[str, Any]", value).get(name)
        else:
            found = getattr(value, name, None)
        if found is not None:
            return found
    return None'''

TEXT: Final = '''def _answer(result: Any) -> Answer:
    """What a tool answered."""
    content = [*(_field(result, "content") or ())]
    texts = (_field(block, "text") for block in content)
    answer = Answer("\\n".join(text for text in texts if isinstance(text, str)))
    answer.content = content
    answer.structured = _field(result, "structuredContent", "structured_content")
    if _field(result, "isError", "is_error"):
        raise ToolFailedError(str(answer))
    return answer'''

STRUCTURED: Final = '''def _structured(result: Any) -> Any:
    """The structured content of what a tool answered, which it promised."""
    found = _answer(result).structured
    if found is None:
        raise ToolFailedError("the tool answered without the structured content that it promised")
    return found'''

GIVEN: Final = '''def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Those that have a value."""
    return {name: value for name, value in arguments.items() if value is not None}'''

MESSAGES: Final = '''def _prompts(connection: object) -> PromptConnection:
    if not isinstance(connection, PromptConnection):
        raise TypeError(f"{type(connection).__name__} has no get_prompt; expected a connection that gets prompts")
    return connection


def _messages(result: Any) -> list[Any]:
    """The messages of a prompt."""
    return [*(_field(result, "messages") or ())]'''

RESOURCES: Final = '''def _resources(connection: object) -> ResourceConnection:
    if not isinstance(connection, ResourceConnection):
        raise TypeError(f"{type(connection).__name__} has no read_resource; expected one that reads resources")
    return connection


def _contents(result: Any) -> str | bytes:
    """What is in a resource: its texts, or the bytes of the first part that has no text."""
    parts = [*(result if isinstance(result, list) else _field(result, "contents") or ())]
    texts = [text for part in parts if isinstance(text := _field(part, "text"), str)]
    blobs = [blob for part in parts if isinstance(blob := _field(part, "blob"), str)]
    return base64.b64decode(blobs[0]) if blobs and not texts else "\\n".join(texts)'''

EXPANDED: Final = '''def _expanded(template: str, values: dict[str, str]) -> str:
    """A URI of a template (RFC 6570)."""

    def expanded(found: re.Match[str]) -> str:
        return quote(values[found[2]], safe=":/?#[]@!$&'()*+,;=" if found[1] else "")

    return re.sub(r"\\{(\\+?)(\\w+)\\}", expanded, template)'''
