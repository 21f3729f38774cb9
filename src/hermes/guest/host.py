"""A guest on another machine, which is no container: its directories there, and what is left of others."""

import json
import os
import shutil
import signal
import socket
import struct
import sys
import time
from typing import Any, Dict, List, Optional

from .dirs import LABEL, SOCKET, is_private, own_dirs, private_dir, run_dirs
from .relay import boot_id, tell

END_SECONDS = 10.0


def settle(options: Dict[str, Any]) -> None:
    """Choose the guest's directories and where sessions begin, and fill them in.

    With ``attach_only`` nothing is made: the directories are those of the guest that runs.
    """
    ident = options["id"]
    served = [path for path in run_dirs(ident) if os.path.exists(os.path.join(path, SOCKET))]
    if options.get("attach_only") and not served:
        raise FileNotFoundError("no guest of this sandbox runs on %s" % socket.gethostname())
    options["fresh"] = not any(map(os.path.isdir, own_dirs(ident)))
    own = options["own"] = _first(own_dirs(ident), "files")
    options["run_dir"] = served[0] if served else _first(run_dirs(ident), "the guest's socket")
    options["state_dir"] = os.path.join(own, "spill")
    if options.get("private"):
        options["cwd"] = os.path.join(own, "work")
        private_dir(options["cwd"])
    else:
        wanted = options.get("workdir")
        where = os.path.join(os.path.expanduser("~"), os.path.expanduser(wanted or ""))
        options["cwd"] = os.path.normpath(where)
        if wanted and not os.path.isdir(options["cwd"]):
            raise NotADirectoryError("ssh.workdir is %s, which is no directory there" % options["cwd"])
        if not os.path.isdir(options["cwd"]):
            options["cwd"] = "/"
    with open(os.path.join(own, LABEL), "w") as file:
        json.dump(options.get("label") or {}, file)


def _first(paths: List[str], what: str) -> str:
    """Return the first directory that is there, else the first one that can be made and written to."""
    for path in paths:
        if os.path.isdir(path) and is_private(path) and os.access(path, os.W_OK):
            return path
    problems = []
    for path in paths:
        try:
            private_dir(os.path.dirname(path))
            private_dir(path)
            return path
        except OSError as error:
            problems.append("%s: %s" % (os.path.dirname(path), error.strerror or error))
    raise OSError("there is no directory for %s (%s)" % (what, "; ".join(problems)))


def leave(guest: Any) -> None:
    """Remove what an ending guest has here; files of the sandbox's own stay unless it was told otherwise."""
    own = os.path.dirname(guest.state_dir)
    forget(guest.state_dir)
    if guest.remove or not os.path.isdir(os.path.join(own, "work")):
        forget(own)
    forget(guest.run_dir)


# --- what is asked without a guest


def main(options: Dict[str, Any]) -> None:
    """Do one thing without starting a guest, and tell what came of it on one line."""
    try:
        tell(dict(TASKS[options["task"]](options), boot=boot_id()))
    except Exception as error:
        tell({"error": "%s: %s" % (type(error).__name__, error)})


def look(options: Dict[str, Any]) -> Dict[str, Any]:
    """Say whether a sandbox's guest runs, and whether it has files."""
    ident = options["id"]
    return {
        "others": sum(1 for label in labels() if label["runs"] and label["id"] != ident),
        "runs": any(_guest_pid(path) for path in run_dirs(ident)),
        "files": any(os.path.isdir(path) for path in own_dirs(ident)),
        "python": sys.version.split()[0],
        "system": " ".join(os.uname()[::2]),
    }


def remove(options: Dict[str, Any]) -> Dict[str, Any]:
    """End a sandbox and remove what it has here; with ``keep_files`` its own directory stays."""
    return {"left": _remove(options["id"], bool(options.get("keep_files")))}


def prune(options: Dict[str, Any]) -> Dict[str, Any]:
    """Remove the sandboxes of one owner that the owner does not know any more."""
    removed, left = [], []
    known, now = set(options["known"]), time.time()
    for label in labels():
        ident, age = label["id"], now - label["used"]
        if label.get("owner") != options["owner"] or ident in known:
            continue
        if age < options["grace"] or label.get("keep"):
            continue
        problems = _remove(ident, False)
        left += problems
        if not problems:
            removed.append({"id": ident, "name": label.get("name", ""), "age": age})
    return {"removed": removed, "left": left, "runs": sum(1 for label in labels() if label["runs"])}


TASKS = {"look": look, "remove": remove, "prune": prune}


def labels() -> List[Dict[str, Any]]:
    """Return what each sandbox of this user on this machine says of itself, whoever owns it."""
    found = []
    for base in {os.path.dirname(path) for path in own_dirs("x")}:
        try:
            names = os.listdir(base)
        except OSError:
            continue
        for ident in names:
            path = os.path.join(base, ident, LABEL)
            try:
                if not is_private(os.path.dirname(path)):
                    continue
                with open(path) as file:
                    label = json.load(file)
                used = os.stat(path).st_mtime
            except (OSError, ValueError):
                continue
            if isinstance(label, dict):
                runs = any(_guest_pid(run_dir) for run_dir in run_dirs(ident))
                found.append(dict(label, id=ident, used=used, runs=runs))
    return found


def _remove(ident: str, keep_files: bool) -> List[str]:
    """End a guest and remove its directories; return those that are left."""
    for run_dir in run_dirs(ident):
        pid = _guest_pid(run_dir)
        if pid is None:
            continue
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        while _guest_pid(run_dir) == pid:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)  # its nannies kill what ran under it
                break
            time.sleep(0.005)
    paths = run_dirs(ident) + [
        os.path.join(path, "spill") if keep_files else path for path in own_dirs(ident)
    ]
    return [path for path in paths if not forget(path)]


def forget(path: str) -> bool:
    """Remove a directory, and the one above when it was the last there; False when it is still there."""
    try:
        if os.path.lexists(path) and is_private(path):
            shutil.rmtree(path, onerror=_unlock)
    except OSError:
        pass
    try:
        os.rmdir(os.path.dirname(path))
    except OSError:
        pass
    return not os.path.lexists(path) or not is_private(path)


def _unlock(function: Any, path: str, _: Any) -> None:
    # A directory without write permission, as package managers make them, keeps its entries.
    try:
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
        function(path)
    except OSError:
        pass


def _guest_pid(run_dir: str) -> Optional[int]:
    """Return the pid of the guest that serves a socket of ours, None when none does."""
    path = os.path.join(run_dir, SOCKET)
    try:
        if not is_private(run_dir):
            return None
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5.0)
            client.connect(path)
            return int(struct.unpack("iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
    except (OSError, AttributeError):
        return None
