"""What MCP says of a tool and its results, as an agent's model takes it ("Schema Conversion")."""

from __future__ import annotations

import json
from typing import Any, Final

from gaia.llm.dialects import DIALECTS, converted, normalised
from gaia_bridge.protocol.json_types import JSON, is_array, is_object

__all__ = ["MCPSchemaConverter"]

_PROVIDER: Final = "openai"
"""The dialect that tools are kept in: the strictest of those with references, and so understood by the others too."""

_BYTES: Final = ("data", "blob")
"""Fields that hold base64, of which no model makes anything."""


class MCPSchemaConverter:
    """Converts schemas of tools, and their results.

    A subclass changes how every single schema is written, at any depth, by overriding `_normalize_property`; as a class
    method it can ask the base class first:

        class WithoutMinItems(MCPSchemaConverter):
            @classmethod
            def _normalize_property(cls, prop):
                prop = super()._normalize_property(prop)
                prop.pop("minItems", None)
                return prop

        tools = create_mcp_tools(["fetch"], converter=WithoutMinItems)

    Overridden as a static method it works as well, but has no `super()`: it names the base class,
    `MCPSchemaConverter._normalize_property(prop)`.
    """

    @classmethod
    def convert_input_schema(cls, mcp_input_schema: JSON | None) -> JSON:
        """Convert a tool's `inputSchema` to parameters that OpenAI accepts, and through `Tool`, the others.

        Args:
            mcp_input_schema: The JSON Schema as the server gave it; not changed.

        Returns:
            An object schema. Formats other than date-time, date, time, email and uuid, exclusive bounds, titles and
            whatever else is refused are gone, at every depth. `additionalProperties` is `False` if nothing is optional
            at any depth, which is what makes the tool strict; else it is not closed.
        """
        # Through an instance, so that an override may be a class method, a static one or a plain one.
        return converted(mcp_input_schema or {}, _PROVIDER, rule=cls()._normalize_property)

    @classmethod
    def _normalize_property(cls, prop: JSON) -> JSON:
        """What is let through of one schema below the top: of a property, of items, of an alternative, a definition.

        Args:
            prop: The schema. Its parts are converted after this, one by one.

        Returns:
            A new dictionary.
        """
        return normalised(prop, DIALECTS[_PROVIDER])

    @classmethod
    def extract_tool_info(cls, tool_schema: JSON) -> JSON:
        """What is needed for a `Tool`.

        Args:
            tool_schema: The tool as its server lists it: `name`, `description`, `inputSchema`.

        Returns:
            `name` (`unknown` if there is none), `description` and `parameters`.
        """
        name, description = tool_schema.get("name"), tool_schema.get("description")
        schema = tool_schema.get("inputSchema")
        return {
            "name": name if isinstance(name, str) and name else "unknown",
            "description": description if isinstance(description, str) else "",
            "parameters": cls.convert_input_schema(schema if is_object(schema) else None),
        }

    @classmethod
    def convert_tool_result(cls, result: Any) -> str:
        """A tool's result as text for a model.

        Args:
            result: Text; MCP content blocks, as dictionaries or as the objects of an SDK; a result that has them as its
                `content`; or any other value.

        Returns:
            The text of the blocks, one below the other. Images, sounds and files are named with their type and size and
            never spelled out. Any other value is JSON; `None` is empty.
        """
        value = _plain(result)
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        if is_array(value) and value and all(_is_part(item) for item in value):
            return "\n".join(cls._block_text(item) for item in value)
        if is_object(value) and (_is_block(value) or "content" in value):
            return cls._block_text(value)
        return "" if value == [] else _as_json(value)

    @classmethod
    def _block_text(cls, block: Any) -> str:
        """One content block, or what has some, as text."""
        block = _plain(block)
        if not is_object(block):
            return cls.convert_tool_result(block)
        if block.get("type") in ("image", "audio"):
            return f"[{block['type']}: {_told(block.get('mimeType'), _size(block.get('data')))}]"
        if block.get("type") == "resource" and is_object(block.get("resource")):
            return _resource_text(block["resource"])
        if block.get("type") == "resource_link":
            name, kind = block.get("title") or block.get("name"), block.get("mimeType")
            return f"[resource: {_told(block.get('uri'), name, kind, block.get('description'))}]"
        if isinstance(block.get("text"), str):
            return str(block["text"])
        if "content" in block:
            content = block["content"]
            structured = block.get("structuredContent")
            return _as_json(structured) if not content and structured is not None else cls.convert_tool_result(content)
        return _as_json(block)


def _is_block(value: JSON) -> bool:
    """Whether a dictionary is a content block of MCP."""
    kind = value.get("type")
    fields = {"text": "text", "image": "data", "audio": "data", "resource": "resource", "resource_link": "uri"}
    return isinstance(kind, str) and kind in fields and fields[kind] in value


def _is_part(item: Any) -> bool:
    """Whether an item of a list is text or has some, and not a value of a list of values."""
    item = _plain(item)
    return isinstance(item, str) or (is_object(item) and (_is_block(item) or "content" in item))


def _plain(value: Any) -> Any:
    """The JSON behind an object of an SDK, which has `model_dump`, or `text` or `content` as an attribute."""
    if value is None or is_object(value) or is_array(value):
        return value
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json", by_alias=True, exclude_none=True)
    for field in ("text", "content"):
        if (found := getattr(value, field, None)) is not None:
            return {"type": "text", "text": found} if field == "text" else {"content": found}
    return value


def _resource_text(resource: JSON) -> str:
    if isinstance(resource.get("text"), str):
        return str(resource["text"])
    return f"[resource: {_told(resource.get('uri'), resource.get('mimeType'), _size(resource.get('blob')))}]"


def _told(*facts: Any) -> str:
    return ", ".join(fact for fact in facts if isinstance(fact, str) and fact) or "of unknown kind"


def _size(data: Any) -> str:
    """How many bytes base64 text stands for."""
    if not isinstance(data, str):
        return ""
    count = len(data) * 3 // 4 - data[-2:].count("=")
    return f"{count:,} bytes"


def _as_json(value: Any) -> str:
    return json.dumps(_without_bytes(value), indent=2, ensure_ascii=False, default=_shown)


def _without_bytes(value: Any) -> Any:
    """The same value, with the size of base64 in the place of the base64 itself."""
    if is_array(value):
        return [_without_bytes(item) for item in value]
    if not is_object(value):
        return value
    typed = isinstance(value.get("mimeType"), str)
    return {
        key: f"[{_size(item)}]" if typed and key in _BYTES and isinstance(item, str) else _without_bytes(item)
        for key, item in value.items()
    }


def _shown(value: Any) -> Any:
    return f"[{len(value):,} bytes]" if isinstance(value, bytes) else str(value)
