"""`hermes setup` from nothing to a proof in each cloud: an emulator takes the keys that are typed."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from _emulators import emulated
from cli._tool import Cli
from cli.test_setup import ISOLATION, Talk, setup, written

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ADDRESSES = {
    "modal": ("MODAL_SERVER_URL", "MODAL_CONFIG_PATH"),
    "daytona": ("DAYTONA_API_URL",),
    "vercel": ("HERMES_VERCEL_API_URL",),
}
# Number of the answer, then question by question the variable that has the answer.
CLOUDS = [
    ("3", "modal", (("Token ID", "MODAL_TOKEN_ID"), ("Token secret", "MODAL_TOKEN_SECRET"))),
    ("2", "daytona", (("API key", "DAYTONA_API_KEY"),)),
    (
        "6",
        "vercel",
        (("Token", "VERCEL_TOKEN"), ("Team ID", "VERCEL_TEAM_ID"), ("Project ID", "VERCEL_PROJECT_ID")),
    ),
]


def choose(talk: Talk, number: str, place: str) -> None:
    talk.sees(ISOLATION)
    talk.types()
    talk.sees("Number [1]:")
    talk.types(number)
    talk.sees(f"Recommended: {place}.")
    talk.sees("But it cannot be used now:")
    talk.sees("What it has to be told is asked for next.")
    talk.sees(f"Place [{place}]:")
    talk.types()


def usual(talk: Talk, place: str) -> None:
    if place == "vercel":
        talk.sees("Runtime, such as node24 or python3.13 (Enter: the usual)")
        talk.types()


@pytest.mark.parametrize(("number", "place", "asked"), CLOUDS, ids=[cloud[1] for cloud in CLOUDS])
def test_a_cloud(cli: Cli, number: str, place: str, asked: Sequence[tuple[str, str]]) -> None:
    with emulated(place) as cloud:
        known = {name: cloud.settings[name] for name in ADDRESSES[place]}
        secrets = [cloud.settings[name] for _, name in asked if "TEAM" not in name and "PROJECT" not in name]
        with setup(cli, **known) as talk:
            # A key that is wrong is told, and nothing is kept of it.
            choose(talk, number, place)
            for question, name in asked:
                talk.sees(question)
                talk.types(cloud.settings[name] + "-wrong")
            usual(talk, place)
            talk.sees("hermes: error:")
            talk.sees("Nothing was changed. Try again?")
            assert not (cli.home / "config.yaml").exists()
            assert not (cli.home / ".env").exists()
            talk.types()
            choose(talk, number, place)
            for question, name in asked:
                talk.sees(question)
                talk.types(cloud.settings[name])
            usual(talk, place)
            talk.proof()
        assert not any(secret in talk.screen for secret in secrets), talk.screen
        assert written(cli)["sandbox"] == place
        kept = (cli.home / ".env").read_text()
        assert all(secret in kept for secret in secrets)
        assert (cli.home / ".env").stat().st_mode & 0o777 == 0o600
        text = (cli.home / "config.yaml").read_text()
        assert not any(secret in text for secret in secrets), text
        assert cloud.sandboxes() == [] or all(one.get("state") != "running" for one in cloud.sandboxes())
        env = {**os.environ, **known}
        assert cli.out("exec", "-q", "--rm", "echo from here", env=env, timeout=60) == "from here\n"
