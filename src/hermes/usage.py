"""What places that are billed were used for: a log of when each ran, and what that costs by a list of prices.

The log is ``usage.jsonl`` in hermes's home, one line per change: ``up`` when a place was made or woken, and
``down`` when it was suspended, removed or found to be gone. A place that is ``up`` is billed until the next
line about it, or until its provider ends it by itself (``until``), whichever comes first. The prices are
hermes's own, with their date, unless ``prices.json`` lies in its home. Days are those of UTC.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from .config import home, make_private
from .errors import ConfigError, HermesError

__all__ = [
    "Change",
    "Price",
    "Prices",
    "Row",
    "Size",
    "cost_per_second",
    "prices",
    "read",
    "rows",
    "since",
    "so_far",
    "total",
    "write",
]

LOG = "usage.jsonl"
PRICES = "prices.json"


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """What is billed while a place runs: cores, memory in bytes, GPUs as ``KIND`` and a count."""

    cpus: float = 0.0
    memory: float = 0.0
    gpu: str = ""
    gpus: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log. ``at`` and ``until`` are seconds since the epoch; ``new``: it was made, not woken.

    ``until``: when the provider ends it without a client, as far as that is known.
    """

    at: float
    state: Literal["up", "down"]
    place: str
    id: str
    name: str = ""
    new: bool = False
    until: float | None = None
    size: Size = Size()


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one provider: per core and hour, per GiB and hour, per GPU and hour, per sandbox made."""

    source: str = ""
    core_hour: float = 0.0
    gib_hour: float = 0.0
    gpu_hour: dict[str, float] = {}
    create: float = 0.0


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A list of prices. ``dated``: the day as of which they hold."""

    dated: str
    currency: str
    places: dict[str, Price]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one sandbox used on one day. ``cost`` is None where there is no price for it."""

    place: str
    name: str
    id: str
    day: str
    seconds: float
    cost: float | None
    running: bool


def write(change: Change) -> None:
    """Append to the log. Blocks.

    :raises HermesError: code ``state_unwritable``
    """
    folder = home()
    try:
        make_private(folder)
        fd = os.open(
            folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            os.write(fd, msgspec.json.encode(change) + b"\n")  # one call: other processes append too
        finally:
            os.close(fd)
    except OSError as error:
        raise HermesError(
            f"{folder / LOG} could not be written: {error.strerror}; the use of {change.place} was not noted",
            code="state_unwritable",
        ) from error


def read(problems: list[str] | None = None) -> list[Change]:
    """Return the log in its order. Blocks.

    :param problems: gets a sentence for each line that makes no sense, such as one cut off by a full disk
    :raises HermesError: code ``state_unreadable``
    """
    path = home() / LOG
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HermesError(f"{path} cannot be read: {error.strerror}", code="state_unreadable") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(msgspec.json.decode(line, type=Change))
        except (msgspec.DecodeError, UnicodeDecodeError):
            if problems is not None:
                problems.append(f"{path}, line {number}, makes no sense and was left out")
    return found


def prices() -> Prices:
    """Return the prices that hold: those in hermes's home, otherwise its own. Blocks.

    :raises ConfigError: the file in the home makes no sense
    """
    own = home() / PRICES
    try:
        return msgspec.json.decode(own.read_bytes(), type=Prices)
    except FileNotFoundError:
        return msgspec.json.decode(Path(__file__).with_name(PRICES).read_bytes(), type=Prices)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{own} cannot be used: {error}", hint="Mend it, or remove it: hermes has prices of its own."
        ) from error


def cost_per_second(price: Price | None, size: Size) -> float | None:
    """Return what a running place of that size costs a second; None where a part of it has no price."""
    if price is None or (size.gpus and size.gpu not in price.gpu_hour):
        return None
    gpus = price.gpu_hour[size.gpu] * size.gpus if size.gpus else 0.0
    return (price.core_hour * size.cpus + price.gib_hour * size.memory / (1 << 30) + gpus) / 3600


def rows(changes: Iterable[Change], listed: Prices, now: float | None = None) -> list[Row]:
    """Return one row for each sandbox and day, in the order of days.

    :param now: until when what still runs is counted; None for the present
    """
    now = time.time() if now is None else now
    seconds: dict[tuple[str, str, str], float] = {}
    costs: dict[tuple[str, str, str], float | None] = {}
    names: dict[tuple[str, str], str] = {}
    running: dict[tuple[str, str], Change] = {}

    def count(change: Change, end: float) -> None:
        if change.until is not None:
            end = min(end, change.until)
        price = listed.places.get(change.place)
        rate = cost_per_second(price, change.size)
        extra = price.create if price is not None and change.new else 0.0
        for day, part in _days(change.at, max(end, change.at)):
            key = (day, change.place, change.id)
            seconds[key] = seconds.get(key, 0.0) + part
            before = costs.get(key, 0.0)
            costs[key] = None if rate is None or before is None else before + rate * part + extra
            extra = 0.0

    for change in sorted(changes, key=lambda c: c.at):
        who = (change.place, change.id)
        names[who] = change.name or names.get(who, "")
        if who in running:
            count(running.pop(who), change.at)
        if change.state == "up":
            running[who] = change
    for change in running.values():
        count(change, now)
    alive = {who for who, change in running.items() if change.until is None or change.until > now}
    return [
        Row(
            place=place,
            name=names[place, ident],
            id=ident,
            day=day,
            seconds=seconds[day, place, ident],
            cost=costs[day, place, ident],
            running=(place, ident) in alive and day == _day(now).isoformat(),
        )
        for day, place, ident in sorted(seconds)
    ]


def since(found: Iterable[Row], days: int) -> list[Row]:
    """Return the rows of the last so many days, today among them."""
    first = (_day(time.time()) - datetime.timedelta(days=days - 1)).isoformat()
    return [row for row in found if row.day >= first]


def total(
    found: Iterable[Row], by: Literal["day", "place", "sandbox"]
) -> Mapping[str, tuple[float, float | None]]:
    """Return seconds and cost for each day, place, or sandbox (``PLACE/NAME``)."""
    sums: dict[str, tuple[float, float | None]] = {}
    for row in found:
        key = {"day": row.day, "place": row.place, "sandbox": f"{row.place}/{row.name or row.id}"}[by]
        before, cost = sums.get(key, (0.0, 0.0))
        sums[key] = (before + row.seconds, None if cost is None or row.cost is None else cost + row.cost)
    return sums


def so_far(changes: Iterable[Change], listed: Prices) -> Mapping[tuple[str, str], float | None]:
    """Return what each sandbox, as (place, id), has cost in all, None where there is no price for it."""
    sums: dict[tuple[str, str], float | None] = {}
    for row in rows(changes, listed):
        before = sums.get((row.place, row.id), 0.0)
        sums[row.place, row.id] = None if before is None or row.cost is None else before + row.cost
    return sums


def _day(at: float) -> datetime.date:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).date()


def _days(start: float, end: float) -> Iterable[tuple[str, float]]:
    """Cut a span of time at midnights."""
    while True:
        day = _day(start)
        midnight = datetime.datetime.combine(
            day + datetime.timedelta(days=1), datetime.time(), datetime.UTC
        ).timestamp()
        yield day.isoformat(), min(end, midnight) - start
        if end <= midnight:
            return
        start = midnight
