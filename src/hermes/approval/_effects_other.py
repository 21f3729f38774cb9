"""What programs do to processes, over the network, as other users and to the shell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from hermes._lazy import Lazy

from . import _effects_trees as trees
from . import _marks as marks
from ._call import Call
from ._effect import has, operands_of
from ._marks import ENVIRON, EVERY, OUTPUT, PIDS, SPLIT
from ._options import apart, options_of, searched
from ._rules import Shape

if TYPE_CHECKING:
    from ._policy import Policy


# Processes


# What systemd stops or restarts the machine at, as by Ctrl-Alt-Del.
_ENDS_ALL = Lazy(r"(?i)(?:sig)?(?:int|rtmin\+(?:[3-6]|1[3-6]))|2|3[7-9]|40|4[7-9]|50")


def kill(policy: Policy, call: Call, shape: Shape) -> None:
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
        every = marks.globbed(target) and re.fullmatch(r"(?:\[[\d-]+\])?\*", marks.plain(target))
        if every or target == "-1" or re.fullmatch(r"-0*1", target) or EVERY in target:
            policy.note("kill-everything", "kills every process", call.span, "block")
        elif target == "1" and _ENDS_ALL.fullmatch(signal):
            policy.note("machine-off", "asks the first process to stop the machine", call.span, "block")
        elif target in ("1", "-0", "0"):
            policy.note("kill-looked-up", "kills the first process, or its own group", call.span)
        elif PIDS in target:
            policy.note("kill-looked-up", "kills processes that are looked up", call.span)


_PKILL = "-u -U --euid --uid --user -s --signal -g -t -n -o --ns"


def fuser(policy: Policy, call: Call, shape: Shape) -> None:
    if has(call, "k", "--kill") and has(call, "mMc", "--mount", "--ismountpoint"):
        for one in operands_of(call, "-n --namespace"):
            if policy.path(one, call) in ("/", "/home", "/usr", "/dev", "/proc"):
                policy.note("kill-everything", "kills every process that has a file open", call.span, "block")


def pkill(policy: Policy, call: Call, shape: Shape) -> None:
    policy.read_only = False
    if has(call, "l", "--list-name"):
        return
    if call.name in ("pkill", "skill", "killall", "slay"):
        chosen = has(call, "uU", "--euid", "--uid", "--user")
        if chosen and not operands_of(call, _PKILL) and call.name != "slay" and not has(call, "ftPsgGx"):
            policy.note("kill-everything", "kills every process of a user", call.span, "block")
        for index, word in enumerate(call.argv):
            if (
                word in ("-u", "-U", "--euid", "--uid", "--user")
                and index + 2 >= len(call.argv)
                and call.name != "slay"
            ) or (word.startswith(("--euid=", "--uid=", "--user=")) and index + 1 >= len(call.argv)):
                policy.note("kill-everything", "kills every process of a user", call.span, "block")
        if any(
            word in (".", ".*", ".+", "^", "", "*", "[a-z]*", "-")
            for word in operands_of(call, "-u -U -s --signal -g -t -n")
        ):
            policy.note("kill-everything", "kills every process", call.span, "block")
        if call.name == "slay" and len(call.argv) > 1:
            policy.note("kill-everything", "kills every process of a user", call.span, "block")
    if call.name == "killall5":
        policy.note("kill-everything", "kills every process", call.span, "block")


# The network


def local_url(word: str) -> bool:
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


def curl(policy: Policy, call: Call, shape: Shape) -> None:
    words = call.argv[1:]
    data: list[str] = []
    files: list[str] = []
    pairs, urls = apart(words, _VALUED)
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
        files += [one.partition("@")[2] for one in urls if re.match(r"[\w.-]*:?=?@", one)]
        if call.stdin is not None and marks.unknown(call.stdin) and not all(map(local_url, urls[:2])):
            policy.leaving(call, [call.stdin])
    if call.name in ("curl", "wget") and re.search(
        r"^-O", " ".join(word for word in words if re.match(r"-[a-zA-Z]*O", word))
    ):
        policy.write(policy.path("x", call), call)
    local = bool(urls) and all(local_url(one) for one in urls if not one.startswith("-"))
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
                texts.append(held(policy, call, files_read))
    for one in files:
        if one in ("-", ".") and call.stdin is not None:
            texts.append(call.stdin)
        texts.append(held(policy, call, one))
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


def held(policy: Policy, call: Call, word: str) -> str:
    path = policy.path(word, call)
    return policy.held.get(path, "") + policy.held_by(path)


_ASKS_THERE = Lazy(r"(?i)(?:exec|system|shell):\W*(?:\S*/)?(?:sudo|su|doas)\b.*,\s*(?:pty|ctty)")


def nc(policy: Policy, call: Call, shape: Shape) -> None:
    """nc and its like: what goes into it leaves the machine."""
    text = call.stdin
    if call.name == "socat":
        asks = any(_ASKS_THERE.match(one) for one in call.argv[1:])
        if asks and not policy.sudo_password and call.place != "container":
            policy.note(
                "sudo-password", "feeds a password to sudo, and none is configured", call.span, "block"
            )
        named = [re.match(r"(?i)(?:file|open|gopen|rdonly):([^,]+)", one) for one in call.argv[1:]]
        files = [one.group(1) for one in named if one is not None]
        if any(re.match(r"(?i)(?:tcp|udp|openssl|ssl|socks|proxy)\d?\w*:", one) for one in call.argv[1:]):
            policy.leaving(call, [held(policy, call, one) for one in files])
    if text is None:
        return
    local = any(local_url(word) for word in call.argv[1:])
    if policy.leaving(call, [text]) or local:
        return
    if marks.unknown(text):
        policy.note("upload", "sends a file or what another command printed to another machine", call.span)


def dns(policy: Policy, call: Call, shape: Shape) -> None:
    for word in call.argv[1:]:
        if OUTPUT in word and "." in word:
            policy.note("dns-tunnel", "looks up a name that a command made up", call.span)
            return
    if call.name == "ping" and any(word == "-p" for word in call.argv):
        policy.note("dns-tunnel", "sends text in packets", call.span)
    policy.leaving(call, call.argv[1:])


def ssh(policy: Policy, call: Call, shape: Shape) -> None:
    if call.stdin is not None and policy.leaving(call, [call.stdin]):
        return
    if call.stdin is not None and marks.unknown(call.stdin):
        policy.note("upload", "sends a file or what another command printed to another machine", call.span)


def openssl(policy: Policy, call: Call, shape: Shape) -> None:
    from ._effects_files import output_option

    if "s_client" in call.argv[1:2]:
        nc(policy, call, shape)
    output_option(policy, call, shape)


_ASKS = Lazy(r"\s*-?(?:put|mput|reput|rm|rmdir|rename|chmod|chown|chgrp|ln|symlink|mkdir)\b")


def sftp(policy: Policy, call: Call, shape: Shape) -> None:
    """sftp: what its input tells it to do there."""
    for line in (call.stdin or "").split("\n"):
        if _ASKS.match(line):
            policy.reads(call, line.split()[1:])
            policy.note("upload", f"changes files on another machine: {marks.shown(line.strip())}", call.span)
            return
    if call.stdin is not None and marks.unknown(call.stdin):
        policy.note("upload", "does on another machine what is not known", call.span)


_PASTES = marks.names("pastebinit wgetpaste gist ffsend transfer transfer.sh bupload")


def sends(policy: Policy, call: Call, shape: Shape) -> None:
    if call.stdin is not None:
        policy.leaving(call, [call.stdin])
    if call.name in _PASTES and (call.stdin is not None or operands_of(call)):
        policy.note("upload", "sends a file to where others can read it", call.span)
    tells = re.compile(r"cp|copy|sync|put|upload|mv|rsync|send|cp-r|upload-batch|object|storage")
    if any(tells.fullmatch(word) for word in call.argv[1:5]):
        broad(policy, call, operands_of(call)[:-1])
    policy.leaving(call, [*call.argv[1:], *(held(policy, call, word) for word in operands_of(call))])


def broad(policy: Policy, call: Call, words: Sequence[str]) -> None:
    """Judge directories that are sent: a home, and what lies in it for all programs, holds credentials."""
    for word in words:
        if word.startswith(("/", "~", ".", "$")) and re.fullmatch(
            r"~(?:/\.config|/\.local(?:/share)?|/Library(?:/Application Support)?|/\.mozilla|/\.cache|"
            r"/Documents|/Desktop|/Downloads|/Pictures|/Photos|/Videos)?|/|"
            r"/(?:home|root|etc|var|Users)(?:/[\w.-]+)?",
            policy.path(word, call).rstrip("/*" + marks.STAR) or "/",
        ):
            policy.note("send-secret", f"sends all of {marks.shown(word)}, with its credentials", call.span)


# Other users


def sudo(policy: Policy, call: Call, shape: Shape) -> None:
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
        and secretish(call.stdin)
    ):
        fed = True
    if "SUDO_ASKPASS" in call.env:
        fed = True
    if fed and not policy.sudo_password and call.place != "container":
        policy.note("sudo-password", "feeds a password to sudo, and none is configured", call.span, "block")


def secretish(text: str) -> bool:
    # One short line is a password; a script is many words.
    return "\n" not in text.strip() and len(text.split()) <= 1


def sshpass(policy: Policy, call: Call, shape: Shape) -> None:
    if any(word.startswith(("-p", "-f", "-d", "-e")) for word in call.argv[1:]):
        policy.note("root", "feeds a password to a program", call.span)
    _, rest = options_of(call.argv[1:], marks.names("-p -f -d -P"))
    if rest and rest[0].rpartition("/")[2] in ("sudo", "su", "doas") and call.place != "container":
        policy.note("sudo-password", "feeds a password to sudo, and none is configured", call.span, "block")


# Containers


def container(policy: Policy, call: Call, shape: Shape) -> None:
    words = call.argv[1:]
    for index, word in enumerate(words):
        value = ""
        if word in ("--volume", "--mount", "--bind", "-B", "--device") or re.fullmatch(r"-[a-zA-Z]*v", word):
            value = words[index + 1] if index + 1 < len(words) else ""
        elif word.startswith(("--volume=", "--mount=", "--bind=")):
            value = word.partition("=")[2]
        elif joined := re.fullmatch(r"-[a-zA-Z]*v=?([/~.$].*)", word):
            value = joined.group(1)
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


# The shell itself


def unset(policy: Policy, call: Call, shape: Shape) -> None:
    from ._environment import variable_rule

    for word in call.argv[1:]:
        if variable_rule(word, "x") == "agent-environment":
            policy.note("agent-environment", f"takes away {word}", call.span)
        elif word in ("HISTFILE", "PROMPT_COMMAND"):
            policy.note("environment", f"takes away {word}", call.span)


def alias(policy: Policy, call: Call, shape: Shape) -> None:
    if any(re.fullmatch(r"[-+][a-z]*[gs]", word) for word in call.argv[1:]):
        policy.note("shadowed-command", "changes what any word of a command may mean", call.span)
    for word in call.argv[1:]:
        name, equals, value = word.partition("=")
        if (
            equals
            and name in ("sudo", "su", "ssh", "passwd", "doas", "gpg", "hermes")
            and value.strip() not in (name,)
        ):
            policy.note("shadowed-command", f"gives {name} another meaning", call.span)


def hash(policy: Policy, call: Call, shape: Shape) -> None:
    if "-p" in call.argv:
        policy.note("shadowed-command", "makes a name run another file", call.span)


def enable(policy: Policy, call: Call, shape: Shape) -> None:
    if any(word in ("-n", "-f") or re.match(r"-[a-z]*[nf]", word) for word in call.argv[1:]):
        policy.note("shadowed-command", "switches commands of the shell off, or loads others", call.span)


_FULL_OF_SECRETS = marks.names("~ / /home /root ~/.config ~/.local ~/.local/share ~/Library")


def grep(policy: Policy, call: Call, shape: Shape) -> None:
    """A search for credentials in the environment, or in what many files hold."""
    words = call.argv[1:]
    place = next((index for index, word in enumerate(words) if not word.startswith("-")), len(words))
    pattern = words[place] if place < len(words) else ""
    policy.reads(call, searched(words))
    secretish = re.search(r"(?i)key|secret|pass|token|cred|api", pattern) is not None
    if secretish and call.stdin is not None and ENVIRON in call.stdin and not has(call, "vcq"):
        policy.note("show-secret", "prints credentials of the environment", call.span)
    if (
        secretish
        and any("history" in word for word in call.argv[1:])
        and re.search(r"(?i)pass|secret|token|key", pattern)
    ):
        policy.note("read-secret", "looks for credentials in a history", call.span)
    recursive = has(call, "rR", "--recursive") or call.name in ("rg", "ag", "ack")
    if recursive and re.search(r"(?i)passw|secret|token|credential|api.?key", pattern):
        for word in words[place + 1 :]:
            if word[:1] != "-" and policy.path(word, call) in _FULL_OF_SECRETS:
                policy.note("read-secret", "looks for credentials in a home", call.span)
    if recursive and re.search(r"BEGIN.*(?:PRIVATE|RSA|OPENSSH)|AKIA|ghp_|sk-|aws_secret|xox[bp]", pattern):
        for word in call.argv[1:]:
            if policy.path(word, call) in ("~", "/") or policy.path(word, call).startswith("/home"):
                policy.note("read-secret", "looks for credentials in a home", call.span)


def encode(policy: Policy, call: Call, shape: Shape) -> None:
    """Programs that make a text unreadable: a credential that goes through one is on its way out."""
    if call.stdin is not None and any(mark in call.stdin for mark in (ENVIRON, marks.SECRET, marks.KEY)):
        policy.note("show-secret", "encodes credentials or the environment", call.span)


def printenv(policy: Policy, call: Call, shape: Shape) -> None:
    from ._expand import secret_name

    if any(secret_name(word) for word in call.argv[1:]) and not call.captured:
        policy.note("show-secret", "prints a credential", call.span)


# Letters without a dash (`auxe`, `eww`), or on macOS with one; and options that take the next word.
_PS_SHOWS = Lazy(r"[acf-hj-npqr-xACEGHLNSTUXZ]*e[acef-hj-npqr-xACEGHLNSTUXZ]*|-[a-zA-Z]*E[a-zA-Z]*")
_PS_VALUED = Lazy(r"-[a-zA-Z]*[oOpCugGstU]|[a-zA-Z]*[oOptUk]|--\w[\w-]*")


def ps(policy: Policy, call: Call, shape: Shape) -> None:
    for before, word in pairwise(("", *call.argv[1:])):
        if _PS_SHOWS.fullmatch(word) and not _PS_VALUED.fullmatch(before):
            policy.note("show-secret", "prints the environment of processes", call.span)


_GIT_CHANGES = marks.names(
    "pull checkout reset restore apply am merge rebase stash clean switch cherry-pick revert rm mv"
)


def git(policy: Policy, call: Call, shape: Shape) -> None:
    words = call.argv[1:]
    for index, word in enumerate(words):
        if word == "--git-dir" or word.startswith("--git-dir="):
            continue
        if word == "-C" and index + 1 < len(words):
            continue
    names = [word for word, _ in shape.operands]
    place = call.cwd
    for before, word in pairwise(("", *words)):
        if before in ("-C", "--work-tree") or word.startswith("--work-tree="):
            place = policy.path(word.removeprefix("--work-tree="), call)
    cleans = "clean" in names[:2] and has(call, "d") and not has(call, "n", "--dry-run")
    if cleans and not {"root", "top", "home-itself"}.isdisjoint(policy.classes.of(place)):
        policy.delete(place, call, recursive=True)
    if "agent" in policy.classes.of(place) and not _GIT_CHANGES.isdisjoint(words):
        policy.write(place, call)
    if "--no-index" in words or "--contents" in words or "hash-object" in names[:1]:
        policy.reads(call, words)
    if "add" in names[:3] or "stage" in names[:3]:
        rest = operands_of(call, "-C -c --git-dir --work-tree --namespace")
        if rest[:1] in (["add"], ["stage"]):
            trees.added(policy, msgspec.structs.replace(call, cwd=place), rest[1:])
    if "push" in names[:1] and len(names) > 1:
        added = policy.held.get(policy.path(".git/remotes/" + names[1], call))
        if re.match(r"\w+://|[\w.-]+@[\w.-]+:|[\w.-]+\.[\w.-]+:", names[1]):
            policy.note("upload", "pushes to an address, not to a remote of the repository", call.span)
        elif added and (
            names[1] not in ("origin", "upstream") or has(call, "", "--all", "--mirror", "--tags")
        ):
            policy.note("upload", "pushes to a remote that was added in this session", call.span)
    if "clone" in names[:2]:
        operands = operands_of(
            call,
            "-b --branch --depth -o --origin -c --config --reference --separate-git-dir -j --jobs --filter",
        )
        if len(operands) > 2:
            policy.write(policy.path(operands[2], call), call)
