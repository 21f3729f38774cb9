"""Regular expressions that are compiled when they are first used.

There are hundreds of them, most commands need a dozen, and to compile them all would take longer than the
rest of ``hermes exec true``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, AnyStr, Generic

__all__ = ["Lazy"]


class Lazy(Generic[AnyStr]):
    """Stands for ``re.compile(pattern, flags)``."""

    match: Callable[..., re.Match[AnyStr] | None]
    fullmatch: Callable[..., re.Match[AnyStr] | None]
    search: Callable[..., re.Match[AnyStr] | None]
    finditer: Callable[..., Iterator[re.Match[AnyStr]]]
    findall: Callable[..., list[Any]]
    split: Callable[..., list[Any]]
    sub: Callable[..., AnyStr]
    subn: Callable[..., tuple[AnyStr, int]]

    def __init__(self, pattern: AnyStr, flags: int = 0) -> None:
        self._given: tuple[AnyStr, int] = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in Lazy.__annotations__:
            raise AttributeError(name)
        made = re.compile(*self._given)
        for method in Lazy.__annotations__:
            setattr(self, method, getattr(made, method))
        return getattr(made, name)
