"""The emulated Modal, asked by Modal's own SDK as it is."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from _emulators import Emulated, emulated

modal = pytest.importorskip("modal")
synchronizer = pytest.importorskip("modal._utils.async_utils").synchronizer


@pytest.fixture(scope="module")
def server() -> Iterator[Emulated]:
    """One emulator for all tests here."""
    with emulated("modal") as running:
        yield running


@pytest.fixture
def cloud(server: Emulated, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """An app of the emulated Modal. Its sandboxes are ended afterwards."""
    server.use(monkeypatch)
    with modal.Client.from_credentials(
        server.settings["MODAL_TOKEN_ID"], server.settings["MODAL_TOKEN_SECRET"]
    ) as client:
        cloud = Cloud(server, client)
        yield cloud
        server.ask("/faults", method="DELETE")
        server.line(cut=0, delay=0)
        for one in modal.Sandbox.list(app_id=cloud.app.app_id, client=client):
            one.terminate()
        server.advance(1)  # so that the next test may create as many


class Cloud:
    """What a test has of it."""

    def __init__(self, server: Emulated, client: Any) -> None:
        self.server, self.client = server, client
        self.app = modal.App.lookup("tests", create_if_missing=True, client=client)

    def create(self, **options: Any) -> Any:
        """Create a sandbox."""
        return modal.Sandbox.create(app=self.app, client=self.client, **{"timeout": 3600, **options})

    def run(self, box: Any, *argv: str, stdin: bytes = b"", **options: Any) -> tuple[bytes, bytes, int]:
        """Run a command, and return what it printed and its exit code."""
        process = box.exec(*argv, text=False, **options)
        if stdin:
            process.stdin.write(stdin)
            process.stdin.write_eof()
            process.stdin.drain()
        return process.stdout.read(), process.stderr.read(), process.wait()


def test_a_command_has_both_streams_its_stdin_and_its_exit_code(cloud: Cloud) -> None:
    box = cloud.create()
    every = bytes(range(256))
    assert cloud.run(box, "sh", "-c", "cat; echo no >&2; exit 3", stdin=every) == (every, b"no\n", 3)
    assert cloud.run(box, "sh", "-c", "kill -9 $$")[2] == 128 + 9
    assert cloud.run(box, "pwd", workdir="/tmp")[0] == b"/tmp\n"
    assert cloud.run(box, "sh", "-c", "echo $A", env={"A": "b"})[0] == b"b\n"


def test_sandboxes_do_not_see_each_other(cloud: Cloud) -> None:
    first, second = cloud.create(), cloud.create()
    cloud.run(first, "sh", "-c", "echo mine > /root/file; sleep 100 >/dev/null 2>&1 & echo")
    assert cloud.run(first, "cat", "/root/file")[0] == b"mine\n"
    assert cloud.run(second, "ls", "/root")[0] == b""
    assert b"sleep 100" not in cloud.run(second, "sh", "-c", "cat /proc/*/cmdline | tr '\\0' ' '")[0]


def test_a_stream_goes_on_where_a_cut_left_it(cloud: Cloud) -> None:
    box = cloud.create()
    cloud.server.line(cut=0.4)
    said = cloud.run(box, "sh", "-c", "for i in $(seq 20); do echo $i; sleep 0.1; done")[0]
    assert said.split() == [str(number).encode() for number in range(1, 21)]


def test_what_is_cut_while_it_is_answered_happens_once(cloud: Cloud) -> None:
    box = cloud.create()
    cloud.server.line(delay=0.2)
    cutting = threading.Timer(0.3, lambda: cloud.server.line(now=True))  # when it arrived, before the answer
    cutting.start()
    process = box.exec("sh", "-c", "echo ran >> /tmp/log; wc -l < /tmp/log", text=False)
    assert process.stdout.read().strip() == b"1"
    cutting.join()


def test_a_lifetime_is_fixed_and_ends_everything(cloud: Cloud) -> None:
    box = cloud.create(timeout=600)
    process = box.exec("sleep", "1000")
    cloud.server.advance(400)
    assert box.poll() is None
    cloud.server.advance(200)
    assert box.poll() == 124
    with pytest.raises(modal.exception.Error):
        process.wait()
    with pytest.raises(modal.exception.InvalidError, match="timeout"):
        cloud.create(timeout=25 * 3600)


def test_idle_is_what_runs_nothing(cloud: Cloud) -> None:
    box = cloud.create(idle_timeout=60)
    process = box.exec("cat")
    cloud.server.advance(300)
    assert box.poll() is None
    process.stdin.write_eof()
    process.stdin.drain()
    process.wait()
    cloud.server.advance(130)
    assert box.poll() == 137


def test_a_timeout_of_exec_kills(cloud: Cloud) -> None:
    box = cloud.create()
    process = box.exec("sh", "-c", "sleep 50; echo late", timeout=40)
    cloud.server.advance(41)
    assert process.stdout.read() == ""
    assert process.wait() == 128 + 9


def test_a_snapshot_keeps_files_and_expires(cloud: Cloud) -> None:
    box = cloud.create()
    cloud.run(box, "sh", "-c", "echo kept > /opt/file; ln -s file /opt/link")
    image = box.snapshot_filesystem(timeout=600, ttl=3600)
    cloud.run(box, "rm", "/opt/file")
    box.terminate(wait=True)

    again = cloud.create(image=modal.Image.from_id(image.object_id, client=cloud.client))
    assert cloud.run(again, "cat", "/opt/link")[0] == b"kept\n"
    cloud.server.advance(3601)
    with pytest.raises(modal.exception.NotFoundError):
        cloud.create(image=modal.Image.from_id(image.object_id, client=cloud.client))


def test_a_snapshot_that_takes_longer_than_it_may(cloud: Cloud) -> None:
    box = cloud.create(timeout=600)
    cloud.server.fault("snapshot_slow", seconds=300)
    with pytest.raises(modal.exception.TimeoutError):
        box.snapshot_filesystem(timeout=1)


def test_names_are_unique_among_those_that_run(cloud: Cloud) -> None:
    box = cloud.create(name="one", tags={"of": "me"})
    with pytest.raises(modal.exception.AlreadyExistsError):
        cloud.create(name="one")
    found = modal.Sandbox.from_name("tests", "one", client=cloud.client)
    assert found.object_id == box.object_id
    assert found.get_tags() == {"of": "me"}
    box.terminate(wait=True)
    with pytest.raises(modal.exception.NotFoundError):
        modal.Sandbox.from_name("tests", "one", client=cloud.client)
    assert cloud.create(name="one").object_id != box.object_id


def test_sandboxes_are_listed_by_their_tags(cloud: Cloud) -> None:
    mine = cloud.create(tags={"of": "me", "n": "1"})
    cloud.create(tags={"of": "you"})
    found = modal.Sandbox.list(app_id=cloud.app.app_id, tags={"of": "me"}, client=cloud.client)
    assert [one.object_id for one in found] == [mine.object_id]
    mine.set_tags({"of": "nobody"})
    assert mine.get_tags() == {"of": "nobody"}


def test_no_more_than_five_are_created_in_a_second(cloud: Cloud) -> None:
    with (
        concurrent.futures.ThreadPoolExecutor(9) as pool,
        pytest.raises(modal.exception.ResourceExhaustedError, match="5/s"),
    ):
        list(pool.map(lambda _: cloud.create(), range(9)))
    cloud.server.advance(1)
    cloud.create()


def test_a_server_that_names_a_time_is_heeded_by_the_sdk(cloud: Cloud) -> None:
    cloud.server.fault("exhausted", retry_after=0.5)
    began = time.monotonic()
    cloud.create()
    assert time.monotonic() - began > 0.5


def test_arguments_have_a_limit(cloud: Cloud) -> None:
    box = cloud.create()
    with pytest.raises(modal.exception.InvalidError, match="65536"):
        box.exec("echo", "x" * 65536)


def test_a_gap_in_stdin_is_refused_and_a_repetition_is_not(cloud: Cloud) -> None:
    async def write(process: Any, offset: int, data: bytes, end: bool) -> None:
        await process._command_router_client.exec_stdin_write(
            process._task_id, process._process_id, offset, data, end
        )

    box = cloud.create()
    process = box.exec("cat", text=False)
    inner = synchronizer._translate_in(process)
    send = synchronizer.wrap(write)
    send(inner, 0, b"abc", False)
    send(inner, 1, b"bcd", False)  # as if the answer had been lost
    with pytest.raises(modal.exception.InvalidError, match="4 bytes"):
        send(inner, 9, b"later", False)
    send(inner, 4, b"", True)
    assert process.stdout.read() == b"abcd"


def test_without_a_network_nothing_is_reached(cloud: Cloud) -> None:
    box = cloud.create(block_network=True)
    assert cloud.run(box, "cat", "/proc/net/route")[0].count(b"\n") <= 1
    assert cloud.run(cloud.create(), "cat", "/proc/net/dev")[0] != cloud.run(box, "cat", "/proc/net/dev")[0]


def test_tokens_expire_and_are_fetched_anew(cloud: Cloud) -> None:
    cloud.server.fault("worker_token_expired")
    box = cloud.create()
    assert cloud.run(box, "echo", "ok")[0] == b"ok\n"
    cloud.server.fault("token_expired")
    with pytest.raises(modal.exception.AuthError):
        box.get_tags()
    assert box.get_tags() == {}


def test_a_sandbox_that_ends_in_mid_command_is_told_of(cloud: Cloud) -> None:
    box = cloud.create()
    process = box.exec("cat", text=False)
    cloud.server.fault("stopped_in_command")
    process.stdin.write(b"x")
    with pytest.raises(modal.exception.NotFoundError, match="finished"):
        process.stdin.drain()
    assert box.poll() == 137


def test_a_gpu_needs_the_older_backend(cloud: Cloud) -> None:
    box = cloud.create(gpu="A100", tags={"of": "gpu"})
    assert len(box.object_id) == len("sb-") + 22
    assert cloud.run(box, "echo", "ok")[0] == b"ok\n"
    assert any(one.get("gpu") == "A100" for one in cloud.server.sandboxes())
    found = modal.Sandbox.list(app_id=cloud.app.app_id, tags={"of": "gpu"}, client=cloud.client)
    assert [one.object_id for one in found] == [box.object_id]
    box.terminate(wait=True)
    assert box.poll() == 137


def test_a_real_token_is_refused(server: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODAL_SERVER_URL", server.settings["MODAL_SERVER_URL"])
    with (
        modal.Client.from_credentials("ak-0123456789", "as-0123456789") as client,
        pytest.raises(modal.exception.AuthError, match="malformed"),
    ):
        modal.App.lookup("tests", client=client)


def test_a_call_that_it_does_not_know_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="QueueGetOrCreate"), emulated("modal") as server:
        monkeypatch.setenv("MODAL_SERVER_URL", server.settings["MODAL_SERVER_URL"])
        token = server.settings["MODAL_TOKEN_ID"], server.settings["MODAL_TOKEN_SECRET"]
        with modal.Client.from_credentials(*token) as client:
            queue = modal.Queue.from_name("q", create_if_missing=True, client=client)
            with pytest.raises(modal.exception.Error):
                queue.hydrate()
