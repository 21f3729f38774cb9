"""The schema for editors is that of the code."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from hermes.config import _json_schema
from hermes.config._keys import plain_names


def test_the_file_that_is_shipped_is_that_of_the_code() -> None:
    made = json.loads(json.dumps(_json_schema.schema()))
    assert json.loads(_json_schema.FILE.read_text("utf-8")) == made, (
        "make it again: python -m hermes.config._json_schema"
    )


def test_every_setting_is_in_it_and_nothing_else() -> None:
    made = _json_schema.schema()

    def names(part: dict[str, Any], prefix: str = "") -> set[str]:
        found = set()
        for name, one in part["properties"].items():
            inner = made["$defs"][one["$ref"].rpartition("/")[2]] if "$ref" in one else None
            if inner is None and "allOf" in one:
                inner = made["$defs"][one["allOf"][0]["$ref"].rpartition("/")[2]]
            if inner is not None and "properties" in inner:
                found |= names(inner, f"{prefix}{name}.")
            elif one != {"description": "hermes-agent's"}:
                found.add(prefix + name)
        return found

    assert names(made) == set(plain_names())
    assert made["additionalProperties"] is False
    assert made["properties"]["terminal"] == {"description": "hermes-agent's"}


def test_texts_that_stand_for_numbers_are_allowed() -> None:
    from hermes.config import parse_duration, parse_size

    for title, good, bad in (
        ("duration", ["90", "30s", "1.5h", "1h30m", "7d"], ["soon", "10x"]),
        ("size", ["4096", "64k", "1.5m", "1 GiB"], ["big", "64kk"]),
    ):
        for text in good:
            assert re.search(_json_schema.TEXTS[title], text)
            assert (parse_duration if title == "duration" else parse_size)(text) > 0
        assert not any(re.search(_json_schema.TEXTS[title], text) for text in bad)
    text = msgspec.json.encode(_json_schema.schema()).decode()
    assert text.count('"pattern"') > 10
