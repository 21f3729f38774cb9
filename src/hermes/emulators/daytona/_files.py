"""Files of a sandbox, as the server in it takes and gives them."""

from __future__ import annotations

import asyncio
import grp
import pwd
import re
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from aiohttp import BodyPartReader, web
from daytona_toolbox_api_client_async import FileInfo, FilesDownloadRequest, UploadFilesResponse

from ._box import DAEMON, HOME, Box, problem

if TYPE_CHECKING:
    from . import Daytona

BOUNDARY = "DAYTONA-FILE-BOUNDARY"

T = TypeVar("T")


async def _do(work: Callable[..., T], box: Box, path: str, *more: Any) -> T:
    """Do something with a file, and answer its errors as the server in the sandbox does."""

    def there() -> T:
        return work(box.place.path(path if path.startswith("/") else f"{HOME}/{path}"), *more)

    try:
        return await asyncio.to_thread(there)
    except FileNotFoundError as error:
        said, code = f"{path}: {error.strerror}", "FILE_NOT_FOUND"
        raise problem(404, said, code=code, source=DAEMON) from None
    except (OSError, ValueError) as error:
        raise problem(400, f"{path}: {error}", source=DAEMON) from None


def _facts(path: Path) -> dict[str, Any]:
    found = path.lstat()
    changed = datetime.fromtimestamp(found.st_mtime, UTC)
    try:
        owner, group = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        owner, group = str(found.st_uid), str(found.st_gid)
    facts = {
        "name": path.name,
        "isDir": stat.S_ISDIR(found.st_mode),
        "size": found.st_size,
        "mode": stat.filemode(found.st_mode),
        "permissions": f"{stat.S_IMODE(found.st_mode):04o}",
        "owner": owner,
        "group": group,
        "modTime": changed.strftime("%Y-%m-%d %H:%M:%S +0000 UTC"),
        "modifiedAt": changed.isoformat(),
    }
    assert FileInfo.from_dict(facts) is not None
    return facts


def _listed(path: Path) -> list[dict[str, Any]]:
    return [_facts(one) for one in sorted(path.iterdir())]


async def list_files(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    return web.json_response(await _do(_listed, box, request.query.get("path", HOME)))


async def info(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    return web.json_response(await _do(_facts, box, request.query["path"]))


async def create_folder(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    def make(path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(int(request.query["mode"], 8))

    await _do(make, box, request.query["path"])
    return web.Response(status=201)


async def delete(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    def remove(path: Path) -> None:
        if not path.is_dir() or path.is_symlink():
            path.unlink()
        elif request.query.get("recursive") != "true":
            raise OSError("cannot delete directory without recursive flag")
        else:
            shutil.rmtree(path)

    await _do(remove, box, request.query["path"])
    return web.Response(status=204)


async def upload(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    """Take files, each in two parts: ``files[N].path`` and then ``files[N].file``."""
    paths: dict[str, str] = {}
    written = []

    def write(path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        named = re.fullmatch(r"files\[(\d+)\]\.(path|file)", part.name or "")
        if named is None:
            raise problem(400, f"unexpected part {part.name}", source=DAEMON)
        if named[2] == "path":
            paths[named[1]] = await part.text()
        else:
            data = bytes(await part.read(decode=True))
            await _do(write, box, paths[named[1]], data)
            written.append({"path": paths[named[1]], "bytes": len(data)})
    answer = {"files": written}
    assert UploadFilesResponse.from_dict(answer) is not None
    return web.json_response(answer)


async def download(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    """Give files, each as a part; one that cannot be read is a part that says why."""
    wanted = FilesDownloadRequest.from_dict(await request.json())
    assert wanted is not None
    body = b""
    for path in wanted.paths:
        try:
            name, kind, data = "file", "application/octet-stream", await _do(Path.read_bytes, box, path)
        except web.HTTPException as error:
            name, kind, data = "error", "application/json", (error.text or "").encode()
        shown = path.replace("\\", "\\\\").replace('"', '\\"')
        body += (
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{shown}"\r\n'
            f"Content-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
        ).encode()
        body += data + b"\r\n"
    body += f"--{BOUNDARY}--\r\n".encode()
    return web.Response(body=body, headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
