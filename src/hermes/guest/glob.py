"""Paths by pattern, in one pass over the directories; a wildcard does not follow symbolic links."""

import fnmatch
import json
import os
import re
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Optional, Tuple

from .files import Answer, bytes_of, file_op, resolve, text_of

MAGIC = re.compile(r"[*?\[]")


@file_op("file.glob")
def file_glob(guest: Any, call: Any) -> None:
    """Answer with one JSON string for each path, sorted; *truncated* when there are more than *limit*."""
    pattern = text_of(bytes_of(call.args["pattern"]))
    root = resolve(guest, call.args["path"])
    os.stat(root)
    info: Dict[str, Any] = {"truncated": False}
    Answer(guest, call, _lines(root, pattern, call.args.get("limit") or 100000, info), info)


def _lines(root: bytes, pattern: str, limit: int, info: Dict[str, Any]) -> Iterator[bytes]:
    found: List[str] = []
    for path in _walk(root, pattern):
        if path is None:
            yield b""
        elif len(found) == limit:
            info["truncated"] = True
            break
        else:
            found.append(path)
    found.sort()
    for at in range(0, len(found), 500):
        yield "".join(json.dumps(path) + "\n" for path in found[at : at + 500]).encode("ascii")


def _walk(root: bytes, pattern: str) -> Iterator[Optional[str]]:
    """Yield the paths that match, and None now and then."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    prefix = "/" if pattern.startswith("/") else ""
    while parts and not MAGIC.search(parts[0]):
        prefix += parts.pop(0) + ("/" if parts else "")
    only_folders = pattern.endswith("/")
    if not parts:
        path = os.path.join(root, prefix.encode("utf-8", "surrogateescape"))
        if os.path.isdir(path) if only_folders else os.path.lexists(path):
            yield prefix or "."
        return
    tests = [_test(part) for part in parts]
    end = len(parts)

    def reach(states: Iterable[int]) -> FrozenSet[int]:
        """Return the states, and those behind a ** that stands for nothing."""
        found = set()
        for state in states:
            found.add(state)
            while state < end and tests[state] is None:
                state += 1
                found.add(state)
        return frozenset(found)

    # A directory is read once, with every position in the pattern that its own path can have reached.
    todo: List[Tuple[str, FrozenSet[int]]] = [(prefix, reach([0]))]
    seen = 0
    while todo:
        folder, states = todo.pop()
        try:
            entries = os.scandir(os.path.join(root, folder.encode("utf-8", "surrogateescape")))
        except OSError:
            continue
        with entries:
            for entry in entries:
                seen += 1
                if not seen % 200:
                    yield None
                name = text_of(entry.name)
                swallowed = [at for at in states if at < end and tests[at] is None and name[0] != "."]
                passed = [at + 1 for at in states if at < end and (tests[at] or _never)(name)]
                after = reach(swallowed + passed)
                if not after:
                    continue
                is_folder = _is_folder(entry)
                if end in after and (is_folder or not only_folders):
                    yield folder + name
                if is_folder:
                    if entry.is_symlink():
                        after = reach(at for at in passed if not MAGIC.search(parts[at - 1]))
                    if after - {end}:
                        todo.append((folder + name + "/", after))


def _test(part: str) -> Optional[Callable[[str], bool]]:
    if part == "**":
        return None
    try:
        match, hidden = re.compile(fnmatch.translate(part)).match, part.startswith(".")
    except re.error:  # such as a range from z to a, before Python 3.9
        return _never
    return lambda name: (hidden or name[0] != ".") and match(name) is not None


def _never(_: str) -> bool:
    return False


def _is_folder(entry: Any) -> bool:
    try:
        return bool(entry.is_dir())
    except OSError:
        return False
