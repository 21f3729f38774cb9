"""What is made from the commands is as they are, and what is answered at once is what the rest would say."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from cli._tool import Cli
from cli.test_shell import Terminal
from hermes.cli import _quick, _reference
from hermes.cli._exec import execute
from hermes.cli._main import app, main
from hermes.cli._process import Globals, whole
from hermes.cli.exec import app as exec_app
from hermes.config._load import ENVIRONMENT

AGAIN = "make it again: python -m hermes.cli._reference"


def test_what_is_shipped_is_that_of_the_commands() -> None:
    assert _reference.HELP.read_text("utf-8") == _reference.help_text(), AGAIN
    assert _reference.PAGE.read_text("utf-8") == _reference.page(), AGAIN


def commands(command: Any, path: str) -> list[tuple[str, str]]:
    if not hasattr(command, "list_commands"):
        return [(path, command.help or "")]
    names = command.list_commands(None)
    return [(path, command.help or "")] + [
        one for name in names for one in commands(command.get_command(None, name), f"{path} {name}")
    ]


def test_what_a_group_says_of_its_commands_is_not_cut_off() -> None:
    lines = _reference.page().splitlines()
    assert not [line for line in lines if line.startswith("  ") and line.rstrip().endswith("...")]


def test_every_command_has_an_example_of_its_own() -> None:
    found = commands(typer.main.get_command(app), "hermes")
    assert len(found) > 30
    missing = [path for path, text in found if f"Example: {path}" not in " ".join(text.split())]
    wanted = {path for path in missing if "--sandbox" not in path}
    assert not wanted - {"hermes config edit"}  # its example begins with a variable


@pytest.mark.parametrize("args", [["--version"], ["--help"], [], ["config", "get", "sandbox"]])
@pytest.mark.parametrize("text", [None, "sandbox: docker\n", "timeout: 5\n", "sandbox: 5\n", "sandbox: [\n"])
def test_the_quick_answer_is_the_whole_one(
    hermes_home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    text: str | None,
) -> None:
    monkeypatch.delenv("HERMES_APPROVALS", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    (hermes_home / "state").mkdir(parents=True)
    if text is not None:
        (hermes_home / "config.yaml").write_text(text)
    for _ in range(2):  # the second time the file was parsed before
        monkeypatch.setattr(sys, "argv", ["hermes", *args])
        code = _quick.quick(args)
        at_once = capsys.readouterr()
        whole = main(args)
        later = capsys.readouterr()
        if code is not None:
            assert (code, at_once.out) == (whole, later.out)
        else:
            assert args[:1] == ["config"]
            assert text is not None
            assert at_once.out == ""
    assert (code is None) == (args[:1] == ["config"] and text in ("sandbox: [\n", "sandbox: 5\n"))


def test_no_variable_is_forgotten() -> None:
    assert set(_quick.VARIABLES.split()) == set(ENVIRONMENT)


def test_where_anything_else_has_a_say_the_whole_answers(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERMES_APPROVALS", raising=False)
    monkeypatch.chdir(tmp_path)
    ask = ["config", "get", "sandbox"]
    assert _quick._place() == "none"
    monkeypatch.setenv("HERMES_SANDBOX", "local")
    assert _quick.quick(ask) is None
    monkeypatch.delenv("HERMES_SANDBOX")
    (tmp_path / ".hermes.yaml").write_text("sandbox: docker\n")
    assert _quick.quick(ask) is None
    monkeypatch.setenv("COLUMNS", "60")
    assert _quick.quick(["--help"]) is None
    assert _quick.quick(["--help", "exec"]) is None
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("_HERMES_COMPLETE", "complete_bash")
    assert _quick.quick([]) is None


EXECS = (
    "true",
    "-- true",
    "-- --json x",
    "true --json",
    "printf %s -q --",
    "--sandbox local true",
    "--sandbox=apptainer -q ls -l",
    "--sandbox docker --sandbox local true",
    "--sandbox",
    "--sandbox= true",
    "--cwd --json true",
    "--cwd -x true",
    "--cwd=/a=b true",
    "--cwd / -- true",
    "--timeout 10m true",
    "--timeout=1.5 true",
    "--timeout never true",
    "--timeout -1 true",
    "--session s --name n --workspace here true",
    "--rm --here --stdin --json --yes --quiet true",
    "-q -y true",
    "-qy true",
    "-q -q true",
    "--rm --keep true",
    "--keep true",
    "--rm --no-such true",
    "--js true",
    "--json=1 true",
    "-e A=1 --set timeout=3 --max-output 5 true",
    "--max-output 5 --json true",
    "- x",
    "--",
    "",
    "-q",
    "--help",
    "--debug true",
)


@pytest.mark.parametrize("line", EXECS)
@pytest.mark.parametrize("more", [[], ["a b", ""], [""]])
def test_exec_is_asked_for_the_same_by_both_readers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, more: list[str]
) -> None:
    asked: list[Any] = []
    defaults = {
        name: one.default for name, one in inspect.signature(execute).parameters.items() if name != "globals_"
    }

    def note(known: Globals, /, command: list[str], **given: Any) -> int:
        asked.append(
            (known.sandbox, {**defaults, **given, "command": command, "env": given.get("env") or None})
        )
        return 0

    monkeypatch.setattr("hermes.cli._exec.execute", note)
    monkeypatch.setattr("hermes.cli.exec.execute", note)
    monkeypatch.setattr(
        "hermes.cli._process.whole", lambda work, *, ends: work(Globals()) if ends else whole(work, ends=ends)
    )
    words = [*line.split(), *more]
    code = _quick.quick(["exec", *words])
    if code is None:
        assert _quick.options(words) is None
        return
    assert main(["exec", *words]) == 0
    capsys.readouterr()
    assert asked[0] == asked[1]


def test_most_calls_of_exec_are_read_at_once_and_the_rest_is_left_to_the_whole() -> None:
    at_once = [line for line in EXECS if _quick.options(line.split()) is not None]
    assert len(at_once) == 15, at_once
    options = {
        (name, getattr(one, "is_flag", False), one.name)
        for one in typer.main.get_command(exec_app).params
        for name in one.opts
        if one.param_type_name == "option"
    }
    flags = {(name, True, key) for name, key in _quick.FLAGS.items()}
    assert flags | {(name, False, key) for name, key in _quick.VALUES.items()} <= options


def test_the_quick_ones_import_nothing_that_takes_time(hermes_home: Path) -> None:
    code = (
        "import sys; sys.argv[1:] = sys.argv[1].split(); from hermes.cli import main; code = main()\n"
        "heavy = ('typing', 'typer', 'msgspec', 'ruamel', 'importlib.metadata', 'inspect', 'asyncio')\n"
        "print(code, [name for name in heavy if name in sys.modules])"
    )
    env = {key: value for key, value in os.environ.items() if key != "HERMES_APPROVALS"}
    for args in ("--version", "--help", "config get sandbox"):
        done = subprocess.run(
            [sys.executable, "-I", "-c", code, args], capture_output=True, text=True, env=env
        )
        assert done.stdout.endswith("0 []\n"), done


@pytest.mark.parametrize(
    ("shell", "words", "found"),
    [
        ("bash", "hermes jobs a", ["attach"]),
        ("bash", "hermes config get docker.im", ["docker.image"]),
        ("bash", "hermes --sandbox sing", ["singularity"]),
        ("zsh", "hermes jobs a", ["attach"]),
        ("fish", "hermes config rest", ["restore"]),
    ],
)
def test_completion(cli: Cli, shell: str, words: str, found: list[str]) -> None:
    env = {
        **os.environ,
        "_HERMES_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = cli(env=env)
    assert done.returncode == 0
    for word in found:
        assert word in done.stdout.decode()
    assert "Usage" not in done.stdout.decode()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown_for_each_shell(cli: Cli, shell: str) -> None:
    env = {
        **os.environ,
        "_HERMES_COMPLETE": f"source_{shell}",
    }
    text = cli.out(env=env)
    assert f"complete_{shell}" in text
    assert "hermes" in text


SHELLS = {
    "bash": ("--norc --noprofile -i", 'source {script}; PS1="ready> "'),
    "zsh": ("-f -i", 'autoload -U compinit; compinit -u -D; source {script}; PS1="ready> "'),
    "fish": ("--no-config -i", "source {script}; function fish_prompt; echo 'ready> '; end"),
}


@pytest.mark.parametrize("name", SHELLS)
def test_completion_in_the_shell_itself(cli: Cli, tmp_path: Path, name: str) -> None:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not here")
    cli.out("exec", "-q", "--name", "my-own-box", "true")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "hermes").write_text(f'#!/bin/sh\nexec {sys.executable} -m hermes "$@"\n')
    (folder / "hermes").chmod(0o755)
    script = tmp_path / "completion"
    script.write_text(cli.out(env={**os.environ, "_HERMES_COMPLETE": f"source_{name}"}))
    options, start = SHELLS[name]
    variables = [f"PATH={folder}:{os.environ['PATH']}", f"HOME={tmp_path}", f"XDG_CONFIG_HOME={tmp_path}"]
    screen = Terminal(["/usr/bin/env", *variables, program, *options.split()], cli)
    try:
        screen.type(start.format(script=script) + "\r")
        screen.expect("ready> ", seconds=30.0)
        screen.expect("ready> ", seconds=30.0) if name != "fish" else None
        screen.type("hermes sandbox resu\t")
        screen.expect("hermes sandbox resume", seconds=30.0)
        screen.type("my-o\t")
        screen.expect("my-own-box", seconds=30.0)
    finally:
        screen.close()
