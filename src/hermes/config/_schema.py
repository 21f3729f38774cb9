"""What the configuration may say, with its defaults."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

# The titles tell the reader of a file which texts ("10m", "64k") stand for a number here.
Duration = Annotated[float, msgspec.Meta(ge=0, title="duration")]
Size = Annotated[int, msgspec.Meta(ge=0, title="size")]


class Lifetime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long things live without a client; seconds.

    ``detached``: a running command; ``idle_guest``: a guest with nothing running; ``idle_stop``: a place that
    nobody uses, until it is stopped; ``ttl``: a stopped place, until it is removed.
    """

    detached: Duration = 24 * 3600.0
    idle_guest: Duration = 600.0
    idle_stop: Duration = 1800.0
    ttl: Duration = 7 * 24 * 3600.0


class Output(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much output is handed over (``limit``, per stream) and kept inside (``spill_quota``); bytes."""

    limit: Size = 1 << 20
    spill_quota: Size = 1 << 30


class Approvals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether commands that must be asked about are asked about, refused, or let through."""

    mode: Literal["ask", "strict", "off"] = "ask"


class Local(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the local backend. ``python``: the interpreter that runs the guest, None for our own."""

    python: str | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settled configuration.

    ``timeout`` is in seconds, None for no limit. ``foreign`` lists the keys of config.yaml that belong to
    another program and were left alone.
    """

    sandbox: str | None = None
    workspace: str | None = None
    timeout: Duration | None = None
    lifetime: Lifetime = msgspec.field(default_factory=Lifetime)
    output: Output = msgspec.field(default_factory=Output)
    approvals: Approvals = msgspec.field(default_factory=Approvals)
    local: Local = msgspec.field(default_factory=Local)
    foreign: tuple[str, ...] = ()
