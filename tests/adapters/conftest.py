"""Which of these tests run depends on the environment: `scripts/setup --adapters` makes that of the most.

pydantic-ai's are a part of the ordinary run. What is not there is not collected: `scripts/test` runs both.
"""

import importlib.util
import os
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FRAMEWORKS = {
    "inspect_ai": ["test_inspect.py", "test_self_check.py"],
    "minisweagent": ["test_mini_swe.py"],
    "deepagents": ["test_deepagents.py"],
    "pydantic_ai": ["test_pydantic_ai.py"],
}
collect_ignore = [
    name for module, names in FRAMEWORKS.items() if importlib.util.find_spec(module) is None for name in names
]

# mini-swe-agent greets whoever imports it, and makes a directory for its settings.
os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = str(HERE.parents[1] / ".cache" / "mini-swe-agent")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            # Inspect drops streams as they are; that is seen whenever they are collected.
            item.add_marker(pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"))
