"""The whole error tree. Everything hermes raises on purpose is a ``HermesError``::

    HermesError
    ├─ ConfigError       config_invalid            a bad key, type or value; unknown backend; missing extra
    ├─ BackendError      backend_failed            the place could not be brought up, or does not work here
    ├─ UnsupportedError  unsupported               a capability the chosen backend lacks; raised before start
    ├─ Refused           refused                   approval said no, or there was nobody to ask
    ├─ SandboxDiffers    sandbox_differs           there is one of that name, made with other settings
    ├─ SandboxGone       gone                      the place, or the guest in it, no longer exists
    │   └─ Unreachable   unreachable               the link is lost and may come back
    ├─ CommandError      command_failed_to_start   the command could not be started or fed
    ├─ FileError         file_error                a file operation in the sandbox, or a copy to or from it
    ├─ JobError          job_error                 no such job, or it has already ended
    ├─ PortError         port_error                a port could not be bound here or reached there
    ├─ ProtocolError     protocol                  the guest sent what it must not
    └─ ModelError        model_failed              the model that `hermes` talks to gives no answer

A command that ends with a non-zero exit code and a command that hits its timeout are results, not errors.

``code`` is a stable string for programs; ``message`` and ``hint`` are sentences for people and may change.
More precise codes than a class's own: ``backend_unknown``, ``extra_missing`` and
``credentials_missing`` (ConfigError);
``backend_unavailable`` and ``unsafe_socket`` (BackendError); ``cwd_unusable``, ``command_invalid``,
``env_invalid``, ``stdin_failed`` and ``no_room`` (CommandError); ``not_found``, ``exists``,
``not_a_directory``, ``is_a_directory``, ``permission``, ``no_space``, ``too_large``, ``unsafe_path`` and
``io`` (FileError);
``job_unknown`` and ``job_finished`` (JobError); ``port_refused`` and ``port_in_use`` (PortError);
``model_unset``, ``model_key``, ``model_unavailable``, ``model_too_long`` and ``model_steps`` (ModelError).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

__all__ = [
    "BackendError",
    "CommandError",
    "ConfigError",
    "FileError",
    "HermesError",
    "JobError",
    "ModelError",
    "PortError",
    "ProtocolError",
    "Refused",
    "SandboxDiffers",
    "SandboxGone",
    "Unreachable",
    "UnsupportedError",
    "exit_code",
    "status",
]


class HermesError(Exception):
    """Base of every error that hermes raises on purpose.

    :param message: what happened and what was not done, without a final full stop
    :param code: stable identifier; the class's own unless a more precise one exists
    :param operation: what was being done, such as ``run`` or ``file.read``
    :param retryable: whether the same call may succeed later without anybody changing anything
    :param hint: what the reader can do about it
    :param context: further facts as plain JSON values; never a secret
    """

    default_code: ClassVar[str] = "error"
    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        operation: str | None = None,
        retryable: bool | None = None,
        hint: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        # Only the message goes to args: pickle then rebuilds the rest from __dict__.
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.operation = operation
        self.retryable = self.default_retryable if retryable is None else retryable
        self.hint = hint
        self.context: dict[str, Any] = dict(context or {})

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        joint = " " if self.message.endswith((".", "!", "?", ":")) else ". "
        return self.message + joint + self.hint


class ConfigError(HermesError):
    """A setting is wrong: its name, its type, its value, or the backend or extra that it names."""

    default_code = "config_invalid"


class BackendError(HermesError):
    """The place could not be brought up, or cannot work on this machine."""

    default_code = "backend_failed"


class UnsupportedError(HermesError):
    """The chosen backend cannot do what was asked; nothing was started."""

    default_code = "unsupported"


class Refused(HermesError):
    """Approval said no, or had to ask and there was nobody to ask; nothing was run.

    ``rule`` names the rule that decided, when one did.
    """

    default_code = "refused"

    def __init__(self, message: str, *, rule: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.rule = rule


class SandboxDiffers(HermesError):
    """There is a sandbox of that name, made with other settings; it was neither used nor changed."""

    default_code = "sandbox_differs"


class SandboxGone(HermesError):
    """The place, or the guest in it, no longer exists.

    ``reason`` says why, as far as the backend could find out, and is empty when it could not.
    """

    default_code = "gone"

    def __init__(self, message: str, *, reason: str = "", **fields: Any) -> None:
        super().__init__(message, **fields)
        self.reason = reason


class Unreachable(SandboxGone):
    """The link to the sandbox is lost; what runs inside goes on and can be attached to again."""

    default_code = "unreachable"
    default_retryable = True


class CommandError(HermesError):
    """The command could not be started or fed as asked."""

    default_code = "command_failed_to_start"


class FileError(HermesError):
    """A file operation failed; ``path`` is the path as the caller gave it."""

    default_code = "file_error"

    def __init__(self, message: str, *, path: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.path = path


class JobError(HermesError):
    """There is no such job, or it has already ended."""

    default_code = "job_error"


class PortError(HermesError):
    """A port could not be bound on this machine or reached in the sandbox."""

    default_code = "port_error"


class ProtocolError(HermesError):
    """The guest broke the protocol; the channel to it was closed and nothing it sent was used."""

    default_code = "protocol"


class ModelError(HermesError):
    """The model that ``hermes`` talks to is not set, or gives no answer. What its tools did is done."""

    default_code = "model_failed"


def exit_code(error: BaseException) -> int:
    """Return the exit code with which the command line reports an error.

    121 for a refusal, 123 for a place that is gone, 125 for everything else.
    """
    if isinstance(error, Refused):
        return 121
    if isinstance(error, SandboxGone):
        return 123
    return 125


def status(error: BaseException) -> Literal["refused", "gone", "failed"]:
    """Return the word that a result carries when this error took its place."""
    if isinstance(error, Refused):
        return "refused"
    if isinstance(error, SandboxGone):
        return "gone"
    return "failed"
