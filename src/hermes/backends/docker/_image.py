"""The image of a container: named and pulled, or built from a Dockerfile."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.errors import BackendError, ConfigError

from ._context import digest_of
from ._engine import Engine
from ._watch import Layers, Steps

if TYPE_CHECKING:
    from ..base import Measure

__all__ = [
    "DEFAULT_IMAGE",
    "Image",
    "ensure",
    "from_dockerfile",
    "is_pin",
    "latest",
    "no_image",
    "pinned",
    "read_regular",
]

DEFAULT_IMAGE = "nikolaik/python-nodejs:python3.13-nodejs22"
"""Has bash, python3, git, curl and node."""

PULL_SECONDS = 3600.0
BUILD_SECONDS = 3600.0
_ADVERTISED = re.compile(r"\ADEPRECATED:[^\n]*\n(?:[ \t]+[^\n]*\n)*")
"""What docker says first of a builder that it has instead of the one that builds."""


@dataclass(frozen=True)
class Image:
    """Where an image comes from: a reference, and a Dockerfile when it is built here."""

    reference: str
    dockerfile: str | None = None
    context: str | None = None
    build_args: tuple[str, ...] = ()
    target: str | None = None

    @property
    def shown(self) -> str:
        """The image as people and records name it; another content of the Dockerfile is another name."""
        return f"{self.dockerfile} ({self.reference})" if self.dockerfile else self.reference


def from_dockerfile(
    path: str,
    context: str | None = None,
    build_args: tuple[str, ...] = (),
    target: str | None = None,
    workspace: str | None = None,
) -> Image:
    """Return the image that a Dockerfile builds. Blocks.

    Its tag follows from the file and from what that copies, so that a change is noticed.

    :param workspace: a directory that the sandbox itself will change
    :raises ConfigError: the file cannot be read
    """
    file = Path(os.path.abspath(os.path.expanduser(path)))
    if file.is_dir():
        file = file / "Dockerfile"
    try:
        content = read_regular(file)
    except OSError as error:
        raise ConfigError(
            f"the Dockerfile {file} cannot be read: {error.strerror}; nothing was started"
        ) from error
    folder = os.path.abspath(context) if context else str(file.parent)
    named = repr((str(file), folder, build_args, target)).encode()
    taken = digest_of(content, str(file), folder, workspace)
    digest = hashlib.sha256(named + content + taken).hexdigest()[:16]
    return Image(f"hermes-built:{digest}", str(file), folder, build_args, target)


def read_regular(file: Path) -> bytes:
    """Return the content of a file. A pipe or a device, which may have no end, is none. Blocks.

    :raises OSError: it cannot be read
    """
    if not file.is_file() and file.exists():
        raise OSError(errno.EINVAL, "it is not a file")
    return file.read_bytes()


def no_image(text: str) -> bool:
    """Return whether a client says that the image is not there."""
    return any(
        words in text.lower() for words in ("no such image", "unable to find image", "image not known")
    )


async def pinned(engine: Engine, image: Image) -> str | None:
    """Return the name of exactly this content, None for an image that no registry has."""
    form = "{{range .RepoDigests}}{{.}} {{end}}"
    digests = await engine.ask("image", "inspect", "--format", form, image.reference)
    return next((one for one in digests.split() if _repository(one) == _repository(image.reference)), None)


def latest(image: Image) -> Image:
    """Return what a pinned default image is pinned from, any other image as it is."""
    return Image(DEFAULT_IMAGE) if image.dockerfile is None and is_pin(image.reference) else image


def is_pin(reference: str | None) -> bool:
    """Return whether this names the default image by its content, as setup writes it down."""
    return reference is not None and "@" in reference and _repository(reference) == _repository(DEFAULT_IMAGE)


def _repository(reference: str) -> str:
    return re.sub(r":[^:/]*$", "", reference.partition("@")[0]).removeprefix("docker.io/")


async def ensure(
    engine: Engine,
    image: Image,
    progress: Callable[[str], None],
    measure: Measure | None = None,
    *,
    renew: bool = False,
) -> None:
    """See to it that the image is there: build it, or pull it, where it is not.

    :param measure: told how far that is
    :param renew: build or pull even when there is one
    :raises BackendError: code ``image_missing``; it is not there and cannot be had
    """
    if (
        not renew
        and (await engine.call("image", "inspect", "--format", "{{.Id}}", image.reference)).code == 0
    ):
        return
    if image.dockerfile is not None:
        progress(f"building {image.reference} from {image.dockerfile}")
        argv = ["build", "--force-rm", "--tag", image.reference, "--file", image.dockerfile]
        argv += [part for arg in image.build_args for part in ("--build-arg", arg)]
        argv += ["--target", image.target] if image.target else []
        steps = Steps(progress, measure)
        done = await engine.call(*argv, str(image.context), timeout=BUILD_SECONDS, on_line=steps)
        done = replace(done, err=_ADVERTISED.sub("", done.err))
        what = f"the image could not be built from {image.dockerfile}"
        hint = f"Try: {engine.name} build --file {image.dockerfile} {image.context}"
    else:
        progress(f"pulling {image.reference}")
        layers = progress if measure is None else Layers(measure)
        done = await engine.call(
            "pull", image.reference, timeout=PULL_SECONDS, on_line=layers, watched=measure is not None
        )
        what = f"the image {image.reference} is not here and could not be pulled"
        hint = "Check the name and the network, or set docker.image to one that 'docker images' lists."
    if done.code != 0:
        said = done.said if image.dockerfile is None else _last(done.err or done.out)
        raise BackendError(f"{what}: {said}; nothing was started", code="image_missing", hint=hint)


def _last(text: str) -> str:
    return " ".join(" ".join(text.strip().splitlines()[-8:]).split())[-600:]
