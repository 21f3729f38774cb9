"""Programs that read whole trees: what they take of a home, or of the system, has credentials in it.

A directory of credentials itself is asked about by its name (``Policy.reads``). This is about those above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hermes._lazy import Lazy

from . import _marks as marks
from . import _paths as paths
from ._call import Call
from ._effect import has, operands_of
from ._options import searched

if TYPE_CHECKING:
    from ._policy import Policy

_TAR = marks.names("tar bsdtar gtar")
_GREP = marks.names("grep egrep fgrep zgrep ugrep rg ag")
# They copy trees whatever their options are. Of those that name a target last, that is no source.
_ALWAYS = marks.names(
    "borg restic kopia duplicity duplicacy mksquashfs genisoimage mkisofs xorriso dar rdiff-backup tarsnap "
    "zpaq ditto unison"
)
_TARGET_LAST = marks.names("cp gcp rsync scp ditto unison")
_PRINTS = marks.names("cat bat nl tac head tail strings xxd od hexdump base64")
_NAMES_COME_IN = marks.names("cpio pax afio")
_VALUED = {
    **dict.fromkeys(_TAR, "-f --file -C --directory -X --exclude -T --files-from -I"),
    **dict.fromkeys(("cp", "gcp"), "-t --target-directory -S --suffix"),
    "rsync": "-e --rsh -f --filter --exclude --include --exclude-from --include-from --files-from -T -M -B",
    "scp": "-i -P -F -J -o -c -l -S",
    "zip": "-b -x -i -n -t",
}
# They show a directory to others, where these words say so.
_SERVES = {
    **dict.fromkeys(marks.names("dufs miniserve updog filebrowser goshs http-server serve live-server"), ""),
    **dict.fromkeys(marks.names("darkhttpd webfsd thttpd mini_httpd httpd"), ""),
    **dict.fromkeys(marks.names("python python3 pypy3"), "http.server"),
    "caddy": "file-server",
    "twistd": "web",
    "rclone": "serve",
    "php": "-S",
}
TAKES = (
    _SERVES.keys()
    | _TAR
    | _GREP
    | _ALWAYS
    | _TARGET_LAST
    | _PRINTS
    | _NAMES_COME_IN
    | marks.names("zip 7z 7za 7zz")
)
_TARGET = Lazy(r"-[a-zA-Z]*t\b|--target-d")
_ABOVE = marks.names("/ /home /Users")


def judge(policy: Policy, call: Call) -> None:
    """Judge the trees that a program takes, or prints from."""
    if call.place == "container":
        return
    words, base = call.argv[1:], call.cwd
    if call.name in _SERVES:
        if not _SERVES[call.name] or _SERVES[call.name] in words[:3]:
            values = [one.partition("=")[2] if one[:1] == "-" else one for one in words]
            places = [one for one in values if one[:1] in ("/", "~", ".")]
            _whole(policy, call, places or ["."], base, "serves")
    elif call.name in _GREP:
        if _only_names(call) or any(one.startswith(("--include", "-g", "--glob", "-t")) for one in words):
            return
        operands = [one for one in searched(words) if one[:1] != "-"]
        _found(policy, call, operands)
        if _hidden(call):
            _whole(policy, call, operands or ["."], base, "searches")
    elif call.name in _PRINTS:
        _found(policy, call, words)
    elif _recursive(call):
        _named(policy, call)
        operands = operands_of(call, _VALUED.get(call.name, "-r --repo -o --exclude -e"))
        if call.name in _TARGET_LAST and not any(map(_TARGET.match, words)):
            operands = operands[:-1]
        if call.name in _TAR:
            for index, word in enumerate(words):
                if word in ("-C", "--directory") and index + 1 < len(words):
                    base = policy.path(words[index + 1], call)
                elif word.startswith("--directory="):
                    base = policy.path(word.partition("=")[2], call)
            if base != call.cwd:
                policy.reads(msgspec.structs.replace(call, cwd=base), operands)
        _found(policy, call, operands)
        _whole(policy, call, operands, base, "takes")


def added(policy: Policy, call: Call, operands: list[str]) -> None:
    """Judge what git is told to keep."""
    everything = has(call, "A", "--all") or "." in operands
    if everything and policy.secret(call.cwd):
        where = marks.shown(call.cwd)
        policy.note("read-secret", f"adds the credentials of {where} to a repository", call.span)
    policy.reads(call, operands)
    _whole(policy, call, ["."] if everything else operands, call.cwd, "adds")


def _recursive(call: Call) -> bool:
    first = call.argv[1] if len(call.argv) > 1 else ""
    if call.name in _TAR:
        old = first[:1] != "-" and any(one in first for one in "cru")
        return old or has(call, "cru", "--create", "--append", "--update")
    if call.name in ("7z", "7za", "7zz"):
        return first in ("a", "u")
    if call.name in ("cp", "gcp", "rsync"):
        return has(call, "rRa", "--recursive", "--archive")
    if call.name in ("scp", "zip"):
        return has(call, "r", "--recurse-paths")
    return True


def _only_names(call: Call) -> bool:
    return has(call, "lLcq", "--files-with-matches", "--files-without-match", "--count", "--quiet")


def _hidden(call: Call) -> bool:
    """Say whether a search goes into all directories, those with a dot before their name too."""
    if call.name in ("rg", "ag"):
        return has(call, "u." if call.name == "rg" else "ua", "--hidden", "--unrestricted")
    return has(call, "rR", "--recursive")


def _whole(policy: Policy, call: Call, operands: list[str], base: str, does: str) -> None:
    own = policy.agent_home or "~/.hermes"
    for one in operands:
        path = paths.normal(one, base, policy.links, policy.home)
        everything = paths.strip_all(path)
        if path != everything and paths.is_home(everything):
            continue  # a pattern, which no hidden file fits
        if above(everything) or own.startswith(everything + "/"):
            where = marks.shown(everything)
            policy.note("read-secret", f"{does} all of {where}, with the credentials in it", call.span)
            return


def _found(policy: Policy, call: Call, words: list[str]) -> None:
    """Judge names that a search without conditions found."""
    for one in words:
        if one.isascii():
            continue
        head, found, rest = one.partition(f"/{marks.UNKNOWN}{marks.FOUND}")
        whole = found and not rest and above(policy.path(head or "/", call))
        if marks.EVERY in one or whole:
            policy.note("read-secret", "reads every file of a home or of the system", call.span)
            return


def above(path: str) -> bool:
    """Say whether a directory has whole homes in it, or is one."""
    return paths.is_home(path) or path in _ABOVE


def _named(policy: Policy, call: Call) -> None:
    """Judge the names that come in by a list."""
    comes_in = call.name in _NAMES_COME_IN or any(
        one in ("-@", "-T-", "--files-from=-", "@-")
        or (one in ("-", "/dev/stdin") and before.endswith(("T", "-from")))
        for before, one in zip(call.argv, call.argv[1:], strict=False)
    )
    if comes_in and call.stdin:
        lines = call.stdin.split("\n")
        policy.reads(call, lines)
        _found(policy, call, lines)
