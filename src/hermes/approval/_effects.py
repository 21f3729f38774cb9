"""What well-known programs read, write, delete, send and change, told from their words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from . import _marks as marks
from . import _paths as paths
from ._carriers import options_of
from ._marks import ENVIRON, EVERY, OUTPUT, PIDS, PRIVATE, REMOTE, SECRET, SPLIT, UNKNOWN
from ._rules import Shape
from ._run import Call

if TYPE_CHECKING:
    from ._policy import Policy


class Effect(msgspec.Struct, frozen=True):
    """What a program does. ``reads``: a word that names a credential means that it is read; ``quiet``: it changes
    nothing; ``judge`` looks at the words."""

    judge: Callable[[Policy, Call, Shape], None] | None = None
    reads: bool = True
    quiet: bool = False


def _operands(call: Call, valued: str = "") -> list[str]:
    """Return the words that are no options, wherever they stand."""
    skip = frozenset(valued.split())
    out: list[str] = []
    words = call.argv
    index = 1
    while index < len(words):
        word = words[index]
        if word == "--":
            return out + words[index + 1 :]
        if word[:1] == "-" and len(word) > 1:
            if word in skip:
                index += 1
        else:
            out.append(word)
        index += 1
    return out


def _has(call: Call, letters: str, *names: str) -> bool:
    """Say whether a flag is given: a letter of a cluster, or a long name or an abbreviation of it."""
    for word in call.argv[1:]:
        if word == "--":
            return False
        if word.startswith("--") and len(word) > 2:
            long = word.partition("=")[0]
            if any(name == long or (len(long) > 3 and name.startswith(long)) for name in names):
                return True
        elif word[:1] == "-" and any(letter in word[1:] for letter in letters):
            return True
    return False


# Deleting


def _rm(policy: Policy, call: Call, shape: Shape) -> None:
    recursive = _has(call, "rR", "--recursive")
    targets = _operands(call)
    for target in targets:
        unknown_many = (
            SPLIT in target
            and target.strip(marks.OUTPUT + SPLIT + UNKNOWN + SECRET + REMOTE + ENVIRON + PIDS + PRIVATE)
            == ""
        )
        if unknown_many and not recursive and OUTPUT not in target and call.name != "unlink":
            unknown_many = False
        if SPLIT in target and re.match(r"-[a-z]*r", target):
            recursive = True
        policy.delete(policy.path(target, call), call, recursive=recursive, looked_up=unknown_many)


def _rmdir(policy: Policy, call: Call, shape: Shape) -> None:
    for target in _operands(call):
        policy.write(policy.path(target, call), call, delete=True)


def _shred(policy: Policy, call: Call, shape: Shape) -> None:
    for target in _operands(call, "-n -s --iterations --size --random-source"):
        path = policy.path(target, call)
        policy.write(path, call, delete=True)


_NARROWS = marks.names(
    "-name -iname -path -ipath -regex -iregex -mtime -mmin -atime -amin "
    "-ctime -cmin -newer -size -empty -user -group -perm -lname "
    "-wholename -iwholename -inum -links -nouser -nogroup -used -samefile"
)


def _find(policy: Policy, call: Call, shape: Shape) -> None:
    words = call.argv[1:]
    starts: list[str] = []
    index = 0
    while index < len(words) and words[index] in ("-H", "-L", "-P"):
        index += 1
    while index < len(words) and words[index][:1] not in ("-", "(", "!"):
        starts.append(words[index])
        index += 1
    narrowed = any(word in _NARROWS for word in words)
    deletes = "-delete" in words
    for place, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir") and place + 1 < len(words):
            deletes = deletes or _deletes(words[place + 1 :])
        if word in ("-fprint", "-fprint0", "-fprintf", "-fls") and place + 1 < len(words):
            policy.write(policy.path(words[place + 1], call), call)
        if word in ("-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-delete"):
            policy.read_only = False
    if deletes:
        for start in starts or ["."]:
            policy.delete(policy.path(start, call), call, recursive=True, everything=not narrowed)


def _deletes(words: list[str]) -> bool:
    """Say whether what ``find -exec`` runs deletes what was found."""
    for word in words[:6]:
        if word in (";", "+"):
            return False
        if word.rpartition("/")[2] in ("rm", "unlink", "shred", "rmdir", "srm", "rimraf"):
            return True
    return False


# Writing

_KEEPS = frozenset(("cp", "mv", "install", "ln", "scp", "rsync", "gcp", "gmv", "ditto"))


def _copy(policy: Policy, call: Call, shape: Shape) -> None:
    found, _ = options_of(
        call.argv[1:],
        marks.names("-t --target-directory -S --suffix -m --mode -o --owner -g --group -e --rsh -P -i -F -J"),
    )
    directory = next((value for name, value in found if name in ("-t", "--target-directory")), "")
    operands = _operands(
        call,
        "-t --target-directory -S --suffix -m --mode -o --owner -g "
        "--group -P -i -F -J -e --rsh --exclude --include --filter",
    )
    mode = next((value for name, value in found if name in ("-m", "--mode")), "")
    if call.name == "install" and _wide(mode):
        policy.note("permissions", _wide(mode), call.span)
    if call.name == "install" and _has(call, "d", "--directory"):
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
        _, _, inside = target.partition(":")
        if (inside and inside.startswith(("~", "/"))) or re.search(r":\.ssh/|:\.\w+rc$", target):
            inside = inside if inside.startswith(("/", "~")) else "~/" + inside
            place = policy.classes.of(paths.normal(inside, "~", {}, ""))
            if (
                place
                and place[0] in ("startup", "secret", "top", "root", "home-itself")
                and "temporary" not in place
            ) or re.search(r"authorized_keys|\.bashrc|\.profile", inside):
                policy.note(
                    "write-startup",
                    f"changes {marks.shown(target)}, which is run or trusted later",
                    call.span,
                )
            elif re.match(r"/(?:etc|usr|s?bin|lib|boot|root|var/(?:www|lib|spool))(?:/|$)", inside):
                policy.note("write-system", f"writes to {marks.shown(target)}", call.span)
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
            if source.startswith("../../..") and _has(call, "s", "--symbolic"):
                policy.note("write-system", "makes a link that leads far out of the directory", call.span)
    if (
        call.name == "rsync"
        and _has(
            call,
            "",
            "--delete",
            "--delete-after",
            "--del",
            "--delete-excluded",
            "--delete-before",
            "--delete-during",
        )
        and not _has(call, "n", "--dry-run")
    ):
        policy.note("recursive-delete", "deletes in the target what the source does not have", call.span)


def _writes(policy: Policy, call: Call, shape: Shape) -> None:
    for one in _operands(call, "-m --mode -r --reference -d --date -t -Z"):
        policy.write(policy.path(one, call), call)


def _tee(policy: Policy, call: Call, shape: Shape) -> None:
    append = _has(call, "a", "--append")
    for one in _operands(call):
        policy.write(policy.path(one, call), call, emptied=not append and call.stdin == "")


def _truncate(policy: Policy, call: Call, shape: Shape) -> None:
    sizes = [
        value or following
        for name, value, following in shape.flags
        if name in ("-s", "--size") or name.startswith("-s")
    ]
    grown = bool(sizes) and all(re.match(r"\+|[1-9]\d*[KMGTP]", one) for one in sizes)
    for one in _operands(call, "-s --size -r --reference"):
        policy.write(policy.path(one, call), call, emptied=not grown)


def _dd(policy: Policy, call: Call, shape: Shape) -> None:
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


def _in_place(policy: Policy, call: Call, shape: Shape) -> None:
    """sed, perl, ruby, yq, jq and the like with the option that changes files in place."""
    if call.name in ("sed", "gsed", "perl", "ruby") and not any(
        re.match(r"-[a-zA-Z0-9]*i|--in-place", word) for word in call.argv[1:]
    ):
        return
    if call.name in ("yq", "dasel", "xmlstarlet", "jo") and not _has(call, "iL", "--inplace", "--in-place"):
        return
    if call.name in ("awk", "gawk") and "inplace" not in call.argv:
        return
    for one in _operands(call, "-e -f --expression --file" if "sed" in call.name else "-e -E -M -I"):
        if "/" in one or "." in one or "~" in one:
            policy.write(policy.path(one, call), call)


def _editor(policy: Policy, call: Call, shape: Shape) -> None:
    for one in _operands(call, "-c --cmd --eval -f -e"):
        if not one.startswith("+") and call.name not in ("emacs-x",):
            path = policy.path(one, call)
            if "/" in one or "~" in one or marks.unknown(one) or "hermes" in path:
                policy.write(path, call)


def _patch(policy: Policy, call: Call, shape: Shape) -> None:
    for one in _operands(call, "-p -i -o -r -d -D"):
        policy.write(policy.path(one, call), call)
    for name, value in options_of(call.argv[1:], frozenset(("-d", "-o", "--directory", "--output")))[0]:
        if name in ("-d", "--directory", "-o", "--output") and value:
            policy.write(policy.path(value, call), call)


def _archive(policy: Policy, call: Call, shape: Shape) -> None:
    """tar, unzip and the like: where they unpack to, and what they make."""
    words = call.argv[1:]
    first = words[0].lstrip("-") if words else ""
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if (
            word in ("-C", "--directory", "-d")
            and following
            and policy.path(following, call) == "~"
            and call.name != "zip"
        ):
            policy.note("write-startup", "unpacks over a home", call.span)
        if word in ("-C", "--directory", "-d", "--one-top-level", "-o") and following and call.name != "zip":
            if word != "-o" or call.name in ("7z", "unar"):
                policy.write(policy.path(following, call), call)
        elif word.startswith(("--directory=", "--one-top-level=")):
            policy.write(policy.path(word.partition("=")[2], call), call)
        elif (word.startswith("-C") and len(word) > 2 and call.name in ("tar", "bsdtar", "gtar")) or (
            word.startswith("-d") and len(word) > 2 and call.name == "unzip"
        ):
            policy.write(policy.path(word[2:], call), call)
    makes = call.name in ("zip", "7z") or (call.name in ("tar", "bsdtar", "gtar") and "c" in first)
    if makes:
        for one in _operands(call)[:2]:
            if re.search(r"\.(?:tar|tgz|zip|gz|xz|bz2|zst|7z)", one):
                policy.write(policy.path(one, call), call)
    elif (
        call.name in ("tar", "bsdtar", "gtar")
        and "x" in first
        and call.cwd
        and not any(word.startswith(("-C", "--directory")) for word in words)
    ) or (call.name == "unzip" and "-d" not in words and not _has(call, "lpvtZ")):
        policy.write(policy.path(".", call) + "/x", call)
    if call.name in ("tar", "zip", "bsdtar", "gtar") and _has(
        call, "", "--remove-files", "--delete", "--move"
    ):
        policy.note("recursive-delete", "deletes files once they are packed", call.span)


def _split_files(policy: Policy, call: Call, shape: Shape) -> None:
    operands = _operands(call, "-b -l -n -a -C -f -d --bytes --lines --number --filter --suffix-length")
    if len(operands) > 1:
        policy.write(policy.path(operands[1], call), call)
    for name, value in options_of(call.argv[1:], frozenset(("--filter", "-f")))[0]:
        if name == "-f" and value:
            policy.write(policy.path(value, call), call)


def _output_option(policy: Policy, call: Call, shape: Shape) -> None:
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


def _chmod(policy: Policy, call: Call, shape: Shape) -> None:
    words = [word for word in call.argv[1:]]
    recursive = _has(call, "R", "--recursive")
    operands = [word for word in words if not word.startswith("-") or re.fullmatch(r"-[rwxXst]+", word)]
    mode = ""
    if not any(word.startswith("--reference") for word in words) and operands:
        mode, operands = operands[0], operands[1:]
    elif operands:
        pass
    wide = _wide(mode)
    policy.read_only = False
    for one in operands:
        path = policy.path(one, call)
        found = policy.classes.of(path)
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


def _wide(mode: str) -> str:
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


def _chown(policy: Policy, call: Call, shape: Shape) -> None:
    recursive = _has(call, "R", "--recursive")
    operands = _operands(call, "--from")
    owner = operands[0] if operands else ""
    reference = any(word.startswith("--reference") for word in call.argv)
    for one in operands if reference else operands[1:]:
        path = policy.path(one, call)
        found = policy.classes.of(path)
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


# Processes


def _kill(policy: Policy, call: Call, shape: Shape) -> None:
    words = call.argv[1:]
    targets: list[str] = []
    index = 0
    signal = ""
    ended = False
    while index < len(words):
        word = words[index]
        if ended:
            targets.append(word)
        elif word in ("-l", "-L", "--list", "--table"):
            return
        elif word == "--":
            ended = True
        elif word in ("-s", "-n", "--signal", "-q"):
            index += 1
            signal = words[index] if index < len(words) else ""
        elif word[:1] == "-" and not signal and not targets and len(word) > 1:
            signal = word[1:]
            if index == len(words) - 1 and re.fullmatch(r"-1", word):
                targets.append(word)
        else:
            targets.append(word)
        index += 1
    if signal == "0":
        return
    policy.read_only = False
    for target in targets:
        if target == "-1" or re.fullmatch(r"-0*1", target) or EVERY in target:
            policy.note("kill-everything", "kills every process", call.span, "block")
        elif target in ("1", "-0", "0"):
            policy.note("kill-looked-up", "kills the first process, or its own group", call.span)
        elif PIDS in target:
            policy.note("kill-looked-up", "kills processes that are looked up", call.span)


def _pkill(policy: Policy, call: Call, shape: Shape) -> None:
    policy.read_only = False
    if _has(call, "l", "--list-name"):
        return
    if call.name in ("pkill", "skill", "killall", "slay"):
        for index, word in enumerate(call.argv):
            if (
                word in ("-u", "-U", "--euid", "--uid", "--user")
                and index + 2 >= len(call.argv)
                and call.name != "slay"
            ) or (word.startswith(("--euid=", "--uid=", "--user=")) and index + 1 >= len(call.argv)):
                policy.note("kill-everything", "kills every process of a user", call.span, "block")
        if any(
            word in (".", ".*", ".+", "^", "", "*", "[a-z]*", "-")
            for word in _operands(call, "-u -U -s --signal -g -t -n")
        ):
            policy.note("kill-everything", "kills every process", call.span, "block")
        if call.name == "slay" and len(call.argv) > 1:
            policy.note("kill-everything", "kills every process of a user", call.span, "block")
    if call.name == "killall5":
        policy.note("kill-everything", "kills every process", call.span, "block")


# The network


def _local_url(word: str) -> bool:
    text = re.sub(r"^\w+://", "", word)
    text = text.rpartition("@")[2]
    return (
        re.match(
            r"(?:localhost|127\.|0\.0\.0\.0|\[?::1|host\.docker\.internal|"
            r":\d|[\w-]+\.localhost\b|10\.0\.2\.2|[a-z][\w-]*:\d+)",
            text,
        )
        is not None
    )


_DATA = marks.names(
    "-d --data --data-raw --data-binary --data-ascii --data-urlencode -F "
    "--form --form-string --json --post-data --body-data --url-query"
)
_FILES = marks.names("-T --upload-file --post-file --body-file")
_VALUED = (
    _DATA
    | _FILES
    | marks.names(
        "-H --header -X --request -o --output -u --user -A -e -b -c "
        "-x -m -w --url --method -O -U -P --directory-prefix"
    )
)


def _curl(policy: Policy, call: Call, shape: Shape) -> None:
    words = call.argv[1:]
    urls: list[str] = []
    data: list[str] = []
    files: list[str] = []
    found, rest = options_of(words, _VALUED)
    pairs = list(found)
    while rest:
        urls.append(rest[0])
        found, rest = options_of(rest[1:], _VALUED)
        pairs += found
    for name, value in pairs:
        if name in _DATA:
            data.append(value)
            if name in ("-F", "--form") and re.search(r"=[@<]", value):
                files.append(re.split(r"=[@<]", value, maxsplit=1)[1].split(";")[0])
            elif value.startswith("@") or (re.match(r"[\w.]*@", value) and name == "--data-urlencode"):
                data.append("@" + value.partition("@")[2])
        elif name in _FILES:
            files.append(value)
        elif name in ("--url",):
            urls.append(value)
        elif (
            (
                (
                    name
                    in (
                        "-o",
                        "--output",
                        "--output-dir",
                        "-D",
                        "--dump-header",
                        "--trace",
                        "--stderr",
                        "-c",
                        "--cookie-jar",
                    )
                    and call.name != "wget"
                )
                or (
                    name in ("-O", "--output-document", "-o", "-a", "-P", "--directory-prefix")
                    and call.name
                    in (
                        "wget",
                        "wget2",
                    )
                )
            )
            and value
            and value not in ("-", "/dev/null")
        ):
            policy.write(policy.path(value, call), call)
    if call.name in ("http", "https", "xh", "curlie"):
        files += [one.partition("@")[2] for one in urls if re.match(r"[\w.-]*@", one)]
        if call.stdin is not None and marks.unknown(call.stdin) and not all(map(_local_url, urls[:2])):
            policy.leaving(call, [call.stdin])
    if call.name in ("curl", "wget") and re.search(
        r"^-O", " ".join(word for word in words if re.match(r"-[a-zA-Z]*O", word))
    ):
        policy.write(policy.path("x", call), call)
    local = bool(urls) and all(_local_url(one) for one in urls if not one.startswith("-"))
    texts = [one for one in [*data, *urls, *files] if one]
    texts += [
        value
        for name, value in pairs
        if name in ("-H", "--header", "-A", "-e", "-b", "--cookie", "--user-agent", "--referer")
    ]
    for one in data:
        if one.startswith("@"):
            files_read = one[1:]
            if files_read == "-":
                texts.append(call.stdin or "")
            else:
                texts.append(_held(policy, call, files_read))
    for one in files:
        if one in ("-", ".") and call.stdin is not None:
            texts.append(call.stdin)
        texts.append(_held(policy, call, one))
    if policy.leaving(call, texts):
        return
    if files and not local:
        policy.note("upload", "sends a file to another machine", call.span)
    elif (
        ("@-" in data and not local and call.stdin is not None and marks.unknown(call.stdin))
        or (any(OUTPUT in one for one in data) and not local)
        or (
            not local
            and any(OUTPUT in re.sub(r"^\w+://", "", one) and re.search(r"[?=.]", one) for one in urls)
        )
    ):
        policy.note("upload", "sends what another command printed to another machine", call.span)


def _held(policy: Policy, call: Call, word: str) -> str:
    path = policy.path(word, call)
    return policy.held.get(path, "") + policy.held_by(path)


def _nc(policy: Policy, call: Call, shape: Shape) -> None:
    """nc and its like: what goes into it leaves the machine."""
    text = call.stdin
    if text is None:
        return
    local = any(_local_url(word) for word in call.argv[1:])
    if policy.leaving(call, [text]) or local:
        return
    if marks.unknown(text):
        policy.note("upload", "sends a file or what another command printed to another machine", call.span)


def _dns(policy: Policy, call: Call, shape: Shape) -> None:
    for word in call.argv[1:]:
        if OUTPUT in word and "." in word:
            policy.note("dns-tunnel", "looks up a name that a command made up", call.span)
            return
    if call.name == "ping" and any(word == "-p" for word in call.argv):
        policy.note("dns-tunnel", "sends text in packets", call.span)
    policy.leaving(call, call.argv[1:])


def _ssh(policy: Policy, call: Call, shape: Shape) -> None:
    if call.stdin is not None and policy.leaving(call, [call.stdin]):
        return
    if call.stdin is not None and marks.unknown(call.stdin):
        policy.note("upload", "sends a file or what another command printed to another machine", call.span)


def _sends(policy: Policy, call: Call, shape: Shape) -> None:
    if call.stdin is not None:
        policy.leaving(call, [call.stdin])
    policy.leaving(call, [*call.argv[1:], *(_held(policy, call, word) for word in _operands(call))])


# sudo


def _sudo(policy: Policy, call: Call, shape: Shape) -> None:
    """A password that is fed to sudo."""
    fed = False
    words = call.argv[1:]
    index = 0
    valued = marks.names("-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir")
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        word = words[index]
        if word.startswith("--"):
            name = word.partition("=")[0]
            fed = fed or (len(name) > 4 and ("--stdin".startswith(name) or "--askpass".startswith(name)))
        else:
            for place, letter in enumerate(word[1:], 1):
                if letter in "SA":
                    fed = True
                if "-" + letter in valued:
                    if place == len(word) - 1:
                        index += 1
                    break
        if word in valued and word.startswith("--"):
            index += 1
        index += 1
    if (
        call.name in ("su", "doas")
        and call.stdin is not None
        and call.stdin.strip()
        and _secretish(call.stdin)
    ):
        fed = True
    if "SUDO_ASKPASS" in call.env:
        fed = True
    if fed and not policy.sudo_password and call.place != "container":
        policy.note("sudo-password", "feeds a password to sudo, and none is configured", call.span, "block")


def _secretish(text: str) -> bool:
    # One short line is a password; a script is many words.
    return "\n" not in text.strip() and len(text.split()) <= 1


def _sshpass(policy: Policy, call: Call, shape: Shape) -> None:
    if any(word.startswith(("-p", "-f", "-d", "-e")) for word in call.argv[1:]):
        policy.note("root", "feeds a password to a program", call.span)


# Containers


def _container(policy: Policy, call: Call, shape: Shape) -> None:
    words = call.argv[1:]
    for index, word in enumerate(words):
        value = ""
        if word in ("-v", "--volume", "--mount", "--bind", "-B", "--device"):
            value = words[index + 1] if index + 1 < len(words) else ""
        elif word.startswith(("--volume=", "--mount=", "--bind=")):
            value = word.partition("=")[2]
        elif re.match(r"-v[/~.]", word):
            value = word[2:]
        if not value:
            continue
        source = value
        if "src=" in value or "source=" in value:
            found = re.search(r"(?:src|source)=([^,]*)", value)
            source = found.group(1) if found else ""
        else:
            source = value.split(":")[0]
        if not source.startswith(("/", "~", ".", "$")) and not marks.unknown(source):
            continue
        path = policy.path(source, call)
        classes = policy.classes.of(path)
        reach = path.endswith((".sock", "/docker.sock")) or (
            classes
            and classes[0]
            in ("root", "top", "home-itself", "device", "secret", "agent", "agent_secret", "special")
        )
        reach = reach or bool({"system", "secret", "agent", "kernel"} & set(classes))
        if reach and not re.search(
            r"/etc/(?:localtime|timezone|passwd|group|hosts|resolv\.conf)|/usr/share/|/etc/ssl/certs",
            path,
        ):
            policy.note("host-mount", f"gives a container {marks.shown(path)} of this machine", call.span)
    if (
        call.name in ("docker", "podman")
        and any(PIDS in word or (OUTPUT in word and SPLIT in word) for word in words)
        and any(word in ("stop", "kill", "rm", "rmi", "restart", "pause") for word in words)
    ):
        policy.note("docker-destroy", "stops or deletes containers that are looked up", call.span)


# Disks

_PARTITIONS = marks.names(
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


def _partition(policy: Policy, call: Call, shape: Shape) -> None:
    """Programs that write to the disk which they are given."""
    if call.name == "shred":
        _shred(policy, call, shape)
        return
    words = call.argv[1:]
    looks = (
        _LOOKS - {"-s", "-n", "-v", "-d"}
        if call.name in ("parted", "mkswap", "blkdiscard", "badblocks", "pvremove")
        else _LOOKS - {"-v"}
    )
    if call.name.startswith(("mkfs", "mke2fs")):
        looks = frozenset(("-n", "-N", "-V", "--version", "--help"))
    if any(word in looks for word in words):
        return
    if call.name == "wipefs" and not _has(call, "ao", "--all", "--offset"):
        return
    if call.name == "badblocks" and not _has(call, "w"):
        return
    for word in words:
        path = policy.path(word.partition("=")[2] or word, call)
        if "device" in policy.classes.of(path) and not path.startswith("/dev/loop"):
            policy.note("overwrite-device", f"overwrites the disk {marks.shown(path)}", call.span, "block")


def _cat(policy: Policy, call: Call, shape: Shape) -> None:
    endless = ("/dev/zero", "/dev/urandom", "/dev/random", "/dev/full")
    if (not call.captured or call.to) and any(word in endless for word in call.argv[1:]):
        policy.note("endless-output", "prints without end", call.span)


def _yes(policy: Policy, call: Call, shape: Shape) -> None:
    if not call.captured or call.to:
        policy.note("endless-output", "prints without end", call.span)


# The shell itself


def _unset(policy: Policy, call: Call, shape: Shape) -> None:
    from ._environment import variable_rule

    for word in call.argv[1:]:
        if variable_rule(word, "x") == "agent-environment":
            policy.note("agent-environment", f"takes away {word}", call.span)
        elif word in ("HISTFILE", "PROMPT_COMMAND"):
            policy.note("environment", f"takes away {word}", call.span)


_WELL_KNOWN = marks.names(
    "sudo su ls cd cat git ssh scp curl wget cp mv rm echo grep find python "
    "python3 pip npm node docker kubectl make sh bash test passwd "
    "ps kill man less vim which type command builtin exit source eval "
    "export doas chmod chown apt brew ping gpg openssl hermes"
)


def _alias(policy: Policy, call: Call, shape: Shape) -> None:
    for word in call.argv[1:]:
        name, equals, value = word.partition("=")
        if (
            equals
            and name in ("sudo", "su", "ssh", "passwd", "doas", "gpg", "hermes")
            and value.strip() not in (name,)
        ):
            policy.note("shadowed-command", f"gives {name} another meaning", call.span)


def _hash(policy: Policy, call: Call, shape: Shape) -> None:
    if "-p" in call.argv:
        policy.note("shadowed-command", "makes a name run another file", call.span)


def _enable(policy: Policy, call: Call, shape: Shape) -> None:
    if any(word in ("-n", "-f") or re.match(r"-[a-z]*[nf]", word) for word in call.argv[1:]):
        policy.note("shadowed-command", "switches commands of the shell off, or loads others", call.span)


def _grep(policy: Policy, call: Call, shape: Shape) -> None:
    """A search for credentials in the environment, or in what many files hold."""
    pattern = next((word for word in call.argv[1:] if not word.startswith("-")), "")
    secretish = re.search(r"(?i)key|secret|pass|token|cred|api", pattern) is not None
    if secretish and call.stdin is not None and ENVIRON in call.stdin and not _has(call, "vcq"):
        policy.note("show-secret", "prints credentials of the environment", call.span)
    if (
        secretish
        and any("history" in word for word in call.argv[1:])
        and re.search(r"(?i)pass|secret|token|key", pattern)
    ):
        policy.note("read-secret", "looks for credentials in a history", call.span)
    recursive = _has(call, "rR", "--recursive") or call.name in ("rg", "ag", "ack")
    if recursive and re.search(r"BEGIN.*(?:PRIVATE|RSA|OPENSSH)|AKIA|ghp_|sk-|aws_secret|xox[bp]", pattern):
        for word in call.argv[1:]:
            if policy.path(word, call) in ("~", "/") or policy.path(word, call).startswith("/home"):
                policy.note("read-secret", "looks for credentials in a home", call.span)
    _read_roots(policy, call)


def _read_roots(policy: Policy, call: Call) -> None:
    return


def _printenv(policy: Policy, call: Call, shape: Shape) -> None:
    from ._expand import secret_name

    if any(secret_name(word) for word in call.argv[1:]) and not call.captured:
        policy.note("show-secret", "prints a credential", call.span)


def _ps(policy: Policy, call: Call, shape: Shape) -> None:
    if (
        len(call.argv) > 1
        and not call.argv[1].startswith("-")
        and "e" in call.argv[1]
        and call.argv[1] != "e"
        and re.fullmatch(r"[a-z]+", call.argv[1])
        and call.argv[1][-1] == "e"
    ):
        policy.note("show-secret", "prints the environment of processes", call.span)


def _find_reads(policy: Policy, call: Call, shape: Shape) -> None:
    _find(policy, call, shape)
    words = call.argv[1:]
    names = " ".join(words)
    if (
        "-exec" in words
        and re.search(r"\.env\b|id_rsa|id_ed25519|credentials|\.pem|\.key\b|\.kdbx|wallet", names)
        and re.search(r"\b(?:cat|cp|tar|curl|base64|head|less|scp|zip|grep)\b", names)
        and any(policy.path(one, call) in ("/", "~", "/home", "/root", "/etc") for one in words[:1])
    ):
        policy.note("read-secret", "reads credentials that are looked for", call.span)


def _date(policy: Policy, call: Call, shape: Shape) -> None:
    return


def _init(policy: Policy, call: Call, shape: Shape) -> None:
    return


def _git(policy: Policy, call: Call, shape: Shape) -> None:
    words = call.argv[1:]
    for index, word in enumerate(words):
        if word == "--git-dir" or word.startswith("--git-dir="):
            continue
        if word == "-C" and index + 1 < len(words):
            continue
    names = [word for word, _ in shape.operands]
    if "clone" in names[:2]:
        operands = _operands(
            call,
            "-b --branch --depth -o --origin -c --config --reference --separate-git-dir -j --jobs --filter",
        )
        if len(operands) > 2:
            policy.write(policy.path(operands[2], call), call)


def _pip(policy: Policy, call: Call, shape: Shape) -> None:
    _output_option(policy, call, shape)


_QUIET = Effect(quiet=True)
_NAMES = Effect(reads=False, quiet=True)

EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(marks.names("rm unlink grm del"), Effect(_rm, reads=False)),
    "rmdir": Effect(_rmdir, reads=False),
    **dict.fromkeys(("find", "gfind", "bfs"), Effect(_find_reads, reads=False, quiet=True)),
    **dict.fromkeys(marks.names("cp mv install gcp gmv ditto rsync scp"), Effect(_copy)),
    "ln": Effect(_copy, reads=False),
    **dict.fromkeys(marks.names("touch mkdir mkfifo mknod"), Effect(_writes, reads=False)),
    "tee": Effect(_tee, reads=False),
    "sponge": Effect(_tee, reads=False),
    "truncate": Effect(_truncate, reads=False),
    "dd": Effect(_dd),
    **dict.fromkeys(marks.names("sed gsed perl ruby yq dasel xmlstarlet awk gawk"), Effect(_in_place)),
    **dict.fromkeys(marks.names("vim vi nvim ex ed nano emacs pico micro view"), Effect(_editor)),
    "patch": Effect(_patch),
    **dict.fromkeys(marks.names("tar bsdtar gtar unzip zip 7z cpio unar"), Effect(_archive)),
    **dict.fromkeys(("split", "csplit"), Effect(_split_files)),
    **dict.fromkeys(
        marks.names(
            "pip pip3 sort gcc cc clang g++ go objcopy openssl ssh-keygen age gpg iconv jq tcpdump "
            "perf strace ltrace time script convert magick shuf tree pandoc ffmpeg xxd base64 "
            "uudecode protoc esbuild tsc cargo npm make cmake pg_dump mysqldump aria2c git-x"
        ),
        Effect(_output_option),
    ),
    "chmod": Effect(_chmod, reads=False),
    **dict.fromkeys(("chown", "chgrp"), Effect(_chown, reads=False)),
    "kill": Effect(_kill, reads=False),
    **dict.fromkeys(marks.names("pkill killall killall5 skill slay"), Effect(_pkill, reads=False)),
    **dict.fromkeys(marks.names("curl wget wget2 http https xh curlie"), Effect(_curl)),
    **dict.fromkeys(marks.names("nc ncat netcat socat telnet openssl-s_client"), Effect(_nc)),
    **dict.fromkeys(marks.names("dig host nslookup drill ping ping6 traceroute"), Effect(_dns)),
    "ssh": Effect(_ssh, reads=False),
    **dict.fromkeys(
        marks.names("pastebinit gist wgetpaste mail mailx sendmail logger lp qrencode-x"), Effect(_sends)
    ),
    **dict.fromkeys(marks.names("sudo su doas runuser sudo-rs"), Effect(_sudo, reads=False)),
    "sshpass": Effect(_sshpass),
    **dict.fromkeys(_PARTITIONS, Effect(_partition, reads=False)),
    "yes": Effect(_yes, reads=False),
    **dict.fromkeys(
        marks.names(
            "gsutil aws rclone az gcloud s3cmd s5cmd b2 mc azcopy gh "
            "glab croc magic-wormhole wormhole ffsend transfer"
        ),
        Effect(_sends),
    ),
    **dict.fromkeys(
        marks.names("docker podman nerdctl docker-compose podman-compose singularity apptainer ctr crictl"),
        Effect(_container),
    ),
    **dict.fromkeys(("unset",), Effect(_unset, reads=False, quiet=True)),
    "alias": Effect(_alias, reads=False, quiet=True),
    "hash": Effect(_hash, reads=False, quiet=True),
    "enable": Effect(_enable, reads=False, quiet=True),
    **dict.fromkeys(marks.names("grep egrep fgrep rg zgrep ag ack"), Effect(_grep, quiet=True)),
    "printenv": Effect(_printenv, reads=False, quiet=True),
    "ps": Effect(_ps, reads=False, quiet=True),
    "git": Effect(_git, reads=False),
    # What only names files, or changes nothing
    **dict.fromkeys(
        marks.names(
            "ls stat test [ file cd pushd popd which type command basename dirname realpath readlink "
            "pwd tree du df true false : echo printf lsof id whoami uname date uptime hostname sleep "
            "wait jobs exit return break continue shift locate whereis arch nproc tty groups users who "
            "w free vmstat lscpu lsblk lsusb lspci seq expr let set shopt umask ulimit declare typeset "
            "local export readonly unalias read mapfile readarray getopts times builtin caller compgen "
            "complete dirs disown fg bg help history logname man info apropos whatis tput clear lsattr "
            "getfacl namei pgrep pidof pstree top htop getent locale cal factor fd fdfind exa eza lsd"
        ),
        _NAMES,
    ),
    **dict.fromkeys(
        marks.names(
            "cat head tail less more wc uniq cut tr diff cmp comm nl tac rev fold column paste join "
            "md5sum sha1sum sha256sum sha512sum cksum strings od hexdump "
            "bat fmt expand unexpand look tsort shuf zcat xzcat bzcat"
        ),
        _QUIET,
    ),
    "cat": Effect(_cat, quiet=True),
    **dict.fromkeys(
        marks.names(
            "figlet cowsay say espeak toilet banner lolcat notify-send tldr "
            "cheat xclip wl-copy pbcopy dialog whiptail zenity vale"
        ),
        _QUIET,
    ),
}
