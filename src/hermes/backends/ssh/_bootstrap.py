"""The first words to the other side: what its login shell reads, and what becomes a Python there.

A session of ssh has no stdin before its command was answered, so what follows on stdin comes a round trip
late. What has to be there first is therefore in the command. It holds no secret.
"""

from __future__ import annotations

import base64
import re
import shlex
import zlib
from collections.abc import Sequence

from hermes.channel.boot import READY

__all__ = ["RAN", "REMOTE", "command_for", "find_python", "line_for"]

RAN = READY
"""What the shell at the other end says first of all, after whatever its start-up files print."""

# The login shell of the other side reads this, whatever it is: only what all of them read alike. What is to
# be run follows on stdin, where no shell's quoting, length limit or list of processes sees it.
REMOTE = "exec /bin/sh -c 'IFS= read -r l;eval \"$l\"'"

LONGEST = 8800  # dropbear takes a command of 9000 bytes
WORD = 900  # old ones of csh take a word of 1024

# The variable is os, a name which the program can say without a quote; it is taken away at once.
UNPACK = "import os,zlib,binascii;exec(zlib.decompress(binascii.a2b_base64(os.environ.pop(os.__name__))))"

# What is at hand without a login shell may not know Python by name.
PYTHONS = (
    "python3 /usr/bin/python3 /usr/local/bin/python3 /opt/homebrew/bin/python3 "
    '"$HOME/.local/bin/python3" /opt/python3/bin/python3 python3.14 python3.13 python3.12 python3.11 '
    "python3.10 python3.9 python3.8 python3.7 python3.6"
)


def find_python(named: str | None, arguments: str) -> str:
    """Return the script of a POSIX shell that becomes the Python of the name ``$0``, or else a usual one.

    It has no single quote, and nothing that a shell reads between two of them: newlines, exclamation marks.

    :param named: what the user chose, which is taken and no other
    """
    where, missing = PYTHONS, "there is no python3 on this machine"
    if named:
        where, missing = "", "what ssh.python names is not there"
    return (
        f'for p in "$0" {where}; do q=$(command -v "$p" 2>/dev/null) && [ -x "$q" ] && '
        f'exec "$q" -I -S {arguments}; done; echo "HERMES-GUEST {{\\"error\\": \\"{missing}\\"}}"'
    )


def command_for(python: str | None, program: str) -> str | None:
    """Return the command that runs a Python program, or None when not every login shell would take it so.

    The program is packed into words that no shell has to quote, and which a list of processes does not show
    for longer than the shells take.
    """
    if python is not None and not re.fullmatch(r"[\w./+-]+", python, re.ASCII):
        return None
    packed = base64.b64encode(zlib.compress(program.encode(), 9)).decode()
    words = [packed[at : at + WORD] for at in range(0, len(packed), WORD)]
    script = f'echo "{RAN.decode()}";os="$*";export os;' + find_python(python, f'-c "{UNPACK}"')
    command = " ".join(["exec /bin/sh -c", f"'{script}'", python or "python3", *words])
    return command if len(command) <= LONGEST else None


def line_for(argv: Sequence[str]) -> bytes:
    """Return the line that makes the shell which reads it become a program, whatever bytes its argv holds.

    A line cannot hold a newline, so each stands as a variable that does.
    """
    words = (shlex.quote(word).replace("\n", "'\"$n\"'") for word in argv)
    text = f'echo "{RAN.decode()}";n=$(printf "\\nx");n=${{n%x}};exec {" ".join(words)}\n'
    return text.encode("utf-8", "surrogateescape")
