"""Durations, sizes and the home directory."""

import contextlib
import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.config import home, parse_duration, parse_size, shown_limit
from hermes.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (0, 0),
        (1.5, 1.5),
        ("90", 90),
        ("30s", 30),
        ("250ms", 0.25),
        ("10m", 600),
        ("1.5h", 5400),
        ("1h30m", 5400),
        (" 1h 30m ", 5400),
        ("24H", 86400),
        ("7d", 604800),
        ("2w", 1209600),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "s", "1x", "-1", "-5m", "1.5.5s", "1h foo", "nan", "inf", "\u0661m"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0),
        (4096.0, 4096),
        ("4096", 4096),
        ("64k", 65536),
        ("1.5 MiB", 1572864),
        ("1g", 1 << 30),
        ("2TB", 2 << 40),
    ],
)
def test_sizes(text: str | float, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["1", "1000001", "64k", "1m", "1536m", "3g", "2t"])
def test_sizes_are_shown_as_they_are_written(text: str) -> None:
    assert shown_limit("memory", float(parse_size(text))) == text


def test_other_limits_are_shown_in_full() -> None:
    assert [shown_limit("cpus", 0.5), shown_limit("pids", 4194304.0)] == ["0.5", "4194304"]


@pytest.mark.parametrize("text", ["", "k", "1x", "-1", "1 2", "0x10", 1.5, -1, float("nan"), float("inf")])
def test_what_is_no_size(text: str | float) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@given(st.text())
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    for parse in (parse_duration, parse_size):
        with contextlib.suppress(ValueError):
            assert parse(text) >= 0


def test_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "x" / ".." / "h"))
    assert home() == tmp_path / "h"
    monkeypatch.setenv("HERMES_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home() == tmp_path / ".hermes"
    monkeypatch.setenv("HOME", "")
    assert home() == Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".hermes"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_HOME", "~/elsewhere")
    assert home() == tmp_path / "elsewhere"
    assert list(tmp_path.iterdir()) == []


def test_a_user_without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", "")

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(ConfigError, match="set HERMES_HOME"):
        home()
