"""One name that somebody types, and what everything is called after it."""

from __future__ import annotations

import keyword
import sys

import pytest

from gaia_bridge.bridge.discovery.classes import name_of_class
from gaia_bridge.constants import SHIPPED_AGENTS
from gaia_bridge.errors import ConfigError
from gaia_bridge_desk.projects.writing import names_of, names_of_file

USUAL = {
    "weather": ("weather_agent", "WeatherAgent", "weather"),
    "my-weather": ("my_weather_agent", "MyWeatherAgent", "my-weather"),
    "WeatherAgent": ("weather_agent", "WeatherAgent", "weather"),
    "HTTPServer": ("http_server_agent", "HttpServerAgent", "http-server"),
    "testing": ("my_testing_agent", "MyTestingAgent", "my-testing"),
    " My weather! ": ("my_weather_agent", "MyWeatherAgent", "my-weather"),
}
ODD = [
    "class",
    "None",
    "email",
    "gaia",
    "pytest",
    "Agent",
    "3d-print",
    "天気",
    "Überblick",
    "a-b",
    "__",
    '"""',
    "$name",
]


@pytest.mark.parametrize(("typed", "expected"), USUAL.items())
def test_module_class_and_published_name_come_from_one_name(typed: str, expected: tuple[str, str, str]) -> None:
    names = names_of(typed)
    assert (names.module, names.class_name, names.published) == expected


@pytest.mark.parametrize("typed", [*USUAL, *ODD])
def test_whatever_the_name_is_python_takes_the_names_made_of_it(typed: str) -> None:
    names = names_of(typed)
    for name in names.module, names.class_name:
        assert name.isascii()
        assert name.isidentifier()
        assert not keyword.iskeyword(name)
    assert names.module not in sys.stdlib_module_names
    assert not names.class_name.startswith("Test")  # pytest would take it for tests
    assert names.distribution == names.module.replace("_", "-")


@pytest.mark.parametrize("typed", [*USUAL, *ODD])
def test_an_installed_agent_has_the_name_that_its_class_is_served_under(typed: str) -> None:
    names = names_of(typed)
    assert names.published == name_of_class(type(names.class_name, (), {}))


@pytest.mark.parametrize(
    ("typed", "came", "to_do"),
    [
        ("", "it is blank; expected 1 to 40", "choose a name such as my-weather"),
        (" \t", "it is blank", "choose a name"),
        ("x" * 41, "it has 41 characters; expected 1 to 40", "choose a shorter one"),
        ("a\nb", "characters that cannot be printed", "leave them out"),
        ("a\x00b", "characters that cannot be printed", "leave them out"),
    ],
)
def test_a_name_that_is_none_is_refused_with_what_to_do(typed: str, came: str, to_do: str) -> None:
    with pytest.raises(ConfigError) as refused:
        names_of(typed)
    assert came in str(refused.value)
    assert to_do in refused.value.hint
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("shipped", SHIPPED_AGENTS)
def test_the_name_of_a_shipped_agent_is_refused_because_two_entry_points_would_have_it(shipped: str) -> None:
    with pytest.raises(ConfigError, match=f"called {shipped}; expected any name but code and project"):
        names_of(f"{shipped}-agent")


def test_a_file_of_another_name_is_the_module_and_nothing_else_changes() -> None:
    names = names_of_file(names_of("weather"), "forecasts")
    assert (names.module, names.class_name, names.published) == ("forecasts", "WeatherAgent", "weather")


@pytest.mark.parametrize(
    ("module", "came"),
    [
        ("two words", "no name that Python can import"),
        ("3d", "no name that Python can import"),
        ("class", "a keyword of Python"),
        ("email", "the name of another module"),
        ("gaia", "the name of another module"),
        ("_hidden", "left out where a folder is served"),
        ("test_weather", "taken for tests"),
    ],
)
def test_a_file_that_cannot_be_an_agents_is_refused_with_one_that_can(module: str, came: str) -> None:
    with pytest.raises(ConfigError, match=came) as refused:
        names_of_file(names_of("weather"), module)
    assert "expected" in refused.value.problem
    assert refused.value.hint == "choose another file, such as weather_agent.py"
