"""What ``auto`` stands for: the best place that works on this machine, and isolates."""

from __future__ import annotations

from .config import Config
from .errors import BackendError, HermesError

__all__ = ["best", "resolve"]


async def best(config: Config) -> tuple[str, str]:
    """Return the name of the best place that can be made ready here, and why it is that one.

    A container when an engine answers; else a jail.

    :raises BackendError: neither works here
    """
    from .backends import load

    try:
        await load("docker").check(config)
    except HermesError as error:
        return await _jail(config, _no_engine(error))
    return "docker", "a container engine works here"


async def resolve(config: Config) -> tuple[str, str]:
    """Return the name of the best place that is ready, and why it is that one.

    A container when an engine answers and has the image; else a jail.

    :raises BackendError: neither works here
    """
    from .backends.base import Spec
    from .backends.docker import DockerBackend

    place = DockerBackend(Spec(name="auto", id="0" * 16), config)
    try:
        engine, image = await place.image_here()
    except HermesError as error:
        return await _jail(config, _no_engine(error))
    if image is None:
        return "docker", f"{engine} works and has the image"
    why = f"{engine} works but has no image {image}; 'hermes setup --sandbox docker' gets it"
    return await _jail(config, why)


def _no_engine(error: HermesError) -> str:
    # What was not started is a container: something else is about to be.
    return f"no container engine works here: {error.message.removesuffix('; nothing was started')}"


async def _jail(config: Config, why: str) -> tuple[str, str]:
    from .backends import load

    try:
        await load("jail").check(config)
    except HermesError as error:
        raise BackendError(
            f"no place was chosen, and none that isolates works here; nothing was run. Containers: {why}. "
            f"Jail: {error.message}",
            code="backend_unavailable",
            hint=f"{(error.hint or 'Install docker').rstrip('.')}. For a machine that may be thrown away: "
            "hermes config set sandbox local",
            context={"backend": "auto"},
        ) from error
    return "jail", why
