"""The emulated Daytona, used by the SDK as it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from _emulators import Emulated, emulated

if TYPE_CHECKING:
    from daytona import AsyncDaytona, AsyncSandbox

pytest.importorskip("daytona")
# The SDK reads .env in the working directory, and imports itself as it goes.
pytestmark = [
    pytest.mark.blocking_ok,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def there() -> Iterator[Emulated]:
    with emulated("daytona") as emulator:
        yield emulator


@pytest.fixture
async def sdk(there: Emulated) -> AsyncIterator[AsyncDaytona]:
    from daytona import AsyncDaytona, DaytonaConfig

    settings = there.settings
    config = DaytonaConfig(api_key=settings["DAYTONA_API_KEY"], api_url=settings["DAYTONA_API_URL"])
    async with AsyncDaytona(config) as client:
        yield client
        async for box in client.list():
            await box.delete(wait=True)
    there.ask("/faults", method="DELETE")


async def make(sdk: AsyncDaytona, **more: Any) -> AsyncSandbox:
    from daytona import CreateSandboxFromSnapshotParams

    return await sdk.create(CreateSandboxFromSnapshotParams(**more))


async def state(sdk: AsyncDaytona, box: AsyncSandbox, wanted: str) -> None:
    """Wait until a sandbox is in a state."""
    for _ in range(200):
        await box.refresh_data()
        if box.state is not None and box.state.value == wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{box.state}, not {wanted}")


class Screen:
    """What a terminal showed."""

    def __init__(self) -> None:
        self.data = b""

    def __call__(self, data: bytes) -> None:
        self.data += data

    async def has(self, text: bytes) -> None:
        async with asyncio.timeout(10):
            while text not in self.data:
                await asyncio.sleep(0.01)


async def test_a_sandbox_lives_from_create_to_delete(there: Emulated, sdk: AsyncDaytona) -> None:
    box = await make(sdk, name="one", labels={"mine": "yes"}, env_vars={"GIVEN": "value"})
    assert (box.name, box.labels["mine"]) == ("one", "yes")
    said = await box.process.exec("echo $GIVEN; pwd; echo wrong >&2; exit 3")
    assert (said.exit_code, said.result) == (3, "value\n/root\nwrong\n")
    assert await box.get_user_home_dir() == "/root"

    await box.process.exec("echo kept > kept; sleep 1000 > /dev/null 2>&1 &")
    await box.stop()
    assert [one["state"] for one in there.sandboxes()] == ["stopped"]
    await box.start()
    assert (await box.process.exec("cat kept; pgrep -f 'sleep [1]000'")).result == "kept\n"

    assert [one.name async for one in sdk.list()] == ["one"]
    assert (await sdk.get("one")).id == box.id
    await box.delete(wait=True)
    assert there.sandboxes() == []


async def test_names_are_unique_and_a_wrong_key_is_refused(there: Emulated, sdk: AsyncDaytona) -> None:
    from daytona import AsyncDaytona, DaytonaAuthenticationError, DaytonaConfig, DaytonaConflictError
    from daytona.common.errors import DaytonaNotFoundError

    await make(sdk, name="taken")
    with pytest.raises(DaytonaConflictError):
        await make(sdk, name="taken")
    with pytest.raises(DaytonaNotFoundError):
        await sdk.get("nobody")
    other = DaytonaConfig(api_key="dtn_looks_real", api_url=there.settings["DAYTONA_API_URL"])
    async with AsyncDaytona(other) as client:
        with pytest.raises(DaytonaAuthenticationError):
            await client.get("taken")


async def test_lists_are_filtered_by_labels_and_come_in_pages(sdk: AsyncDaytona) -> None:
    from daytona import ListSandboxesQuery

    for number in range(3):
        await make(sdk, name=f"n{number}", labels={"group": "a" if number else "b"})
    found = [one.name async for one in sdk.list(ListSandboxesQuery(labels={"group": "a"}, limit=1))]
    assert found == ["n1", "n2"]


async def test_a_terminal_carries_bytes_both_ways_and_outlives_its_socket(sdk: AsyncDaytona) -> None:
    box = await make(sdk)
    screen = Screen()
    terminal = await box.process.create_pty_session("t", screen, envs={"SECRET": "told"})
    await terminal.send_input('stty raw -echo; printf "$SECRET\\036ready"; exec cat\n')
    await screen.has(b"told\x1eready")
    screen.data = b""
    every = bytes(range(256)) * 100
    await terminal.send_input(every)
    await screen.has(every)
    assert screen.data == every
    await terminal.disconnect()

    again = Screen()
    second = await box.process.connect_pty_session("t", again)
    await second.send_input(b"still there")
    await again.has(b"still there")
    assert again.data == b"still there"  # nothing is shown again
    await second.kill()
    assert (await second.wait()).exit_code == 137
    await second.disconnect()


async def test_the_exit_code_of_a_terminal_is_told(sdk: AsyncDaytona) -> None:
    box = await make(sdk)
    terminal = await box.process.create_pty_session("t", Screen())
    await terminal.send_input("exit 7\n")
    assert (await terminal.wait()).exit_code == 7
    await terminal.disconnect()


async def test_a_message_of_more_than_64_kib_closes_the_terminal_s_socket(sdk: AsyncDaytona) -> None:
    box = await make(sdk)
    screen = Screen()
    terminal = await box.process.create_pty_session("t", screen)
    await terminal.send_input("stty raw -echo; printf ready; exec cat > /dev/null\n")
    await screen.has(b"ready")
    await terminal.send_input(b"x" * 65536)
    assert terminal.is_connected()
    await terminal.send_input(b"x" * 65537)
    await terminal.wait()
    assert not terminal.is_connected()
    await terminal.disconnect()


async def test_a_slow_consumer_is_dropped(there: Emulated, sdk: AsyncDaytona) -> None:
    box = await make(sdk)

    paused = [3.0]

    async def slow(data: bytes) -> None:
        if paused:
            await asyncio.sleep(paused.pop())

    terminal = await box.process.create_pty_session("t", slow)
    await terminal.send_input("stty raw; exec cat < /dev/zero\n")
    async with asyncio.timeout(30):
        await terminal.wait()
    assert not terminal.is_connected()
    await terminal.disconnect()


async def test_auto_stop_counts_calls_only(there: Emulated, sdk: AsyncDaytona) -> None:
    box = await make(sdk, auto_stop_interval=15, auto_delete_interval=60)
    screen = Screen()
    terminal = await box.process.create_pty_session("t", screen)
    await terminal.send_input("while sleep 0.05; do echo busy; done\n")
    await screen.has(b"busy")
    there.advance(600)
    await box.refresh_activity()
    there.advance(600)
    await state(sdk, box, "started")
    await terminal.send_input("\n")  # what goes over an open terminal is no call, and neither is looking
    there.advance(400)
    await state(sdk, box, "stopped")
    await terminal.wait()
    await terminal.disconnect()
    there.advance(3000)
    await state(sdk, box, "stopped")
    there.advance(700)
    assert there.sandboxes() == [] or there.sandboxes()[0]["state"] == "destroying"


async def test_everything_due_happens_when_the_clock_goes_far(there: Emulated, sdk: AsyncDaytona) -> None:
    old = await make(sdk, name="old", auto_stop_interval=5, auto_archive_interval=60)
    await make(sdk, name="ephemeral", ephemeral=True, auto_stop_interval=5)
    await make(sdk, name="ends", ttl_minutes=30, auto_stop_interval=0)
    there.advance(10 * 24 * 3600)
    await state(sdk, old, "archived")
    for _ in range(100):
        if [one["name"] for one in there.sandboxes()] == ["old"]:
            break
        await asyncio.sleep(0.05)
    assert [one["name"] for one in there.sandboxes()] == ["old"]
    await old.start()
    assert (await old.process.exec("echo back")).result == "back\n"


async def test_a_snapshot_keeps_the_files(sdk: AsyncDaytona) -> None:
    box = await make(sdk)
    await box.process.exec("echo before > file")
    await box.create_snapshot("kept")
    await box.process.exec("echo after > file")
    again = await make(sdk, snapshot="kept")
    assert (await again.process.exec("cat file")).result == "before\n"
    assert [one.name for one in (await sdk.snapshot.list()).items] == ["kept"]
    await sdk.snapshot.delete(await sdk.snapshot.get("kept"))
    assert (await sdk.snapshot.list()).items == []


async def test_resources_go_with_an_image_only_and_have_limits(sdk: AsyncDaytona) -> None:
    from daytona import CreateSandboxFromImageParams, DaytonaError, Resources

    box = await sdk.create(
        CreateSandboxFromImageParams(image="debian:12", resources=Resources(cpu=2, memory=4, disk=5))
    )
    assert (box.cpu, box.memory, box.disk) == (2, 4, 5)
    with pytest.raises(DaytonaError, match="exceeds maximum"):
        await sdk.create(CreateSandboxFromImageParams(image="debian:12", resources=Resources(cpu=16)))


async def test_the_disk_quota_counts_stopped_sandboxes_until_they_are_archived(sdk: AsyncDaytona) -> None:
    from daytona import CreateSandboxFromImageParams, DaytonaError, Resources

    def big(name: str) -> CreateSandboxFromImageParams:
        return CreateSandboxFromImageParams(name=name, image="debian:12", resources=Resources(disk=10))

    boxes = [await sdk.create(big(f"b{number}")) for number in range(10)]
    await boxes[0].stop()
    with pytest.raises(DaytonaError, match="Total disk limit exceeded"):
        await sdk.create(big("more"))
    await boxes[0].archive()
    await state(sdk, boxes[0], "archived")
    await sdk.create(big("more"))


async def test_without_a_network_nothing_is_reached(sdk: AsyncDaytona) -> None:
    box = await make(sdk, network_block_all=True)
    said = await box.process.exec("cat /proc/net/dev | grep -c :")
    assert said.result == "1\n"  # the loopback


async def test_a_command_over_its_time_is_ended(sdk: AsyncDaytona) -> None:
    from daytona.common.errors import DaytonaTimeoutError

    box = await make(sdk)
    with pytest.raises(DaytonaTimeoutError):
        await box.process.exec("sleep 50", timeout=1)
    assert (await box.process.exec("pgrep -f 'sleep [5]0'")).exit_code == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("unauthorized", "DaytonaAuthenticationError"),
        ("rate_limited", "DaytonaRateLimitError"),
        ("api_unavailable", "DaytonaServiceUnavailableError"),
        ("disk_quota", "DaytonaForbiddenError"),
        ("create_fails", "DaytonaError"),
        ("create_lost", "DaytonaConnectionError"),
    ],
)
async def test_faults_of_a_create_are_what_the_sdk_knows(
    there: Emulated, sdk: AsyncDaytona, fault: str, kind: str
) -> None:
    from daytona.common import errors

    there.fault(fault, seconds=2)
    with pytest.raises(getattr(errors, kind)) as raised:
        await make(sdk, name="wanted")
    if fault == "rate_limited":
        assert raised.value.headers["Retry-After"] == "2"
    if fault == "create_lost":
        assert [one["name"] for one in there.sandboxes()] == ["wanted"]


async def test_a_create_that_hangs_and_a_start_that_fails(there: Emulated, sdk: AsyncDaytona) -> None:
    from daytona import CreateSandboxFromSnapshotParams, DaytonaError
    from daytona.common.errors import DaytonaTimeoutError

    there.fault("create_hangs")
    with pytest.raises(DaytonaTimeoutError):
        await sdk.create(CreateSandboxFromSnapshotParams(), timeout=1)
    box = await make(sdk)
    await box.stop()
    there.fault("start_fails")
    with pytest.raises(DaytonaError, match="no space left"):
        await box.start()


async def test_a_snapshot_slower_than_its_timeout(there: Emulated, sdk: AsyncDaytona) -> None:
    from daytona.common.errors import DaytonaTimeoutError

    box = await make(sdk)
    there.fault("slow", seconds=300)
    with pytest.raises(DaytonaTimeoutError):
        await box.create_snapshot("late", timeout=1)
    there.advance(300)
    await state(sdk, box, "started")
    assert (await sdk.snapshot.get("late")).name == "late"
    await sdk.snapshot.delete(await sdk.snapshot.get("late"))


async def test_a_sandbox_that_is_stopped_in_the_middle(there: Emulated, sdk: AsyncDaytona) -> None:
    from daytona.common.errors import DaytonaError

    box = await make(sdk)
    there.fault("stopped")
    terminal = await box.process.create_pty_session("t", Screen())
    await terminal.wait()
    await terminal.disconnect()
    await state(sdk, box, "stopped")
    with pytest.raises(DaytonaError, match="Is the Sandbox started"):
        await box.process.exec("true")
    there.fault("bad_gateway")
    await box.start()
    with pytest.raises(DaytonaError) as raised:
        await box.process.exec("true")
    assert raised.value.status_code == 502


async def test_states_are_told_without_asking_for_them(there: Emulated, sdk: AsyncDaytona) -> None:
    box = await make(sdk)
    there.fault("slow", seconds=0.4)
    began = time.monotonic()
    await box.stop()
    assert time.monotonic() - began < 0.9  # the SDK would look again after a second


async def test_connections_are_cut_and_delayed(there: Emulated, sdk: AsyncDaytona) -> None:
    box = await make(sdk)
    there.line(delay=0.05)
    try:
        began = time.monotonic()
        await box.refresh_data()
        assert 0.1 <= time.monotonic() - began < 0.3
        terminal = await box.process.create_pty_session("t", Screen())
        there.line(now=True)
        await terminal.wait()
        await terminal.disconnect()
    finally:
        there.line(delay=0)
