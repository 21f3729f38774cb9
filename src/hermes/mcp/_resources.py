"""What clients can read: whole outputs that were too long, and what jobs have written."""

from __future__ import annotations

import base64
from collections import OrderedDict
from typing import Any
from urllib.parse import parse_qs, urlsplit

import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext

from hermes.errors import FileError, HermesError, JobError
from hermes.sandbox import Sandbox
from hermes.session import Spill
from hermes.tools import Outcome
from hermes.tools._result import is_binary, shown

__all__ = ["Resources"]

PIECE = 256 << 10  # bytes of one reading
KEPT = 200  # outputs of which it is known where they are
JOBS = 200

Context = ServerRequestContext[Any, Any]


class Resources:
    """The resources of one sandbox."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box
        self._spills: OrderedDict[str, Spill] = OrderedDict()
        self._count = 0

    def link(self, outcome: Outcome) -> types.ResourceLink | None:
        """Return the link to the whole of an output, which can be read from now on, if there is one."""
        spill = outcome.spill
        if spill is None:
            return None
        self._count += 1
        ident = str(self._count)
        self._spills[ident] = spill
        while len(self._spills) > KEPT:
            self._spills.popitem(last=False)
        facts = _spill_resource(ident, spill)
        return types.ResourceLink(**facts.model_dump(exclude_none=True))

    async def list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        found = [_spill_resource(ident, spill) for ident, spill in reversed(self._spills.items())]
        jobs = [job for job in await self._box.jobs() if job.kind != "stray"]
        found += [
            types.Resource(
                uri=f"hermes://job/{job.id}",
                name=f"job-{job.id}",
                title=f"job {job.id} ({job.state}): {shown(job.command)}",
                mime_type="text/plain",
                size=job.bytes,
            )
            for job in jobs[-JOBS:]
        ]
        return types.ListResourcesResult(resources=found)

    async def templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template="hermes://job/{id}{?offset}",
                    name="job",
                    title="What a job has written",
                    description=f"From the byte offset on, {PIECE >> 10} KiB at most.",
                ),
                types.ResourceTemplate(
                    uri_template="hermes://spill/{id}{?offset}",
                    name="spill",
                    title="The whole output of a command",
                    description=f"From the byte offset on, {PIECE >> 10} KiB at most.",
                ),
            ]
        )

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        kind, ident, offset = _parsed(params.uri)
        try:
            if kind == "job":
                job = await self._box.job(ident)
                size = (await job.info()).bytes
                data = await job.output(offset, PIECE)
            else:
                spill = self._spills.get(ident)
                if spill is None:
                    raise _unknown(params.uri)
                data, size = await self._spilled(spill, offset), spill.bytes
        except (JobError, FileError) as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": params.uri}) from error
        except HermesError as error:
            from ._server import failed

            raise failed(error) from error
        end = min(offset + PIECE, size)
        meta = {"hermes/bytes": size} | ({"hermes/next": end} if end < size else {})
        if is_binary(data):
            blob = base64.b64encode(data).decode()
            mime = "application/octet-stream"
            return types.ReadResourceResult(
                contents=[types.BlobResourceContents(uri=params.uri, mime_type=mime, blob=blob, _meta=meta)]
            )
        text = data.decode("utf-8", "replace")
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=text, _meta=meta)
            ]
        )

    async def _spilled(self, spill: Spill, offset: int) -> bytes:
        data = await spill.read(offset, PIECE)
        supply = self._box._supply
        if supply is None or not supply.scrub:
            return data
        data = supply.scrub.whole(data, cut=offset + len(data) < spill.bytes)[0]
        return supply.scrub.rest(data)[0] if offset else data


def _spill_resource(ident: str, spill: Spill) -> types.Resource:
    return types.Resource(
        uri=f"hermes://spill/{ident}",
        name=f"output-{ident}",
        title=f"the whole output, {shown(spill.path)} inside",
        mime_type="text/plain",
        size=spill.bytes,
    )


def _parsed(uri: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(uri)
        offset = int(parse_qs(parts.query).get("offset", ["0"])[0])
        ident = parts.path.strip("/")
    except ValueError:
        raise _unknown(uri) from None
    if parts.scheme != "hermes" or parts.netloc not in ("job", "spill") or not ident.isdigit() or offset < 0:
        raise _unknown(uri)
    return parts.netloc, ident, offset


def _unknown(uri: str) -> MCPError:
    return MCPError(
        types.INVALID_PARAMS, f"there is no resource {uri[:200]} here (any more)", {"uri": uri[:200]}
    )
