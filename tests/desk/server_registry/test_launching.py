"""The entry for a server has what its author and the user say, but of its author only what a stranger may say."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.server_registry.documents import Argument, Input, KeyValueInput, Package, Remote
from gaia_bridge_desk.server_registry.launching import UnsafeError, plan_for
from gaia_bridge_desk.server_registry.slots import AnswersError, Asked
from gaia_bridge_desk.server_registry.ways import RUNNERS, Way

NPM = Package("npm", "@a/tool", "1.0.0")
[NPX] = RUNNERS["npm"]
OCI = Package("oci", "a/tool", "1.0.0")


def kept(_: Asked, value: str) -> str:
    return value


def entry_of(package: Package, /, **answers: str) -> JSON:
    way = Way(package.registry_type, package, RUNNERS[package.registry_type][0])
    return plan_for(way).entry({name: [value] for name, value in answers.items()}, kept, {})


def positional(value: str | None = None, hint: str = "", **more: Any) -> Argument:
    return Argument(type="positional", value=value, value_hint=hint, **more)


def named(name: str, value: str | None = None, **more: Any) -> Argument:
    return Argument(type="named", name=name, value=value, **more)


def test_a_package_is_run_in_its_version_with_its_arguments() -> None:
    package = replace(
        NPM,
        package_arguments=(named("--flag"), named("--level", "{n}", variables={"n": Input()}), positional(hint="dir")),
    )
    assert entry_of(package, n="2", dir="/x") == {
        "command": "npx",
        "args": ["-y", "@a/tool@1.0.0", "--flag", "--level", "2", "/x"],
    }


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        (named("--a", "{v}", variables={"v": Input()}), "x", ["--a", "x"]),
        (named("--a=", "{v}", variables={"v": Input()}), "x", ["--a=x"]),
        (named("--a", "{v}", variables={"v": Input()}), "-x", ["--a=-x"]),
        (named("-a", "{v}", variables={"v": Input()}), "-x", ["-a", "-x"]),
        (named("--a", "{v}", format="boolean", variables={"v": Input()}), "true", ["--a=true"]),
        (named("--a", "{v}", variables={"v": Input()}), "", ["--a"]),
        (positional("{v}", variables={"v": Input()}), "", []),
    ],
)
def test_a_value_stands_with_its_option_so_that_no_program_takes_it_for_another(
    argument: Argument, value: str, words: list[str]
) -> None:
    assert entry_of(replace(NPM, package_arguments=(argument,)), v=value)["args"] == ["-y", "@a/tool@1.0.0", *words]


def test_what_the_program_is_told_anyway_is_left_out_and_so_is_the_package_itself() -> None:
    package = replace(NPM, runtime_arguments=(positional("-y"), positional("@a/tool")))
    assert entry_of(package)["args"] == ["-y", "@a/tool@1.0.0"]


@pytest.mark.parametrize("words", [["--registry=https://evil.example"], ["-p", "other"], ["-c"], ["other-package"]])
def test_an_author_who_has_something_else_run_is_refused(words: list[str]) -> None:
    with pytest.raises(UnsafeError, match="it has npx "):
        entry_of(replace(NPM, runtime_arguments=tuple(positional(word) for word in words)))


def test_a_user_may_not_be_made_to_say_what_the_author_may_not() -> None:
    asked = named("--registry", "{where}", variables={"where": Input(choices=("https://evil.example",))})
    with pytest.raises(UnsafeError):
        entry_of(replace(NPM, runtime_arguments=(asked,)), where="https://evil.example")


@pytest.mark.parametrize("name", ["LD_PRELOAD", "NODE_OPTIONS", "PATH"])
def test_a_variable_that_changes_programs_is_set_by_the_user_alone(name: str) -> None:
    def with_variable(**about: Any) -> Package:
        return replace(NPM, environment_variables=(KeyValueInput(name=name, **about),))

    with pytest.raises(UnsafeError, match=name):
        entry_of(with_variable(value="x.so"))
    with pytest.raises(UnsafeError, match=name):
        entry_of(with_variable(default="x.so"), **{name: "x.so"})
    with pytest.raises(UnsafeError, match=name):
        entry_of(with_variable(choices=("x.so",)), **{name: "x.so"})
    assert entry_of(with_variable(), **{name: "mine"})["env"] == {name: "mine"}
    assert plan_for(Way("npm", NPM, NPX)).entry({}, kept, {name: "mine"})["env"] == {name: "mine"}


@pytest.mark.parametrize("text", ["${HOME}", "a${file:/etc/passwd}", "${keyring:a/b}"])
def test_a_text_of_the_author_leads_to_nothing_of_this_machine(text: str) -> None:
    for package in (
        replace(NPM, package_arguments=(positional(text),)),
        replace(NPM, environment_variables=(KeyValueInput(name="A", value=text),)),
        replace(NPM, package_arguments=(named(text),)),
    ):
        with pytest.raises(UnsafeError, match="its author writes"):
            entry_of(package)


def test_a_container_gets_its_variables_by_their_names_and_no_command_line_has_their_values() -> None:
    package = replace(
        OCI,
        runtime_arguments=(named("-e", "TOKEN={t}", variables={"t": Input(is_secret=True)}),),
        environment_variables=(KeyValueInput(name="KEY"),),
    )
    entry = entry_of(package, t="s3cret", KEY="k3y")
    assert entry["env"] == {"TOKEN": "s3cret", "KEY": "k3y"}
    assert entry["args"] == ["run", "-i", "--rm", "-e", "TOKEN", "-e", "KEY", "a/tool:1.0.0"]


def test_a_variable_of_a_container_that_its_author_assigns_is_looked_at_as_well() -> None:
    with pytest.raises(UnsafeError, match="LD_PRELOAD"):
        entry_of(replace(OCI, runtime_arguments=(named("-e", "LD_PRELOAD=x.so"),)))


def test_an_address_is_looked_at_with_all_that_is_filled_in() -> None:
    def entry(url: str, **answers: str) -> JSON:
        remote = Remote("sse", url, (KeyValueInput(name="X-A", value="{k}", variables={"k": Input()}),))
        return plan_for(Way("remote", remote)).entry({name: [value] for name, value in answers.items()}, kept, {})

    assert entry("https://{host}/mcp", host="a.example", k="1") == {
        "url": "https://a.example/mcp",
        "headers": {"X-A": "1"},
        "type": "sse",
    }
    for host in ("me@evil.example", "a.example/\n", "a b"):
        with pytest.raises(AnswersError):
            entry("https://{host}/mcp", host=host)
    with pytest.raises(AnswersError, match="not encrypted"):
        entry("{scheme}://a.example", scheme="http")
    with pytest.raises(AnswersError, match="not complete"):
        entry("https://{host}/mcp")


def test_a_user_is_asked_for_each_name_once_and_the_address_comes_first() -> None:
    remote = Remote(
        "sse", "https://{a}/{b}", (KeyValueInput(name="H", value="{a}{c}", variables={"a": Input(), "c": Input()}),)
    )
    assert [asked.name for asked in plan_for(Way("remote", remote)).asked] == ["a", "b", "c"]
