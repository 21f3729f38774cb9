"""The files of a fake sandbox: a dictionary."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterable
from fnmatch import fnmatchcase
from typing import Any

from hermes.errors import FileError
from hermes.session import Stdin


class FakeFiles:
    """Files in a dictionary, ``content``, by absolute path."""

    def __init__(self, cwd: str) -> None:
        self.content: dict[str, bytes] = {}
        self._cwd = cwd

    def _path(self, path: Any) -> str:
        return posixpath.normpath(posixpath.join(self._cwd, str(path)))

    def _get(self, path: Any) -> bytes:
        try:
            return self.content[self._path(path)]
        except KeyError:
            raise FileError(f"No such file or directory: {path}", path=str(path), code="not_found") from None

    async def read(self, path: Any, *, offset: int = 0, n: int | None = None) -> bytes:
        return self._get(path)[offset:][:n]

    async def read_text(self, path: Any) -> str:
        return self._get(path).decode("utf-8", "replace")

    async def write(self, path: Any, data: bytes | str | AsyncIterable[bytes], **options: Any) -> None:
        self.content[self._path(path)] = await collected(data)

    async def append(self, path: Any, data: bytes | str | AsyncIterable[bytes], **options: Any) -> None:
        key = self._path(path)
        self.content[key] = self.content.get(key, b"") + await collected(data)

    async def exists(self, path: Any) -> bool:
        key = self._path(path)
        return any(name == key or name.startswith(key.rstrip("/") + "/") for name in self.content)

    async def glob(self, pattern: str, *, root: Any = ".") -> list[str]:
        base = self._path(root).rstrip("/") + "/"
        names = (name.removeprefix(base) for name in self.content if name.startswith(base))
        return sorted(name for name in names if fnmatchcase(name, pattern))

    async def mkdir(self, path: Any, **options: Any) -> None:
        pass

    async def remove(self, path: Any, *, recursive: bool = False) -> None:
        key = self._path(path)
        doomed = [name for name in self.content if name == key or (recursive and name.startswith(key + "/"))]
        if not doomed:
            self._get(path)
        for name in doomed:
            del self.content[name]

    async def move(self, src: Any, dst: Any) -> None:
        self.content[self._path(dst)] = self._get(src)
        del self.content[self._path(src)]


def as_bytes(data: bytes | str) -> bytes:
    return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)


async def collected(data: Stdin | None) -> bytes:
    if data is None:
        return b""
    if isinstance(data, str | bytes):
        return as_bytes(data)
    return b"".join([piece async for piece in data])
