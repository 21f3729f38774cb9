"""Where a sandbox's own files go on this machine, and why not elsewhere."""

from __future__ import annotations

import contextlib
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hermes.config import home, make_private
from hermes.errors import BackendError

__all__ = ["candidates", "choose", "of"]

MIN_FREE = 256 << 20
"""Fewer free bytes than these are not enough for a workspace."""


def candidates() -> Iterator[tuple[str, Path | None, str]]:
    """Yield what is tried, in order: its name for people, its path, and why there is none."""
    for variable, below in (("TERMINAL_SCRATCH_DIR", ""), ("TERMINAL_SANDBOX_DIR", "singularity")):
        value = os.environ.get(variable, "")
        if not value:
            yield variable, None, "it is not set"
        elif not os.path.isabs(value):
            yield variable, None, f"'{value}' is no absolute path"
        else:
            yield variable, Path(value, below), ""
    shared = Path("/scratch", _user())
    if shared.is_dir():
        yield "/scratch/$USER/hermes-agent", shared / "hermes-agent", ""
    else:
        yield "/scratch/$USER/hermes-agent", None, f"there is no {shared}"
    yield "the home of hermes", home() / "sandboxes" / "singularity", ""


def choose() -> tuple[Path, list[tuple[str, str]]]:
    """Return the first usable directory, made if need be, and each that was passed over with the reason.

    Blocks.

    :raises BackendError: none can be used
    """
    passed: list[tuple[str, str]] = []
    for name, path, why in candidates():
        if path is not None:
            why = _unusable(path)
            if not why:
                return path, passed
        passed.append((name, why))
    raise BackendError(
        "there is no directory for the files of a sandbox: "
        + "; ".join(f"{name}: {why}" for name, why in passed)
        + "; nothing was started",
        hint="Set TERMINAL_SCRATCH_DIR to a directory that you can write to.",
        context={"passed": passed},
    )


def of(name: str) -> Path:
    """Return the directory that has one of that name, the first of all when none has. Blocks."""
    found = [path for _, path, _ in candidates() if path is not None]
    return next((path for path in found if (path / name).is_dir()), found[0])


def _unusable(path: Path) -> str:
    """Return why a directory cannot be used, empty when it can."""
    try:
        make_private(path)
        # Written to, since permissions alone tell nothing of quotas and read-only mounts.
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")
            file.flush()
        facts = os.statvfs(path)
    except OSError as error:
        return f"{path} cannot be written to: {error.strerror or error}"
    free = facts.f_bavail * facts.f_frsize
    if free < MIN_FREE:
        return f"{path} has only {free >> 20} MiB left"
    return ""


def _user() -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())
