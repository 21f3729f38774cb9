"""A registry on this machine that serves one image of the local engine, at the pace that a test wants."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_DOCKER = "application/vnd.docker."
PIECE = 256 << 10
NEW = 8 << 20


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _layer(path: str, data: bytes) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        member = tarfile.TarInfo(path)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    return written.getvalue()


class Registry:
    """``name`` is what to pull, ``digest`` its content's; ``pause`` seconds lie before each 256 KiB of what
    is new."""

    def __init__(self, address: str) -> None:
        self.name = f"{address}/hermes-test:here"
        self.digest = ""
        self.pause = 0.0
        self.blobs: dict[str, bytes] = {}
        self.manifest = b""

    @property
    def pinned(self) -> str:
        return f"{self.name.rpartition(':')[0]}@{self.digest}"

    def take(self, archive: Path) -> None:
        """Serve the image of a ``docker save`` from now on."""
        with tarfile.open(archive) as tar:

            def read(path: str) -> bytes:
                member = tar.extractfile(path)
                assert member is not None
                return member.read()

            (image,) = json.loads(read("manifest.json"))
            config, layers = json.loads(read(image["Config"])), [read(path) for path in image["Layers"]]
        # A layer that no engine has seen yet: one that it knows is not asked for.
        layers.append(_layer("srv/new", os.urandom(NEW)))
        config["rootfs"]["diff_ids"].append(_digest(layers[-1]))
        config["history"].append({"created_by": "a test"})
        about = self._keep(json.dumps(config).encode(), "container.image.v1+json")
        kept = [self._keep(data, "image.rootfs.diff.tar") for data in layers]
        kind = _DOCKER + "distribution.manifest.v2+json"
        self._serve({"schemaVersion": 2, "mediaType": kind, "config": about, "layers": kept})

    def renewed(self) -> str:
        """Serve another content under the same name, and return what pins it."""
        whole = json.loads(self.manifest)
        about = json.loads(self.blobs[whole["config"]["digest"]])
        about["history"][-1]["created_by"] += " again"
        whole["config"] = self._keep(json.dumps(about).encode(), "container.image.v1+json")
        self._serve(whole)
        return self.pinned

    def _serve(self, whole: dict[str, Any]) -> None:
        self.manifest = json.dumps(whole).encode()
        self.digest = _digest(self.manifest)

    def _keep(self, data: bytes, kind: str) -> dict[str, Any]:
        digest = _digest(data)
        self.blobs[digest] = data
        return {"mediaType": _DOCKER + kind, "size": len(data), "digest": digest}


@contextlib.contextmanager
def registry(image: str, folder: Path) -> Iterator[Registry]:
    """Serve an image of the local docker on a port of this machine, which docker trusts without TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, data, digest = "application/json", b"{}", ""
            if found := re.fullmatch(r"/v2/[^/]+/manifests/(\S+)", self.path):
                digest, kind = served.digest, _DOCKER + "distribution.manifest.v2+json"
                data = served.manifest if found[1] in ("here", digest) else b""
            elif found := re.fullmatch(r"/v2/[^/]+/blobs/(\S+)", self.path):
                digest, kind, data = found[1], "application/octet-stream", served.blobs.get(found[1], b"")
            self.send_response(200 if data else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            if digest:
                self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            for at in range(0, len(data) if self.command == "GET" else 0, PIECE):
                time.sleep(served.pause if len(data) < 2 * NEW else 0)
                self.wfile.write(data[at : at + PIECE])

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    archive = folder / "image.tar"
    subprocess.run(["docker", "save", "--output", str(archive), image], check=True, timeout=60)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Registry(f"127.0.0.1:{server.server_port}")
        served.take(archive)
        archive.unlink()
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
