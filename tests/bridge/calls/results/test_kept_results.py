"""What was taken out of results: bounded as a whole, and shared fairly among those who read it."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from gaia_bridge.calls.results import kept_results
from gaia_bridge.calls.results.kept_results import Kept, KeptResults, new_uri


def kept_of(results: KeptResults, *sizes: int, owner: str) -> list[str | None]:
    """The addresses of results of so many bytes; `None` for what there was no room for."""
    made = [Kept(new_uri(), [{"text": ""}], size, owner) for size in sizes]
    return [kept.uri if results.keep(kept) else None for kept in made]


def there(results: KeptResults, uris: list[str | None], owner: str) -> list[bool]:
    return [uri is not None and results.contents(uri, owner) is not None for uri in uris]


def test_one_client_has_the_whole_and_its_oldest_goes_first() -> None:
    results = KeptResults(60, 3, 100)
    uris = kept_of(results, 40, 40, 40, 90, 101, owner="a")
    assert uris[-1] is None
    assert there(results, uris, "a") == [False, False, False, True, False]
    few = kept_of(results, 1, 1, 1, 1, owner="a")
    assert there(results, few, "a") == [False, True, True, True]


def test_who_has_much_pushes_out_nothing_of_who_has_little() -> None:
    results = KeptResults(60, 100, 100)
    little = kept_of(results, 10, owner="little")
    much = kept_of(results, *[30] * 9, owner="much")
    assert there(results, little, "little") == [True]
    assert there(results, much, "much") == [False] * 6 + [True] * 3
    assert kept_of(results, 91, owner="much") == [None]  # that would be of the other's
    assert there(results, much, "much") == [False] * 6 + [True] * 3


def test_the_oldest_of_who_has_most_gives_way() -> None:
    results = KeptResults(60, 100, 100)
    small = kept_of(results, 20, owner="small")
    large = kept_of(results, 30, 30, owner="large")
    new = kept_of(results, 33, owner="new")
    assert there(results, small, "small") == [True]
    assert there(results, large, "large") == [False, True]
    assert there(results, new, "new") == [True]
    assert kept_of(results, 51, owner="new") == [None]  # beside 20 and a third of the whole
    assert there(results, new, "new") == [True]


def test_the_number_of_results_is_shared_as_their_bytes_are() -> None:
    results = KeptResults(60, 4, 1_000)
    first = kept_of(results, 1, owner="a")
    many = kept_of(results, *[1] * 50, owner="b")
    assert there(results, first, "a") == [True]
    assert there(results, many, "b") == [False] * 47 + [True] * 3
    others = [kept_of(results, 1, owner=name) for name in "cdefgh"]
    assert [there(results, uris, name) for name, uris in zip("cdefgh", others, strict=True)] == [[False]] * 2 + [
        [True]
    ] * 4


def test_whatever_comes_it_is_bounded_and_nobody_loses_of_its_share() -> None:
    chance = random.Random(7)
    results = KeptResults(60, 12, 1_000)
    kept, uses = results._kept, results._uses  # pyright: ignore[reportPrivateUsage]
    for _ in range(3_000):
        owner = chance.choice("abcde")
        before = {str(name): (use.size, use.entries) for name, use in uses.items()}
        clients = len(before.keys() | {owner})
        kept_of(results, chance.choice((1, 50, 200, 700, 1_001)), owner=owner)
        assert len(kept) <= 12
        assert sum(each.size for each in kept.values()) <= 1_000
        counted = {name: [each.size for each in kept.values() if each.owner == name] for name in "abcde"}
        now = {name: (sum(sizes), len(sizes)) for name, sizes in counted.items() if sizes}
        assert now == {name: (use.size, use.entries) for name, use in uses.items()}
        for name, (size, entries) in before.items():
            if name != owner and size <= 1_000 // clients and entries <= 12 // clients:
                assert now[name] == (size, entries)
        if chance.random() < 0.02:
            results.forget(chance.choice("abcde"))


def test_what_has_been_kept_for_long_enough_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(kept_results, "time", SimpleNamespace(monotonic=lambda: now[0]))
    results = KeptResults(50, 12, 1_000)
    old = kept_of(results, 900, owner="a")
    assert kept_of(results, 900, owner="b") == [None]
    now[0] += 51
    assert there(results, kept_of(results, 900, owner="b"), "b") == [True]
    assert there(results, old, "a") == [False]


def test_nothing_is_kept_where_nothing_may_be() -> None:
    assert kept_of(KeptResults(60, 0, 100), 1, owner="a") == [None]
    assert kept_of(KeptResults(60, 1, 0), 1, owner="a") == [None]
