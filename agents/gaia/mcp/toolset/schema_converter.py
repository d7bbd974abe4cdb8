"""Conversion of MCP's tools and results to forms that an agent's model takes ("Schema Conversion")."""

from __future__ import annotations

from typing import Any, Final

from gaia.llm.dialects import DIALECTS, converted, normalised
from gaia_bridge.calls.results.rendering import ContentStyle, render_block, render_json
from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["MCPSchemaConverter"]

_PROVIDER: Final = "openai"
"""The dialect that tools are kept in: the strictest of those with references, and so understood by the others too."""

_STYLE: Final = ContentStyle(indent=2)


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
        """Reduce a schema below the top (of a property, items, an alternative, a definition) to the accepted keywords.

        Args:
            prop: The schema. Its parts are converted after this, one by one.

        Returns:
            A new dictionary.
        """
        return normalised(prop, DIALECTS[_PROVIDER])

    @classmethod
    def extract_tool_info(cls, tool_schema: JSON) -> JSON:
        """Return the name, description and parameters for a `Tool`.

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
        """Return a tool's result as text for a model.

        Args:
            result: Text; MCP content blocks, as dictionaries or as the objects of an SDK; a result that has them as its
                `content`; or any other value.

        Returns:
            The text of the blocks, one below the other. Images, sounds and files are named with their type and size and
            never spelled out. Any other value is JSON; `None` is empty.
        """
        return _result_text(result)


def _result_text(result: Any) -> str:
    value = _plain(result)
    if value is None or value == []:
        return ""
    if isinstance(value, str):
        return value
    if is_array(value) and _is_content(value):
        return "\n".join(map(_result_text, value))
    if is_object(value) and _is_block(value):
        return render_block(value, _STYLE)
    if not is_object(value) or "content" not in value:
        return render_json(value, _STYLE.indent)
    content, structured = value["content"], value.get("structuredContent")
    return render_json(structured, _STYLE.indent) if not content and structured is not None else _result_text(content)


def _is_block(value: JSON) -> bool:
    """Whether a dictionary is a content block of MCP."""
    kind = value.get("type")
    fields = {"text": "text", "image": "data", "audio": "data", "resource": "resource", "resource_link": "uri"}
    return isinstance(kind, str) and kind in fields and fields[kind] in value


def _is_content(items: list[Any]) -> bool:
    """Whether a list is one of texts and blocks, some of them of unknown types, and not a list of values."""
    plain = [_plain(item) for item in items]
    texts = [isinstance(item, str) or (is_object(item) and (_is_block(item) or "content" in item)) for item in plain]
    return any(texts) and all(
        text or (is_object(item) and isinstance(item.get("type"), str)) for text, item in zip(texts, plain, strict=True)
    )


def _plain(value: Any) -> Any:
    """Return the JSON behind an object of an SDK, which has `model_dump`, or `text` or `content` as an attribute."""
    if value is None or is_object(value) or is_array(value):
        return value
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json", by_alias=True, exclude_none=True)
    for field in ("text", "content"):
        if (content := getattr(value, field, None)) is not None:
            return {"type": "text", "text": content} if field == "text" else {"content": content}
    return value
