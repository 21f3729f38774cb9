"""A backend of LangChain's deepagents, whose tools for files and for ``execute`` so work in a sandbox."""

from __future__ import annotations

from typing import Any, Self

from deepagents.backends.protocol import (
    FILE_NOT_FOUND,
    INVALID_PATH,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox

from hermes.errors import CommandError, FileError, Refused, exit_code
from hermes.sync import Sandbox

from . import told

__all__ = ["HermesBackend"]

KEPT = 4 << 20  # bytes of output: what lists and searches print is read whole

_INVALID: str = INVALID_PATH
_ERRORS: dict[str, str] = {
    "not_found": FILE_NOT_FOUND,
    "not_a_directory": FILE_NOT_FOUND,
    "is_a_directory": IS_DIRECTORY,
    "permission": PERMISSION_DENIED,
}


class HermesBackend(BaseSandbox):
    """One sandbox. It is opened by ``with``, or by :meth:`open`, and left at the end."""

    enable_capture_offload = True

    def __init__(self, sandbox: str | None = None, **options: Any) -> None:
        """Describe it; nothing is started yet.

        :param sandbox: the backend's name, None for the configured one
        :param options: of :class:`hermes.Sandbox`
        """
        self._box = Sandbox(**told(backend=sandbox, **options))

    def open(self) -> Self:
        """Open the sandbox."""
        self._box.open()
        return self

    def close(self) -> None:
        """Leave it: one without a name is destroyed."""
        self._box.__exit__()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        return self._box.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command in a shell of its own.

        :param timeout: seconds; 0 and None leave it to the configuration
        :raises HermesError: the place does not work
        """
        try:
            result = self._box.exec(command, timeout=timeout or None, merge_stderr=True, max_output=KEPT)
        except (Refused, CommandError) as error:
            return ExecuteResponse(output=str(error), exit_code=exit_code(error))
        note = "\n[it was ended by its time limit]" if result.timed_out else ""
        return ExecuteResponse(
            output=result.text + note, exit_code=result.exit_code, truncated=result.truncated
        )

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._write(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._read(path) for path in paths]

    def _write(self, path: str, data: bytes) -> str | None:
        if not path.startswith("/"):
            return _INVALID
        try:
            self._box.files.write(path, data)
        except (Refused, FileError) as error:
            return _ERRORS.get(error.code, str(error))
        return None

    def _read(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error=_INVALID)
        try:
            return FileDownloadResponse(path=path, content=self._box.files.read(path))
        except (Refused, FileError) as error:
            return FileDownloadResponse(path=path, error=_ERRORS.get(error.code, str(error)))
