"""A shop's application as many are written with FastAPI, and the bridge that it has inside, below `/ai`.

Routers, dependencies, middleware and a lifespan are its own; none of it knows MCP. The bridge publishes an agent, a
server that is a program, and the application's own API.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from pydantic import BaseModel, Field

from gaia_bridge import Bridge, Progress, RequestContext, prompt, resource, source, tool

PAGE = "https://shop.example"
"""Where the pages of the shop come from."""
KEY = "open sesame"


class Book(BaseModel):
    isbn: str
    title: str
    price: float = Field(ge=0)
    stock: int = 0


class Shelves:
    """The database."""

    def __init__(self) -> None:
        self.is_open = False
        self.books = {
            "1": Book(isbn="1", title="Emma", price=12.5, stock=3),
            "2": Book(isbn="2", title="Middlemarch", price=20, stock=0),
        }


shelves = Shelves()


def opened() -> Shelves:
    if not shelves.is_open:
        raise HTTPException(503, "the shop is closed")
    return shelves


def staff(x_key: Annotated[str | None, Header()] = None) -> None:
    if x_key != KEY:
        raise HTTPException(401, "staff only")


Opened = Annotated[Shelves, Depends(opened)]
books = APIRouter(prefix="/books", tags=["books"])
office = APIRouter(prefix="/office", dependencies=[Depends(staff)])


@books.get("/{isbn}", operation_id="get_book")
def get_book(isbn: str, shop: Opened) -> Book:
    """One book."""
    if isbn not in shop.books:
        raise HTTPException(404, f"no book {isbn}")
    return shop.books[isbn]


@books.get("", operation_id="find_books")
def find_books(shop: Opened, words: str = "", limit: int = 10) -> list[Book]:
    """Books whose title has these words."""
    return [book for book in shop.books.values() if words.lower() in book.title.lower()][:limit]


@office.post("/orders", operation_id="order_book", status_code=201)
def order_book(book: Book, shop: Opened) -> Book:
    """Order more of a book."""
    shop.books[book.isbn] = book
    return book


class Bookseller:
    """Advises customers."""

    @tool(annotations={"readOnlyHint": True})
    def recommend(self, taste: Annotated[str, Field(min_length=2)], request: RequestContext) -> Book:
        """Recommend a book."""
        for number, book in enumerate(opened().books.values(), 1):
            request.report_progress(number, 2, book.title)
        request.log(f"somebody likes {taste}")
        return opened().books["1"]

    @tool
    def reserve(self, isbn: str, request: RequestContext) -> str:
        """Reserve a book, if the customer confirms."""
        answer = request.elicit(f"Reserve {opened().books[isbn].title}?", {"sure": {"type": "boolean"}})
        return f"{isbn} is reserved" if answer.accepted and answer.content["sure"] else "nothing is reserved"

    @tool
    async def count(self, request: RequestContext) -> AsyncGenerator[Progress | int]:
        """Count the stock."""
        total = 0
        for book in opened().books.values():
            total += book.stock
            yield Progress(total, None, book.title)
        yield total

    @prompt
    def review(self, isbn: str) -> str:
        """Ask for a review."""
        return f"Write a review of {opened().books[isbn].title}."

    @resource("shop://books/{isbn}", mime_type="application/json")
    def book(self, isbn: str) -> Book | None:
        """One book, as its page has it."""
        return opened().books.get(isbn)


def create_app(address: str) -> FastAPI:
    """The application.

    Args:
        address: Where it will be reached.
    """
    bridge = Bridge(
        source(Bookseller(), "bookseller"),
        servers={
            "clock": [sys.executable, str(Path(__file__).with_name("clock.py"))],
            "api": {"openapi": f"{address}/openapi.json"},
        },
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, Any]]:
        shelves.is_open = True
        async with bridge:
            yield {"shelves": shelves}
        shelves.is_open = False

    app = FastAPI(title="Bookshop", lifespan=lifespan)
    app.add_middleware(GZipMiddleware, minimum_size=1)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=[PAGE],
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=["Mcp-Session-Id"],
    )
    app.middleware("http")(stamp)
    app.include_router(books)
    app.include_router(office)
    app.mount("/ai", bridge.app(origins=[PAGE]))
    return app


async def stamp(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Says in each response what served it."""
    response = await call_next(request)
    response.headers["X-Served-By"] = "bookshop"
    return response
