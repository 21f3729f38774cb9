"""Where programs write that say so in their words: by an option, by the last operand, by an assignment.

Only writing where it matters is asked about (`Policy.write`), so an option needs no more than to sound like
an output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes._lazy import Lazy

from . import _marks as marks
from ._call import Call
from ._effect import operands_of

if TYPE_CHECKING:
    from ._policy import Policy

# Options that name an output in any program.
_OUTPUT = Lazy(
    r"-{1,2}(?:[\w-]*[-_])?(?:out|output|outfile|outdir|output[-_]?(?:file|dir|directory|path|folder|filename)|"
    r"out[-_](?:file|dir|path)|dest|destination|dest[-_]?(?:dir|file|path)|log[-_]?(?:file|path)|report[-_](?:file|path|dir)|"
    r"result[-_]file|export[-_](?:file\w*|json|csv|markdown|path|dir|to)|save[-_](?:to|as|dir|file|path)|"
    r"dump[-_](?:to|file|dir|header)|write[-_](?:to|file|out)|target[-_]dir|junit[-_]?xml|basetemp|pack[-_]destination|"
    r"append[-_]output|print[-_]to[-_]pdf|keyout|cert[-_]file|key[-_]file|pid[-_]?file|trace[-_]file|"
    r"cpuprofile|memprofile|coverprofile|blockprofile)",
    2,
)
# These only do where the value is joined to them: in other programs they take none.
_JOINED = Lazy(
    r"--(?:[\w-]*-)?(?:tee|to|log|report|export|save|screenshot|csv|html|archive|record|trace|xml|json|sarif)"
)
_OUTPUT_VALUE = Lazy(r"-{1,2}[sDP]?\w*(?:[oO]ut|OUT)(?:put|PUT)?\w{0,20}[=:](.+)", 16)
# Here `-o` is something else.
_NO_O = marks.names(
    "grep egrep fgrep rg ag ack zgrep ugrep pcregrep ls find ps lsof unzip zip cpio tar mount umount "
    "ssh scp sftp sudo "
    "nm readelf objdump strings netstat ss tr read set shopt test [ useradd usermod apt apt-get stat "
    "join column paste "
    "pgrep pkill install rsync pip pip3 git svn hg fd ansible journalctl systemctl lsblk chown od "
    "hexdump mv cp tail "
    "pytest ffmpeg bsdtar gtar ip sshfs fusermount dd csplit getent docker-x size addr2line who ltrace-x"
)
# These carry another command behind one word of their own only.
_SUBBED = marks.names(
    "poetry pipenv pdm hatch rye conda mamba micromamba uv docker podman nerdctl npm pnpm yarn "
    "bundle composer perf "
    "asciinema mise helm"
)
_OWN = {
    name: frozenset(options.split())
    for names, options in {
        "pg_dump pg_dumpall pg_restore ctags etags universal-ctags syft grype": "-f --file",
        "mysqldump mariadb-dump": "-r",
        "pg_basebackup pg_receivewal pg_recvlogical initdb": "-D --pgdata",
        "gh": "-D --dir",
        "cpio": "-D --directory",
        "javac javadoc mkdocs hugo jekyll coverage kotlinc scalac aria2c zola": "-d --directory --dir",
        "httrack dot": "-O",
        "yt-dlp youtube-dl": "-P --paths",
        "wget wget2": "-a -o",
        "conda mamba micromamba": "-p --prefix",
        "tshark dumpcap tcpdump ngrep": "-w",
        "ab gnuplot-x": "-g -e",
        "doxygen": "-g",
        "psql pgcli": "-L --log-file",
        "locust k6": "--csv --out",
        "keytool jarsigner": "-keystore -file -signedjar",
        "screen": "-Logfile",
        "nmap masscan": "-oN -oX -oG -oA -oS -oJ -oL",
        "restic rustic kopia tarsnap": "--target",
        "borg": "--destination",
        "npm pnpm yarn cargo gem": "--prefix --root --install-dir --bindir -i -n",
        "az": "-f --file",
        "cmake": "--prefix",
        "age-keygen minisign signify": "-o -s -p",
        "redis-cli": "--rdb",
        "rrdtool": "-f",
        "unsquashfs": "-d",
        "bsdtar tar gtar": "-f",
        "debootstrap": "",
    }.items()
    for name in names.split()
}
# The last operand is written to, where the first is one of these words (any, for none).
_LAST = {
    name: frozenset(subs.split())
    for names, subs in {
        "qpdf wkhtmltopdf wkhtmltoimage sox lame sass lessc virtualenv pdftotext pdftohtml pdfunite "
        "ps2pdf pdf2ps": "",
        "ebook-convert heif-convert mksquashfs composite montage mogrify strip upx patchelf chrpath "
        "objcopy": "",
        "sstrip install_name_tool codesign gifsicle-x fallocate mkfile rsvg-convert-x potrace-x "
        "sphinx-build": "",
        "vips": "copy thumbnail resize crop rot flip",
        "gm magick": "convert composite montage mogrify",
        "django-admin": "startproject startapp",
        "cargo": "new init",
        "rrdtool": "create restore",
        "docker podman nerdctl kubectl oc": "cp",
        "git": "init",
        "aws": "s3",
        "gsutil s3cmd s4cmd s5cmd mc mcli rclone azcopy oci ossutil b2 hdfs": (
            "cp copy sync get mv move copyto moveto download file rsync"
        ),
        "sftp": "",
        "etcdctl": "snapshot",
        "influxd influx neo4j-admin cockroach": "backup dump",
        "create-react-app create-next-app create-vite degit tiged cookiecutter": "",
        "dpkg-deb": "",
        "qemu-img": "create convert",
        "debootstrap": "",
    }.items()
    for name in names.split()
}
# These change the only file that they are given, or make it.
_ALONE = marks.names("strip sstrip upx patchelf chrpath fallocate mkfile virtualenv mogrify codesign")
_SECOND = marks.names("uniq xxd")
_ASSIGNED = Lazy(
    r"(?:DESTDIR|INSTALL_ROOT|INSTALL_PREFIX|PREFIX|prefix|exec_prefix|bindir|sbindir|libdir|sysconfdir|datadir|"
    r"OUT\w{0,20}|BUILDDIR|O)=([/~].*)",
)
_KEY_LOOKS = frozenset(("-l", "-y", "-F", "-B", "-e", "-D", "-L", "-Y", "-Q", "-r", "-i"))
_MAKES = marks.names("make gmake ninja rake scons bmake")
_ARCHIVES = Lazy(r"-?[a-zA-Z]*[rqd][a-zA-Z]*")
_MODULES = marks.names("venv virtualenv zipfile tarfile zipapp")


def judge(policy: Policy, call: Call, *, carries: bool) -> None:
    """Judge the paths that a command writes to by its words.

    ``carries``: it runs another command, whose words are among its own.
    """
    words = call.argv
    name = call.name
    own = _OWN.get(name)
    # The words of the other command are judged with it.
    for index in range(1, len(words)):
        word = words[index]
        if "/" not in word and "~" not in word:
            continue
        if word[0] == "-":
            option, equals, value = word.partition("=")
            if not equals:
                option, value = word[:2], word[2:]
                if not value.startswith(("/", "~")) or word[1] == "-":
                    found = _OUTPUT_VALUE.fullmatch(word)
                    if found is None:
                        continue
                    option, value = "--out", found.group(1)
            elif _JOINED.fullmatch(option) is not None:
                option = "--out"
            elif _OUTPUT.fullmatch(option) is None and (own is None or option not in own):
                found = _OUTPUT_VALUE.fullmatch(word)
                if found is None and not (name == "protoc" and option.endswith("_out")):
                    continue
                option = "--out"
        else:
            option, value = words[index - 1], word
            if option[:1] != "-" or index == 1:
                continue
        if value[:1] not in "/~.":
            value = value.rpartition("=")[2]
            if value[:1] not in ("/", "~", "."):
                continue
        if option == "-o":
            inner = carries and (name not in _SUBBED or "run" in words[1:3] or "exec" in words[1:3])
            if (name in _NO_O or inner) and not (name == "git" and words[1] in ("archive", "format-patch")):
                continue
        elif (own is None or option not in own) and _OUTPUT.fullmatch(option) is None:
            continue
        _write(policy, call, value)
    subs = _LAST.get(name)
    if subs is not None:
        rest = operands_of(call)
        if (len(rest) > 1 and (not subs or rest[0] in subs)) or (
            rest and name in _ALONE and not _looks(call)
        ):
            _write(policy, call, rest[-1])
    elif name in _SECOND:
        rest = operands_of(call, "-f -s -w -c -l -o -g -R")
        if len(rest) > 1:
            _write(policy, call, rest[1])
    elif name in _MAKES:
        installs = any("install" in word for word in words)
        for word in words[1:]:
            match = _ASSIGNED.fullmatch(word)
            if match and (installs or word[0] in "DO") and "-n" not in words:
                _write(policy, call, match.group(1))
    elif name in ("ar", "gar", "llvm-ar"):
        if len(words) > 2 and _ARCHIVES.fullmatch(words[1]):
            _write(policy, call, words[2])
    elif name.startswith("python") and len(words) > 3 and words[1] == "-m" and words[2] in _MODULES:
        if words[2] in ("venv", "virtualenv") or words[3] in ("-e", "-c", "--extract", "--create"):
            _write(
                policy,
                call,
                words[-1] if words[3] not in ("-c", "--create") else words[4 if len(words) > 4 else 3],
            )
    elif name == "ssh-keygen" and "-f" in words[:-1] and not any(one[:2] in _KEY_LOOKS for one in words):
        _write(policy, call, words[words.index("-f") + 1])
    if name == "git":
        rest = operands_of(call, "-b -B -C -c")
        if rest[:2] in (["worktree", "add"], ["bundle", "create"]) and len(rest) > 2:
            _write(policy, call, rest[2])


def _looks(call: Call) -> bool:
    return any(
        word.startswith("--print") or word in ("-l", "-t", "-d", "-dv", "--list") for word in call.argv
    )


def _write(policy: Policy, call: Call, word: str) -> None:
    word = word.removeprefix("file://")
    if ":" in word and not word.startswith(("/", "~", ".")):
        return  # elsewhere
    if word.startswith(("/dev/std", "/dev/null", "/dev/fd/", "/proc/self/fd/")):
        return
    policy.write(policy.path(word, call), call)
