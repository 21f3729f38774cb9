"""What runs though it does not stand in the line as it is, and harmless lines that look alike."""

from __future__ import annotations

import pytest

from ._engine import judge

SHELL = (
    """f(){ eval "$1"; }; f 'f "rm -r /opt/x"'""",
    'f(){ [ -n "$1" ] && f "" "rm -r /opt/x" || $2; }; f a',
    "x=ls; f(){ $x; x='rm -r /opt/x'; f; }; f",
    "f(){ case $1 in a) f b;; b) rm -r /opt/x;; esac; }; f a",
    "f(){ case $1 in a) f b;; b) f c;; c) f d;; d) f e;; e) f g;; g) rm -r /opt/x;; esac; }; f a",
    'f(){ g "$1"; }; g(){ [ -z "$1" ] && f "rm -r /opt/x" || $1; }; f ""',
    'f(){ [ "$1" = x ] && f ~/.bashrc; echo evil >> "$1"; }; f x',
    'f(){ eval "$1"; f "$1 $2"; }; f a b',
    "declare -a 'a=([$(rm -r /opt/x)]=1)'",
    "declare -a 'a=($(rm -r /opt/x))'",
    "readonly -a 'a=($(rm -r /opt/x))'",
    "typeset -a 'a=(`rm -r /opt/x`)'",
    "f(){ local -a 'a=($(rm -r /opt/x))'; }; f",
    "declare -A 'h=([$(rm -r /opt/x)k]=1)'",
    "declare -a a; declare 'a=([$(rm -r /opt/x)0]=1)'",
    "declare -a 'a=(rm -r /opt/x)'; \"${a[@]}\"",
    "a=(x rm -r /opt/x); ${a[*]:1:3}",
    'a=(x rm -r /opt/x); "${a[@]:1:3}"',
    'a=(x y z rm -r /opt/x); "${a[@]:3:3}"',
    'a=(x rm -r /opt/x); "${a[@]: -3}"',
    'a=(0 rm); "${a[@]:1:1}" -r /opt/x',
    'set -- x rm -r /opt/x; "${@:2:3}"',
    "bash -c '\"${@:0:3}\"' rm -r /opt/x",
    "shopt -s extglob\n/bin/+(r)m -r /opt/x",
    "x='/bin/@(rm)'; shopt -s extglob; $x -r /opt/x",
    "shopt -s extglob\ncase aa in +(a)) rm -r /opt/x;; esac",
    "zsh -c '=rm -r /opt/x'",
    ": ${LD_PRELOAD:=/tmp/x.so}; export LD_PRELOAD; ls",
    "for PATH in /tmp/evil; do ls; done",
    "select PATH in /tmp/evil; do ls; done",
    "set -k; ls PATH=/tmp/evil",
    "set -o keyword; ls LD_PRELOAD=/tmp/x.so",
    "echo 'rm -r /opt/x' >> Makefile; make",
    "printf 'a:\\n\\trm -r /opt/x\\n' >> Makefile; make a",
    "echo 'rm -r /opt/x' > .envrc; direnv allow",
    "printf 'default:\\n\\trm -r /opt/x\\n' > justfile; just",
    "echo 'web: rm -r /opt/x' > Procfile; foreman start",
    "printf 'tasks:\\n  a:\\n    cmds:\\n      - rm -r /opt/x\\n' > Taskfile.yml; task a",
    "echo 'import shutil; shutil.rmtree(\"/opt/x\")' > conftest.py; pytest",
    "echo 'system(\"rm -r /opt/x\")' > Rakefile; rake",
)
HARMLESS = (
    'f(){ [ -z "$1" ] && return; shift; f "$@"; }; f a b c',
    "fact(){ [ $1 -le 1 ] && echo 1 || echo $(( $1 * $(fact $(( $1 - 1 ))) )); }; fact 9",
    'walk(){ for d in "$1"/*; do [ -d "$d" ] && walk "$d" || echo "$d"; done; }; walk src',
    'retry(){ "$@" || { sleep 1; retry "$@"; }; }; retry npm test',
    'n=0; retry(){ "$@" || { n=$((n+1)); sleep 1; retry "$@"; }; }; retry npm test',
    'a=(a b c d); echo "${a[@]:1:2}" "${@:1}"',
    "declare -a 'a=(1 2 3)'; echo ${a[0]}",
    "shopt -s extglob\nls !(*.py)",
    "for FILE in a b; do echo $FILE; done; : ${NAME:=x}; echo $NAME",
    "printf 'default:\\n\\tcargo build\\n' > justfile; just",
    "printf 'test:\\n\\tpytest -q\\n' >> Makefile; make test",
    "echo 'CFLAGS += -O2' >> Makefile; make",
    "echo 'export FOO=1' > .envrc; direnv allow",
    "printf 'import pytest\\n\\ndef x():\\n    return 1\\n' > conftest.py; pytest",
)


@pytest.mark.parametrize("text", SHELL)
def test_the_shell_hides_nothing(text: str) -> None:
    assert judge(text).action != "allow"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_looks_alike_is_not_asked(text: str) -> None:
    decision = judge(text)
    assert decision.action == "allow", decision.reason
