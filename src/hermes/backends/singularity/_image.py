"""The image of a sandbox: a file or directory that is there, or one that is converted once and kept."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermes._lock import Lock
from hermes.config import home, make_private
from hermes.errors import BackendError, ConfigError, HermesError

from .._command import run_client
from ._client import Client

if TYPE_CHECKING:
    from ..base import Measure

__all__ = ["DEFAULT_IMAGE", "Image", "ensure", "parse_image"]

DEFAULT_IMAGE = "docker://nikolaik/python-nodejs:python3.13-nodejs22"
"""Has bash, python3, git, curl and node."""

BUILD_SECONDS = 2 * 3600.0
STEPS = ("Starting build", "Fetching OCI", "Extracting OCI", "Inserting", "Creating SIF")
"""What a conversion says when it begins each of its parts."""
REMOTE = ("docker", "oras", "library", "shub")
LOCAL = ("docker-daemon", "docker-archive", "oci-archive")


@dataclass(frozen=True)
class Image:
    """Where an image comes from. ``path`` is None for one that has to be converted first."""

    source: str
    path: str | None = None

    @property
    def shown(self) -> str:
        """The image as people and records name it."""
        return self.source

    @property
    def kind(self) -> str:
        """The scheme of a source that has to be converted, empty for one that is there."""
        return "" if self.path else self.source.partition(":")[0]


def parse_image(text: str | None, here: str | None) -> Image:
    """Return the image that a setting means. Looks whether a file is there; blocks, for a moment.

    :raises ConfigError: it means none
    """
    text = text or DEFAULT_IMAGE
    scheme, colon, rest = text.partition(":")
    if colon and scheme in REMOTE and rest.startswith("//") and rest.strip("/"):
        return Image(text)
    if colon and scheme in LOCAL and rest.strip("/"):
        rest = rest.removeprefix("//")
        if scheme.endswith("-archive"):
            path = os.path.abspath(os.path.join(here or os.getcwd(), os.path.expanduser(rest)))
            if not os.path.isfile(path):
                raise ConfigError(f"there is no file {path} to take the image from; nothing was started")
            rest = path
        return Image(f"{scheme}:{rest}")
    path = os.path.abspath(os.path.join(here or os.getcwd(), os.path.expanduser(text)))
    if os.path.isfile(path) or os.path.isdir(path):
        return Image(path, path)
    if os.path.lexists(path):  # a client would wait for what nobody writes into a pipe
        raise ConfigError(f"{path} is neither a file nor a directory, so no image; nothing was started")
    near = (
        f"docker://{text}"
        if re.fullmatch(r"[a-z0-9][a-z0-9._/-]*(:[\w.-]+)?(@sha256:[0-9a-f]+)?", text)
        else ""
    )
    raise ConfigError(
        f"there is no image '{text}': {path} does not exist; nothing was started",
        hint=(f"If it is one of a registry, write {near}. " if near else "")
        + "An image is a .sif file, a directory, docker://..., docker-daemon:... or docker-archive:...",
    )


def cache_dir(work: Path) -> Path:
    """Return where converted images are kept: in hermes's home, or where the sandboxes are instead."""
    return home() / "cache" / "images" if work.is_relative_to(home()) else work / "images"


async def ensure(
    client: Client,
    image: Image,
    work: Path,
    progress: Callable[[str], None],
    measure: Measure | None = None,
    *,
    renew: bool = False,
) -> str:
    """Return the path of an image that can be started, after converting it if that was not done before.

    Processes that want the same one wait for each other. An image that is there is whole.

    :param renew: convert it although that was done
    :raises BackendError: code ``image_missing``; it cannot be had
    """
    if image.path is not None:
        return image.path
    digest = await _digest(image)
    cache = await asyncio.to_thread(cache_dir, work)
    key = hashlib.sha256(f"{image.source}\n{digest}".encode()).hexdigest()[:24]
    made = cache / f"{key}.sif"
    if not renew and await asyncio.to_thread(made.exists):
        return str(made)
    await asyncio.to_thread(lambda: make_private(cache))
    async with _alone(cache / f"{key}.lock", progress):
        if renew or not await asyncio.to_thread(made.exists):
            await _convert(client, image, made, progress, measure)
    return str(made)


async def _convert(
    client: Client, image: Image, made: Path, progress: Callable[[str], None], measure: Measure | None
) -> None:
    draft, scratch = made.with_suffix(".new"), made.with_suffix(".tmp")

    def clean() -> None:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        shutil.rmtree(scratch, ignore_errors=True)

    await asyncio.to_thread(clean)  # what a killed one left
    await asyncio.to_thread(scratch.mkdir, 0o700)
    progress(f"converting {image.source}; this is done once")
    env = {f"{kind}_TMPDIR": str(scratch) for kind in ("APPTAINER", "SINGULARITY")}
    try:
        fast: tuple[str, ...] = ()
        if "--mksquashfs-args" in (await client.call("build", "--help")).out:
            fast = ("--mksquashfs-args", "-comp gzip -Xcompression-level 1")
        done = await client.call(
            *("build", *fast, str(draft), image.source),
            timeout=BUILD_SECONDS,
            on_line=lambda line: _tell(line, progress, measure),
            env=env,
            quiet=False,
        )
        if done.code != 0:
            raise _missing(image, client, done.err or done.out)
        await asyncio.to_thread(os.replace, draft, made)
    finally:
        await asyncio.shield(asyncio.to_thread(clean))


def _tell(line: str, progress: Callable[[str], None], measure: Measure | None) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
    text = re.sub(r"^(INFO|WARNING):\s*", "", text)
    if text and not text.startswith("Use '--") and len(text) < 300:
        progress(text)
    for done, words in enumerate(STEPS):
        if measure is not None and text.startswith(words):
            measure(done, len(STEPS), "steps")


def _missing(image: Image, client: Client, said: str) -> HermesError:
    text = re.sub(r"\x1b\[[0-9;]*m", "", said)
    lines = [line for line in text.splitlines() if line.startswith(("FATAL", "ERROR"))] or text.splitlines()[
        -3:
    ]
    return BackendError(
        f"the image {image.source} is not here and could not be converted: "
        f"{' '.join(' '.join(lines).split())[-600:]}; nothing was started",
        code="image_missing",
        hint=f"Try: {client.name} build image.sif {image.source}",
        context={"image": image.source},
    )


@contextlib.asynccontextmanager
async def _alone(path: Path, progress: Callable[[str], None]) -> AsyncIterator[None]:
    """Hold a lock that other processes want, too, for as long as a conversion may take."""
    lock = Lock(path, BUILD_SECONDS)
    waiting = asyncio.get_running_loop().call_later(
        1.0, progress, "waiting for another hermes, which converts the same image"
    )
    try:
        await asyncio.to_thread(lock.acquire)
        waiting.cancel()
        yield
    finally:
        waiting.cancel()
        await asyncio.to_thread(lock.release)


async def _digest(image: Image) -> str:
    """Return what tells one content of a source from another, empty where it cannot be known."""
    if image.kind.endswith("-archive"):
        return await asyncio.to_thread(_archive_digest, image.source.partition(":")[2])
    if image.kind == "docker-daemon":
        name = image.source.partition(":")[2]
        try:
            done = await run_client(["docker", "image", "inspect", "--format", "{{.Id}}", name], timeout=30.0)
        except BackendError as error:
            raise BackendError(
                f"{image.source} cannot be looked up: {error.message}; nothing was started",
                code="image_missing",
            ) from error
        if done.code != 0:
            raise BackendError(
                f"docker has no image {name}: {done.said}; nothing was started",
                code="image_missing",
                hint="'docker images' lists those that there are.",
            )
        return done.out.strip()
    return ""  # a digest in the name is part of it; a tag means what it meant when it was converted


def _archive_digest(path: str) -> str:
    with contextlib.suppress(OSError, tarfile.TarError), tarfile.open(path, "r:") as archive:
        for member in archive:
            # Either lists the digests of all that the archive holds.
            file = archive.extractfile(member) if member.name in ("manifest.json", "index.json") else None
            if file is not None:
                return hashlib.sha256(file.read(1 << 20)).hexdigest()
    facts = os.stat(path)
    return f"{facts.st_size}:{facts.st_mtime_ns}"
