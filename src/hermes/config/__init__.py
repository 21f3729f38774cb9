"""Configuration: where it lives, what it may say, and how it is read."""

from ._load import load, section
from ._schema import (
    Approvals,
    Config,
    Docker,
    Lifetime,
    Limits,
    Local,
    Output,
    Singularity,
    Slurm,
    Ssh,
    SshHost,
)
from ._units import home, parse_duration, parse_size, parse_value

__all__ = [
    "Approvals",
    "Config",
    "Docker",
    "Lifetime",
    "Limits",
    "Local",
    "Output",
    "Singularity",
    "Slurm",
    "Ssh",
    "SshHost",
    "home",
    "load",
    "parse_duration",
    "parse_size",
    "parse_value",
    "section",
]
