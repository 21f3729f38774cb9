"""Variables that decide what other programs run, load or ask."""

from __future__ import annotations

import re

from hermes._lazy import Lazy

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
    "PIP_INDEX_URL PIP_EXTRA_INDEX_URL UV_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_DEFAULT_INDEX "
    "NPM_CONFIG_REGISTRY npm_config_registry GOPROXY_X "
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
    "DELTA_PAGER GH_PAGER GH_BROWSER GH_EDITOR HGEDITOR SVN_EDITOR CVSEDITOR GLAB_PAGER "
    "HOMEBREW_EDITOR CRONTAB_EDITOR SUDO_EDITOR PS4 PS1 PS0 PS2 MAKEFLAGS"
)
# Programs run the files that these name.
_LISTED = marks.names(
    "MAKEFILES DOTNET_STARTUP_HOOKS PSQLRC R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER SQLITERC GDBINIT"
)
# A build runs what these say, with arguments.
BUILD_TOOL = Lazy(
    r"(?:HOST_?|TARGET_?|BUILD_?)?(?:CC|CXX|CPP|LD|AR|AS|FC|NM|RANLIB|STRIP|OBJCOPY|RM|MV|CP|LN|INSTALL|PYTHON\d?|"
    r"NODE|GO|CARGO|RUSTC|SUDO|GIT|CURL|LEX|YACC|MAKE|ECHO|SED|AWK|CONFIG_SHELL)"
)
BUILDS = marks.names(
    "make gmake bmake configure cmake ninja meson scons cargo go npm yarn pnpm pip pip3 python python3 bazel "
    "tox"
)
_PLUGGED = Lazy(
    r"-fplugin=|-specs=|-wrapper\b|-fpass-plugin=|-load=?\s*\S+\.so|(?:^|\s)-B\s*(?:/tmp|/var/tmp|\.)"
)
_LINKER = Lazy(r"\b(?:linker|rustc-wrapper)=['\"]?(?:\.|/tmp/|/var/tmp/|/dev/shm/|~|/home/)")
# Options that programs take from these, which run something.
_EVALUATES = Lazy(r"(?:^|\s)-(?:eval|run|s|pa|pz|config|boot|init|proto\w*)(?:\s|$)")
_TOLD = {
    "MANOPT": Lazy(r"(?:^|\s)(?:-[a-zA-Z]*[PH]|--pager|--html|-C|--config-file)"),
    "ERL_FLAGS": _EVALUATES,
    "ERL_AFLAGS": _EVALUATES,
    "ERL_ZFLAGS": _EVALUATES,
    "ELIXIR_ERL_OPTIONS": _EVALUATES,
    "PIP_FIND_LINKS": Lazy(r"https?://"),
    "UV_FIND_LINKS": Lazy(r"https?://"),
}
_CARGO = Lazy(r"CARGO_TARGET_\w+_(?:RUNNER|LINKER|RUSTDOC)|CARGO_BUILD_RUSTDOC|RUSTDOC")
_AGENT = Lazy(
    r"(?:HERMES|TIRITH|CLAUDE_CODE|CODEX|GEMINI|OPENCODE|"
    r"OPENCLAW)_\w+|TIRITH|CC_SAFETY_NET\w*|DCG_\w+|NAH_\w+"
)
_AGENT_PLAIN = frozenset(("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "HERMES_LOG_LEVEL"))
_PLAIN_VALUE = Lazy(
    r"(?:/usr/bin/|/bin/)?[a-z][\w.+-]*"
    r"(?: -o [A-Za-z]{3,40}=[\w~./-]+| -{1,2}[\w=./~:-]+| [~/\w.@-]+)*+|:|true|cat|"
)
# Options of such tools that run, or load, something else.
_LOADING = Lazy(
    r"(?:\S*/)?(?:ssh(?=\s).*\s-[46AaCqTvx]*(?:[FIS]|o(?! ?(?i:IdentitiesOnly|StrictHostKeyChecking|"
    r"UserKnownHostsFile|BatchMode|Connect|ServerAlive|LogLevel|IdentityFile|Compression|Port=|User=|"
    r"ControlPath|ControlPersist|ControlMaster|HostName|Ciphers|AddressFamily|HostKeyAlgorithms|"
    r"PubkeyAccepted|Preferred)))"
    r"|g?n?vim?(?=\s).*\s(?:-[A-Za-z]*[cSUu]|--cmd|\+)|less(?=\s).*\s(?:-\w*k|--lesskey|\+!)"
    r"|emacs(?:client)?(?=\s).*\s-(?:-?eval|e|l|-?load|f|-?funcall)\b)",
    re.DOTALL,
)
_NOT_TOOL = Lazy(
    r"(?:/usr/bin/|/bin/)?(?:rm|dd|sh|bash|zsh|dash|ksh|fish|python\w*|perl|ruby|"
    r"node|php|curl|wget|nc|ncat|sudo|kill\w*|mkfs\S*|shred|eval|env|xargs)\b"
)


def variable_rule(name: str, value: str) -> str:
    """Return the rule that setting a variable to a value meets; empty for none."""
    if name.startswith("BASH_FUNC_"):
        return "environment"
    if name in _LOADED:
        return "environment" if value != "" else ""
    if name in _LISTED and value not in ("", "/dev/null"):
        return "environment"
    if name in _TOLD and _TOLD[name].search(value):
        return "environment"
    if name.startswith("LUA_INIT_") and value:
        return "environment"
    if _CARGO.fullmatch(name):
        plain = _PLAIN_VALUE.fullmatch(value) and not _NOT_TOOL.match(value)
        return "" if not value or plain or marks.unknown(value) else "environment"
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
        if _PLAIN_VALUE.fullmatch(text) and not _NOT_TOOL.match(text) and not _LOADING.match(text):
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
    if name in _SEARCHED and any(map(_open_to_all, value.split(":"))):
        return "environment"
    if name.lower() in _PROXIES and value and not _proxy_known(value):
        return "environment"
    if name.endswith(_FLAGS) and _PLUGGED.search(value):
        return "environment"
    if name.endswith("RUSTFLAGS") and _LINKER.search(value):
        return "environment"
    if name == "CONFIG_SHELL" and _open_to_all(value):
        return "environment"
    if name in _COMPILERS and re.search(
        r"[;&|`]|\$\(|^(?:/\S*/)?(?:ba|z|da|k)?sh\s|(?:^|\s)/(?:tmp|var/tmp|dev/shm)/", value
    ):
        return "environment"
    if name == "NODE_OPTIONS" and re.search(r"--inspect\S*=(?:0\.0\.0\.0|\[::\])", value):
        return "environment"
    if name in (
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "MAVEN_OPTS",
        "GRADLE_OPTS",
        "SBT_OPTS",
    ):
        return "environment" if re.search(r"-(?:javaagent|agent|Xrunjdwp|XX:On)", value) else ""
    if name == "GOFLAGS" and re.search(r"-(?:toolexec|exec|overlay|modfile)", value):
        return "environment"
    if name == "PYTHONBREAKPOINT" and value not in ("0", "", "pdb.set_trace", "ipdb.set_trace"):
        return "environment"
    if name in ("GOPROXY", "DOCKER_HOST") and re.search(r"http://|tcp://(?!localhost|127\.)", value):
        return "environment"
    if name == "GOSUMDB" and value == "off":
        return "environment"
    if name == "IFS" and marks.marked(value):
        return "environment"
    if _AGENT.fullmatch(name) and name not in _AGENT_PLAIN:
        return "agent-environment"
    return ""


# Programs look for what they load or trust where these say.
_SEARCHED = marks.names(
    "PYTHONPATH NODE_PATH PERL5LIB PERLLIB RUBYLIB GEM_PATH GEM_HOME CLASSPATH LUA_PATH LUA_CPATH PHPRC "
    "PHP_INI_SCAN_DIR GIT_DIR GIT_COMMON_DIR GIT_WORK_TREE GIT_CONFIG GIT_OBJECT_DIRECTORY LD_LIBRARY_PATH "
    "KUBECONFIG CURL_HOME WGETRC CURL_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE "
    "NODE_EXTRA_CA_CERTS "
    "GIT_SSL_CAINFO NPM_CONFIG_USERCONFIG npm_config_userconfig CARGO_HOME RUSTUP_HOME "
    "JULIA_LOAD_PATH JULIA_DEPOT_PATH R_PROFILE R_PROFILE_USER R_LIBS ERL_LIBS GUILE_LOAD_PATH "
    "SSH_AUTH_SOCK TCLLIBPATH EMACSLOADPATH "
    "VIMRUNTIME INPUTRC SCREENRC TERMINFO MAGIC XDG_CONFIG_HOME ZDOTDIR "
    "ANSIBLE_CONFIG BUNDLE_GEMFILE GRADLE_USER_HOME MAVEN_ARGS R_ENVIRON MANPATH GDBHISTFILE PKG_CONFIG_PATH "
    "COMPILER_PATH GCC_EXEC_PREFIX LIBRARY_PATH OPAMROOT DOCKER_CONFIG GNUPGHOME SSL_CERT"
)
_PROXIES = frozenset(
    (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "ftp_proxy",
        "rsync_proxy",
        "npm_config_proxy",
        "npm_config_https_proxy",
        "uv_index_url",
        "uv_default_index",
        "uv_extra_index_url",
        "yarn_registry",
        "uv_index",
        "uv_insecure_host",
        "pip_trusted_host",
        "pdm_pypi_url",
        "bundle_mirror",
        "cargo_registries_crates_io_index",
        "gem_host",
        "hf_endpoint",
    )
)
_FLAGS = ("FLAGS", "CC", "CXX", "CPP")
_COMPILERS = marks.names(
    "CC CXX CPP LD AR AS FC NM RANLIB STRIP OBJCOPY LINKER CARGO_TARGET_RUNNER CMAKE_C_COMPILER_LAUNCHER "
    "CMAKE_CXX_COMPILER_LAUNCHER CC_WRAPPER PYTHON NODE RUSTC_LINKER"
)


def _open_to_all(piece: str) -> bool:
    return piece.startswith(("/tmp/", "/var/tmp/", "/dev/shm/")) or piece in ("/tmp", "/var/tmp", "/dev/shm")


def _proxy_known(value: str) -> bool:
    """Say whether a proxy or registry is this machine, or one of the private network."""
    if marks.unknown(value):
        return True
    host = re.sub(r"^\w+://", "", value).rpartition("@")[2].partition("/")[0].partition(":")[0]
    return (
        host in ("localhost", "host.docker.internal", "")
        or "." not in host
        or re.match(r"127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.", host) is not None
        or host.endswith((".local", ".internal", ".lan", ".corp", ".intranet", ".localhost"))
    )


def _path_kept(value: str) -> bool:
    """Say whether the search path is only added to, with directories that nobody else may write to."""
    pieces = value.split(":")
    if not any(
        piece.startswith(("/usr/bin", "/bin", "/usr/" + UNKNOWN)) or marks.unknown(piece) for piece in pieces
    ):
        return False
    first = pieces[0]
    return not (first in ("", ".") or first.startswith(("/tmp", "/var/tmp", "/dev/shm")))
