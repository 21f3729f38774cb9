"""``hermes usage``: what people and programs see of it."""

from __future__ import annotations

import time

import msgspec

from cli._tool import Cli
from hermes import usage
from hermes.usage import Change, Size

GIB = 1 << 30


def test_what_people_see(cli: Cli) -> None:
    assert "Nothing that is billed ran" in cli.out("usage")
    now = time.time()
    change = Change(
        at=now - 3600, state="up", place="daytona", id="a1", name="work", size=Size(cpus=1, memory=GIB)
    )
    other = Change(at=now - 60, state="up", place="mars", id="b1", name="odd")
    cli.home.mkdir(mode=0o700, exist_ok=True)
    with open(cli.home / "usage.jsonl", "wb") as file:
        for line in (change, other):
            file.write(msgspec.json.encode(line) + b"\n")
    text = cli.out("usage", "--by", "place")
    assert "daytona" in text
    assert "0.0666 USD" in text or "0.0667 USD" in text
    assert "?" in text
    assert "2 running now" in text
    assert "An estimate" in text
    record = cli.json("usage", "--json")
    assert record["prices"]["dated"] == usage.prices().dated
    assert {row["place"] for row in record["rows"]} == {"daytona", "mars"}
    wrong = cli("usage", "--by", "week")
    assert wrong.returncode == 125
    assert b"choose from: day, place, sandbox" in wrong.stderr


def test_what_runs_is_listed_with_its_cost_so_far(cli: Cli) -> None:
    cli.out("exec", "-q", "--name", "free", "true")
    cli.out("exec", "-q", "--name", "paid", "true")
    assert "USD" not in cli.out("sandbox", "ls")
    # As a place that is billed notes it.
    ident = next(one["id"] for one in cli.json("sandbox", "ls", "--json") if one["name"] == "paid")
    size, now = Size(cpus=1, memory=GIB), time.time()
    (cli.home / "prices.json").write_text(
        '{"dated": "2030-01-01", "currency": "EUR", "places": {"local": {"core_hour": 2.0}}}'
    )
    change = Change(at=now - 26 * 3600, state="up", place="local", id=ident, size=size)
    (cli.home / "usage.jsonl").write_bytes(msgspec.json.encode(change) + b"\n")
    head, free, paid = cli.out("sandbox", "ls").splitlines()
    assert head.split() == ["NAME", "PLACE", "STATE", "AGE", "IDLE", "EUR", "WORKSPACE"]
    assert (free.split()[5], paid.split()[5]) == ("-", "52.00")
    costs = [one["cost"] for one in cli.json("sandbox", "ls", "--json")]
    assert costs[0] is None
    assert costs[1]["currency"] == "EUR" and 52 < costs[1]["estimate"] < 52.1
    (cli.home / "prices.json").write_text("{")
    done = cli("sandbox", "ls")
    assert done.returncode == 0 and b"prices.json cannot be used" in done.stderr
    assert b"EUR" not in done.stdout
