"""What may be declared, and what is refused before anything is started."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hermes
from hermes.config import CredentialFile, Credentials
from hermes.credentials import _declared as module
from hermes.credentials._declared import Declared, undeclared
from hermes.credentials.supply import check

from .conftest import declared, keep

TOKEN = "A_DECLARED_TOKEN"
STEERING = ("PATH", "HOME", "LD_PRELOAD", "BASH_ENV", "BASH_FUNC_ls", "ENV", "IFS", "PROMPT_COMMAND", "UID")


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test wrote a moment ago counts as whole, but where a test says otherwise."""
    monkeypatch.setattr(module, "SETTLED", 0.0)
    monkeypatch.delenv(TOKEN, raising=False)


def read(**settings: Any) -> module.Content:
    return Declared(Credentials(**settings)).read()


def test_a_draft_that_gets_its_name_meanwhile_is_not_missing(own: Path) -> None:
    """Who renews a token writes a draft beside it, which may be seen and be gone when it is read."""
    keep(own / "credentials" / "token", "first")
    over = threading.Event()

    def renew() -> None:
        number = 0
        while not over.is_set():
            keep(own / "credentials" / "token", str(number := number + 1))

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        for _ in range(1500):
            found = read()
            assert not found.absent and "token" in found.files
    finally:
        over.set()
        renewing.join()
    (own / "credentials" / "token").unlink()
    (own / "credentials" / "token").symlink_to("nowhere")
    assert read().absent  # what lies there and leads nowhere is missing


def test_nothing_is_declared_by_itself(hermes_home: Path) -> None:
    assert (read().env, read().files, read().state) == ({}, {}, "")


def test_a_value_is_the_environments_then_the_files(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(own / ".env", f"{TOKEN}='of the file'\nOTHER=x\n")
    assert read(env=(TOKEN,)).env == {TOKEN: "of the file"}
    monkeypatch.setenv(TOKEN, "of the environment")
    assert read(env=(TOKEN,)).env == {TOKEN: "of the environment"}


def test_no_representation_has_a_value(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "s3cret-word")
    keep(own / "credentials" / "a", "s3cret-file")
    assert "s3cret" not in repr(read(env=(TOKEN,)))


def test_files_lie_under_their_own_names(own: Path) -> None:
    (own / "credentials" / "gcloud").mkdir()
    keep(own / "credentials" / "gcloud" / "key.json", "1")
    keep(own / "credentials" / "run", "2", 0o700)
    keep(own / "token.json", "3")
    found = read(files=(CredentialFile(path="token.json", to=".config/t.json"),)).files
    assert {name: (one.data, one.to, one.executable) for name, one in found.items()} == {
        "gcloud/key.json": (b"1", None, False),
        "run": (b"2", None, True),
        "token.json": (b"3", ".config/t.json", False),
    }


@pytest.mark.parametrize(
    "name", ["", "A B", "1A", "HERMES_SUDO_PASSWORD", "HERMES_HOME", "A\n", "A=B", "é", *STEERING]
)
def test_names_that_cannot_be_given(name: str) -> None:
    with pytest.raises(hermes.ConfigError, match="cannot be given to a sandbox"):
        Declared(Credentials(env=(name,)))


@pytest.mark.parametrize("path", ["/etc/shadow", "../x", "a/../../x", "", ".", "..", "a\0b"])
def test_paths_that_lead_out_of_the_home(path: str) -> None:
    with pytest.raises(hermes.ConfigError, match="is not a path below"):
        Declared(Credentials(files=(CredentialFile(path=path),)))


def test_a_link_that_leads_out_is_not_followed(own: Path, tmp_path: Path) -> None:
    keep(tmp_path / "else", "x")
    (own / "credentials" / "a").symlink_to(tmp_path / "else")
    with pytest.raises(hermes.ConfigError, match="leads out of"):
        read()
    (own / "credentials" / "a").unlink()
    keep(own / "token.json", "x")
    (own / "credentials" / "a").symlink_to(own / "token.json")
    assert read().files["a"].data == b"x"


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_what_others_can_change_is_not_used(own: Path, mode: int) -> None:
    keep(own / "credentials" / "a", "x", mode)
    with pytest.raises(hermes.ConfigError, match="other users can change it"):
        read()


def test_what_is_no_file_is_not_used(own: Path) -> None:
    os.mkfifo(own / "credentials" / "a", 0o600)
    with pytest.raises(hermes.ConfigError, match="not a regular file"):
        read()


def test_what_is_too_large_is_not_used(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(own / "credentials" / "a", b"x" * (module.MAX_FILE + 1))
    with pytest.raises(hermes.ConfigError, match="more than 1 MiB"):
        read()
    keep(own / "credentials" / "a", b"x" * module.MAX_FILE)
    assert len(read().files["a"].data) == module.MAX_FILE
    monkeypatch.setattr(module, "MAX_ALL", module.MAX_FILE)
    keep(own / "credentials" / "b", b"x")
    with pytest.raises(hermes.ConfigError, match="the declared files"):
        read()


@pytest.mark.parametrize(
    "to",
    [
        "",
        "~",
        ".",
        "/",
        "..",
        "../x",
        "a/../x",
        "a//b",
        "dir/",
        "/etc/../x",
        "~root/x",
        "a\0b",
        "a\nb",
        "//x",
    ],
)
def test_a_wish_that_is_no_path_inside(to: str) -> None:
    with pytest.raises(hermes.ConfigError, match=r"is no path of a file inside; nothing was started"):
        Declared(Credentials(files=(CredentialFile(path="a", to=to),)))


@pytest.mark.parametrize("to", ["a", "~/a", ".a/b c", "/run/secrets/a", "a..b/...c"])
def test_a_wish_that_is_one(to: str) -> None:
    Declared(Credentials(files=(CredentialFile(path="a", to=to),)))


def test_two_files_cannot_be_at_one_place() -> None:
    files = (CredentialFile(path="a", to="x"), CredentialFile(path="b", to="~/x"))
    with pytest.raises(hermes.ConfigError, match="is wanted by two files"):
        Declared(Credentials(files=files))


def test_two_files_cannot_have_one_name(own: Path) -> None:
    keep(own / "a", "1")
    keep(own / "credentials" / "a", "2")
    with pytest.raises(hermes.ConfigError, match="another one is called a"):
        read(files=(CredentialFile(path="a"),))
    assert read(files=(CredentialFile(path="credentials/a", to=".a"),)).files["a"].to == ".a"
    (own / "credentials" / "a").unlink()
    (own / "credentials" / "a").mkdir()
    keep(own / "credentials" / "a" / "b", "3")
    with pytest.raises(hermes.ConfigError, match="or has it as its directory"):
        read(files=(CredentialFile(path="a"),))


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b[31mred", os.fsdecode(b"bad\xff"), "n" * 250, "a.hermes-new", "a.hermes-12"]
)
def test_names_that_no_file_may_have(own: Path, name: str) -> None:
    keep(own / "x", "1").rename(own / "credentials" / name)
    with pytest.raises(hermes.ConfigError, match="was not used") as caught:
        read()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("path", [".env", "config.yaml", "state/state.db", "cache/x", "sandboxes/a/b"])
def test_what_is_hermes_own_is_not_given_away(own: Path, path: str) -> None:
    for link in (False, True):
        with pytest.raises(hermes.ConfigError, match="is hermes's own"):
            (own / path).parent.mkdir(exist_ok=True, parents=True)
            keep(own / path, "x")
            if link:
                (own / "credentials" / "link").symlink_to(own / path)
            read(files=() if link else (CredentialFile(path=path),))


def test_a_directory_is_no_file(own: Path) -> None:
    (own / "d").mkdir()
    with pytest.raises(hermes.ConfigError, match="it is a directory: each file"):
        read(files=(CredentialFile(path="d"),))
    (own / "credentials" / "d").symlink_to(own / "d")  # not passed over in silence
    with pytest.raises(hermes.ConfigError, match="it is a directory: each file"):
        read()


def test_a_variable_that_no_program_could_be_started_with(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = module.MAX_VARIABLE - len(TOKEN) - 2
    keep(own / ".env", f"{TOKEN}={'x' * most}\n")
    assert len(read(env=(TOKEN,)).env[TOKEN]) == most
    keep(own / ".env", f"{TOKEN}={'x' * (most + 1)}\n")
    with pytest.raises(hermes.ConfigError, match=f"the value of {TOKEN} has more than 128 KiB") as caught:
        read(env=(TOKEN,))
    assert "xx" not in str(caught.value)
    names = [f"V{n}" for n in range(9)]
    for name in names:
        monkeypatch.setenv(name, "x" * 120_000)
    with pytest.raises(hermes.ConfigError, match="together more than 1024 KiB"):
        read(env=tuple(names))


def test_a_value_that_no_variable_can_have(own: Path) -> None:
    keep(own / ".env", f"{TOKEN}=a\0b\n")
    with pytest.raises(hermes.ConfigError, match="holds a NUL") as caught:
        read(env=(TOKEN,))
    assert "a\0b" not in str(caught.value)


# --- what is missing


async def test_a_missing_one_keeps_a_sandbox_from_starting(own: Path) -> None:
    config = declared(env=[TOKEN], files=[{"path": "token.json"}])
    with pytest.raises(hermes.ConfigError, match=f"token.json.*{TOKEN}.*nothing was started") as caught:
        await hermes.Sandbox("local", config=config).open()
    assert caught.value.code == "credentials_missing"
    assert not (own / "sandboxes").exists()


def test_it_may_be_told_of_instead(own: Path) -> None:
    with pytest.warns(UserWarning, match=f"missing, and not in the sandbox: the variable {TOKEN}"):
        check(Credentials(env=(TOKEN,), missing="warn"))


def test_an_empty_value_is_none(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "")
    keep(own / ".env", f"{TOKEN}=\n")
    assert read(env=(TOKEN,)).absent


# --- what changed


def test_a_change_is_seen(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RACY_NS", 0)
    keep(own / ".env", f"{TOKEN}=1\n")
    keep(own / "t", "1")
    (own / "credentials" / "d").mkdir()
    monkeypatch.setenv("EDITOR", "vi")
    seen = Declared(Credentials(env=(TOKEN, "EDITOR"), files=(CredentialFile(path="t"),)))

    def changes() -> bool:
        changed = seen.changed()
        seen.read()
        return changed

    seen.read()
    assert not changes()
    steps: list[Callable[[], object]] = [
        lambda: keep(own / "credentials" / "new", "1"),
        lambda: keep(own / "credentials" / "d" / "new", "1"),
        lambda: keep(own / "credentials" / "d" / "new", "2"),
        lambda: (own / "credentials" / "d" / "new").unlink(),
        lambda: keep(own / "t", "2"),
        lambda: (own / "t").unlink(),
        lambda: keep(own / ".env", f"{TOKEN}=2\n"),
        lambda: monkeypatch.setenv("EDITOR", "ed"),
        lambda: monkeypatch.setenv(TOKEN, "3"),
    ]
    for step in steps:
        step()
        assert changes()
        assert not changes()
    assert seen.content.env[TOKEN] == "3"


def test_a_change_within_the_same_time_stamp_is_seen(own: Path) -> None:
    path = keep(own / "credentials" / "a", "1")
    seen = Declared(Credentials())
    state = seen.read().state
    info = path.stat()
    path.write_text("2")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert seen.changed()
    assert seen.read().state != state


def test_what_is_being_written_is_waited_for(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED", 0.02)
    path = own / "credentials" / "a"
    path.write_text("")  # as a program does that writes in place: cut first, written then
    left = iter(["ha", "half", "half and whole"])
    monkeypatch.setattr("time.sleep", lambda _: path.write_text(next(left, "half and whole")))
    assert read().files["a"].data == b"half and whole"


def test_what_looks_undeclared(own: Path) -> None:
    for name in (
        "google_token.json",
        "client_secret.json",
        "auth-oauth.json",
        "notes.txt",
        "config.yaml",
        ".env",
    ):
        keep(own / name, "x")
    known = Credentials(files=(CredentialFile(path="client_secret.json"),))
    assert undeclared(known) == ["auth-oauth.json", "google_token.json"]
