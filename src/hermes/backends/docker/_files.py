"""The files of a sandbox: directories of this machine where the container can share them, else volumes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from hermes.channel.boot import as_file
from hermes.config import home, make_private
from hermes.credentials import stage
from hermes.errors import BackendError, HermesError, UnsupportedError
from hermes.guest.dirs import SOCKET, default_dir, private_dir

from .._connect import connect_guest
from .._workspace import give_own, make_own, remove_trees
from ..base import Spec
from ._container import BOOT, CREDENTIALS, HOME, RUN, WORKSPACE
from ._engine import Facts
from ._options import Mount
from ._plan import Plan
from ._seccomp import profile_for

__all__ = ["Files", "base_of"]


class Files:
    """Where workspace, home and the guest's socket of one sandbox are.

    They are directories of this machine when the engine sees those and the user inside is one that we can
    make files for; the guest's socket is then reached without any process in between. Making one blocks.
    ``mounts``: those of workspace, home and skills. ``volumes``: those that it takes; ``new_volumes``: those
    made for it now; ``owner``: of all of them. ``kept``: the directories were there before, with
    files of this sandbox. ``credentials``: what is shown as those, None where nothing can be shown.
    """

    def __init__(self, spec: Spec, plan: Plan, facts: Facts) -> None:
        self._spec = spec
        self._plan = plan
        self._facts = facts
        self._base = base_of(spec.id)
        self.host_uid = _uid_outside(plan, facts)
        self._shared = facts.local and not plan.remapped(facts) and self.host_uid is not None
        direct = self._shared and facts.plain(plan.options.runtime)
        self.host_run = default_dir(f"docker-{spec.id}") if direct else None
        self.credentials = stage.folder("docker", spec.id) if self._shared else None
        own = [("home", HOME)] if plan.here else [("workspace", WORKSPACE), ("home", HOME)]
        self._own = own
        self.mounts = self._mounts()
        self.volumes = [] if self._shared else [f"hermes-{spec.id}-{name}" for name, _ in own]
        self.new_volumes: list[str] = []
        self.owner = ""
        self.kept = False

    def make(self) -> None:
        """Make the directories on this machine. Those that are there are used. Blocks."""
        if not self._shared:
            return
        assert self.host_uid is not None
        gid = os.getegid() if self.host_uid == os.geteuid() else self.host_uid
        self.kept = self._base.exists()
        make_private(self._base)
        for name, _ in self._own:
            if self.kept and (self._base / name).is_dir():
                give_own(self._base / name, self.host_uid, gid)
            make_own(self._base / name, self.host_uid, gid)
        if self.credentials is not None:
            stage.make(self.credentials, self.host_uid, gid)
        if self.host_run is not None:
            self.make_run(self.host_run, self.host_uid, self._spec)

    @staticmethod
    def make_run(host_run: str, uid: int, spec: Spec) -> None:
        """Make the directory of the guest's socket, with the program that starts the guest. Blocks.

        One that is there is replaced: nothing that the sandbox may have put there is followed. No container
        of this sandbox may run.

        :raises BackendError: it cannot be made, or is not ours alone
        """
        path = Path(host_run)
        options = {
            "id": spec.id,
            "run_dir": f"{RUN}/guest",
            "state_dir": f"{HOME}/.local/state/hermes",
            "cwd": WORKSPACE,
            "relay": False,
            "limited": True,
        }
        try:
            private_dir(str(path.parent))
            remove_trees([path])
            path.mkdir(0o700)
            boot = path / os.path.basename(BOOT)
            boot.write_text(as_file(options))
            if uid != os.geteuid():
                for one in (boot, path):
                    os.chown(one, uid, uid)
        except OSError as error:
            raise BackendError(
                f"{path} cannot be made: {error.strerror or error}; nothing was started",
                hint="Remove it if it is not yours, or set XDG_RUNTIME_DIR to a directory of your own.",
            ) from error

    @property
    def kept_at(self) -> str | None:
        """The sandbox's directory on this machine, None where it has none."""
        return str(self._base) if self._shared else None

    def _mounts(self) -> list[Mount]:
        found = [] if self._plan.here is None else [Mount(self._plan.here, WORKSPACE)]
        for name, target in self._own:
            source = str(self._base / name) if self._shared else f"hermes-{self._spec.id}-{name}"
            found.append(Mount(source, target))
        if self.credentials is not None:
            found.append(Mount(self.credentials, CREDENTIALS, read_only=True))
        skills = home() / "skills"
        if self._plan.skills == "shared" and skills.is_dir():
            if not self._facts.local:
                raise UnsupportedError(
                    "skills: shared cannot be: the engine does not see this machine's files; "
                    "nothing was started",
                    hint="--set skills=copy",
                )
            found.append(Mount(str(skills), f"{HOME}/.hermes/skills", read_only=True))
        return found

    def run_mount(self) -> Mount | None:
        """Return the mount of the guest's socket directory, None when it stays inside."""
        return None if self.host_run is None else Mount(self.host_run, RUN)

    def filter(self) -> list[str]:
        """Return the arguments that name a filter of system calls other than the engine's. Blocks."""
        text = profile_for(self._facts, self._plan.args)
        if text is None:
            return []
        make_private(self._base)
        path = self._base / "seccomp.json"
        path.write_text(text)
        return ["--security-opt", f"seccomp={path}"]

    def keep_id(self) -> Sequence[str]:
        """Return the arguments that make this user's number the same inside a rootless podman."""
        facts, plan = self._facts, self._plan
        if facts.podman and facts.rootless and plan.user(facts) != "0:0":
            return ("--userns", "keep-id")
        return ()

    def wait_for_guest(self, limit: float) -> None:
        """Wait until the guest accepts connections, or has said that it cannot. Blocks."""
        assert self.host_run is not None and self.host_uid is not None
        deadline = time.monotonic() + limit
        failed = os.path.join(self.host_run, "no-guest")
        while time.monotonic() < deadline and not os.path.lexists(failed):
            try:
                connect_guest(os.path.join(self.host_run, "guest"), SOCKET, self.host_uid).close()
            except HermesError:
                time.sleep(0.002)
            else:
                return

    @staticmethod
    def remove(ident: str, host_run: str | None, keep_files: bool) -> list[str]:
        """Remove a sandbox's directories on this machine, and return what is left of them. Blocks.

        :param host_run: that of the guest's socket, as it was when the container was made
        """
        run = {host_run or "", default_dir(f"docker-{ident}"), stage.folder("docker", ident)} - {""}
        return remove_trees(run if keep_files else [*run, base_of(ident)])


def base_of(ident: str) -> Path:
    return home() / "sandboxes" / f"docker-{ident}"


def _uid_outside(plan: Plan, facts: Facts) -> int | None:
    """Return the number that the user inside has on this machine, None when we cannot make files for it."""
    if plan.user_name is not None:
        return None
    inside = int(plan.user(facts).partition(":")[0])
    ours = os.geteuid()
    if facts.rootless:
        same = inside == ours if facts.podman and inside else inside == 0
        return ours if same else None
    return inside if ours in (0, inside) else None
