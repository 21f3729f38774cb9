"""Configuration: where it lives, what it may say, and how it is read."""

from ._env import Secret, dotenv, environment, sudo_password, withhold
from ._load import load, section
from ._schema import (
    Approvals,
    Config,
    CredentialFile,
    Credentials,
    Daytona,
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
from ._units import given_duration, home, keep, make_private, parse_duration, parse_size, parse_value

__all__ = [
    "Approvals",
    "Config",
    "CredentialFile",
    "Credentials",
    "Daytona",
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
    "given_duration",
    "home",
    "keep",
    "load",
    "make_private",
    "parse_duration",
    "parse_size",
    "parse_value",
    "section",
    "sudo_password",
    "withhold",
]
