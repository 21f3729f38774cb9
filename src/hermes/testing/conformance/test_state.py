"""What one command sets, the next one finds: also after the shell died."""

from __future__ import annotations

import pytest

from hermes import Sandbox

from .._harness import case
from ..tools import out

# What ends the shell: before it is set what has to survive.
ENDS = ["true", "exit 3", "exec true", "kill -9 $$", "set -e; false; set +e"]

every_end = pytest.mark.parametrize("end", ENDS, ids=["stays", "exit", "exec", "killed", "errexit"])


async def ended(box: Sandbox, end: str) -> None:
    await box.run(end)
    if "set -e" in end:
        await box.run("set +e")


@every_end
@case
async def test_variables(box: Sandbox, end: str) -> None:
    await box.run("plain='a  b'; export shared=\"it's\"; empty=; number=007")
    await ended(box, end)
    assert await out(box, 'echo "$plain|$shared|${empty-unset}|$number"') == "a  b|it's||007"
    assert await out(box, "bash -c 'echo $plain/$shared'") == "/it's"


@every_end
@case
async def test_odd_values(box: Sandbox, end: str) -> None:
    """Newlines, quotes, control characters and bytes that are no UTF-8 survive."""
    await box.run(r"v=$'a\n b\t\x01\x7f\xff\'\"\\$x`*'; declare -A m=([$'k\n1']=$'v\n\'2')")
    await ended(box, end)
    result = await box.run("printf '%s|%s' \"$v\" \"${m[$'k\\n1']}\"")
    assert result.stdout == b"a\n b\t\x01\x7f\xff'\"\\$x`*|v\n'2"


@every_end
@case
async def test_arrays(box: Sandbox, end: str) -> None:
    await box.run("a=(one 'two words' [7]=seven); declare -A h=([x]=1 ['y z']=2); declare -ai ints=(1 2)")
    await ended(box, end)
    assert await out(box, 'echo "${#a[@]} ${a[1]} ${a[7]} ${h[y z]} ${h[x]}"') == "3 two words seven 2 1"
    assert await out(box, 'ints[2]=1+1; echo "${ints[@]}"') == "1 2 2"


@every_end
@case
async def test_functions(box: Sandbox, end: str) -> None:
    await box.run("greet() {\n  local who=${1:-x}\n  cat <<EOF\nhello '$who'\nEOF\n}\nexport -f greet")
    await ended(box, end)
    assert await out(box, "greet you; bash -c 'greet child'") == "hello 'you'\nhello 'child'"


@every_end
@case
async def test_aliases(box: Sandbox, end: str) -> None:
    await box.run("alias hi=\"echo 'hello there'\"")
    await ended(box, end)
    assert await out(box, "hi") == "hello there"


@every_end
@case
async def test_options(box: Sandbox, end: str) -> None:
    await box.run("set -o pipefail; set -f; shopt -s nocasematch; umask 027")
    await ended(box, end)
    assert (await box.run("(exit 4) | true")).exit_code == 4
    assert await out(box, "[[ A == a ]] && echo *; umask") == "*\n0027"


@every_end
@case
async def test_traps(box: Sandbox, end: str) -> None:
    await box.run("trap 'echo \"it'\\''s USR1\"' USR1; trap '' USR2")
    await ended(box, end)
    assert await out(box, "kill -USR2 $$; kill -USR1 $$; true") == "it's USR1"


@every_end
@case
async def test_directory(box: Sandbox, end: str) -> None:
    await box.run('mkdir -p d; cd /; cd "$OLDPWD"/d')
    await ended(box, end)
    assert await out(box, "pwd; cd - >/dev/null; pwd") == f"{box.cwd}/d\n/"


@case
async def test_previous_directory_survives_the_shell(box: Sandbox) -> None:
    await box.run("cd /etc; cd /")
    await box.run("kill -9 $$")
    assert await out(box, "cd - ") == "/etc"


@case
async def test_attributes(box: Sandbox) -> None:
    await box.run("declare -i n=1; declare -u up=abc; readonly fixed=1; declare -n ref=n")
    assert await out(box, "n=2+3; up=xyz; ref=7; echo $n $up") == "7 XYZ"
    assert (await box.run("fixed=2")).exit_code != 0
    await box.run("exit")
    assert await out(box, "n=1+1; echo $n $fixed; up=q; echo $up") == "2 1\nQ"


@case
async def test_declare_is_global(box: Sandbox) -> None:
    """Commands run at the top level: a `declare` outside of functions is no local."""
    await box.run("declare x=1; declare -A m=([a]=b)")
    assert await out(box, "echo $x ${m[a]}; f() { declare y=2; }; f; echo [$y]") == "1 b\n[]"
    assert (await box.run("local z=1")).exit_code != 0


@case
async def test_positional_parameters(box: Sandbox) -> None:
    await box.run("set -- one 'two words' ''")
    assert await out(box, 'echo "$# $2"; shift') == "3 two words"
    assert await out(box, 'echo "$# $1"') == "2 two words"
    await box.run("kill -9 $$")
    assert await out(box, 'echo "$# $1"') == "2 two words"


@case
async def test_last_background_pid(box: Sandbox) -> None:
    await box.run("sleep 100 & started=$!")
    assert await out(box, "[ $! = $started ] && kill $! && echo same") == "same"


@case
async def test_unset_and_unalias(box: Sandbox) -> None:
    await box.run("x=1; f() { :; }; alias g=true; export e=1")
    await box.run("unset x e; unset -f f; unalias g")
    await box.run("kill -9 $$")
    assert await out(box, "echo ${x-no} ${e-no}; type f g >/dev/null 2>&1 || echo none") == "no no\nnone"


@case
async def test_state_before_the_deadly_command(box: Sandbox) -> None:
    """After `kill -9 $$` and `exec` the state is that before the command."""
    await box.run("x=before")
    await box.run("x=within; cd /; kill -9 $$")
    assert await out(box, "echo $x; pwd") == f"before\n{box.cwd}"
    await box.run("x=within; cd /; exec true")
    assert await out(box, "echo $x") == "before"


@case
async def test_exit_keeps_what_the_command_set(box: Sandbox) -> None:
    await box.run("x=1; cd /; f() { echo f; }; exit 3")
    assert await out(box, "echo $x; pwd; f") == "1\n/\nf"


@case
async def test_inherited_environment_can_be_changed(box: Sandbox) -> None:
    await box.run("export HOME=/nowhere; unset LANG; PATH=$PATH:/extra")
    await box.run("exit")
    assert await out(box, "echo $HOME ${LANG-none} ${PATH##*:}") == "/nowhere none /extra"


@case
async def test_much_state(box: Sandbox) -> None:
    """Thousands of variables and a megabyte of text are state like any other."""
    await box.run("for i in {1..3000}; do declare v$i=value$i; done; printf -v big '%01000000d' 7; big=x$big")
    await box.run("kill -9 $$")
    assert await out(box, "echo $v1 $v3000 ${#big} ${big: -1}") == "value1 value3000 1000001 7"


@case
async def test_virtual_environment(box: Sandbox) -> None:
    """A sourced script that changes PATH and defines functions, as activate scripts do, stays in force."""
    await box.run(
        "mkdir -p env/bin; printf '#!/bin/sh\\necho from env\\n' >env/bin/tool; chmod +x env/bin/tool\n"
        "printf 'OLD=$PATH; PATH=%s/env/bin:$PATH; deactivate() { PATH=$OLD; }\\n' \"$PWD\" >env/activate"
    )
    await box.run(". env/activate")
    assert await out(box, "tool") == "from env"
    await box.run("exit")
    assert await out(box, "tool") == "from env"
    assert (await box.run("deactivate; tool")).exit_code == 127


@case
async def test_a_large_state_survives_the_shell(box: Sandbox) -> None:
    """More state than any pipe holds is kept when a command ends the shell."""
    await box.run("a=($(seq 200000))")
    result = await box.run("exit 3", timeout=20)
    assert (result.exit_code, result.timed_out) == (3, False)
    assert await out(box, "echo ${#a[@]}") == "200000"


@case
async def test_exported_variables_that_are_changed(box: Sandbox) -> None:
    """What the environment brought and the session took out of it stays out, with its value."""
    await box.run("unset PATH; PATH=/usr/bin:/bin; declare +x HOME; HOME=/here; export BASH_ENV=/dev/null")
    await box.run("exit 2")
    said = await out(box, "echo $PATH $HOME $BASH_ENV; env | grep -c ^HOME= || :")
    assert said == "/usr/bin:/bin /here /dev/null\n0"
