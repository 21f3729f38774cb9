"""Commands of every size and kind: long, malformed, empty, multi-line. None wedges the session."""

from __future__ import annotations

import pytest

from hermes import Sandbox

from .._harness import case
from ..tools import fails, out, stopwatch


@case
async def test_long_command(box: Sandbox) -> None:
    """150 KB, more than one argument of a program may have."""
    text = "x" * 150_000
    assert (await box.run(f"v={text}; echo ${{#v}}")).stdout == b"150000\n"
    assert (await box.exec(f"v={text}; echo ${{#v}}; exit 3")).stdout == b"150000\n"
    job = await box.start(f"v={text}; echo ${{#v}}")
    assert (await job.wait(10)).stdout == b"150000\n"


@case
async def test_very_long_command(box: Sandbox) -> None:
    result = await box.run("cat <<'EOF'\n" + "0123456789abcde\n" * 200_000 + "EOF\n", max_output=4_000_000)
    assert result.stdout == b"0123456789abcde\n" * 200_000


@case
async def test_many_lines(box: Sandbox) -> None:
    assert await out(box, "n=0\n" + "n=$((n+1))\n" * 5000 + "echo $n") == "5000"


@pytest.mark.parametrize(
    "command",
    [
        "echo 'unterminated",
        'echo "unterminated',
        "echo $(unterminated",
        "if true; then",
        "for x in",
        "fi",
        "}",
        ")",
        "case x in",
        "echo `unterminated",
        "foo() {",
        "&&",
        "echo ${",
        ";;",
        "<",
        "[[ a",
    ],
)
@case
async def test_syntax_error(box: Sandbox, command: str) -> None:
    """A status and a message of the shell's; nothing of it is run; the session goes on."""
    await box.run("x=1")
    with stopwatch(5):
        result = await box.run(command, timeout=4)
    assert (result.status, result.timed_out) == ("ok", False)
    assert result.exit_code != 0
    assert result.stderr
    assert await out(box, "echo $x") == "1"


@case
async def test_nothing_after_a_syntax_error_is_run(box: Sandbox) -> None:
    result = await box.run("echo before\necho 'unterminated\ntouch ran\n")
    assert result.exit_code != 0
    assert (await box.run("test -e ran")).exit_code == 1


@case
async def test_unterminated_here_document(box: Sandbox) -> None:
    """bash takes the end of the command for the end of the document, and warns."""
    result = await box.run("cat <<EOF\ninside")
    assert result.stdout == b"inside\n"
    assert await out(box, "echo next") == "next"


@pytest.mark.parametrize("command", ["", " ", "\n\n", "# a comment", "# one\n  # two\n", ":", "\t"])
@case
async def test_commands_that_do_nothing(box: Sandbox, command: str) -> None:
    result = await box.run(command)
    assert (result.status, result.exit_code, result.stdout, result.stderr) == ("ok", 0, b"", b"")
    assert (await box.exec(command)).exit_code == 0


@case
async def test_several_lines(box: Sandbox) -> None:
    assert await out(box, "a=1\nb=2\n\n# note\necho $a \\\n  $b\nif true\nthen echo yes\nfi") == "1 2\nyes"


@case
async def test_here_documents(box: Sandbox) -> None:
    command = (
        "x=5\ncat <<EOF\n$x 'q'\nEOF\ncat <<'EOF'\n$x\nEOF\ncat <<-EOF\n\ttabbed\n\tEOF\ncat <<<\"here $x\""
    )
    assert await out(box, command) == "5 'q'\n$x\ntabbed\nhere 5"


@case
async def test_trailing_parts(box: Sandbox) -> None:
    """A trailing comment, backslash, newline or operator concerns nobody else."""
    assert await out(box, "echo a # comment") == "a"
    await box.run("echo a \\")
    assert await out(box, "echo b\n\n\n") == "b"
    await box.run("echo a |")
    await box.run("echo a &&")
    assert await out(box, "echo c") == "c"


@case
async def test_nul_is_refused(box: Sandbox) -> None:
    """Nothing of a command with a NUL is run: no shell can be given one."""
    for run in (box.run, box.exec, box.start):
        with fails("command_invalid"):
            await run("touch ran; echo a\0b")
    with fails("command_invalid"):
        await box.run(["touch", "ran\0"])
    assert (await box.run("test -e ran")).exit_code == 1


@case
async def test_bytes_that_are_no_text(box: Sandbox) -> None:
    """Lone surrogates stand for bytes, as in file names from the system."""
    command = b"printf '%s' 'a\xff\xfeb'".decode("utf-8", "surrogateescape")
    assert (await box.run(command)).stdout == b"a\xff\xfeb"
    assert (await box.exec(command)).stdout == b"a\xff\xfeb"


@case
async def test_surrogate_that_is_no_byte(box: Sandbox) -> None:
    with fails("command_invalid"):
        await box.run("echo \ud800; touch ran")
    assert (await box.run("test -e ran")).exit_code == 1


@case
async def test_unicode(box: Sandbox) -> None:
    assert await out(box, "echo 'äöü € 漢字 🜨'; v='ß'; echo $v") == "äöü € 漢字 🜨\nß"


@case
async def test_carriage_returns(box: Sandbox) -> None:
    """They mean what they mean to bash: part of a word."""
    result = await box.run("printf '[%s]' 'a\r\nb'")
    assert result.stdout == b"[a\r\nb]"
    assert (await box.run("true\r\n")).exit_code == 127
    assert await out(box, "echo on") == "on"


@case
async def test_control_characters(box: Sandbox) -> None:
    text = "".join(chr(n) for n in range(1, 32) if chr(n) not in "\n\r") + "\x7f"
    assert (await box.run(f"printf %s '{text}'")).stdout == text.encode()


@case
async def test_history_expansion_is_off(box: Sandbox) -> None:
    assert await out(box, 'echo "hello!" !! !$') == "hello! !! !$"


@case
async def test_deep_nesting(box: Sandbox) -> None:
    depth = 200
    assert await out(box, "( " * depth + "echo deep" + " )" * depth) == "deep"
    assert await out(box, "f() { [ $1 = 0 ] && echo bottom || f $(($1-1)); }; f 500") == "bottom"


@pytest.mark.parametrize(
    "options",
    [{"timeout": -1}, {"max_output": -5}, {"env": {"A B": "1"}}, {"env": {"": "1"}}, {"env": {"A=B": "1"}}],
)
@case
async def test_senseless_options(box: Sandbox, options: dict[str, object]) -> None:
    with fails("env_invalid" if "env" in options else "command_invalid"):
        await box.run("touch ran", **options)  # type: ignore[arg-type]
    assert (await box.run("test -e ran")).exit_code == 1
