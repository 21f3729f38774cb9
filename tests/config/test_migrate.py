"""What hermes-agent's settings become."""

from __future__ import annotations

from typing import Any

import pytest

from cli._tool import Cli
from hermes.config._migrate import plan

THEIRS = """\
# theirs
model: {default: x}
terminal:
  backend: docker   # where
  docker_image: "python:3.11"
  docker_volumes: ["/data:/data:ro"]
  docker_network: false
  docker_forward_env: [GITHUB_TOKEN]
  container_memory: 5120
  timeout: 180
"""


@pytest.fixture
def cli(hermes_home: Any) -> Any:
    tool = Cli(hermes_home)
    yield tool
    tool.close()


@pytest.mark.parametrize(
    ("key", "value", "ours", "becomes"),
    [
        ("backend", "docker", "sandbox", "docker"),
        ("backend", "vercel_sandbox", "sandbox", "vercel"),
        ("docker_volumes", "/a:/b,/c:/d:ro", "docker.mounts", ["/a:/b", "/c:/d:ro"]),
        ("docker_volumes", '["/a:/b"]', "docker.mounts", ["/a:/b"]),
        ("docker_extra_args", ["--init"], "docker.args", ["--init"]),
        ("docker_network", "false", "network", "off"),
        ("docker_mount_cwd_to_workspace", True, "workspace", "here"),
        ("docker_shm_size", "1g", "docker.shm_size", "1g"),
        ("singularity_image", "docker://x", "singularity.image", "docker://x"),
        ("ssh_host", "build", "ssh.host", "build"),
        ("ssh_port", "2222", "ssh.port", 2222),
        ("lifetime_seconds", 300, "lifetime.idle_stop", 300),
        ("docker_forward_env", ["GITHUB_TOKEN"], "credentials.env", ["GITHUB_TOKEN"]),
        ("docker_forward_env", '["A", "B"]', "credentials.env", ["A", "B"]),
        ("env_passthrough", "A,B", "credentials.env", ["A", "B"]),
        (
            "credential_files",
            ["a.json", {"path": "b"}],
            "credentials.files",
            [{"path": "a.json"}, {"path": "b"}],
        ),
    ],
)
def test_what_has_a_meaning(key: str, value: Any, ours: str, becomes: Any) -> None:
    (step,) = plan({"terminal": {key: value}}, {})
    assert (step.theirs, step.ours, step.value) == (f"terminal.{key}", ours, becomes)


def test_names_of_variables_are_put_together() -> None:
    terminal = {"docker_forward_env": ["A", "B"], "timeout": 3, "env_passthrough": ["B", "C"]}
    first, second = plan({"terminal": terminal}, {})
    assert first.theirs == "terminal.docker_forward_env, terminal.env_passthrough"
    assert (first.ours, first.value) == ("credentials.env", ["A", "B", "C"])
    assert second.ours == "timeout"
    (one,) = plan({}, {"TERMINAL_DOCKER_FORWARD_ENV": '["A"]'})
    assert (one.theirs, one.value) == ("TERMINAL_DOCKER_FORWARD_ENV", ["A"])


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("docker_forward_env", ["A-B"], "'A-B' cannot be given to a sandbox"),
        ("docker_forward_env", ["HERMES_HOME"], "'HERMES_HOME' cannot be given to a sandbox"),
        ("credential_files", [{"to": "x"}], "cannot be taken over"),
        ("backend", "moon", "there is no place 'moon'"),
        ("timeout", "soon", "cannot be taken over"),
        ("docker_volumes", "[x", "cannot be taken over"),
        ("docker_network", True, "is the default here"),
        ("docker_image", "", "is empty"),
        ("container_memory", 5120, "see limits.memory"),
        ("docker_env", {"A": "b"}, "--env"),
        ("nothing_known", 1, "has no meaning here"),
    ],
)
def test_what_has_none_says_why(key: str, value: Any, why: str) -> None:
    (step,) = plan({"terminal": {key: value}}, {})
    assert step.ours == ""
    assert why in step.why


def test_what_is_their_own_elsewhere_is_told_with_its_reason() -> None:
    theirs = {
        "command_allowlist": ["recursive delete"],
        "security": {"redact_secrets": True},
        "approvals": {"mode": "smart"},
        "model": "anthropic/claude",
        "toolsets": {},
        "terminal": {"modal_image": "a", "daytona_image": "b"},
    }
    steps = {step.theirs: step for step in plan(theirs, {})}
    assert (steps["approvals.mode"].ours, steps["approvals.mode"].value) == ("approvals.mode", "ask")
    assert (steps["terminal.modal_image"].ours, steps["terminal.daytona_image"].ours) == (
        *("modal.image", "daytona.image"),
    )
    assert "approvals.allow" in steps["command_allowlist"].why
    assert "credentials.redact" in steps["security.redact_secrets"].why
    assert "hermes config set model.name" in steps["model"].why
    assert steps["toolsets"].why == "has no meaning here"
    theirs["security"] = {"redact_secrets": False}
    (redact,) = (step for step in plan(theirs, {}) if step.theirs == "security.redact_secrets")
    assert redact.ours == "" and "until you set credentials.redact to off" in redact.why


@pytest.mark.parametrize(
    ("section", "becomes"),
    [
        ({"provider": "anthropic", "default": "claude-sonnet-4-5"}, "anthropic:claude-sonnet-4-5"),
        ({"provider": "anthropic", "default": "anthropic/claude-sonnet-4-5"}, "anthropic:claude-sonnet-4-5"),
        ({"provider": "gemini", "default": "gemini-2.5-pro"}, "google:gemini-2.5-pro"),
        ({"default": "openai/gpt-5"}, "openai:gpt-5"),
        ({"provider": "custom", "default": "qwen3", "base_url": "http://127.0.0.1:11434/v1"}, "qwen3"),
        ({"provider": "openrouter", "default": "openai/gpt-5"}, None),
        ({"default": "claude-sonnet-4-5"}, None),
        ("claude-sonnet-4-5", None),
    ],
)
def test_the_model(section: Any, becomes: str | None) -> None:
    step, *more = plan({"model": section}, {})
    assert (step.ours, step.value) == (("model.name", becomes) if becomes else ("", None))
    url = section.get("base_url") if isinstance(section, dict) else None
    assert more == ([("model.base_url", "model.base_url", url, "")] if url else [])
    assert becomes or "model.name" in step.why or "model.base_url" in step.why


def test_the_model_beside_its_own_settings(cli: Cli) -> None:
    cli.home.mkdir()
    config = cli.home / "config.yaml"
    config.write_text("model:\n  provider: anthropic  # theirs\n  default: claude-x\n")
    cli.out("config", "migrate", "--apply")
    assert "# theirs" in config.read_text()
    assert cli.out("config", "get", "model.name").strip() == "anthropic:claude-x"
    config.write_text("model: claude-x\n")
    assert "PROVIDER:claude-x" in cli.out("config", "migrate", "--apply")


def test_variables_count_where_the_file_says_nothing() -> None:
    variables = {"TERMINAL_ENV": "ssh", "TERMINAL_DOCKER_IMAGE": "x", "TERMINAL_SSH_HOST": "h", "TERM": "y"}
    found = {step.ours: step.value for step in plan({"terminal": {"backend": "docker"}}, variables)}
    assert found == {"sandbox": "docker", "docker.image": "x"}
    assert plan({}, {"TERMINAL_ENV": "ssh"})[0] == ("TERMINAL_ENV", "sandbox", "ssh", "")


def test_first_a_rehearsal_then_a_copy_and_the_rest_stays(cli: Cli) -> None:
    cli.home.mkdir()
    path = cli.home / "config.yaml"
    path.write_text(THEIRS)
    (cli.home / ".env").write_text("SUDO_PASSWORD='hush-hush'\n")
    done = cli("config", "migrate")
    shown = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0
    assert "terminal.backend: becomes sandbox: docker" in shown
    assert "terminal.container_memory: stays behind: " in shown
    assert "this was a rehearsal" in shown
    assert "SUDO_PASSWORD in .env: becomes HERMES_SUDO_PASSWORD" in shown
    assert "hush" not in shown
    assert path.read_text() == THEIRS
    assert cli("config", "migrate", "--apply").returncode == 0
    assert path.read_text() == THEIRS + (
        "sandbox: docker\ndocker:\n  image: python:3.11\n  mounts: [/data:/data:ro]\n"
        "network: off\ncredentials:\n  env: [GITHUB_TOKEN]\ntimeout: 180\n"
    )
    (kept,) = cli.home.glob("config.yaml.before-migrate-*")
    assert kept.read_text() == THEIRS
    assert (cli.home / ".env").read_text() == "SUDO_PASSWORD='hush-hush'\nHERMES_SUDO_PASSWORD=hush-hush\n"
    again = cli.json("config", "migrate", "--json")
    assert again["settings"] == {}
    assert set(again["already_set"]) == {
        *("sandbox", "docker.image", "docker.mounts", "network", "timeout"),
        "credentials.env",
    }


def test_from_another_file_and_what_is_set_here_stays(cli: Cli) -> None:
    other = cli.cwd / "theirs.yaml"
    other.write_text(THEIRS)
    cli("config", "set", "sandbox", "local")
    found = cli.json("config", "migrate", "--from", str(other), "--apply", "--json")
    assert found["already_set"] == ["sandbox"]
    assert cli.json("config", "get", "sandbox", "--json") == "local"
    assert cli.json("config", "get", "docker.image", "--json") == "python:3.11"
    assert b"there is no" in cli("config", "migrate", "--from", "nowhere.yaml").stderr
    other.write_text("terminal: {credential_files: [google.json]}\n")
    cli("config", "migrate", "--from", str(other), "--apply")
    assert cli.json("config", "get", "credentials.files", "--json") == [{"path": "google.json", "to": None}]


def test_it_is_said_once_that_they_do_nothing(cli: Cli) -> None:
    cli.home.mkdir()
    (cli.home / "config.yaml").write_text("terminal: {backend: docker}\n")
    said = [cli("--sandbox", "local", "exec", "true").stderr.decode() for _ in range(2)]
    assert "terminal are hermes-agent's and do nothing here; 'hermes config migrate'" in said[0]
    assert "hermes-agent" not in said[1]
