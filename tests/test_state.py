"""The state store: whole records, a private file, real processes side by side, what is odd is kept."""

import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import hermes._database
from _state import content, sql, store_content
from hermes._database import MIGRATIONS, Database
from hermes.errors import ConfigError, HermesError
from hermes.state import TOUCH_EVERY, SandboxRecord, Store, check_name, owner, owner_state


def record(name: str = "box", backend: str = "local", **fields: Any) -> SandboxRecord:
    pid, boot = owner()
    base: dict[str, Any] = {"id": "0123abcd", "created": 1.0, "owner_pid": pid, "owner_boot": boot}
    return SandboxRecord(name=name, backend=backend, **(base | fields))


@pytest.fixture
def store(hermes_home: Path) -> Store:
    return Store()


@pytest.fixture
def file(hermes_home: Path) -> Path:
    return hermes_home / "state" / "state.db"


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
    assert store.manifest("0123abcd") is None
    store.remove(record())
    store.touch(record())
    store.unpin()
    assert not hermes_home.exists()


def test_names_are_kept_apart_by_backend_and_sorted(store: Store) -> None:
    for backend, name in (("ssh", "b"), ("local", "b"), ("local", "a"), ("local", "a-b.c_D")):
        store.put(record(name, backend))
    assert [(r.backend, r.name) for r in store.all()] == [
        ("local", "a"),
        ("local", "a-b.c_D"),
        ("local", "b"),
        ("ssh", "b"),
    ]


def test_a_later_record_replaces_the_earlier(store: Store, hermes_home: Path) -> None:
    store.put(record(options={"long": "x" * 10000}))
    store.put(record(id="ffffffff"))
    assert [r.id for r in store.all()] == ["ffffffff"]
    assert os.listdir(hermes_home / "state") == ["state.db"]


def test_remove_leaves_the_successor_of_the_name(store: Store) -> None:
    old, new = record(), record(id="ffffffff")
    store.put_manifest(new.id, b"of the new one")
    store.put(new)
    store.remove(old)
    assert store.get("local", "box") == new
    assert store.manifest(new.id) == b"of the new one"
    store.remove(new)
    store.remove(new)
    assert store.get("local", "box") is None
    assert store.manifest(new.id) is None


def test_touch_notes_the_use(store: Store, file: Path) -> None:
    before = time.time()
    box = record(last_used=before - TOUCH_EVERY - 1)
    store.put(box)
    store.touch(box)
    found = store.get("local", "box")
    assert found is not None
    assert found.last_used >= before
    changed = file.read_bytes()
    store.touch(found)
    assert file.read_bytes() == changed
    sql(file.parent.parent, "UPDATE sandboxes SET last_used = ?", time.time() + 3600)
    ahead = store.get("local", "box")  # the clock was set back
    assert ahead is not None
    store.touch(ahead)
    assert ahead.last_used < time.time() + 60


def test_what_is_due_is_so_once(store: Store, hermes_home: Path) -> None:
    assert not store.due("sweep-docker", 100.0)  # nothing can be left yet
    sql(hermes_home, "UPDATE notes SET content = ?", str(time.time() - 101))
    assert store.due("sweep-docker", 100.0)
    assert not store.due("sweep-docker", 100.0)
    assert not store.due("sweep-ssh", 0.0)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a@b", "-x", "a b", "ä", "a\n", "a\0", "x" * 64])
def test_unfit_names_are_refused(store: Store, hermes_home: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a sandbox name"):
        store.put(record(name))
    with pytest.raises(ConfigError):
        store.get("local", name)
    with pytest.raises(ConfigError):
        store.lock("local", name)
    assert not hermes_home.exists()


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
        with Database(hermes_home / "state").writing() as db:
            db.execute("INSERT INTO notes VALUES ('a', 'b')")
            db.execute("COMMIT")
            found = modes(hermes_home)
            db.execute("BEGIN")
    finally:
        os.umask(old)
    assert found == {
        ".": "0o700",
        "state": "0o700",
        "state/state.db": "0o600",
        "state/state.db-wal": "0o600",
        "state/state.db-shm": "0o600",
    }
    assert [*sql(hermes_home, "PRAGMA journal_mode")] == [("wal",)]


def test_wider_modes_are_repaired_but_not_those_of_home(store: Store, hermes_home: Path, file: Path) -> None:
    store.put(record())
    hermes_home.chmod(0o755)
    (hermes_home / "state").chmod(0o777)
    file.chmod(0o644)
    store.get("local", "box")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with store.lock("local", "other"):
        store.put(record("other"))
    found = modes(hermes_home)
    assert (found["."], found["state"], found["state/locks"]) == ("0o755", "0o700", "0o700")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_what_belongs_to_another_user_is_not_used(store: Store, hermes_home: Path, file: Path) -> None:
    store.put(record())
    os.chown(file, 12345, 12345)
    with pytest.raises(HermesError, match="belongs to user 12345") as caught:
        store.get("local", "box")
    assert caught.value.code == "state_unreadable"
    file.unlink()
    os.chown(hermes_home / "state", 12345, 12345)
    with pytest.raises(HermesError, match="nothing was written") as caught:
        store.put(record("other"))
    assert caught.value.code == "state_unsafe"


# What makes no sense


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
    store_content(hermes_home, "local", "box", data)
    with pytest.raises(HermesError) as caught:
        store.get("local", "box")
    assert caught.value.code == "state_unreadable"
    problems: list[str] = []
    assert [r.name for r in store.all(problems)] == ["good"]
    assert len(problems) == 1
    assert "local sandbox 'box'" in problems[0]
    assert "left as it is" in problems[0]
    assert [r.name for r in store.all()] == ["good"]
    with pytest.raises(HermesError):
        store.remove(record())
    assert sql(hermes_home, "SELECT record FROM sandboxes WHERE name = 'box'") == [(data,)]


def test_fields_of_a_later_version_are_ignored(store: Store, hermes_home: Path) -> None:
    store.put(record())
    later = content(hermes_home, "local", "box").replace('{"name"', '{"colour":"red","name"')
    store_content(hermes_home, "local", "box", later)
    assert store.get("local", "box") is not None


@pytest.mark.parametrize("kind", ["empty", "garbage", "half", "page", "directory", "link", "fifo"])
def test_a_file_that_cannot_be_used_is_reported_and_kept(
    store: Store, hermes_home: Path, file: Path, kind: str
) -> None:
    """Nothing is ever made in its place."""
    for number in range(60):
        store.put(record(f"box{number}", options={"fill": "x" * 400}))
    whole = file.read_bytes()
    broken = {
        "empty": b"",
        "garbage": os.urandom(len(whole)),
        "half": whole[: len(whole) // 2],
        "page": whole[:4096] + b"\xff" * (len(whole) - 4096),
    }
    file.unlink()
    if kind == "directory":
        file.mkdir()
    elif kind == "link":
        (hermes_home / "elsewhere").write_bytes(whole)
        file.symlink_to(hermes_home / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.write_bytes(broken[kind])
    for use in (
        lambda: store.all(),
        lambda: store.put(record("box7", options={"fill": "y" * 20000})),
        lambda: store.remove(record("box50")),
    ):
        with pytest.raises(
            HermesError, match=r"state\.db cannot be used: .*; it was left as it is"
        ) as caught:
            use()
        assert caught.value.code == "state_unreadable"
    if kind in broken:
        assert file.read_bytes() == broken[kind]
    assert [path.name for path in file.parent.iterdir() if not path.name.endswith(("-wal", "-shm"))] == [
        "state.db"
    ]


def test_a_state_directory_that_is_a_file(store: Store, hermes_home: Path) -> None:
    hermes_home.mkdir(mode=0o700)
    (hermes_home / "state").write_text("")
    with pytest.raises(HermesError, match="cannot") as caught:
        store.put(record())
    assert caught.value.code == "state_unwritable"
    with pytest.raises(HermesError):
        store.all()


def test_a_full_disk_keeps_the_earlier_record(store: Store, hermes_home: Path, file: Path) -> None:
    store.put(record())
    before = store.get("local", "box")
    child = python(
        """
        import resource
        from hermes.errors import HermesError
        most = os.stat(sys.argv[1]).st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        pid, boot = owner()
        fields = dict(backend="local", created=1.0, owner_pid=pid, owner_boot=boot)
        try:
            Store().put(SandboxRecord(name="box", id="f" * 8, options={"fill": "x" * 100000}, **fields))
        except HermesError as error:
            print(error.code, error.message)
        """,
        str(file),
    )
    out = finish(child)
    assert out.startswith("state_unwritable ")
    assert "cannot be written" in out
    assert out.endswith("; what is kept there is as it was\n")
    assert store.get("local", "box") == before


# Versions of the file


def test_a_later_migration_is_done_once_and_whole(
    store: Store, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(record())
    assert sql(hermes_home, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    wrong = "ALTER TABLE sandboxes ADD COLUMN colour TEXT; INSERT INTO nowhere VALUES (1)"
    monkeypatch.setattr(hermes._database, "MIGRATIONS", (*MIGRATIONS, wrong))
    with pytest.raises(HermesError, match="nowhere"):
        store.all()
    assert "colour" not in str(sql(hermes_home, "SELECT sql FROM sqlite_master"))
    right = "CREATE TABLE colours (sandbox TEXT); INSERT INTO colours SELECT name FROM sandboxes"
    monkeypatch.setattr(hermes._database, "MIGRATIONS", (*MIGRATIONS, right))
    for _ in range(2):
        assert [one.name for one in store.all()] == ["box"]
        assert sql(hermes_home, "SELECT * FROM colours") == [("box",)]
    monkeypatch.setattr(hermes._database, "MIGRATIONS", MIGRATIONS)
    with pytest.raises(HermesError, match="by a later hermes") as caught:
        store.put(record("other"))
    assert caught.value.code == "state_newer"


def old_files(home: Path) -> dict[str, bytes]:
    """Make what a hermes that kept files would have left."""
    state = home / "state"
    for folder in (home, state, state / "sandboxes", state / "workspaces", state / "locks"):
        folder.mkdir(mode=0o700)
    pid, boot = owner()
    made = {
        "sandboxes/local@box.json": f'{{"name":"box","backend":"local","id":"0123abcd","created":1.5,'
        f'"owner_pid":{pid},"owner_boot":"{boot}","locator":{{"a":[1]}},"last_used":5}}'.encode(),
        "sandboxes/docker@my-box.2.json": b'{"name":"my-box.2","backend":"docker","id":"x","created":1,'
        b'"owner_pid":1,"owner_boot":""}',
        "sandboxes/ssh@broken.json": b"{",
        "sandboxes/ssh@noise.json": b"\xff\xfe",
        "workspaces/0123abcd.json": b'{"root":"/w"}',
        "auto.json": b'{"backend":"podman","pinned":1.5}',
        "grants.json": b'{"version":1,"grants":[]}',
        "sweep-docker": b"",
        "told-local": b"",
    }
    for name, data in made.items():
        (state / name).write_bytes(data)
        os.utime(state / name, (1000, 1000))
    return made


def test_what_an_earlier_hermes_kept_is_taken_over_once(store: Store, hermes_home: Path) -> None:
    old_files(hermes_home)
    problems: list[str] = []
    found = store.all(problems)
    assert [(one.backend, one.name, one.last_used) for one in found] == [
        ("docker", "my-box.2", 1000.0),
        ("local", "box", 1000.0),
    ]
    assert found[1].locator == {"a": [1]}
    assert [("'broken'" in one or "'noise'" in one) for one in problems] == [True, True]
    for name in ("broken", "noise"):
        with pytest.raises(HermesError, match="left as it is"):
            store.get("ssh", name)
    assert store.manifest("0123abcd") == b'{"root":"/w"}'
    assert store.pinned() == "podman"
    assert store.due("sweep-docker", 100.0)
    assert store.note("grants") == '{"version":1,"grants":[]}'
    assert sorted(os.listdir(hermes_home / "state")) == ["locks", "state.db", "told-local"]
    store.remove(found[1])
    (hermes_home / "state" / "auto.json").write_text('{"backend":"ssh","pinned":1}')
    assert store.get("local", "box") is None
    assert store.pinned() == "podman"


@pytest.mark.parametrize("kind", ["directory", "link", "fifo", "strange name"])
def test_what_cannot_be_taken_over_is_reported_and_kept(store: Store, hermes_home: Path, kind: str) -> None:
    old_files(hermes_home)
    folder = hermes_home / "state" / "sandboxes"
    path = folder / "local@odd.json"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(folder / "local@box.json")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path = folder / "no-at-sign.json"
        path.write_text("{}")
    for _ in range(2):
        problems: list[str] = []
        assert [r.name for r in store.all(problems)] == ["my-box.2", "box"]
        assert [str(path) in problem for problem in problems] == [False, False, True]
        assert path.is_symlink() or path.exists()
    assert os.listdir(folder) == [path.name]


@pytest.mark.parametrize(
    "stop", ["INSERT INTO manifests", "INSERT INTO sandboxes", "COMMIT", "rename", "unlink"]
)
def test_a_take_over_that_is_killed_loses_nothing(hermes_home: Path, stop: str) -> None:
    made = old_files(hermes_home)
    code = """
        import pathlib, signal, sqlite3
        stop = sys.argv[1]
        def die(*_): os.kill(os.getpid(), signal.SIGKILL)
        class Watched(sqlite3.Connection):
            def execute(self, statement, *values):
                if statement.startswith(stop) and self.execute_done: die()
                self.execute_done = True
                return super().execute(statement, *values)
            execute_done = False
        plain = sqlite3.connect
        sqlite3.connect = lambda *args, **kinds: plain(*args, factory=Watched, **kinds)
        if stop == "rename": os.rename = die
        if stop == "unlink":
            gone = pathlib.Path.unlink
            def unlink(path, **kinds): die() if path.name == "ssh@broken.json" else gone(path, **kinds)
            pathlib.Path.unlink = unlink
        Store().all()
    """
    child = python(code, stop)
    child.communicate(timeout=30)
    assert child.returncode == -signal.SIGKILL
    problems: list[str] = []
    assert [one.name for one in Store().all(problems)] == ["my-box.2", "box"]
    assert Store().manifest("0123abcd") == made["workspaces/0123abcd.json"]
    assert Store().pinned() == "podman"
    assert os.path.exists(hermes_home / "state" / ".state.db") is False


def test_two_that_take_over_at_once(hermes_home: Path) -> None:
    old_files(hermes_home)
    code = """
        sys.stdin.readline()
        print(*(one.name for one in Store().all([])))
    """
    children = [python(code) for _ in range(4)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    assert [finish(child) for child in children] == ["my-box.2 box\n"] * 4


def test_no_shared_memory_where_other_machines_may_look(
    store: Store, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hermes._database, "_ONE_MACHINE", frozenset({"nfs"}))
    store.put(record())
    assert sql(hermes_home, "PRAGMA journal_mode") == [("delete",)]
    assert [one.name for one in store.all()] == ["box"]


# The pinned choice


def test_pinning(store: Store, hermes_home: Path) -> None:
    store.pin("docker", "it works here")
    store.pin("jail")
    assert store.pinned() == "jail"
    assert Store().pinned() == "jail"
    store.pin("local")  # as earlier versions did
    assert store.pinned() is None
    sql(hermes_home, "UPDATE notes SET content = '{'")
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
    assert os.listdir(hermes_home / "state") == ["state.db"]


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


@pytest.mark.parametrize("when", ["before", "in", "after"])
def test_a_process_killed_in_mid_write_leaves_all_or_nothing(
    store: Store, hermes_home: Path, when: str
) -> None:
    """It frees what it held, and the next one finds the last whole state."""
    store.pin("docker")
    code = """
        from hermes._database import Database
        from pathlib import Path
        store = Store()
        lock = store.lock("local", "box"); lock.acquire()
        def stuck(): print("writing", flush=True); time.sleep(60)
        if sys.argv[2] == "after": store.pin("ssh"); stuck()
        with Database(Path(sys.argv[1])).writing() as db:
            db.execute("UPDATE notes SET content = 'half'")
            if sys.argv[2] == "in":
                db.execute("PRAGMA cache_spill = 1"); db.execute("PRAGMA cache_size = 1")
                for number in range(200):  # more than the cache takes: uncommitted pages are in the file
                    db.execute("INSERT INTO manifests VALUES (?, zeroblob(20000))", (number,))
            stuck()
    """
    child = python(code, str(hermes_home / "state"), when)
    assert child.stdout is not None
    assert child.stdout.readline() == "writing\n"
    if when == "in":
        assert (hermes_home / "state" / "state.db-wal").stat().st_size > 1 << 20
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with store.lock("local", "box", timeout=5):
        assert store.pinned() == ("ssh" if when == "after" else "docker")
        assert sql(hermes_home, "SELECT * FROM manifests") == []
        store.pin("jail")
    assert store.pinned() == "jail"
    assert sql(hermes_home, "PRAGMA integrity_check") == [("ok",)]
    assert sorted(os.listdir(hermes_home / "state")) == ["locks", "state.db"]


def test_processes_killed_at_any_moment_lose_nothing_they_said_was_kept(
    store: Store, hermes_home: Path, tmp_path: Path
) -> None:
    code = """
        store, number, log = Store(), int(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
        pid, boot = owner()
        while True:
            fields = dict(backend="local", created=1.0, owner_pid=pid, owner_boot=boot)
            store.put(SandboxRecord(name=f"n{number}", id="x", options={"fill": "y" * 3000}, **fields))
            os.write(log, f"{number}\\n".encode())
            number += 1
    """
    log = tmp_path / "log"
    log.touch()
    for turn in range(8):
        before = log.stat().st_size
        children = [python(code, str(turn * 10000 + side * 5000), str(log)) for side in range(2)]
        while log.stat().st_size == before:
            time.sleep(0.005)
        time.sleep(0.03 * turn)
        for child in children:
            child.kill()
            child.communicate()
    kept = {int(line) for line in log.read_text().split()}
    found = {int(one.name[1:]) for one in store.all()}
    assert kept <= found
    assert len(found) <= len(kept) + 16  # of each process the one that it had no time to tell of
    assert sql(hermes_home, "PRAGMA integrity_check") == [("ok",)]


def test_who_writes_too_long_is_told_of(
    store: Store, hermes_home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(record())
    monkeypatch.setattr(hermes._database, "PATIENCE", 0.2)
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert [one.name for one in store.all()] == ["box"]  # readers wait for nobody
        with pytest.raises(HermesError, match=r"another hermes process has held .*state\.db") as caught:
            store.pin("docker")
    assert (caught.value.code, caught.value.retryable) == ("state_busy", True)
    store.pin("docker")
    assert store.pinned() == "docker"


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
