"""The tools for clients of the Model Context Protocol. Imported by ``hermes mcp`` alone."""

from __future__ import annotations

from ._asking import Asker
from ._server import ToolServer
from ._stdio import serve_stdio

__all__ = ["Asker", "ToolServer", "serve_stdio"]
