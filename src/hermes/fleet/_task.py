"""One command as a task of a job array: what its node runs, and what it leaves in its directory.

The directory is on a disk that this machine and the nodes share. ``started`` is made by whoever comes first,
task or client, so that nothing is run twice; ``result`` appears whole, and last.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes._json import error_object, result_object
from hermes.backends._workspace import remove_trees
from hermes.backends.base import Spec
from hermes.backends.singularity._files import Files, write
from hermes.backends.singularity._options import HOME, RUN, WORKSPACE, Bind
from hermes.backends.singularity._plan import Plan
from hermes.backends.singularity._start import clean_environment
from hermes.errors import BackendError, CommandError
from hermes.session import Result
from hermes.travel import Tree, lay_out

from ._input import Command

if TYPE_CHECKING:
    from hermes.credentials.scrub import Scrub

__all__ = ["JOB_SCRIPT", "Tasks"]

ARGUMENT_LIMIT = 100_000  # Linux takes 128 KiB for one argument
OURS = "client"  # what a client writes into `started` for a task that is never to run

JOB_SCRIPT = """#!/bin/sh
exec /bin/sh {folder}/"$SLURM_ARRAY_TASK_ID"/run.sh
"""

# A signal of SLURM reaches the command as well as this script. The pause tells a command that ended by one of
# its own from one that is ended with its task: that one has no result.
_RUN = """umask 077
cd {folder} || exit 71
set -C
{{ echo "$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $(uname -n)" >started; }} 2>/dev/null ||
  {{ echo "it had begun before, and is not run again"; exit 0; }}
set +C
ended=
trap 'ended=yes' TERM INT
mkdir -p {made} || exit 72
[ ! -d ../home ] || cp -R ../home/. home/
{devices}begin=$(date +%s.%N)
{command} <{stdin} >out 2>err &
wait $!
code=$?
end=$(date +%s.%N)
if [ $code -gt 128 ]; then sleep 1 & wait $!; fi
[ -z "$ended" ] || exit 143
rm -rf {made} 2>/dev/null
echo "$code $begin $end" >result.new && mv result.new result
"""

# Which of the node's devices are the task's is told by a variable only, and the client passes none on.
_DEVICES = """for name in CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES; do
  eval "value=\\${$name-}"
  [ -z "$value" ] || export APPTAINERENV_$name="$value" SINGULARITYENV_$name="$value"
done
"""

_INSIDE = """{clean}
: >{run}/begun
{variables}
cd {workspace} && cd {cwd} || {{ : >{run}/no-cwd; exit 125; }}
for shell in /bin/bash /usr/bin/bash /usr/local/bin/bash /bin/sh; do [ ! -x $shell ] || break; done
exec $shell -c {text}
"""


class _TaskFiles(Files):
    """A sandbox's directories without what belongs to an instance and its guest."""

    def binds(self, plan: Plan) -> list[Bind]:
        return [one for one in super().binds(plan) if not one.target.startswith("/.singularity.d/")]

    def exec_arguments(self, plan: Plan) -> list[str]:
        """Return the arguments of ``exec``. Blocks, a little."""
        found = self.arguments(plan)
        at = found.index("--pid-file")
        return [*found[:at], *found[at + 2 :], "--pwd", WORKSPACE]


@dataclass(frozen=True)
class Container:
    """What all tasks of an array have in common: how the container is made, and settings of its commands."""

    program: str
    image: str
    spec: Spec
    plan: Plan
    env: Mapping[str, str]
    timeout: float | None
    travels: list[Tree]


class Tasks:
    """The tasks of one array, by their index. All methods block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # --- before

    def make(self, commands: Sequence[Command], container: Container) -> None:
        """Write what the tasks run, anew."""
        self.remove()
        self.folder.mkdir(0o700, parents=True)
        lay_out(container.travels, self.folder / "home")
        for index, command in enumerate(commands):
            folder = self.folder / str(index)
            inside = folder / "inside"
            inside.mkdir(0o700, parents=True)
            write(inside / "start.sh", self._inside(inside, command, container))
            write(folder / "run.sh", self._outside(folder, command, container))
            if command.stdin is not None:
                (folder / "in").write_bytes(command.stdin)
        write(self.folder / "job.sh", JOB_SCRIPT.format(folder=shlex.quote(str(self.folder))))

    def _inside(self, inside: Path, command: Command, container: Container) -> str:
        text = shlex.quote(command.text)
        if len(text.encode()) > ARGUMENT_LIMIT:
            write(inside / "command", command.text + "\n")
            text = shlex.quote(f". {RUN}/command")
        variables = {**container.env, **command.env}
        cwd = command.cwd or "."
        if cwd == "~" or cwd.startswith("~/"):
            cwd = HOME + cwd[1:]
        return _INSIDE.format(
            clean=clean_environment(),
            run=RUN,
            variables="\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
            workspace=WORKSPACE,
            cwd=shlex.quote(cwd if cwd.startswith("/") else f"./{cwd}"),
            text=text,
        )

    def _outside(self, folder: Path, command: Command, container: Container) -> str:
        files = _TaskFiles(container.spec.id, folder, str(folder / "inside"))
        plan = container.plan
        made = ["tmp", "home", "scratch"]
        made += [] if plan.here else ["workspace"]
        made += ["overlay"] if plan.persistent else []
        argv = [container.program, "-q", "exec", *files.exec_arguments(plan), container.image]
        argv += ["/bin/sh", f"{RUN}/start.sh"]
        seconds = command.timeout or container.timeout
        if seconds:
            # With the client its process namespace goes, and all that is in it.
            argv = ["timeout", "-s", "KILL", f"{seconds:.3f}", *argv]
        return _RUN.format(
            folder=shlex.quote(str(folder)),
            made=" ".join(made),
            devices=_DEVICES if plan.options.nv or plan.options.rocm else "",
            command=shlex.join(argv),
            stdin="in" if command.stdin is not None else "/dev/null",
        )

    # --- after

    def finished(self, indexes: Sequence[int]) -> list[int]:
        """Return those that have a result."""
        return [index for index in indexes if (self.folder / str(index) / "result").exists()]

    def started(self, index: int) -> str | None:
        """Return which task of SLURM began, such as ``12_3``; empty when it is not known, None when none."""
        try:
            words = (self.folder / str(index) / "started").read_text("utf-8", "replace").split()
        except OSError:
            return None
        return "_".join(words[:2]) if len(words) == 3 and words[0] != OURS else ""

    def keep_from_running(self, index: int) -> bool:
        """Make sure that a task that has not begun never will; False when it has begun."""
        with contextlib.suppress(FileNotFoundError):  # without its directory it cannot run either
            try:
                fd = os.open(
                    self.folder / str(index) / "started",
                    os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW,
                    0o600,
                )
            except FileExistsError:
                return self.is_kept(index)
            with open(fd, "w", encoding="utf-8") as file:
                file.write(f"{OURS}\n")
        return True

    def is_kept(self, index: int) -> bool:
        """Return whether a client has made sure of that."""
        with contextlib.suppress(OSError):
            return (self.folder / str(index) / "started").read_text("utf-8", "replace").strip() == OURS
        return False

    def said(self, index: int) -> str:
        """Return what SLURM or the script printed, on one line."""
        with contextlib.suppress(OSError):
            text = (self.folder / str(index) / "log").read_text("utf-8", "replace")
            return " ".join(text.split())[-300:]
        return ""

    def result(
        self,
        index: int,
        command: Command | None,
        *,
        limit: int,
        task: str,
        timeout: float | None,
        scrub: Scrub | None,
    ) -> dict[str, Any]:
        """Return the result of a task that has one.

        :param timeout: of commands that have none themselves
        :param scrub: takes secrets out of it
        """
        folder = self.folder / str(index)
        code, duration = _numbers((folder / "result").read_text("ascii", "replace"))
        (stdout, cut_out, first), (stderr, cut_err, second) = (
            _cut(folder / name, limit, scrub) for name in ("out", "err")
        )
        inside = folder / "inside"
        # Both, since a command may remove the one and print the other.
        if code == 255 and b"FATAL" in stderr and not os.path.lexists(inside / "begun"):
            said = " ".join(stderr.decode("utf-8", "replace").split())[-600:]
            error = BackendError(f"the container could not be started on its node: {said}; nothing was run")
            return error_object(error, backend="singularity", sandbox=task, session=None)
        cwd = os.path.normpath(os.path.join(WORKSPACE, (command and command.cwd) or "."))
        if code == 125 and os.path.lexists(inside / "no-cwd"):
            missing = CommandError(
                f"the working directory {cwd} cannot be used; the command was not run", code="cwd_unusable"
            )
            return error_object(missing, backend="singularity", sandbox=task, session=None)
        seconds = (command.timeout if command is not None else None) or timeout
        timed_out = code == 137 and seconds is not None and duration >= seconds
        result = Result(
            status="timed_out" if timed_out else "ok",
            exit_code=124 if timed_out else code,
            stdout=stdout,
            stderr=stderr,
            duration=duration,
            timed_out=timed_out,
            truncated=cut_out or cut_err,
            cwd=cwd,
            redacted=first + second,
        )
        return result_object(result, result.exit_code, backend="singularity", sandbox=task, session=None)

    def remove(self) -> list[str]:
        """Remove everything, and return what is left."""
        return remove_trees([self.folder]) if os.path.lexists(self.folder) else []


def _numbers(text: str) -> tuple[int, float]:
    """Return the exit code, and how long it took; what a node without GNU's date wrote counts as 0."""
    words = [*text.split(), "", "", ""][:3]
    code = int(words[0]) if words[0].isdigit() else 125
    with contextlib.suppress(ValueError):
        return code, max(0.0, float(words[2]) - float(words[1]))
    return code, 0.0


def _cut(path: Path, limit: int, scrub: Scrub | None) -> tuple[bytes, bool, int]:
    """Return an output, or its head and tail with a line between them; whether it was cut; secrets in it."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(limit if size <= limit else limit // 2)
            tail = b""
            if size > limit:
                file.seek(size - (limit - len(head)))
                tail = file.read(limit - len(head))
    except FileNotFoundError:
        return b"", False, 0
    first = second = 0
    if scrub is not None:
        head, first = scrub.whole(head, cut=size > limit)
        tail, second = scrub.rest(tail)
    if size > limit:
        head += f"\n[... {size - limit} bytes omitted of {size} ...]\n".encode()
    return head + tail, size > limit, first + second
