"""What a new agent is called everywhere, after the one name that somebody typed."""

from __future__ import annotations

import keyword
import sys
from typing import Final

from msgspec import Struct

from gaia_bridge.constants import OWN_PACKAGES, SHIPPED_AGENTS
from gaia_bridge.errors import ConfigError
from gaia_bridge.protocol.names import agent_name, words_of
from gaia_bridge.text.escaping import printable

_LONGEST: Final = 40
"""Characters of a name: what is made of it twice fits in one line of code."""

_FIRST: Final = "my"
"""The first word of a name that has none that Python takes: `3d-print`, or one that is all Chinese."""

_TESTS: Final = "test"
"""How the names of files and classes begin that pytest takes for tests."""

_OWN_MODULES: Final = frozenset({"conftest", "gaia_agents", "setup", *OWN_PACKAGES})
"""What a file of an agent would hide, or be taken for."""


class AgentNames(Struct, frozen=True):
    """The names of one agent.

    Args:
        title: For people: `My weather`.
        published: What it is published as, which is the name of its entry point: `my-weather`.
        distribution: What its project is installed as: `my-weather-agent`.
        module: Its file, without `.py`: `my_weather_agent`.
        class_name: `MyWeatherAgent`.
    """

    title: str
    published: str
    distribution: str
    module: str
    class_name: str


def names_of(name: str) -> AgentNames:
    """The names of an agent. Whatever the name is made of, its module and its class are names that Python takes.

    Args:
        name: What somebody typed: `my-weather`, `MyWeatherAgent`, `My weather!`.

    Raises:
        ConfigError: It is no name at all, or that of an agent that ships with the bridge.
    """
    shown = f"the name {printable(name, _LONGEST)!r}"
    expected = f"expected 1 to {_LONGEST} printable characters"
    if not name.strip():
        raise ConfigError(shown, f"it is blank; {expected}", "choose a name such as my-weather")
    if len(name) > _LONGEST:
        raise ConfigError(shown, f"it has {len(name)} characters; {expected}", "choose a shorter one")
    if not name.isprintable():
        raise ConfigError(shown, f"it has characters that cannot be printed; {expected}", "leave them out")
    words = [word.lower() for word in words_of(name)]
    if words[-1:] == ["agent"]:
        words.pop()
    if not words or words[0][0].isdigit() or words[0].startswith(_TESTS):
        words.insert(0, _FIRST)
    class_name = "".join(word.capitalize() for word in words) + "Agent"
    published = agent_name(class_name)
    if published in SHIPPED_AGENTS:
        taken = " and ".join(SHIPPED_AGENTS)
        problem = f"an agent that ships with the bridge is called {published}; expected any name but {taken}"
        raise ConfigError(shown, problem, f"choose another, such as my-{published}")
    module = "_".join((*words, "agent"))
    return AgentNames(" ".join(words).capitalize(), published, module.replace("_", "-"), module, class_name)


def names_of_file(names: AgentNames, module: str) -> AgentNames:
    """The names of an agent whose file is called otherwise.

    Args:
        names: Its names.
        module: The name of its file, without `.py`.

    Raises:
        ConfigError: The file could not be imported, or would hide another module.
    """
    place = f"--file {printable(module)}.py"
    hint = f"choose another file, such as {names.module}.py"
    if not module.isidentifier() or keyword.iskeyword(module):
        kind = "a keyword of Python" if keyword.iskeyword(module) else "no name that Python can import"
        raise ConfigError(place, f"{module!r} is {kind}; expected letters, digits and _, no digit first", hint)
    if module in sys.stdlib_module_names or module in _OWN_MODULES:
        raise ConfigError(place, f"{module!r} is the name of another module; expected one that hides none", hint)
    if module.startswith(("_", f"{_TESTS}_")) or module.endswith("_test"):
        kind = "left out where a folder is served" if module.startswith("_") else "taken for tests"
        raise ConfigError(place, f"files called so are {kind}; expected the file of an agent", hint)
    return AgentNames(names.title, names.published, names.distribution, module, names.class_name)
