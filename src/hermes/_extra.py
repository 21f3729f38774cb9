"""What a package that comes with an extra is needed for, said in one way wherever it is not there."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from .errors import ConfigError

__all__ = ["needs", "pip_install"]


def pip_install(extra: str) -> str:
    """Return the command that installs an extra beside this hermes.

    ``pip`` alone may be another Python's, unless the directory of this one comes first on ``PATH``.
    """
    import shlex

    ours = os.environ.get("PATH", "").split(os.pathsep)[0] == os.path.dirname(sys.executable)
    pip = "pip" if ours else f"{shlex.quote(sys.executable)} -m pip"
    return f"{pip} install 'hermes-places[{extra}]'"


@contextlib.contextmanager
def needs(
    what: str,
    extra: str,
    *,
    outcome: str = "; nothing was started",
    hint: str = "",
    context: dict[str, Any] | None = None,
) -> Iterator[None]:
    """Import in here what an extra brings.

    :param what: what is not possible without, as the subject of a sentence
    :param outcome: what follows from it
    :param hint: a further sentence for people
    :raises ConfigError: code ``extra_missing``
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "hermes":
            raise  # a fault of our own code, and no missing package
        raise ConfigError(
            f"{what} needs a package that is not installed: {error.name or error}{outcome}",
            code="extra_missing",
            hint=f"Install it with: {pip_install(extra)}" + (f". {hint}" if hint else ""),
            context=context,
        ) from error
