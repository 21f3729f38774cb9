"""A sandbox provider of Inspect: ``sandbox=("hermes", "docker")``.

Inspect finds it by the entry point of the group ``inspect_ai``. The configuration is ``BACKEND[:HOST]``, or
a file with settings as in ``config.yaml``; without one the configured place is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NoReturn, overload

import anyio
import msgspec
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)

from hermes.config import Config
from hermes.errors import CommandError, ConfigError, FileError, HermesError, Refused, exit_code
from hermes.sandbox import Sandbox

from . import settings, told

__all__ = ["HermesSandboxEnvironment"]

PREFIX = "inspect-"
DENIED = re.compile(r"permission denied", re.IGNORECASE)


@sandboxenv(name="hermes")
class HermesSandboxEnvironment(SandboxEnvironment):
    """One sandbox of one sample. It has a workspace of its own, and is destroyed with the sample."""

    def __init__(self, box: Sandbox) -> None:
        super().__init__()
        self._box = box
        self._user: tuple[str, ...] | None = None

    # --- of the provider

    @classmethod
    def default_concurrency(cls) -> int | None:
        return 2 * (os.cpu_count() or 1)

    @classmethod
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        with _translated():
            await asyncio.to_thread(_options, config)  # what is wrong with it is said once, before the start

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        task = re.sub(r"[^A-Za-z0-9_.-]+", "-", task_name)[:32]
        name = f"{PREFIX}{task}-{secrets.token_hex(4)}"
        with _translated():
            options = await asyncio.to_thread(_options, config)
            return {"default": cls(await Sandbox(name=name, **options).open())}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        with anyio.CancelScope(shield=True):
            for environment in environments.values():
                await environment.as_type(cls)._box.destroy()

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        from hermes.config import load
        from hermes.places import remove
        from hermes.state import Store

        store = await asyncio.to_thread(Store)
        config = await asyncio.to_thread(load)
        for record in await asyncio.to_thread(store.all):
            if record.name == id or (id is None and record.name.startswith(PREFIX)):
                await remove(record, config, store)
                print(f"{record.name}: removed")

    # --- of a sandbox

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        await self._check_user(user)
        command = f"hermes shell --sandbox {self._box.backend} --name {self._box.name}"
        return SandboxConnection(type="hermes", command=command)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command, once: what has timed out is not tried again."""
        await self._check_user(user)
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        with _translated():
            try:
                result = await self._box.exec(
                    cmd, stdin=input, cwd=cwd, env=env, timeout=timeout, max_output=limit
                )
            except CommandError as error:
                return ExecResult(False, exit_code(error), "", str(error))
        stdout, stderr = result.text, result.stderr.decode("utf-8", "replace")
        if result.timed_out:
            timed_out = TimeoutError(f"the command was ended after {result.duration:.0f} s")
            timed_out.truncated_output = stdout + stderr  # type: ignore[attr-defined]
            raise timed_out
        if result.truncated:
            raise OutputLimitExceededError(
                SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, truncated_output=stdout + stderr
            )
        if result.exit_code == 126 and not stdout and DENIED.search(stderr):
            raise PermissionError(stderr.strip())
        return ExecResult(result.exit_code == 0, result.exit_code, stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        # Our write replaces the file, which only its directory has to allow. Here the file has to as well.
        path = shlex.quote(file)
        with _translated():
            if (await self._box.exec(f"[ ! -e {path} ] || [ -w {path} ]")).exit_code != 0:
                raise PermissionError(f"{file} may not be written")
            await self._box.files.write(file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        with _translated():
            data = await self._box.files.read(file, n=limit + 1)
        if len(data) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return data.decode("utf-8") if text else data

    def default_polling_interval(self) -> float:
        return 0.2

    async def _check_user(self, user: str | None) -> None:
        """Return when commands run as that user, as all commands of one sandbox do.

        :raises SandboxUserUnsupportedError: they do not
        """
        if user is None:
            return
        if self._user is None:
            with _translated():
                found = await self._box.exec("id -u; id -un")
            self._user = tuple(found.text.split())
        if user not in self._user:
            raise SandboxUserUnsupportedError(
                f"commands in this sandbox run as {' or '.join(self._user)}, and cannot as {user}"
            )


def _options(config: SandboxEnvironmentConfigType | None) -> dict[str, Any]:
    """Return the options of a sandbox: those of a file, or of the place that is named."""
    found: dict[str, Any] = {"workspace": "private"}
    if config is None:
        found = told(**found)
    elif not isinstance(config, str):
        raise ConfigError(
            f"hermes has no settings of the type {type(config).__name__}; nothing was started",
            hint='Give a place or a file: sandbox=("hermes", "docker").',
        )
    elif Path(config).is_file() or config.endswith((".yaml", ".yml")):
        file = settings(Path(config))
        found = told(file, workspace=file.data.get("workspace", "private"))
    else:
        # Inspect takes it for a file beside the task's.
        found = told(backend=Path(config).name, **found)
    # Inspect runs a sample's setup from /tmp, and its own tools from /var/tmp.
    of_all: Config = found["config"]
    docker = msgspec.structs.replace(of_all.docker, tmp_exec=True)
    return {**found, "config": msgspec.structs.replace(of_all, docker=docker)}


_FILE_ERRORS: dict[str, type[OSError]] = {
    "not_found": FileNotFoundError,
    "not_a_directory": NotADirectoryError,
    "is_a_directory": IsADirectoryError,
    "permission": PermissionError,
}


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn our errors into those of the contract.

    :raises SandboxUnavailableError: the place does not work
    """
    try:
        yield
    except (CommandError, ConfigError):
        raise
    except Refused as error:
        raise PermissionError(str(error)) from error
    except FileError as error:
        _raise(error)
    except HermesError as error:
        raise SandboxUnavailableError(str(error)) from error


def _raise(error: FileError) -> NoReturn:
    if error.code == "too_large":
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from error
    raise _FILE_ERRORS.get(error.code, OSError)(str(error)) from error
