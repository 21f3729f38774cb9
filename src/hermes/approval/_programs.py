"""What well-known programs print, and which files they make, as far as later commands depend on it."""

from __future__ import annotations

import re
from functools import partial

import msgspec

from hermes._lazy import Lazy

from . import _marks as marks
from . import _paths as paths
from ._before import changed, pieces, substituted
from ._call import Call
from ._carriers import Handler, told
from ._decode import decoded, legible, way_of
from ._marks import BEFORE, DECODED, ENVIRON, EVERY, OUTPUT, PIDS, REMOTE, SECRET, UNKNOWN
from ._options import apart, options_of, searched
from ._run import Interpreter
from ._written import STDIN, divided, ordered, patch


def cat(run: Interpreter, call: Call) -> str:
    operands = [one for one in call.argv[1:] if not one.startswith("-") or one == "-"]
    if not operands:
        return call.stdin if call.stdin is not None else UNKNOWN
    out = ""
    for one in operands:
        path = run.path(one, call.cwd)
        if one == "-" or path in STDIN:
            out += call.stdin or ""
        else:
            text = run.reading(path)
            # In a file, the text of another that lay there is as known as it was.
            into = text == UNKNOWN and call.to[:1] in ("/", "~") and not call.to.startswith("/dev/")
            out += f"{BEFORE}\n" if into else text
    return out


_GREPS = marks.names("grep egrep fgrep rg zgrep ag ack")


def filtered(run: Interpreter, call: Call) -> str:
    """A filter: what it prints is unknown, but of the kind of what it reads."""
    texts = [call.stdin or ""]
    words = searched(call.argv[1:]) if call.name in _GREPS else call.argv[1:]
    for one in words:
        if not one.startswith("-") and ("/" in one or one in run.state.files or "." in one):
            texts.append(run.reading(run.path(one, call.cwd)))
    kinds = marks.kinds(*texts)
    if EVERY in texts[0] and call.name in (
        "awk",
        "tr",
        "sort",
        "sed",
        "cut",
        "tail",
        "xargs",
        "cat",
        "gawk",
        "mawk",
    ):
        kinds += EVERY
    if (
        EVERY in texts[0]
        and call.name in ("grep", "egrep")
        and not any(re.search(r"[A-Za-z]", one) for one in call.argv[1:] if not one.startswith("-"))
    ):
        kinds += EVERY
    return kinds


def passed(run: Interpreter, call: Call) -> str:
    """A filter that lets texts through as they are, but maybe not all of them."""
    text = call.stdin
    operands = [one for one in call.argv[1:] if not one.startswith("-")]
    if text is None or operands:
        return filtered(run, call)
    if call.name in ("head", "tail") and EVERY in text and PIDS not in text:
        return text.replace(EVERY, "")  # not all of them
    return text


def mknod(run: Interpreter, call: Call) -> str:
    """A device that is made is as good as the one of the system."""
    words = [one for one in call.argv[1:] if not re.match(r"-[^-]*$|--\w", one)]
    if len(words) > 2 and words[1] == "b" and words[2] not in ("7", "1"):
        run.state.links[run.path(words[0], call.cwd)] = "/dev/sda"
    return ""


def tee(run: Interpreter, call: Call) -> str:
    append = any(one in ("-a", "--append") for one in call.argv)
    for one in call.argv[1:]:
        if not one.startswith("-"):
            run.state.write(
                run.path(one, call.cwd), call.stdin if call.stdin is not None else UNKNOWN, append=append
            )
    return call.stdin if call.stdin is not None else UNKNOWN


_DECODING = Lazy(r"-[a-zA-Z]*[dD][a-zA-Z]*|--decode|--decompress|-r|-rp|-[a-z]*r[a-z]*|--uncompress|-d.*")


def decoder(run: Interpreter, call: Call) -> str:
    always = call.name in (
        "zcat",
        "gunzip",
        "bzcat",
        "xzcat",
        "uudecode",
        "zstdcat",
        "bunzip2",
        "unxz",
        "base64decode",
        "gzcat",
        "lz4cat",
        "uncompress",
    )
    kinds = filtered(run, call)
    if always or any(_DECODING.fullmatch(one) for one in call.argv[1:]):
        return _legible(run, call) or kinds + DECODED
    return kinds


def _legible(run: Interpreter, call: Call) -> str | None:
    """Decode a text that is known: the input, or a file of the session."""
    way = way_of(call.name, call.argv[1:])
    if not way:
        return None
    operands = [one for one in call.argv[1:] if one[:1] != "-" and one not in ("base64", "enc")]
    text = run.state.files.get(run.path(operands[-1], call.cwd)) if operands else call.stdin
    return decoded(legible(text), way) if text else None


_HTTPIE = marks.names("http https xh xhs")


def fetch(run: Interpreter, call: Call) -> str:
    """curl and wget: what they print or write came over the network."""
    found, operands = apart(call.argv[1:], _FETCH)
    target = ""
    folder = ""
    plain = call.name in (
        "curl",
        "http",
        "https",
        "xh",
        "xhs",
        "lynx",
        "w3m",
        "links",
        "GET",
        "lwp-request",
        "curlie",
        "fetch",
    )
    remote_name = False
    for name, value in found:
        if (name in ("-o", "--output", "--out") and call.name != "wget") or (
            name in ("-O", "--output-document") and call.name in ("wget", "wget2")
        ):
            target = value
        elif name in ("-P", "--directory-prefix", "--output-dir", "--dir", "--paths") or (
            name == "-d" and call.name == "aria2c"
        ):
            folder = value if value not in ("", "-") and call.name not in _HTTPIE else ""
        elif name.startswith("-") and not name.startswith("--"):
            if (call.name in ("curl", "curlie") and "O" in name) or (call.name in _HTTPIE and "d" in name):
                remote_name = True
            if call.name in ("wget", "wget2") and "O" in name and value:
                target = value
        elif name in ("--remote-name", "--remote-name-all") or (name == "--download" and plain):
            remote_name = True
    if call.name in ("wget", "wget2") and any("O-" in one for one in call.argv):
        target = "-"
    text = UNKNOWN + REMOTE
    if target in ("-", "/dev/stdout"):
        return text
    if folder and not target.startswith(("/", "~")):
        call = msgspec.structs.replace(call, cwd=run.path(folder, call.cwd))
    if target:
        run.state.write(run.path(target, call.cwd), text)
        return UNKNOWN
    if remote_name or not plain:
        if call.name in _HTTPIE:
            operands = [value for name, value in found if name == "-d" and value] + operands
        for one in operands:
            base = one.split("?")[0].rstrip("/").rpartition("/")[2]
            if base:
                run.state.write(run.path(base, call.cwd), text)
        return UNKNOWN
    return text


_FETCH = marks.names(
    "-o --output -O --output-document -H --header -d --data "
    "--data-raw --data-binary -F --form -X --request -u --user -A "
    "--user-agent -e --referer -b --cookie -c --cookie-jar -T "
    "--upload-file -x --proxy -m --max-time -w --write-out -P "
    "--directory-prefix --connect-timeout --retry --url -U -t -T "
    "--tries --timeout -K --config --cacert --cert --key --resolve "
    "--output-dir --dir --out --paths"
)


def curl_like(run: Interpreter, call: Call) -> str:
    if call.name in ("curl", "curlie"):
        # In curl -O takes no value.
        copy = [one for one in call.argv]
        for index, word in enumerate(copy):
            if re.fullmatch(r"-[a-zA-Z]*O", word):
                copy[index] = "--remote-name"
        call = Call(
            copy, call.cwd, call.span, call.stdin, call.env, call.place, call.root, call.captured, name="curl"
        )
    return fetch(run, call)


def remote(run: Interpreter, call: Call) -> str:
    operands = options_of(call.argv[1:], marks.names("-b -B -c -D -F -i -J -l -o -P -R -S -s -X"))[1]
    if call.name == "sftp" and operands and ":" in operands[0]:
        base = re.split(r"[:/]", operands[0].rstrip("/"))[-1]
        goal = run.path(operands[1] if len(operands) > 1 else base, call.cwd)
        for one in {goal, f"{goal}/{base}"}:
            run.state.write(one, UNKNOWN + REMOTE)
    return UNKNOWN + REMOTE


def copy(run: Interpreter, call: Call) -> str:
    """cp, mv, install, ln, scp: where a file is known to come from."""
    found, operands = options_of(call.argv[1:], _COPY)
    directory = next((value for name, value in found if name in ("-t", "--target-directory")), "")
    symbolic = any(
        "s" in name[1:3] or name == "--symbolic"
        for name, _ in found
        if call.name == "ln" and name[:2] != "--"
    ) or (call.name == "ln" and any(name == "--symbolic" for name, _ in found))
    extra = call.argv[1:][::-1]
    # Options may also come last.
    operands = [one for one in operands if not one.startswith("-")] or [
        one for one in extra if not one.startswith("-")
    ]
    if directory:
        sources, target = operands, directory
    elif len(operands) >= 2:
        sources, target = operands[:-1], operands[-1]
    elif operands and call.name == "ln":
        sources, target = operands, "."
    else:
        return ""
    goal = run.path(target, call.cwd)
    options = "".join(name[1:] for name, _ in found if name[:2] != "--")
    for source in sources:
        base = source.rstrip("/").rpartition("/")[2]
        into = (
            directory
            or len(sources) > 1
            or target.endswith("/")
            or target in (".", "..")
            or goal in run.state.links
        )
        place = f"{goal}/{base}" if into else goal
        if call.name == "ln" and symbolic:
            origin = source if source.startswith(("/", "~")) else f"{place.rpartition('/')[0]}/{source}"
            run.state.links[place] = run.path(origin, call.cwd)
            continue
        if call.name in ("scp", "rsync", "sftp", "rclone") and re.match(r"[\w.@-]+:|\w+://", source):
            remote_base = re.split(r"[:/]", source.rstrip("/"))[-1]
            for one in {f"{goal}/{remote_base}", goal}:
                run.state.write(one, UNKNOWN + REMOTE)
                if one != call.cwd and (call.name == "rsync" or "r" in options):
                    run.state.write(one + "/*", UNKNOWN + REMOTE)
            continue
        path = run.path(source, call.cwd)
        text = run.state.files.get(path)
        if path in STDIN and call.name != "ln":
            run.state.write(goal, call.stdin or UNKNOWN)
        elif text is not None:
            run.state.write(place, text)
            run.state.write(f"{goal}/{base}", text)
        elif path in run.state.links or ("bin/" in path and _PROGRAM.match(path)):
            run.state.links[place] = path
            run.state.links[f"{goal}/{base}"] = path
        elif run.sink.secret(path):
            run.state.write(place, UNKNOWN + SECRET)
        if call.name == "mv":
            run.state.files.pop(path, None)
    return ""


_PROGRAM = Lazy(r"(?:/usr)?(?:/local)?/s?bin/[^/]+$")
_COPY = marks.names("-t --target-directory -S --suffix -m --mode -o --owner -g --group -P -i -F -J")


def processes(run: Interpreter, call: Call) -> str:
    if call.name == "ps":
        every = any(re.fullmatch(r"-?[a-zA-Z]*[eAax][a-zA-Z]*", one) for one in call.argv[1:2])
        every = every or (
            any(re.fullmatch(r"-[uU]|--user|--User|-[uU]\w+|--user=.*", one) for one in call.argv[1:])
            and not any(re.fullmatch(r"-[pCgst].*|--pid.*|--ppid.*", one) for one in call.argv[1:])
        )
        return UNKNOWN + PIDS + (EVERY if every else "")
    if call.name == "pgrep":
        _, operands = options_of(
            call.argv[1:], marks.names("-u -U --euid --uid -t -g -P -s -d -F -G -r --ns --terminal --parent")
        )
        narrowed = any(
            re.match(r"-[PtgsFGr]|--(?:parent|terminal|pidfile|group|session)", one) for one in call.argv
        )
        every = (not operands and not narrowed) or (
            operands != [] and operands[0] in (".", ".*", "", "^", "$", ".+", "[a-z]", "[a-z]*", "[0-9]*")
        )
        return UNKNOWN + PIDS + (EVERY if every else "")
    if call.name == "lsof" and not any(re.match(r"-[a-zA-Z]*[ipcd+gN]|[/+:]", one) for one in call.argv[1:]):
        return UNKNOWN + PIDS + EVERY
    return UNKNOWN + PIDS


def ls(run: Interpreter, call: Call) -> str:
    if any(run.path(one, call.cwd) in ("/" + marks.STAR, "~/" + marks.STAR) for one in call.argv[1:]):
        return UNKNOWN + EVERY
    listed = [run.path(one, call.cwd) for one in call.argv[1:] if one[:1] != "-"] or [call.cwd]
    if len(listed) == 1 and paths.everything(listed[0]) and run.place != "container":
        return UNKNOWN + EVERY
    if any(run.path(one, call.cwd) == "/proc" for one in call.argv[1:]):
        return UNKNOWN + PIDS + EVERY
    # Names that match a pattern are printed with their directory.
    named = [one for one in call.argv[1:] if marks.globbed(one) and "/" in one.rstrip("/")]
    if named and "d" not in "".join(one for one in call.argv if one.startswith("-")) and len(named) <= 20:
        return "".join(f"{one.rpartition('/')[0]}/{UNKNOWN}{_ending(one)}\n" for one in named)
    return UNKNOWN


def _ending(pattern: str) -> str:
    """Return how each name ends that a pattern stands for, as far as that is literal."""
    return re.split(f"[{''.join(marks.GLOBS)}]", pattern)[-1].rpartition("]")[2]


def dump(run: Interpreter, call: Call) -> str:
    """A dump of a database, which is not just any text for another one."""
    return UNKNOWN + OUTPUT


def printenv(run: Interpreter, call: Call) -> str:
    from ._expand import secret_name

    names = [one for one in call.argv[1:] if not one.startswith("-")]
    if not names:
        return UNKNOWN + ENVIRON
    return UNKNOWN + (SECRET if any(map(secret_name, names)) else "")


def unpack(run: Interpreter, call: Call) -> str:
    """tar, unzip: what is unpacked from the network lies in the directory."""
    source = call.stdin or ""
    target = call.cwd
    words = call.argv[1:]
    for index, word in enumerate(words):
        if word in ("-C", "--directory", "-d") and index + 1 < len(words):
            target = run.path(words[index + 1], call.cwd)
        elif not word.startswith("-"):
            source += run.state.files.get(run.path(word, call.cwd), "")
    to_stdout = any(re.fullmatch(r"-?[a-zA-Z]*O[a-zA-Z]*|--to-stdout|-p", one) for one in words[:3])
    if REMOTE in source and not to_stdout:
        run.state.write(target + "/*", UNKNOWN + REMOTE)
    return marks.kinds(source) if to_stdout or call.name != "tar" else filtered(run, call)


def clone(run: Interpreter, call: Call) -> str:
    """svn, hg, gh and their like: what they bring is from elsewhere."""
    told(run, call)
    _, rest = options_of(call.argv[1:], frozenset(("-R", "-r", "-b", "--rev", "--branch", "--cwd")))
    while rest and rest[0] in ("repo", "git"):
        rest = rest[1:]
    if rest and rest[0] in ("clone", "checkout", "co", "export", "branch", "get", "fork", "download"):
        operands = [one for one in rest[1:] if one[:1] != "-"]
        if operands:
            base = operands[0].rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
            target = run.path(operands[1] if len(operands) > 1 else base, call.cwd)
            for one in (target, target + "/*"):
                run.state.write(one, UNKNOWN + REMOTE)
    elif rest[:2] in (["release", "download"], ["run", "download"]):
        named = options_of(rest[2:], _RELEASE)[0] + options_of(rest[3:], _RELEASE)[0]
        output = [value for name, value in named if name in ("-O", "--output") and value != "-"]
        folder = next((value for name, value in named if name in ("-D", "--dir")), ".")
        patterns = [value for name, value in named if name in ("-p", "--pattern", "-n", "--name")]
        for one in output or [f"{folder}/{one}" for one in patterns or ["*"]]:
            run.state.write(run.path(one, call.cwd), UNKNOWN + REMOTE)
    return UNKNOWN + REMOTE


_RELEASE = marks.names("-O --output -D --dir -p --pattern -n --name -R --repo -A --archive")
_AWAY = Lazy(r"[a-z][\w+.-]*://|[\w.@-]{2,}:")


def brought(run: Interpreter, call: Call) -> str:
    """Clients of object stores: a file that is copied from there is from elsewhere."""
    told(run, call)
    operands = [one for one in call.argv[1:] if one[:1] != "-"]
    if len(operands) > 2 and _AWAY.match(operands[-2]) and not _AWAY.match(operands[-1]):
        goal = run.path(operands[-1], call.cwd)
        base = re.split(r"[:/]", operands[-2].rstrip("/"))[-1]
        for one in {goal, f"{goal}/{base}"}:
            run.state.write(one, UNKNOWN + REMOTE)
    return UNKNOWN + REMOTE


def locate(run: Interpreter, call: Call) -> str:
    for one in call.argv[1:]:
        if one[:1] != "-" and run.sink.secret(run.path(f"~/{UNKNOWN}/{one}", call.cwd)):
            return f"~/{UNKNOWN}/{one}\n"
    return UNKNOWN


def history(run: Interpreter, call: Call) -> str:
    """What was typed before: it may hold secrets, as the environment may."""
    words = call.argv[1:]
    options = [one for one in words if re.fullmatch(r"-[a-z]+", one)]
    if any("s" in one for one in options):
        run.subshell(partial(run.script, marks.plain(" ".join(words[len(options) :]))), captured=True)
    if any("r" in one or "n" in one for one in options):
        run.note("unknown-code", "takes commands into the history that are not known")
    return UNKNOWN + ENVIRON


def number(run: Interpreter, call: Call) -> str:
    """A program that prints a number, a date or the like."""
    return marks.NUMBER


def temporary(run: Interpreter, call: Call) -> str:
    return f"/tmp/{OUTPUT}\n"


def sequence(run: Interpreter, call: Call) -> str:
    last = call.argv[-1].lower()
    if (last in ("inf", "infinity") and (call.to or not call.captured)) or re.fullmatch(
        r"\d{10,}|\d+e(?:9|[1-9]\d)", last
    ):
        run.note("endless-output", "counts without end")
    numbers = [one for one in call.argv[1:] if re.fullmatch(r"-?\d+", one)]
    if numbers and len(numbers) == len(call.argv) - 1 and len(numbers) <= 2:
        low, high = (1, int(numbers[0])) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))
        if 0 <= high - low < 200:
            return "".join(f"{one}\n" for one in range(low, high + 1))
    return UNKNOWN


def basename(run: Interpreter, call: Call) -> str:
    words = [one for one in call.argv[1:] if not one.startswith("-")]
    if not words or marks.unknown(words[0]):
        return UNKNOWN
    text = words[0].rstrip("/").rpartition("/")[2]
    if len(words) > 1:
        text = text.removesuffix(words[1])
    return text + "\n"


def dirname(run: Interpreter, call: Call) -> str:
    words = [one for one in call.argv[1:] if not one.startswith("-")]
    if not words or marks.unknown(words[0]):
        return UNKNOWN
    head, slash, _ = words[0].rstrip("/").rpartition("/")
    return (head or ("/" if slash else ".")) + "\n"


def realpath(run: Interpreter, call: Call) -> str:
    words = [one for one in call.argv[1:] if not one.startswith("-")]
    return run.path(words[-1], call.cwd) + "\n" if words else UNKNOWN


def known(run: Interpreter, call: Call) -> str:
    """A program whose output is made to be evaluated."""
    return ""


def rev(run: Interpreter, call: Call) -> str:
    text = call.stdin
    if text is None or marks.marked(text):
        return filtered(run, call)
    return "\n".join(line[::-1] for line in text.split("\n"))


def queried(run: Interpreter, call: Call) -> str:
    """jq and yq: what they print where they change the scripts of a package."""
    if any(re.search(r"scripts\b[^=|]*=(?!=)", one) for one in call.argv[1:3]):
        return filtered(run, call) + OUTPUT
    return filtered(run, call)


def translate(run: Interpreter, call: Call) -> str:
    """``tr``: done for plain sets of the same length, and deletions of plain characters."""
    words = [one for one in call.argv[1:]]
    text = call.stdin
    if text is None or marks.marked(text) or len(text) > 4000:
        return filtered(run, call)
    if len(words) == 2 and words[0] == "-d" and not re.search(r"[\\\[\]-]", words[1]):
        return "".join(one for one in text if one not in words[1])
    sets = [_set(one) for one in words]
    if len(sets) == 2 and sets[0] and sets[1]:
        second = sets[1] + sets[1][-1] * max(0, len(sets[0]) - len(sets[1]))
        return text.translate({ord(one): other for one, other in zip(sets[0], second, strict=False)})
    return filtered(run, call)


def _set(text: str) -> str | None:
    if text.startswith("-") or "[" in text:
        return None
    text = text.replace("\\n", "\n").replace("\\t", "\t")
    out = re.sub(r"(.)-(.)", lambda match: "".join(map(chr, range(ord(match[1]), ord(match[2]) + 1))), text)
    return out if "\\" not in out and len(out) < 300 else None


def written_file(run: Interpreter, call: Call) -> str:
    """A program that changes a file in place, or makes one whose text cannot be known."""
    for one in call.argv[1:]:
        if not one.startswith("-"):
            path = run.path(one, call.cwd)
            if path in run.state.files and path.rpartition("/")[2]:
                run.state.write(path, marks.kinds(run.state.files[path]))
    return filtered(run, call)


def edited(run: Interpreter, call: Call, codes: list[str], files: list[str]) -> None:
    """Follow what sed, Perl and their like change in place."""
    code = "\n".join(codes)
    for one in files:
        path = run.path(one, call.cwd)
        held = run.state.files.get(path)
        if held is None or BEFORE in held:
            run.state.write(path, (held or "") + changed(pieces(code)))
        else:
            text = substituted(code, held)
            run.state.write(path, marks.kinds(held) if text is None else text)


def dd(run: Interpreter, call: Call) -> str:
    source = call.stdin or UNKNOWN
    for one in call.argv[1:]:
        if one.startswith("if="):
            source = run.reading(run.path(one[3:], call.cwd))
    for one in call.argv[1:]:
        if one.startswith("of="):
            run.state.write(run.path(one[3:], call.cwd), source)
            return ""
    return source


def openssl(run: Interpreter, call: Call) -> str:
    if "-d" in call.argv:
        return _legible(run, call) or filtered(run, call) + DECODED
    if "s_client" in call.argv:
        return UNKNOWN + REMOTE
    return filtered(run, call)


PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys(marks.names("cat tac gcat bat batcat nl"), cat),
    **dict.fromkeys(marks.names("head tail sort uniq less more pv column fold fmt tsort shuf"), passed),
    **dict.fromkeys(
        marks.names(
            "grep egrep fgrep rg cut jq yq paste join comm wc strings iconv od hexdump gzip bzip2c gpg"
        ),
        filtered,
    ),
    **dict.fromkeys(
        marks.names(
            "base64 base32 basenc xxd gunzip zcat bzcat xzcat bzip2 xz zstd "
            "uudecode zstdcat bunzip2 unxz base58 uncompress lz4 gzcat brotli"
        ),
        decoder,
    ),
    **dict.fromkeys(
        marks.names(
            "curl wget wget2 http https xh xhs lynx w3m links GET curlie fetch aria2c axel lwp-request yt-dlp"
        ),
        curl_like,
    ),
    **dict.fromkeys(
        marks.names("nc ncat netcat socat telnet dig host nslookup ftp sftp drill"),
        remote,
    ),
    **dict.fromkeys(marks.names("cp mv ln install scp rsync gcp gmv"), copy),
    **dict.fromkeys(marks.names("svn hg bzr fossil darcs jj gh glab hub degit tiged"), clone),
    **dict.fromkeys(
        marks.names("aws gsutil gcloud rclone s3cmd s4cmd s5cmd mc mcli azcopy b2 ossutil oci hdfs"), brought
    ),
    **dict.fromkeys(("locate", "plocate", "mlocate"), locate),
    **dict.fromkeys(marks.names("pgrep pidof ps lsof fuser"), processes),
    **dict.fromkeys(marks.names("tar bsdtar unzip gtar cpio 7z"), unpack),
    **dict.fromkeys(marks.names("sed gsed ed ex"), written_file),
    **dict.fromkeys(("sort", "gsort", "shuf"), ordered),
    **dict.fromkeys(("split", "csplit"), divided),
    "patch": patch,
    **dict.fromkeys(("readlink", "realpath", "greadlink"), realpath),
    **dict.fromkeys(marks.names("mysqldump pg_dump pg_dumpall mariadb-dump mongodump"), dump),
    "tee": tee,
    "mknod": mknod,
    "ls": ls,
    "printenv": printenv,
    **dict.fromkeys(
        marks.names("date gdate uuidgen nproc uptime arch uname tty expr bc factor cksum"), number
    ),
    **dict.fromkeys(("jq", "yq", "gojq"), queried),
    "mktemp": temporary,
    "history": history,
    "seq": sequence,
    "basename": basename,
    "dirname": dirname,
    "rev": rev,
    "tr": translate,
    "dd": dd,
    "openssl": openssl,
}
