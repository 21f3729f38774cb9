"""What programs that work on files read, write and delete."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from hermes._lazy import Lazy

from . import _marks as marks
from . import _paths as paths
from ._call import Call
from ._effect import has, operands_of
from ._effects_other import broad, held
from ._marks import ENVIRON, EVERY, OUTPUT, PIDS, PRIVATE, REMOTE, SECRET, SPLIT, UNKNOWN
from ._options import options_of
from ._rules import Shape

if TYPE_CHECKING:
    from ._policy import Policy


def rm(policy: Policy, call: Call, shape: Shape) -> None:
    recursive = has(call, "rR", "--recursive")
    targets = operands_of(call)
    for target in targets:
        if EVERY in target and call.place != "container":
            policy.note("delete-everything", "deletes every file of the system or a home", call.span, "block")
            continue
        unknown_many = (
            SPLIT in target
            and target.strip(
                marks.OUTPUT + SPLIT + UNKNOWN + SECRET + REMOTE + ENVIRON + PIDS + PRIVATE + marks.FOUND
            )
            == ""
        )
        if unknown_many and not recursive and OUTPUT not in target and call.name != "unlink":
            unknown_many = False
        if SPLIT in target and re.match(r"-[a-z]*r", target):
            recursive = True
        below = (marks.STAR * 2 in target or marks.FOUND in target) and not policy.regenerable(
            policy.path(target, call)
        )
        policy.delete(policy.path(target, call), call, recursive=recursive, looked_up=unknown_many or below)


def rmdir(policy: Policy, call: Call, shape: Shape) -> None:
    for target in operands_of(call):
        policy.write(policy.path(target, call), call, delete=True)


def shred(policy: Policy, call: Call, shape: Shape) -> None:
    for target in operands_of(call, "-n -s --iterations --size --random-source"):
        if EVERY in target and call.place != "container":
            policy.note("delete-everything", "deletes every file of the system or a home", call.span, "block")
        path = policy.path(target, call)
        policy.write(path, call, delete=True)


_NARROWS = marks.names(
    "-name -iname -path -ipath -regex -iregex -mtime -mmin -atime -amin "
    "-ctime -cmin -newer -size -empty -user -group -perm -lname "
    "-wholename -iwholename -inum -links -nouser -nogroup -used -samefile"
)


def find(policy: Policy, call: Call, shape: Shape) -> None:
    words = call.argv[1:]
    starts: list[str] = []
    index = 0
    while index < len(words) and words[index] in ("-H", "-L", "-P"):
        index += 1
    while index < len(words) and words[index][:1] not in ("-", "(", "!"):
        starts.append(words[index])
        index += 1
    narrowed = any(
        word in _NARROWS and marks.plain(value) not in ("*", "**", "*.*", ".*")
        for word, value in pairwise([*words, ""])
    )
    deletes = "-delete" in words
    for place, word in enumerate(words):
        if (
            word in ("-exec", "-execdir", "-ok", "-okdir")
            and not narrowed
            and call.place != "container"
            and place + 1 < len(words)
        ):
            every(policy, call, words[place + 1].rpartition("/")[2], starts)
        if word in ("-exec", "-execdir", "-ok", "-okdir") and place + 1 < len(words):
            deletes = deletes or runs_delete(words[place + 1 :])
        if word in ("-fprint", "-fprint0", "-fprintf", "-fls") and place + 1 < len(words):
            policy.write(policy.path(words[place + 1], call), call)
        if word in ("-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-delete"):
            policy.read_only = False
    if deletes:
        for start in starts or ["."]:
            policy.delete(policy.path(start, call), call, recursive=True, everything=not narrowed)


def every(policy: Policy, call: Call, program: str, starts: list[str]) -> None:
    """Judge a program that is given every file below a directory."""
    for start in starts:
        found = policy.classes.of(policy.path(start, call))
        if not found or found[0] not in ("root", "top", "home-itself"):
            continue
        if program in ("chmod", "chown", "chgrp"):
            policy.note(
                "permissions-everywhere",
                f"changes the mode or owner of all of {marks.shown(start)}",
                call.span,
                "block",
            )
        elif program in ("truncate", "dd", "tee"):
            policy.note("delete-everything", f"empties all of {marks.shown(start)}", call.span, "block")


def runs_delete(words: list[str]) -> bool:
    """Say whether what ``find -exec`` runs deletes what was found."""
    for word in words[:6]:
        if word in (";", "+"):
            return False
        if word.rpartition("/")[2] in ("rm", "unlink", "shred", "rmdir", "srm", "rimraf"):
            return True
    return False


def find_reads(policy: Policy, call: Call, shape: Shape) -> None:
    find(policy, call, shape)
    words = call.argv[1:]
    names = " ".join(words)
    if (
        "-exec" in words
        and re.search(
            r"\.env\b|id_rsa|id_ed25519|id_\*|\.netrc|\.npmrc|\.pgpass|_history|credentials|\.pem|\.key\b|\.kdbx|wallet",
            names,
        )
        and re.search(r"\b(?:cat|cp|tar|curl|base64|head|less|scp|zip|grep)\b", names)
        and any(paths.everything(policy.path(one, call)) for one in words[:1])
    ):
        policy.note("read-secret", "reads credentials that are looked for", call.span)


# Writing


# Directories of a home that hold what people made.
_HOLDS = Lazy(
    r"~/(?:\.config|\.local(?:/share)?|\.mozilla|\.thunderbird|Documents|Desktop|Pictures|Music|Videos|"
    r"Dropbox|Nextcloud|Library)/?"
)


# What lies right in one of these is somebody's own, or what is deployed.
_FOR_FILES = frozenset(("/srv", "/opt"))
_TRUSTED = frozenset(("startup", "secret", "hooks", "agent", "agent_secret"))


def _distant(policy: Policy, call: Call, target: str, sources: list[str]) -> None:
    """Judge what a copy changes on another machine."""
    inside = target.partition(":")[2] or "~"
    if not inside.startswith(("/", "~")):
        inside = "~/" + inside
    goal = paths.normal(inside, "~", {}, "")
    names = (one.rstrip("/").rpartition("/")[2] for one in sources if one[-1:] != "/")
    for path in (goal, *(f"{goal}/{one}" for one in names if one.strip("."))):
        if not _TRUSTED.isdisjoint(policy.classes.of(path)) or re.search(r"authorized_keys", path):
            policy.note(
                "write-startup", f"changes {marks.shown(target)}, which is run or trusted later", call.span
            )
            return
    found = policy.classes.of(goal)
    whole = found[:1] in (("top",), ("root",)) and "temporary" not in found and goal not in _FOR_FILES
    if whole or _SYSTEM_THERE.match(inside):
        policy.note("write-system", f"writes to {marks.shown(target)}, a part of the system there", call.span)


_SYSTEM_THERE = Lazy(r"/(?:etc|usr|s?bin|lib|boot|var/(?:www|lib|spool))(?:/|$)")


def copy(policy: Policy, call: Call, shape: Shape) -> None:
    found, _ = options_of(
        call.argv[1:],
        marks.names("-t --target-directory -S --suffix -m --mode -o --owner -g --group -e --rsh -P -i -F -J"),
    )
    directory = next((value for name, value in found if name in ("-t", "--target-directory")), "")
    operands = operands_of(
        call,
        "-t --target-directory -S --suffix -m --mode -o --owner -g "
        "--group -P -i -F -J -e --rsh --exclude --include --filter",
    )
    mode = next((value for name, value in found if name in ("-m", "--mode")), "")
    if call.name == "install" and too_wide(mode):
        policy.note("permissions", too_wide(mode), call.span)
    if call.name == "install" and has(call, "d", "--directory"):
        for one in operands:
            policy.write(policy.path(one, call), call)
        return
    if directory:
        sources, target = operands, directory
    elif len(operands) > 1:
        sources, target = operands[:-1], operands[-1]
    else:
        return
    distant = re.match(r"[\w.@-]+:|\w+://", target) is not None and call.name in ("scp", "rsync", "sftp")
    goal = policy.path(target, call)
    if distant:
        _distant(policy, call, target, sources)
    else:
        policy.write(goal, call)
        if goal == "/dev/null" and call.name == "mv":
            policy.note("mass-delete", "moves files to nowhere", call.span)
        for source in sources:
            base = source.rstrip("/").rpartition("/")[2]
            if base and base not in (".", "..") and not marks.unknown(base) and not goal.startswith("/dev/"):
                policy.write(f"{goal}/{base}", call)
            if call.name != "ln":
                path = policy.path(source, call)
                if call.name in ("mv", "gmv") and "temporary" in policy.classes.of(goal + "/x"):
                    if _HOLDS.fullmatch(path):
                        policy.note("mass-delete", f"moves {path} away", call.span)
                    elif paths.whole(path) and not policy.regenerable(path):
                        policy.note("mass-delete", "moves every file of a directory away", call.span)
                if path == "/dev/null" and call.name in ("cp", "install"):
                    policy.emptied(goal, call)
                if path in ("/dev/zero", "/dev/urandom") and call.name == "cp":
                    policy.emptied(goal, call)
    if call.name == "mv":
        for source in sources:
            path = policy.path(source, call)
            found_classes = policy.classes.of(path)
            if "root" in found_classes or "home-itself" in found_classes:
                policy.note("recursive-delete", f"moves {marks.shown(path)} away", call.span)
            else:
                policy.write(path, call, delete=True)
            if "repository" in found_classes:
                policy.note(
                    "delete-protected", f"moves a part of the repository: {marks.shown(path)}", call.span
                )
    if call.name == "ln":
        if goal.endswith("/null"):
            return
        for source in sources:
            if policy.path(source, call) == "/dev/null":
                policy.emptied(goal, call)
            if source.startswith("../../..") and has(call, "s", "--symbolic"):
                policy.note("write-system", "makes a link that leads far out of the directory", call.span)
    if (
        call.name == "rsync"
        and has(
            call,
            "",
            "--delete",
            "--delete-after",
            "--del",
            "--delete-excluded",
            "--delete-before",
            "--delete-during",
        )
        and not has(call, "n", "--dry-run")
    ):
        policy.note("recursive-delete", "deletes in the target what the source does not have", call.span)
        emptied = any(
            re.search(
                r"(?:^|/)\.?(?:empty|blank|null|void|none|nothing)[\w.-]*/?$|^/tmp/\W", policy.path(one, call)
            )
            for one in sources
        )
        if emptied and not distant:
            policy.delete(goal, call, recursive=True)
    if call.name == "rsync" and (target.startswith("rsync://") or re.match(r"[\w.@-]+::", target)):
        policy.note("upload", "sends files to another machine", call.span)
    if distant:
        broad(policy, call, sources)
        policy.leaving(call, [held(policy, call, one) for one in sources])


def writes(policy: Policy, call: Call, shape: Shape) -> None:
    for one in operands_of(call, "-m --mode -r --reference -d --date -t -Z"):
        policy.write(policy.path(one, call), call)


def tee(policy: Policy, call: Call, shape: Shape) -> None:
    append = has(call, "a", "--append")
    for one in operands_of(call):
        policy.write(policy.path(one, call), call, emptied=not append and call.stdin == "")


def truncate(policy: Policy, call: Call, shape: Shape) -> None:
    sizes = [
        value or following
        for name, value, following in shape.flags
        if name in ("-s", "--size") or name.startswith("-s")
    ]
    grown = bool(sizes) and all(re.match(r"\+|[1-9]\d*[KMGTP]", one) for one in sizes)
    for one in operands_of(call, "-s --size -r --reference"):
        policy.write(policy.path(one, call), call, emptied=not grown)


def dd(policy: Policy, call: Call, shape: Shape) -> None:
    for word in call.argv[1:]:
        if word.startswith("of="):
            source = next((one[3:] for one in call.argv if one.startswith("if=")), "")
            path = policy.path(word[3:], call)
            policy.write(path, call)
            made = re.search(
                r"\.(?:img|iso|raw|bin|dat|dd|vhd|qcow2|disk|swap|test|dump|blob)$|"
                r"test|zero|big|large|dummy|sample|random|fill|/\w*file\w*$",
                path,
            )
            spared = {"regenerable", "temporary"} & set(policy.classes.of(path)) or path.startswith("/dev/")
            if (
                source in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
                and not made
                and not spared
            ):
                policy.note("empty-file", f"overwrites {marks.shown(path)}", call.span)
        elif word.startswith("if="):
            policy.read(policy.path(word[3:], call), call)


_EMPTIES = Lazy(r"(?:1,\$)?\s*d|[01]")


def in_place(policy: Policy, call: Call, shape: Shape) -> None:
    """sed, perl, ruby, yq, jq and the like with the option that changes files in place."""
    if call.name in ("sed", "gsed", "perl", "ruby") and not any(
        re.match(r"-[a-zA-Z0-9]*i|--in-place", word) for word in call.argv[1:]
    ):
        return
    if call.name in ("yq", "dasel", "xmlstarlet", "jo") and not has(call, "iL", "--inplace", "--in-place"):
        return
    if call.name in ("sed", "gsed", "perl", "ruby") and any(
        _EMPTIES.fullmatch(word) for word in call.argv[1:4] if word[:2] != "-i"
    ):
        prints = call.name in ("sed", "gsed") or any(re.match(r"-\w*p", word) for word in call.argv[1:])
        if call.name in ("sed", "gsed") or not prints:
            for one in operands_of(call, "-e -E -ne -f")[-1:]:
                policy.emptied(policy.path(one, call), call)
    if call.name in ("awk", "gawk") and "inplace" not in call.argv:
        return
    for one in operands_of(call, "-e -f --expression --file" if "sed" in call.name else "-e -E -M -I"):
        if "/" in one or "." in one or "~" in one:
            policy.write(policy.path(one, call), call)


def editor(policy: Policy, call: Call, shape: Shape) -> None:
    for one in operands_of(call, "-c --cmd --eval -f -e"):
        if not one.startswith("+") and call.name not in ("emacs-x",):
            path = policy.path(one, call)
            if "/" in one or "~" in one or marks.unknown(one) or "hermes" in path:
                policy.write(path, call)


def changes(policy: Policy, call: Call, shape: Shape) -> None:
    """Programs that change the files which they are given: sd, crudini, dos2unix."""
    operands = operands_of(call, "-f --flags -n --max-replacements")
    if call.name == "crudini" and has(call, "", "--get"):
        return
    for one in operands[2:] if call.name in ("sd", "rpl") else operands:
        if "/" in one or "~" in one:
            policy.write(policy.path(one, call), call)


def image(policy: Policy, call: Call, shape: Shape) -> None:
    """Programs that copy an image to a disk: the last of what they are given, or the second."""
    operands = operands_of(call, "-b -s -i -o -c -K -E -a -A -r -T" if call.name == "ddrescue" else "")
    if call.name in ("qemu-img", "bmaptool") and operands[:1] not in (["convert"], ["dd"], ["copy"]):
        return
    if call.name == "ntfsclone" and not has(call, "O", "--overwrite", "--restore-image"):
        return
    for one in call.argv[1:] if call.name in ("ntfsclone", "qemu-img") else operands[1:]:
        path = policy.path(one.removeprefix("of="), call)
        last = one == call.argv[-1] or call.name != "qemu-img"
        if last and "device" in policy.classes.of(path):
            policy.write(path, call)


def patch(policy: Policy, call: Call, shape: Shape) -> None:
    for one in operands_of(call, "-p -i -o -r -d -D"):
        policy.write(policy.path(one, call), call)
    for name, value in options_of(call.argv[1:], frozenset(("-d", "-o", "--directory", "--output")))[0]:
        if name in ("-d", "--directory", "-o", "--output") and value:
            policy.write(policy.path(value, call), call)


def _archives(call: Call, words: list[str]) -> list[str]:
    """Return what is written to as an archive."""
    if call.name in ("zip", "7z"):
        return operands_of(call)[call.name == "7z" :][:1]
    option = re.compile(r"-[OF]" if call.name == "cpio" else r"-?\w*[crAu]\w*f|-f")
    found = [after for word, after in pairwise(words) if option.fullmatch(word)]
    found += [match.group(1) for word in words if (match := re.match(r"(?:--file=|-[OFf])(/dev/.*)", word))]
    creates = call.name == "cpio" or re.search(r"[crAu]", words[0] if words else "")
    return found if creates else []


def archive(policy: Policy, call: Call, shape: Shape) -> None:
    """tar, unzip and the like: where they unpack to, and what they make."""
    words = call.argv[1:]
    first = words[0].lstrip("-") if words else ""
    if call.name == "7z" and first not in ("a", "u", "d", "rn", "x", "e"):
        return
    makes = call.name in ("zip", "7z") or (call.name in ("tar", "bsdtar", "gtar") and "c" in first)
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if (
            word in ("-C", "--directory", "-d")
            and following
            and policy.path(following, call) == "~"
            and call.name != "zip"
            and not makes
        ):
            policy.note("write-startup", "unpacks over a home", call.span)
        if call.name in ("tar", "bsdtar", "gtar") and makes:
            continue  # there `-C` says where the files are
        if word in ("-C", "--directory", "-d", "--one-top-level", "-o") and following and call.name != "zip":
            if word != "-o" or call.name in ("7z", "unar"):
                policy.write(policy.path(following, call), call)
        elif word.startswith(("--directory=", "--one-top-level=")):
            policy.write(policy.path(word.partition("=")[2], call), call)
        elif (word.startswith("-C") and len(word) > 2 and call.name in ("tar", "bsdtar", "gtar")) or (
            word.startswith("-d") and len(word) > 2 and call.name == "unzip"
        ):
            policy.write(policy.path(word[2:], call), call)
    if (
        call.name in ("tar", "bsdtar", "gtar")
        and "x" in first
        and ("P" in first or has(call, "P", "--absolute-names"))
    ):
        policy.note("write-system", "unpacks to wherever the archive says", call.span)
    empties = (call.name == "zip" and has(call, "d", "--delete")) or (call.name == "7z" and first == "d")
    if empties and any(marks.globbed(word) or word == "*" for word in words[1:]):
        policy.note("mass-delete", "deletes every file of an archive", call.span)
    for one in _archives(call, words):
        if one.startswith("/dev/"):
            policy.write(one, call)
    if makes:
        for one in operands_of(call)[:2]:
            if re.search(r"\.(?:tar|tgz|zip|gz|xz|bz2|zst|7z)", one):
                policy.write(policy.path(one, call), call)
    elif (
        call.name in ("tar", "bsdtar", "gtar")
        and "x" in first
        and call.cwd
        and not any(word.startswith(("-C", "--directory")) for word in words)
    ) or (call.name == "unzip" and "-d" not in words and not has(call, "lpvtZ")):
        policy.write(policy.path(".", call) + "/x", call)
    if call.name in ("tar", "zip", "bsdtar", "gtar") and has(
        call, "", "--remove-files", "--delete", "--move"
    ):
        policy.note("recursive-delete", "deletes files once they are packed", call.span)
        base = next(
            (value for name, value in options_of(words, _TAR)[0] if name in ("-C", "--directory")), ""
        )
        if has(call, "", "--remove-files"):
            inner = msgspec.structs.replace(call, cwd=policy.path(base, call)) if base else call
            for one in operands_of(call, "-C --directory -f --file --exclude -T -cf -czf -cjf -cJf -X"):
                policy.delete(policy.path(one, inner), call, recursive=True)
    if (call.name == "zip" and (has(call, "m", "--move"))) or "-sdel" in words:
        for one in operands_of(call, "-x -i -P -t")[1:]:
            policy.delete(policy.path(one, call), call, recursive=has(call, "r") or "-sdel" in words)


_TAR = marks.names("-C --directory -f --file -cf -czf -cjf -cJf -T -X --exclude")


def split_files(policy: Policy, call: Call, shape: Shape) -> None:
    operands = operands_of(call, "-b -l -n -a -C -f -d --bytes --lines --number --filter --suffix-length")
    if len(operands) > 1:
        policy.write(policy.path(operands[1], call), call)
    for name, value in options_of(call.argv[1:], frozenset(("--filter", "-f")))[0]:
        if name == "-f" and value:
            policy.write(policy.path(value, call), call)


def output_option(policy: Policy, call: Call, shape: Shape) -> None:
    """Programs that write where an option says: ``-o``, ``--output``, ``-w``, ``--target``."""
    words = call.argv[1:]
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        value = ""
        if (
            call.name in ("ffmpeg", "convert", "script", "magick")
            and index == len(words) - 1
            and not word.startswith("-")
            and index
            and words[0] not in ("identify", "compare")
        ):
            policy.write(policy.path(word, call), call)
        if word in (
            "-o",
            "--output",
            "--out",
            "-out",
            "--output-file",
            "-O",
            "--target",
            "-t",
            "--prefix",
            "--root",
            "-d",
            "--dest",
            "--log-file",
            "--outfile",
            "-w",
            "--export",
        ):
            if word in ("-t", "-d", "-O") and call.name not in ("pip", "pip3"):
                continue
            value = following
        elif re.match(r"--(?:output|out|target|prefix|root|output-file|dest|log-file)=", word):
            value = word.partition("=")[2]
        if value.startswith(("|", "!")):
            policy.note("run-by-option", f"gives its output to a command: {marks.shown(value)}", call.span)
        elif (
            value
            and not value.startswith("-")
            and (value.startswith(("/", "~", "..")) or "/" in value or call.cwd.startswith(("/etc", "/usr")))
        ):
            policy.write(policy.path(value, call), call)
    if call.name == "git":
        pass


# Modes and owners


def chmod(policy: Policy, call: Call, shape: Shape) -> None:
    words = [word for word in call.argv[1:]]
    recursive = has(call, "R", "--recursive")
    operands = [word for word in words if not word.startswith("-") or re.fullmatch(r"-[rwxXst]+", word)]
    mode = ""
    if not any(word.startswith("--reference") for word in words) and operands:
        mode, operands = operands[0], operands[1:]
    elif operands:
        pass
    wide = too_wide(mode)
    policy.read_only = False
    for one in operands:
        path = policy.path(one, call)
        found = policy.classes.of(path)
        if EVERY in one:
            recursive, found, path = True, ("root",), "/"
        if recursive and found and found[0] in ("root", "top", "home-itself") and call.place != "container":
            policy.note(
                "permissions-everywhere",
                f"changes the mode of all of {marks.shown(path)}",
                call.span,
                "block",
            )
        elif "agent" in found or "agent_secret" in found:
            policy.note("write-agent", f"changes the mode of {marks.shown(path)}", call.span)
        elif "device" in found or path.endswith("docker.sock"):
            policy.note("permissions", f"changes the mode of {marks.shown(path)}", call.span)
        elif wide:
            policy.note("permissions", f"{wide}: {marks.shown(path)}", call.span)
        elif ("system" in found or "top" in found or "root" in found) and "temporary" not in found:
            policy.note("write-system", f"changes the mode of {marks.shown(path)}", call.span)
        elif "hooks" in found and "x" in mode:
            policy.note("write-hooks", f"makes {marks.shown(path)} run", call.span)
        elif recursive and SPLIT in one:
            policy.note("permissions", "changes the mode of files that are not known", call.span)
        elif "secret" in found and not re.fullmatch(
            r"0?[0-7]00|[ug]*[-+=]?[rwx]*|go[-=][rwx]*|u[+=][rwx]*", mode
        ):
            policy.note("permissions", f"changes the mode of a credential: {marks.shown(path)}", call.span)
    if wide and not operands:
        policy.note("permissions", wide, call.span)
    if SPLIT in "".join(operands) and mode in ("000", "0", "777"):
        policy.note("permissions", "changes the mode of files that are not known", call.span)


def too_wide(mode: str) -> str:
    """Say what is too much in a mode; empty for nothing."""
    if re.fullmatch(r"[0-7]{3,5}", mode):
        number = int(mode, 8)
        if number & 0o6000:
            return "sets a special bit, which lends the owner's rights"
        if number & 0o002 and not number & 0o1000:
            return "lets everybody write"
        if number & 0o777 == 0:
            return "takes all rights away"
        return ""
    for clause in mode.split(","):
        match = re.fullmatch(r"([ugoa]*)([-+=])([rwxXstugo]*)", clause)
        if not match:
            continue
        who, sign, what = match.groups()
        if sign in "+=" and "s" in what:
            return "sets a special bit, which lends the owner's rights"
        if sign in "+=" and "w" in what and ("o" in who or "a" in who):
            return "lets everybody write"
        if sign == "=" and not what and who in ("", "a", "ugo"):
            return "takes all rights away"
        if sign == "-" and who in ("", "a", "ugo") and {"r", "w", "x"} <= set(what):
            return "takes all rights away"
    return ""


def chown(policy: Policy, call: Call, shape: Shape) -> None:
    recursive = has(call, "R", "--recursive")
    operands = operands_of(call, "--from")
    owner = operands[0] if operands else ""
    reference = any(word.startswith("--reference") for word in call.argv)
    for one in operands if reference else operands[1:]:
        path = policy.path(one, call)
        found = policy.classes.of(path)
        if EVERY in one:
            recursive, found, path = True, ("root",), "/"
        if recursive and found and found[0] in ("root", "top", "home-itself") and call.place != "container":
            policy.note(
                "permissions-everywhere",
                f"changes the owner of all of {marks.shown(path)}",
                call.span,
                "block",
            )
        elif recursive or "root" in owner or owner.startswith("0") or "system" in found or "top" in found:
            policy.note("permissions", f"changes the owner of {marks.shown(path)}", call.span)
    if not operands:
        policy.read_only = policy.read_only


# Disks

PARTITIONS = marks.names(
    "mkfs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat "
    "mkfs.ntfs mkfs.exfat mkfs.f2fs mkfs.minix mkfs.jfs mkfs.msdos mke2fs "
    "mkdosfs mkntfs mkreiserfs mkswap parted fdisk sfdisk gdisk sgdisk "
    "cgdisk cfdisk wipefs blkdiscard pvcreate pvremove badblocks shred "
    "newfs newfs_apfs newfs_hfs newfs_msdos mkfs.bfs mkexfatfs "
    "mkudffs scrub hdparm_ zerofree sg_write dcfldd dc3dd"
)
_LOOKS = marks.names(
    "-l --list -p --print -J --json -d --dump -n --no-act --no-action "
    "-V --version --help -h print unit -s --show-size --verify -v"
)


def partition(policy: Policy, call: Call, shape: Shape) -> None:
    """Programs that write to the disk which they are given."""
    if call.name == "shred":
        shred(policy, call, shape)
        return
    words = call.argv[1:]
    looks = (
        _LOOKS - {"-s", "-n", "-v", "-d"}
        if call.name in ("parted", "mkswap", "blkdiscard", "badblocks", "pvremove")
        else _LOOKS - {"-v"}
    )
    if call.name in ("scrub", "mkswap", "blkdiscard", "badblocks", "pvcreate", "pvremove", "mkudffs"):
        looks = frozenset(("-V", "--version", "-h", "--help", "-t", "--test"))
    elif call.name.startswith(("mkfs", "mke2fs", "mkdosfs", "mkntfs", "mkexfatfs", "newfs")):
        dry = "-N" if call.name in ("mkfs.xfs",) or call.name.startswith("newfs") else "-n"
        named = re.search(r"fat|dos|btrfs|xfs|f2fs", call.name) is not None and dry == "-n"
        looks = frozenset(("-V", "--version", "--help", *(() if named else (dry,))))
    if any(word in looks for word in words):
        return
    if call.name == "wipefs" and not has(call, "ao", "--all", "--offset"):
        return
    if call.name == "badblocks" and not has(call, "w"):
        return
    for word in words:
        path = policy.path(word.partition("=")[2] or word, call)
        if "device" in policy.classes.of(path) and not path.startswith("/dev/loop"):
            policy.note("overwrite-device", f"overwrites the disk {marks.shown(path)}", call.span, "block")


def cat(policy: Policy, call: Call, shape: Shape) -> None:
    endless = ("/dev/zero", "/dev/urandom", "/dev/random", "/dev/full")
    if (not call.captured or call.to) and any(word in endless for word in call.argv[1:]):
        policy.note("endless-output", "prints without end", call.span)


def yes(policy: Policy, call: Call, shape: Shape) -> None:
    if not call.captured or call.to:
        policy.note("endless-output", "prints without end", call.span)
