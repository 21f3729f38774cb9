"""A keyring that needs no desktop: a file. keyring finds it by the configuration that a test gives it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError


class FileKeyring(KeyringBackend):
    """Keeps passwords in the file that ``FILE_KEYRING`` names; locked while there is none."""

    priority = 1

    @staticmethod
    def _all() -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads(Path(os.environ["FILE_KEYRING"]).read_text("utf-8"))
        except FileNotFoundError:
            raise KeyringLocked("s3cr3t words of the keyring itself") from None
        return found

    def get_password(self, service: str, username: str) -> str | None:
        return self._all().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        path = Path(os.environ["FILE_KEYRING"])
        found = self._all() if path.exists() else {}
        path.write_text(json.dumps({**found, f"{service}/{username}": password}), "utf-8")

    def delete_password(self, service: str, username: str) -> None:
        found = self._all()
        if found.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError
        Path(os.environ["FILE_KEYRING"]).write_text(json.dumps(found), "utf-8")
