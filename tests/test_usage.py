"""The log of what is billed, the prices, and the sums."""

from __future__ import annotations

import datetime
import multiprocessing
import time
from pathlib import Path

import pytest

from hermes import usage
from hermes.errors import ConfigError
from hermes.usage import Change, Price, Prices, Size

GIB = 1 << 30
LIST = Prices(
    dated="2026-01-01",
    currency="USD",
    places={"mars": Price(core_hour=3.6, gib_hour=0.36, gpu_hour={"T4": 36.0}, create=1.0)},
)
SMALL = Size(cpus=2, memory=4 * GIB)  # 0.002 + 0.0004 a second
NOON = datetime.datetime(2026, 5, 4, 12, tzinfo=datetime.UTC).timestamp()


def up(at: float, *, ident: str = "a", **more: object) -> Change:
    return Change(at=at, state="up", place="mars", id=ident, name="box", size=SMALL, **more)  # type: ignore[arg-type]


def down(at: float, *, ident: str = "a") -> Change:
    return Change(at=at, state="down", place="mars", id=ident)


def test_what_ran_is_billed_for_as_long_as_it_ran() -> None:
    (row,) = usage.rows([up(NOON, new=True), down(NOON + 100)], LIST)
    assert (row.place, row.name, row.id, row.day) == ("mars", "box", "a", "2026-05-04")
    assert row.seconds == 100
    assert row.cost == pytest.approx(1.0 + 0.24)
    assert not row.running


def test_sleep_costs_nothing_and_waking_no_second_creation() -> None:
    changes = [up(NOON, new=True), down(NOON + 100), up(NOON + 1000), down(NOON + 1100)]
    (row,) = usage.rows(changes, LIST)
    assert row.seconds == 200
    assert row.cost == pytest.approx(1.0 + 0.48)


def test_what_still_runs_is_counted_until_now_or_until_its_provider_ends_it() -> None:
    today = time.time()
    (row,) = usage.rows([up(today - 10)], LIST, now=today)
    assert row.running
    assert row.seconds == pytest.approx(10)
    (row,) = usage.rows([up(NOON, until=NOON + 300)], LIST, now=NOON + 10_000)
    assert row.seconds == 300
    assert not row.running


def test_days_are_cut_at_midnight() -> None:
    late = datetime.datetime(2026, 5, 4, 23, 59, tzinfo=datetime.UTC).timestamp()
    first, second = usage.rows([up(late, new=True), down(late + 180)], LIST)
    assert (first.day, second.day) == ("2026-05-04", "2026-05-05")
    assert (first.seconds, second.seconds) == (60, 120)
    assert first.cost == pytest.approx(1.0 + 60 * 0.0024)
    assert second.cost == pytest.approx(120 * 0.0024)


def test_a_down_was_lost_and_an_up_came_again() -> None:
    (row,) = usage.rows([up(NOON), up(NOON + 50), down(NOON + 60), down(NOON + 70)], LIST)
    assert row.seconds == 60


def test_what_has_no_price_has_no_cost() -> None:
    other = Change(at=NOON, state="up", place="venus", id="b")
    unknown = Change(at=NOON, state="up", place="mars", id="c", size=Size(gpu="H900", gpus=1))
    priced = Change(at=NOON, state="up", place="mars", id="d", size=Size(gpu="T4", gpus=2))
    found = {row.id: row.cost for row in usage.rows([other, unknown, priced], LIST, now=NOON + 10)}
    assert found["b"] is None
    assert found["c"] is None
    assert found["d"] == pytest.approx(0.2)
    sums = usage.total(usage.rows([other, up(NOON)], LIST, now=NOON + 10), "day")
    assert sums == {"2026-05-04": (20.0, None)}


def test_the_log_survives_a_line_that_was_cut_off(hermes_home: Path) -> None:
    usage.write(up(NOON))
    with open(hermes_home / "usage.jsonl", "a", encoding="utf-8") as file:
        file.write('{"at": 1, "sta\n')
    usage.write(down(NOON + 1))
    problems: list[str] = []
    assert usage.read(problems) == [up(NOON), down(NOON + 1)]
    assert len(problems) == 1
    assert "line 2" in problems[0]
    assert (hermes_home / "usage.jsonl").stat().st_mode & 0o777 == 0o600


def _write_many(who: str) -> None:
    for n in range(200):
        usage.write(up(NOON + n, ident=who))


def test_many_processes_write_at_once(hermes_home: Path) -> None:
    workers = [multiprocessing.Process(target=_write_many, args=(who,)) for who in "abcd"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    problems: list[str] = []
    assert len(usage.read(problems)) == 800
    assert not problems


def test_own_prices_count_and_must_make_sense(hermes_home: Path) -> None:
    shipped = usage.prices()
    assert {"modal", "daytona", "vercel"} <= set(shipped.places)
    hermes_home.mkdir(mode=0o700)
    (hermes_home / "prices.json").write_text('{"dated": "2030-01-01", "currency": "EUR", "places": {}}')
    assert usage.prices().currency == "EUR"
    (hermes_home / "prices.json").write_text('{"dated": "2030-01-01", "places": {"modal": {"core": 1}}}')
    with pytest.raises(ConfigError, match=r"prices\.json cannot be used"):
        usage.prices()
