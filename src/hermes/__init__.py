"""Decide where an agent's commands run, what may run unasked, and what the place may know.

``import hermes`` is quick: each public name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .approval import AllowAll, Answer, Decision, Judge, Nobody, Program, Request
    from .config import Config, Lifetime
    from .errors import (
        BackendError,
        CommandError,
        ConfigError,
        FileError,
        HermesError,
        JobError,
        PortError,
        ProtocolError,
        Refused,
        SandboxDiffers,
        SandboxGone,
        Unreachable,
        UnsupportedError,
    )
    from .files import Files, FileStat, TransferStats
    from .job import Job, JobInfo
    from .pty import Pty
    from .sandbox import Sandbox
    from .session import Result, SessionInfo, Shell, Spill
    from .workspace import Change, Outcome, Workspace

__all__ = [
    "AllowAll",
    "Answer",
    "BackendError",
    "Change",
    "CommandError",
    "Config",
    "ConfigError",
    "Decision",
    "FileError",
    "FileStat",
    "Files",
    "HermesError",
    "Job",
    "JobError",
    "JobInfo",
    "Judge",
    "Lifetime",
    "Nobody",
    "Outcome",
    "PortError",
    "Program",
    "ProtocolError",
    "Pty",
    "Refused",
    "Request",
    "Result",
    "Sandbox",
    "SandboxDiffers",
    "SandboxGone",
    "SessionInfo",
    "Shell",
    "Spill",
    "TransferStats",
    "Unreachable",
    "UnsupportedError",
    "Workspace",
    "__version__",
]

_MODULES = {
    "approval": ("AllowAll", "Answer", "Decision", "Judge", "Nobody", "Program", "Request"),
    "config": ("Config", "Lifetime"),
    "errors": (
        "BackendError",
        "CommandError",
        "ConfigError",
        "FileError",
        "HermesError",
        "JobError",
        "PortError",
        "ProtocolError",
        "Refused",
        "SandboxDiffers",
        "SandboxGone",
        "Unreachable",
        "UnsupportedError",
    ),
    "files": ("FileStat", "Files", "TransferStats"),
    "job": ("Job", "JobInfo"),
    "pty": ("Pty",),
    "sandbox": ("Sandbox",),
    "session": ("Result", "SessionInfo", "Shell", "Spill"),
    "workspace": ("Change", "Outcome", "Workspace"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            value: Any = version("hermes-places")
        except PackageNotFoundError:  # run from a source tree that was never installed
            value = "0+unknown"
    elif name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
