"""Runs the Python code of a page, block after block, as `python -m asyncio` would: `await` works at the top.

Reads `[page, [[line, source], ...]]` as JSON, and prints a NUL after each block.
"""

import ast
import asyncio
import inspect
import json
import sys

page, blocks = json.load(sys.stdin)
names = {"__name__": "__main__"}
with asyncio.Runner() as runner:
    for line, source in blocks:
        # The empty lines make a traceback name the page's own lines.
        code = compile("\n" * line + source, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        waiting = eval(code, names)
        if inspect.iscoroutine(waiting):
            runner.run(waiting)
        print("\0", end="", flush=True)
