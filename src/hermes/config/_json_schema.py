"""The JSON Schema of ``config.yaml``, made from the code, for editors that complete and check.

``python -m hermes.config._json_schema`` writes the file that is shipped; a test compares the two.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from ._load import FOREIGN, FOREIGN_APPROVALS, FOREIGN_MODEL, FOREIGN_MODES, _each, _hints
from ._schema import Config

__all__ = ["FILE", "schema"]

FILE = Path(__file__).with_name("schema.json")

TEXTS = {
    "duration": r"^\s*(none|null|(\d+(\.\d+)?\s*(ms|s|m|h|d|w)?\s*)+)$",
    "size": r"^\s*\d+(\.\d+)?\s*[kmgtKMGT]?[iI]?[bB]?$",
}


def schema() -> dict[str, Any]:
    """Return the schema."""
    made = msgspec.json.schema(Config)
    parts = made["$defs"]
    top = parts.pop("Config")
    for kind in _structs(Config):
        _complete(parts[kind.__name__] if kind is not Config else top, kind)
    # What hermes-agent has under the same names is left alone, so it is not marked as wrong.
    theirs = parts["Approvals"]["properties"]
    theirs["mode"]["enum"] = [*theirs["mode"]["enum"], *FOREIGN_MODES]
    theirs |= {key: {"description": "hermes-agent's"} for key in sorted(FOREIGN_APPROVALS)}
    parts["Model"]["type"] = ["object", "string"]
    parts["Model"]["properties"] |= {key: {"description": "hermes-agent's"} for key in sorted(FOREIGN_MODEL)}
    for key in (FOREIGN & set(top["properties"])) - {"model"}:
        top["properties"][key] = {"anyOf": [top["properties"][key], {"type": "object"}]}
    top["properties"] = {
        **top["properties"],
        **{key: {"description": "hermes-agent's"} for key in sorted(FOREIGN) if key not in top["properties"]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config.yaml of hermes",
        **top,
        "$defs": parts,
    }


def _structs(kind: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    found = [kind]
    for wanted in _hints(kind).values():
        if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            found += _structs(wanted)
    return found


def _complete(part: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    """Allow the texts that stand for numbers, take out what cannot be set, and describe each key."""
    about = _described(kind.__doc__ or "")
    hints = _hints(kind)
    properties = {name: part["properties"][name] for name in hints}
    for name, wanted in hints.items():
        found = _with_texts(properties[name])
        each = _each(wanted)
        if each is not None:
            inner = msgspec.json.schema(each)["$defs"][each.__name__]
            _complete(inner, each)
            found["additionalProperties"] = inner
        if name in about and "$ref" not in found:
            found = {**found, "description": about[name]}
        properties[name] = found
    part["properties"] = properties
    part["description"] = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    part.pop("title", None)


def _with_texts(found: dict[str, Any]) -> dict[str, Any]:
    default = {"default": found["default"]} if "default" in found else {}
    choices = found.get("anyOf", [found])
    for choice in choices:
        pattern = TEXTS.get(choice.get("title", ""))
        if pattern is not None:
            rest = [{key: value for key, value in one.items() if key != "default"} for one in choices]
            return {"anyOf": [*rest, {"type": "string", "pattern": pattern}], **default}
    if any(choice.get("type") == "string" and "enum" not in choice for choice in choices):
        rest = [{key: value for key, value in one.items() if key != "default"} for one in choices]
        return {"anyOf": [*rest, {"type": "integer"}], **default}  # a user's number, say
    return found


def _described(text: str) -> dict[str, str]:
    """Return what a docstring says of each field, as far as it has a paragraph for it."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("``") and stripped.endswith("``"):
            names = [name.strip("` ") for name in stripped.split(",")]
        elif not stripped:
            names = []
        else:
            for name in names:
                found[name] = f"{found.get(name, '')} {stripped}".strip().replace("``", "")
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n", "utf-8")
