"""Commands that are typed with a slash, and the messages of filled-in prompts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.on_demand import acp, acp_prompts


def prompt(*names: str) -> Any:
    """A prompt with arguments; those that end in `?` may be left out."""
    arguments = [{"name": name.rstrip("?"), "required": not name.endswith("?")} for name in names]
    return {"name": "do", "arguments": arguments}


@pytest.mark.parametrize(
    ("definition", "typed", "given"),
    [
        (prompt(), "", {}),
        (prompt("text"), "all of it, it's one", {"text": "all of it, it's one"}),
        (prompt("text?"), "", {}),
        (prompt("a", "b"), "1 2", {"a": "1", "b": "2"}),
        (prompt("a", "b"), "'1 1' 2 3", {"a": "1 1", "b": "2 3"}),
        (prompt("a", "b"), "b=2 1", {"a": "1", "b": "2"}),
        (prompt("a", "b?"), "1", {"a": "1"}),
        (prompt("a", "b"), "it's c=3", {"a": "it's", "b": "c=3"}),
    ],
)
def test_arguments_are_typed_in_their_order_or_by_name(definition: Any, typed: str, given: Any) -> None:
    assert acp_prompts.command_arguments(definition, typed) == given


@pytest.mark.parametrize(
    ("definition", "typed", "problem"),
    [
        (prompt(), "x", "/do: 'x' came; expected no argument"),
        (prompt("a", "b"), "", "/do: no a and no b came; expected /do a b"),
        (prompt("a?", "b"), "1", "/do: no b came; expected /do [a] b"),
    ],
)
def test_too_little_and_too_much_is_refused(definition: Any, typed: str, problem: str) -> None:
    with pytest.raises(acp.RequestError) as caught:
        acp_prompts.command_arguments(definition, typed)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("/do", ("do", "")),
        ("/do  it now ", ("do", "it now")),
        ("/", ("", "")),
        ("do", None),
        (" /do", None),
    ],
)
def test_a_command_is_what_begins_with_a_slash(typed: str, command: Any) -> None:
    found = acp_prompts.command_of([acp.text_block(typed)])
    assert found == (None if command is None else (*command, []))
    assert acp_prompts.command_of([]) is None


def test_links_that_are_typed_in_the_line_of_a_command_are_arguments() -> None:
    link, text = acp.resource_link_block("a.py", "file:///a.py"), acp.text_block
    command_of = acp_prompts.command_of
    assert command_of([text("/review "), link, text(" focus=speed")]) == (
        "review",
        "[a.py](file:///a.py) focus=speed",
        [],
    )
    assert command_of([text("/review b.py"), link]) == ("review", "b.py", [link]), "it is there beside the line"


def test_the_messages_of_a_prompt_keep_their_roles_and_pictures_where_a_model_sees() -> None:
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    result = {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Look"}},
            {"role": "assistant", "content": picture},
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "a://b", "text": "x"}}},
            {"role": "user", "content": {"type": "resource_link", "uri": "a://c", "name": "c"}},
        ]
    }
    blind = acp_prompts.messages_of_prompt(result, images=False)
    assert [message["content"] for message in blind] == [
        "Look",
        "(image: not shown)",
        '<file uri="a://b">\nx\n</file>',
        "[c](a://c)",
    ]
    seeing = acp_prompts.messages_of_prompt(result, images=True)
    assert seeing[1] == {
        "role": "assistant",
        "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}],
    }


def test_binary_files_are_named_and_pictures_among_them_seen() -> None:
    blob = acp.resource_block(acp.embedded_blob_resource("file:///a.png", "aGk=", mime_type="image/png"))
    blind = acp_prompts.user_message([acp.text_block("See"), blob], images=False)
    assert blind["content"] == 'See\n\n<file uri="file:///a.png">(binary, image/png: not shown)</file>'
    seeing = acp_prompts.user_message([acp.text_block("See"), blob], images=True)
    assert seeing["content"][1]["image_url"]["url"] == "data:image/png;base64,aGk="
    assert acp_prompts.title_of(seeing) == "See"
