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
