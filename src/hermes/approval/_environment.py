"""Variables that decide what other programs run, load or ask."""

from __future__ import annotations

import re

from . import _marks as marks
from ._marks import UNKNOWN

# Programs load what these name.
_LOADED = frozenset(
    "LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH "
    "DYLD_FRAMEWORK_PATH BASH_ENV ENV PYTHONSTARTUP PYTHONINSPECT PERL5OPT PERL5DB "
    "RUBYOPT LUA_INIT GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_CONFIG_GLOBAL "
    "GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GCONV_PATH PROMPT_COMMAND "
    "npm_config_script_shell NPM_CONFIG_SCRIPT_SHELL npm_config_node_options SHELLOPTS "
    "BASHOPTS BASH_LOADABLES_PATH GLIBC_TUNABLES LOCPATH MALLOC_CONF OPENSSL_CONF "
    "OPENSSL_ENGINES GTK_MODULES QT_PLUGIN_PATH PYTHONHOME CLASSPATH_X VIMINIT EXINIT "
    "NVIM_APPNAME_X TERMINFO_X RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CARGO_BUILD_RUSTC "
    "CARGO_BUILD_RUSTC_WRAPPER RUSTC CMAKE_C_COMPILER_LAUNCHER_X PIP_CONFIG_FILE "
    "PIP_INDEX_URL PIP_EXTRA_INDEX_URL NPM_CONFIG_REGISTRY npm_config_registry GOPROXY_X "
    "GONOSUMDB GONOSUMCHECK GOFLAGS_X GOINSECURE NODE_TLS_REJECT_UNAUTHORIZED "
    "GIT_SSL_NO_VERIFY PYTHONHTTPSVERIFY SSH_AUTH_SOCK_X "
    "DOCKER_HOST_X SUDO_PROMPT_X SYSTEMD_PAGERSECURE".replace("_X ", "_x ").split()
) - {"CLASSPATH_x"}
# Programs run what these say.
_RUN = marks.names(
    "GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR "
    "GIT_PROXY_COMMAND GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS PAGER MANPAGER EDITOR VISUAL "
    "FCEDIT BROWSER LESSOPEN LESSCLOSE SYSTEMD_PAGER SYSTEMD_EDITOR BAT_PAGER PSQL_PAGER "
    "PSQL_EDITOR AWS_PAGER RSYNC_RSH CVS_RSH SVN_SSH BORG_RSH SHELL MAKESHELL TAR_OPTIONS "
    "MANROFFOPT FZF_DEFAULT_COMMAND KUBE_EDITOR KUBECTL_EXTERNAL_DIFF "
    "HOMEBREW_EDITOR CRONTAB_EDITOR SUDO_EDITOR PS4 PS1 PS0 PS2 MAKEFLAGS"
)
_AGENT = re.compile(
    r"(?:HERMES|TIRITH|CLAUDE_CODE|CODEX|GEMINI|OPENCODE|"
    r"OPENCLAW)_\w+|TIRITH|CC_SAFETY_NET\w*|DCG_\w+|NAH_\w+"
)
_AGENT_PLAIN = frozenset(("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "HERMES_LOG_LEVEL"))
_PLAIN_VALUE = re.compile(r"(?:/usr/bin/|/bin/)?[a-z][\w.+-]*(?: -{1,2}[\w=./~:-]+| [~/\w.@-]+)*|:|true|cat|")
_NOT_TOOL = re.compile(
    r"(?:/usr/bin/|/bin/)?(?:rm|dd|sh|bash|zsh|dash|ksh|fish|python\w*|perl|ruby|"
    r"node|php|curl|wget|nc|ncat|sudo|kill\w*|mkfs\S*|shred|eval|env|xargs)\b"
)


def variable_rule(name: str, value: str) -> str:
    """Return the rule that setting a variable to a value meets; empty for none."""
    if name.startswith("BASH_FUNC_"):
        return "environment"
    if name in _LOADED:
        return "environment" if value != "" else ""
    if name in _RUN:
        text = marks.shown(value)
        if "…" in text and name not in ("PS1", "PS2"):
            return "environment" if marks.OUTPUT in value or marks.REMOTE in value else ""
        if name in ("PS1", "PS2", "PS0", "PS4"):
            return "environment" if "$(" in value or "`" in value else ""
        if name in ("MAKEFLAGS", "TAR_OPTIONS"):
            return (
                "environment"
                if "SHELL" in value or "--eval" in value or "checkpoint" in value or "command" in value
                else ""
            )
        if _PLAIN_VALUE.fullmatch(text) and not _NOT_TOOL.match(text):
            return ""
        if name == "SHELL" and re.fullmatch(r"(?:/usr)?(?:/local)?/bin/(?:ba|z|da|k|fi)?sh", text):
            return ""
        return "environment"
    if name == "PATH":
        return "" if _path_kept(value) else "environment"
    if name in ("HISTFILE",) and value in ("", "/dev/null"):
        return "environment"
    if name in ("HISTSIZE", "HISTFILESIZE") and value == "0":
        return "environment"
    if name in ("HISTCONTROL", "HISTIGNORE") and ("*" in value):
        return "environment"
    if name == "NODE_OPTIONS" and re.search(r"--?(?:r|require|import|loader|experimental-loader)\b", value):
        return "environment"
    if name in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS") and re.search(
        r"-(?:javaagent|agent)", value
    ):
        return "environment"
    if name == "IFS" and marks.marked(value):
        return "environment"
    if _AGENT.fullmatch(name) and name not in _AGENT_PLAIN:
        return "agent-environment"
    return ""


def _path_kept(value: str) -> bool:
    """Say whether the search path is only added to, with directories that nobody else may write to."""
    pieces = value.split(":")
    if not any(
        piece.startswith(("/usr/bin", "/bin", "/usr/" + UNKNOWN)) or marks.unknown(piece) for piece in pieces
    ):
        return False
    first = pieces[0]
    return not (first in ("", ".") or first.startswith(("/tmp", "/var/tmp", "/dev/shm")))
