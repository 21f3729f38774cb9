"""Connecting to a guest's socket that lies where the hostile side can write."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.backends import _connect
from hermes.backends._connect import connect_guest
from hermes.errors import BackendError, SandboxGone, Unreachable

UID = os.geteuid()
O_PATH = os.O_PATH


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def server(run_dir: Path) -> Iterator[socket.socket]:
    with listen(run_dir / "s", backlog=50) as sock:
        yield sock


def listen(path: Path, backlog: int = 5) -> socket.socket:
    """Listens at a path of any length."""
    sock = socket.socket(socket.AF_UNIX)
    directory = os.open(path.parent, O_PATH)
    try:
        sock.bind(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
    sock.listen(backlog)
    return sock


def unsafe(run_dir: Path, name: str = "s", uid: int = UID) -> str:
    with pytest.raises(BackendError) as caught:
        connect_guest(str(run_dir), name, uid)
    assert caught.value.code == "unsafe_socket"
    return str(caught.value)


def test_it_connects(run_dir: Path, server: socket.socket) -> None:
    with connect_guest(str(run_dir), "s", UID) as sock:
        assert not sock.getblocking()
        there, _ = server.accept()
        with there:
            there.sendall(b"hello")
            assert sock.recv(5) == b"hello"


def test_the_path_may_be_longer_than_a_socket_address(run_dir: Path) -> None:
    deep = run_dir
    for _ in range(5):
        deep = deep / ("x" * 60)
        deep.mkdir(mode=0o700)
    with listen(deep / "s"), connect_guest(str(deep), "s", UID):
        pass


def test_no_descriptor_is_left(run_dir: Path, server: socket.socket) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        connect_guest(str(run_dir), "s", UID).close()
        for name in ("missing", "."):
            with pytest.raises((SandboxGone, ValueError)):
                connect_guest(str(run_dir), name, UID)
    (run_dir / "f").write_text("")
    unsafe(run_dir, "f")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("case", ["no directory", "no socket", "nobody listens"])
def test_nobody_there(run_dir: Path, case: str) -> None:
    if case == "no directory":
        run_dir.rmdir()
    elif case == "nobody listens":
        listen(run_dir / "s").close()
    with pytest.raises(SandboxGone, match="no guest is listening") as caught:
        connect_guest(str(run_dir), "s", UID)
    assert caught.value.reason


@pytest.mark.parametrize("mode", [0o755, 0o701, 0o770, 0o500])
def test_the_directory_must_be_private(run_dir: Path, server: socket.socket, mode: int) -> None:
    run_dir.chmod(mode)
    assert f"its mode is {mode:04o}, not 0700" in unsafe(run_dir)


def test_the_directory_must_be_no_link(run_dir: Path, server: socket.socket, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(run_dir)
    assert "it is not a directory" in unsafe(link)
    assert "it is not a directory" in unsafe(run_dir / "s", "s")


def test_the_owner_must_be_the_expected_one(run_dir: Path, server: socket.socket) -> None:
    assert f"belongs to user {UID}, not 4321" in unsafe(run_dir, uid=4321)


@pytest.mark.skipif(UID != 0, reason="only root can give files away")
def test_each_of_directory_socket_and_server_is_looked_at(run_dir: Path, server: socket.socket) -> None:
    os.chown(run_dir, 4321, 4321)
    assert f"{run_dir}/s cannot be trusted: it belongs to user 0" in unsafe(run_dir, uid=4321)
    os.chown(run_dir / "s", 4321, 4321)
    assert f"user {UID} serves it, not 4321" in unsafe(run_dir, uid=4321)


@pytest.mark.parametrize("kind", ["file", "directory", "fifo", "link to a socket", "dangling link"])
def test_it_must_be_a_socket(run_dir: Path, tmp_path: Path, kind: str) -> None:
    path = run_dir / "s"
    with listen(tmp_path / "elsewhere") as elsewhere:
        elsewhere.setblocking(False)
        if kind == "file":
            path.write_text("")
        elif kind == "directory":
            path.mkdir()
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "link to a socket":
            path.symlink_to(tmp_path / "elsewhere")
        else:
            path.symlink_to("nowhere")
        assert "it is not a socket" in unsafe(run_dir)
        with pytest.raises(BlockingIOError):  # nobody knocked there
            elsewhere.accept()


def test_swapping_the_socket_does_not_redirect(
    run_dir: Path, server: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hostile side replaces the checked socket by a link just before the connect."""
    with listen(tmp_path / "host") as host:
        host.setblocking(False)

        def swap(sock: socket.socket, seconds: int) -> None:
            if seconds:
                (run_dir / "s").rename(run_dir / "old")
                (run_dir / "s").symlink_to(tmp_path / "host")

        monkeypatch.setattr(_connect, "_limit", swap)
        with connect_guest(str(run_dir), "s", UID):
            server.accept()[0].close()
        with pytest.raises(BlockingIOError):
            host.accept()


def test_without_proc_and_path_descriptors(
    run_dir: Path, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_PATH")
    monkeypatch.delattr(socket, "SO_PEERCRED")
    with connect_guest(str(run_dir), "s", UID):
        server.accept()[0].close()
    (run_dir / "link").symlink_to("s")
    assert "it is not a socket" in unsafe(run_dir, "link")


def test_without_proc_a_path_that_is_too_long_says_so(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = run_dir / ("x" * 150)
    deep.mkdir(mode=0o700)
    with listen(deep / "s"):
        monkeypatch.delattr(os, "O_PATH")
        with pytest.raises(BackendError, match="too long"):
            connect_guest(str(deep), "s", UID)


def test_a_server_that_does_not_accept(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connect, "CONNECT_SECONDS", 1)
    with listen(run_dir / "s", backlog=0), connect_guest(str(run_dir), "s", UID):
        with pytest.raises(Unreachable, match="did not accept") as caught:
            connect_guest(str(run_dir), "s", UID)
        assert caught.value.retryable


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/x"])
def test_the_name_is_one_of_the_directory(run_dir: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a file name"):
        connect_guest(str(run_dir), name, UID)


def test_many_at_once(run_dir: Path) -> None:
    with listen(run_dir / "s", backlog=1) as server:
        got: list[socket.socket] = []
        threads = [
            threading.Thread(target=lambda: got.append(connect_guest(str(run_dir), "s", UID)))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        accepted = [server.accept()[0] for _ in threads]
        for thread in threads:
            thread.join(10)
        assert len(got) == 20
        for sock in (*got, *accepted):
            sock.close()
