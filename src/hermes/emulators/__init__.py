"""Loopback emulators of the clouds, which the providers' own SDKs talk to unmodified.

They exist so that the cloud backends, and anyone's agent, can be tried and tested without an account or a
bill. Nothing else of hermes imports them, and every answer that has a place for it says that it is an
emulator's. ``python -m hermes.emulators NAME`` runs one; ``hermes emulate NAME`` is the same for people.
"""

from __future__ import annotations

__all__ = ["NAMES"]

NAMES = ("modal", "daytona", "vercel")
