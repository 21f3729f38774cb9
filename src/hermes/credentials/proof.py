"""Proving from inside what a sandbox has of the declared credentials, and that it has nothing else."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
from typing import TYPE_CHECKING, NamedTuple

from hermes.backends.local import INHERITED

from .supply import VARIABLE

if TYPE_CHECKING:
    from hermes.sandbox import Sandbox

__all__ = ["Finding", "prove"]

# What every place has of its own, and may have with the same value as here.
_COMMON = frozenset((*INHERITED, "PWD", "SHLVL", "_", "HOSTNAME"))


class Finding(NamedTuple):
    """One thing that was looked at inside."""

    name: str
    good: bool
    what: str


async def prove(box: Sandbox) -> list[Finding]:
    """Look from inside, by a command as any other. Values are compared by salted hashes.

    :raises HermesError: no command can be run there
    """
    supply = box._supply
    assert supply is not None
    salt = secrets.token_hex(16)
    content = supply.content
    names, files = list(content.env), list(content.files)
    script = [f'printf %s {salt}"${{{name}-}}" | sha256sum' for name in names]
    for name in files:
        path = f'"${VARIABLE}"/{shlex.quote(name)}'
        script.append(f"(printf %s {salt}; cat {path}) 2>/dev/null | sha256sum")
    if files:
        script.append(f'stat -c %a "${VARIABLE}"; stat -f -c %T "${VARIABLE}"')
    told = (await box.exec("\n".join(script))).text.splitlines() if script else []
    found = []
    values = [*(value.encode("utf-8", "surrogateescape") for value in content.env.values())]
    values += [piece.data for piece in content.files.values()]
    for index, (name, value) in enumerate(zip([*names, *files], values, strict=True)):
        digest = hashlib.sha256(salt.encode() + value).hexdigest()
        there = index < len(told) and told[index].split(" ")[0] == digest
        kind = "variable" if index < len(names) else f"file, by {supply.way}"
        found.append(Finding(name, there, f"{kind}: {'there, and as it is here' if there else 'not there'}"))
    rest = told[len(values) :]
    if files:
        mode, system = [*rest, "?", "?"][:2]
        memory = (
            "in memory"
            if system in ("tmpfs", "ramfs")
            else f"on a disk ({system}), of which copies may be kept"
        )
        good = mode in ("700", "500")
        found.append(Finding(VARIABLE, good, f"the directory has mode {mode}, and is {memory}"))
    return [*found, *await _inherited(box, names)]


async def _inherited(box: Sandbox, declared: list[str]) -> list[Finding]:
    """Return what is in the environment there with the value that it has here, and nobody declared."""
    inside = dict(
        pair.partition(b"=")[::2] for pair in (await box.exec("env -0")).stdout.split(b"\0") if b"=" in pair
    )
    same = sorted(
        os.fsdecode(name)
        for name, value in os.environb.items()
        if inside.get(name) == value and len(value) >= 4 and os.fsdecode(name) not in {*_COMMON, *declared}
    )
    same = [name for name in same if not name.startswith("LC_")]
    if not same:
        return [Finding("environment", True, "nothing else of this machine's is there")]
    return [Finding(name, False, "not declared, and has the value inside that it has here") for name in same]
