"""The plug-in runs the suite against what it is told, and holds exceptions to their word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.testing import conformance, exceptions
from hermes.testing._harness import case_name

CASES = [name for function in vars(conformance).values() if (name := case_name(function))]

SUITE = """
from hermes.testing import case
{backends}

@case
async def test_variables(box):
    assert box.backend == "local"
    assert (await box.run("x=1; echo $x")).stdout == b"{printed}\\n"

@case
async def test_fresh_session(box, folder):
    assert (await box.run("echo [$x]; pwd")).text == f"[]\\n{{box.cwd}}\\n"
"""


@pytest.fixture(autouse=True)
def _quiet(pytester: pytest.Pytester) -> Iterator[None]:
    # The detector of blocking calls is for our own process, not for a whole run inside of a test. Nor is our
    # rule that warnings are errors: what earlier tests left to the garbage collector, or a disk that was slow
    # to take a recording, would fail a case's teardown in there, which is a second failure that is expected.
    ini = [
        "asyncio_mode = strict",
        "asyncio_default_fixture_loop_scope = function",
        "filterwarnings = default",
    ]
    pytester.makeini("\n".join(["[pytest]", *ini]))
    yield


def write(
    pytester: pytest.Pytester, backends: str = "hermes_backends = ('local',)", printed: str = "1"
) -> None:
    pytester.makepyfile(test_suite=SUITE.format(backends=backends, printed=printed))


def test_enough_cases() -> None:
    assert len(CASES) == len(set(CASES)) >= 120
    names = [name for name in vars(conformance) if name.startswith("test_") and name in conformance.__all__]
    assert len(names) == len(CASES)


def test_every_module_is_in_the_suite() -> None:
    """A case that is in a module but not in the package would never run."""
    import importlib
    import pkgutil

    found = []
    for module in pkgutil.iter_modules(conformance.__path__):
        content = vars(importlib.import_module(f"{conformance.__name__}.{module.name}"))
        found += [name for function in content.values() if (name := case_name(function))]
    assert sorted(found) == sorted(CASES)


@pytest.mark.slow
def test_backend_of_the_module(pytester: pytest.Pytester) -> None:
    write(pytester)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


@pytest.mark.slow
def test_backend_of_the_command_line(pytester: pytest.Pytester) -> None:
    """It wins over the module's; without asyncio plug-ins too."""
    write(pytester, backends="hermes_backends = ('mars',)")
    arguments = ("--hermes-backend=local", "-p", "no:asyncio", "-p", "no:cacheprovider")
    pytester.makeini("[pytest]")
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=2)


@pytest.mark.slow
def test_suite_by_its_package(pytester: pytest.Pytester) -> None:
    arguments = (
        "--pyargs",
        "hermes.testing.conformance",
        "--hermes-backend=local",
        "-k",
        "test_text_is_a_view or test_duration",
    )
    result = pytester.runpytest_subprocess(*arguments, "-p", "no:cacheprovider")
    assert result.parseoutcomes()["passed"] >= 2
    assert "failed" not in result.parseoutcomes()


@pytest.mark.slow
def test_options_of_a_third_party(pytester: pytest.Pytester) -> None:
    """As its documentation says: the suite by a star import, options by a fixture."""
    pytester.makepyfile(
        test_mine="""
        import pytest
        from hermes.testing import case
        from hermes.testing.conformance import *

        hermes_backends = ("local",)

        @pytest.fixture(scope="module")
        def sandbox_options():
            return {"workspace": "private", "env": {"MINE": "yes"}}

        @case
        async def test_options_were_taken(box):
            assert (await box.run("echo $MINE")).stdout == b"yes\\n"
        """
    )
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-k", "options_were_taken or text_is_a_view"
    )
    assert result.parseoutcomes()["passed"] == 2


def test_no_backend(pytester: pytest.Pytester) -> None:
    write(pytester, backends="")
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines("*which backend? Say --hermes-backend=NAME*")
    assert result.ret != 0


def test_unknown_backend(pytester: pytest.Pytester) -> None:
    write(pytester)
    result = pytester.runpytest_inprocess("--hermes-backend=local2")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines("*there is no backend 'local2'*Did you mean 'local'*")


def excuse(monkeypatch: pytest.MonkeyPatch, case: str, reason: str) -> None:
    monkeypatch.setitem(exceptions.TABLE, (case, "local"), reason)


@pytest.mark.blocking_ok  # the run inside of this test may do as it likes
def test_exception_that_fails(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    excuse(monkeypatch, "variables", "it has none")
    write(pytester, printed="2")
    pytester.runpytest_inprocess("-rx").assert_outcomes(xfailed=1, passed=1)


@pytest.mark.blocking_ok  # the run inside of this test may do as it likes
def test_exception_that_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It excuses nothing any more: the run fails until it is taken out."""
    excuse(monkeypatch, "variables", "it has none")
    write(pytester)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines("*XPASS(strict)*it has none*")


def test_exception_without_a_reason(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    excuse(monkeypatch, "variables", " ")
    write(pytester)
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*the exception of variables for local has no reason*")


def test_exception_for_no_case(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    excuse(monkeypatch, "no_such_case", "it cannot")
    write(pytester)
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*exceptions of local for cases that do not exist: no_such_case*")


def test_exceptions_that_the_backend_states(monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes.backends.base import Capabilities
    from hermes.backends.local import LocalBackend

    stated = Capabilities(isolation="none", exceptions={"much_state": "it has no memory"})
    monkeypatch.setattr(LocalBackend, "capabilities", property(lambda self: stated))
    assert exceptions.reasons("local") == {"much_state": "it has no memory"}
    assert exceptions.rows(["local"]) == [("much_state", "local", "it has no memory")]


def test_table_of_our_own() -> None:
    """Every exception has a reason and is for a case and a backend that exist."""
    from hermes.backends import TABLE

    for backend in TABLE:
        exceptions.check(backend, CASES)
    assert {backend for _, backend in exceptions.TABLE} <= set(TABLE)


def test_documentation_shows_the_table() -> None:
    """The same rows, between two marks."""
    from hermes.backends import TABLE

    text = (Path(__file__).parents[2] / "docs/testing.md").read_text()
    shown = text.partition("<!-- exceptions: begin -->\n")[2].partition("<!-- exceptions: end -->")[0]
    rows = exceptions.rows(TABLE)
    if not rows:
        wanted = "There are none: every backend passes every case.\n"
    else:
        lines = ["| case | backend | reason |", "| --- | --- | --- |"]
        wanted = "\n".join(lines + [f"| `{case}` | {name} | {why} |" for case, name, why in rows]) + "\n"
    assert shown == wanted
