"""What a model reads in one turn of an agent with many tools: all of them offered, deferred, and deferred by words.

    python benchmarks/prompt_tokens.py [--tools 200] [--steps 1 3] [--json]

Nothing is asked of a model: a scripted one plays the turn (searches where it has to, calls each tool that it needs
once, and answers), and everything that it was sent is counted as OpenAI counts it, with the o200k_base vocabulary.
`npm` installs that (js-tiktoken, 22 MB) into a temporary folder. A real model may search more often, or otherwise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from gaia.agents.base import Agent, Tool
from gaia.llm import Reply
from gaia_bridge.text.json_types import JSON
from tests.support.fake_model import Asked, FakeModel, call, say

PACKAGE = "js-tiktoken@1"
COUNTER = """
import { getEncoding } from "js-tiktoken";
let text = "";
for await (const chunk of process.stdin) text += chunk;
const encoding = getEncoding("o200k_base");
console.log(JSON.stringify(JSON.parse(text).map((part) => encoding.encode(part, "all").length)));
"""

SERVICES = {
    "calendar": "event",
    "contacts": "person",
    "database": "row",
    "files": "file",
    "github": "issue",
    "images": "picture",
    "jira": "ticket",
    "kubernetes": "pod",
    "logs": "entry",
    "mail": "message",
    "maps": "place",
    "music": "song",
    "notes": "note",
    "payments": "invoice",
    "printers": "job",
    "slack": "thread",
    "stocks": "quote",
    "tasks": "task",
    "translations": "term",
    "weather": "forecast",
}
VERBS = {
    "archive": "Moves {a} out of the way. It can still be found, and be taken back within ninety days.",
    "count": "Counts every {a} that fits a filter, and groups them by one of their fields.",
    "create": "Makes a new {a}. Fails if one of that name is there already, unless `replace` is set.",
    "delete": "Removes {a} for good. This cannot be undone; ask the user before you do it.",
    "export": "Writes every {a} that fits a filter to a file, as CSV, JSON or Markdown.",
    "get": "Reads one {a} by its identifier, with all of its fields and its history.",
    "list": "Lists every {a}, newest first, in pages. Use the cursor of one page to ask for the next.",
    "search": "Finds each {a} whose text has all of the words, the best match first.",
    "share": "Gives other people access to {a}, to read it or to change it, until a date.",
    "update": "Changes some fields of {a}. Fields that are not named stay as they are.",
}


class Recorded(Tool):
    """A tool of a common size, as servers of some service have them."""

    def __init__(self, service: str, verb: str, thing: str) -> None:
        name = f"{service}_{verb}_{thing}"
        properties: JSON = {
            "id": {"type": "string", "description": f"Identifier of the {thing}, as `{service}_list_{thing}` tells it"},
            "fields": {"type": "array", "items": {"type": "string"}, "description": "Which fields to return"},
            "filter": {"type": "string", "description": "What it has to fit, such as `owner:me after:2026-01-01`"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 20},
            "format": {"type": "string", "enum": ["short", "full"], "default": "short"},
        }
        schema: JSON = {"type": "object", "properties": properties, "required": ["id"]}
        super().__init__(name, VERBS[verb].format(a=f"a {thing}"), schema)

    def call(self, **kwargs: Any) -> JSON:
        """Answer something of a common size."""
        return {"id": kwargs["id"], "state": "done", "items": [f"{self.name} {n}" for n in range(5)]}


def tools(count: int) -> list[Tool]:
    """So many tools, of twenty services."""
    made: list[Tool] = [Recorded(service, verb, thing) for service, thing in SERVICES.items() for verb in VERBS]
    return made[:count]


def script(needed: Sequence[Tool], search: str) -> list[Reply]:
    """What the model does: for each tool that it needs, a search if there is one, and the call."""
    replies: list[Reply] = []
    for tool in needed:
        service, verb, _ = tool.name.split("_", 2)
        if search == "tool_search_regex":
            replies.append(call(search, pattern=f"{service}.*{verb}"))
        elif search == "tool_search":
            replies.append(call(search, query=f"{verb} in {service}", limit=3))
        replies.append(call(tool.name, id="42"))
    return [*replies, say("It is done: all that you wanted is in order, and I have listed what I changed above.")]


def turn(count: int, steps: int, search: str) -> list[Asked]:
    """Everything that the model was sent in one turn with so many tools to call."""
    made = tools(count)
    needed = made[:: max(1, len(made) // steps)][:steps]
    model = FakeModel(*script(needed, search))
    agent = Agent(
        model=model,
        tools=made,
        silent_mode=True,
        system_prompt="You help people with their daily work, with the tools that you have.",
        tool_threshold=15 if search else count + 1,
        ranked_search=search == "tool_search",
        max_steps=50,
    )
    agent.run("Please put my things in order, as we said yesterday.")
    agent.close()
    return model.asked


def sent(asked: Asked) -> str:
    """One request as text. Servers write tools in ways of their own; JSON is close to most of them."""
    return json.dumps([asked.messages, asked.tools], ensure_ascii=False, separators=(",", ":"))


def counter(folder: Path) -> Callable[[list[str]], list[int]]:
    """Counts the tokens of texts."""
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", PACKAGE], cwd=folder, check=True)
    (folder / "count.mjs").write_text(COUNTER, "utf-8")

    def count(texts: list[str]) -> list[int]:
        done = subprocess.run(
            ["node", "count.mjs"], cwd=folder, input=json.dumps(texts).encode(), stdout=subprocess.PIPE, check=True
        )
        found: list[int] = json.loads(done.stdout)
        return found

    return count


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=int, default=200, choices=range(1, 201), metavar="1..200")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 3], help="tools that are needed in the turn")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ways = {"all offered": "", "deferred, by pattern": "tool_search_regex", "deferred, by words": "tool_search"}
    rows: list[JSON] = []
    with tempfile.TemporaryDirectory() as folder:
        count = counter(Path(folder))
        for steps in options.steps:
            for way, search in ways.items():
                tokens = count([sent(asked) for asked in turn(options.tools, steps, search)])
                rows.append(
                    {"needed": steps, "way": way, "requests": len(tokens), "first": tokens[0], "turn": sum(tokens)}
                )
    if options.json:
        print(json.dumps(rows))  # noqa: T201
        return
    print(f"{options.tools} tools; tokens (o200k_base) of what the model is sent")  # noqa: T201
    print(f"{'tools needed':>12} {'way':22} {'requests':>8} {'first request':>14} {'whole turn':>11}")  # noqa: T201
    for row in rows:
        line = f"{row['needed']:12} {row['way']:22} {row['requests']:8} {row['first']:14,} {row['turn']:11,}"
        print(line)  # noqa: T201


if __name__ == "__main__":
    main()
