"""Scripts that nobody here wrote do the same through hermes as in plain bash, byte for byte.

Bash's own tests and GNU hello come from Debian source packages, idna from its source distribution; the parts
`debian-source` and `sdist` fetch them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from _compare import Case, Outcome, compare, compared, in_new_session, in_shell_of_its_own
from hermes import Sandbox

PARTS = Path(__file__).resolve().parents[1] / ".cache" / "parts"
BASH = PARTS / "debian-source" / "bash"
HELLO = PARTS / "debian-source" / "hello"
SDIST = PARTS / "sdist"

HELPERS = ("recho", "zecho", "printenv", "xcase")  # programs that bash's tests use
NOT_RUN = {
    "jobs.tests": "needs a terminal of its own: plain bash hangs in it too",
}
LONG = {
    "trap.tests",
    "read.tests",
    "func.tests",
    "ifs-posix.tests",
    "assoc.tests",
    "test.tests",
    "coproc.tests",
}

# A session evaluates a command by sourcing it, which a script that looks at its own shell can see.
VISIBLE = {
    "array.tests": "BASH_SOURCE, BASH_LINENO and BASH_ARGV have the file that holds the command",
    "dbg-support.tests": "caller shows the file that holds the command",
    "more-exp.tests": "$- is one letter shorter: no c",
    "redir.tests": "descriptor 11 is free, which a shell of its own has in use by then",
    "rsh.tests": "set -r makes PATH and SHELL read-only, which it does not under -c",
    "set-x.tests": "PS4 is repeated once more for the file that holds the command",
    "type.tests": "aliases are expanded in a session",
    "varenv.tests": "$- has no c",
    "vredir.tests": "descriptors from 10 on are in use: {name}> gets 13",
}


def bash_tests() -> list[str]:
    """The files that bash's run-* scripts give to the shell under test."""
    names: list[str] = []
    for script in sorted((BASH / "tests").glob("run-*")):
        if script.name in ("run-all", "run-minimal", "run-gprof"):
            continue
        for name in re.findall(r"^\$\{THIS_SH\} \./(\S+)", script.read_text("utf-8", "replace"), re.M):
            names.append(name.replace("${TEST_NAME}", script.name.removeprefix("run-")))
    return sorted(set(names) - set(NOT_RUN))


def marked(names: list[str], reasons: dict[str, str]) -> list[object]:
    return [
        pytest.param(
            name,
            marks=[pytest.mark.slow, pytest.mark.timeout(300)] * (name in LONG)
            + [pytest.mark.xfail(reason=reasons.get(name, ""))] * (name in reasons),
        )
        for name in names
    ]


@pytest.fixture(scope="session")
def bash_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of bash's tests with the helper programs built, and a directory for temporary files."""
    if not BASH.exists():
        pytest.skip("the part debian-source is not here")
    place = tmp_path_factory.mktemp("bash")
    tests = place / "tests"
    shutil.copytree(BASH / "tests", tests)
    for name in HELPERS:
        source = BASH / "support" / f"{name}.c"
        subprocess.run(
            ["gcc", "-w", "-I", BASH, "-I", BASH / "include", source, "-o", tests / name], check=True
        )
    (place / "tmp").mkdir()
    return tests


@pytest.fixture(autouse=True)
def _as_plain_bash_has_it(hermes_home: Path) -> None:
    """Commands get the environment that the plain ones get, and nothing is taken out of what they print."""
    hermes_home.mkdir(0o700)
    (hermes_home / "config.yaml").write_text("credentials: {inherit: true, redact: 'off'}\n")
    (hermes_home / "config.yaml").chmod(0o600)


@pytest.fixture
def environment(bash_source: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What bash's own run-all sets up."""
    monkeypatch.setenv("THIS_SH", shutil.which("bash") or "bash")
    monkeypatch.setenv("TMPDIR", str(bash_source.parent / "tmp"))
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    monkeypatch.setenv("BUILD_DIR", str(bash_source.parent))
    monkeypatch.delenv("OLDPWD", raising=False)
    return bash_source


@pytest.mark.parametrize("name", marked(bash_tests(), {}))
async def test_a_file_of_the_bash_test_suite(name: str, environment: Path) -> None:
    async with Sandbox("local") as box:
        case = Case(f"$THIS_SH ./{name}", environment)
        done = await compared(box, case, in_shell_of_its_own, in_new_session)
    assert done.differences == []
    assert done.plain.stdout


@pytest.mark.parametrize("name", marked([name for name in bash_tests() if name not in LONG], VISIBLE))
async def test_a_file_of_the_bash_test_suite_in_the_shell_of_a_session(name: str, environment: Path) -> None:
    """The session's own bash runs the script."""
    async with Sandbox("local") as box:
        case = Case(f". ./{name}", environment, timeout=20)
        done = await compared(box, case, in_new_session)
    assert done.differences == []


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_configure_and_make(tmp_path: Path) -> None:
    if not HELLO.exists():
        pytest.skip("the part debian-source is not here")
    work = tmp_path / "hello"
    async with Sandbox("local") as box:
        case = Case(
            "./configure && make && ./hello && make -s install DESTDIR=$PWD/root && find root",
            work,
            prepare=fresh(HELLO, work),
            files=("hello", "config.h", "Makefile"),
            timeout=200,
        )
        done = await compared(box, case, in_shell_of_its_own, in_new_session)
    assert done.differences == []
    assert b"\nHello, world!\n" in done.plain.stdout
    assert len(done.plain.files) == 3


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_install_and_test_a_source_distribution(tmp_path: Path) -> None:
    archives = list(SDIST.glob("*.tar.gz"))
    if not archives:
        pytest.skip("the part sdist is not here")
    work = tmp_path / "sdist"
    command = f"""
        {sys.executable} -m venv venv && . venv/bin/activate &&
        pip install --no-index --no-cache-dir --find-links {SDIST} {archives[0]} &&
        tar xzf {archives[0]} --strip-components=1 --wildcards '*/tests' &&
        python -m unittest discover -v -s tests -t . ; echo "unittest said $?"; pip freeze; deactivate; exit 3
    """
    async with Sandbox("local") as box:
        case = Case(command, work, prepare=fresh(None, work), timeout=200)
        done = await compared(box, case, in_shell_of_its_own, in_new_session)
    assert done.differences == []
    assert done.plain.code == 3
    assert b"\nunittest said 0\nidna" in done.plain.stdout
    assert done.plain.stderr.count(b" ... ok\n") > 1000


def fresh(source: Path | None, work: Path) -> Callable[[], None]:
    """Return what makes a directory as it is before each run."""

    def prepare() -> None:
        shutil.rmtree(work, ignore_errors=True)
        if source is None:
            work.mkdir()
        else:
            shutil.copytree(source, work, symlinks=True)

    return prepare


def outcome(stdout: str, code: int = 0) -> Outcome:
    return Outcome(code, stdout.encode(), b"")


def test_what_counts_as_a_difference() -> None:
    """The comparison itself: what varies between plain runs is left out, all else is not."""
    plain = [outcome("a\ntook 1.1 s\nb"), outcome("a\ntook 1.2 s\nb")]
    assert not compare(plain, outcome("a\ntook 1.3 s\nb"))
    assert compare(plain, outcome("a\ntook 1.3 s\nc"))
    assert compare(plain, outcome("a\ntook 1.3 s\nb\n"))
    assert compare(plain, outcome("a\ntook 1.3 s\nb", code=1))
    same = [outcome("a"), outcome("a")]
    assert compare(same, outcome("b"))
    assert not compare(same, outcome("a"))
