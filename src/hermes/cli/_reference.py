"""What is written from the commands themselves: the page of reference, and the help that is shown at once.

``python -m hermes.cli._reference`` writes both; a test compares them with the commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ._main import app

__all__ = ["HELP", "PAGE", "help_text", "page"]

HELP = Path(__file__).with_name("help.txt")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference.md"
WIDTH = 78  # what remains of 80 columns, which no help exceeds

_HEAD = """\
# Reference

Every command with all its options, as `--help` shows them. This page is made from the commands themselves:
`python -m hermes.cli._reference`.
"""


def help_text() -> str:
    """Return what ``hermes --help`` prints on a terminal of 80 columns or more."""
    return next(text for path, text in _commands() if path == "hermes")


def page() -> str:
    """Return the page of reference."""
    parts = [_HEAD]
    for path, text in _commands():
        level = "##" if path.count(" ") < 2 else "###"
        parts.append(f"{level} {path}\n\n```text\n{text}```\n")
    return "\n".join(parts)


def _commands() -> Iterator[tuple[str, str]]:
    yield from _walk(typer.main.get_command(app), "hermes", None)


def _walk(command: Any, path: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = command.context_class(
        command,
        info_name=path.rpartition(" ")[2],
        parent=parent,
        terminal_width=WIDTH,
    )
    yield path, command.get_help(context) + "\n"
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _walk(command.get_command(context, name), f"{path} {name}", context)


if __name__ == "__main__":
    HELP.write_text(help_text(), "utf-8")
    PAGE.write_text(page(), "utf-8")
