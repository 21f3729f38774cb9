"""The configuration: precedence, and one clear error for whatever is wrong with it."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.config import Config, load
from hermes.config._load import ENVIRONMENT, FOREIGN, sources
from hermes.errors import ConfigError

KEYS = ["sandbox", "timeout", "output.limit", "output", "lifetime", "approvals", "terminal", "x"]


@pytest.fixture
def file(hermes_home: Path) -> Path:
    hermes_home.mkdir(mode=0o700)
    return hermes_home / "config.yaml"


def failure(overrides: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(overrides)
    assert caught.value.code == "config_invalid"
    return str(caught.value)


def test_defaults_without_a_file(hermes_home: Path) -> None:
    config = load()
    assert config == Config()
    assert config.timeout is None
    assert (config.lifetime.detached, config.lifetime.ttl) == (86400, 604800)
    assert config.output.limit == 1 << 20
    assert config.approvals.mode == "ask"
    assert not hermes_home.exists()


def test_the_file_is_read(file: Path) -> None:
    file.write_text(
        "sandbox: docker  # where\ntimeout: 10m\nlifetime:\n  idle_guest: 90\n  ttl: 2d\n"
        "output: {limit: 64k}\napprovals:\n  mode: off\nlocal:\n  # python: x\n"
    )
    config = load()
    assert config.sandbox == "docker"
    assert config.timeout == 600
    assert (config.lifetime.idle_guest, config.lifetime.ttl, config.lifetime.detached) == (90, 172800, 86400)
    assert config.output.limit == 65536
    assert config.approvals.mode == "off"
    assert config.local.python is None
    # Values are of Python's own types, not of the parser's.
    assert type(config.sandbox) is str


def test_precedence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("sandbox: a\nworkspace: a\ntimeout: 1\noutput:\n  limit: 1\n  spill_quota: 2\n")
    monkeypatch.setenv("HERMES_SANDBOX", "b")
    monkeypatch.setenv("HERMES_TIMEOUT", "2s")
    monkeypatch.setenv("HERMES_WORKSPACE", "")  # empty counts as unset
    config = load({"sandbox": "c", "output.limit": "3k"})
    assert (config.sandbox, config.timeout, config.workspace) == ("c", 2, "a")
    assert (config.output.limit, config.output.spill_quota) == (3072, 2)
    assert load({"output": {"limit": 5}, "output.spill_quota": 6}).output.spill_quota == 6


def test_what_an_image_comes_from_is_one_setting(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as an image that setup has pinned, and a project's own Dockerfile for once."""
    file.write_text("docker:\n  image: a\n  user: root\n")
    docker = load({"docker.dockerfile": "D"}).docker
    assert (docker.image, docker.dockerfile, docker.user) == (None, "D", "root")
    assert sources({"docker.dockerfile": "D"}).origin("docker.image") == "option docker.dockerfile"
    assert sources({"docker.user": "x"}).origin("docker.image").endswith("config.yaml:2")
    assert load({"docker.dockerfile": ""}).docker.image == "a"
    assert sources({}).origin("docker.dockerfile") == "default"
    monkeypatch.setenv("HERMES_DOCKER_IMAGE", "b")
    assert (load().docker.image, load({"docker.devcontainer": "c"}).docker.image) == ("b", None)
    both = load({"docker.devcontainer": "c", "docker.image": "d"}).docker
    assert (both.devcontainer, both.image) == ("c", "d")  # which is refused where it is used


@pytest.mark.parametrize("variable", ENVIRONMENT)
def test_every_variable_of_the_table_reaches_its_key(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"HERMES_APPROVALS": "strict", "HERMES_NETWORK": "off"}
    monkeypatch.setenv(variable, words.get(variable, "7"))
    value: Any = load()
    for part in ENVIRONMENT[variable].split("."):
        value = getattr(value, part)
    assert value in ("strict", "off", "7", 7)


def test_no_limit_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_TIMEOUT", "5")
    assert load({"timeout": None}).timeout is None
    assert load({"timeout": "none"}).timeout is None
    assert "option timeout: must be more than 0" in failure({"timeout": 0})


def test_foreign_keys_are_left_alone_and_listed(file: Path) -> None:
    file.write_text("terminal:\n  backend: docker\nmemory: {a: [1, 2]}\nsandbox: local\n")
    config = load()
    assert config.foreign == ("terminal", "memory")
    assert config.sandbox == "local"
    assert "foreign" in failure({"foreign": ["x"]})


def test_a_key_of_both_is_ours_unless_it_is_a_section_of_theirs(file: Path) -> None:
    assert FOREIGN & set(Config.__struct_fields__) == {"skills", "model"}
    file.write_text("skills: {external_dirs: []}\n")
    assert (load().foreign, load().skills) == (("skills",), "copy")
    file.write_text("skills: shared\n")
    assert (load().foreign, load().skills) == ((), "shared")


def test_a_model_is_ours_when_it_has_a_name(file: Path) -> None:
    for theirs in ("some/model", "{default: some/model, provider: x, base_url: 'http://y', api_key: z}"):
        file.write_text(f"model: {theirs}\n")
        assert (load().foreign, load().model.name, load().model.base_url) == (("model",), None, None)
    file.write_text("model: {name: 'openai:x', provider: y, base_url: 'http://z'}\n")
    config = load()
    assert config.foreign == ("model.provider",)
    assert (config.model.name, config.model.base_url) == ("openai:x", "http://z")
    file.write_text("model: {base_url: 'http://z'}\n")
    assert (load().foreign, load().model.base_url) == ((), "http://z")
    file.write_text("model: {name: x, api_key: y}\n")
    assert "unknown key 'model.api_key'" in failure()
    file.write_text("model: {name: x, max_steps: 0}\n")
    assert "model.max_steps: expected a whole number above 0" in failure()


def test_what_hermes_agent_keeps_in_a_section_of_both(file: Path) -> None:
    file.write_text("approvals: {mode: manual, cron_mode: deny, timeout: 60, deny: ['git push *']}\n")
    config = load()
    assert config.foreign == ("approvals.cron_mode", "approvals.mode")
    assert (config.approvals.mode, config.approvals.timeout) == ("ask", 60)
    assert config.approvals.deny == ("git push *",)
    file.write_text("approvals: {cron_mod: deny}\n")
    assert "unknown key 'approvals.cron_mod'" in failure()
    file.write_text("approvals: {mode: ask}\n")
    assert "expected one of ask, strict, off" in failure({"approvals.mode": "smart"})  # in the file only
    file.write_text("approvals: {rules: [{id: x, action: block}]}\n")
    assert load().approvals.rules == ({"id": "x", "action": "block"},)
    file.write_text("approvals: {rules: [x]}\n")
    assert "approvals.rules: expected a list of sections, found a list" in failure()


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\n", 1, "unknown key 'a'. Known here: approvals, "),
        ("sandbox: x\n\nsandbx: y\n", 3, "unknown key 'sandbx'. Did you mean 'sandbox'?"),
        ("output:\n  limitz: 3\n", 2, "unknown key 'output.limitz'. Did you mean 'output.limit'?"),
        ("output: 3\n", 1, "output: expected a section, found a whole number"),
        ("output:\n  limit: big\n", 2, "output.limit: 'big' is not a size"),
        ("output:\n  limit: 1.5\n", 2, "output.limit: '1.5' is not a size"),
        ("output:\n  limit: null\n", 2, "output.limit: expected a size such as 64k or 1g, found nothing"),
        ("timeout: soon\n", 1, "timeout: 'soon' is not a duration"),
        ("timeout: true\n", 1, "timeout: expected a duration such as 30s or 10m, found true or false"),
        ("timeout: -3\n", 1, "timeout: '-3' is not a duration: it must be finite, and 0 or more"),
        ("sandbox: [a]\n", 1, "sandbox: expected text, found a list"),
        ("sandbox: 1.5\n", 1, "sandbox: expected text, found '1.5'"),
        ("approvals:\n  mode: maybe\n", 2, "approvals.mode: expected one of ask, strict, off, found 'maybe'"),
        ("sandbox: !thing 3\n", 1, "sandbox: expected text"),
        ("1: x\n", 1, "the key 1 must be text"),
        ("a: [1,\n", 2, "not valid YAML"),
        ("sandbox: a\nsandbox: b\n", 2, "not valid YAML: found duplicate key"),
        ("a: b: c\n", 1, "not valid YAML"),
        ("\tx: 1\n", 1, "not valid YAML"),
        ("x: &a\n  y: *a\n", None, ""),
        ("- a\n- b\n", None, "expected 'key: value' lines, found a list"),
        ("just text\n", None, "expected 'key: value' lines, found text"),
        ("[" * 3000, None, ""),
    ],
)
def test_what_is_wrong_in_the_file(file: Path, text: str, line: int | None, says: str) -> None:
    file.write_text(text)
    message = failure()
    assert message.startswith(f"{file}:{line}: " if line else str(file)), message
    assert says in message
    assert "\n" not in message


def test_a_long_value_is_not_repeated(file: Path) -> None:
    file.write_text("approvals:\n  mode: sk-0123456789abcdef0123456789\n")
    assert "sk-" not in failure()


@pytest.mark.parametrize(
    "text", ["", "\n \n", "# nothing\n", "---\n", "\ufeffsandbox: x\n", "output:\n", "null\n"]
)
def test_files_that_say_little(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    assert load().output.limit == 1 << 20


def test_a_file_that_is_not_utf8(file: Path) -> None:
    file.write_bytes(b"sandbox: x\nworkspace: x\xe9\n")
    assert failure() == f"{file}:2: byte 23 is not UTF-8 text. Save the file in UTF-8."


def test_a_directory_in_its_place(file: Path) -> None:
    file.mkdir()
    assert "is a directory" in failure()


def test_a_file_that_cannot_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # root can read everything, so the refusal is played.
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert failure() == f"{file} cannot be read: Permission denied"


def test_home_is_a_file(hermes_home: Path) -> None:
    hermes_home.write_text("")
    assert "cannot be read: Not a directory" in failure()


def test_what_is_wrong_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failure({"sandbxo": 1}) == "option sandbxo: unknown key 'sandbxo'. Did you mean 'sandbox'?"
    assert failure({"output.limit.x": 1}).startswith("option output.limit: expected a size")
    assert "also given as a plain value" in failure({"output": 1, "output.limit": 2})
    monkeypatch.setenv("HERMES_TIMEOUT", "soon")
    assert failure() == (
        "environment variable HERMES_TIMEOUT: timeout: 'soon' is not a duration "
        "such as 90, 30s, 10m, 24h or 7d"
    )


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=80)
    | st.text("ab:-[]{}!&*?|>'\"#\n\t 1.~%@`,<=", max_size=60).map(str.encode)
    | st.builds(lambda key, value: f"{key}: {value}".encode(), st.sampled_from(KEYS), st.text(max_size=20))
)
def test_any_file_is_a_configuration_or_one_error(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "HERMES_HOME", directory)
        Path(directory, "config.yaml").write_bytes(data)
        try:
            load()
        except ConfigError as error:
            assert directory in str(error)
            assert "\n" not in str(error)


def test_a_file_is_parsed_once(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (hermes_home / "state").mkdir(parents=True)
    file = hermes_home / "config.yaml"
    file.write_text("timeout: 5\n", encoding="utf-8")
    assert load().timeout == 5
    kept = hermes_home / "state" / "config-cache.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)  # another parse would fail
    assert load().timeout == 5
    file.write_text("timeout: 6\n", encoding="utf-8")
    with pytest.raises(ImportError):
        load()
    monkeypatch.undo()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"digest": 1}'])
def test_a_damaged_cache_is_made_again(hermes_home: Path, damage: str) -> None:
    (hermes_home / "state").mkdir(parents=True)
    (hermes_home / "config.yaml").write_text("timeout: 7\n", encoding="utf-8")
    kept = hermes_home / "state" / "config-cache.json"
    kept.write_text(damage, encoding="utf-8")
    assert load().timeout == 7
    assert "timeout" in kept.read_text(encoding="utf-8")
