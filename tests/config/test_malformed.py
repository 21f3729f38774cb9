"""Whatever is wrong with config.yaml: one error that names the place, and not a byte of the file is lost."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes._lock import Lock
from hermes.config import IMAGE, _env, _file, _secrets, load
from hermes.config._source import MAX_BYTES
from hermes.errors import ConfigError, HermesError

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
DEEP = "".join("  " * depth + f"k{depth}:\n" for depth in range(2000))

TEXTS: dict[str, tuple[bytes | str, str]] = {
    "a wrong type: a list": ("sandbox: [local]\n", ":1: sandbox: expected text, found a list"),
    "a wrong type: a section": ("timeout:\n  a: 1\n", ":1: timeout: expected a duration"),
    "a wrong type: text for a truth value": ("keep: maybe\n", ":1: keep: expected true or false"),
    "a wrong type: yes is text": ("keep: yes\n", ":1: keep: expected true or false, found 'yes'"),
    "a wrong type: a number for a section": ("docker: 5\n", ":1: docker: expected a section"),
    "a wrong type: text for a list": ("docker:\n  mounts: /a:/b\n", ":2: docker.mounts: expected a list"),
    "a wrong type: a list of numbers": ("docker: {args: [1]}\n", ":1: docker.args: expected a list of"),
    "a wrong type: in a named section": (
        "ssh:\n  hosts:\n    b: {port: x}\n",
        ":3: ssh.hosts.b.port: expected a whole number",
    ),
    "a port that cannot be": ("ssh: {port: 70000}\n", ":1: ssh.port"),
    "a number out of range": ("limits: {pids: 0}\n", ":1: limits.pids"),
    "not a number": ("limits: {cpus: .nan}\n", ":1: limits.cpus"),
    "infinity": ("timeout: .inf\n", ":1: timeout: "),
    "a negative size": ("output: {limit: -1}\n", ":1: output.limit: '-1' is not a size"),
    "a date": ("sandbox: 2020-01-01\n", ":1: sandbox: expected text"),
    "a word that is none of the choices": ("network: of\n", ":1: network: expected one of"),
    "no name of an image": ("docker: {image: 'UPPER case:!!'}\n", ":1: docker.image: expected the name"),
    "an empty name of an image": ("modal:\n  image: ''\n", ":2: modal.image: expected the name of an image"),
    "an option for an image": ("docker: {image: -v}\n", ":1: docker.image: expected the name of an image"),
    "an unknown key": ("sandbx: local\n", ":1: unknown key 'sandbx'. Did you mean 'sandbox'?"),
    "an unknown key in a section": ("docker:\n  imgae: x\n", "Did you mean 'docker.image'?"),
    "an unknown key in a named section": ("ssh:\n  hosts:\n    b: {usr: x}\n", "mean 'ssh.hosts.b.user'"),
    "a key that is no text": ("1: x\n", ":1: the key 1 must be text"),
    "an empty key": ("? \n: x\n", ": the key null must be text. Write it as \"null\"."),
    "a word that is a truth value as a key": ("true: x\n", ":1: the key true must be text. Write it as \"tr"),
    "a list as a key": ("? [a, b]\n: x\n", "must be text"),
    "a tab before a key": ("output:\n\tlimit: 1\n", ":2: not valid YAML"),
    "a tab after a key": ("output:\n  limit:\n\t  1\n", "config.yaml:"),
    "a key twice": ("timeout: 1\ntimeout: 2\n", ":2: not valid YAML: found duplicate key \"timeout\""),
    "a key twice in a section": ("output:\n  limit: 1\n  limit: 2\n", ":3: not valid YAML: found dup"),
    "a BOM in the middle": ("timeout: 1\n\ufeffsandbox: x\n", "config.yaml:"),
    "a NUL": (b"sandbox: lo\0cal\n", ":1: not valid YAML: the character U+0000"),
    "another control character": (b"timeout: 1\nsandbox: lo\x1bcal\n", ":2: not valid YAML: the char"),
    "Latin-1": (b"sandbox: caf\xe9\n", ":1: byte 12 is not UTF-8"),
    "UTF-16": ("sandbox: x\n".encode("utf-16"), ":1: byte 0 is not UTF-8"),
    "a cyclic anchor": ("docker: &a\n  args: [*a]\n", ": a value contains itself"),
    "an anchor that is not there": ("sandbox: *nothing\n", ":1: not valid YAML"),
    "aliases that stand for a thousand million values": (LAUGHS, "aliases"),
    "very deep nesting": (DEEP, "config.yaml"),
    "many brackets": ("[" * 5000, ":1: more than 50 brackets in brackets"),
    "many brackets in many lines": ("a: 1\nb:\n" + " [{a:\n" * 3000, ":28: more than 50 brackets"),
    "many values": ("a: [" + "x," * 30_000 + "]\n", "more than 20000 lines and commas"),
    "a NUL that is written as one": ('workspace: "a\\0b"\n', ":1: workspace: the text holds a NUL"),
    "half of a pair": ('workspace: "\\ud800"\n', ":1: workspace: the text holds half of a surrogate pair"),
    "half of a pair in a list": ('docker: {args: ["\\ud800"]}\n', ":1: docker.args: the text holds half"),
    "half of a pair in a rule": ('approvals: {rules: [{id: "\\udfff"}]}\n', "approvals.rules: the text"),
    "a NUL in a host's name": ('ssh: {hosts: {"a\\0b": {port: 1}}}\n', "the name holds a NUL character"),
    "10 MB": (b"# " + b"x" * (10 << 20), f"has {(10 << 20) + 2} bytes, more than {MAX_BYTES}"),
    "an open bracket": ("docker:\n  args: [a,\n", "not valid YAML"),
    "an open quote": ("sandbox: 'local\n", "not valid YAML"),
    "two documents": ("sandbox: a\n---\nsandbox: b\n", "not valid YAML"),
    "a list": ("- sandbox\n", "expected 'key: value' lines, found a list"),
    "a text": ("local\n", "expected 'key: value' lines, found text"),
    "JSON with a comma too many": ('{"sandbox": "x",, }', ":1: not valid YAML"),
    "an object of Python's": ("sandbox: !!python/object/apply:os.abort []\n", ":1: sandbox: expected"),
    "indentation that does not fit": ("output:\n    limit: 1\n  spill_quota: 2\n", ":3: not valid YAML"),
    "a merge conflict": ("<<<<<<< ours\nsandbox: a\n=======\n", "config.yaml"),
}  # fmt: skip


@pytest.fixture
def file(hermes_home: Path) -> Path:
    hermes_home.mkdir(mode=0o700)
    return hermes_home / "config.yaml"


def one_error(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_wrong(file: Path, name: str) -> None:
    text, says = TEXTS[name]
    data = text.encode() if isinstance(text, str) else text
    file.write_bytes(data)
    for call in (load, lambda: _file.change([(["persistent"], True)])):
        message = one_error(call)
        assert message.startswith(str(file))
        assert says in message
    assert file.read_bytes() == data
    assert sorted(path.name for path in file.parent.iterdir()) == ["config.yaml", "state"]


@pytest.mark.parametrize(
    "name", ["many brackets", "many brackets in many lines", "many values", "very deep nesting"]
)
def test_what_would_take_long_is_told_at_once(file: Path, name: str) -> None:
    file.write_text(str(TEXTS[name][0]))
    began = time.process_time()
    one_error(load)
    assert time.process_time() - began < 2


def test_brackets_of_many_settings_do_not_add_up(file: Path) -> None:
    many = "[" * 30
    file.write_text(f"docker:\n  args: ['-l', 'a={many}']\nworkspace: '{many}'\n")
    assert load().docker.args[0] == "-l"


def test_there_are_forty() -> None:
    assert len(TEXTS) >= 40


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a directory", "is a directory"),
        ("a FIFO", "is not a file"),
        ("a device", "is not a file"),
        ("a loop of links", "Too many levels of symbolic links"),
    ],
)
def test_what_is_no_file(file: Path, name: str, says: str) -> None:
    if name == "a directory":
        file.mkdir()
    elif name == "a FIFO":
        os.mkfifo(file)
    elif name == "a device":
        file.symlink_to("/dev/zero")
    else:
        file.symlink_to(file)
    for call in (load, lambda: _file.change([(["keep"], True)])):
        assert says in one_error(call)
    assert os.path.lexists(file)


def test_a_link_to_nothing_is_an_empty_file_and_stays_a_link(file: Path) -> None:
    real = file.parent / "elsewhere.yaml"
    file.symlink_to(real)
    load()
    _file.change([(["keep"], True)])
    assert file.is_symlink()
    assert real.read_text() == "keep: true\n"


def test_a_directory_that_cannot_be_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("keep: true # mine\n")
    (file.parent / "state").mkdir()

    # root may write everywhere, so the refusal is played
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert one_error(lambda: _file.change([(["keep"], False)])) == (
        f"{file} cannot be written: Permission denied; it is as it was"
    )
    assert file.read_text() == "keep: true # mine\n"


def test_a_disk_that_is_full(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("keep: true # mine\n")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert "No space left on device; it is as it was" in one_error(lambda: _file.change([(["keep"], False)]))
    assert file.read_text() == "keep: true # mine\n"
    assert list(file.parent.glob(".config-*")) == []


def test_another_writer_is_waited_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("keep: true # mine\n")
    (file.parent / "state").mkdir()
    monkeypatch.setattr(_file, "PATIENCE", 0.1)
    with Lock(file.parent / "state" / "config.lock", timeout=1.0):
        with pytest.raises(HermesError, match="another hermes process") as caught:
            _file.change([(["keep"], False)])
        assert caught.value.code == "state_busy"
    assert file.read_text() == "keep: true # mine\n"
    _file.change([(["keep"], False)])
    assert file.read_text() == "keep: false # mine\n"


def test_a_mark_at_the_beginning_and_windows_lines_stay(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfkeep: true\r\n# mine\r\n")
    assert load().keep
    _file.change([(["persistent"], True)])
    assert file.read_bytes() == b"\xef\xbb\xbfkeep: true\r\npersistent: true\r\n# mine\r\n"


def test_the_last_good_one_is_offered(file: Path) -> None:
    _file.change([(["timeout"], "10m")])
    file.write_text("timeout: [\n")
    kept = file.parent / "state" / "config-good.yaml"
    assert f"the last good copy, {kept}" in one_error(load)
    assert kept.read_text() == "timeout: 10m\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    _file.restore()
    assert load().timeout == 600


def test_by_hand_counts_too(file: Path) -> None:
    (file.parent / "state").mkdir()
    file.write_text("timeout: 7 # by hand\n")
    load()
    file.write_text("timeout: [\n")
    _file.restore()
    assert file.read_text() == "timeout: 7 # by hand\n"


def test_a_fifo_for_secrets_is_no_file(hermes_home: Path) -> None:
    hermes_home.mkdir(mode=0o700, exist_ok=True)
    os.mkfifo(hermes_home / ".env", 0o600)
    for read in (lambda: _env.dotenv(["A_TOKEN"]), _secrets.names, lambda: _secrets.write("A_TOKEN", "x")):
        with pytest.raises(ConfigError, match="is not a file"):
            read()


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("debian", True),
        ("nikolaik/python-nodejs:python3.13-nodejs22", True),
        ("localhost:5000/a/b__c:1.0_x", True),
        ("[::1]:5000/a", True),
        ("Registry.example/a-b--c", True),
        ("debian@sha256:" + "0a" * 32, True),
        ("debian:12@sha256:" + "0a" * 32, True),
        ("sha256:" + "0a" * 32, True),
        ("Debian", False),
        ("debian:", False),
        ("debian:a b", False),
        ("debian\n", False),
        ("de..bian", False),
        ("/debian", False),
        ("debian/", False),
        ("-v/debian", False),
        ("debian@sha256:0a", False),
        ("https://example.com/a", False),
        ("a$(id)", False),
    ],
)
def test_names_of_images(name: str, right: bool) -> None:
    assert bool(re.search(IMAGE, name)) is right
