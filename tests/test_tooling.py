"""The nets under the other tests hold: each is shown something that it must catch."""

import os
import re
import signal
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
