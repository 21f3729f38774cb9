"""The engine behind the client program: docker's or podman's, found, asked what it can do, and told."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes.config import Docker, environment
from hermes.errors import BackendError, Unreachable

from .._command import Done, run_client

__all__ = ["Engine", "Facts", "chosen_engine", "engine_for", "missing"]

CALL_SECONDS = 60.0
CHECK_SECONDS = 10.0
NOTHING = "; nothing was started"
DEFAULT_ENDPOINT = "unix:///var/run/docker.sock"
PLAIN_RUNTIMES = ("runc", "crun", "nvidia", "io.containerd.runc.v2")


@dataclass(frozen=True)
class Facts:
    """What an engine said of itself.

    ``local``: it sees the files of this machine, and its containers share our kernel. ``rootless``: root
    inside is the user outside. ``remapped``: users inside are others outside. ``profile``: the file of its
    filter of system calls, where it says. ``limits``: those it enforces. ``runtime``: what runs a container
    that names none.
    """

    podman: bool = False
    local: bool = True
    rootless: bool = False
    remapped: bool = False
    seccomp: bool = True
    profile: str = ""
    limits: frozenset[str] = frozenset({"cpus", "memory", "pids"})
    cpus: int = field(default_factory=lambda: os.cpu_count() or 1)
    memory: int = 0
    runtimes: tuple[str, ...] = ()
    runtime: str = "runc"

    def plain(self, runtime: str | None) -> bool:
        """Return whether a container shares the kernel: its sockets can be seen, and routes count for it."""
        return (runtime or self.runtime) in PLAIN_RUNTIMES


class Engine:
    """One client program with what selects its engine. Calls take at most a minute unless they say."""

    def __init__(self, program: str, context: str | None = None) -> None:
        self.argv: tuple[str, ...] = (program, "--context", context) if context else (program,)
        self.name = os.path.basename(program)
        self.facts = Facts()

    async def call(
        self,
        *args: str,
        timeout: float = CALL_SECONDS,
        on_line: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
        watched: bool = False,
        cwd: str | None = None,
    ) -> Done:
        """Run the client program to its end, whatever its exit code.

        :param env: further variables of the client program
        :param watched: let it tell *on_line* how far it is, which it tells terminals alone
        :param cwd: where it runs: what it leaves to watch over a container may leave a file there

        :raises BackendError: it cannot be started
        :raises Unreachable: it, or the engine, does not answer
        """
        everything = None if env is None else {**environment(), **env}
        done = await run_client(
            [*self.argv, *args],
            timeout=timeout,
            on_line=on_line,
            env=everything,
            terminal=("err" if self.name == "podman" else "out") if watched else None,
            cwd=cwd,
        )
        if done.code != 0 and _is_down(done.err):
            raise Unreachable(
                f"the {self.name} engine does not answer: {done.said}",
                reason=f"the {self.name} engine does not answer",
                hint=f"Is it running, and may you use it? Try: {self.name} info",
            )
        return done

    async def ask(self, *args: str, **options: Any) -> str:
        """Run the client program and return what it printed.

        :raises BackendError: it failed
        """
        done = await self.call(*args, **options)
        if done.code != 0:
            raise BackendError(f"'{self.name} {args[0]}' failed: {done.said}")
        return done.out

    async def remove(self, container: str) -> Done:
        """Kill and remove a container; see :meth:`call`."""
        # Podman would ask it to stop first and give it ten seconds.
        at_once = ("--time", "0") if self.name == "podman" or self.facts.podman else ()
        return await self.call("rm", "--force", *at_once, "--volumes", container)

    async def inspect(self, container: str) -> dict[str, Any] | None:
        """Return what the engine knows of a container, None when there is none.

        :raises BackendError: the client failed in another way
        """
        done = await self.call("inspect", "--type", "container", container)
        if done.code != 0:
            if missing(done.err):
                return None
            raise BackendError(f"'{self.name} inspect' failed: {done.said}")
        found = json.loads(done.out)
        return dict(found[0]) if found else None

    async def learn(self) -> None:
        """Ask the engine for its facts.

        :raises BackendError: code ``backend_unavailable``; it does not work here
        """
        try:
            done = await self.call("info", "--format", "{{json .}}", timeout=CHECK_SECONDS)
            endpoint = await self._endpoint() if self.name != "podman" else ""
        except Unreachable as error:
            raise _unavailable(str(error.message), error.hint or "") from error
        try:
            said = json.loads(done.out)
        except ValueError:
            raise _unavailable(f"'{self.name} info' failed: {done.said}", "") from None
        if said.get("ServerErrors"):
            raise _unavailable(
                f"the {self.name} engine does not answer: {'; '.join(said['ServerErrors'])}",
                f"Start it, or mend the access to it. Try: {self.name} info",
            )
        self.facts = _podman_facts(said) if "host" in said else _docker_facts(said, endpoint)
        if self.name != "podman" and not self.facts.podman and len(self.argv) == 1:
            # A container is looked for where it was made, whatever the environment says by then.
            self.argv = (*self.argv, "--host", endpoint)

    async def _endpoint(self) -> str:
        if len(self.argv) == 1:
            if os.environ.get("DOCKER_HOST"):
                return os.environ["DOCKER_HOST"]
            context = await asyncio.to_thread(_current_context)
            if context is None:
                return DEFAULT_ENDPOINT
            self.argv = (*self.argv, "--context", context)
        shown = await self.call(
            "context", "inspect", *self.argv[2:], "--format", "{{.Endpoints.docker.Host}}"
        )
        return shown.out.strip()


def _current_context() -> str | None:
    """Return the context that docker is set to, None for its default. Blocks."""
    context = os.environ.get("DOCKER_CONTEXT")
    if not context:
        folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
        try:
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                context = json.load(file).get("currentContext")
        except (OSError, ValueError, AttributeError):
            return None
    return context if isinstance(context, str) and context not in ("", "default") else None


def chosen_engine(options: Docker) -> str | None:
    """Return the context or the address of the engine that is meant, None for this machine's own. Blocks."""
    return options.context or os.environ.get("DOCKER_HOST") or _current_context()


def _docker_facts(said: Mapping[str, Any], endpoint: str) -> Facts:
    security = " ".join(said.get("SecurityOptions") or ())
    limits = {
        "memory": said.get("MemoryLimit"),
        "cpus": said.get("CpuCfsQuota"),
        "pids": said.get("PidsLimit"),
    }
    return Facts(
        # Docker's desktop product runs its engine in a virtual machine of its own.
        local=endpoint.startswith("unix://") and "Docker Desktop" not in str(said.get("OperatingSystem")),
        rootless="name=rootless" in security,
        remapped="name=userns" in security,
        seccomp="name=seccomp" in security,
        limits=frozenset(name for name, can in limits.items() if can),
        cpus=int(said.get("NCPU") or 1),
        memory=int(said.get("MemTotal") or 0),
        runtimes=tuple(said.get("Runtimes") or ()),
        runtime=str(said.get("DefaultRuntime") or "runc"),
    )


def _podman_facts(said: Mapping[str, Any]) -> Facts:
    host = said["host"]
    security = host.get("security") or {}
    runtime = str((host.get("ociRuntime") or {}).get("name") or "crun")
    rootless = bool(security.get("rootless"))
    if not rootless:
        limits = frozenset({"cpus", "memory", "pids"})
    elif host.get("cgroupVersion") == "v2":
        by_controller = {"cpu": "cpus", "memory": "memory", "pids": "pids"}
        limits = frozenset(
            by_controller[c] for c in host.get("cgroupControllers") or () if c in by_controller
        )
    else:
        limits = frozenset()
    return Facts(
        podman=True,
        local=not host.get("serviceIsRemote", False),
        rootless=rootless,
        seccomp=bool(security.get("seccompEnabled", True)),
        profile=str(security.get("seccompProfilePath") or ""),
        limits=limits,
        cpus=int(host.get("cpus") or 1),
        memory=int(host.get("memTotal") or 0),
        runtimes=(runtime,),
        runtime=runtime,
    )


_known: dict[tuple[str, ...], Engine] = {}


async def engine_for(options: Docker, kind: str = "docker") -> Engine:
    """Return the engine that the options mean, with its facts. Asked once in a process.

    :param kind: ``podman`` where the user asked for that place
    :raises BackendError: code ``backend_unavailable``; none works here
    """
    chosen = await asyncio.to_thread(chosen_engine, options)
    if options.program != "auto":
        programs = [options.program]
    elif kind == "podman":
        programs = ["podman"]
    elif chosen and await asyncio.to_thread(shutil.which, "docker"):
        programs = ["docker"]  # this very engine is meant, and no other one
    else:
        programs = ["docker", "podman"]
    key = (*programs, chosen or "", *(os.environ.get(name, "") for name in ("PATH", "DOCKER_CONFIG")))
    if key in _known:
        return _known[key]
    failures: list[BackendError] = []
    for program in programs:
        path = await asyncio.to_thread(shutil.which, program)
        if path is None:
            failures.append(_unavailable(f"there is no '{program}' on the PATH", ""))
            continue
        engine = Engine(path, options.context)
        try:
            await engine.learn()
        except BackendError as error:
            failures.append(error)
        else:
            _known[key] = engine
            return engine
    said = "; ".join(error.message.removesuffix(NOTHING) for error in failures)
    hints = [error.hint for error in failures if error.hint]
    raise _unavailable(said, hints[0] if hints else "Install docker or podman, or choose another place.")


def _unavailable(said: str, hint: str) -> BackendError:
    return BackendError(said + NOTHING, code="backend_unavailable", hint=hint or None)


def _is_down(text: str) -> bool:
    low = text.lower()
    return any(
        words in low
        for words in (
            "cannot connect to the docker daemon",
            "is the docker daemon running",
            "error during connect",
            "permission denied while trying to connect",
            "cannot connect to podman",
            "unable to connect to podman",
            "failed to connect to the docker api",
            "unable to resolve docker endpoint",  # a context that is gone
            "context not found",
        )
    )


def missing(text: str) -> bool:
    """Return whether a client says that there is no such object."""
    low = text.lower()
    return "no such" in low or "no container with" in low or "not found" in low or "does not exist" in low
