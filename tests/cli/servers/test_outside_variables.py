"""What `docker run` hands on by name alone is given to docker, and secrets do not stand on its command line."""

from __future__ import annotations

import pytest

from gaia_bridge.text.json_types import JSON
from gaia_bridge_cli.servers.outside_variables import with_container_variables

TWO: JSON = {"TOKEN": "${env:TOKEN}", "ZONE": "${env:ZONE}"}


@pytest.mark.parametrize(
    ("line", "args", "env"),
    [
        ("docker run -e TOKEN image", "run -e TOKEN image", {"TOKEN": "${env:TOKEN}"}),
        ("podman run --env TOKEN image", "run --env TOKEN image", {"TOKEN": "${env:TOKEN}"}),
        (
            "docker run -eTOKEN --env=ZONE image",
            "run -eTOKEN --env=ZONE image",
            TWO,
        ),
        ("docker run -e TOKEN=s3cr3t image", "run -e TOKEN image", {"TOKEN": "s3cr3t"}),
        ("docker run --env=TOKEN=s3cr3t image", "run --env=TOKEN image", {"TOKEN": "s3cr3t"}),
        ("docker run -e TOKEN=${env:MINE} image", "run -e TOKEN=${env:MINE} image", None),
        ("docker run -e ZONE=UTC image", "run -e ZONE=UTC image", None),
        ("docker run --env-file e image", "run --env-file e image", None),
        ("node -e TOKEN", "-e TOKEN", None),
    ],
)
def test_variables_of_containers_are_referred_to(line: str, args: str, env: JSON | None) -> None:
    command, *words = line.split()
    made, named = with_container_variables({"command": command, "args": words})
    assert (made["args"], made.get("env")) == (args.split(), env)
    assert named == [name for name, value in (env or {}).items() if value.startswith("$")]


def test_a_variable_that_the_entry_sets_itself_stays() -> None:
    entry: JSON = {"command": "docker", "args": ["run", "-e", "TOKEN", "image"], "env": {"TOKEN": "${env:OTHER}"}}
    assert with_container_variables(entry) == (entry, [])
    entry = {"command": "docker", "args": ["run", "-e", "TOKEN", "image"], "inherit_env": True}
    assert with_container_variables(entry) == (entry, [])
