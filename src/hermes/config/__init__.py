"""Configuration: where it lives, what it may say, and how it is read."""

from ._load import load
from ._schema import Approvals, Config, Lifetime, Local, Output
from ._units import home, parse_duration, parse_size

__all__ = [
    "Approvals",
    "Config",
    "Lifetime",
    "Local",
    "Output",
    "home",
    "load",
    "parse_duration",
    "parse_size",
]
