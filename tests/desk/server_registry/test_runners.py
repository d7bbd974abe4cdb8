"""What a stranger may have the programs told that fetch packages, and which names of packages are passed on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge_desk.server_registry.documents import Package
from gaia_bridge_desk.server_registry.ways import (
    RUNNERS,
    container_warnings,
    package_problem,
    package_word,
    runtime_problem,
)

NPM = Package("npm", "@a/tool", "1.0.0")
PYPI = Package("pypi", "my-tool", "1.0.0")
[NPX] = RUNNERS["npm"]
UVX, _, PIPX = RUNNERS["pypi"]
DOCKER = RUNNERS["oci"][0]


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        (NPM, "@a/tool@1.0.0"),
        (Package("npm", "tool"), "tool"),
        (Package("oci", "a/b", "1"), "a/b:1"),
        (Package("oci", "a/b:2", "1"), "a/b:2"),
        (Package("oci", "a/b@sha256:" + "0" * 64, "1"), "a/b@sha256:" + "0" * 64),
        (Package("oci", "a/b", "1", "https://ghcr.example.org/"), "ghcr.example.org/a/b:1"),
        (Package("oci", "x.example/a/b", "1", "https://ghcr.example.org"), "x.example/a/b:1"),
        (Package("oci", "localhost/b", "1", "https://ghcr.example.org"), "localhost/b:1"),
        (Package("oci", "a/b", "1", "https://ghcr.example.org/;id"), "a/b:1"),
    ],
)
def test_a_package_is_named_in_its_version_and_its_registry(package: Package, expected: str) -> None:
    assert package_problem(package) == ""
    assert package_word(package, RUNNERS[package.registry_type][0]) == expected


@pytest.mark.parametrize(
    ("kind", "name", "version"),
    [
        ("npm", "-g", ""),
        ("npm", "a/b", ""),
        ("npm", "a b", ""),
        ("npm", "a\n", ""),
        ("npm", "git+https://a.example/x", ""),
        ("npm", "../x", ""),
        ("npm", "a" * 400, ""),
        ("npm", "tool", "latest"),
        ("npm", "tool", "1.x"),
        ("npm", "tool", "1 || 2"),
        ("pypi", "--index-url", ""),
        ("pypi", "tool @ https://a.example", ""),
        ("pypi", "tool[x", ""),
        ("pypi", "tool", "*"),
        ("oci", "a/B", ""),
        ("oci", "a/b:", ""),
        ("oci", "a/b@sha256:00", ""),
        ("oci", "--privileged", ""),
        ("nuget", "a.b.", ""),
        ("nuget", "a", "^1.0"),
    ],
)
def test_what_is_no_package_in_one_version_is_not_passed_on(kind: str, name: str, version: str) -> None:
    assert package_problem(Package(kind, name, version)) != ""


@given(st.sampled_from(["npm", "pypi", "oci", "nuget"]), st.text(max_size=12), st.text(max_size=6))
def test_what_is_passed_on_is_one_word_that_begins_no_option_and_no_path(kind: str, name: str, version: str) -> None:
    package = Package(kind, name, version)
    if not package_problem(package):
        word = package_word(package, RUNNERS[kind][0])
        assert word.isprintable()
        assert word.split() == [word]
        assert word[0] not in "-./~" or (kind == "npm" and word[0] == "~")
        assert "://" not in word


@pytest.mark.parametrize(
    "words",
    [
        ["--registry", "https://evil.example"],
        ["--registry=https://evil.example"],
        ["-c", "id"],
        ["--call=id"],
        ["-p", "other"],
        ["--package=@a/other"],
        ["--package=@a/tool@https://evil.example"],
        ["-p"],
        ["--package", "-y"],
        ["-y=1"],
        ["evil"],
    ],
)
def test_npx_is_told_nothing_that_could_run_something_else(words: list[str]) -> None:
    assert runtime_problem(NPM, NPX, words) != ""


@pytest.mark.parametrize(
    "words",
    [
        ["--from", "other"],
        ["--from=git+https://evil.example"],
        ["--index-url", "https://evil.example"],
        ["--with", "good@evil/repo"],
        ["--from"],
        ["--python", "/tmp/python"],
    ],
)
def test_uvx_is_told_nothing_that_could_run_something_else(words: list[str]) -> None:
    assert runtime_problem(PYPI, UVX, words) != ""


def test_the_package_itself_may_be_named_in_any_version_and_spelling() -> None:
    for words in (["-p", "@a/tool@2.0.0"], ["--package=@A/TOOL"], ["-y"], []):
        assert runtime_problem(NPM, NPX, words) == ""
    for words in (["--from", "My_Tool==2"], ["--from=my-tool[extra]>=1"], []):
        assert runtime_problem(PYPI, UVX, words) == ""


def test_a_program_without_known_options_is_told_none_and_a_container_any() -> None:
    assert runtime_problem(PYPI, PIPX, []) == ""
    assert runtime_problem(PYPI, PIPX, ["--spec=my-tool"]) != ""
    assert runtime_problem(Package("oci", "a/b"), DOCKER, ["--network", "host", "-v=/:/x"]) == ""


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 0),
        (["--network", "host"], 1),
        (["--network=host"], 1),
        (["--privileged"], 1),
        (["-v", "/:/host"], 1),
        (["-v=~/:/x"], 1),
        (["--mount", "type=bind,src=/etc,dst=/x"], 1),
        (["-v", "/var/run/docker.sock:/x"], 1),
        (["-v", "/work/project:/x"], 0),
        (["--networked"], 0),
    ],
)
def test_options_that_open_this_machine_to_a_container_are_named(words: list[str], count: int) -> None:
    assert len(container_warnings(words)) == count
