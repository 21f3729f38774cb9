"""Podman's filter of system calls, without what it leaves to anyone for containers in containers.

Docker's own refuses these. With them what runs inside could read the keys that the kernel keeps for root here
(``keyctl``: keys belong to a user's number, not to a container), and become root of a namespace of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._engine import Facts

__all__ = ["narrowed", "profile_for"]

REFUSED = frozenset(
    {
        *("add_key", "keyctl", "request_key"),
        *("unshare", "setns", "mount", "umount", "umount2", "mount_setattr", "pivot_root", "chroot"),
        *("fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree"),
        *("process_vm_readv", "process_vm_writev"),
    }
)
NAMESPACES = 0x7E020000  # the flags of clone that make one


def narrowed(profile: dict[str, Any]) -> dict[str, Any]:
    """Return a profile that allows no more than this one, and nothing of the above."""
    kept = []
    for rule in profile["syscalls"]:
        if rule.get("action") == "SCMP_ACT_ALLOW":
            names = [name for name in rule["names"] if name not in REFUSED | {"clone", "clone3"}]
            if not names:
                continue
            rule = {**rule, "names": names}
        kept.append(rule)
    flags = {"index": 0, "value": NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    kept.append({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [flags]})
    # Its flags are in memory, where no filter looks; with this error libraries turn to clone.
    kept.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38})
    return {**profile, "syscalls": kept}


def profile_for(facts: Facts, args: Sequence[str]) -> str | None:
    """Return the text of the narrowed profile. Blocks.

    None where the engine's own is narrow enough or out of reach, or where the user chose another.
    """
    chosen = any("seccomp" in arg or arg == "--privileged" for arg in args)
    if chosen or not facts.podman or not facts.local or not facts.profile:
        return None
    try:
        return json.dumps(narrowed(json.loads(Path(facts.profile).read_text("utf-8"))))
    except OSError:
        return None
