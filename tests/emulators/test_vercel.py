"""The emulated Vercel does for the provider's own SDK what the real one is documented to do."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from _emulators import Emulated, emulated

vercel = pytest.importorskip("vercel.sandbox")
DAY = 86400


@pytest.fixture(scope="module")
def shared() -> Iterator[Emulated]:
    with emulated("vercel") as emulator:
        yield emulator


@pytest.fixture
def cloud(shared: Emulated) -> Iterator[Emulated]:
    """An emulator with nothing switched on."""
    yield shared
    shared.ask("/faults", method="DELETE")
    shared.line(delay=0, cut=0)


@contextlib.asynccontextmanager
async def client_of(cloud: Emulated, **other: str) -> AsyncIterator[Any]:
    settings = {**cloud.settings, **other}

    async def credentials() -> Any:
        return vercel.SandboxCredentials(
            token=settings["VERCEL_TOKEN"],
            team_id=settings["VERCEL_TEAM_ID"],
            project_id=settings["VERCEL_PROJECT_ID"],
        )

    options = vercel.SandboxServiceOptions(
        base_url=settings["HERMES_VERCEL_API_URL"], credentials_factory=credentials
    )
    client = vercel.SandboxClient.create(options=options)
    try:
        yield client
    finally:
        await client.aclose()


@pytest.fixture
async def client(cloud: Emulated) -> AsyncIterator[Any]:
    async with client_of(cloud) as found:
        yield found


@pytest.fixture
async def box(client: Any) -> AsyncIterator[Any]:
    """A sandbox that is not persistent."""
    async with client.create_sandbox(persistent=False) as found:
        yield found


async def until(cloud: Emulated, name: str, status: str) -> dict[str, Any]:
    """Wait until the emulator says that of a sandbox."""
    for _ in range(200):
        for one in await asyncio.to_thread(cloud.sandboxes):
            if one["name"] == name and one["status"] == status:
                return one
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} did not become {status}")


async def refused(work: Any) -> Any:
    with pytest.raises(vercel.SandboxApiError) as caught:
        await work
    return caught.value


# --- commands


async def test_a_command_has_streams_directory_and_exit_code(box: Any) -> None:
    done = await box.run_process(
        "sh", ["-c", "pwd; echo $A $HOME; echo bad >&2; exit 3"], env={"A": "x y"}, capture_output=True
    )
    assert done.returncode == 3
    assert done.stdout == "/vercel/sandbox\nx y /home/vercel-sandbox\n"
    assert done.stderr == "bad\n"


async def test_a_signal_is_a_code_above_128_and_a_missing_program_is_127(box: Any) -> None:
    assert (await box.run_process("sh", ["-c", "kill -9 $$"], capture_output=True)).returncode == 137
    assert (await box.run_process("nothing-of-that-name", capture_output=True)).returncode == 127


async def test_output_is_text_whatever_was_printed(box: Any) -> None:
    done = await box.run_process("printf", [r"a\377\303\244b"], capture_output=True)
    assert done.stdout == "a\ufffd\u00e4b"


async def test_stdin_stays_open_and_output_comes_as_it_is_printed(box: Any) -> None:
    process = await box.create_process("cat", stdin=subprocess.PIPE)
    for word in ("one\n", "two\n"):
        await process.stdin.send(word.encode())
        assert await process.stdout.readline() == word
    await process.stdin.aclose()
    assert await process.wait() == 0


async def test_without_stdin_a_reader_gets_its_end(box: Any) -> None:
    assert (await box.run_process("cat", capture_output=True)).stdout == ""


async def test_more_input_than_one_request_holds(box: Any) -> None:
    process = await box.create_process("sh", ["-c", "wc -c"], stdin=subprocess.PIPE)
    out, _ = await process.communicate(b"x" * (1 << 20))
    assert out.strip() == str(1 << 20)


async def test_input_for_a_command_that_has_none_is_refused(box: Any) -> None:
    process = await box.create_process("sleep", ["30"])
    other = await (await box.session()).get_process(process.id)
    with pytest.raises(vercel.SandboxStdinError):
        await other.stdin.send(b"x")
    await process.kill()
    assert await process.wait() == 137


async def test_another_client_goes_on_with_a_command(cloud: Emulated, box: Any) -> None:
    process = await box.create_process("cat", stdin=subprocess.PIPE)
    await process.stdin.send(b"one\n")
    async with client_of(cloud) as other:
        found = await (await other.get_sandbox(name=box.name)).get_process(process.id)
        await found.stdin.send(b"two\n")
        await found.stdin.aclose()
        assert await found.stdout.read() == "one\ntwo\n"  # the log begins at its beginning


async def test_a_signal_goes_to_all_that_the_command_started(box: Any) -> None:
    process = await box.create_process("sh", ["-c", "sleep 1000 & wait"])
    await asyncio.sleep(0.2)
    await process.terminate()
    assert await process.wait() == 143
    done = await box.run_process("pgrep", ["-f", "sleep 1000"], capture_output=True)
    assert done.stdout == ""


async def test_a_command_that_leaves_something_behind_is_over_all_the_same(box: Any) -> None:
    async with asyncio.timeout(10):
        done = await box.run_process("sh", ["-c", "sleep 1000 & echo done"], capture_output=True)
    assert done.stdout == "done\n"


async def test_a_limit_of_a_command_is_kept(cloud: Emulated, box: Any) -> None:
    process = await box.create_process("sleep", ["1000"], kill_after=60)
    await asyncio.to_thread(cloud.advance, 61)
    assert await process.wait() == 137


# --- files and terminals


async def test_files_go_in_and_out(box: Any) -> None:
    async with box.fs.batch() as batch:
        batch.write_bytes("deep/a.bin", b"\0\xff", mode=0o640)
        batch.write_text("b", "text")
    assert await box.fs.read_bytes("/vercel/sandbox/deep/a.bin") == b"\0\xff"
    mode = await box.run_process("stat", ["-c", "%a", "deep/a.bin"], capture_output=True)
    assert mode.stdout == "640\n"
    await box.fs.mkdir("x/y")
    assert [one.path for one in await box.fs.listdir(".")] == ["b", "deep", "x"]
    with pytest.raises(vercel.SandboxPathNotFoundError):
        await box.fs.read_bytes("nothing")


async def test_a_program_on_a_terminal(box: Any) -> None:
    async with box.open_interactive("sh", ["-c", "stty size; read a; echo got $a; exit 4"], cols=90) as pty:
        seen = b""
        while b"24 90" not in seen:
            seen += await pty.stream.receive()
        await pty.stream.send(b"word\n")
        while b"got word" not in seen:
            seen += await pty.stream.receive()
        assert await pty.wait() == 4


# --- life


async def test_sandboxes_are_apart(client: Any, box: Any) -> None:
    await box.fs.write_text("/tmp/mine", "1")
    async with client.create_sandbox(persistent=False) as other:
        assert not await other.fs.exists("/tmp/mine")
        pids = await other.run_process("ps", ["-e", "-o", "comm="], capture_output=True)
        assert "python" not in pids.stdout


async def test_a_name_is_unique_until_it_is_destroyed(client: Any) -> None:
    async with client.create_sandbox(name="unique", persistent=False):
        assert (await refused(client.create_sandbox(name="unique"))).status_code == 409
    async with client.create_sandbox(name="unique", persistent=False):
        pass


async def test_tags_find_sandboxes(client: Any) -> None:
    tags = {"owner": "me", "kind": "a"}
    async with client.create_sandbox(persistent=False, tags=tags) as ours, client.create_sandbox():
        query = vercel.SandboxQueryByCreatedAt(tag=vercel.TagFilter(key="owner", value="me"))
        assert [one.name async for one in client.query_sandboxes(query=query)] == [ours.name]
        assert (await client.get_sandbox(name=ours.name)).tags == tags
        await ours.update(tags={"owner": "you"})
        assert [one.name async for one in client.query_sandboxes(query=query)] == []


async def test_pages_of_a_list(client: Any) -> None:
    async with contextlib.AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(client.create_sandbox(name=f"page-{n}", persistent=False))
            for n in range(3)
        ]
        query = vercel.SandboxQueryByName(name_prefix="page-", sort_order="asc")
        found = [one.name async for one in client.query_sandboxes(query=query, page_size=2)]
        assert found == [one.name for one in made]


async def test_a_persistent_one_keeps_its_files_and_loses_its_processes(cloud: Emulated, client: Any) -> None:
    box = await client.create_sandbox()
    await box.fs.write_text("kept", "1")
    process = await box.create_process("sleep", ["1000"])
    await box.stop()
    assert len((await until(cloud, box.name, "stopped"))["snapshots"]) == 1
    with pytest.raises(vercel.SandboxApiError) as caught:
        await process.wait()
    assert caught.value.status_code == 410
    done = await box.run_process("sh", ["-c", "cat kept; pgrep -f [s]leep.1000"], capture_output=True)
    assert (done.stdout, done.returncode) == ("1", 1)
    await box.destroy(delete_orphan_snapshots=True)
    assert [one async for one in client.query_snapshots(name=box.name)] == []


async def test_one_that_is_not_persistent_loses_its_files(cloud: Emulated, client: Any) -> None:
    async with client.create_sandbox(persistent=False) as box:
        await box.fs.write_text("lost", "1")
        await box.stop()
        assert (await until(cloud, box.name, "stopped"))["snapshots"] == []
        assert not await box.fs.exists("lost")


async def test_a_snapshot_ends_the_session(client: Any, box: Any) -> None:
    await box.fs.write_text("kept", "1")
    session = await box.session()
    snapshot = await box.snapshot()
    assert (await session.refresh()).status == "stopped"
    assert (await refused(session.run_process("true"))).status_code == 410
    source = vercel.SnapshotSource(snapshot_id=snapshot.id)
    async with client.create_sandbox(source=source, persistent=False) as other:
        assert await other.fs.read_text("kept") == "1"
    assert await box.fs.read_text("kept") == "1"  # and it goes on from there
    await snapshot.delete()


async def test_a_fork_has_the_files_of_the_last_snapshot(client: Any, box: Any) -> None:
    await box.fs.write_text("kept", "1")
    await box.snapshot()
    async with client.fork_sandbox(source_sandbox=box.name) as other:
        assert await other.fs.read_text("kept") == "1"


async def test_the_time_limit_ends_a_session_unless_it_is_extended(cloud: Emulated, client: Any) -> None:
    async with client.create_sandbox(persistent=False) as box:  # five minutes are the default
        await asyncio.to_thread(cloud.advance, 200)
        await box.extend_execution_time_limit(300)
        await asyncio.to_thread(cloud.advance, 200)
        assert (await client.get_sandbox(name=box.name)).status == "running"
        await asyncio.to_thread(cloud.advance, 300)
        await until(cloud, box.name, "stopped")


async def test_a_day_is_the_longest(client: Any, box: Any) -> None:
    assert (await refused(client.create_sandbox(execution_time_limit=DAY + 1))).status_code == 400
    assert (await refused(box.extend_execution_time_limit(DAY))).status_code == 400


async def test_at_most_four_ports(client: Any) -> None:
    assert (await refused(client.create_sandbox(ports=[1, 2, 3, 4, 5]))).status_code == 400
    async with client.create_sandbox(ports=[8123], persistent=False) as box:
        assert [one.url for one in box.routes] == ["http://127.0.0.1:8123"]


async def test_a_snapshot_expires_thirty_days_after_its_last_use(cloud: Emulated, client: Any) -> None:
    async with client.create_sandbox(name="sleeper") as box:
        await box.stop()
        await until(cloud, "sleeper", "stopped")
        await asyncio.to_thread(cloud.advance, 20 * DAY)
        async with client.resume_sandbox(name="sleeper"):
            pass
        await until(cloud, "sleeper", "stopped")
        await asyncio.to_thread(cloud.advance, 31 * DAY)
        error = await refused(client.resume_sandbox(name="sleeper"))
        assert (error.status_code, error.code) == (410, "snapshot_not_found")


async def test_records_of_those_that_are_not_persistent_go(cloud: Emulated, client: Any) -> None:
    box = await client.create_sandbox(name="passing", persistent=False)
    await box.stop()
    await until(cloud, "passing", "stopped")
    await asyncio.to_thread(cloud.advance, 15 * DAY)
    assert (await refused(client.get_sandbox(name="passing"))).status_code == 404


async def test_old_snapshots_are_evicted(cloud: Emulated, client: Any) -> None:
    retention = vercel.SnapshotRetention(count=1)
    async with client.create_sandbox(snapshot_retention=retention) as box:
        for _ in range(3):
            await box.snapshot()
            await box.session()
        assert len((await until(cloud, box.name, "running"))["snapshots"]) == 1


async def test_denied_network(client: Any) -> None:
    denied = vercel.NetworkPolicy.deny_all()
    async with client.create_sandbox(network_policy=denied, persistent=False) as box:
        assert box.network_policy.mode == "deny-all"
        links = await box.run_process("cat", ["/proc/net/dev"], capture_output=True)
        assert [line.split(":")[0].strip() for line in links.stdout.splitlines()[2:]] == ["lo"]


async def test_a_policy_of_domains_is_read_back(client: Any) -> None:
    policy = vercel.NetworkPolicy.custom({"example.com": []})
    async with client.create_sandbox(network_policy=policy, persistent=False) as box:
        assert box.network_policy.allowed_domains == ("example.com",)


# --- what goes wrong


async def test_other_credentials_are_refused(cloud: Emulated) -> None:
    async with client_of(cloud, VERCEL_TOKEN="other") as client:
        assert (await refused(client.create_sandbox())).status_code == 403
    async with client_of(cloud, VERCEL_TEAM_ID="other") as client:
        assert (await refused(client.get_sandbox(name="x"))).status_code == 403
    async with client_of(cloud, VERCEL_PROJECT_ID="other") as client:
        assert (await refused(client.get_sandbox(name="x"))).status_code == 404


@pytest.mark.parametrize(
    ("fault", "status"), [("token_expired", 403), ("rate_limited", 429), ("bad_gateway", 502), ("quota", 402)]
)
async def test_refusals(cloud: Emulated, client: Any, fault: str, status: int) -> None:
    cloud.fault(fault)
    error = await refused(client.create_sandbox(persistent=False))
    assert error.status_code == status
    if status == 429:
        assert error.response.headers["retry-after"] == "1"
    async with client.create_sandbox(persistent=False):
        pass


async def test_a_create_that_hangs(cloud: Emulated, client: Any) -> None:
    cloud.fault("create_hangs")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client.create_sandbox()


async def test_a_session_that_stops_under_a_command(cloud: Emulated, box: Any) -> None:
    cloud.fault("stopped_mid_command")
    with pytest.raises(vercel.SandboxStreamError):
        await box.run_process("sleep", ["100"], capture_output=True)


@pytest.mark.parametrize("fault", ["stream_closed", "stream_cut"])
async def test_a_stream_that_breaks_is_read_on(cloud: Emulated, box: Any, fault: str) -> None:
    cloud.fault(fault)
    process = await box.create_process("sh", ["-c", "echo a; sleep 0.2; echo b"])
    assert await process.stdout.read() == "a\nb\n"


async def test_a_stream_that_ends_early(cloud: Emulated, box: Any) -> None:
    process = await box.create_process("cat", stdin=subprocess.PIPE)
    cloud.fault("stream_without_end")
    await process.stdin.send(b"a")
    assert await process.stdout.read() == ""  # as if it were over
    assert (await process.refresh()).returncode is None
    await process.kill()


async def test_the_edge_cuts_streams_after_five_minutes(cloud: Emulated, box: Any) -> None:
    await box.extend_execution_time_limit(3600)
    process = await box.create_process("sh", ["-c", "echo a; read x; echo b"], stdin=subprocess.PIPE)
    assert await process.stdout.readline() == "a\n"
    before = cloud.calls().count("GET /v2/sandboxes/sessions/{session}/cmd/{command}/logs")
    reading = asyncio.create_task(process.stdout.readline())
    await asyncio.to_thread(cloud.advance, 301)
    await process.stdin.send(b"\n")
    assert await reading == "b\n"
    assert cloud.calls().count("GET /v2/sandboxes/sessions/{session}/cmd/{command}/logs") > before


async def test_connections_that_are_cut(cloud: Emulated, box: Any) -> None:
    cloud.line(cut=0.5)
    process = await box.create_process("sh", ["-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done"])
    assert await process.stdout.read() == "1\n2\n3\n4\n5\n6\n"


async def test_input_that_stalls(cloud: Emulated, box: Any) -> None:
    process = await box.create_process("cat", stdin=subprocess.PIPE)
    await process.stdin.send(b"a")
    cloud.fault("stdin_stalls", times=2)
    with pytest.raises(vercel.SandboxStdinError):
        await process.stdin.send(b"b")


async def test_a_snapshot_slower_than_its_deadline_is_taken_all_the_same(cloud: Emulated, box: Any) -> None:
    cloud.fault("snapshot_slow", seconds=1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await box.snapshot()
    found = await until(cloud, box.name, "stopped")
    assert len(found["snapshots"]) == 1


async def test_an_expired_snapshot(cloud: Emulated, client: Any) -> None:
    async with client.create_sandbox(snapshot_expiration=timedelta(days=1)) as box:
        await box.stop()
        await until(cloud, box.name, "stopped")
        cloud.fault("snapshot_expired")
        error = await refused(client.resume_sandbox(name=box.name))
        assert error.code == "snapshot_not_found"


async def test_what_is_not_known_is_noted() -> None:
    with pytest.raises(AssertionError, match="drives"), emulated("vercel") as emulator:
        async with client_of(emulator) as client:
            await refused(client.get_drive(name_or_id="x"))


def test_everything_of_an_emulator_is_gone_with_it() -> None:
    with emulated("vercel") as emulator:

        async def leave_one() -> None:
            async with client_of(emulator) as client:
                box = await client.create_sandbox()
                await box.create_process("sleep", ["98765"])

        asyncio.run(leave_one())
    found = subprocess.run(["pgrep", "-f", "sleep 98765"], capture_output=True, text=True)
    assert found.stdout == ""
