"""The state store: whole records, private files, locks between real processes, odd files kept."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hermes.errors import ConfigError, HermesError
from hermes.state import SandboxRecord, Store, check_name, owner, owner_state


def record(name: str = "box", backend: str = "local", **fields: Any) -> SandboxRecord:
    pid, boot = owner()
    base: dict[str, Any] = {"id": "0123abcd", "created": 1.0, "owner_pid": pid, "owner_boot": boot}
    return SandboxRecord(name=name, backend=backend, **(base | fields))


@pytest.fixture
def store(hermes_home: Path) -> Store:
    return Store()


def records(home: Path) -> Path:
    return home / "state" / "sandboxes"


def python(code: str, *args: str, **options: Any) -> subprocess.Popen[str]:
    code = "from hermes.state import *\nimport os, sys, time\n" + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return out


def test_a_record_comes_back_as_it_went(store: Store) -> None:
    full = record(
        named=True, workspace="/w", options={"a": [1, None]}, locator={"run_dir": "/r"}, last_used=2e12
    )
    store.put(full)
    assert store.get("local", "box") == full
    assert store.get("local", "other") is None
    assert store.get("docker", "box") is None
    assert store.all() == [full]


def test_reading_creates_nothing(store: Store, hermes_home: Path) -> None:
    assert store.get("local", "box") is None
    assert store.all() == []
    assert store.pinned() is None
    store.remove(record())
    store.touch(record())
    store.unpin()
    assert not hermes_home.exists()


def test_names_are_kept_apart_by_backend_and_sorted(store: Store) -> None:
    for backend, name in (("ssh", "b"), ("local", "b"), ("local", "a"), ("local", "a-b.c_D")):
        store.put(record(name, backend))
    assert [(r.backend, r.name) for r in store.all()] == [
        ("local", "a-b.c_D"),
        ("local", "a"),
        ("local", "b"),
        ("ssh", "b"),
    ]


def test_a_later_record_replaces_the_earlier(store: Store, hermes_home: Path) -> None:
    store.put(record(options={"long": "x" * 10000}))
    store.put(record(id="ffffffff"))
    assert [r.id for r in store.all()] == ["ffffffff"]
    assert os.listdir(records(hermes_home)) == ["local@box.json"]


def test_remove_leaves_the_successor_of_the_name(store: Store) -> None:
    old, new = record(), record(id="ffffffff")
    store.put(new)
    store.remove(old)
    assert store.get("local", "box") == new or store.get("local", "box") is not None
    store.remove(new)
    store.remove(new)
    assert store.get("local", "box") is None


def test_touch_notes_the_use(store: Store) -> None:
    before = time.time()
    box = record()
    store.put(box)
    os.utime(store._file("local", "box"), (1, 1))
    store.touch(box)
    found = store.get("local", "box")
    assert found is not None
    assert found.last_used >= before - 1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a@b", "-x", "a b", "ä", "a\n", "a\0", "x" * 64])
def test_unfit_names_are_refused(store: Store, hermes_home: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a sandbox name"):
        store.put(record(name))
    with pytest.raises(ConfigError):
        store.get("local", name)
    with pytest.raises(ConfigError):
        store.lock("local", name)
    assert not records(hermes_home).exists()


def test_fit_names() -> None:
    for name in ("a", "0", "My.box_1-2", "x" * 63):
        assert check_name(name) == name


# Permissions


def modes(home: Path) -> dict[str, str]:
    return {
        str(path.relative_to(home)): oct(stat.S_IMODE(path.stat().st_mode)) for path in home.rglob("*")
    } | {".": oct(stat.S_IMODE(home.stat().st_mode))}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_everything_is_private(store: Store, hermes_home: Path, umask: int) -> None:
    old = os.umask(umask & 0o077)
    try:
        store.put(record())
        store.pin("local")
    finally:
        os.umask(old)
    assert modes(hermes_home) == {
        ".": "0o700",
        "state": "0o700",
        "state/sandboxes": "0o700",
        "state/sandboxes/local@box.json": "0o600",
        "state/auto.json": "0o600",
    }


def test_wider_modes_are_repaired_but_not_those_of_home(store: Store, hermes_home: Path) -> None:
    store.put(record())
    hermes_home.chmod(0o755)
    records(hermes_home).chmod(0o755)
    (hermes_home / "state").chmod(0o777)
    file = records(hermes_home) / "local@box.json"
    file.chmod(0o644)
    store.get("local", "box")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    store.put(record("other"))
    found = modes(hermes_home)
    assert (found["."], found["state"], found["state/sandboxes"]) == ("0o755", "0o700", "0o700")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_what_belongs_to_another_user_is_not_used(store: Store, hermes_home: Path) -> None:
    store.put(record())
    file = records(hermes_home) / "local@box.json"
    os.chown(file, 12345, 12345)
    with pytest.raises(HermesError, match="belongs to user 12345") as caught:
        store.get("local", "box")
    assert caught.value.code == "state_unreadable"
    os.chown(hermes_home / "state", 12345, 12345)
    with pytest.raises(HermesError, match="nothing was written") as caught:
        store.put(record("other"))
    assert caught.value.code == "state_unsafe"


# Files that make no sense


ODD = {
    "empty": b"",
    "half": b'{"name":"box","backend":"loc',
    "not json": b"\xff\xfe garbage",
    "wrong type": b'{"name":"box","backend":"local","id":7,"created":1,"owner_pid":1,"owner_boot":""}',
    "a list": b"[]",
    "another's": b'{"name":"x","backend":"local","id":"a","created":1,"owner_pid":1,"owner_boot":""}',
    "huge": b" " * ((1 << 20) + 1),
    "deep": b"[" * 100000,
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD.keys())
def test_an_unreadable_record_is_reported_and_kept(store: Store, hermes_home: Path, data: bytes) -> None:
    store.put(record("good"))
    file = records(hermes_home) / "local@box.json"
    file.write_bytes(data)
    with pytest.raises(HermesError) as caught:
        store.get("local", "box")
    assert caught.value.code == "state_unreadable"
    problems: list[str] = []
    assert [r.name for r in store.all(problems)] == ["good"]
    assert len(problems) == 1
    assert str(file) in problems[0]
    assert "left as it is" in problems[0]
    assert [r.name for r in store.all()] == ["good"]
    with pytest.raises(HermesError):
        store.remove(record())
    assert file.read_bytes() == data


@pytest.mark.parametrize("kind", ["directory", "link", "fifo", "strange name"])
def test_what_is_no_file_is_reported_and_kept(store: Store, hermes_home: Path, kind: str) -> None:
    store.put(record("good"))
    path = records(hermes_home) / "local@box.json"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(records(hermes_home) / "local@good.json")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path = records(hermes_home) / "no-at-sign.json"
        path.write_text("{}")
    problems: list[str] = []
    assert [r.name for r in store.all(problems)] == ["good"]
    assert len(problems) == 1
    assert path.is_symlink() or path.exists()


def test_fields_of_a_later_version_are_ignored(store: Store, hermes_home: Path) -> None:
    store.put(record())
    file = records(hermes_home) / "local@box.json"
    file.write_bytes(file.read_bytes().replace(b'{"name"', b'{"colour":"red","name"'))
    assert store.get("local", "box") is not None


def test_a_state_directory_that_is_a_file(store: Store, hermes_home: Path) -> None:
    hermes_home.mkdir()
    (hermes_home / "state").write_text("")
    with pytest.raises(HermesError, match="cannot") as caught:
        store.put(record())
    assert caught.value.code == "state_unwritable"
    with pytest.raises(HermesError):
        store.all()


def test_a_full_disk_keeps_the_earlier_record(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(record())
    before = store.get("local", "box")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HermesError, match=r"No space left on device; the record there, if any, is as it was"):
        store.put(record(id="ffffffff"))
    assert store.get("local", "box") == before
    assert os.listdir(store._records) == ["local@box.json"]


# The pinned choice


def test_pinning(store: Store) -> None:
    store.pin("docker", "it works here")
    store.pin("jail")
    assert store.pinned() == "jail"
    assert Store().pinned() == "jail"
    store.pin("local")  # as earlier versions did
    assert store.pinned() is None
    store._pin.write_text("{")
    with pytest.raises(HermesError) as caught:
        store.pinned()
    assert caught.value.code == "state_unreadable"
    store.unpin()
    assert store.pinned() is None


# Owners


def test_this_process_is_alive(store: Store) -> None:
    assert owner() == owner()
    assert owner_state(record()) == "alive"


def test_an_ended_process_is_dead_also_as_a_zombie() -> None:
    child = python("print(*owner(), flush=True); sys.stdin.read()")
    assert child.stdin is not None
    assert child.stdout is not None
    pid, boot = child.stdout.readline().split()
    box = record(owner_pid=int(pid), owner_boot=boot)
    assert owner_state(box) == "alive"
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owner_state(box) == "dead"
    child.stdin = None
    finish(child)
    assert owner_state(box) == "dead"


def test_a_number_used_again_is_another_process() -> None:
    boot = owner()[1]
    assert owner_state(record(owner_pid=1, owner_boot=boot)) == "dead"
    host, _, space, started = boot.split("/")
    assert owner_state(record(owner_boot=f"{host}/another/{space}/{started}")) == "dead"


@pytest.mark.parametrize("boot", ["elsewhere/b/1/2", "", "/", "x"])
def test_what_cannot_be_told_is_unknown(boot: str) -> None:
    assert owner_state(record(owner_boot=boot)) == "unknown"
    host, ours, _, started = owner()[1].split("/")
    assert owner_state(record(owner_boot=f"{host}/{ours}/7/{started}")) == "unknown"


# Several processes


def test_concurrent_writers_lose_and_tear_nothing(store: Store, hermes_home: Path) -> None:
    code = """
        me, store = sys.argv[1], Store()
        pid, boot = owner()
        sys.stdin.readline()
        for turn in range(25):
            fields = dict(backend="local", created=1.0, owner_pid=pid, owner_boot=boot)
            store.put(SandboxRecord(name="shared", id=me * 8, options={"fill": me * 3000}, **fields))
            store.put(SandboxRecord(name=f"own{me}-{turn}", id=me * 8, **fields))
    """
    writers = [python(code, me) for me in "abcd"]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    seen = set()
    while any(writer.poll() is None for writer in writers):
        shared = store.get("local", "shared")
        if shared is not None:
            assert shared.options["fill"] == shared.id[0] * 3000
            seen.add(shared.id)
    for writer in writers:
        finish(writer)
    problems: list[str] = []
    assert len(store.all(problems)) == 4 * 25 + 1
    assert problems == []
    assert len(seen) > 1
    assert [name for name in os.listdir(records(hermes_home)) if name.startswith(".")] == []


def test_the_lock_keeps_processes_apart(store: Store, tmp_path: Path) -> None:
    code = """
        store, log = Store(), sys.argv[1]
        for turn in range(20):
            with store.lock("local", "box"):
                with open(log, "a") as file: file.write("in\\n")
                time.sleep(0.001)
                with open(log, "a") as file: file.write("out\\n")
    """
    log = tmp_path / "log"
    for process in [python(code, str(log)) for _ in range(4)]:
        finish(process)
    assert log.read_text() == "in\nout\n" * 80
    assert os.listdir(store._locks) == []


def test_a_held_lock_is_an_error_in_time_and_other_names_are_free(store: Store) -> None:
    with store.lock("local", "box"):
        start = time.monotonic()
        with pytest.raises(HermesError, match="another hermes process has held") as caught:
            store.lock("local", "box", timeout=0.2).acquire()
        assert time.monotonic() - start < 2
        assert (caught.value.code, caught.value.retryable) == ("state_busy", True)
        with store.lock("local", "other", timeout=0), store.lock("docker", "box", timeout=0):
            store.put(record())
    with store.lock("local", "box", timeout=0):
        pass


def test_a_killed_process_frees_the_lock_and_leaves_no_draft(store: Store, hermes_home: Path) -> None:
    code = """
        store = Store()
        lock = store.lock("local", "box"); lock.acquire()
        real = os.fsync
        def stuck(fd):
            print("writing", flush=True); time.sleep(60)
        os.fsync = stuck
        store.pin("local")
    """
    child = python(code)
    assert child.stdout is not None
    assert child.stdout.readline() == "writing\n"
    assert (hermes_home / "state" / ".draft").exists()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with store.lock("local", "box", timeout=5):
        store.pin("docker")
    assert store.pinned() == "docker"
    assert sorted(os.listdir(hermes_home / "state")) == ["auto.json", "locks"]


def test_giving_up_while_another_thread_waits(store: Store) -> None:
    holder = store.lock("local", "box")
    holder.acquire()
    waiter = store.lock("local", "box", timeout=30)
    thread = threading.Thread(target=waiter.acquire)
    thread.start()
    time.sleep(0.05)
    waiter.release()
    thread.join(5)
    assert not thread.is_alive()
    holder.release()
    holder.release()
    with store.lock("local", "box", timeout=0):
        pass
