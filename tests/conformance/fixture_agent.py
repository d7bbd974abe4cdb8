"""Everything that the official MCP conformance suite wants to find on a server, said by an ordinary agent.

    gaia-bridge serve tests/conformance/fixture_agent.py

The suite looks for exactly these names, schemas and behaviours. All of it is plain blocking code: what needs the
client (progress, logging, sampling, forms) goes through `get_request_context()`.
"""

from __future__ import annotations

import base64
import io
import json
import re
import wave
from collections.abc import Callable
from typing import Any

from gaia.agents.base import MCPAgent, RequestContext, ToolError, get_request_context
from gaia_bridge.calls.request_context import Elicited
from gaia_bridge.content import (
    audio,
    elicitation_request,
    embedded_text,
    image,
    input_required,
    roots_request,
    sampling_request,
    text,
    user_message,
)
from gaia_bridge.text.json_types import JSON

__all__ = ["ConformanceAgent"]

Handler = Callable[["ConformanceAgent", JSON], Any]

STEP_SECONDS = 0.05
"""Between two messages, so that a client can see that they do not come all at once."""
HANG_UP_SECONDS = 0.2
"""From closing the stream to the result, so that the result finds no stream to go out on."""

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC")


def _silence() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(1)
        wav.setframerate(8000)
        wav.writeframes(b"\x80" * 8)
    return file.getvalue()


# Tools: each function is offered under the suite's name; its arguments are the properties of its schema.

_tools: dict[str, tuple[JSON, Handler]] = {}


def _offer(name: str, description: str, schema: JSON | None = None) -> Callable[[Handler], Handler]:
    definition = {
        "name": name,
        "description": description,
        "inputSchema": schema or {"type": "object", "properties": {}},
    }

    def remember(handler: Handler) -> Handler:
        _tools[name] = (definition, handler)
        return handler

    return remember


def _one_string(name: str, description: str) -> JSON:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": description}},
        "required": [name],
    }


def _step(request: RequestContext, seconds: float = STEP_SECONDS) -> None:
    request.wait_cancelled(seconds)
    request.raise_if_cancelled()


@_offer("test_simple_text", "Answers with text")
def _simple_text(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    return text("This is a simple text response for testing.")


@_offer("test_image_content", "Answers with an image")
def _image_content(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    return image(PNG, "image/png")


@_offer("test_audio_content", "Answers with a sound")
def _audio_content(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    return audio(_silence(), "audio/wav")


@_offer("test_embedded_resource", "Answers with a resource")
def _embedded_resource(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    return embedded_text("test://embedded-resource", "This is an embedded resource content.")


@_offer("test_multiple_content_types", "Answers with text, an image and a resource")
def _multiple_content_types(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    data = json.dumps({"test": "data", "value": 123})
    return [
        text("Multiple content types test:"),
        image(PNG, "image/png"),
        embedded_text("test://mixed-content-resource", data, "application/json"),
    ]


@_offer("test_error_handling", "Always fails")
def _error_handling(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    raise ToolError("This tool intentionally returns an error for testing")


@_offer("test_tool_with_progress", "Reports progress in three steps")
def _tool_with_progress(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    request = get_request_context()
    for done in (0, 50, 100):
        request.report_progress(done, 100, f"{done} of 100")
        _step(request)
    return text("All steps are done")


@_offer("test_tool_with_logging", "Logs three messages while it works")
def _tool_with_logging(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    request = get_request_context()
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        request.log(message)
        _step(request)
    return text("Three messages were logged")


@_offer("test_logging_tool", "Logs one message, which only a client that asked for it gets")
def _logging_tool(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    get_request_context().log("Diagnostic message")
    return text("One message was logged")


@_offer("test_sampling", "Asks the client's model", _one_string("prompt", "What to ask the model"))
def _sampling(_agent: ConformanceAgent, arguments: JSON) -> Any:
    answer = get_request_context().sample(arguments["prompt"], 100)
    return text(f"LLM response: {_sampled_text(answer)}")


def _sampled_text(answer: JSON) -> str:
    return str(answer.get("content", {}).get("text", "(no text)"))


@_offer("test_elicitation", "Asks the user for a name and an address", _one_string("message", "What to ask the user"))
def _elicitation(_agent: ConformanceAgent, arguments: JSON) -> Any:
    form = {
        "username": {"type": "string", "description": "Your name"},
        "email": {"type": "string", "description": "Your email address"},
    }
    return _answered(get_request_context().elicit(arguments["message"], form))


@_offer("test_elicitation_sep1034_defaults", "Shows the user a form with a default in every field")
def _elicitation_defaults(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return _answered(get_request_context().elicit("Check these values", {"type": "object", "properties": fields}))


@_offer("test_elicitation_sep1330_enums", "Shows the user a form with every kind of choice")
def _elicitation_enums(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Value {number}"} for number in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return _answered(get_request_context().elicit("Choose", {"type": "object", "properties": fields}))


def _answered(answer: Elicited) -> JSON:
    return text(f"User response: action={answer.action}, content={json.dumps(dict(answer.content))}")


@_offer("test_streaming_elicitation", "Reports progress, then asks the user")
def _streaming_elicitation(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    request = get_request_context()
    request.report_progress(50, 100)
    return _answered(request.elicit("Go on?", {"sure": {"type": "boolean"}}))


@_offer("test_reconnection", "Hangs up, works on, and has the result ready when the client comes back")
def _reconnection(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    request = get_request_context()
    request.close_stream()
    _step(request, HANG_UP_SECONDS)
    return text("The client came back for this")


@_offer("test_missing_capability", "Refuses clients without sampling")
def _missing_capability(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    get_request_context().require_capability("sampling")
    return text("The client has sampling")


@_offer(
    "test_x_mcp_header",
    "Takes an argument that is repeated in an HTTP header",
    {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
)
def _x_mcp_header(_agent: ConformanceAgent, arguments: JSON) -> Any:
    return text(f"region={arguments.get('region')}")


@_offer("test_trigger_tool_change", "Changes a tool and announces it")
def _trigger_tool_change(agent: ConformanceAgent, _arguments: JSON) -> Any:
    agent.change_tools()
    return text("The tools changed")


@_offer("test_trigger_prompt_change", "Changes a prompt and announces it")
def _trigger_prompt_change(agent: ConformanceAgent, _arguments: JSON) -> Any:
    agent.change_prompts()
    return text("The prompts changed")


@_offer(
    "json_schema_2020_12_tool",
    "Has a schema with keywords of JSON Schema 2020-12",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
def _json_schema_2020_12(_agent: ConformanceAgent, arguments: JSON) -> Any:
    return text(json.dumps(arguments))


# Tools that say themselves what they need before they can answer, and are then called again (2026-07-28, SEP-2322).

NAME_FORM = {"name": {"type": "string"}}
CONFIRM_FORM = {"ok": {"type": "boolean"}}


def _filled_in(request: RequestContext, key: str) -> JSON:
    """The form that came back under a key; empty if none did or the user declined."""
    content: JSON | None = request.input_responses.get(key, {}).get("content")
    return content or {}


@_offer("test_input_required_result_elicitation", "Needs a form")
def _needs_form(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    name = _filled_in(get_request_context(), "user_name").get("name")
    if name is None:
        return input_required({"user_name": elicitation_request("What is your name?", NAME_FORM)})
    return text(f"Hello, {name}!")


@_offer("test_input_required_result_sampling", "Needs the client's model")
def _needs_model(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    answer = get_request_context().input_responses.get("capital_question")
    if answer is None:
        return input_required({"capital_question": sampling_request("What is the capital of France?", 100)})
    return text(f"The model says: {_sampled_text(answer)}")


@_offer("test_input_required_result_list_roots", "Needs the client's root folders")
def _needs_roots(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    answer = get_request_context().input_responses.get("client_roots")
    if answer is None:
        return input_required({"client_roots": roots_request()})
    return text("Roots: " + ", ".join(root["uri"] for root in answer["roots"]))


@_offer("test_input_required_result_request_state", "Needs a form, and its own state back")
def _needs_state(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    request = get_request_context()
    if request.request_state == "waiting" and "confirm" in request.input_responses:
        return text("state-ok")
    return input_required({"confirm": elicitation_request("Please confirm", CONFIRM_FORM)}, "waiting")


@_offer("test_input_required_result_tampered_state", "Needs its own state back unaltered")
def _needs_sealed_state(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    if get_request_context().request_state is None:
        return input_required({"confirm": elicitation_request("Please confirm", CONFIRM_FORM)}, "sealed")
    return text("The state is unaltered")


@_offer("test_input_required_result_multiple_inputs", "Needs a form, the client's model and its root folders")
def _needs_all(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    needed = {
        "user_name": elicitation_request("What is your name?", NAME_FORM),
        "greeting": sampling_request("Write a greeting", 50),
        "client_roots": roots_request(),
    }
    if needed.keys() <= get_request_context().input_responses.keys():
        return text("Everything arrived")
    return input_required(needed, "waiting")


@_offer("test_input_required_result_multi_round", "Needs two forms, one after the other")
def _needs_rounds(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    request = get_request_context()
    known: JSON = json.loads(request.request_state or "{}")
    known |= _filled_in(request, "step1") | _filled_in(request, "step2")
    if "name" not in known:
        return input_required({"step1": elicitation_request("What is your name?", NAME_FORM)}, json.dumps(known))
    if "color" not in known:
        form = {"color": {"type": "string"}}
        return input_required({"step2": elicitation_request("Which color do you like?", form)}, json.dumps(known))
    return text(f"{known['name']} likes {known['color']}")


@_offer("test_input_required_result_capabilities", "Needs whatever the client is able to give")
def _needs_what_is_there(_agent: ConformanceAgent, _arguments: JSON) -> Any:
    request = get_request_context()
    possible = {
        "sampling": sampling_request("Say something", 50),
        "elicitation": elicitation_request("Say something", {"value": {"type": "string"}}),
    }
    needed = {name: question for name, question in possible.items() if request.has_capability(name)}
    if needed.keys() <= request.input_responses.keys():
        return text("Everything possible arrived")
    return input_required(needed)


PROMPTS: tuple[JSON, ...] = (
    {"name": "test_simple_prompt", "description": "Has no arguments"},
    {
        "name": "test_prompt_with_arguments",
        "description": "Has two arguments",
        "arguments": [
            {"name": "arg1", "description": "The first", "required": True},
            {"name": "arg2", "description": "The second", "required": True},
        ],
    },
    {
        "name": "test_prompt_with_embedded_resource",
        "description": "Carries a resource",
        "arguments": [{"name": "resourceUri", "description": "URI of the resource", "required": True}],
    },
    {"name": "test_prompt_with_image", "description": "Carries an image"},
    {"name": "test_input_required_result_prompt", "description": "Needs a form"},
)
RESOURCES: dict[str, tuple[JSON, Any]] = {
    "test://static-text": (
        {"name": "static-text", "description": "Text that never changes", "mimeType": "text/plain"},
        "This is the content of the static text resource.",
    ),
    "test://static-binary": (
        {"name": "static-binary", "description": "An image that never changes", "mimeType": "image/png"},
        PNG,
    ),
    "test://watched-resource": (
        {"name": "watched-resource", "description": "Text to subscribe to", "mimeType": "text/plain"},
        "This is the content of the watched resource.",
    ),
}
TEMPLATE: JSON = {
    "uriTemplate": "test://template/{id}/data",
    "name": "template",
    "description": "Data by number",
    "mimeType": "application/json",
}
CITIES = ("paris", "park", "party")


class ConformanceAgent(MCPAgent):
    """The conformance suite's counterpart."""

    def __init__(self) -> None:
        super().__init__(silent_mode=True)
        self._tool_changes = 0
        self._prompt_changes = 0

    def get_mcp_server_info(self) -> JSON:
        """Say who this is."""
        return {"name": "conformance-agent", "version": "1.0.0"}

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """List the tools; the one that changes them counts how often it did."""
        definitions = {name: dict(definition) for name, (definition, _) in _tools.items()}
        definitions["test_trigger_tool_change"]["_meta"] = {"test/changes": self._tool_changes}
        return list(definitions.values())

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        """Run one of the functions above."""
        return _tools[tool_name][1](self, arguments)

    def change_tools(self) -> None:
        """Change what `get_mcp_tool_definitions` returns, and say so."""
        self._tool_changes += 1
        self.notify_mcp_tools_changed()

    def get_mcp_prompts(self) -> list[JSON]:
        """List the prompts; the first one carries how often they changed."""
        return [{**PROMPTS[0], "_meta": {"test/changes": self._prompt_changes}}, *PROMPTS[1:]]

    def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """Fill in one of the prompts."""
        match name:
            case "test_prompt_with_arguments":
                return f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"
            case "test_prompt_with_embedded_resource":
                resource = embedded_text(arguments["resourceUri"], "Embedded resource content for testing.")
                return user_message(resource, "Please look at the resource above.")
            case "test_prompt_with_image":
                return user_message(image(PNG, "image/png"), "Please look at the image above.")
            case "test_input_required_result_prompt":
                return self._prompt_that_needs_a_form()
            case _:
                return "This is a simple prompt for testing."

    def change_prompts(self) -> None:
        """Change what `get_mcp_prompts` returns, and say so."""
        self._prompt_changes += 1
        self.notify_mcp_prompts_changed()

    def get_mcp_resources(self) -> list[JSON]:
        """List the resources."""
        return [{"uri": uri, **definition} for uri, (definition, _) in RESOURCES.items()]

    def get_mcp_resource_templates(self) -> list[JSON]:
        """List the one template."""
        return [TEMPLATE]

    def read_mcp_resource(self, uri: str) -> Any:
        """Return text, bytes, or for the template's URIs a JSON object; `None` for any other URI."""
        if uri in RESOURCES:
            return RESOURCES[uri][1]
        number = re.fullmatch(r"test://template/([^/]+)/data", uri)
        return number and {"id": number[1], "templateTest": True, "data": f"Data for ID: {number[1]}"}

    def complete_mcp_argument(self, ref: JSON, argument: str, value: str, context: dict[str, str]) -> list[str]:
        """Suggest cities, whatever is being filled in."""
        return [city for city in CITIES if city.startswith(value)]

    def _prompt_that_needs_a_form(self) -> Any:
        context = _filled_in(get_request_context(), "user_context").get("context")
        if context is None:
            form = {"context": {"type": "string"}}
            return input_required({"user_context": elicitation_request("What is it about?", form)})
        return f"It is about {context}."
