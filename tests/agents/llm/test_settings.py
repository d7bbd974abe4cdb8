"""Arguments win over the environment, the environment over what is found; keys go where they belong."""

from __future__ import annotations

from itertools import product

import pytest

from gaia.agents.chat.options import ChatOptions
from gaia.llm import ModelCredentialsError, ModelError
from gaia.llm.servers import KNOWN, complete_url, known_server, shown_url
from gaia.llm.settings import Wanted, from_environment, wanted

HOSTED = {"OPENAI_API_KEY": "sk-hosted"}


def wanted_with(environment: dict[str, str], **arguments: str) -> Wanted:
    return wanted(**arguments, look_up=environment.get, in_file=dict[str, str]().get)


def only_place(found: Wanted) -> tuple[str, str | None, str]:
    (place,) = found.places
    return place.url, place.server.name if place.server else None, place.key


@pytest.mark.parametrize(
    ("environment", "arguments", "place"),
    [
        (
            {"GAIA_BASE_URL": "http://b/v1", "PROVIDER": "openai"},
            {"base_url": "http://a/v1"},
            ("http://a/v1", None, ""),
        ),
        ({"GAIA_BASE_URL": "http://b/v1"}, {"provider": "vllm"}, ("http://localhost:8000/v1", "vllm", "")),
        ({"GAIA_BASE_URL": "http://b/v1", "PROVIDER": "openai"}, {}, ("http://b/v1", None, "")),
        ({"PROVIDER": "openai", **HOSTED}, {}, ("https://api.openai.com/v1", "openai", "sk-hosted")),
        ({"GAIA_PROVIDER": "ollama", "PROVIDER": "aws"}, {}, ("http://localhost:11434/v1", "ollama", "")),
        ({"PROVIDER": "LM-Studio"}, {}, ("http://localhost:1234/v1", "lmstudio", "")),
        ({"PROVIDER": "llama.cpp"}, {}, ("http://localhost:8080/v1", "llamacpp", "")),
        (
            {"PROVIDER": "openai", "OPENAI_BASE_URL": "http://proxy/v1", **HOSTED},
            {},
            ("http://proxy/v1", "openai", "sk-hosted"),
        ),
        ({"OPENAI_BASE_URL": "http://proxy/v1", **HOSTED}, {}, ("http://proxy/v1", "openai", "sk-hosted")),
        ({"LEMONADE_BASE_URL": "http://gpu:13305/api/v1"}, {}, ("http://gpu:13305/api/v1", "lemonade", "")),
        ({"PROVIDER": "lemonade", "LEMONADE_BASE_URL": "gpu"}, {}, ("http://gpu:13305/api/v1", "lemonade", "")),
        ({"PROVIDER": "ollama", "OLLAMA_HOST": "0.0.0.0"}, {}, ("http://127.0.0.1:11434/v1", "ollama", "")),
        ({"PROVIDER": "ollama", "OLLAMA_HOST": "gpu:1234"}, {}, ("http://gpu:1234/v1", "ollama", "")),
    ],
)
def test_the_first_that_is_set_decides_on_the_server(
    environment: dict[str, str], arguments: dict[str, str], place: tuple[str, str | None, str]
) -> None:
    found = wanted_with(environment, **arguments)
    assert only_place(found) == place
    assert not found.is_guess


def test_without_anything_the_servers_of_this_machine_are_looked_for_and_no_other() -> None:
    found = wanted_with(HOSTED)
    assert found.is_guess
    assert [place.url for place in found.places] == [
        url for server in KNOWN if server.is_local for url in server.base_urls
    ]
    assert all(place.url.startswith("http://localhost:") and not place.key for place in found.places)


def test_the_key_of_openai_is_sent_nowhere_else() -> None:
    assert only_place(wanted_with(HOSTED, base_url="http://localhost:8000/v1"))[2] == ""
    assert only_place(wanted_with({**HOSTED, "PROVIDER": "ollama"}))[2] == ""
    assert only_place(wanted_with(HOSTED, base_url="https://api.openai.com.evil.example/v1"))[2] == ""
    assert only_place(wanted_with(HOSTED, base_url="http://api.openai.com/v1"))[2] == ""
    assert only_place(wanted_with(HOSTED, base_url="https://api.openai.com/v1"))[2] == "sk-hosted"


def test_the_argument_wins_over_the_variable_and_that_over_the_servers_own() -> None:
    environment = {"GAIA_API_KEY": "gaia", "GAIA_MODEL": "m", "PROVIDER": "openai", **HOSTED}
    assert only_place(wanted_with(environment, api_key="mine"))[2] == "mine"
    assert only_place(wanted_with(environment))[2] == "gaia"
    assert wanted_with(environment).model == "m"
    assert wanted_with(environment, model="other").model == "other"


def test_empty_variables_are_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAIA_BASE_URL", " ")
    assert from_environment("GAIA_BASE_URL") is None
    assert wanted().is_guess


@pytest.mark.parametrize("key", ["sk-ü", "two words", "line\nbreak"])
def test_a_key_that_cannot_be_one_is_refused(key: str) -> None:
    with pytest.raises(ModelCredentialsError, match="GAIA_API_KEY") as raised:
        wanted(base_url="http://a", api_key=key)
    assert key not in str(raised.value)


def test_a_key_does_not_show_in_what_is_printed_of_a_place() -> None:
    assert "secret" not in repr(wanted(base_url="http://user:secret@a", api_key="secret-key"))
    assert "secret" not in repr(ChatOptions(base_url="http://user:secret@a", api_key="secret-key"))


def test_an_unknown_provider_names_those_that_are_known() -> None:
    with pytest.raises(ModelError, match="'aws' is no provider.*lemonade, ollama.*GAIA_BASE_URL"):
        known_server("aws")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://gpu-box:8000", "http://gpu-box:8000/v1"),
        ("gpu-box:8000", "http://gpu-box:8000/v1"),
        ("https://host/openai/v1/", "https://host/openai/v1"),
        ("http://[::1]:9/v1", "http://[::1]:9/v1"),
        ("http://0.0.0.0:9/v1", "http://127.0.0.1:9/v1"),
        ("http://user:pw@host/v1?x=1", "http://user:pw@host/v1"),
    ],
)
def test_an_address_as_people_write_it_is_made_whole(text: str, url: str) -> None:
    assert complete_url(text) == url


@pytest.mark.parametrize("text", ["ftp://host/v1", "http://", "http://host:port/v1", "file:///etc/passwd", "http://[x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="is no address of a model server"):
        complete_url(text)


def test_a_shown_address_has_no_user_and_no_query() -> None:
    assert shown_url("http://user:pw@host:8000/v1?key=x") == "http://host:8000/v1"


def test_every_known_server_is_told_apart() -> None:
    assert len({server.name for server in KNOWN}) == len(KNOWN)
    assert all(known_server(server.name) is server for server in KNOWN)
    assert len({url for server in KNOWN for url in server.base_urls}) == sum(len(row.base_urls) for row in KNOWN)


def settled(
    environment: dict[str, str], file: dict[str, str], base_url: str | None = None
) -> tuple[str, str, str | None]:
    """The first address, the key that it is sent, and the model."""
    found = wanted(base_url, look_up=environment.get, in_file=file.get)
    return found.places[0].url, found.places[0].key, found.model


def test_a_file_names_the_server_where_nobody_else_does() -> None:
    file = {"GAIA_BASE_URL": "http://in-file/v1", "GAIA_MODEL": "m", "GAIA_API_KEY": "k"}
    assert settled({}, file) == ("http://in-file/v1", "k", "m")
    assert settled({"GAIA_BASE_URL": "http://said/v1"}, file) == ("http://said/v1", "k", "m")
    assert settled({"PROVIDER": "ollama"}, file)[0] != "http://in-file/v1"
    assert settled({}, file, base_url="http://argument/v1")[0] == "http://argument/v1"


@pytest.mark.parametrize("provider", ["", "openai"])
def test_a_file_says_where_a_known_server_is_and_which_key_it_wants(provider: str) -> None:
    file = {"PROVIDER": provider, "OPENAI_BASE_URL": "http://in-file/v1", "OPENAI_API_KEY": "k"}
    assert settled({}, file) == ("http://in-file/v1", "k", None)


@pytest.mark.parametrize("provider", ["", "ollama"])
def test_where_ollama_is_may_be_in_the_file_but_the_environment_wins(provider: str) -> None:
    file = {"PROVIDER": provider, "OLLAMA_HOST": "in-file"}
    for environment, host in ((dict[str, str](), "in-file"), ({"OLLAMA_HOST": "said"}, "said")):
        found = wanted(look_up=environment.get, in_file=file.get)
        assert f"http://{host}:11434/v1" in [place.url for place in found.places]


def test_whoever_says_where_ollama_is_does_not_say_that_it_is_meant() -> None:
    assert settled({"OLLAMA_HOST": "0.0.0.0"}, {"PROVIDER": "openai"})[0].startswith("https://api.openai.com/")


def test_a_file_that_names_a_known_provider_may_use_the_users_key_for_it() -> None:
    url, key, _ = settled({"OPENAI_API_KEY": "mine"}, {"PROVIDER": "openai"})
    assert url.startswith("https://api.openai.com/")
    assert key == "mine"


@pytest.mark.parametrize("address", ["GAIA_BASE_URL", "OPENAI_BASE_URL", "LEMONADE_BASE_URL", "OLLAMA_HOST"])
def test_no_key_of_the_user_is_sent_to_an_address_that_a_file_names(address: str) -> None:
    variables = ("GAIA_API_KEY", "OPENAI_API_KEY", "LEMONADE_API_KEY", "OLLAMA_API_KEY")
    for variable, provider in product(variables, ("", "openai", "lemonade", "ollama")):
        file = {address: "https://elsewhere.example/v1", "PROVIDER": provider}
        for place in wanted(look_up={variable: "mine"}.get, in_file=file.get).places:
            assert place.key == "", (variable, provider)


@pytest.mark.parametrize("address", ["GAIA_BASE_URL", "OPENAI_BASE_URL", "LEMONADE_BASE_URL"])
def test_a_key_given_in_code_is_not_sent_to_an_address_that_a_file_names(address: str) -> None:
    file = {address: "https://elsewhere.example/v1"}.get
    with pytest.raises(ModelCredentialsError, match="Give base_url together with api_key"):
        wanted(api_key="mine", look_up=nothing, in_file=file)
    (place,) = wanted("https://mine.example/v1", api_key="mine", look_up=nothing, in_file=file).places
    assert (place.url, place.key) == ("https://mine.example/v1", "mine")


def nothing(name: str) -> None:
    return None
