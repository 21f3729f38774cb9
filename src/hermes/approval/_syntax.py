"""What a shell script is made of, once it is read."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Span: TypeAlias = tuple[int, int]


class Lit(msgspec.Struct, frozen=True, gc=False):
    """Text as it stands."""

    text: str
    quoted: bool


class Var(msgspec.Struct, frozen=True, gc=False):
    """``$name`` and ``${name op word}``. ``op`` is the operator, ``#len`` for the length, ``!`` for
    indirection.
    """

    name: str
    quoted: bool
    index: Word | None = None
    op: str = ""
    word: Word | None = None
    indirect: bool = False


class Sub(msgspec.Struct, frozen=True, gc=False):
    """``$(script)`` and backticks."""

    body: Seq
    quoted: bool


class Arith(msgspec.Struct, frozen=True, gc=False):
    """An arithmetic expression. ``inner`` is what is expanded in it."""

    text: str
    inner: Word
    quoted: bool


class Proc(msgspec.Struct, frozen=True, gc=False):
    """``<(script)`` or ``>(script)``."""

    body: Seq
    direction: str


Part: TypeAlias = Lit | Var | Sub | Arith | Proc


class Word(msgspec.Struct, frozen=True, gc=False):
    """A word before it is expanded. ``simple`` is its text when nothing in it needs expanding, and no
    quotes.
    """

    parts: tuple[Part, ...]
    span: Span
    simple: str | None = None


class Assign(msgspec.Struct, frozen=True, gc=False):
    """``name=value``, ``name[index]+=value``, ``name=(values)``."""

    name: str
    value: Word | None
    values: tuple[Word, ...] | None = None
    index: Word | None = None
    append: bool = False


class Redirect(msgspec.Struct, frozen=True, gc=False):
    """``fd op target``. A here-document is an operator ``<<`` whose target is its body."""

    fd: str
    op: str
    target: Word
    span: Span


class Simple(msgspec.Struct, frozen=True, gc=False):
    """A command of words."""

    assigns: tuple[Assign, ...]
    words: tuple[Word, ...]
    redirects: list[Redirect]  # a list, because the bodies of here-documents are read after the command
    span: Span
    # `a=(...)` given as an argument, as `declare a=(...)` has it
    arrays: tuple[Assign, ...] = ()


class Pipeline(msgspec.Struct, frozen=True, gc=False):
    """Commands joined by pipes."""

    commands: tuple[Node, ...]
    both: tuple[bool, ...]  # `|&` instead of `|`


class Item(msgspec.Struct, frozen=True, gc=False):
    """One entry of a list. ``before`` is the operator that joins it to the one before, ``background`` whether
    it is followed by ``&``."""

    node: Node
    before: Literal[";", "&&", "||"]
    background: bool = False


class Seq(msgspec.Struct, frozen=True, gc=False):
    """A list of commands."""

    items: tuple[Item, ...]


class Group(msgspec.Struct, frozen=True, gc=False):
    """``{ list; }`` or ``( list )``."""

    body: Seq
    subshell: bool


class If(msgspec.Struct, frozen=True, gc=False):
    """Each branch is a condition and what follows it; the last one may have no condition."""

    branches: tuple[tuple[Seq | None, Seq], ...]


class Loop(msgspec.Struct, frozen=True, gc=False):
    """``while`` and ``until``."""

    condition: Seq
    body: Seq


class For(msgspec.Struct, frozen=True, gc=False):
    """``for name in words`` and ``select``; without words it is the positional parameters."""

    name: str
    words: tuple[Word, ...] | None
    body: Seq


class CFor(msgspec.Struct, frozen=True, gc=False):
    """``for ((a; b; c))``."""

    head: Arith
    body: Seq


class Case(msgspec.Struct, frozen=True, gc=False):
    """``case word in pattern) list;; esac``."""

    word: Word
    arms: tuple[tuple[tuple[Word, ...], Seq], ...]


class Function(msgspec.Struct, frozen=True, gc=False):
    """The definition of a function."""

    name: str
    body: Node
    span: Span


class Test(msgspec.Struct, frozen=True, gc=False):
    """``[[ words ]]`` or ``(( expression ))``: only what is expanded in it matters."""

    words: tuple[Word, ...]


class Coproc(msgspec.Struct, frozen=True, gc=False):
    """``coproc [name] command``."""

    body: Node


class Redirected(msgspec.Struct, frozen=True, gc=False):
    """A compound command with redirections."""

    node: Node
    redirects: list[Redirect]


Node: TypeAlias = (
    Simple | Pipeline | Seq | Group | If | Loop | For | CFor | Case | Function | Test | Coproc | Redirected
)


class Unparsable(Exception):
    """The text is not a script that we can read, with the reason and where."""

    def __init__(self, reason: str, at: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at
