"""What a place cannot do: case x backend -> reason. The documentation shows the same table.

An exception is run all the same, as an expected failure: one that passes fails the run, and so does one
without a reason or for a case that does not exist. A backend of a third party states its own in
``Capabilities.exceptions``, by the names of the cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["TABLE", "reasons", "rows"]

TABLE: dict[tuple[str, str], str] = {}
"""``(case, backend)`` to the reason. The case is the test's name without ``test_``."""


def reasons(backend: str) -> dict[str, str]:
    """Return the exceptions of a backend, case to reason: from the table, and those that it states itself.

    :raises ValueError: one has no reason
    """
    found = dict(_stated(backend))
    found.update({case: reason for (case, name), reason in TABLE.items() if name == backend})
    for case, reason in found.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"the exception of {case} for {backend} has no reason")
    return found


def check(backend: str, cases: Iterable[str]) -> None:
    """Check that every exception of a backend is for a case that exists.

    :raises ValueError: one is not, so that it would excuse nothing for ever
    """
    unknown = sorted(set(reasons(backend)) - set(cases))
    if unknown:
        raise ValueError(f"exceptions of {backend} for cases that do not exist: {', '.join(unknown)}")


def rows(backends: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return ``(case, backend, reason)`` for each exception, sorted: the table of the documentation."""
    return sorted((case, name, reason) for name in backends for case, reason in reasons(name).items())


def _stated(backend: str) -> Mapping[str, str]:
    from hermes.backends import load as load_backend
    from hermes.backends.base import Spec
    from hermes.config import Config
    from hermes.errors import ConfigError

    try:
        kind = load_backend(backend)
    except ConfigError:
        return {}  # the cases themselves will say that it is not there
    return kind(Spec(name="conformance", id="0" * 16), Config()).capabilities.exceptions
