"""A sandbox and a short way to call its tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

import hermes
from hermes.config import load
from hermes.tools import TOOLS, Outcome


class Tools:
    """Calls tools by name, and holds each result to what is promised of all."""

    def __init__(self, box: hermes.Sandbox) -> None:
        self.box = box
        self.home = Path(box.cwd)

    async def __call__(self, tool: str, **arguments: Any) -> Outcome:
        live = arguments.pop("_live", None)
        outcome = await TOOLS[tool].call(self.box, arguments, on_output=live)
        limit = max(4096, self.box._config.tool_use.max_output)
        assert len(outcome.text.encode()) <= limit
        assert len(json.dumps(outcome.data, ensure_ascii=False).encode()) <= 2 * limit
        jsonschema.validate(outcome.data, TOOLS[tool].output_schema)
        assert outcome.failed == (outcome.data["status"] in ("refused", "failed"))
        return outcome


@asynccontextmanager
async def tools(
    tmp_path: Path, settings: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[Tools]:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    config = await asyncio.to_thread(load, settings or {})
    async with hermes.Sandbox("local", workspace=str(work), config=config, **options) as box:
        yield Tools(box)
