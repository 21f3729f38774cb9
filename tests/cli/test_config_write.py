"""`hermes config` where it writes: checks, warnings, secrets, the editor, and what is put back."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cli._tool import HERMES, Cli
from cli.test_shell import Terminal


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode()


def test_a_place_that_cannot_be_used_is_taken_with_a_warning(cli: Cli) -> None:
    done = cli("config", "set", "sandbox", "ssh")
    assert done.returncode == 0
    assert "warning: ssh cannot be used now: the ssh backend needs TERMINAL_SSH_HOST" in said(done)
    done = cli("config", "set", "sandbox", "daytona")
    assert done.returncode == 0
    assert (
        "warning: daytona cannot be used now: there are no credentials for Daytona: DAYTONA_API_KEY"
        in said(done)
    )
    assert cli.out("config", "get", "sandbox") == "daytona\n"
    done = cli("exec", "true")
    assert done.returncode == 125
    assert "DAYTONA_API_KEY is not set; nothing was started" in said(done)


def test_a_place_that_does_not_exist_is_refused_with_the_nearest(cli: Cli) -> None:
    done = cli("config", "set", "sandbox", "modla")
    assert done.returncode == 125
    assert "there is no backend 'modla'; nothing was changed" in said(done)
    assert "Did you mean 'modal'?" in said(done)
    assert not (cli.home / "config.yaml").exists()


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("docker_image", "docker.image"),
        ("docker.mount", "docker.mounts"),
        ("Docker.Image", "docker.image"),
        ("ssh.hosts.build.prot", "ssh.hosts.build.port"),
        ("spill_quota", "output.spill_quota"),
    ],
)
def test_a_key_that_does_not_exist_is_refused_with_the_nearest(cli: Cli, key: str, near: str) -> None:
    done = cli("config", "set", key, "1")
    assert done.returncode == 125
    assert f"Did you mean '{near}'?" in said(done)


def test_lists_maps_and_texts_that_look_like_numbers(cli: Cli) -> None:
    for key, value in (
        ("docker.mounts", "['/data:/data:ro', b:/c]"),
        ("docker.image", "1.20"),
        ("ssh.hosts.build", "{host: b.example, user: me}"),
        ("ssh.hosts.build.port", "2222"),
        ("approvals.rules", "- id: mine\n  action: block\n  patterns: [mine *]\n  reason: mine\n"),
    ):
        assert cli("config", "set", key, "--", value).returncode == 0
    assert cli.json("config", "get", "docker.mounts", "--json") == ["/data:/data:ro", "b:/c"]
    assert cli.json("config", "get", "docker.image", "--json") == "1.20"
    assert cli.out("config", "get", "ssh.hosts.build.port", "--explain").endswith("config.yaml:9)\n")
    assert cli.json("config", "get", "approvals.rules", "--json") == [
        {"id": "mine", "action": "block", "patterns": ["mine *"], "reason": "mine"}
    ]
    done = cli("config", "set", "--stdin", "docker.args", input=b"[--hostname=x]\n")
    assert done.returncode == 0
    assert cli.json("config", "get", "docker.args", "--json") == ["--hostname=x"]
    assert "is no list" in said(cli("config", "set", "docker.args", "[a"))


def test_show_says_what_is_in_force_and_from_where(cli: Cli) -> None:
    cli.home.mkdir()
    (cli.home / "config.yaml").write_text("timeout: 5\ndocker:\n  args: ['-e', 'API_KEY=hush-hush']\n")
    (cli.home / ".env").write_text("A_TOKEN=hush-hush\n")
    env = {**os.environ, "HERMES_WORKSPACE": "private"}
    lines = cli.out("config", "show", env=env).splitlines()
    assert lines[0].split() == ["KEY", "VALUE", "FROM"]
    rows = {line.split()[0]: line for line in lines[1:] if line}
    assert rows["timeout"].endswith("config.yaml:1")
    assert rows["workspace"].endswith("environment variable HERMES_WORKSPACE")
    assert "auto is settled at the first use" in rows["sandbox"]
    assert "lifetime.ttl" not in rows
    assert "A_TOKEN" in lines[-1]
    shown = "\n".join(lines) + cli.out("config", "show", "--all", "--json") + cli.out("config", "get")
    assert "lifetime.ttl" in shown
    assert "hush-hush" not in shown


def test_a_secret_goes_to_env_and_is_never_shown(cli: Cli) -> None:
    done = cli("config", "set", "OPENAI_API_KEY", "hush-hush")
    assert done.returncode == 125
    assert "the command line is no place for one" in said(done)
    assert "hush-hush" not in said(done)
    assert not (cli.home / ".env").exists()
    done = cli("config", "set", "OPENAI_API_KEY", input=b"hush-hush\n")
    assert done.returncode == 0
    path = cli.home / ".env"
    assert path.read_text() == "OPENAI_API_KEY=hush-hush\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (cli.home / "config.yaml").exists()
    shown = said(done) + cli.out("config", "get", "OPENAI_API_KEY", "--explain") + cli.out("config", "show")
    assert f"set   ({path})" in shown
    assert "hush" not in shown
    assert "hermes config set OPENAI_API_KEY" in said(cli("config", "set", "openai.api_key", "x"))
    assert cli("config", "unset", "OPENAI_API_KEY").returncode == 0
    assert cli.out("config", "get", "OPENAI_API_KEY") == "not set\n"


def test_the_key_of_the_model_is_named_as_it_is_kept_and_offered_to_no_sandbox(cli: Cli) -> None:
    cli.out("config", "set", "model.name", "anthropic:x")
    for words in (("model.api_key", "hush-hush"), ("model.api_key=hush-hush",)):
        refused = said(cli("config", "set", *words))
        assert "ANTHROPIC_API_KEY is a secret" in refused and "config set ANTHROPIC_API_KEY" in refused
    done = cli("config", "set", "model.api_key", input=b"hush-hush\n")
    assert done.returncode == 0
    assert (cli.home / ".env").read_text() == "ANTHROPIC_API_KEY=hush-hush\n"
    assert "credentials.env" not in said(done)
    assert "credentials.env '[OTHER_TOKEN]'" in said(cli("config", "set", "OTHER_TOKEN", input=b"x\n"))


def test_a_secret_is_asked_for_without_an_echo(cli: Cli) -> None:
    screen = Terminal([*HERMES, "config", "set", "daytona.api_key"], cli)
    try:
        screen.expect("DAYTONA_API_KEY: ")
        screen.type("hush-hush\n")
        assert "hush" not in screen.expect("DAYTONA_API_KEY is set")
    finally:
        screen.close()
    assert (cli.home / ".env").read_text() == "DAYTONA_API_KEY=hush-hush\n"


def test_unset(cli: Cli) -> None:
    cli.home.mkdir()
    path = cli.home / "config.yaml"
    path.write_text("# first\ntimeout: 5\n# about it\ndocker:\n  image: x\n")
    assert "removed" in said(cli("config", "unset", "docker.image"))
    assert path.read_text() == "# first\ntimeout: 5\n# about it\n"
    assert "is not in" in said(cli("config", "unset", "docker.image"))
    assert "Did you mean 'docker.image'?" in said(cli("config", "unset", "docker.imag"))


def editor(cli: Cli, script: str) -> dict[str, str]:
    path = cli.cwd / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {**os.environ, "EDITOR": str(path), "VISUAL": ""}


def test_edit_takes_only_what_is_right(cli: Cli) -> None:
    cli.home.mkdir()
    path = cli.home / "config.yaml"
    path.write_text("timeout: 5\n")
    assert "is changed" in said(cli("config", "edit", env=editor(cli, 'echo "sandbox: local" >>"$1"')))
    assert path.read_text() == "timeout: 5\nsandbox: local\n"
    done = cli("config", "edit", env=editor(cli, 'printf "sandbx: x\\ntimeout: soon\\n" >"$1"'))
    assert done.returncode == 125
    assert "line 1: unknown key 'sandbx'" in said(done)
    assert "line 2: timeout: 'soon' is not a duration" in said(done)
    assert path.read_text() == "timeout: 5\nsandbox: local\n"
    kept = said(done).rpartition("is kept in ")[2].strip().rstrip(".")
    assert Path(kept).read_text().startswith("sandbx")
    assert "exit code 3" in said(cli("config", "edit", env=editor(cli, "exit 3")))
    done = cli(
        "config", "edit", env=editor(cli, f'echo "persistent: true" >>"$1"; echo "keep: true" >>{path}')
    )
    assert "was changed by somebody else" in said(done)
    assert path.read_text() == "timeout: 5\nsandbox: local\nkeep: true\n"
    assert "persistent" in Path(said(done).rpartition("is kept in ")[2].strip().rstrip(".")).read_text()


def test_edit_mends_what_cannot_be_read(cli: Cli) -> None:
    cli.home.mkdir()
    path = cli.home / "config.yaml"
    for broken in (b"timeout: [\n", b"timeout: \xe9\n", b"timeout: 1\0\n"):
        path.write_bytes(broken)
        done = cli("config", "edit", env=editor(cli, 'echo "timeout: 5" >"$1"'))
        assert done.returncode == 0, done
        assert path.read_text() == "timeout: 5\n"


def test_check_tells_everything_and_restore_puts_back(cli: Cli) -> None:
    assert "does not exist" in cli.out("config", "check")
    cli("config", "set", "timeout", "5")
    path = cli.home / "config.yaml"
    assert cli.out("config", "check") == f"{path} is right.\n"
    wrong = "sandbx: x\ntimeout: soon\noutput: {limit: big, spil_quota: 3}\nterminal: {backend: docker}\n"
    path.write_text(wrong)
    done = cli("config", "check")
    assert done.returncode == 125
    text = done.stdout.decode()
    for what in (":1: unknown key 'sandbx'", ":2: timeout", "output.limit: 'big'", "'output.spil_quota'"):
        assert what in text
    assert len(cli.json("config", "check", "--json")["errors"]) == 4
    path.write_text("timeout: 5\n  x: [\n")
    done = cli("exec", "true")
    assert f"{path}:2: not valid YAML" in said(done)
    assert "(column 4)" in said(done)
    assert "'hermes config restore'" in said(done)
    done = cli("config", "restore")
    assert done.returncode == 0
    assert path.read_text() == "timeout: 5\n"
    (broken,) = cli.home.glob("config.yaml.broken-*")
    assert broken.read_text() == "timeout: 5\n  x: [\n"
    path.write_text("sandbox: dockerr\n")
    assert "config.yaml:1: sandbox: there is no backend 'dockerr'" in cli("config", "check").stdout.decode()


def test_many_writers_lose_nothing(cli: Cli) -> None:
    keys = ["timeout", "output.limit", "output.spill_quota", "lifetime.ttl", "docker.image", "keep"]
    started = [cli.start("config", "set", key, "true" if key == "keep" else "5") for key in keys]
    assert [process.wait(30) for process in started] == [0] * len(keys)
    found = cli.json("config", "show", "--json")["settings"]
    assert {row["key"] for row in found} == {*keys, "sandbox", "approvals.mode"}
    assert list((cli.home / "state").glob("config.lock")) == []
    code = (
        "import sys; from hermes.config import _file\n"
        "for n in range(40): _file.change([(['timeout'], n + 1), (['output', sys.argv[1]], n)])\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, key]) for key in ("limit", "spill_quota")]
    assert [process.wait(40) for process in both] == [0, 0]
    assert cli.json("config", "get", "output", "--json") == {"output.limit": 39, "output.spill_quota": 39}


def test_the_schema_and_the_files(cli: Cli) -> None:
    found = cli.json("config", "path", "--json")
    assert found["config"] == str(cli.home / "config.yaml")
    assert cli.out("config", "schema") == Path(found["schema"]).read_text()


def test_what_wins_over_it_is_said(cli: Cli) -> None:
    env = {**os.environ, "HERMES_SANDBOX": "local"}
    done = cli("config", "set", "sandbox", "docker", env=env)
    assert "warning: environment variable HERMES_SANDBOX wins over it." in said(done)
    assert "wins" not in said(cli("config", "set", "sandbox", "local"))
    env = {**os.environ, "HERMES_TIMEOUT": "soon"}
    done = cli("config", "set", "keep", "true", env=env)
    assert done.returncode == 0
    assert "warning: environment variable HERMES_TIMEOUT: timeout: 'soon' is not a duration" in said(done)
    assert (cli.home / "config.yaml").read_text() == "sandbox: local\nkeep: true\n"


def test_a_home_that_a_setting_makes_is_private(cli: Cli) -> None:
    assert not cli.home.exists()
    cli.out("config", "set", "timeout", "10m")
    cli.out("config", "check")
    for path in (cli.home, *cli.home.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_host_where_there_is_none(cli: Cli) -> None:
    done = cli("config", "set", "sandbox", "docker:there")
    assert done.returncode == 125
    assert "docker has no hosts to choose from, so 'docker:there' is no place" in done.stderr.decode()
    done = cli("exec", "--sandbox", "docker:there", "true")
    assert done.returncode == 125
    assert "Write docker." in done.stderr.decode()


def test_a_wrong_value_says_that_nothing_was_changed(cli: Cli) -> None:
    done = cli("config", "set", "limits.memory", "lots")
    assert done.returncode == 125
    said = "limits.memory: 'lots' is not a size such as 4096, 64k, 1.5m or 1g; nothing was changed"
    assert said in done.stderr.decode()


def test_a_dash_is_standard_input_for_a_secret(cli: Cli) -> None:
    cli.out("config", "set", "daytona.api_key", "-", input=b"a-key\n")
    assert (cli.home / ".env").read_text() == "DAYTONA_API_KEY=a-key\n"


# --- what a sandbox would refuse is refused before


REFUSED = {
    "approvals.rules": ("[{id: a}]", "approvals.rules: 'a' is not a rule"),
    "credentials.env": ("[PATH]", "credentials.env: 'PATH' cannot be given"),
    "credentials.files": ("[{path: ../x}]", "credentials.files: '../x' is not a path below"),
    "workspace": ("/nowhere/at/all", "workspace: /nowhere/at/all is no directory"),
    "docker.mounts": ("[nonsense]", "docker.mounts: 'nonsense' is no mount"),
    "docker.args": ("[--nonsense]", "docker.args: hermes does not know what --nonsense does"),
    "docker.user": ("Foo!", "docker.user: 'Foo!' is no user"),
    "singularity.binds": ("[a:relative]", "singularity.binds: the target 'relative'"),
    "jail.protect": ("[../x]", "jail.protect: '../x' is no path"),
    "modal.lifetime": ("48h", "modal.lifetime can be 24 hours"),
    "vercel.ports": ("[1, 2, 3, 4, 5]", "vercel.ports: at most four"),
    "dotfiles": ("[../x]", "dotfiles: '../x' is not a file"),
    "local.python": ("/nowhere/at/all", "local.python: /nowhere/at/all is no program"),
    "sandbox": ("local:host", "sandbox: local has no hosts"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_would_be_refused_cannot_be_set_nor_kept_as_right(cli: Cli, key: str) -> None:
    """One judgement for set, check, edit and the last good copy: that of what opens a sandbox."""
    section = key.partition(".")[0]
    if section in ("modal", "vercel"):
        pytest.importorskip(section)
    value, words = REFUSED[key]
    (cli.home / "state").mkdir(0o700, parents=True)
    file = cli.home / "config.yaml"
    good = "timeout: 5 # right\n"
    file.write_text(good)
    cli.out("config", "get", "timeout")
    done = cli("config", "set", key, value)
    assert done.returncode == 125
    assert words in said(done)
    assert "nothing was changed" in said(done)
    assert file.read_text() == good
    wrong = f"{key}: {value}\n" if "." not in key else f"{section}:\n  {key.partition('.')[2]}: {value}\n"
    done = cli("config", "edit", env=editor(cli, f"printf %s {shlex.quote(wrong)} >$1"))
    assert done.returncode == 125
    assert words in said(done)
    assert file.read_text() == good
    file.write_text(wrong)
    done = cli("config", "check")
    assert done.returncode == 125
    assert words in done.stdout.decode()
    assert f"{file}:" in done.stdout.decode()
    cli("config", "show")
    assert (cli.home / "state" / "config-good.yaml").read_text() == good
    done = cli(
        "config", "set", "output.limit", "2m"
    )  # what was wrong before is no reason against another one
    assert done.returncode == 0, done
    assert (cli.home / "state" / "config-good.yaml").read_text() == good


def test_settings_that_do_not_go_together_are_told(cli: Cli) -> None:
    assert cli("config", "set", "docker.image", "a").returncode == 0
    (cli.cwd / "Dockerfile").write_text("FROM scratch\n")
    done = cli("config", "set", "docker.dockerfile", str(cli.cwd / "Dockerfile"))
    assert done.returncode == 0
    assert "warning: it does not go together with what else is set: docker: image and dockerfile" in said(
        done
    )
    assert cli("config", "check").returncode == 125


def test_what_is_found_from_where_one_is_may_be_set_anywhere(cli: Cli) -> None:
    for key, value in (("docker.dockerfile", "sub/Dockerfile"), ("singularity.image", "./x.sif")):
        assert cli("config", "set", key, value).returncode == 0
        assert cli("config", "unset", key).returncode == 0


def test_restoring_twice_within_a_second_loses_nothing(cli: Cli) -> None:
    assert cli("config", "set", "timeout", "5").returncode == 0
    file = cli.home / "config.yaml"
    for text in ("first: [\n", "second: [\n", "third: [\n"):
        file.write_text(text)
        code = "from hermes.config import _file; print(_file.restore()[1])"
        ran = subprocess.run(
            [sys.executable, "-c", FIXED + code], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran
    kept = sorted(one.read_text() for one in cli.home.glob("config.yaml.broken-*"))
    assert kept == ["first: [\n", "second: [\n", "third: [\n"]
    assert file.read_text() == "timeout: 5\n"
    done = cli("config", "restore")  # it is the good one already
    assert done.returncode == 0
    assert len(list(cli.home.glob("config.yaml.broken-*"))) == 3


FIXED = "import time; time.strftime = lambda *form: '20260101-000000'; "


# --- what others wrote, on a terminal


@pytest.mark.parametrize("json", [False, True])
def test_nothing_of_a_file_reaches_the_terminal_as_a_command_to_it(cli: Cli, json: bool) -> None:
    """Whatever a repository's own file, or one in home, holds in keys and values."""
    evil = '"\\e]0;title\\a\\e[2J\\x9b31m\\u202e"'
    (cli.cwd / ".hermes.yaml").write_text(f"{evil}: 1\n")
    cli.home.mkdir(0o700)
    texts = (f"sandbox: {evil}", f"{evil}: 1", f"docker: {{image: {evil}}}", f"workspace: {evil}",
             f"docker: {{mounts: [{evil}]}}", f"ssh: {{hosts: {{{evil}: {{port: x}}}}}}", f"a: b: {evil}",
             f"credentials: {{env: [{evil}], files: [{{path: {evil}}}]}}", f"timeout: {evil}")  # fmt: skip
    extra = ("--json",) if json else ()
    for text in (*texts, ""):
        (cli.home / "config.yaml").write_text(text + "\n")
        for command in (
            *(
                ("config", "check"),
                ("config", "get", "sandbox"),
                ("config", "get"),
                ("config", "show", "--all"),
            ),
            *(("doctor",), ("backends",), ("credentials", "ls"), ("config", "migrate")),
        ):
            if command[0] != "config" and text != texts[2]:
                continue  # they take longer
            done = cli(*command, *extra)
            both = (done.stdout + done.stderr).decode()
            bad = sorted({sign for sign in both if not sign.isprintable()} - {"\n"})
            assert bad == [], (text, command, both)
        if text:
            (cli.cwd / ".hermes.yaml").unlink(missing_ok=True)


# --- secrets where they do not belong

SECRET = "ghp_" + "aB3" * 12


@pytest.mark.parametrize(
    "args",
    [
        ("A_TOKEN", "hush-hush"),
        ("A_TOKEN=hush-hush",),
        ("github_token", "hush-hush"),
        ("github.token=hush-hush",),
        ("docker.args", f"[-l, {SECRET}]"),
        ("docker.image", SECRET),
        ("timeout", SECRET),
        (f"docker.image={SECRET}",),
        ("vercel.api_url", "https://me:hush-hush@host.example"),
        ("ssh.wake_command", f"curl -H 'X: {SECRET}'"),
    ],
)
def test_a_secret_on_the_command_line_is_neither_kept_nor_shown(cli: Cli, args: tuple[str, ...]) -> None:
    done = cli("config", "set", *args)
    assert done.returncode == 125
    assert b"hush" not in done.stdout + done.stderr and SECRET.encode() not in done.stdout + done.stderr
    assert "secret" in said(done) and "nothing was written" in said(done)
    assert "hermes config set" in said(done)
    assert not (cli.home / "config.yaml").exists() and not (cli.home / ".env").exists()


def test_a_declared_variable_goes_to_env_whatever_it_is_called(cli: Cli) -> None:
    done = cli("config", "set", "MY_LOGIN", input=b"hush-hush\n")
    assert done.returncode == 125
    assert "declare it first, in credentials.env: hermes config set credentials.env '[MY_LOGIN]'" in said(
        done
    )
    assert cli("config", "set", "credentials.env", "[MY_LOGIN, lower]").returncode == 0
    for name in ("MY_LOGIN", "lower"):
        done = cli("config", "set", name, input=b"hush-hush\n")
        assert (done.returncode, f"{name} is set, in " in said(done)) == (0, True)
        assert cli.out("config", "get", name, "--explain") == f"set   ({cli.home}/.env)\n"
    assert cli.out("exec", "-q", "--sandbox", "local", "echo ${#MY_LOGIN} ${#lower}") == "9 9\n"
    assert "hush" not in (cli.home / "config.yaml").read_text()
    assert cli("config", "unset", "MY_LOGIN").returncode == 0
    assert "MY_LOGIN" not in (cli.home / ".env").read_text()
    done = cli("config", "set", "OTHER_TOKEN", input=b"hush-hush\n")
    assert "this declares it: hermes config set credentials.env '[MY_LOGIN, lower, OTHER_TOKEN]'" in said(
        done
    )


def test_a_wide_file_of_secrets_is_told(cli: Cli) -> None:
    cli.home.mkdir(0o700)
    (cli.home / ".env").write_text("A=1\n")
    (cli.home / ".env").chmod(0o644)
    done = cli("config", "set", "-q", "A_TOKEN", input=b"hush-hush\n")
    assert "could be read by other users (mode 0644); it is 0600 now" in said(done)


# --- small ones


def test_what_ended_a_command_is_said_however_quiet(cli: Cli) -> None:
    done = cli("exec", "-q", "--sandbox", "local", "--timeout", "0.3", "sleep 5")
    assert done.returncode == 124
    assert " s, its time limit." in said(done)


def test_an_empty_name_is_no_name(cli: Cli) -> None:
    done = cli("exec", "--sandbox", "local", "--name", "", "true")
    assert done.returncode == 125
    assert "cannot be a sandbox name" in said(done)


@pytest.mark.parametrize(
    ("word", "near"),
    [("run", "exec"), ("ps", "sandbox"), ("login", "setup"), ("exce", "exec"), ("fetch", None)],
)
def test_words_that_people_try_first(cli: Cli, word: str, near: str | None) -> None:
    told = said(cli(word))
    assert f"Did you mean '{near}'?" in told if near else "Did you mean" not in told


def test_what_to_do_next_is_said(cli: Cli) -> None:
    assert "hermes config set sandbox VALUE" in said(cli("config", "set", "sandbox"))
    assert "A list of one is written [A_TOKEN]." in said(cli("config", "set", "credentials.env", "A_TOKEN"))
    assert "[{name: value}]" in said(cli("config", "set", "credentials.files", "google.json"))
    assert "hermes config set credentials.env '[NAME]'" in cli.out("credentials", "ls")
    assert "timeout is not in" in said(cli("config", "set", "timeout", "none"))
    assert not (cli.home / "config.yaml").exists()
    assert "hermes setup" not in cli("doctor", "--sandbox", "nix").stdout.decode()
