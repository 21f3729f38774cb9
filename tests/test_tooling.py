"""The nets under the other tests hold: each is shown something that it must catch."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from _plugins.blocking import SOURCES, detector

ROOT = Path(__file__).resolve().parents[1]

PASSING = "def test_passes():\n    pass\n"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A pytest of its own to run in, which finds the plug-ins and has not yet loaded any."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("HERMES_REQUIRE", raising=False)
    return pytester


def outcome(pytester: pytest.Pytester, *args: str) -> tuple[int, str]:
    """Exit code and output of a run that takes nothing from this one but the environment."""
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *args)
    return int(result.ret), result.stdout.str()


# The event loop


BLOCKS = """
import asyncio, time
async def swallows():
    await asyncio.sleep(0)
    try:
        time.sleep(0.001)
    except Exception:
        pass
"""


def test_blocking_the_loop_fails_a_test(run: pytest.Pytester) -> None:
    # A file that claims to be one of hermes: only its code is watched.
    name = str(SOURCES / "invented.py")
    run.makepyfile(
        f"""
        import asyncio
        def test_blocks():
            names = {{}}
            exec(compile({BLOCKS!r}, {name!r}, "exec"), names)
            asyncio.run(names["swallows"]())
        def test_the_same_elsewhere():
            names = {{}}
            exec(compile({BLOCKS!r}, "/elsewhere.py", "exec"), names)
            asyncio.run(names["swallows"]())
        """
    )
    code, text = outcome(run, "-p", "_plugins.blocking")
    assert code == 1
    assert "Blocking call to time.sleep" in text
    assert "invented.py" in text
    assert re.search(r"ERROR .*test_blocks\b", text)
    assert "2 passed, 1 error" in text


async def test_the_detector_watches_the_sources_and_nothing_else() -> None:
    with detector(scanned="/nowhere") as noted:
        os.listdir("/")
    assert noted == []
    assert (SOURCES / "errors.py").is_file()


# Processes left behind


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_processes_left_behind_fail_the_run(run: pytest.Pytester) -> None:
    run.makeconftest("import _plugins.leaks\n_plugins.leaks.GRACE = 0.2\n")
    run.makepyfile(
        """
        import subprocess
        def test_daemon():
            subprocess.run(["sh", "-c", "setsid sleep 301 </dev/null >/dev/null 2>&1 &"], check=True)
        def test_child_without_the_mark():
            subprocess.Popen(["sleep", "302"], env={}, start_new_session=True)
        def test_gone_in_time():
            subprocess.Popen(["sleep", "0.1"])
        """
    )
    code, text = outcome(run, "-p", "_plugins.leaks", "-W", "ignore")
    left = {int(pid): rest for pid, rest in re.findall(r"^pid (\d+): (.*)$", text, re.MULTILINE)}
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert code == 1
    assert "3 passed" in text
    by_command = sorted(left.values())
    assert [line.split("   ")[0] for line in by_command] == ["sleep 301", "sleep 302"]
    assert "test_daemon" in by_command[0]


def test_a_clean_run_is_not_failed(run: pytest.Pytester) -> None:
    run.makepyfile(PASSING)
    code, text = outcome(run, "-p", "_plugins.leaks")
    assert code == 0
    assert "left behind" not in text


# Skips and parts


SKIPS = """
import pytest
def test_skipped():
    pytest.skip("no moon")
@pytest.mark.xfail(strict=True)
def test_known():
    raise AssertionError
"""


@pytest.fixture
def parts(run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A run whose report of the parts is invented."""
    run.makeconftest(
        """
        import os
        import _plugins.parts
        word = os.environ["WORD"]
        _plugins.parts.report = lambda: [("a", "ok", "1.0"), ("engine", word, "not installed")]
        """
    )
    monkeypatch.setenv("WORD", "ok")
    return run


def test_a_skip_is_a_skip_by_default(parts: pytest.Pytester) -> None:
    parts.makepyfile(SKIPS)
    code, text = outcome(parts, "-p", "_plugins.parts")
    assert code == 0
    assert "1 skipped, 1 xfailed" in text


def test_a_skip_fails_where_everything_is_required(
    parts: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_REQUIRE", "all")
    parts.makepyfile(SKIPS)
    code, text = outcome(parts, "-p", "_plugins.parts")
    assert code == 1
    assert "skipped although HERMES_REQUIRE=all: no moon" in text
    assert "1 failed, 1 xfailed" in text


def test_a_skipped_module_fails_where_everything_is_required(
    parts: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_REQUIRE", "all")
    parts.makepyfile("import pytest\npytest.importorskip('no_such_module')\n" + PASSING)
    code, text = outcome(parts, "-p", "_plugins.parts")
    assert code != 0
    assert "no_such_module" in text


@pytest.mark.parametrize(
    ("word", "require", "expected"),
    [
        ("missing", "", 0),
        ("missing", "all", 1),
        ("optional", "all", 0),
        ("ok", "all", 0),
    ],
)
def test_a_missing_part(
    parts: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, word: str, require: str, expected: int
) -> None:
    monkeypatch.setenv("WORD", word)
    monkeypatch.setenv("HERMES_REQUIRE", require)
    parts.makepyfile(PASSING)
    code, text = outcome(parts, "-p", "_plugins.parts")
    assert code == expected
    assert (f"engine: {word}: not installed" in text) == (word != "ok")


def test_a_run_in_parallel_is_held_to_the_same(
    parts: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_REQUIRE", "all")
    parts.makepyfile(SKIPS)
    code, text = outcome(parts, "-p", "_plugins.parts", "-p", "_plugins.leaks", "-p", "xdist", "-n", "1")
    assert code == 1
    assert "no moon" in text
    assert "left behind" not in text


# The scripts of the parts


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout of its own with the scripts, but without a part."""
    folder = tmp_path / f"tree-{os.getpid()}"
    (folder / "scripts" / "parts.d").mkdir(parents=True)
    for name in ("parts", "as-user"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts")
    return folder


@pytest.fixture
def scripts_parts(tree: Path) -> Callable[..., list[str]]:
    """Write parts by name, and run scripts/parts with the arguments: its lines."""

    def run(*args: str, **parts: str) -> list[str]:
        for name, text in parts.items():
            (tree / "scripts" / "parts.d" / name).write_text(text)
        done = subprocess.run([tree / "scripts" / "parts", *args], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.splitlines()

    return run


def test_parts_start_after_what_they_need_and_stop_before_it(
    tree: Path, scripts_parts: Callable[..., list[str]]
) -> None:
    body = """
check() { [ -e "$state/there" ] && echo "$name is there" || { echo no; return 1; }; }
start() { touch "$state/there"; }
stop() { echo "stopped $name"; }
"""
    started = scripts_parts(
        "start",
        a=f'needs="c b"{body}',
        b=f'needs="c"{body}',
        c=body,
        d=f'needs="e"{body}',
        e=f'needs="d"{body}',
    )
    assert started == [
        f"{name}\tok\t{name} is there " for name in "cbaed"
    ]  # d and e need each other: no matter
    assert scripts_parts("stop") == [f"stopped {name}" for name in "deabc"]
    shutil.rmtree(tree / ".cache")
    assert [line.split("\t")[:2] for line in scripts_parts("start", "b")] == [["c", "ok"], ["b", "ok"]]
    assert scripts_parts("stop", "b") == ["stopped b"]  # what it needed may have other users


def test_a_part_that_cannot_be_had_is_named_with_the_reason(scripts_parts: Callable[..., list[str]]) -> None:
    text = """
check() { [ -e "$state/there" ] || { echo "not installed"; return 1; }; }
start() { echo "E: no such package"; return 1; }
"""
    assert scripts_parts("start", gone=text, here="check() { echo 1.0; }") == [
        "gone\tmissing\tnot installed (starting it said: E: no such package) ",
        "here\tok\t1.0 ",
    ]


def test_the_environment_of_parts_adds_up(
    scripts_parts: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.environ["PATH"]
    text = 'environment() { path_with "/prefix of $name"; echo "conf_$name=/etc/its own"; }'
    lines = scripts_parts("env", a=text, b=text, c="check() { false; }")
    found = dict(line.split("=", 1) for line in lines)
    assert found == {
        "PATH": f"/prefix of b:/prefix of a:{before}",
        "conf_a": "/etc/its own",
        "conf_b": "/etc/its own",
    }
    monkeypatch.setenv("PATH", found["PATH"])
    assert not [line for line in scripts_parts("env") if line.startswith("PATH=")]  # once is enough


def test_a_run_has_the_environment_of_the_parts(
    run: pytest.Pytester, tree: Path, scripts_parts: Callable[..., list[str]]
) -> None:
    scripts_parts("env", a='check() { echo 1; }\nenvironment() { path_with /a/bin; echo A_CONF="/a b=c"; }')
    run.makeconftest(f"import _plugins.parts\n_plugins.parts.SCRIPT = {str(tree / 'scripts' / 'parts')!r}")
    run.makepyfile(
        f"""
        import os
        def test_environment():
            assert os.environ["A_CONF"] == "/a b=c"
            assert os.environ["PATH"] == "/a/bin:" + {os.environ["PATH"]!r}
        """
    )
    code, text = outcome(run, "-p", "_plugins.parts")
    assert (code, "1 passed" in text) == (0, True), text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_another_account_has_a_copy_of_the_tree(
    tree: Path, scripts_parts: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_user(*command: str) -> list[str]:
        script = tree / "scripts" / "as-user"
        done = subprocess.run(
            [script, *command], stdout=subprocess.PIPE, text=True, input="typed", check=True
        )
        return done.stdout.splitlines()

    (tree / "scripts" / "setup").write_text("#!/bin/sh\ntouch .set-up\n")
    (tree / "scripts" / "setup").chmod(0o755)
    (tree / ".gitignore").write_text(".cache/\nignored\n")
    part = 'check() { echo 1; }\nenvironment() { path_with "/$name"; }'
    scripts_parts("check", a=part, b=part)
    for name in ("kept", "with a space", "goes", "ignored"):
        (tree / name).write_text("1")
    subprocess.run(["git", "init", "--quiet", tree], check=True)
    subprocess.run(["git", "add", "kept", "goes"], cwd=tree, check=True)
    monkeypatch.setenv("SECRET_OF_ROOT", "1")
    monkeypatch.setenv("HERMES_REQUIRE", "all")
    [copy] = as_user("pwd")
    try:
        assert as_user("id", "-un") == ["hermes-tester"]
        assert as_user("sh", "-c", "cat goes 'with a space' .set-up && cat") == ["11typed"]
        assert as_user("ls") == ["goes", "kept", "scripts", "with a space"]
        environment = {*as_user("env")}
        assert f"HOME={os.path.dirname(copy)}" in environment
        assert {
            "HERMES_REQUIRE=all",
            "USER=hermes-tester",
            "PATH=/b:/a:/usr/local/bin:/usr/bin:/bin",
        } <= environment
        assert "SECRET_OF_ROOT=1" not in environment
        (tree / "goes").unlink()
        (tree / "kept").write_text("2")
        (tree / "new").write_text("3")
        assert as_user("ls") == ["kept", "new", "scripts", "with a space"]
        assert as_user("cat", "kept") == ["2"]
    finally:
        as_user("--here", "rm", "-rf", copy)


# What is pinned


def test_pins_are_hashed_and_carry_no_addresses() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        text = path.read_text()
        assert "://" not in text, path
        for requirement in re.findall(r"^[a-z0-9].*(?:\n .*)*", text, re.MULTILINE):
            assert "==" in requirement, (path, requirement)
            assert "--hash=sha256:" in requirement, (path, requirement)


def test_no_slow_library_at_run_time() -> None:
    # typer would bring it; importing it costs more than `hermes exec` may take.
    assert "pydantic" not in (ROOT / "requirements" / "runtime.txt").read_text()
