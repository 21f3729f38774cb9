"""What of a sandbox's files is not brought back unless it is named: what this machine would run by itself."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from ._facts import Facts, fold, parents


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Read by a shell, an editor, git or a version manager when a directory is entered or opened.
FILES = _words(
    """
    .hermes.yaml .hermesignore .env .envrc .autoenv .bashrc .bash_profile .bash_login .bash_logout
    .bash_aliases .profile .inputrc .zshrc .zshenv .zprofile .zlogin .zlogout .login .cshrc .tcshrc .kshrc
    .exrc .vimrc .gvimrc .nvimrc .nvim.lua .lvimrc .dir-locals.el .gdbinit .lldbinit .tmux.conf .screenrc
    .npmrc .yarnrc
    .yarnrc.yml .pnpmfile.cjs .pypirc .netrc .gitconfig .gitmodules .mcp.json .mise.toml mise.toml
    .tool-versions .rtx.toml .pre-commit-config.yaml .lefthook.yml lefthook.yml .devcontainer.json
    """
)
FOLDERS = _words(
    """
    .hermes .vscode .idea .zed .nova .devcontainer .husky .githooks .claude .cursor .gemini .codex .mise
    .direnv .ssh .aws .kube .gnupg
    """
)
GIT = frozenset({".git", "git~1"})
# All else in it can make git run something, or lead it elsewhere: hooks, config, commondir, a rebase.
GIT_DATA = re.compile(
    r"objects/(?!info/)[0-9a-f]{2}/[0-9a-f]{38,62}"
    r"|objects/pack/pack-[0-9a-f]{40,64}\.(pack|idx|rev)"
    r"|refs/(heads|tags|remotes|notes)/.+|refs/stash|logs/(HEAD|refs/.+)|packed-refs|index"
    r"|(HEAD|ORIG_HEAD|FETCH_HEAD|MERGE_HEAD|CHERRY_PICK_HEAD|REVERT_HEAD|COMMIT_EDITMSG|MERGE_MSG|MERGE_MODE)"
)
BARE = frozenset({"config", "config.worktree", "hooks", "commondir", "worktrees", "modules", "info"})


class Guard:
    """Knows of one sandbox's files which must not come to this machine just so."""

    def __init__(self, there: Iterable[str], here: Iterable[str]) -> None:
        self._clash: dict[str, str] = {}
        first: dict[str, str] = {}
        known: set[str] = set()
        for path in (*here, *there):  # what is here has its name by right
            for one in (*parents(path), path):
                if one not in known:
                    known.add(one)
                    spelled = first.setdefault(_folded(one), one)
                    if spelled != one:
                        self._clash[one] = spelled
        self._repositories = {
            base.rstrip("/")
            for base in (one.removesuffix("head") for one in first if one.rpartition("/")[2] == "head")
            if base + "commondir" in first or (base + "objects" in first and base + "refs" in first)
        }

    def never(self, path: str, facts: Facts | None) -> str:
        """Return why a path cannot come here at all; empty when it can."""
        if facts is not None and facts.kind == "other":
            return "it is no file, directory or link, cannot be read, or is too large to be compared"
        for one in (*parents(path), path):
            if one in self._clash:
                return f"its name differs from {self._clash[one]} in case or in signs that cannot be seen"
        if facts is not None and facts.kind == "link":
            if any(fold(part) in GIT for part in path.split("/")):
                return "git's own data has no links"
            if _leads_out(path, facts.content):
                return "the link leads out of the workspace"
        return ""

    def held(self, path: str, facts: Facts | None) -> str:
        """Return why a path comes here only when that is asked for; empty when it may."""
        parts = _folded(path).split("/")
        for at, part in enumerate(parts):
            if part in GIT:
                spelled, *inner = path.split("/")[at:]
                harmless = spelled == ".git" and GIT_DATA.fullmatch("/".join(inner))
                return "" if harmless else "git may run what it says"
            if part in FOLDERS or (part in FILES and at == len(parts) - 1):
                return "programs here read it by themselves"
            if "/".join(parts[:at]) in self._repositories and part in BARE:
                return "it lies in what git takes for a repository"
        if facts is not None and facts.kind == "link":
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), facts.content))
            return self.held(target, None) and "the link leads to what programs here read by themselves"
        return ""


def _folded(path: str) -> str:
    return "/".join(map(fold, path.split("/")))


def _leads_out(path: str, target: str) -> bool:
    """Return whether a link may lead out of the tree.

    What follows a name may be a link itself, so that ``..`` after one could lead anywhere.
    """
    depth = path.count("/")
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = 0
    while up < len(parts) and parts[up] == "..":
        up += 1
    return target.startswith("/") or up > depth or ".." in parts[up:]
