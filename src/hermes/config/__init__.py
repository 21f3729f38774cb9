"""Configuration: where it lives, what it may say, and how it is read."""

from ._env import Secret, dotenv, environment, sudo_password, withhold
from ._load import load, section
from ._schema import (
    Approvals,
    Config,
    CredentialFile,
    Credentials,
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
from ._units import home, keep, parse_duration, parse_size, parse_value

__all__ = [
    "Approvals",
    "Config",
    "CredentialFile",
    "Credentials",
    "Docker",
    "Lifetime",
    "Limits",
    "Local",
    "Output",
    "Secret",
    "Singularity",
    "Slurm",
    "Ssh",
    "SshHost",
    "dotenv",
    "environment",
    "home",
    "keep",
    "load",
    "parse_duration",
    "parse_size",
    "parse_value",
    "section",
    "sudo_password",
    "withhold",
]
