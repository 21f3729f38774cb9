"""Runs inside the container: runs each line, and reports which of them started the marker.

Standard library only. Reads a list of lines as JSON, prints a list of booleans.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

marker, lines = json.load(sys.stdin)
log = "/tmp/marks"
with open(f"/usr/local/bin/{marker}", "w") as file:
    file.write(f'#!/bin/sh\necho "$*" >> {log}\n')
os.chmod(f"/usr/local/bin/{marker}", 0o755)
out = []
for line in lines:
    open(log, "w").close()
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(subprocess.TimeoutExpired):
        for name in set(re.findall(r"\bthere\d+\.sh", line)):
            with open(os.path.join(folder, name), "w") as file:
                file.write(":\nQQ\n")
        subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=10,
        )
    out.append(os.path.getsize(log) > 0)
print(json.dumps(out))
