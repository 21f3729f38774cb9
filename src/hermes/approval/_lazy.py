"""Regular expressions that are compiled when they are first used.

The judge has a hundred of them, most commands need a dozen, and to compile them all would take longer than
the rest of ``hermes exec true``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Lazy"]


class Lazy:
    """Stands for ``re.compile(pattern, flags)``."""

    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    search: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    findall: Callable[..., list[Any]]
    split: Callable[..., list[Any]]
    sub: Callable[..., str]
    subn: Callable[..., tuple[str, int]]

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in Lazy.__annotations__:
            raise AttributeError(name)
        made = re.compile(*self._given)
        for method in Lazy.__annotations__:
            setattr(self, method, getattr(made, method))
        return getattr(made, name)
