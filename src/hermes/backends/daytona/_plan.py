"""What a sandbox is made with, as the provider wants it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.config import Config, Daytona, section, shown_limit
from hermes.errors import ConfigError, UnsupportedError

from .._cloud._labels import labels
from ..base import Spec

if TYPE_CHECKING:
    from daytona import CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams

__all__ = ["Plan", "minutes", "plan_for"]

GIB = 1 << 30
ASLEEP = 24 * 60
"""Minutes after which a sandbox without a name that sleeps is removed: its client is likely gone."""


@dataclass(frozen=True)
class Plan:
    """The settled options of one sandbox, and its resources in whole cores and GiB."""

    settings: Daytona
    image: str | None
    snapshot: str | None
    resources: dict[str, Any]
    blocked: bool


def minutes(seconds: float) -> int:
    """Return a time in the provider's unit, rounded up; 0 stays 0."""
    return math.ceil(seconds / 60)


def plan_for(spec: Spec, config: Config) -> Plan:
    """Return the plan of a sandbox.

    :raises ConfigError: options that contradict each other, or that there are not
    :raises UnsupportedError: what the provider cannot do
    """
    settings = section(config.daytona, spec.options, "daytona option")
    if spec.network in ("internal", "host"):
        raise UnsupportedError(
            f"the daytona backend cannot do network: {spec.network}; nothing was started",
            hint="It can be on or off; daytona.allow_networks and daytona.allow_domains narrow it.",
        )
    if spec.network == "off" and (settings.allow_networks or settings.allow_domains):
        raise ConfigError(
            "network: off, and yet daytona.allow_networks or daytona.allow_domains name what may be reached; "
            "nothing was started",
            hint="Leave one of them out.",
        )
    asked = spec.image or spec.options.get("image")
    if "" in (spec.image, settings.image, settings.snapshot):
        raise ConfigError(
            "the name of the image or the snapshot is empty; nothing was started",
            hint="Leave it out for the provider's own: hermes config unset daytona.image",
        )
    snapshot = spec.options.get("snapshot") or (None if asked else settings.snapshot)
    image = asked or (None if snapshot else settings.image)
    if image and snapshot:
        raise ConfigError(
            f"both an image ({image}) and a snapshot ({snapshot}) are asked for; nothing was started",
            hint="A sandbox is made from one of them.",
        )
    resources = _resources(spec)
    if resources and snapshot:
        raise UnsupportedError(
            "a sandbox made from a snapshot has that one's resources, so no limits can be set; "
            "nothing was started",
            hint="Leave the limits out, or name an image.",
        )
    if resources and not image:
        from ..docker._image import DEFAULT_IMAGE

        image = DEFAULT_IMAGE  # the provider's own snapshot takes no other resources
    lists = settings.allow_networks, settings.allow_domains
    nothing = lists != (None, None) and not any(lists)
    return Plan(settings, image, snapshot, resources, spec.network == "off" or nothing)


def _resources(spec: Spec) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for limit, unit, word in (("cpus", 1, "cores"), ("memory", GIB, "GiB"), ("disk", GIB, "GiB")):
        wanted = spec.limits.get(limit)
        if wanted is None:
            continue
        amount = wanted / unit
        if amount != int(amount) or amount < 1:
            raise UnsupportedError(
                f"limits.{limit} is {shown_limit(limit, wanted)}, but Daytona has whole {word}; "
                "nothing was started",
                hint=f"Say {max(int(amount), 1)} or {math.ceil(max(amount, 1))} {word}.",
            )
        found[{"cpus": "cpu"}.get(limit, limit)] = int(amount)
    return found


def provider_name(spec: Spec) -> str:
    """Return the name of the sandbox at the provider, which no other one has."""
    readable = re.sub(r"[^a-zA-Z0-9_.-]", "-", spec.name)[:40]
    return f"hermes-{readable}-{spec.id[:8]}"


def parameters(plan: Plan, spec: Spec) -> CreateSandboxFromImageParams | CreateSandboxFromSnapshotParams:
    """Return what the SDK makes a sandbox from. What must end it without a client is set here. Blocks."""
    from daytona import CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams, Resources

    life, settings = spec.lifetime, plan.settings
    if spec.keep:
        delete = -1
    elif spec.named:
        delete = minutes(life.ttl) or -1
    else:
        delete = ASLEEP
    common: dict[str, Any] = {
        "name": provider_name(spec),
        "labels": labels(spec),
        "public": False,
        "auto_stop_interval": minutes(life.idle_stop),
        "auto_delete_interval": delete,
        "auto_archive_interval": None if settings.archive_after is None else minutes(settings.archive_after),
        "network_block_all": plan.blocked or None,
        "network_allow_list": ",".join(settings.allow_networks or ()) or None,
        "domain_allow_list": ",".join(settings.allow_domains or ()) or None,
    }
    if plan.image is None:
        return CreateSandboxFromSnapshotParams(snapshot=plan.snapshot, **common)
    resources = Resources(**plan.resources) if plan.resources else None
    return CreateSandboxFromImageParams(image=plan.image, resources=resources, **common)
