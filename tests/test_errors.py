"""The error tree: codes, texts, exit codes, and that errors survive being copied between processes."""

import copy
import inspect
import pickle

import pytest

import hermes.errors as errors
from hermes.errors import FileError, HermesError, Refused, SandboxGone, Unreachable, exit_code, status

CLASSES = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, HermesError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_a_code_and_stands_in_the_drawing(kind: type[HermesError]) -> None:
    error = kind("it broke")
    assert error.code
    assert (error.operation, error.hint, error.context) == (None, None, {})
    assert str(error) == error.message == "it broke"
    assert kind.__name__ in (errors.__doc__ or "")
    if kind is not HermesError:
        assert f" {error.code} " in (errors.__doc__ or "")


def test_codes_tell_the_classes_apart() -> None:
    assert len({kind("x").code for kind in CLASSES}) == len(CLASSES)


@pytest.mark.parametrize(
    ("message", "text"),
    [("It broke", "It broke. Mend it."), ("It broke.", "It broke. Mend it."), ("Why?", "Why? Mend it.")],
)
def test_the_hint_follows_the_message(message: str, text: str) -> None:
    assert str(HermesError(message, hint="Mend it.")) == text


def test_only_a_lost_link_is_retryable_by_itself() -> None:
    assert [kind for kind in CLASSES if kind("x").retryable] == [Unreachable]
    assert not Unreachable("x", retryable=False).retryable


def test_fields_survive_pickle_and_copy() -> None:
    error = FileError("no", path="/a", code="not_found", operation="file.read", hint="h", context={"n": 1})
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is FileError
        assert vars(twin) == vars(error)
        assert str(twin) == "no. h"


def test_exit_codes_and_statuses() -> None:
    got = {kind.__name__: (exit_code(kind("x")), status(kind("x"))) for kind in CLASSES}
    assert got.pop("Refused") == (121, "refused")
    assert got.pop("SandboxGone") == got.pop("Unreachable") == (123, "gone")
    assert set(got.values()) == {(125, "failed")}
    assert exit_code(ValueError()) == 125


def test_extra_fields_have_defaults() -> None:
    assert SandboxGone("x").reason == ""
    assert Unreachable("x", reason="cut").reason == "cut"
    assert Refused("x").rule is None
    assert FileError("x").path is None
