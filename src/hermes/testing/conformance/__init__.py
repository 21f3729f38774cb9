"""The suite that proves a backend: every case runs on every backend, and behaves the same.

Each case gets ``box``, an open sandbox with nothing in it, or opens its own by ``open_box``. The modules of
this package hold the cases by topic; ``from hermes.testing.conformance import *`` brings all of them. See
``hermes.testing.plugin`` for how to run them against a backend of your own.
"""

from __future__ import annotations

import importlib
import pkgutil

from .._harness import case_name

__all__: list[str] = []


def _gather() -> None:
    for module in pkgutil.iter_modules(__path__):
        for name, value in vars(importlib.import_module(f"{__name__}.{module.name}")).items():
            if case_name(value) is not None:
                assert name not in __all__, f"two cases have the name {name}"
                globals()[name] = value
                __all__.append(name)


_gather()
