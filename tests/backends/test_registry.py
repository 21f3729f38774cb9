"""Finding a backend by name, our own and those of third parties."""

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes import backends
from hermes._extra import pip_install
from hermes.backends import Entry
from hermes.errors import ConfigError

MARS = """
from hermes.backends.base import Backend
class MarsBackend(Backend):
    name = "mars"
class Other: ...
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a distribution with entry points visible, as if pip had installed it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(points: str, module: str = MARS) -> None:
        (tmp_path / "hermes_mars.py").write_text(module)
        info = tmp_path / "hermes_mars-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes-mars\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hermes.backends]\n{points}\n")
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, "hermes_mars", raising=False)

    return put


def test_our_own_are_loaded_by_name() -> None:
    for name in backends.TABLE:
        assert backends.load(name).name == name


def test_an_unknown_one_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        backends.load("locl")
    assert caught.value.code == "backend_unknown"
    assert str(caught.value).startswith(
        "there is no backend 'locl'; nothing was started. Did you mean 'local'? Installed here: local"
    )


@pytest.mark.parametrize("name", ["", "Local", "../local", "local:x", "base", "x" * 500, "_channels"])
def test_odd_names(name: str) -> None:
    with pytest.raises(ConfigError, match="there is no backend"):
        backends.load(name)


def test_a_third_party_registers_by_entry_point(install: Install) -> None:
    install("mars = hermes_mars:MarsBackend")
    assert backends.load("mars").__name__ == "MarsBackend"
    assert "mars" in backends.names()
    with pytest.raises(ConfigError, match="Did you mean 'mars'"):
        backends.load("marss")


def test_our_names_cannot_be_taken(install: Install) -> None:
    install("local = hermes_mars:MarsBackend")
    assert backends.load("local").name == "local"
    assert backends.names().count("local") == 1


@pytest.mark.parametrize(
    ("point", "module", "says"),
    [
        ("hermes_mars:Other", MARS, "is not a subclass of hermes.backends.base.Backend"),
        ("hermes_mars:Missing", MARS, "cannot be loaded from hermes_mars:Missing"),
        ("hermes_mars:X", "import not_installed_anywhere", "cannot be loaded .*not_installed_anywhere"),
        ("hermes_mars:X", "raise RuntimeError('no')", "cannot be loaded .*RuntimeError"),
    ],
)
def test_a_broken_third_party(install: Install, point: str, module: str, says: str) -> None:
    install(f"mars = {point}", module)
    with pytest.raises(ConfigError, match=says):
        backends.load("mars")


def test_the_pip_that_is_named_is_the_one_of_this_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beside = tmp_path / "with space"
    monkeypatch.setattr("sys.executable", str(beside / "python"))
    monkeypatch.setenv("PATH", f"{beside}:{tmp_path}")
    assert pip_install("moon") == "pip install 'hermes-places[moon]'"
    for path in (f"{tmp_path}:{beside}", ""):
        monkeypatch.setenv("PATH", path)
        assert pip_install("moon") == f"'{beside}/python' -m pip install 'hermes-places[moon]'"


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends.TABLE, "moon", Entry("local", "LocalBackend", "moon"))

    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'moonsdk'", name="moonsdk.client")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigError) as caught:
        backends.load("moon")
    assert caught.value.code == "extra_missing"
    assert str(caught.value) == (
        "the moon backend needs a package that is not installed: moonsdk.client. "
        f"Install it with: {pip_install('moon')}"
    )


def test_a_fault_of_our_own_is_not_taken_for_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends.TABLE, "moon", Entry("no_such_module", "X", "moon"))
    with pytest.raises(ModuleNotFoundError):
        backends.load("moon")


def test_loading_our_own_reads_no_metadata() -> None:
    code = (
        "import sys; from hermes import backends; "
        "assert not [m for m in sys.modules if m.startswith('hermes.backends.')]; "
        "backends.load('local'); print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
