"""Taking secrets out of all that is recorded."""

from __future__ import annotations

import os

from hermes.approval.redact import plain, redact, secrets_in
from hermes.config import home
from hermes.credentials.former import Former
from hermes.credentials.scrub import Scrub
from hermes.credentials.values import SHORTEST
from hermes.errors import ConfigError

__all__ = ["Cleaner"]

LONGEST = 8192  # of a command that is kept: its head and its tail


class Cleaner:
    """What knows the secrets of one client: what is declared, what hermes's own settings and variables hold.

    Of what is declared the last few values are looked for, as in all output.
    """

    def __init__(self, password: str | None) -> None:
        self._words = (*secrets_in(os.environ), *_settings(), *((password,) if password else ()))
        values = {word.encode("utf-8", "surrogateescape").strip() for word in self._words}
        self._values = {value for value in values if len(value) >= SHORTEST}
        self.scrub = Scrub(self._values, shapes=True)

    def know(self, values: set[bytes], former: Former | None) -> None:
        """Look for what is declared by now as well, and was before."""
        self.scrub = Scrub(self._values | values, shapes=True, former=former)

    def text(self, raw: bytes) -> str:
        """Return a text without secrets."""
        return self.scrub.whole(raw)[0].decode("utf-8", "replace")

    def command(self, raw: bytes) -> str:
        """Return a command without secrets and what stands where one belongs; head and tail of a long one."""
        text = self.text(raw)
        if not plain(text) or any(word in text for word in self._words):
            text = redact(text, self._words)
        if len(text) <= LONGEST:
            return text
        half = LONGEST // 2
        return f"{text[:half]}[... {len(text) - 2 * half} characters ...]{text[-half:]}"


def _settings() -> tuple[str, ...]:
    """Return what is secret of hermes's own ``.env``, whether a sandbox may know it or not."""
    path = home() / ".env"
    if not path.exists():
        return ()
    from hermes.config import _secrets

    try:
        secret = {name for name, is_secret in _secrets.names().items() if is_secret}
        return tuple(
            value for name, value in _secrets.read(path).items() if name in secret and len(value) >= 6
        )
    except ConfigError:
        return ()
