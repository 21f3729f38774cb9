"""What ``auto`` stands for: the best place that works on this machine."""

from __future__ import annotations

from .config import Config
from .errors import HermesError

__all__ = ["best", "resolve"]


async def best(config: Config) -> tuple[str, str]:
    """Return the name of the best place that can be made ready here, and why it is that one.

    A container when an engine answers; else this machine, whose commands are judged.
    """
    from .backends import load

    try:
        await load("docker").check(config)
    except HermesError as error:
        return "local", f"no container engine works here: {error.message}"
    return "docker", "a container engine works here"


async def resolve(config: Config) -> tuple[str, str]:
    """Return the name of the best place that is ready, and why it is that one.

    A container when an engine answers and has the image; else this machine, whose commands are judged.
    """
    from .backends.base import Spec
    from .backends.docker import DockerBackend

    place = DockerBackend(Spec(name="auto", id="0" * 16), config)
    try:
        engine, image = await place.image_here()
    except HermesError as error:
        return "local", f"no container engine works here: {error.message}"
    if image is None:
        return "docker", f"{engine} works and has the image"
    return "local", f"{engine} works but has no image {image}; 'hermes setup --sandbox docker' gets it"
