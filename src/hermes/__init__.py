"""Decide where an agent's commands run, what may run unasked, and what the place may know.

``import hermes`` is quick: each public name is imported when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes longer to import than the rest of this package's beginning
if TYPE_CHECKING:
    from typing import Any

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
        value: Any = _version()
    elif name in _HOME:
        import importlib

        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _version() -> str:
    import os
    import sys

    # The name of the directory says it, which is found in a fraction of the time that the metadata take.
    beside = os.path.dirname(os.path.dirname(__file__))
    for folder in (beside, *sys.path):
        try:
            found = [name for name in os.listdir(folder or ".") if name.startswith("hermes_places-")]
        except OSError:
            continue
        for name in found:
            if name.endswith(".dist-info"):
                return name.removesuffix(".dist-info").partition("-")[2]
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hermes-places")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
