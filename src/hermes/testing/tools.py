"""What the cases use to look into a sandbox, and to harm the link to it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ._harness import unique

if TYPE_CHECKING:
    from hermes import Result, Sandbox

__all__ = ["cut", "desert", "eventually", "fails", "gone", "out", "pids", "stopwatch", "tag", "unique", "up"]

# Zombies have no command line, so they are not listed. The tag comes by stdin: in the argv it would find
# itself.
_SCAN = r"""read -r tag
for d in /proc/[0-9]*; do
  { mapfile -d '' words <"$d/cmdline"; } 2>/dev/null || continue
  [[ "${words[*]}" != *"$tag"* ]] || echo "${d#/proc/}"
done"""


def tag() -> str:
    """Return a number of seconds for ``sleep`` that is found again among all processes."""
    return f"3600.{int(unique('x')[2:], 16) % 10**12:012d}"


async def pids(box: Sandbox, tag: str) -> list[int]:
    """Return the living processes inside whose command line holds *tag*."""
    result = await box.exec(["bash", "-c", _SCAN], stdin=tag + "\n")
    assert result.exit_code == 0, result
    return [int(word) for word in result.stdout.split()]


async def up(box: Sandbox, tag: str, count: int) -> None:
    """Wait until exactly *count* processes with *tag* are there: those just forked are yet to be executed."""

    async def are_up() -> bool:
        return len(await pids(box, tag)) == count

    await eventually(are_up)


async def gone(box: Sandbox, tag: str, within: float = 0.5) -> None:
    """Fail unless all processes with *tag* are gone within so many seconds."""
    left: list[int] = []

    async def none_left() -> bool:
        nonlocal left
        left = await pids(box, tag)
        return not left

    try:
        await eventually(none_left, within)
    except AssertionError:
        raise AssertionError(f"processes are still there: {left}") from None


async def eventually(condition: Callable[[], Awaitable[Any] | Any], within: float = 5.0) -> Any:
    """Return the condition's value as soon as it is true; fail when it is not within so many seconds."""
    end = time.monotonic() + within
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"this did not become true within {within:g} s")
        await asyncio.sleep(0.02)


async def out(shell: Any, command: str, **options: Any) -> str:
    """Return what a command prints, without the last newline; fail when it fails or writes to stderr."""
    result: Result = await shell.run(command, **options)
    assert (result.exit_code, result.stderr) == (0, b""), result
    return result.stdout.decode().rstrip("\n")


class stopwatch:
    """Fails when its block takes longer than so many seconds."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.seconds = 0.0

    def __enter__(self) -> stopwatch:
        self._start = time.monotonic()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.seconds = time.monotonic() - self._start
        if kind is None:
            assert self.seconds < self.limit, f"it took {self.seconds:.2f} s, more than {self.limit:g} s"


class fails:
    """Expects a hermes error with that code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __enter__(self) -> fails:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        from hermes.errors import HermesError

        assert error is not None, f"no error, instead of '{self.code}'"
        if not isinstance(error, HermesError):
            return False
        assert error.code == self.code, f"error '{error.code}' instead of '{self.code}': {error}"
        assert error.message
        self.error = error
        return True


def cut(box: Sandbox) -> None:
    """Break the connection to the guest without notice. The client lives and has to find that out.

    While it is about to connect again there is nothing to cut.
    """
    wire = box._channel._wire
    if wire is None:
        return
    abort = getattr(wire.stream, "_abort", None)  # the ready-made channels can drop what they still hold
    if abort is not None:
        abort("it was cut")
    else:
        wire.fail("it was cut")


async def desert(box: Sandbox) -> None:
    """Let the client vanish as if it had been killed: the guest hears no goodbye."""
    channel, box._open_channel = box._channel, None
    channel._closing = True
    for task in list(channel._tasks):
        task.cancel()
    wire = channel._wire
    if wire is not None:
        wire.closed = True
        with contextlib.suppress(Exception):
            await wire.stream.close()
    channel._give_up(lambda: _deserted())


def _deserted() -> Any:
    from hermes.errors import SandboxGone

    return SandboxGone("this client was made to vanish")
