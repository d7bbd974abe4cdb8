"""Weather of three cities, as FastMCP servers are written: this file knows nothing of the bridge that serves it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Literal

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.prompts import Message
from pydantic import BaseModel, Field

TEMPERATURES = {"Rome": 24.0, "Oslo": 9.5, "Cairo": 33.0}


class Reading(BaseModel):
    """What a station measured."""

    city: str
    temperature: float = Field(description="In the unit that was asked for.")
    unit: Literal["celsius", "fahrenheit"]


class Database:
    """Answers from a task of its own, as drivers of databases do: it belongs to the event loop that opened it."""

    def __init__(self) -> None:
        self.questions: asyncio.Queue[tuple[str, asyncio.Future[float]]] = asyncio.Queue()

    async def work(self) -> None:
        while True:
            city, answer = await self.questions.get()
            answer.set_result(TEMPERATURES[city])

    async def temperature(self, city: str) -> float:
        answer: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        await self.questions.put((city, answer))
        return await answer


def note(text: str) -> None:
    with Path(os.environ.get("WEATHER_LOG", os.devnull)).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


@asynccontextmanager
async def lifespan(server: FastMCP) -> AsyncIterator[dict[str, Database]]:
    database = Database()
    worker = asyncio.create_task(database.work())
    note("opened")
    try:
        yield {"database": database}
    finally:
        worker.cancel()
        note("closed")


mcp = FastMCP("Weather", instructions="Ask for one city at a time.", version="1.4.0", lifespan=lifespan)

City = Annotated[str, Field(description="A city with a station.", min_length=2)]


async def measured(city: str, ctx: Context) -> float:
    if city not in TEMPERATURES:
        raise ToolError(f"there is no station in {city}; ask for one of {', '.join(TEMPERATURES)}")
    return await ctx.lifespan_context["database"].temperature(city)


@mcp.tool(tags={"public"}, annotations={"readOnlyHint": True, "openWorldHint": False})
async def current(city: City, ctx: Context, unit: Literal["celsius", "fahrenheit"] = "celsius") -> Reading:
    """What the station of a city measures now."""
    degrees = await measured(city, ctx)
    await ctx.info(f"read the station of {city}")
    return Reading(city=city, temperature=degrees if unit == "celsius" else degrees * 9 / 5 + 32, unit=unit)


@mcp.tool(tags={"public"}, title="Compare cities")
async def warmest(cities: Annotated[list[str], Field(min_length=1, max_length=10)], ctx: Context) -> str:
    """The warmest of some cities."""
    found: dict[str, float] = {}
    for number, city in enumerate(cities, 1):
        found[city] = await measured(city, ctx)
        await ctx.report_progress(number, len(cities), city)
    return max(found, key=lambda city: found[city])


class Trip(BaseModel):
    days: int = Field(ge=1, le=30)
    by_train: bool = True


@mcp.tool
async def plan_trip(city: City, ctx: Context) -> str:
    """Plan a trip; asks for how long."""
    answer = await ctx.elicit(f"How long do you stay in {city}?", Trip)
    if answer.action != "accept":
        return "no trip"
    return f"{answer.data.days} days in {city}, {'by train' if answer.data.by_train else 'by plane'}"


@mcp.tool(tags={"admin"})
def recalibrate(city: City, offset: float = 0) -> None:
    """Change what a station measures."""
    TEMPERATURES[city] += offset


@mcp.resource("weather://stations", mime_type="application/json")
def stations() -> list[str]:
    """The cities that have a station."""
    return sorted(TEMPERATURES)


@mcp.resource("weather://{city}/current", mime_type="application/json")
async def station(city: str, ctx: Context) -> dict[str, float]:
    """What one station measures."""
    return {"celsius": await measured(city, ctx)}


@mcp.prompt(tags={"public"})
def packing_list(city: str, days: int = 3) -> list[Message]:
    """Ask what to pack."""
    return [
        Message(f"I am in {city} for {days} days. What do I pack?"),
        Message("First tell me how warm it is.", role="assistant"),
    ]


@mcp.completion
def complete(ref, argument, context):
    return [city for city in TEMPERATURES if city.lower().startswith(argument.value.lower())]


if __name__ == "__main__":
    mcp.run()
