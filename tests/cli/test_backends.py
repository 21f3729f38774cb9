"""`hermes backends`: all places, and what each is good for."""

from __future__ import annotations

import os

from cli._tool import HERMES, Cli
from cli.test_shell import Terminal
from hermes import survey
from hermes.backends import TABLE, _catalog


def test_every_place_is_there(cli: Cli) -> None:
    cli("config", "set", "sandbox", "docker")
    found = {one["place"]: one for one in cli.json("backends", "--json")}
    assert {"local", "docker", "ssh", "singularity", "modal", "daytona", "vercel", "jail"} <= set(found)
    assert found["local"]["usable"]
    assert found["local"]["verified"] == "real"
    assert found["docker"]["configured"] and not found["local"]["configured"]
    assert not found["ssh"]["usable"]
    assert "TERMINAL_SSH_HOST" in found["ssh"]["missing"]
    assert not found["modal"]["usable"]
    assert "MODAL_TOKEN_ID" in found["modal"]["missing"]
    assert found["daytona"]["verified"] == "emulator"
    assert "DAYTONA_API_KEY" in found["daytona"]["missing"]
    assert all(one["for"] and one["cost"] and one["files"] for one in found.values())


def test_the_table_fits_a_terminal(cli: Cli) -> None:
    survey.remember("local", 0.00047)
    screen = Terminal(["/usr/bin/env", "TERM=dumb", *HERMES, "backends"], cli)
    try:
        text = screen.expect("vercel: near Vercel projects. Not now: Vercel's credentials lack")
    finally:
        screen.close()
    lines = text.replace("\r", "").splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "VERIFIED" in lines[0]
    assert next(line for line in lines if line.startswith("  local ")).split()[3:5] == ["0.47", "ms"]
    assert any(line.startswith("ssh: work on other machines. Not now: ") for line in lines)


def test_what_can_be_chosen_is_described_once() -> None:
    assert set(_catalog.ABOUT) == set(TABLE)


def test_the_figure_is_that_of_the_last_bench(cli: Cli) -> None:
    assert survey.measured("local") is None
    report = cli.json("bench", "--sandbox", "local", "--json", "--runs", "5", timeout=55)
    median = next(row["hermes"]["median"] for row in report["rows"] if row["key"] == "true")
    found = {one["place"]: one for one in cli.json("backends", "--json")}
    assert found["local"]["median_s"] == survey.measured("local") == median
    (cli.home / "state" / "bench.json").write_text("{")
    assert survey.measured("local") is None
    assert os.path.exists(cli.home / "state" / "bench.json")
