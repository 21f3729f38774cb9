"""An instance in a job of SLURM: it lives on the job's node, and is reached by steps that join the job."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any

from hermes.config import Slurm, home
from hermes.errors import BackendError, HermesError, SandboxGone, Unreachable

from .._command import Done, run_client
from .._leftovers import home_mark
from ..base import PlaceState
from ._client import Client, forget_logs
from ._files import Files, privileges, write
from ._here import to_its_end
from ._plan import Plan

__all__ = ["SlurmJob", "waiting_jobs"]

CALL_SECONDS = 60.0
START_SECONDS = 180.0
CANCEL_SECONDS = 45.0
COMPLETING_SECONDS = 8.0
POLL = (0.1, 2.0)  # seconds between two looks at the queue: first, longest
TELL_EVERY = 30.0

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED"})
RUNNING = frozenset({"RUNNING"})
ENDED = {
    "TIMEOUT": "its job reached the time limit",
    "DEADLINE": "its job reached the deadline",
    "CANCELLED": "its job was cancelled",
    "NODE_FAIL": "the node of its job failed",
    "BOOT_FAIL": "the node of its job failed",
    "OUT_OF_MEMORY": "its job ran out of memory",
    "PREEMPTED": "its job was preempted",
    "COMPLETED": "its job has ended, since nothing ran in it for a while (lifetime.idle_stop)",
    "FAILED": "its instance was stopped or killed on the node of its job",
}

# The instance and the guest belong to the job's batch step, which no lost connection ends. The directory of
# the guest's socket is on the node itself. A step that finds no guest asks the watch inside for one.
_SCRIPT = """#!/bin/sh
umask 077
base={base}
for parent in /dev/shm "${{TMPDIR:-/tmp}}"; do [ -d "$parent" ] && [ -w "$parent" ] && break; done
parent=$parent/hermes-$(id -u)
mkdir -p "$parent" && run=$(mktemp -d "$parent/slurm-{ident}-XXXXXX") || exit 71
pid=
finish() {{
  trap - TERM INT EXIT
  [ -z "$pid" ] || {{ kill -KILL "$pid"; tries=0
    while [ -d "/proc/$pid" ] && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done; }} 2>/dev/null
  [ ! -e "$run/ended" ] || : >"$base/ended"
  rm -rf "$run"
  rm -f "$base/ready"
  exit "$1"
}}
trap 'finish 143' TERM INT
trap 'finish $?' EXIT
cp "$base/boot.py" "$run/boot.py" || exit 72
{start} || exit 73
pid=$(cat "$base/pid") || exit 74
: >"$base/ready"
# While it waits for a child in the background the shell answers signals at once.
while [ -d "/proc/$pid" ]; do sleep 2 & wait $!; done
[ -e "$run/ended" ] && exit 0
exit 75
"""


class SlurmJob:
    """The job that an instance runs in. Its number is kept in the sandbox's directory."""

    direct = False

    def __init__(self, client: Client, files: Files, instance: str, slurm: Slurm) -> None:
        self._client = client
        self._files = files
        self._instance = instance
        self._slurm = slurm
        self._number = ""
        self._refused = False

    # --- starting

    async def start(self, plan: Plan, image: str, progress: Callable[[str], None]) -> None:
        """Submit the job, wait in the queue, and wait until the instance runs on its node."""
        await asyncio.to_thread(self._prepare, plan, image)
        self._number = ""
        self._refused = False
        done = await to_its_end(self._submit(plan))
        # Who waited for an answer in vain does not know.
        self._refused = done.code != 0 and "timed out" not in done.said
        if done.code != 0 or not self._number:
            raise BackendError(
                f"SLURM did not take the job: {done.said}; nothing was started",
                hint="'sinfo' lists partitions; the settings are in singularity.slurm.",
            )
        await self._wait(progress)

    async def _submit(self, plan: Plan) -> Done:
        options = await asyncio.to_thread(self._options, plan)
        done = await self._ask("sbatch", *options, str(self._files.base / "job.sh"))
        number = done.out.strip().partition(";")[0]
        if done.code == 0 and number.isdigit():
            self._number = number
            await asyncio.to_thread(write, self._files.base / "job", number)
        return done

    def _prepare(self, plan: Plan, image: str) -> None:
        files = self._files
        for name in ("ready", "ended", "job", "job.out"):
            (files.base / name).unlink(missing_ok=True)
        start = [self._client.path, "-q", "instance", "start", *files.arguments(plan), image, self._instance]
        # The socket's directory is made on the node, under a name that only the script knows.
        words = [shlex.quote(word) for word in start]
        words = [word.replace(files.host_run, "'\"$run\"'" if word[0] == "'" else '"$run"') for word in words]
        script = _SCRIPT.format(base=shlex.quote(str(files.base)), ident=files.ident, start=" ".join(words))
        write(files.base / "job.sh", script, 0o700)

    def _options(self, plan: Plan) -> list[str]:
        """Return the options of ``sbatch``. Blocks, for a moment."""
        slurm = self._slurm
        result = ["--parsable", f"--job-name={self._instance}", f"--output={self._files.base / 'job.out'}"]
        result += ["--nodes=1", "--ntasks=1", "--no-requeue", "--chdir=/", f"--comment={_comment()}"]
        for key in ("partition", "account", "qos", "gpus", "time"):
            value = getattr(slurm, key)
            if value:
                result.append(f"--{key}={value}")
        if "cpus" in plan.limits:
            result.append(f"--cpus-per-task={math.ceil(plan.limits['cpus'])}")
        if "memory" in plan.limits:
            result.append(f"--mem={max(1, int(plan.limits['memory']) >> 20)}M")
        return result + list(slurm.args)

    async def _wait(self, progress: Callable[[str], None]) -> None:
        pause, told, last = POLL[0], "", 0.0
        deadline: float | None = None
        while True:
            state, reason = await self.state()
            now = time.monotonic()
            if state in WAITING:
                why = state.lower() if reason in ("", "None") else reason
                text = f"waiting in the queue of SLURM: job {self._number}, {why}"
                if text != told or now - last > TELL_EVERY:
                    progress(text)
                    told, last = text, now
            elif state in RUNNING:
                if await asyncio.to_thread((self._files.base / "ready").exists):
                    return
                if deadline is None:
                    progress(f"job {self._number} runs on {reason}")
                    deadline = now + START_SECONDS
                elif now > deadline:
                    raise BackendError(f"the instance did not start on its node within {START_SECONDS:g} s")
                pause = POLL[0]
            else:
                raise BackendError(
                    f"job {self._number} ended before the sandbox ran ({state.lower() or 'it is unknown'}): "
                    f"{await asyncio.to_thread(self._said) or 'it printed nothing'}"
                )
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, POLL[1])

    def _said(self) -> str:
        with contextlib.suppress(OSError):
            text = (self._files.base / "job.out").read_text("utf-8", "replace")
            return " ".join(text.split())[-600:]
        return ""

    # --- looking

    async def state(self) -> tuple[str, str]:
        """Return the job's state, and why it waits or the nodes that it has; empty when it is not known.

        :raises Unreachable: SLURM does not answer
        """
        number = await self._job()
        if not number:
            return "", ""
        done = await self._ask("squeue", "--noheader", f"--jobs={number}", "--format=%T|%R")
        if done.code == 0:
            state, _, reason = done.out.strip().partition("|")
            return state, reason.strip("()")
        if "Invalid job id" in done.err:
            return "", ""
        raise _silent(f"how job {number} is", done)

    async def runs(self) -> bool:
        """Whether the job has not ended."""
        return (await self.state())[0] in RUNNING

    async def place(self) -> PlaceState | None:
        """Return what the queue says of the place, None when it does not have its job.

        :raises Unreachable: SLURM does not answer
        """
        state, _ = await self.state()
        return "starting" if state in WAITING else "running" if state in RUNNING else None

    async def why(self, made: Mapping[str, Any]) -> str:
        """What SLURM says of the job's end."""
        number = await self._job()
        if not number:
            return "it has no job"
        state = await self._last_state(number)
        deadline = time.monotonic() + COMPLETING_SECONDS
        while state == "COMPLETING" and time.monotonic() < deadline:
            await asyncio.sleep(0.2)  # what it will be called is not told as long as processes are ended
            state = await self._last_state(number)
        if state in RUNNING or state in WAITING:
            return ""
        if state in ("COMPLETED", "FAILED") and await asyncio.to_thread((self._files.base / "ended").exists):
            state = "COMPLETED"
        return ENDED.get(state, f"its job has ended ({state.lower()})" if state else "its job has ended")

    async def _last_state(self, number: str) -> str:
        done = await self._ask("scontrol", "show", "job", "--oneliner", number)
        found = re.search(r"\bJobState=(\w+)", done.out)
        if found:
            return "TIMEOUT" if "Reason=TimeLimit" in done.out else found[1]
        # The controller forgets after some minutes; the accounts, where there are any, do not.
        done = await self._ask("sacct", "--noheader", "-X", "-P", f"--jobs={number}", "--format=State")
        return (done.out.split() or [""])[0] if done.code == 0 else ""

    def argv(self) -> list[str]:
        """Join the job by a step that shares what the job has, and the instance from there."""
        if not self._number:
            raise SandboxGone("the sandbox has no job", reason="it was neither started nor found")
        step = ["srun", f"--jobid={self._number}", "--overlap", "--nodes=1", "--ntasks=1", "--unbuffered"]
        step += ["--quiet", "--cpu-bind=none", "--mem=0", "--chdir=/", "--job-name=hermes-link"]
        target = f"instance://{self._instance}"
        return [*step, self._client.path, "-q", "exec", "--cleanenv", *privileges(), "--pwd", "/", target]

    # --- ending

    async def end(self) -> list[str]:
        """Cancel the job, and wait until the queue does not have it any more."""
        if self._refused:
            return []
        number = await self._job()
        if not number:
            return []
        await asyncio.to_thread(forget_logs, self._instance)
        await self._ask("scancel", number)
        deadline = time.monotonic() + CANCEL_SECONDS
        while (await self.state())[0]:
            if time.monotonic() > deadline:
                return [f"job {number}"]
            await asyncio.sleep(0.1)
        return []

    async def _job(self) -> str:
        # Another client may have brought it up again, in another job.
        self._number = await asyncio.to_thread(self._read) or self._number or await self._named()
        return self._number

    async def _named(self) -> str:
        """Return the number of a job for which it was never written down, or went with the directory.

        :raises Unreachable: SLURM does not answer
        """
        try:
            done = await self._ask("squeue", "--noheader", "--me", f"--name={self._instance}", "--format=%i")
        except BackendError:  # no SLURM, no job
            return ""
        if done.code != 0:
            raise _silent(f"whether it has a job {self._instance}", done)
        return (done.out.split() or [""])[0]

    def _read(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            text = (self._files.base / "job").read_text("ascii").strip()
            return text if text.isdigit() else ""
        return ""

    async def _ask(self, program: str, *args: str) -> Done:
        return await _ask(self._client, program, *args)


async def waiting_jobs(client: Client) -> list[str]:
    """Return the names of all jobs that this hermes home has with SLURM; none when it does not answer."""
    with contextlib.suppress(HermesError, FileNotFoundError):  # no home was made yet
        mark = await asyncio.to_thread(_comment)
        done = await _ask(client, "squeue", "--noheader", "--me", "--format=%j|%k")
        pairs = (line.strip().partition("|") for line in done.out.splitlines())
        return [name for name, _, comment in pairs if comment == mark] if done.code == 0 else []
    return []


def _comment() -> str:
    """Return what a job says of whose it is. Blocks."""
    # Homes of the same path on several machines may use the same SLURM.
    return f"hermes:{home_mark(str(home().stat().st_ino))}"


def _silent(what: str, done: Done) -> Unreachable:
    return Unreachable(f"SLURM does not say {what}: {done.said}", reason="SLURM does not answer")


async def _ask(client: Client, program: str, *args: str) -> Done:
    env = client.environment()
    env.update(
        {key: value for key, value in os.environ.items() if key.startswith(("SLURM_CONF", "SLURM_CLU"))}
    )
    return await run_client([program, *args], timeout=CALL_SECONDS, env=env)
