"""What ``hermes doctor`` looks at apart from the places: this machine, this user, hermes's own files."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import re
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from hermes.config import home
from hermes.config._load import sources
from hermes.errors import HermesError
from hermes.state import Store, owner_state

from ._text import plural

Level = Literal["ok", "note", "warning", "error"]

OLDEST_KERNEL = (4, 18)
SYSCTL = Path("/proc/sys")
LEAST_SPACE = 1 << 30
OF_ONE = re.compile(r"[a-z]+-([0-9a-f]{8,32})")
"""The name of a directory that belongs to one sandbox."""

SKEW = 5.0  # seconds


class Check(msgspec.Struct, kw_only=True):
    """One thing that was looked at. ``remedy`` is a command to paste, where there is one."""

    name: str
    level: Level
    message: str
    remedy: str = ""


def checks() -> list[Check]:
    """Look at everything, and start nothing. Blocks."""
    found: list[Check] = []
    for look in (
        _configuration,
        _permissions,
        _user,
        _undeclared,
        _kernel,
        _namespaces,
        _clock,
        _home,
        _space,
        _leftovers,
        _others,
    ):
        try:
            found += look()
        except (HermesError, OSError) as error:
            message = error.message if isinstance(error, HermesError) else str(error)
            found.append(Check(name=look.__name__.strip("_"), level="warning", message=message))
    return found


def _undeclared() -> Iterator[Check]:
    from hermes.config import load
    from hermes.credentials._declared import undeclared

    for name in undeclared(load().credentials):
        yield Check(
            name="credentials",
            level="note",
            message=f"{name} in hermes's home looks like a credential, and is not declared",
        )


def _configuration() -> Iterator[Check]:
    try:
        found = sources()
    except HermesError as error:
        yield Check(name="configuration", level="error", message=error.message, remedy="hermes config check")
        return
    path = home() / "config.yaml"
    said = f"{path} is right" if path.exists() else f"there is no {path}, and none is needed"
    yield Check(name="configuration", level="ok", message=said)
    theirs = [name for name in ("TERMINAL_ENV", "TERMINAL_BACKEND") if os.environ.get(name)]
    if theirs:
        yield Check(
            name="configuration",
            level="note",
            message=f"{theirs[0]} is hermes-agent's and does nothing here: HERMES_SANDBOX does, or sandbox",
            remedy="hermes config migrate",
        )
    if found.foreign:
        keys = ", ".join(found.foreign)
        yield Check(
            name="configuration",
            level="note",
            message=f"keys of hermes-agent, which do nothing here: {keys}",
            remedy="hermes config migrate",
        )


def _permissions() -> Iterator[Check]:
    wrong = False
    for path, widest, why in (
        (home(), 0o700, "others can look at what hermes keeps there"),
        (home() / "state", 0o700, "others can see which sandboxes there are"),
        (home() / ".env", 0o600, "others can read the secrets in it"),
    ):
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue
        mode = stat.S_IMODE(facts.st_mode)
        if facts.st_uid != os.geteuid():
            wrong = True
            yield Check(
                name="permissions",
                level="error",
                message=f"{path} belongs to user {facts.st_uid}, not to you",
                remedy=f"sudo chown -R {os.geteuid()} {path}",
            )
        elif mode & ~widest & 0o077:
            wrong = True
            level: Level = "error" if path.name == ".env" or mode & 0o022 else "warning"
            yield Check(
                name="permissions",
                level=level,
                message=f"{path} has mode {mode:o}: {why}",
                remedy=f"chmod {widest:o} {path}",
            )
    if not wrong:
        yield Check(name="permissions", level="ok", message=f"nobody else can look into {home()}")


def _user() -> Iterator[Check]:
    if os.geteuid() == 0:
        yield Check(
            name="user",
            level="warning",
            message="hermes runs as root: what gets out of a sandbox, or runs on local, is root",
            remedy="su - USER -c hermes   # as an ordinary user",
        )
        return
    name = pwd.getpwuid(os.geteuid()).pw_name
    try:
        docker = grp.getgrnam("docker").gr_gid in os.getgroups()
    except KeyError:
        docker = False
    if docker:
        yield Check(
            name="user",
            level="warning",
            message="you are in the group docker, which is as good as being root on this machine",
            remedy=f"sudo gpasswd -d {name} docker   # and use rootless docker, or podman",
        )
    else:
        yield Check(name="user", level="ok", message=f"an ordinary user, {name}")


def _kernel() -> Iterator[Check]:
    release = os.uname().release
    found = re.match(r"(\d+)\.(\d+)", release)
    if sys.platform != "linux":
        yield Check(
            name="kernel",
            level="warning",
            message=f"{sys.platform} is unverified; everything is proved on Linux",
        )
    elif found and (int(found[1]), int(found[2])) < OLDEST_KERNEL:
        yield Check(
            name="kernel",
            level="warning",
            message=f"Linux {release} is older than {OLDEST_KERNEL[0]}.{OLDEST_KERNEL[1]}, and not tested",
            remedy="uname -r   # update the system",
        )
    else:
        yield Check(name="kernel", level="ok", message=f"Linux {release}")


def _namespaces() -> Iterator[Check]:
    for name, bad, remedy in (
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ):
        try:
            value = (SYSCTL / name).read_text("ascii").strip()
        except OSError:
            continue
        if value == bad:
            yield Check(
                name="namespaces",
                level="note" if os.geteuid() == 0 else "warning",
                message="ordinary users get no user namespaces, which rootless podman and apptainer need",
                remedy=f"sudo sysctl -w {remedy}",
            )
            return
    yield Check(name="namespaces", level="ok", message="user namespaces can be had")


def _clock() -> Iterator[Check]:
    now = time.time()
    newest = max(Path(__file__).stat().st_mtime, *_kept(home() / "state"))
    if newest > now + SKEW:
        yield Check(
            name="clock",
            level="warning",
            message=f"the clock is behind: a file of hermes's is {newest - now:.0f} s newer than now",
            remedy="timedatectl status",
        )
    else:
        yield Check(name="clock", level="ok", message="the clock does not run behind hermes's own files")


def _kept(state: Path) -> Iterator[float]:
    """Yield when each file there was changed, the first of all none."""
    yield 0.0
    if state.is_dir():
        for path in state.iterdir():
            with contextlib.suppress(FileNotFoundError):  # sqlite's own come and go
                if path.is_file():
                    yield path.stat().st_mtime


def _home() -> Iterator[Check]:
    path = _nearest(home())
    if not os.access(path, os.W_OK | os.X_OK):
        said = f"{path} cannot be written, so nothing can be kept in {home()}"
        yield Check(name="home", level="error", message=said, remedy="export HERMES_HOME=DIRECTORY")


def _nearest(path: Path) -> Path:
    """Return the path, or the closest one above it that there is."""
    while not path.exists():
        path = path.parent
    return path


def _space() -> Iterator[Check]:
    path = _nearest(home())
    free = shutil.disk_usage(path).free
    level: Level = "ok" if free >= LEAST_SPACE else "warning"
    yield Check(
        name="space",
        level=level,
        message=f"{free / (1 << 30):.1f} GiB are free at {path}",
        remedy="" if level == "ok" else "hermes sandbox prune",
    )


def _leftovers() -> Iterator[Check]:
    problems: list[str] = []
    try:
        records = Store().all(problems)
    except HermesError as error:
        said, file = f"{error.message}. {error.hint or ''}".strip(), home() / "state" / "state.db"
        path = shlex.quote(str(file))
        remedy = ""
        if "malformed" in error.message:
            remedy = f"sqlite3 {path} .recover"
        elif "not a database" in error.message:
            remedy = f"mv {path} {path}.broken"
        yield Check(name="state", level="error", message=said, remedy=remedy)
        return
    for problem in problems:
        yield Check(name="leftovers", level="warning", message=problem)
    dead = [one for one in records if not one.named and owner_state(one) == "dead"]
    known = {one.id for one in records}
    try:
        found = (OF_ONE.fullmatch(path.name) for path in (home() / "sandboxes").iterdir())
        lost = [one[0] for one in found if one is not None and one[1] not in known]
    except FileNotFoundError:
        lost = []
    ours = [name for name in lost if name.startswith("local-")]  # which no engine has to be asked about
    parts = [f"{plural(len(dead), 'sandbox', 'sandboxes')} whose hermes has died"] if dead else []
    if others := len(lost) - len(ours):
        parts.append(f"{plural(others, 'directory', 'directories')} that no sandbox has")
    if parts:
        said = " and ".join(parts)
        yield Check(name="leftovers", level="warning", message=said, remedy="hermes sandbox prune")
    if ours:
        paths = " ".join(shlex.quote(str(home() / "sandboxes" / name)) for name in ours)
        said = f"{plural(len(ours), 'directory', 'directories')} of local that no sandbox has"
        yield Check(name="leftovers", level="warning", message=said, remedy=f"rm -r {paths}")
    if not (dead or lost or problems):
        yield Check(name="leftovers", level="ok", message="nothing is left of dead sandboxes")


def _others() -> Iterator[Check]:
    """Notice another program of our name, which is hermes-agent most likely."""
    places = dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep))
    found = [path for place in places if place and os.access(path := os.path.join(place, "hermes"), os.X_OK)]
    theirs = [path for path in found if not _ours(path)]
    if theirs:
        yield Check(
            name="command",
            level="note",
            message=f"{theirs[0]} is another program of this name",
            remedy="hermes-places   # is always this one; HERMES_HOME keeps the files apart",
        )


def _ours(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"hermes.cli" in file.read(4096) or os.path.isdir(path)
    except OSError:
        return True
