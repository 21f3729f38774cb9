"""The ready-made byte channels, over real processes and real sockets."""

import asyncio
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.backends.base import ByteChannel
from hermes.backends.channels import ProcessChannel, SocketChannel
from hermes.errors import BackendError, ProtocolError, SandboxGone

OPEN = "open"


class Ends:
    """Collects what a channel delivers."""

    def __init__(self, channel: ByteChannel) -> None:
        self.channel = channel
        self.data = bytearray()
        self.reasons: list[str | None] = []
        self.closed = asyncio.Event()
        self.came = asyncio.Event()

    async def start(self) -> "Ends":
        await self.channel.start(self.on_data, self.on_close)
        return self

    def on_data(self, data: bytes) -> None:
        assert type(data) is bytes
        assert not self.reasons, "data after the close"
        self.data += data
        self.came.set()

    def on_close(self, reason: str | None) -> None:
        self.reasons.append(reason)
        self.closed.set()

    @property
    def reason(self) -> str | None:
        assert len(self.reasons) <= 1
        return self.reasons[0] if self.reasons else OPEN

    async def until(self, size: int) -> bytes:
        async with asyncio.timeout(20):
            while len(self.data) < size:
                self.came.clear()
                await self.came.wait()
        return bytes(self.data)

    async def until_closed(self) -> str | None:
        async with asyncio.timeout(10):
            await self.closed.wait()
        return self.reason


@pytest.fixture(autouse=True)
async def descriptors() -> AsyncIterator[None]:
    """No test leaves a descriptor open."""
    before = os.listdir("/proc/self/fd")
    yield
    await asyncio.sleep(0.01)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def sh(script: str, **options: Any) -> ProcessChannel:
    return ProcessChannel(["sh", "-c", script], **options)


# Processes


async def test_bytes_go_both_ways_unchanged() -> None:
    ends = await Ends(ProcessChannel(["cat"])).start()
    data = bytes(range(256)) * 40
    ends.channel.write(data[:100])
    ends.channel.write(data[100:])
    await ends.channel.drain()
    assert await ends.until(len(data)) == data
    await ends.channel.close()
    assert ends.reason is None


async def test_it_is_what_the_contract_wants() -> None:
    channel: ByteChannel = ProcessChannel(["cat"], encoding="text")
    assert channel.encoding == "text"
    other: ByteChannel = SocketChannel("/nowhere", uid=0)
    assert other.encoding == "binary"


async def test_much_data_with_a_slow_reader_waits_in_drain() -> None:
    ends = await Ends(sh("sleep 0.3; exec cat >/dev/null")).start()
    waited = 0
    for _ in range(100):
        ends.channel.write(b"x" * 100_000)
        start = time.monotonic()
        await ends.channel.drain()
        waited += time.monotonic() - start > 0.1
    assert waited
    await ends.channel.close()


async def test_the_end_is_told_with_code_and_last_words() -> None:
    ends = await Ends(sh("printf data; echo 'no such host' >&2; exit 7")).start()
    assert await ends.until_closed() == "sh ended with exit code 7: no such host"
    assert bytes(ends.data) == b"data"
    await ends.channel.close()
    await ends.channel.close()
    assert ends.reason == "sh ended with exit code 7: no such host"


async def test_all_output_comes_before_the_end() -> None:
    ends = await Ends(sh("head -c 3000000 /dev/zero")).start()
    await ends.until_closed()
    assert len(ends.data) == 3_000_000


async def test_a_signal_is_named() -> None:
    ends = await Ends(sh("kill -9 $$")).start()
    assert await ends.until_closed() == "sh was killed by signal 9"


async def test_only_the_tail_of_stderr_is_kept() -> None:
    seen: list[bytes] = []
    channel = sh("seq 20000 >&2; echo the end >&2; exit 1", on_stderr=seen.append)
    ends = await Ends(channel).start()
    reason = await ends.until_closed()
    assert reason is not None
    assert reason.endswith("the end")
    assert len(channel.stderr_tail) <= 8192
    assert len(b"".join(seen)) > 100_000


async def test_stderr_is_not_mixed_into_the_channel() -> None:
    ends = await Ends(sh("echo noise >&2; echo data; cat")).start()
    assert await ends.until(5) == b"data\n"
    await ends.channel.close()


async def test_a_closed_stdout_ends_it_although_the_process_goes_on() -> None:
    channel = sh("exec >&-; sleep 60", grace=0.2)
    ends = await Ends(channel).start()
    assert await ends.until_closed() == "sh closed its end of the channel"
    await channel.close()
    assert channel.pid is not None
    assert not alive(channel.pid)


async def test_a_closed_stdin_ends_it() -> None:
    channel = sh("exec <&-; sleep 60", grace=0.2)
    ends = await Ends(channel).start()
    assert await ends.until_closed() == "sh closed its end of the channel"
    await channel.close()


async def test_a_child_that_holds_the_pipes_does_not_delay_the_end_for_long() -> None:
    channel = sh("setsid sleep 60 & echo $!; exit 3", grace=0.3)
    ends = await Ends(channel).start()
    start = time.monotonic()
    assert await ends.until_closed() == "sh ended with exit code 3"
    assert time.monotonic() - start < 5
    child = int(bytes(ends.data))
    assert alive(child)  # in a session of its own, it is not ours to end
    os.kill(child, signal.SIGKILL)


async def test_close_ends_a_process_that_reads_its_stdin_at_once() -> None:
    channel = sh("cat >/dev/null; echo bye >&2")
    ends = await Ends(channel).start()
    start = time.monotonic()
    await channel.close()
    assert time.monotonic() - start < 0.9
    assert ends.reason is None
    assert channel.returncode == 0


async def test_close_sends_what_is_queued(tmp_path: Path) -> None:
    ends = await Ends(ProcessChannel(["sh", "-c", 'sleep 0.2; cat >"$0"', str(tmp_path / "f")])).start()
    ends.channel.write(b"y" * 3_000_000)
    await ends.channel.close()
    assert (tmp_path / "f").stat().st_size == 3_000_000


@pytest.mark.parametrize("ignores", ["", "trap '' TERM HUP INT;"])
async def test_close_ends_a_process_that_does_not_care(ignores: str) -> None:
    channel = sh(f"{ignores} sleep 60 & echo $!; while :; do sleep 60; done", grace=0.1)
    ends = await Ends(channel).start()
    await ends.until(2)
    child = int(bytes(ends.data))
    start = time.monotonic()
    await channel.close()
    assert time.monotonic() - start < 4
    assert channel.returncode is not None
    assert channel.returncode < 0
    for _ in range(100):
        if not alive(child):
            break
        await asyncio.sleep(0.02)
    assert not alive(child)


async def test_a_cancelled_close_still_closes() -> None:
    channel = sh("trap '' TERM; while :; do sleep 60; done", grace=0.1)
    ends = await Ends(channel).start()
    task = asyncio.create_task(channel.close())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await ends.until_closed() is None
    await channel.close()
    assert channel.pid is not None
    assert not alive(channel.pid)


async def test_a_cancelled_start_leaves_no_process(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    for delay in (0.0, 0.0005, 0.001, 0.002, 0.005):
        channel = ProcessChannel(["sh", "-c", 'echo $$ >"$0"; exec sleep 60', str(mark)])
        task = asyncio.create_task(Ends(channel).start())
        await asyncio.sleep(delay)
        if task.done():
            await channel.close()
            continue
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.sleep(0.3)
    if mark.exists() and mark.read_text().strip():
        assert not alive(int(mark.read_text()))


async def test_close_during_start_leaves_nothing() -> None:
    for delay in (0.0, 0.0005, 0.001, 0.002, 0.005):
        channel = ProcessChannel(["cat", "/dev/zero"], grace=0.1)
        task = asyncio.create_task(Ends(channel).start())
        await asyncio.sleep(delay)
        await channel.close()
        ends = await task
        assert ends.reason is None
        for _ in range(500):
            if channel.pid is None or not alive(channel.pid):
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("the process is still there")


async def test_short_processes_end_cleanly_however_fast_they_are() -> None:
    for _ in range(40):
        ends = await Ends(ProcessChannel(["true"])).start()
        assert await ends.until_closed() == "true ended with exit code 0"


async def test_nothing_is_delivered_after_close() -> None:
    ends = await Ends(ProcessChannel(["cat", "/dev/zero"])).start()
    await ends.until(1)
    await ends.channel.close()
    size = len(ends.data)
    ends.channel.write(b"nobody")
    await ends.channel.drain()
    await asyncio.sleep(0.05)
    assert len(ends.data) == size


async def test_close_before_and_without_a_start() -> None:
    await ProcessChannel(["cat"]).close()
    await SocketChannel("/nowhere", uid=0).close()


@pytest.mark.parametrize(
    ("argv", "options", "code", "says"),
    [
        (
            ["/no/such/program", "secret"],
            {},
            "backend_unavailable",
            "cannot start '/no/such/program': No such",
        ),
        (["/etc/passwd"], {}, "backend_failed", "Permission denied"),
        (["cat", "a\0b"], {}, "backend_failed", "null"),
        (["cat", "x" * 3_000_000], {}, "backend_failed", "too long"),
        ([], {}, "backend_failed", "cannot start ''"),
    ],
)
async def test_a_process_that_cannot_be_started(argv: list[str], options: Any, code: str, says: str) -> None:
    ends = Ends(ProcessChannel(argv, **options))
    with pytest.raises(BackendError, match=says) as caught:
        await ends.start()
    assert caught.value.code == code
    assert "secret" not in str(caught.value)
    assert ends.reasons == []
    await ends.channel.close()
    assert ends.reasons == []


async def test_environment_directory_descriptors_and_session(tmp_path: Path) -> None:
    read, write = os.pipe()
    channel = ProcessChannel(
        ["bash", "-c", f"env | grep -c HOME; echo $A; pwd; echo inherited >&{write}; ps -o sid= -p $$"],
        env={"A": "b", "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        pass_fds=[write],
    )
    ends = await Ends(channel).start()
    os.close(write)
    await ends.until_closed()
    assert os.read(read, 100) == b"inherited\n"
    os.close(read)
    lines = bytes(ends.data).decode().split()
    assert lines == ["0", "b", str(tmp_path), str(channel.pid)]


async def test_without_a_session_of_its_own() -> None:
    channel = sh("ps -o sid= -p $$; cat", new_session=False)
    ends = await Ends(channel).start()
    await ends.until(2)
    assert int(bytes(ends.data)) == os.getsid(0)
    await channel.close()


async def test_where_the_system_has_no_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    ends = await Ends(sh("echo hi; exit 4")).start()
    assert await ends.until_closed() == "sh ended with exit code 4"


# Sockets


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "r"
    directory.mkdir(mode=0o700)
    return directory


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@pytest.fixture
async def serve(run_dir: Path) -> AsyncIterator[Callable[[Handler], Any]]:
    servers: list[asyncio.Server] = []
    writers: list[asyncio.StreamWriter] = []

    async def start(handler: Handler) -> SocketChannel:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            await handler(reader, writer)

        path = str(run_dir / "guest.sock")
        servers.append(await asyncio.start_unix_server(handle, path))
        return SocketChannel(run_dir, uid=os.geteuid())

    yield start
    for server in servers:
        server.close()
    for writer in writers:
        writer.close()
    await asyncio.sleep(0.01)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0)


async def test_socket_echo(serve: Any) -> None:
    ends = await Ends(await serve(echo)).start()
    data = os.urandom(2_000_000)
    for start in range(0, len(data), 50_000):
        ends.channel.write(data[start : start + 50_000])
        await ends.channel.drain()
    assert await ends.until(len(data)) == data
    await ends.channel.close()
    assert ends.reason is None


async def test_socket_closed_by_the_guest(serve: Any) -> None:
    async def bye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"last words")
        writer.close()

    ends = await Ends(await serve(bye)).start()
    assert await ends.until_closed() == "the guest closed the connection"
    assert bytes(ends.data) == b"last words"
    ends.channel.write(b"nobody")
    async with asyncio.timeout(1):
        await ends.channel.drain()
    await ends.channel.close()


async def test_socket_close_is_bounded_when_the_guest_does_not_read(serve: Any) -> None:
    ends = await Ends(await serve(silent)).start()
    ends.channel.write(b"z" * 5_000_000)
    waiting = asyncio.create_task(ends.channel.drain())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    start = time.monotonic()
    await ends.channel.close()
    assert 0.5 < time.monotonic() - start < 3
    await asyncio.wait_for(waiting, 1)
    assert ends.reason is None


async def test_a_receiver_that_fails_closes_the_channel(serve: Any) -> None:
    ends = Ends(await serve(echo))

    def refuse(data: bytes) -> None:
        raise ProtocolError("frame 9 is too large")

    await ends.channel.start(refuse, ends.on_close)
    ends.channel.write(b"x")
    assert await ends.until_closed() == "frame 9 is too large"


async def test_no_guest(run_dir: Path) -> None:
    ends = Ends(SocketChannel(run_dir, uid=os.geteuid()))
    with pytest.raises(SandboxGone):
        await ends.start()
    assert ends.reasons == []


async def test_a_cancelled_connect_leaves_no_descriptor(run_dir: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
        server.bind(str(run_dir / "guest.sock"))
        server.listen(0)
        first.connect(str(run_dir / "guest.sock"))
        task = asyncio.create_task(Ends(SocketChannel(run_dir, uid=os.geteuid())).start())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.accept()[0].close()
        await asyncio.sleep(0.2)


@pytest.mark.bench
@pytest.mark.parametrize("kind", ["process", "socket"])
async def test_throughput_and_latency(kind: str, run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import os, socket, sys, time\n"
        "if len(sys.argv) > 1:\n"
        "    s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(1); os.write(1, b'!')\n"
        "    c = s.accept()[0]; i = o = c.fileno()\n"
        "else: i, o = 0, 1\n"
        "while True:\n"
        "    got = os.read(i, 100)\n"
        "    if not got: break\n"
        "    if got == b'much':\n"
        "        block = b'x' * 262144\n"
        "        for _ in range(800):\n"
        "            v = memoryview(block)\n"
        "            while v: v = v[os.write(o, v):]\n"
        "    else: os.write(o, got)\n"
    )
    helper = None
    if kind == "process":
        ends = await Ends(ProcessChannel([sys.executable, "-c", code])).start()
    else:
        helper = await Ends(ProcessChannel([sys.executable, "-c", code, str(run_dir / "guest.sock")])).start()
        await helper.until(1)
        ends = await Ends(SocketChannel(run_dir, uid=os.geteuid())).start()
    ends.channel.write(b"hello")
    await ends.until(5)
    times = []
    for turn in range(500):
        start = time.perf_counter()
        ends.channel.write(b"ping")
        await ends.until(5 + 4 * (turn + 1))
        times.append(time.perf_counter() - start)
    before, start = len(ends.data), time.perf_counter()
    ends.channel.write(b"much")
    await ends.until(before + 800 * 262144)
    rate = 800 * 262144 / (time.perf_counter() - start) / 1e6
    with capsys.disabled():
        print(f"\n{kind}: round trip {sorted(times)[250] * 1e6:.0f} us, {rate:.0f} MB/s")
    await ends.channel.close()
    if helper is not None:
        await helper.channel.close()
