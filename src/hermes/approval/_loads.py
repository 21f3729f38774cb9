"""Programs that run what a file says: of one that came from the network it is not known what that is.

Each entry is options whose value is such a file, or a directory that holds them; ``<`` where the operands
are; and after a colon the names that the program looks for by itself.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hermes._lazy import Lazy

from . import _marks as marks
from . import _recipes as recipes
from ._call import Call
from ._marks import REMOTE
from ._nodes import written

if TYPE_CHECKING:
    from ._run import Interpreter

_NODE = "-C --prefix --cwd --dir: package.json"
_PYTHON = "<: pyproject.toml setup.py"
_GRADLE = (
    "-b -p -I -c --build-file --project-dir --init-script --settings-file: build.gradle build.gradle.kts"
)
_SQL = "-f --file -init --init-file <"
_TABLE = {
    "make gmake bmake nmake mingw32-make remake": "-f -C --file --makefile --directory: Makefile "
    "makefile GNUmakefile",
    "cmake": "-P -S -C -B --build --install --preset < : CMakeLists.txt CMakePresets.json",
    "ninja samu": "-f -C: build.ninja",
    "meson": "-C <: meson.build",
    "scons": "-f -C -D --file --directory: SConstruct",
    "bazel bazelisk buck buck2": "--bazelrc: WORKSPACE MODULE.bazel BUILD BUILD.bazel BUCK",
    "just": "-f -d --justfile --working-directory: justfile Justfile .justfile",
    "task go-task": "-t -d --taskfile --dir: Taskfile.yml Taskfile.yaml",
    "rake thor": "-f --rakefile: Rakefile rakefile Thorfile",
    "ant": "-f -file -buildfile: build.xml",
    "mvn mvnw": "-f -s --file --settings: pom.xml",
    "gradle gradlew": _GRADLE,
    "sbt mill": ": build.sbt build.sc",
    "lein clj clojure boot": ": project.clj deps.edn build.boot",
    "npm pnpm yarn": _NODE,
    "bun": "--cwd <: package.json",
    "npx pnpx bunx": _NODE,
    "grunt gulp jake webpack vite rollup jest vitest": (
        "-f -c --config --gulpfile --gruntfile: Gruntfile.js gulpfile.js webpack.config.js vite.config.js"
    ),
    "pip pip3 pipx": "-e --editable -r <: setup.py pyproject.toml",
    "uv poetry pdm hatch flit rye maturin pipenv": "-C --directory --project <: pyproject.toml setup.py",
    "pytest tox nox py.test": "-p " + _PYTHON + " conftest.py tox.ini noxfile.py",
    "cargo": "--path --manifest-path --config -C: Cargo.toml",
    "go": "-C <: go.mod main.go",
    "deno": "-c --config <: deno.json",
    "node nodejs tsx ts-node": "-r --require --import --loader <",
    "ruby jruby": "-r -I",
    "bundle bundler": "--gemfile: Gemfile",
    "composer": "-d --working-dir: composer.json",
    "php": "-f --file -c -z",
    "perl": "-I -M",
    "lua luajit": "-l",
    "julia": "-L --load -J --project",
    "dotnet msbuild": "<: Directory.Build.props",
    "mix rebar3 gleam": ": mix.exs rebar.config gleam.toml",
    "stack cabal": "--stack-yaml --project-file: stack.yaml Setup.hs",
    "dune opam": ": dune-project",
    "zig": "--build-file: build.zig",
    "nimble nim": "<",
    "crystal shards": "<: shard.yml",
    "swift": "--package-path <: Package.swift",
    "flutter dart": "<: pubspec.yaml",
    "vagrant": ": Vagrantfile",
    "docker podman nerdctl docker-compose podman-compose": (
        "-f --file: compose.yml compose.yaml docker-compose.yml docker-compose.yaml"
    ),
    "skaffold tilt devspace okteto earthly dagger act": "-f -c --filename -W <: skaffold.yaml "
    "Tiltfile Earthfile",
    "devcontainer": "--workspace-folder --config: .devcontainer.json",
    "kubectl oc k kubeadm istioctl": "-f -k --filename --kustomize --config",
    "helm helmfile": "-f --values --file --post-renderer < : helmfile.yaml",
    "kustomize argocd flux": "-f <",
    "terraform tofu terragrunt": "-chdir -var-file --var-file: main.tf terragrunt.hcl",
    "pulumi": "-C --cwd: Pulumi.yaml",
    "ansible-playbook ansible ansible-pull ansible-console": "-i --inventory --vault-password-file -e <",
    "puppet chef-client chef-solo chef-apply salt-call cf-agent": "-j -c -z <",
    "packer nomad": "<",
    "nix nix-shell nix-build nix-env nixos-rebuild home-manager guix": "-f --file -I <: flake.nix "
    "default.nix shell.nix",
    "snakemake": "-s --snakefile --configfile: Snakefile",
    "nextflow": "-c -C <: main.nf nextflow.config",
    "airflow luigi dvc": ": dvc.yaml",
    "overmind foreman honcho hivemind goreman": "-f --procfile: Procfile",
    "pre-commit lefthook husky": "-c --config: .pre-commit-config.yaml lefthook.yml",
    "mise direnv devbox devenv tmuxinator tmuxp": "<: .mise.toml .envrc devbox.json devenv.nix",
    "fab invoke inv doit": "-f -c -r --fabfile --search-root: fabfile.py tasks.py dodo.py",
    "sed gsed": "-f --file",
    "awk gawk mawk nawk": "-f -i -l --file --include --load",
    "dc bc": "-f --file <",
    "m4": "<",
    "vim nvim vi ex gvim": "-S -u -s --cmd",
    "emacs emacsclient": "-l --load --script",
    "tmux": "-f source source-file",
    "screen": "-c",
    "ssh scp sftp": "-F",
    "git": "--template",
    "psql mysql mariadb sqlcmd clickhouse-client clickhouse cqlsh usql pgcli mycli cypher-shell duckdb": _SQL,
    "sqlite3 sqlite": "-init -cmd",
    "mongosh mongo redis-cli influx arangosh": "-f --file --eval <",
    "iptables-restore ip6tables-restore nft ipset": "-f --file <",
    "crontab at batch": "-f <",
    "systemctl systemd-run": "<",
    "wg-quick openvpn pppd dhclient": "--config -sf -cf <",
    "nginx apache2 httpd caddy traefik haproxy": "-c -f --config --adapter",
    "supervisord circusd pm2 s6-svscan": "-c <",
    "gnuplot octave gs maxima sage R Rscript": "-f --file --eval <",
    "expect": "-f <",
    "pwsh powershell": "-File -f",
    "osascript": "<",
    "java javaw": "-jar -cp -classpath -javaagent",
    "gcc g++ cc c++ clang clang++": "-fplugin -specs -B",
    "msfconsole nmap": "-r --script",
    "dpkg rpm apt apt-get dnf yum zypper pacman apk snap flatpak brew installer": "<",
}
_ONLY = {
    # Of these programs only what follows one of these words runs anything.
    "docker podman nerdctl": "compose stack up play",
    "npm pnpm yarn": "install i ci add run start test exec rebuild publish pack run-script dlx x "
    "t it create link",
    "cargo": "build b run r test t bench install check c clippy doc fix nextest watch",
    "go": "run build test generate install tool",
    "kubectl oc k": "apply create replace run",
    "dpkg rpm apt apt-get dnf yum zypper pacman apk snap flatpak brew installer": (
        "install add -i -U --install --upgrade -Uvh -ivh -pkg localinstall reinstall --unpack"
    ),
    "terraform tofu terragrunt": "apply plan init console run-all destroy import refresh test",
    "pip pip3 pipx": "install wheel download run",
    "uv poetry pdm hatch flit rye maturin pipenv": "install sync run build add develop pip tool publish test",
    "helm helmfile": "install upgrade template apply sync",
    "nix": "develop run build shell flake profile",
    "vagrant": "up provision reload",
    "dotnet": "build run test publish restore msbuild",
    "mise direnv devbox devenv": "install run allow trust exec shell up x",
}


class _Loader:
    __slots__ = ("found", "only", "operands", "options")

    def __init__(self, spec: str, only: str) -> None:
        options, _, found = spec.partition(":")
        words = options.split()
        self.options = frozenset(one for one in words if one != "<")
        self.operands = "<" in words
        self.found = tuple(found.split())
        self.only = frozenset(only.split())


_ONLY_BY_NAME = {name: only for names, only in _ONLY.items() for name in names.split()}
_LOADERS = {
    name: _Loader(spec, _ONLY_BY_NAME.get(name, ""))
    for names, spec in _TABLE.items()
    for name in names.split()
}
_LOOKS = frozenset(("-n", "--dry-run", "--just-print", "--help", "--version", "-h", "--list", "--tasks"))


def judge(run: Interpreter, call: Call) -> None:
    """Ask about a program that runs a file, or the files of a directory, which came from the network."""
    loader = _LOADERS.get(call.name)
    if loader is None:
        return
    words = call.argv[1:]
    if loader.only and loader.only.isdisjoint(words):
        return
    if not (_LOOKS - {"-h"} if call.name in _FED else _LOOKS).isdisjoint(words):
        return
    named: list[str] = []
    options: set[str] = set()  # those of them that are an option's
    places: list[str] = []
    given = False
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word in loader.options and index + 1 < len(words):
            value = words[index + 1]
        elif not (equals and name in loader.options):
            if word[:1] != "-" or word == "-":
                if loader.operands:
                    named.append(word)
                continue
            if len(word) < 3 or word[1] == "-":
                continue
            if word[:2] in loader.options:
                value = word[2:]
            elif "-" + word[-1] in loader.options and index + 1 < len(words):
                value = words[index + 1]
            else:
                continue
        given = True
        named.append(value)
        options.add(value)
        if not value.endswith((".mk", ".yml", ".yaml", ".toml", ".json")):
            places.append(value)
    if "-" in named or "/dev/stdin" in named or (call.name in _FED and not given and not _asked(call)):
        _told(run, call, call.stdin)
    if not run.state.files:
        return
    for one in named:
        path, held = _held(run, call, one.removeprefix("@").removeprefix("file:"))
        _told(run, call, held or written(run.state, path + "/x"))
        if held and call.name in _FED and (one in options or call.name in _READ):
            run.subshell(partial(run.call, msgspec.structs.replace(call, argv=[call.argv[0]], stdin=held)))
        elif held:
            recipes.follow(run, call, path, held, loaded=one in options)
    if given and not places:
        return
    for place in places or [call.cwd]:
        path = run.path(place, call.cwd)
        for one in loader.found:
            held = written(run.state, f"{path}/{one}")
            if held:
                _told(run, call, held)
                recipes.follow(run, call, f"{path}/{one}", held)


def looked_for(program: str) -> tuple[str, ...]:
    """Return the names of files that a program looks for by itself."""
    name = program.rpartition("/")[2]
    loader = _LOADERS.get(name)
    images = ("Dockerfile", "Containerfile") if name in _CONTAINERS else ()
    return (*(loader.found if loader else ()), *images)


# What is left away in the name of a file that is loaded.
_ENDINGS = ("", ".py", ".js", ".mjs", ".rb", ".pm", ".lua")


def _held(run: Interpreter, call: Call, name: str) -> tuple[str, str | None]:
    """Return the path of a file that is loaded by its name, and its text where the session wrote it."""
    for ending in _ENDINGS:
        path = run.path(name.partition("=")[0].replace("::", "/") + ending if ending else name, call.cwd)
        held = run.state.files.get(path) if ending else written(run.state, path)
        if held is not None:
            return path, held
    return run.path(name, call.cwd), None


_LOADED = Lazy(
    r"\b(?:require(?:_relative|_once)?|do|load(?:file)?|dofile|import|include(?:_once)?|source|from|use)\b\s*\(?\s*"
    r"(?:[\"'`]([^\"'`\n]{1,300})[\"'`]|([A-Za-z_][\w:]*)\s*;?)"
)


def within(run: Interpreter, call: Call, code: str) -> list[str]:
    """Return the texts of files of the session that code loads."""
    if not run.state.files or run.depth > 20:
        return []
    found = (_held(run, call, one or other)[1] for one, other in run.first(_LOADED.findall(code)))
    return [held for held in found if held and held.strip(marks.ALL + " \n")]


_INCLUDES = Lazy(r"\s*(?:\.read|\\ir?|\\include(?:_relative)?|\\\.|source)\s+['\"]?([^'\";]+)")


def included(run: Interpreter, call: Call, line: str) -> None:
    """Follow a file of the session that a line for the client of a database has it read."""
    match = _INCLUDES.match(line) if run.state.files else None
    held = written(run.state, run.path(match.group(1).strip(), call.cwd)) if match else None
    if held and run.depth < 20:
        run.subshell(partial(run.call, msgspec.structs.replace(call, argv=[call.argv[0]], stdin=held)))


# These read files that are named without an option.
_READ = marks.names("mongosh mongo")
# These run what comes in.
_FED = marks.names(
    "psql mysql mariadb sqlite3 sqlite duckdb cqlsh cypher-shell clickhouse-client mongosh mongo m4 at batch"
)


_QUERIES = marks.names("-c -e -q -cmd --command --execute --query --eval --queries")


def _asked(call: Call) -> bool:
    """Say whether what a client of a database does is in its words, so that its input is data."""
    operands = [one for one in call.argv[1:] if one[:1] != "-"]
    return not _QUERIES.isdisjoint(call.argv) or (
        call.name in ("sqlite3", "sqlite", "duckdb", "cypher-shell", "clickhouse-client")
        and len(operands) > 1
    )


_CONTAINERS = marks.names(
    "docker podman nerdctl docker-compose podman-compose kubectl oc k helm kustomize nomad microk8s k3s"
)
# What in the description of a container gives it the rights of the machine.
_HOST = Lazy(
    r"privileged[\"']?\s*:\s*[\"']?true|host(?:PID|Network|IPC)[\"']?\s*:\s*[\"']?true|"
    r"\b(?:pid|network_mode|ipc|userns_mode|cgroup)[\"']?\s*:\s*[\"']?host\b|docker\.sock|containerd\.sock|"
    r"(?:^|[\s\"'\[,-])(?:source\s*:\s*)?[\"']?(?:/|~|/(?:etc|root|home|boot|usr|proc|sys|dev)|~/\.ssh|\$\{?HOME\}?)/?(?::/\w|[\"']?\s*$)|"
    r"hostPath[\"']?\s*:\s*\{?\s*[\"']?path[\"']?\s*:\s*[\"']?/(?:etc|root|home|boot|usr|proc|sys|dev|var/(?:run|lib)\S*)?/?[\"']?\s*(?:[,}\n]|$)|"
    r"\bSYS_(?:ADMIN|PTRACE|MODULE|RAWIO)\b|\bDAC_READ_SEARCH\b",
    re.MULTILINE,
)


def _told(run: Interpreter, call: Call, text: str | None) -> None:
    if text and call.name in _CONTAINERS and _HOST.search(text):
        run.note("docker-host", "a description of containers that gives one the rights of this machine")
    if text and REMOTE in text:
        run.note("remote-code", f"{call.name} runs what comes from the network")
