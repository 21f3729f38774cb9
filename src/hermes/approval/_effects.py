"""The table of what well-known programs do."""

from __future__ import annotations

from . import _effects_files as files
from . import _effects_other as others
from . import _marks as marks
from ._effect import Effect

_QUIET = Effect(quiet=True)
_NAMES = Effect(reads=False, quiet=True)

EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(marks.names("rm unlink grm del"), Effect(files.rm, reads=False)),
    "rmdir": Effect(files.rmdir, reads=False),
    **dict.fromkeys(("find", "gfind", "bfs"), Effect(files.find_reads, reads=False, quiet=True)),
    **dict.fromkeys(marks.names("cp mv install gcp gmv ditto rsync scp"), Effect(files.copy)),
    "ln": Effect(files.copy, reads=False),
    **dict.fromkeys(marks.names("touch mkdir mkfifo mknod"), Effect(files.writes, reads=False)),
    "tee": Effect(files.tee, reads=False),
    "sponge": Effect(files.tee, reads=False),
    "truncate": Effect(files.truncate, reads=False),
    "dd": Effect(files.dd),
    **dict.fromkeys(marks.names("sed gsed perl ruby yq dasel xmlstarlet awk gawk"), Effect(files.in_place)),
    **dict.fromkeys(marks.names("vim vi nvim ex ed nano emacs pico micro view"), Effect(files.editor)),
    "patch": Effect(files.patch),
    **dict.fromkeys(marks.names("sd rpl crudini dos2unix unix2dos"), Effect(files.changes, reads=False)),
    **dict.fromkeys(marks.names("ddrescue dd_rescue bmaptool qemu-img ntfsclone"), Effect(files.image)),
    **dict.fromkeys(marks.names("tar bsdtar gtar unzip zip 7z cpio unar"), Effect(files.archive)),
    **dict.fromkeys(("split", "csplit"), Effect(files.split_files)),
    **dict.fromkeys(
        marks.names(
            "pip pip3 sort gcc cc clang g++ go objcopy ssh-keygen age gpg iconv jq tcpdump "
            "perf strace ltrace time script convert magick shuf tree pandoc ffmpeg xxd base64 "
            "uudecode protoc esbuild tsc cargo npm make cmake pg_dump mysqldump aria2c git-x"
        ),
        Effect(files.output_option),
    ),
    "openssl": Effect(others.openssl),
    "chmod": Effect(files.chmod, reads=False),
    **dict.fromkeys(("chown", "chgrp"), Effect(files.chown, reads=False)),
    "fuser": Effect(others.fuser, reads=False),
    "kill": Effect(others.kill, reads=False),
    **dict.fromkeys(marks.names("pkill killall killall5 skill slay"), Effect(others.pkill, reads=False)),
    **dict.fromkeys(marks.names("curl wget wget2 http https xh curlie"), Effect(others.curl)),
    **dict.fromkeys(marks.names("nc ncat netcat socat telnet openssl-s_client"), Effect(others.nc)),
    **dict.fromkeys(marks.names("dig host nslookup drill ping ping6 traceroute"), Effect(others.dns)),
    "ssh": Effect(others.ssh, reads=False),
    **dict.fromkeys(
        marks.names("pastebinit gist wgetpaste mail mailx sendmail logger lp qrencode-x"),
        Effect(others.sends),
    ),
    **dict.fromkeys(marks.names("sudo su doas runuser sudo-rs"), Effect(others.sudo, reads=False)),
    "sshpass": Effect(others.sshpass),
    "sftp": Effect(others.sftp),
    **dict.fromkeys(files.PARTITIONS, Effect(files.partition, reads=False)),
    "yes": Effect(files.yes, reads=False),
    **dict.fromkeys(
        marks.names(
            "gsutil aws rclone az gcloud s3cmd s4cmd s5cmd b2 mc mcli azcopy gh ossutil coscmd swift "
            "glab croc magic-wormhole wormhole ffsend transfer obsutil oci restic borg kopia rage-send "
            "megaput megacopy gdrive onedrive dropbox_uploader.sh ipfs transfer.sh bupload tsh"
        ),
        Effect(others.sends),
    ),
    **dict.fromkeys(
        marks.names("docker podman nerdctl docker-compose podman-compose singularity apptainer ctr crictl"),
        Effect(others.container),
    ),
    **dict.fromkeys(("unset",), Effect(others.unset, reads=False, quiet=True)),
    "alias": Effect(others.alias, reads=False, quiet=True),
    "hash": Effect(others.hash, reads=False, quiet=True),
    "enable": Effect(others.enable, reads=False, quiet=True),
    **dict.fromkeys(
        marks.names("grep egrep fgrep rg zgrep ag ack"), Effect(others.grep, reads=False, quiet=True)
    ),
    "printenv": Effect(others.printenv, reads=False, quiet=True),
    "ps": Effect(others.ps, reads=False, quiet=True),
    "git": Effect(others.git, reads=False),
    # What only names files, or changes nothing
    **dict.fromkeys(
        marks.names(
            "ls stat test [ file cd pushd popd which type command basename dirname realpath readlink "
            "pwd tree du df true false : echo printf lsof id whoami uname uptime hostname sleep "
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
    "cat": Effect(files.cat, quiet=True),
    **dict.fromkeys(
        marks.names(
            "figlet cowsay say espeak toilet banner lolcat notify-send tldr "
            "cheat xclip wl-copy pbcopy dialog whiptail zenity vale"
        ),
        _QUIET,
    ),
    **dict.fromkeys(
        marks.names("base32 basenc od hexdump uuencode rot13"), Effect(others.encode, quiet=True)
    ),
    "date": Effect(quiet=True),
    "base64": Effect(others.encode),
    "xxd": Effect(others.encode),
}
