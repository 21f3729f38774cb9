"""Long, deep and invented input: an answer in bounded time, never an error, and never open."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.approval._parser import Parser
from hermes.approval._syntax import Unparsable

from ._engine import ENGINE, judge, request

SIZE = 100_000
LONG = {
    "one word": "a" * SIZE,
    "blanks": "ls " + " " * SIZE + "x",
    "words": "echo " + "word " * (SIZE // 5),
    "addresses": "curl " + " ".join(f"https://a.example/{number}" for number in range(4000)),
    "patterns": "rm " + " ".join(f"dir{number}/*.py" for number in range(4000)),
    "flags": "rm " + "-a " * (SIZE // 3) + "x",
    "semicolons": ";".join(["ls"] * (SIZE // 3)),
    "and": " && ".join(["true"] * (SIZE // 8)),
    "pipes": "|".join(["cat"] * (SIZE // 4)),
    "lines": "\n".join(["ls -la"] * (SIZE // 7)),
    "parentheses": "(" * 5000 + "ls" + ")" * 5000,
    "braces": "{ " * 5000 + "ls;" + " }" * 5000,
    "substitutions": "echo " + "$(" * 5000 + "ls" + ")" * 5000,
    "arithmetic": "echo " + "$((" * 5000 + "1" + "))" * 5000,
    "expansions": "echo " + "${a:-" * 5000 + "x" + "}" * 5000,
    "quotes": "echo " + "'" * SIZE,
    "double quotes": "echo " + '""' * (SIZE // 2),
    "backslashes": "echo " + "\\" * SIZE,
    "backticks": "echo " + "`" * SIZE,
    "nested backticks": "echo " + "`\\" * (SIZE // 2),
    "path": "cat " + "a/" * (SIZE // 2) + "x",
    "up": "rm " + "../" * (SIZE // 3) + "x",
    "document": "cat > f <<'EOF'\n" + "rm -rf / is text\n" * (SIZE // 17) + "EOF",
    "open document": "cat <<EOF\n" + "$(ls\n" * (SIZE // 5),
    "python": "python3 <<'EOF'\n" + "x = 1  # comment\n" * (SIZE // 17) + "EOF",
    "sed": "sed -i 's/a/b/;" + "s/a/b/;" * (SIZE // 7) + "' x",
    "sed, other delimiters": "sed -i '" + "s!s#s,s@" * (SIZE // 8) + "' x",
    "sed, backslashes": "sed 's/" + "\\\\" * 5000 + "' x; sed -e 's/a/" + "\\n\\\\" * 5000 + "' x",
    "sed, many scripts": "sed -i " + "-e 's|a\\\\|b' " * 5000 + "x",
    "sed, then run": "sed -i 's/" + "\\\\a" * 5000 + "/' run.sh; sh run.sh",
    "awk": "awk '" + "{print $1}" * (SIZE // 10) + "' x",
    "perl": "perl -e '" + "system(" * (SIZE // 7) + "'",
    "brace bomb": "echo " + "{a,b}" * 50,
    "brace range": "echo {1..100000000}",
    "doubling": "a=x; " + "a=$a$a; " * 60 + "echo $a",
    "loops": "for a in 1 2 3 4 5 6; do " * 12 + "ls; " + "done; " * 12,
    "functions": "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}; " for n in range(40)) + "f40() { ls; }; f0",
    "eval": "eval " * 5000 + "ls",
    "shells": "sh -c " * 500 + "ls",
    "tool in a variable": "GIT_SSH_COMMAND='ssh " + "-i k " * 6_000 + "!' git fetch",
    "verbs": "npm " + "add " * 4_000,
    "wrappers": "env " * 5000 + "ls",
    "globs": "ls " + "*" * 5000,
    "programs by patterns": "*--a=--a=;" * 1_400,
    "programs by paths with patterns": "./*[a-z]* x;" * 1_400,
    "trim": "a=" + "a" * 5000 + "; echo ${a##*a*a*a*a*b}",
    "case": "case " + "a" * 5000 + " in *a*a*a*a*b) ls;; esac",
    "copies": "scp " + " ".join(f"a/{number:<14}" for number in range(5_900)),
    "copies by parts": "scp " + " ".join(f"/a:{number}:/b,/c=/d" for number in range(5_800)),
    "variables": "env " + " ".join(f"A{number}=/x/{number:<8}" for number in range(5_900)),
    "hosts": "env " + " ".join(f"h{number}:/a/{number:<8}" for number in range(5_900)),
    "packages": "pip install " + " ".join(f"a/{number:<14}" for number in range(5_900)),
    "outputs": "foo " + " ".join(f"--out{number}=/x/{number}" for number in range(5_500)),
    "queries": "scp " + " ".join(f"https://a.example/{number}?a=/b" for number in range(290)),
    "patterns below the root": "ls " + " ".join(f"/*{number}/x" for number in range(7_000)),
    "patterns of a home": "cat " + " ".join(f"~/*s*{number}*/x" for number in range(290)),
    "brackets": "ls " + " ".join(f"[a-{'bcdef'[number % 5]}]{number}/[!x]*" for number in range(290)),
    "settings": "git " + " ".join(f"-c a.b{number}=/x/{number}" for number in range(2_600)) + " status",
    "mounts": "docker run " + " ".join(f"-v /x/{number}:/y" for number in range(2_600)) + " image",
    "declared": "declare " + " ".join(f"a{number}=/x/{number}" for number in range(5_900)),
    "unset": "unset " + " ".join(f"a{number}" for number in range(5_900)),
    "and, with variables": " && ".join(f"a{number}=1" for number in range(3_900)),
    "or, with variables": " || ".join(f"a{number}=1" for number in range(3_900)),
    "arguments, again and again": f"set -- {'a/b ' * 1_900}; " + 'cat "$@"; ' * 200,
    "wrappers of many words": "nohup " * 20 + "cat " + "a/b " * 5_900,
    "trims": "x=" + "ab" * 90 + "; echo " + " ".join(f"${{x%%*{number}*}}" for number in range(290)),
    "branches": "x=b; case $x in " + " ".join(f"*a{number}) ls;;" for number in range(2_000)) + " esac",
    "files, then words": "; ".join(f"echo a>f{number}" for number in range(1_300))
    + "; cat "
    + " ".join(f"a/{number}" for number in range(2_500)),
    "files, then patterns": "; ".join(f"echo a>f{number}" for number in range(900))
    + "; cat "
    + " ".join(f"*{number}*" for number in range(290)),
    "values of a loop": "for a in "
    + " ".join(f"~/.ssh/{number}" for number in range(5_000))
    + "; do cat $a; done",
    "items": "printf '%s\\n' " + " ".join(f"/x/{number:<11}" for number in range(5_900)) + " | xargs cat",
    "texts": "printf '%s\\n' " + "a " * 5_900 + "| xargs -I{} sh -c 'cat {}'",
    "segments": "; ".join(f"echo a{number}" for number in range(2_000)),
    "segments of Python": "; ".join(f"python3 a{number}.py" for number in range(2_000)),
    "segments of git": "; ".join(f"git add a{number}" for number in range(2_000)),
    "segments of curl": "; ".join(f"curl https://a.example/{number}" for number in range(2_000)),
    "segments of other programs": "; ".join(f"prog{number} a b" for number in range(2_000)),
    "exports": "; ".join(f"export a{number}=ls" for number in range(2_900)),
    "aliases": "; ".join(f"alias a{number}=ls" for number in range(2_000)),
    "filters": " | ".join(f"grep a{number}" for number in range(2_900)),
    "substitutions in a row": "; ".join(f"echo $(ls {number})" for number in range(1_000)),
    "directories": "; ".join(f"cd a{number}" for number in range(2_000)),
    "copies to a host": "rsync -a " + " ".join(f"a/b{number}" for number in range(5_900)) + " h:",
    "python calls": "python3 <<'E'\n" + "x = f(1)\nwith open('a') as f: print(f.read())\n" * 1_000 + "E",
    "wide letters": "echo " + "\uff41" * 50_000,
    "quoted wide letters": "echo '" + "\uff41" * 50_000 + "'",
    "accents": "echo '" + "\u00e9" * 50_000 + "'",
}


@pytest.mark.parametrize("name", LONG)
def test_long_lines_are_answered_in_bounded_time(name: str) -> None:
    text = LONG[name]
    begun = time.thread_time()
    decision = judge(text)
    spent = time.thread_time() - begun
    assert decision.action in ("allow", "ask")
    assert decision.rule != "judge-failed", decision
    assert spent < 2.0  # 0.1 s is the aim, and what the bench shows; this is for slow machines
    dangerous = judge(text + "\nrm -rf src" if name == "document" else "rm -rf src; " + text)
    assert dangerous.action != "allow"


@pytest.mark.parametrize(
    "name",
    [
        "words",
        "and, with variables",
        "arguments, again and again",
        "wrappers of many words",
        "patterns",
        "texts",
        "functions",
        "settings",
        "packages",
        "segments of curl",
        "python calls",
    ],
)
def test_what_is_more_than_is_looked_at_is_asked_about(name: str) -> None:
    assert judge(LONG[name]).action == "ask"


@pytest.mark.parametrize(
    "text",
    [
        LONG["segments"],
        "rm " + " ".join(f"build/a{number}.o" for number in range(500)),
        "pip install " + " ".join(f"package{number}==1.{number}" for number in range(200)),
        "git add " + " ".join(f"src/a{number}.py" for number in range(500)),
        "mkdir -p " + " ".join(f"a/b{number}/c" for number in range(1_000)),
        "for a in " + " ".join(f"name{number}" for number in range(300)) + "; do cp $a.txt $a.md; done",
        "\n".join(f"python3 tools/step{number}.py && git add out/{number}" for number in range(150)),
        "python3 <<'E'\n" + "print(len('a'), 1)\n" * 500 + "E",
    ],
)
def test_what_somebody_may_well_write_is_looked_at_whole(text: str) -> None:
    assert judge(text).action == "allow"
    assert judge(text + "\nrm -rf src").action == "ask"


# Repeated, in place of {} in each of these.
SIGNS = """
[ ] [] [! [^ [a [a- [0] [[:alpha:]] * ** ? a* *a */ **/ { } {a, {a,b} {1..2} ( ) @( ?( !( +( ~ ~/
$ $a ${a} ${ $( $' ` \\ ' " = a= a[0]= - -- -a / ./ ../ . , : @ # % %s ! ^ | && & ; < > << 0 a A
s/a/ :// a. \\x41 \u00e9 \u200b
"""
SHORT = [*SIGNS.split(), "\t", "\n", " \n", "a ", "a\n"]
FRAMES = {
    "alone": "{}",
    "word": "ls {}",
    "target": "ls > {}",
    "text for a shell": "sh <<'EOF'\n{}\nEOF",
    "expanded text for a shell": "sh <<EOF\n{}\nEOF",
    "single quotes": "sh -c '{}'",
    "double quotes": 'sh -c "{}"',
    "path": "rm -rf /{}/x",
    "pattern": "a=bc; case $a in {}) ls;; esac; echo ${a##{}}",
    "code": "perl -e '{}'",
    "sed": "sed -e '{}' x",
}


def _spent(text: str) -> float:
    begun = time.thread_time()
    decision = judge(text)
    spent = time.thread_time() - begun
    assert decision.rule != "judge-failed", text[:40]
    return spent


@pytest.mark.parametrize("frame", FRAMES)
def test_time_grows_with_the_length_alone(frame: str) -> None:
    """Eight times as long may take 24 times as long, and what is done within 20 ms says nothing."""
    slow = []
    for short in SHORT:
        few, many = (FRAMES[frame].replace("{}", short * (size // len(short))) for size in (8_000, 64_000))
        spent = _spent(many)
        if spent > 0.02 * 24 and spent > 24 * max(_spent(few), 0.02):
            slow.append(short)
    assert not slow


@pytest.mark.parametrize("count", [10, 500, 2000])
def test_what_is_at_the_end_of_a_long_line_counts(count: int) -> None:
    assert judge("ls; " * count).action == "allow"
    assert judge("ls; " * count + "rm -rf src").action == "ask"
    assert judge("ls; " * count + "rm -rf /").action == "block"


def test_a_line_past_every_bound_is_asked_and_the_worst_blocked() -> None:
    assert judge("ls; " * 200_000).action == "ask"
    assert judge("ls; " * 200_000 + "rm -rf /").action == "block"


def test_the_state_of_a_session_is_bounded() -> None:
    state = None
    for number in range(12):
        writes = "; ".join(f"echo {'x' * 900} > f{number}_{index}" for index in range(250))
        state = ENGINE.judge(request(writes), state).after
    assert state is not None
    assert state.crowded
    assert sum(map(len, state.files.values())) < 4_000_000
    assert judge("sh unseen.sh", state=state).action == "ask"


@pytest.mark.parametrize(
    "text", ["git clone x -", "git clone x - y", "kubectl exec web -=- env", "curl - -=- x"]
)
def test_what_is_hardly_an_option_is_read(text: str) -> None:
    assert judge(text).rule != "judge-failed"


PIECES = [
    "rm",
    "-rf",
    "ls",
    "x",
    "$x",
    "${x}",
    "${x:-",
    "$(",
    "`",
    ")",
    "(",
    "{",
    "}",
    ";",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    "\n",
    " ",
    "  ",
    "\t",
    "'",
    '"',
    "\\",
    "\\\n",
    "<<A",
    "<<-'A'",
    "\nA\n",
    "<<<",
    "<",
    ">",
    ">>",
    "2>&1",
    "&>",
    "<(",
    ">(",
    "$((",
    "))",
    "((",
    "[[",
    "]]",
    "[",
    "]",
    "if",
    "then",
    "else",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "while",
    "case",
    "esac",
    ";;",
    "function",
    "f()",
    "time",
    "!",
    "coproc",
    "select",
    "a=",
    "a=(",
    "a[1]=",
    "a+=",
    "*",
    "?",
    "~",
    "#",
    "=",
    "{a,b}",
    "{1..3}",
    "$'\\x41'",
    '$"',
    "@(",
    "!(",
    "eval",
    "sh -c",
    "xargs",
    "sudo",
    "echo",
    "cat",
    "cd",
    "/",
    "..",
    "\u00e9",
    "\u200b",
    "\x00",
    "\r",
    "$@",
    "$1",
    "${#a}",
    "${a[@]}",
    "${!a}",
    "${a/",
    "${a@P}",
    "export",
    "read",
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
    | st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join)
)
def test_invented_lines_give_an_answer(text: str) -> None:
    findings = ENGINE.explain(request(text))  # raises what judge() would turn into a question
    decision = judge(text)
    assert decision.action in ("allow", "ask", "block")
    assert bool(findings) is (decision.action != "allow")
    if decision.span:
        assert 0 <= decision.span[0] < decision.span[1] <= len(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text_gives_an_answer(text: str) -> None:
    ENGINE.explain(request(text))
    for frame in (
        "'{}'",
        "python3 -c '{}'",
        "perl -e '{}'",
        "sed '{}' x",
        "awk '{}' x",
        "printf '{}' a",
        "case {} in {}) ;; esac",
    ):
        ENGINE.explain(request(frame.replace("{}", text)))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_a_quoted_text_is_one_word(text: str) -> None:
    quoted = "'" + text.replace("'", "'\\''") + "'"
    try:
        Parser(f"echo {quoted}").script()
    except Unparsable:
        pytest.fail("a quoted text could not be read")
    decision = judge(f"tool {quoted}")
    assert len(decision.programs) == 1 or "\x00" in text or "\u200b" in text or "\r" in text
