"""Looks at the state store's file, and spoils it, from outside."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any


def sql(home: Path, statement: str, *values: Any) -> list[Any]:
    """Run one statement on the file of a hermes home; return the rows."""
    with contextlib.closing(sqlite3.connect(home / "state" / "state.db")) as db, db:
        return db.execute(statement, values).fetchall()


def content(home: Path, backend: str, name: str) -> str:
    """Return the record of a sandbox as it is stored."""
    [[found]] = sql(home, "SELECT record FROM sandboxes WHERE backend = ? AND name = ?", backend, name)
    return str(found)


def store_content(home: Path, backend: str, name: str, record: str | bytes) -> None:
    """Store something as the record of a sandbox."""
    sql(home, "INSERT OR REPLACE INTO sandboxes VALUES (?, ?, ?, 0)", backend, name, record)
