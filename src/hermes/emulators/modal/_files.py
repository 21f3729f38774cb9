"""Runs inside an emulated sandbox, in the place of the program by which Modal's SDKs reach files.

It takes one operation as JSON. An error is JSON on stderr, with exit code 1. Watching is not there.
"""

import errno
import grp
import json
import os
import pwd
import shutil
import stat
import sys

KINDS = {
    errno.ENOENT: "NotFound",
    errno.EISDIR: "IsDirectory",
    errno.ENOTDIR: "NotDirectory",
    errno.EEXIST: "PathAlreadyExists",
    errno.ENOTEMPTY: "DirectoryNotEmpty",
    errno.EACCES: "PermissionDenied",
    errno.EPERM: "PermissionDenied",
}


def entry(path: str) -> dict[str, object]:
    """Return what is told of a file."""
    found = os.lstat(path)
    link = stat.S_ISLNK(found.st_mode)
    try:
        owner, group = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        owner, group = str(found.st_uid), str(found.st_gid)
    return {
        "name": os.path.basename(path.rstrip("/")) or "/",
        "path": path,
        "type": "symlink" if link else "directory" if stat.S_ISDIR(found.st_mode) else "file",
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "permissions": stat.filemode(found.st_mode)[1:],
        "owner": owner,
        "group": group,
        "modified_time": found.st_mtime,
        "symlink_target": os.readlink(path) if link else None,
    }


def do(name: str, path: str, wish: dict[str, object]) -> None:
    """Do one operation."""
    if name == "ReadFile":
        with open(path, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    elif name == "WriteFile":
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    elif name == "ListFiles":
        json.dump([entry(os.path.join(path, one)) for one in sorted(os.listdir(path))], sys.stdout)
    elif name == "Stat":
        json.dump(entry(path), sys.stdout)
    elif name == "MakeDirectory":
        if wish.get("parents"):
            os.makedirs(path, exist_ok=True)
        else:
            os.mkdir(path)
    elif name == "Remove":
        if not os.path.isdir(path) or os.path.islink(path):
            os.unlink(path)
        elif wish.get("recursive"):
            shutil.rmtree(path)
        else:
            os.rmdir(path)
    else:
        raise OSError(errno.ENOSYS, f"this emulator does not know {name}")


def main() -> int:
    """Do what the one argument says."""
    ((name, wish),) = json.loads(sys.argv[1]).items()
    try:
        do(name, wish["path"], wish)
    except OSError as error:
        kind = KINDS.get(error.errno or 0, "Other")
        json.dump({"error_kind": kind, "message": error.strerror, "detail": str(error)}, sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
