"""What kind of place a path is: the classes that the policy decides by.

Paths are judged as text. Only a judge for this very machine looks at the disk, for symbolic links.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from hermes._lazy import Lazy

from ._globs import meets
from ._marks import DECODED, GLOBS, STAR, UNKNOWN, globbed, marked, names, plain, unknown

# Directories that belong to the system as a whole: nobody deletes one of these in earnest.
TOP = names(
    "/bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /opt /proc "
    "/root /run /sbin /srv /sys /usr /var /usr/bin /usr/lib "
    "/usr/lib64 /usr/local /usr/sbin /usr/share /usr/local/bin "
    "/usr/local/lib /var/lib /var/log /usr/include /nix /nix/store "
    "/lost+found /System /Library /Applications /Users /Volumes "
    "/private /private/etc /private/var /cores /efi /boot/efi /snap"
)
_ALL = Lazy(r"(?:[?.]|\[[^]]*\])*\*(?:[*?.]|\[[^]]*\])*")
_BLOCK_DEVICE = Lazy(
    r"/dev/(?:[shv]d[a-z\U0010ff10-\U0010ff12]|xvd|nvme|mmcblk|md\d|md/|dm-|mapper/|r?disk|loop\d|"
    r"nbd|disk/|zd\d|sr\d|cciss/|bcache|mtd|ubi|pmem|zvol/|ada\d|da\d)"
)
_HARMLESS_DEVICE = Lazy(
    r"/dev/(?:null|zero|full|stdin|stdout|stderr|tty\w*|fd(?:/.*)?|"
    r"shm(?:/.*)?|u?random|ptmx|pts/\d+|console|tcp/.*|udp/.*)"
)
_PROC = Lazy(r"/proc/(?:self|thread-self|\d+)/(root|cwd)(?=/|\Z)")
_ANY_HOME = Lazy(
    r"/home/[^/]+|/Users/[^/]+|/root(?=/|\Z)|"
    r"(?<![^/])[^/\U0010ff00-\U0010ff0f]*[\U0010ff00-\U0010ff0f][^/]*(?=/)"
)
_BEGIN = frozenset(("/", "~"))
_HOME_OF = Lazy(r"/home/[^/]+|/Users/[^/]+|/root")
# What is plain before the first and after the last sign of a pattern.
_ENDS = Lazy(r"([^*?\[]*)[*?\[](?:.*[*?\]])?([^*?\]]*)", re.DOTALL)
# How many paths are remembered with their classes, and of which length the directories.
MAX_KNOWN = 20_000
MAX_KEPT = 120


def normal(path: str, cwd: str, links: Mapping[str, str], home: str) -> str:
    """Return a path absolute and without ``.`` and ``..``, with the links that were made in the session
    followed.

    The home directory is ``~``. What is unknown stays in it as a mark.
    """
    if len(path) > 4096:
        return UNKNOWN  # no system opens it
    if path[-1:] == DECODED:
        path = path.removesuffix("\n" + DECODED) or DECODED  # all of it is known
    if path[:1] not in _BEGIN:
        path = f"{cwd}/{path}"
    if (
        links
        or "/." in path
        or "//" in path
        or path[-1] == "/"
        or (path[0] != "/" and not path.startswith("~/"))
    ):
        path = _stepped(path, links)
    return path if path[0] == "~" else _placed(path, cwd, home)


def _stepped(path: str, links: Mapping[str, str]) -> str:
    """Follow a path part by part."""
    out: list[str] = []
    hops = 0
    parts = path.split("/")
    root = "~" if parts[0] == "~" else "/"
    index = 1 if parts[0] in ("", "~") else 0
    while index < len(parts):
        part = parts[index]
        index += 1
        if part in ("", "."):
            continue
        if part == "..":
            if out and not unknown(out[-1]):
                out.pop()
            elif not out and root == "~":
                root, out = "/", ["home"]
            continue
        out.append(part)
        if links:
            so_far = (root if root != "/" else "") + "/" + "/".join(out)
            target = links.get(so_far)
            if target is not None and hops < 20:
                hops += 1
                rest = parts[index:]
                parts, index = target.split("/") + rest, 1
                root, out = ("~" if target.startswith("~") else "/"), []
    joined = "/".join(out)
    return f"~/{joined}" if root == "~" and joined else "~" if root == "~" else f"/{joined}"


def _placed(result: str, cwd: str, home: str) -> str:
    """Return a path with the home directory as ``~``, and other names of a place as the usual one."""
    if result.startswith(home) and home[:1] == "/" != home and result[len(home) :][:1] in ("", "/"):
        result = "~" + result[len(home) :]
    if result[:2] != "/p":
        return result
    if result.startswith("/proc/") and (seen := _PROC.match(result)):
        below = result[seen.end() :]
        result = below or "/" if seen.group(1) == "root" else cwd + below
    if result.startswith("/private/") and re.match(r"/private/(?:etc|var|tmp|home)(?:/|$)", result):
        result = result[len("/private") :]
    return result


def on_disk(path: str, home: str) -> str:
    """Return where a path of this machine really leads. Looks at the disk."""
    if marked(path):
        return path
    real = os.path.realpath(home + path[1:] if path.startswith("~") else path)
    return "~" + real[len(home) :] if real == home or real.startswith(home + "/") else real


class Classes:
    """The classes of paths, from the tables of the rules file."""

    def __init__(self, tables: Mapping[str, Iterable[str]]) -> None:
        # Most patterns are plain: they are looked up, and only the others are matched.
        self._order = {name: number for number, name in enumerate(tables)}
        self._exact: dict[str, list[str]] = {}
        self._below: dict[str, list[str]] = {}  # `x/**`
        self._ending: dict[str, list[str]] = {}  # `**/x`
        self._inside: dict[str, list[str]] = {}  # `**/x/**`
        self._patterns = _Patterns()
        self._names = _Patterns()  # `**/*x`: the last part alone decides
        for name, patterns in tables.items():
            self._index(name, patterns)
        self._seconds = {one.rpartition("/")[2] for one in (*self._inside, *self._ending) if "/" in one}
        self._tables = tables
        # Directories in which some name is a class of its own.
        self._holding = {one.rpartition("/")[0] for one in (*self._exact, *TOP, "/home/x", "/Users/x")}
        self._common: dict[str, tuple[str, ...] | None] = {}
        self._cache: dict[str, tuple[str, ...]] = {}
        self._directories: dict[str, tuple[str, frozenset[str]]] = {}

    @cached_property
    def _known(self) -> Known:
        """What a pattern in a command is compared with."""
        known = Known()
        for name, patterns in self._tables.items():
            for one in patterns:
                if not one.startswith("**/"):
                    known.add(name, one)
        for one in TOP:
            known.add("top", one)
        return known

    def _index(self, name: str, patterns: Iterable[str]) -> None:
        others: list[str] = []
        names: list[str] = []
        for one in patterns:
            body = one.removeprefix("**/").removesuffix("/**")
            start, end = one.startswith("**/"), one.endswith("/**")
            if "*" in body or (body.count("/") > 1 and start):
                if start and not end and "/" not in body:
                    names.append(body)
                else:
                    others.append(one)
                continue
            table = (
                self._inside
                if start and end
                else self._ending
                if start
                else self._below
                if end
                else self._exact
            )
            table.setdefault(body, []).append(name)
        self._patterns.add(name, others)
        self._names.add(name, names)

    def _looked_up(self, path: str) -> set[str]:
        """Return the classes of a path without active globs."""
        directory, _, name = path.rpartition("/")
        homely, inside = self._directories.get(directory) or self._within(directory)
        found = set(inside)
        found.update(self._exact.get(path, ()))
        if directory in ("/home", "/Users") or path == "/root":
            found.update(self._exact.get("~", ()))
        elif homely != directory:
            found.update(self._exact.get(f"{homely}/{name}", ()))
        found.update(self._ending.get(name, ()))
        if name in self._seconds:
            found.update(self._ending.get(f"{directory.rpartition('/')[2]}/{name}", ()))
        self._names.find(name, found)
        self._patterns.find(path, found)
        return found

    def _within(self, directory: str) -> tuple[str, frozenset[str]]:
        """Return a directory with its home written as ``~``, and the classes of all that is below it.

        Begins at the closest directory above it that was looked at before.
        """
        at, known = len(directory), None
        while at > 0 and (known := self._directories.get(directory[:at])) is None:
            at = directory.rfind("/", 0, at)
        homely, found = known or ("", frozenset())
        part = directory[:at].rpartition("/")[2]
        while at < len(directory):
            above, before, start = directory[: max(at, 0)], part, at + 1
            at = directory.find("/", start)
            at = len(directory) if at < 0 else at
            whole, part = directory[:at], directory[start:at]
            if homely != above:
                homely = f"{homely}/{part}"
            elif part.isascii() and part != "root" and before not in ("home", "Users"):
                homely = whole
            else:
                homely = _ANY_HOME.sub("~", whole + "/", count=1)[:-1]
            more = [*self._below.get(whole, ()), *self._inside.get(part, ())]
            if homely != whole:
                more += self._below.get(homely, ())
            if part in self._seconds:
                more += self._inside.get(f"{before}/{part}", ())
            found = found.union(more) if more else found
            if at <= MAX_KEPT:
                if len(self._directories) >= MAX_KNOWN:
                    self._directories.clear()
                self._directories[whole] = homely, found
        return homely, found

    def of(self, path: str) -> tuple[str, ...]:
        """Return the classes of a path that ``normal`` made, the most serious one first."""
        found = self._cache.get(path)
        if found is None:
            if len(self._cache) >= MAX_KNOWN:
                self._cache.clear()
            found = self._plainly(path)
            if found is None:
                found = self._of(path)
            self._cache[path] = found
        return found

    def _plainly(self, path: str) -> tuple[str, ...] | None:
        """Return the classes of a path that has those of its directory, as most have; None of any other."""
        directory, _, name = path.rpartition("/")
        common = self._common.get(directory, ())
        if common is None or not path.isascii() or name in self._ending or name in self._seconds:
            return None
        if self._names.may(name) or self._patterns.may(path):
            return None
        if directory in self._common:
            return common
        homely, inside = self._directories.get(directory) or self._within(directory)
        own = directory in self._holding or homely in self._holding or path.startswith("/dev/")
        found = None if own else tuple(sorted(inside, key=self._order.__getitem__))
        if len(directory) <= MAX_KEPT:
            if len(self._common) >= MAX_KNOWN:
                self._common.clear()
            self._common[directory] = found
        return found

    def _of(self, path: str) -> tuple[str, ...]:
        found: list[str] = []
        trimmed = path if path.isascii() else strip_all(path)
        if trimmed == "/":
            found.append("root")
        elif trimmed in ("~", "/home") or (
            trimmed.startswith(("/home/", "/Users/", "/root")) and _HOME_OF.fullmatch(trimmed)
        ):
            found.append("home-itself")
        elif trimmed in TOP:
            found.append("top")
        if path.startswith("/dev/"):
            if _BLOCK_DEVICE.match(path):
                found.append("device")
            elif not _HARMLESS_DEVICE.fullmatch(path):
                found.append("special")
        if globbed(path):
            found += self._globbed(path)
        others = self._looked_up(plain(path)).difference(found)
        if others:
            found += sorted(others, key=self._order.__getitem__)
        return tuple(found)

    def _globbed(self, path: str) -> list[str]:
        """Return the classes of what a pattern may stand for."""
        found = self._known.met([plain(one) for one in path.split("/")])
        return sorted(found, key=lambda name: self._order.get(name, len(self._order)))


class Known:
    """Parts of paths that are known, each below the one before it, with the classes of what ends there."""

    __slots__ = ("_below", "_globs", "_here", "_names")

    def __init__(self) -> None:
        self._below: dict[str, Known] = {}
        self._globs: list[str] = []
        self._names: list[str] = []  # those that are no patterns, in order
        self._here: list[str] = []

    def add(self, name: str, path: str) -> None:
        """Add a path of a class, of which any part may be a pattern."""
        at = self
        for part in path.split("/"):
            if part not in at._below:
                at._below[part] = Known()
                if "*" in part:
                    at._globs.append(part)
                else:
                    insort(at._names, part)
            at = at._below[part]
        at._here.append(name)

    def met(self, parts: list[str]) -> set[str]:
        """Return the classes of what a path may mean of which any part may be a pattern."""
        found: set[str] = set()
        reached = [self]
        for part in parts:
            below: list[Known] = []
            for one in reached:
                for name in one._fitting(part):
                    if name == "**":
                        found.update(one._below[name]._here)
                    below.append(one._below[name])
            reached = below
        for one in reached:
            found.update(one._here)
        return found

    def _fitting(self, part: str) -> list[str]:
        """Return the names here that a part can mean."""
        found = [one for one in self._globs if _meet(part, one)]
        ends = _ENDS.fullmatch(part)
        if ends is None:
            if part in self._below:
                found.append(part)
            return found
        head, tail = ends.groups()
        names = self._names[bisect_left(self._names, head) :] if head else self._names
        for one in names:
            if not one.startswith(head):
                break
            if one.endswith(tail) and _meet(part, one):
                found.append(one)
        return found


class _Patterns:
    """Patterns of some classes. That none fits, as mostly, is told by one look for what is plain in them."""

    def __init__(self) -> None:
        self._each: list[tuple[str, Lazy[str]]] = []
        self._plain: set[str] = set()
        self._any: re.Pattern[str] | None = None

    def add(self, name: str, patterns: list[str]) -> None:
        if not patterns:
            return
        self._each.append((name, Lazy("|".join(map(_regex, patterns)), re.DOTALL)))
        self._plain |= {max(one.removeprefix("~").split("*"), key=len) for one in patterns}
        self._any = None

    def may(self, text: str) -> bool:
        """Say whether one of them may fit a text."""
        if self._any is None:
            self._any = re.compile("|".join(map(re.escape, sorted(self._plain))) or "(?!)")
        return self._any.search(text) is not None

    def find(self, text: str, found: set[str]) -> None:
        """Add the classes of a text to those that were found."""
        if self.may(text):
            found.update(name for name, pattern in self._each if pattern.fullmatch(text))


class Homed:
    """The classes of paths where hermes's own directory is not where it usually is.

    :param workspace: what lies below it and is none of the agent's files, empty for nothing
    """

    def __init__(self, classes: Classes, agent_home: str, workspace: str) -> None:
        self._classes = classes
        self._home = agent_home
        self._workspace = workspace

    def of(self, path: str) -> tuple[str, ...]:
        """Return the classes of a path, as if that directory were the usual one."""
        found = self._classes.of(path)
        if path != self._home and not path.startswith(self._home + "/"):
            return found
        if self._workspace and (path + "/").startswith(self._workspace):
            return found
        usual = self._classes.of("~/.hermes" + path[len(self._home) :])
        return tuple(dict.fromkeys((*usual, *found)))


def _meet(one: str, other: str) -> bool:
    """Say whether two patterns of a part of a path can mean the same name."""
    if one == other or other in ("*", "**"):
        return True
    one_globs, other_globs = any(sign in one for sign in "*?["), "*" in other
    if one_globs and other_globs:
        first, second = re.split(r"[*?[]", one)[0], other.split("*")[0]
        return first.startswith(second) or second.startswith(first)
    if one_globs:
        return meets(other, one) and not (other.startswith(".") and one[0] in "*?")
    return other_globs and meets(one, other)


_OF_SYSTEM = Lazy(
    r"(?:/usr(?:/.*)?|/s?bin|/lib(?:32|64)?(?:/.*)?|/run/(?:current-system|wrappers)/.*|/snap/bin|/nix/.*|/gnu/.*|"
    r"/opt/(?:homebrew|local|bin|sbin)(?:/.*)?|/home/linuxbrew/.*|/System/.*|/Library/.*|/Windows/.*|/c/Windows/.*)",
    re.DOTALL,
)
_HOLD_SYSTEM = names("/ /run /snap /opt /home /home/linuxbrew /System /Library /c")


def of_system(path: str) -> bool:
    """Say whether a program may be one of the system by its path, which ``normal`` made."""
    directory = path.rpartition("/")[0]
    if globbed(directory):
        known = re.split(f"[{''.join(GLOBS)}]", directory)[0].rpartition("/")[0]
        return unknown(known) or (known or "/") in _HOLD_SYSTEM or _OF_SYSTEM.fullmatch(known) is not None
    return unknown(path) or _OF_SYSTEM.fullmatch(directory) is not None


def strip_all(path: str) -> str:
    """Return the directory that a path ending in patterns for everything empties, else the path."""
    while True:
        head, slash, tail = path.rpartition("/")
        if not slash or not tail:
            return path
        if not globbed(tail) or not _ALL.fullmatch(plain(tail)):
            return path
        path = head or "/"


_SECRETS = frozenset(("secret", "agent_secret"))


def among(classes: Classes | Homed, path: str, found: tuple[str, ...]) -> tuple[str, ...]:
    """Add what a file is by its directory alone, where its name is not known: one of many credentials."""
    parts = path.split("/")
    known = next(index for index, part in enumerate(parts) if unknown(part))
    if known < 2:
        return found
    return (*found, *(_SECRETS.intersection(classes.of("/".join(parts[:known]))) - set(found)))


_EVERYTHING = Lazy(r"/|~|/(?:home|root|Users)(?:/[\w.-]+)?|/(?:etc|usr|var|bin|sbin|lib|lib64|boot|opt|srv)")


def everything(path: str) -> bool:
    """Say whether a directory is the root, a home, or one of the system."""
    return _EVERYTHING.fullmatch(path) is not None


def is_home(path: str) -> bool:
    """Say whether a path is somebody's home directory."""
    return path == "~" or _HOME_OF.fullmatch(path) is not None


def whole(path: str) -> bool:
    """Say whether the last part of a path is a pattern for everything in its directory."""
    tail = path.rpartition("/")[2]
    return STAR in tail and _ALL.fullmatch(plain(tail)) is not None


def _regex(pattern: str) -> str:
    """Return a regular expression for one pattern: ``*`` stays in its part, ``**`` does not."""
    out = ""
    if pattern.startswith("~/"):
        out = r"(?:~|/home/[^/]+|/Users/[^/]+|/root|"
        out += r"[^/\U0010ff00-\U0010ff0a]*[\U0010ff00-\U0010ff0a][^/]*(?:/.*)?)/"
        pattern = pattern[2:]
    elif pattern.startswith("**/"):
        out = r"(?:.*/)?"
        pattern = pattern[3:]
    for piece in re.split(r"(\*\*|\*)", pattern):
        out += ".*" if piece == "**" else "[^/]*" if piece == "*" else re.escape(piece)
    return f"(?:{out})"


def tables(raw: Any) -> dict[str, list[str]]:
    """Return the path tables of the rules file, each a list of patterns."""
    return {str(name): [str(one) for one in patterns] for name, patterns in raw.items()}
