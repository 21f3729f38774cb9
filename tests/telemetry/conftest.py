"""The command line, as the tests of it have it."""

from cli.conftest import cli as cli
