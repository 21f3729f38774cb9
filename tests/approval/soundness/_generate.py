"""Invents command lines that run a marker program through every technique that the engine claims to follow.

Each line is made of a way to spell the marker, ways to carry it, one within the other, and something around
it. The same choices with ``echo`` in place of the marker give its harmless twin.
"""

from __future__ import annotations

import random
import shlex
import zlib
from collections.abc import Callable, Iterator

MARKER = "zapmark"
THERE = 200
quote = shlex.quote


def _hex(word: str) -> str:
    return "$'" + "".join(f"\\x{ord(one):02x}" for one in word) + "'"


def _octal(word: str) -> str:
    return "$'" + "".join(f"\\{ord(one):03o}" for one in word) + "'"


def _spellings(word: str, pick: random.Random) -> list[str]:
    """Return texts that the shell makes this word of, each with what has to come before it."""
    cut = pick.randrange(1, len(word))
    head, tail = word[:cut], word[cut:]
    middle = word[1:-1]
    return [
        word,
        f"'{word}'",
        f'"{word}"',
        f"{head}''{tail}",
        f'{head}""{tail}',
        f"{head}'{tail}'",
        f'"{head}"{tail}',
        f"\\{word}",
        f"{head}\\{tail}",
        f"{head}\\\n{tail}",
        _hex(word),
        _octal(word),
        f"{head}{_hex(tail)}",
        f'{head}$"{tail}"',
        f"$(echo {word})",
        f"`echo {word}`",
        f"$(printf {word})",
        f"$(printf '%s%s' {head} {tail})",
        f"$(printf {_hex(word)[1:]})",
        f"$(echo {head})$(echo {tail})",
        f'"$(echo {head}){tail}"',
        f"$(rev <<< {word[::-1]})",
        f"$(echo {word.upper()} | tr A-Z a-z)",
        f"$(cat <<< {word})",
        f"$(cat <<A\n{word}\nA\n)",
        f"$(for i in {head}; do echo ${{i}}{tail}; done)",
        f"{head}{{{tail},}}",
        f"{head}${{UNSETX:-{tail}}}",
        f"{head}$@{tail}",
        f"${{UNSETX:-{word}}}",
        f"${{UNSETX:={word}}}",
        f"${{UNSETX-{head}}}{tail}",
        f"${{HOME:0:0}}{word}",
        f"{word[0]}{middle}{word[-1]}",
        f"/usr/local/bin/{word}",
        f"/usr/local/bin/../bin/{word}",
        f"/usr/local/bin//{word}",
    ]


def _variables(word: str, pick: random.Random) -> list[tuple[str, str]]:
    """Return what sets a variable, and the word that it becomes."""
    cut = pick.randrange(1, len(word))
    head, tail = word[:cut], word[cut:]
    return [
        ("e=; ", f"{head}$e'{tail}'"),
        ("e=''; ", f"{head}${{e}}{tail}"),
        (f"x={word}; ", "$x"),
        (f"x={word}; ", "${x}"),
        (f"x={word}; ", '"$x"'),
        (f"x={head}; ", f"${{x}}{tail}"),
        (f"x={head} y={tail}; ", "$x$y"),
        (f"x={head}; x+={tail}; ", "$x"),
        (f"x=ab{word}cd; ", f"${{x:2:{len(word)}}}"),
        (f"x=ab{word}; ", "${x#ab}"),
        (f"x={word}.c; ", "${x%.c}"),
        (f"x=a.b.{word}; ", "${x##*.}"),
        (f"x={word.upper()}; ", "${x,,}"),
        (f"x={word}Q; ", "${x/Q}"),
        (f"x=Q{tail}; ", f"${{x/Q/{head}}}"),
        (f"v={word} n=v; ", "${!n}"),
        (f"a=(ls {word}); ", "${a[1]}"),
        (f"a=({word}); ", "${a[0]}"),
        (f"a=({word}); ", "$a"),
        (f"declare x={word}; ", "$x"),
        (f"export x={word}; ", "$x"),
        (f"readonly x={word}; ", "$x"),
        (f"printf -v x {word}; ", "$x"),
        (f"printf -v x '%s' {word}; ", "$x"),
        (f"read x <<< {word}; ", "$x"),
        (f"read -r x y <<< '{word} z'; ", "$x"),
        (f"x=$(echo {word}); ", "$x"),
        (f"x=`echo {word}`; ", "$x"),
        (f"set -- {word}; ", "$1"),
        (f"set -- a {word}; shift; ", "$1"),
        (f"set -- {word}; ", '"$@"'),
        (f"for x in {word}; do :; done; ", "$x"),
        (f": ${{x:={word}}}; ", "$x"),
        (f"mapfile -t m <<< {word}; ", "${m[0]}"),
        (f"IFS=,; c=a,{word}; set -- $c; ", "$2"),
        (f"declare -A m; m[k]={word}; ", "${m[k]}"),
        (f"let n=1; a=(x {word}); ", "${a[n]}"),
        (f"x={word}; y=$x; ", "$y"),
        (f"f() {{ echo {word}; }}; ", "$(f)"),
        (f"if true; then x={word}; fi; ", "$x"),
        (f"true && x={word}; ", "$x"),
        (f"x={word} || :; ", "$x"),
        (f"case a in a) x={word};; esac; ", "$x"),
        (f"eval x={word}; ", "$x"),
        (f'local_f() {{ local z={word}; "$z" "$@"; }}; ', "local_f"),
        (f'f() {{ {word} "$@"; }}; ', "f"),
        ('f() { "$@"; }; ', f"f {word}"),
        ('f() { $1 "${@:2}"; }; ', f"f {word}"),
        (f"shopt -s expand_aliases; alias q={word}\n", "q"),
        (f"a=(x {word} y); ", '"${a[@]:1:1}"'),
        (f"a=(x y {word}); ", "${a[*]:2:1}"),
        (f"a=(x {word}); ", '"${a[@]: -1}"'),
        (f"a=(x y {word}); n=2; ", "${a[@]:n:1}"),
        (f"set -- a {word} b; ", '"${@:2:1}"'),
        (f"declare -a 'a=(x {word})'; ", "${a[1]}"),
        (f"typeset -a 'a=({word} x)'; ", '"${a[@]:0:1}"'),
        (f"declare -A 'm=([k]={word})'; ", "${m[k]}"),
        (f"declare -a a; declare 'a=({word})'; ", "$a"),
        ('f() { [ "$1" = s ] && f r "${@:2}" || { shift; "$@"; }; }; ', f"f s {word}"),
        ('f() { case $1 in a) shift; f b "$@";; b) shift; "$@";; esac; }; ', f"f a {word}"),
        ('f() { g "$@"; }; g() { case $1 in 0) shift; "$@";; *) f 0 "$@";; esac; }; ', f"f {word}"),
        (f'x=true; f() {{ $x "$@"; [ $x = {word} ] && return; x={word}; f "$@"; }}; ', "f"),
        ("shopt -s extglob\n", f"/usr/local/bin/@({word})"),
        (f"shopt -s extglob\nx='/usr/local/bin/@({word})'; ", "$x"),
        (f"ln -s /usr/local/bin/{word} ./lnk; ", "./lnk"),
        (f"cp /usr/local/bin/{word} ./cpy; ", "./cpy"),
    ]


def _make(line: str) -> str:
    if "\n" in line:
        return f"eval {quote(line)}"
    return f"make -sf - <<'XEOF'\nall:\n\t@bash -c {quote(line).replace('$', '$$')}\nXEOF"


def _recursive(line: str, shape: str) -> str:
    """Return a function that calls itself before it comes to the line."""
    name = f"r{zlib.crc32(line.encode()) % 10**6}"
    return shape.format(f=name, line=quote(line), inner=quote(f"{name} {quote(line)}"))


def _added_recipe(line: str) -> str:
    if "\n" in line:
        return f"eval {quote(line)}"
    name = _name("k", line)[:-2] + "mk"
    recipe = quote(f"@bash -c {quote(line)}".replace("$", "$$"))
    return f"echo all: > {name}; printf '\\t%s\\n' {recipe} >> {name}; make -sf {name} all"


_PERL = 'system("bash", "-c", '
Carrier = Callable[[str, random.Random], str]

CARRIERS: list[Carrier] = [
    lambda line, _: line,
    lambda line, _: f"bash -c {quote(line)}",
    lambda line, _: f"bash -ec {quote(line)}",
    lambda line, _: f"sh -c 'bash -c \"$0\"' {quote(line)}",
    lambda line, _: f"bash -c -- {quote(line)}",
    lambda line, _: f"bash --norc -c {quote(line)} a b",
    lambda line, _: f"eval {quote(line)}",
    lambda line, _: f"eval eval {quote(quote(line))}",
    lambda line, _: f"bash <<< {quote(line)}",
    lambda line, _: f"bash <<'XEOF'\n{line}\nXEOF",
    lambda line, _: f"cat <<'XEOF' | bash\n{line}\nXEOF",
    lambda line, _: f"printf '%s\\n' {quote(line)} | bash",
    lambda line, _: f"echo {quote(line)} | bash" if "\\" not in line else f"bash -c {quote(line)}",
    lambda line, _: f"bash <(printf '%s\\n' {quote(line)})",
    lambda line, _: f"source <(printf '%s\\n' {quote(line)})",
    lambda line, _: f". /dev/stdin <<< {quote(line)}",
    lambda line, _: f"printf '%s\\n' {quote(line)} > s.sh; bash s.sh",
    lambda line, _: f"printf '%s\\n' {quote(line)} > s.sh; . ./s.sh",
    lambda line, _: f"cat > s.sh <<'XEOF'\n#!/bin/bash\n{line}\nXEOF\nchmod +x s.sh; ./s.sh",
    lambda line, _: f"printf '%s\\n' {quote(line)} | tee s.sh >/dev/null; bash ./s.sh",
    lambda line, _: f"trap {quote(line)} EXIT",
    lambda line, _: f"trap {quote(line)} ERR; false; true",
    lambda line, _: f"({line}\n)",
    lambda line, _: f"{{ {line}\n}}",
    lambda line, _: f"! {{ {line}\n}}",
    lambda line, _: f"time {{ {line}\n}}",
    lambda line, _: f"if true; then {line}\nfi",
    lambda line, _: f"if false; then :; else {line}\nfi",
    lambda line, _: f"while true; do {line}\nbreak; done",
    lambda line, _: f"until false; do {line}\nbreak; done",
    lambda line, _: f"for i in 1; do {line}\ndone",
    lambda line, _: f"for ((i=0;i<1;i++)); do {line}\ndone",
    lambda line, _: f"case a in b) ;; a|c) {line}\n;; esac",
    lambda line, _: f"g() {{ {line}\n}}; g",
    lambda line, _: f"g() ( {line}\n); g",
    lambda line, _: f"function g {{ {line}\n}}; g",
    lambda line, _: f"true && {{ {line}\n}}",
    lambda line, _: f"false || {{ {line}\n}}",
    lambda line, _: f"{{ {line}\n}} | cat",
    lambda line, _: f"{{ {line}\n}} & wait",
    lambda line, _: f"coproc {{ {line}\n}}; wait",
    lambda line, _: f"x0=$({line}\n)",
    lambda line, _: f'echo "$({line}\n)"',
    lambda line, _: f"echo $(( 1 + $({line}\n:) 0 ))",
    lambda line, _: f"cat <({line}\n)",
    lambda line, _: f"[[ -n $({line}\n) ]]",
    lambda line, _: f"cat <<XEOF\n$({line}\n)\nXEOF",
    lambda line, _: f"arr[$({line}\necho 0)]=1",
    lambda line, _: f"echo ${{zz:-$({line}\n)}}",
    lambda line, _: f"declare -a {quote(f'a0=([$({line}{chr(10)}echo 0)]=1)')}",
    lambda line, _: f"typeset -a {quote(f'a0=($({line}{chr(10)}))')}",
    lambda line, _: f"declare -A {quote(f'h0=([$({line}{chr(10)})k]=1)')}",
    lambda line, _: f"g() {{ local -a {quote(f'a0=($({line}{chr(10)}))')}; }}; g",
    lambda line, _: _recursive(line, '{f}() {{ eval "$1"; }}; {f} {inner}'),
    lambda line, _: _recursive(line, '{f}() {{ [ -n "$1" ] && {f} \'\' {line} || eval "$2"; }}; {f} a'),
    lambda line, _: _recursive(
        line, "{f}() {{ case $1 in a) {f} b;; b) {f} c;; c) eval {line};; esac; }}; {f} a"
    ),
    lambda line, _: _recursive(
        line, '{f}=:; {f}() {{ eval "${f}"; [ "${f}" = : ] || return 0; {f}={line}; {f}; }}; {f}'
    ),
    lambda line, _: _added_recipe(line),
    lambda line, _: f"env bash -c {quote(line)}",
    lambda line, _: f'env -i A=1 PATH="$PATH" bash -c {quote(line)}',
    lambda line, _: f"nice -n 1 bash -c {quote(line)}",
    lambda line, _: f"timeout -s KILL 9 bash -c {quote(line)}",
    lambda line, _: f"nohup bash -c {quote(line)}",
    lambda line, _: f"setsid -w bash -c {quote(line)}",
    lambda line, _: f"stdbuf -oL bash -c {quote(line)}",
    lambda line, _: f"command bash -c {quote(line)}",
    lambda line, _: f"exec bash -c {quote(line)}",
    lambda line, _: f"flock lk bash -c {quote(line)}",
    lambda line, _: f"xargs -I@@ bash -c {quote(line)} < <(echo 1)",
    lambda line, _: f"printf '%s\\0' {quote(line)} | xargs -0 -n1 bash -c",
    lambda line, _: f"find . -maxdepth 0 -exec bash -c {quote(line)} ';'",
    lambda line, _: f"find . -maxdepth 0 -execdir bash -c {quote(line)} _ {{}} +",
    lambda line, _: f"python3 -c {quote('import os; os.system(' + repr('bash -c ' + quote(line)) + ')')}",
    lambda line, _: (
        f"python3 -c {quote('import subprocess as s; s.run(' + repr(['bash', '-c', line]) + ')')}"
    ),
    lambda line, _: (
        "python3 - <<'XEOF'\nfrom os import system as run\n"
        f"run({quote_python('bash -c ' + quote(line))})\nXEOF"
    ),
    lambda line, _: _make(line),
    lambda line, _: f"perl -e {quote(_PERL + quote_perl(line) + chr(41))}",
    lambda line, _: _appended(line, _name("e", line)),
    lambda line, _: _python_code(f"c = 'bash -c '\nc += {quote(line)!r}\nimport os\nos.system(c)"),
    lambda line, _: _python_code(
        f"import subprocess\nc = ['bash']\nc.append('-c')\nc.extend([{line!r}])\nsubprocess.run(c)"
    ),
    lambda line, _: _python_write(line, _name("w", line)),
    lambda line, _: _python_append(line, _name("a", line)),
    lambda line, _: f"printf '%s\\n' {quote(line)} >> {_there(line)}; bash {_there(line)}",
    lambda line, _: f"sed -i {quote(_substitution(line))} {_there(line)}; bash {_there(line)}",
    lambda line, _: f"sed -i {quote(_substitution(line))} {_there(line)}; . ./{_there(line)}",
    lambda line, _: (
        f"echo QQ > {_name('t', line)}; sed -i {quote(_substitution(line))} {_name('t', line)}; "
        f"bash {_name('t', line)}"
    ),
    lambda line, _: _python_edit(line, _there(line)),
    lambda line, _: _compiler(line),
    lambda line, _: f"alias_free=1; eval \"$(cat <<'XEOF'\n{line}\nXEOF\n)\"",
]


def _python_code(code: str) -> str:
    return f"python3 - <<'XEOF'\n{code}\nXEOF"


def _name(letter: str, line: str) -> str:
    """Return the name of a script that no line within this one has: it would run itself for ever."""
    return f"{letter}{zlib.crc32(line.encode()) % 10**6}.sh"


def _there(line: str) -> str:
    """Return the name of a script that lies there before, with a line of QQ in it."""
    return f"there{zlib.crc32(line.encode()) % THERE}.sh"


def _appended(line: str, name: str) -> str:
    return f"echo : > {name}; cat >> {name} <<'XEOF'\n{line}\nXEOF\nbash {name}"


def _python_write(line: str, name: str) -> str:
    return _python_code(f"open({name!r}, 'w').write({line + chr(10)!r})") + f"\nbash {name}"


def _python_append(line: str, name: str) -> str:
    return _python_code(f"with open({name!r}, 'a') as f:\n    print({line!r}, file=f)") + f"\nbash ./{name}"


def _python_edit(line: str, name: str) -> str:
    code = f"s = open({name!r}).read()\ns = s.replace('QQ', {line!r})\nopen({name!r}, 'w').write(s)"
    return _python_code(code) + f"\nbash {name}"


def _substitution(line: str) -> str:
    """Return what sed puts a line in the place of QQ with."""
    for sign, text in (("\\", "\\\\"), ("/", "\\/"), ("&", "\\&"), ("\n", "\\n")):
        line = line.replace(sign, text)
    return f"s/QQ/{line}/"


def _compiler(line: str) -> str:
    if "\n" in line:
        return f"eval {quote(line)}"
    tool = f"bash -c {quote(line)} #".replace("$", "$$")
    return f"touch x.c; CC={quote(tool)} make -s x"


def quote_python(text: str) -> str:
    return repr(text)


def quote_perl(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


AROUND: list[Callable[[str], str]] = [
    lambda line: line,
    lambda line: f"ls / >/dev/null; {line}",
    lambda line: f"true && {line}",
    lambda line: f"false || {line}",
    lambda line: f"# note\n{line}",
    lambda line: f"{line}\necho done",
    lambda line: f"cd /tmp && {line}",
    lambda line: f"A=1 B='x y'\n{line}",
    lambda line: f"echo 'not {MARKER}' > /dev/null\n{line}",
    lambda line: f"set -e\n{line}",
    lambda line: f"cat <<A >/dev/null\nx\nA\n{line}",
    lambda line: f"cat <<'A' >/dev/null ; true\n$(ls)\nA\n{line}",
]


def _simple(word: str, arguments: str, pick: random.Random) -> str:
    before = ""
    if pick.random() < 0.5:
        before, text = pick.choice(_variables(word, pick))
    else:
        text = pick.choice(_spellings(word, pick))
    if "\n" in text or text.startswith("$(cat <<"):
        return f"{before}{text} {arguments}"
    shape = pick.randrange(9)
    if shape == 0:
        return f"{before}{text} {arguments} >/dev/null 2>&1"
    if shape == 1:
        return f"{before}>/dev/null {text} {arguments}"
    if shape == 2 and not before:
        return f"V=1 {text} {arguments}"
    if shape == 3:
        return f"{before}{text} {arguments} < /dev/null"
    if shape == 4 and not before and text[0] not in "$`":
        return f"time {text} {arguments}"
    if shape == 5:
        return f"{before}{text}\t{arguments} # {MARKER}"
    return f"{before}{text} {arguments}"


def generate(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Return so many lines, each with its harmless twin."""
    for number in range(count):
        pair = []
        for word in (MARKER, "echo"):
            pick = random.Random(f"{seed}-{number}")
            line = _simple(word, f"arg{number}", pick)
            for _ in range(pick.choice((0, 1, 1, 1, 2, 2, 3))):
                line = pick.choice(CARRIERS)(line, pick)
            pair.append(pick.choice(AROUND)(line))
        yield pair[0], pair[1].replace(f"not {MARKER}", "not").replace(f"# {MARKER}", "# x")
