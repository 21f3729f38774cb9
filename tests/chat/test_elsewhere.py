"""The command itself, with a place that is named for one task."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from _containers import IMAGES, PLACES
from chat._server import Say, Script, Server, call
from cli._tool import Cli
from credentials.conftest import Cloud

pytestmark = pytest.mark.timeout(180)


def test_one_task_in_a_container_on_the_files_here(cli: Cli, model: Server) -> None:
    (cli.cwd / "numbers").write_text("1\n2\n3\n")
    place = PLACES[0]

    def script() -> Script:
        seen = yield call("terminal", command="paste -sd+ numbers; ls -a ~ | head; echo gone >/gone")
        assert "1+2+3" in seen.last and "Read-only" in seen.last
        system = seen.system
        assert f"Place: {place}" in system and "a container" in system and "nothing is asked" in system
        seen = yield call("write_file", path="sum", content="6\n")
        seen = yield call("terminal", command="rm -rf numbers")  # nothing is asked: the place is the boundary
        assert "exit code 0" in seen.last
        yield Say("6")

    model.play(script)
    done = cli("--sandbox", place, "--image", IMAGES[place], "--here", "--rm", "-q", "add them", timeout=120)
    assert (done.returncode, done.stdout) == (0, b"6\n"), done
    assert sorted(one.name for one in cli.cwd.iterdir()) == ["sum"]
    assert f"[{place}] $ paste".encode() in done.stderr
    assert cli.json("sandbox", "ls", "--json") == []


def test_one_task_in_a_cloud_leaves_the_default_alone(
    cli: Cli, model: Server, clouds: Callable[[str], Cloud], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("modal")
    cloud = clouds("modal")
    for key, value in cloud.emulator.settings.items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv("HERMES_SANDBOX")
    config = cli.home / "config.yaml"
    cli.home.mkdir(mode=0o700)
    config.write_text("sandbox: local\n")
    model.play([call("terminal", command="echo $((6*7)) >answer; cat answer"), Say("42")])
    done = cli("--sandbox", "modal", "--gpu", "A100", "-q", "train it", timeout=120)
    assert (done.returncode, done.stdout) == (0, b"42\n"), done
    assert "Place: modal" in model.seen[0].system and "42" in model.seen[1].last
    assert config.read_text() == "sandbox: local\n"
    assert cli.out("config", "get", "sandbox").strip() == "local"
    assert [one["state"] for one in cloud.emulator.sandboxes() if "hermes-" in one.get("name", "")] == [
        "ended"
    ]
    assert b"was ended with its files" in done.stderr
    assert not (cli.cwd / "answer").exists()
    model.play([call("terminal", command="pwd"), Say("here")])
    assert cli.out("-q", "x", stderr=subprocess.DEVNULL, env={**os.environ}) == "here\n"
    assert str(cli.cwd) in model.seen[1].last
