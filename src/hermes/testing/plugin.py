"""The pytest plug-in of hermes: runs the conformance suite against backends.

Either name the backends on the command line::

    pytest --pyargs hermes.testing.conformance --hermes-backend=mars

or make the suite part of your own tests, in a module of one's own::

    from hermes.testing.conformance import *

    hermes_backends = ("mars",)

Override the fixture ``sandbox_options`` to pass options to :class:`hermes.Sandbox`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import _harness as harness

if TYPE_CHECKING:
    from hermes import Sandbox

pytest.register_assert_rewrite("hermes.testing.conformance", "hermes.testing.tools")

_failed = pytest.StashKey[bool]()

OpenBox = Callable[..., Awaitable["Sandbox"]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("hermes").addoption(
        "--hermes-backend",
        action="append",
        metavar="NAME",
        default=[],
        help="run the conformance suite against this backend; may be given several times",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than a few seconds")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "hermes_backend" not in metafunc.fixturenames:
        return
    names = metafunc.config.getoption("--hermes-backend") or getattr(metafunc.module, "hermes_backends", ())
    if not names:
        raise pytest.UsageError(
            "which backend? Say --hermes-backend=NAME, or hermes_backends = (NAME,) in the module"
        )
    metafunc.parametrize("hermes_backend", list(names), scope="module")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the failure of what a backend is known not to do."""
    from . import exceptions

    known: dict[str, dict[str, str]] = {}
    for item in items:
        case = harness.case_name(getattr(item, "obj", None))
        callspec = getattr(item, "callspec", None)
        if case is None or callspec is None or "hermes_backend" not in callspec.params:
            continue
        backend = callspec.params["hermes_backend"]
        if backend not in known:
            try:
                known[backend] = exceptions.reasons(backend)
                exceptions.check(backend, _all_cases())
            except ValueError as error:
                raise pytest.UsageError(str(error)) from None
        if case in known[backend]:
            item.add_marker(pytest.mark.xfail(strict=True, reason=known[backend][case]))


def _all_cases() -> list[str]:
    from . import conformance

    return [name for function in vars(conformance).values() if (name := harness.case_name(function))]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not report.passed:
        item.stash[_failed] = True
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    harness.loop.close()


@pytest.fixture(scope="module")
def hermes_home_of_suite() -> Iterator[Path]:
    """A home of hermes of the suite's own: the user's is not touched."""
    path = Path(tempfile.mkdtemp(prefix="hermes-"))
    with harness.hermes_home(path):
        yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def sandbox_options(hermes_backend: str) -> dict[str, Any]:
    """Options with which the suite opens every sandbox; override it for those of your own backend."""
    return {"workspace": "private"}


@pytest.fixture(scope="module")
def hermes_place(
    hermes_backend: str, sandbox_options: dict[str, Any], hermes_home_of_suite: Path
) -> Iterator[harness.Place]:
    """The sandbox that the cases of a module share."""
    place = harness.Place(hermes_backend, sandbox_options, hermes_home_of_suite)
    yield place
    harness.loop.run(place.close())


@pytest.fixture
def box(hermes_place: harness.Place, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """An open sandbox with no session, job or process in it. Others use it before and after."""
    yield harness.loop.run(hermes_place.get())
    harness.loop.run(hermes_place.clean(failed=_failed in request.node.stash))


@pytest.fixture
def open_box(
    hermes_backend: str, sandbox_options: dict[str, Any], hermes_home_of_suite: Path
) -> Iterator[OpenBox]:
    """Opens sandboxes with the given options of :class:`hermes.Sandbox`; all are destroyed afterwards."""
    opened: list[Sandbox] = []

    async def open_one(**options: Any) -> Sandbox:
        box = await harness.open_sandbox(hermes_backend, {**sandbox_options, **options})
        opened.append(box)
        return box

    async def destroy_all() -> None:
        for box in opened:
            await box.destroy()

    yield open_one
    harness.loop.run(destroy_all(), 60.0)


@pytest.fixture
def fresh_box(open_box: OpenBox) -> Sandbox:
    """An open sandbox that nobody else uses."""

    async def opened() -> Sandbox:
        return await open_box()

    return harness.loop.run(opened())


@pytest.fixture
def folder(box: Sandbox) -> Iterator[str]:
    """An empty directory in ``box``, as an absolute path there."""

    async def made() -> str:
        result = await box.exec('d=$(mktemp -d ./case.XXXXXX) && cd -- "$d" && pwd -P')
        assert result.exit_code == 0, result
        return result.text.rstrip("\n")

    async def removed(path: str) -> None:
        await box.exec(["rm", "-rf", "--", path])

    path = harness.loop.run(made())
    yield path
    harness.loop.run(removed(path))
