"""What goes wrong beside a command: Ctrl-C while an error is told, a provider that says nothing."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from hermes import backends
from hermes.cli import _main, _process, _records
from hermes.config import Config


def test_ctrl_c_while_an_error_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(_process, "report", interrupted)
    assert _main.main(["exec", "--sandbox", "nowhere", "true"]) == 130


@pytest.mark.parametrize("error", [TimeoutError(), TimeoutError("said so")])
async def test_a_provider_that_does_not_answer_is_said_to(
    monkeypatch: pytest.MonkeyPatch, error: TimeoutError
) -> None:
    class Silent:
        @staticmethod
        async def check(config: object) -> None: ...

        @staticmethod
        async def strays(config: object, store: object) -> NoReturn:
            raise error

    monkeypatch.setattr(backends, "load", lambda name: Silent)
    monkeypatch.setattr(_records, "load", Config)
    _, problems = await _records.strays("daytona")
    why = str(error) or "no answer within 12 s"
    assert problems == [f"daytona: what runs there without a record here could not be asked for: {why}"]
