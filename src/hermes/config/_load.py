"""Reading and checking the configuration, layer upon layer."""

from __future__ import annotations

import copy
import functools
import os
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from hermes._lazy import Lazy
from hermes.errors import ConfigError

from . import _project
from ._schema import NOT_SETTINGS, Config
from ._source import Source, keep_good, read_yaml, remember, type_name
from ._units import home, parse_duration, parse_size

ENVIRONMENT = {
    "HERMES_SANDBOX": "sandbox",
    "HERMES_WORKSPACE": "workspace",
    "HERMES_TIMEOUT": "timeout",
    "HERMES_NETWORK": "network",
    "HERMES_DOCKER_IMAGE": "docker.image",
    "HERMES_DOCKER_PROGRAM": "docker.program",
    "HERMES_SINGULARITY_IMAGE": "singularity.image",
    "HERMES_APPROVALS": "approvals.mode",
    "HERMES_OUTPUT_LIMIT": "output.limit",
    "HERMES_LOCAL_PYTHON": "local.python",
    "HERMES_MODEL": "model.name",
    "HERMES_MODEL_URL": "model.base_url",
    "DAYTONA_API_URL": "daytona.api_url",
    "DAYTONA_ORGANIZATION_ID": "daytona.organization",
    "DAYTONA_TARGET": "daytona.target",
    "HERMES_VERCEL_API_URL": "vercel.api_url",
    "TERMINAL_SSH_HOST": "ssh.host",
    "TERMINAL_SSH_USER": "ssh.user",
    "TERMINAL_SSH_PORT": "ssh.port",
    "TERMINAL_SSH_KEY": "ssh.key",
    "VERCEL_TEAM_ID": "vercel.team",
    "VERCEL_PROJECT_ID": "vercel.project",
}
"""Environment variable to configuration key. An empty variable counts as unset."""

_FOREIGN = """
    _config_version agent attachments auxiliary bedrock browser checkpoints code_execution command_allowlist
    compression context cron custom_providers dashboard database delegation discord display
    fallback_model fallback_providers file_read_max_chars gateway goals group_sessions_per_user honcho hooks
    human_delay kanban logging lsp matrix mcp_servers memory model model_aliases model_catalog network_proxy
    onboarding openrouter paste_collapse_threshold personalities platform_toolsets platforms plugins
    prefill_messages_file privacy prompt_caching providers quick_commands runtime secrets security
    session_reset sessions signal skills slack smart_model_routing streaming stt telegram terminal timezone
    tool_loop_guardrails tool_output tools toolsets tts unauthorized_dm_behavior updates voice web whatsapp
"""
FOREIGN = frozenset(_FOREIGN.split())
"""Top-level keys of hermes-agent, which keeps its settings in a file of the same name."""

FOREIGN_APPROVALS = frozenset(
    ("cron_mode", "destructive_slash_confirm", "mcp_reload_confirm", "single_query_mode", "unattended_mode")
)
"""What hermes-agent keeps in ``approvals``, a section of both."""

FOREIGN_MODES = {"manual": "ask", "smart": "ask"}
"""Its words for ``approvals.mode``. Where a model may answer there, a person is asked here."""

FOREIGN_MODEL = frozenset(
    ("api_mode", "aliases", "context_length", "default", "max_context_length", "openai_runtime", "provider")
)
"""What hermes-agent keeps in ``model``, a section of both; there it may also be no more than a name."""

T = TypeVar("T", bound=msgspec.Struct)
Where = Callable[[tuple[str, ...]], str]


class Layer(NamedTuple):
    """What one source says, checked, and the source of each key in words."""

    values: dict[str, Any]
    where: Where


class Sources(NamedTuple):
    """Everything that the configuration is made of: *layers* from the weakest to the strongest.

    ``foreign`` are keys of config.yaml that are another program's; ``untrusted`` those of the project file
    that count only when its user trusts it.
    """

    layers: list[Layer]
    foreign: tuple[str, ...]
    untrusted: tuple[str, ...]

    def merged(self) -> dict[str, Any]:
        """Return what they say together, without what has its default."""
        merged: dict[str, Any] = {}
        for layer in self.layers:
            _outrank(merged, layer.values)
            _merge(merged, copy.deepcopy(layer.values))
        return merged

    def settled(self) -> Config:
        """Return what comes of them."""
        config = msgspec.convert(self.merged(), Config)
        return msgspec.structs.replace(config, foreign=self.foreign, untrusted=self.untrusted)

    def origin(self, key: str) -> str:
        """Return which source decides about a key: words such as ``config.yaml:3``, or ``default``."""
        at = tuple(key.split("."))
        for layer in reversed(self.layers):
            found: Any = layer.values
            for part in at:
                found = found.get(part, _NOTHING) if isinstance(found, Mapping) else _NOTHING
            others = [one for one in IMAGE_FROM if at[:-1] == ("docker",) and at[-1] in IMAGE_FROM]
            instead = [one for one in others if (layer.values.get("docker") or {}).get(one)]
            instead = (
                instead if any(at[-1] in (one.values.get("docker") or {}) for one in self.layers) else []
            )
            if found is not _NOTHING or instead:
                words: str = layer.where(at if found is not _NOTHING else ("docker", instead[0]))
                return words
        return "default"


_NOTHING = object()
IMAGE_FROM = ("image", "dockerfile", "devcontainer")
"""The settings of docker of which there can be one: the strongest layer that has one decides."""
_HALF = Lazy("[\ud800-\udc7f\udd00-\udfff]")


def load(overrides: Mapping[str, Any] | None = None) -> Config:
    """Return the configuration: overrides over the environment over the project file over config.yaml.

    :param overrides: nested, or with dotted keys such as ``output.limit``; values as in the file
    :raises ConfigError: a key that does not exist, a value that cannot be, or a file that cannot be read
    """
    return sources(overrides).settled()


def sources(overrides: Mapping[str, Any] | None = None, file: Source | None = None) -> Sources:
    """Return what :func:`load` makes the configuration of. Raises as it does.

    :param file: of a caller's own, which counts over all but the overrides
    """
    source = read_yaml(home() / "config.yaml")
    data, foreign = own(source.data)
    variables = {name: os.environ[name] for name in ENVIRONMENT if os.environ.get(name)}
    by_key = {ENVIRONMENT[name]: name for name in variables}

    def in_environment(at: tuple[str, ...]) -> str:
        return f"environment variable {by_key.get('.'.join(at), '')}".strip()

    def in_overrides(at: tuple[str, ...]) -> str:
        return f"option {'.'.join(at)}"

    layers = [Layer(_section(data, Config, (), source.where), source.where)]
    if source.new is not None:
        remember(source)
        if not senseless(layers[0].values, source.where):
            keep_good(source)
    untrusted: tuple[str, ...] = ()
    project = _project.find()
    if project is not None:
        found = _project.read(project)
        said = _section(found.data, Config, (), found.where)
        allowed, untrusted = _project.allowed(project, said, Sources(layers, (), ()).settled())
        layers.append(Layer(allowed, found.where))
    for flat, where in (
        ({ENVIRONMENT[name]: _number(value) for name, value in variables.items()}, in_environment),
        *([(file.data, file.where)] if file is not None else []),
        (overrides or {}, in_overrides),
    ):
        layers.append(Layer(_section(_nested(flat), Config, (), where), where))
    return Sources(layers, foreign, untrusted)


def own(data: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what config.yaml says without what is hermes-agent's, and the names of that."""
    foreign = tuple(key for key, value in data.items() if _is_foreign(key, value))
    ours = {key: value for key, value in data.items() if key not in foreign}
    if isinstance(ours.get("approvals"), Mapping):
        ours["approvals"], theirs = _own_approvals(ours["approvals"])
        foreign += theirs
    if isinstance(ours.get("model"), Mapping):
        theirs = tuple(f"model.{key}" for key in ours["model"] if key in FOREIGN_MODEL)
        ours["model"] = {key: value for key, value in ours["model"].items() if key not in FOREIGN_MODEL}
        foreign += theirs
    return ours, foreign


def problems(data: Mapping[str, Any], where: Where) -> list[ConfigError]:
    """Return everything that is wrong with what a file says, not only the first: what cannot be read as

    settings, then what would be refused when a sandbox is opened.
    """
    rest, found = understood(data, where)
    return found + senseless(rest, where)


def senseless(values: dict[str, Any], where: Where) -> list[ConfigError]:
    """Return what would be refused of settings that are of the right type when a sandbox is opened."""
    from hermes.sense import wrong  # which asks all that comes above this package, and only for new texts

    found = wrong(values)
    for error in found:
        error.message = f"{where(tuple(error.context['key'].split('.')))}: {error.message}"
    return found


def understood(data: Mapping[str, Any], where: Where) -> tuple[dict[str, Any], list[ConfigError]]:
    """Return what a file says that can be read as settings, and what is wrong with the rest."""
    rest, _ = own(_copied(data))
    found: list[ConfigError] = []
    while len(found) < 100:
        try:
            return _section(rest, Config, (), where), found
        except ConfigError as error:
            found.append(error)
            *sections, last = error.context["at"]
            target = rest
            for part in sections:
                target = target[part]
            del target[last]
    return {}, found


def _copied(data: Any) -> Any:
    return {key: _copied(value) for key, value in data.items()} if isinstance(data, Mapping) else data


def _number(text: str) -> str | int:
    # All that the environment has is text. A number where text is wanted becomes text again.
    return int(text) if text.isdecimal() and text.isascii() and str(int(text)) == text else text


def section(settled: T, options: Mapping[str, Any], where: str) -> T:
    """Return a section with some of its values replaced by options, checked like those of the file.

    :raises ConfigError: an option that the section does not have, or a value that cannot be
    """
    checked = _section(options, type(settled), (), lambda _: where)
    return msgspec.convert({**msgspec.to_builtins(settled), **checked}, type(settled))


def _is_foreign(key: str, value: Any) -> bool:
    """Return whether a key is hermes-agent's. Where we have one of that name too, theirs is a section."""
    ours = _hints(Config).get(key)
    if ours is None:
        return key in FOREIGN
    if key == "model":  # with our name in it, it is ours
        return isinstance(value, str) or (
            isinstance(value, Mapping) and "name" not in value and not FOREIGN_MODEL.isdisjoint(value)
        )
    is_section = isinstance(ours, type) and issubclass(ours, msgspec.Struct)
    return key in FOREIGN and not is_section and isinstance(value, Mapping)


def _own_approvals(found: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the section without what is hermes-agent's, and the names of that."""
    theirs = [key for key in found if key in FOREIGN_APPROVALS]
    ours = {key: value for key, value in found.items() if key not in theirs}
    mode = ours.get("mode")
    if isinstance(mode, str) and mode in FOREIGN_MODES:
        ours["mode"] = FOREIGN_MODES[mode]
        theirs.append("mode")
    return ours, tuple(f"approvals.{key}" for key in theirs)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *sections, last = str(key).split(".")
        target = result
        for section in sections:
            inner = target.setdefault(section, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"option {key}: '{section}' was also given as a plain value")
            target = inner
        if isinstance(value, Mapping) and isinstance(target.get(last), dict):
            _merge(target[last], dict(value))
        else:
            target[last] = dict(value) if isinstance(value, Mapping) else value
    return result


def _merge(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value


def _outrank(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Take out what of several settings for one thing a weaker layer has, where this one has another."""
    given = over.get("docker")
    if isinstance(given, Mapping) and any(given.get(key) for key in IMAGE_FROM):
        for key in IMAGE_FROM:
            base.get("docker", {}).pop(key, None)


@functools.cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {k: v for k, v in get_type_hints(kind, include_extras=True).items() if k not in NOT_SETTINGS}


def _section(
    data: Mapping[str, Any], kind: type[msgspec.Struct], at: tuple[str, ...], where: Where
) -> dict[str, Any]:
    """Check one section against its struct, and return it with every value as the struct wants it."""
    hints = _hints(kind)
    result: dict[str, Any] = {}
    for key, value in data.items():
        here = (*at, key)
        if key not in hints:
            raise _unknown(here, [".".join((*at, name)) for name in hints], where(here))
        wanted = hints[key]
        if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            # A section whose lines are all commented out reads as nothing.
            if value is not None and not isinstance(value, Mapping):
                raise _wrong(here, f"expected a section, found {type_name(value)}", where(here))
            result[key] = _section(value or {}, wanted, here, where)
        elif (each := _each(wanted)) is not None:
            result[key] = _named_sections(value, each, here, where)
        else:
            result[key] = _value(value, wanted, here, where)
    return result


def _each(wanted: Any) -> type[msgspec.Struct] | None:
    """Return the struct of the sections under names of the user's choice, None where there are none."""
    extras = (m.extra for m in get_args(wanted)[1:] if isinstance(m, msgspec.Meta))
    return next((extra["each"] for extra in extras if extra and "each" in extra), None)


def _named_sections(
    data: Any, each: type[msgspec.Struct], at: tuple[str, ...], where: Where
) -> dict[str, dict[str, Any]]:
    def mapping(value: Any, here: tuple[str, ...]) -> Mapping[str, Any]:
        if value is not None and not isinstance(value, Mapping):
            raise _wrong(here, f"expected a section, found {type_name(value)}", where(here))
        return value or {}

    for name in mapping(data, at):
        if why := _unusable(name):
            raise _wrong((*at, name), f"the name {why}, with which nothing can be done", where((*at, name)))
    return {
        name: _section(mapping(part, (*at, name)), each, (*at, name), where)
        for name, part in mapping(data, at).items()
    }


def _unusable(value: Any) -> str:
    """Return what is in a text that neither paths nor programs take, empty when nothing is."""
    if isinstance(value, str):
        if "\0" in value:
            return "holds a NUL character"
        # Those from DC80 to DCFF stand for bytes of a name that is not UTF-8.
        return "holds half of a surrogate pair" if _HALF.search(value) else ""
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    return next(filter(None, map(_unusable, value)), "") if isinstance(value, list | tuple) else ""


def _value(value: Any, wanted: Any, at: tuple[str, ...], where: Where) -> Any:
    if why := _unusable(value):
        raise _wrong(at, f"the text {why}, with which nothing can be done", where(at))
    options = get_args(wanted) if get_origin(wanted) in (Union, types.UnionType) else (wanted,)
    if value is None and type(None) in options:
        return None
    main = next(option for option in options if option is not type(None))
    title = None
    if get_origin(main) is Annotated:
        title = next((m.title for m in get_args(main)[1:] if isinstance(m, msgspec.Meta)), None)
    number = title in ("duration", "size")
    if number and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        if type(None) in options and str(value).strip().lower() in ("none", "null"):
            return None
        try:
            value = parse_duration(value) if title == "duration" else parse_size(value)
        except (ValueError, OverflowError) as error:
            raise _wrong(at, str(error), where(at)) from None
        if value == 0 and type(None) in options:
            raise _wrong(at, "must be more than 0; 'none' stands for no limit", where(at))
    if (main is str or title == "image") and type(value) is int:
        value = str(value)  # a user's number, say
    try:
        return msgspec.convert(value, main)
    except msgspec.ValidationError:
        wrong = _wrong(at, f"expected {_expected(main, title)}, found {_found(value, main)}", where(at))
        wrong.hint = _as_list(value, main)
        raise wrong from None


def _as_list(value: Any, wanted: Any) -> str | None:
    """Return how one value is written where a list of them is wanted."""
    if get_origin(wanted) is not tuple or not isinstance(value, str):
        return None
    kind = _several(get_args(wanted)[0])
    shown = value if len(value) <= 20 else "..."
    if kind == "texts":
        return f"A list of one is written [{shown}]."
    return (
        "A list is written [{name: value}], or below each other with a dash before each."
        if (kind == "sections")
        else None
    )


def _found(value: Any, wanted: Any) -> str:
    """Return what a value is, and of a list which of its items is the wrong one."""
    if isinstance(value, list) and get_origin(wanted) is tuple:
        for one in value:
            try:
                msgspec.convert(one, get_args(wanted)[0])
            except msgspec.ValidationError:
                return f"a list with {_shown(one)} in it"
    return _shown(value)


def _expected(wanted: Any, title: str | None) -> str:
    if title == "duration":
        return "a duration such as 30s or 10m"
    if title == "size":
        return "a size such as 64k or 1g"
    if title == "image":
        return "the name of an image such as debian:13-slim"
    if get_origin(wanted) is tuple:
        return f"a list of {_several(get_args(wanted)[0])}"
    if get_origin(wanted) is Annotated:
        return _expected(get_args(wanted)[0], None) + _bounds(get_args(wanted)[1:])
    if get_origin(wanted) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(wanted))
    return {str: "text", int: "a whole number", float: "a number", bool: "true or false"}.get(
        wanted, str(wanted)
    )


def _several(wanted: Any) -> str:
    if get_origin(wanted) is Annotated:
        return _several(get_args(wanted)[0]) + _bounds(get_args(wanted)[1:])
    return {str: "texts", int: "whole numbers", float: "numbers"}.get(wanted, "sections")


def _bounds(metas: tuple[Any, ...]) -> str:
    said = ""
    for meta in metas:
        if isinstance(meta, msgspec.Meta):
            said += f" above {meta.gt:g}" if meta.gt is not None else ""
            said += f" of at most {meta.le:g}" if meta.le is not None else ""
    return said


def _shown(value: Any) -> str:
    # A value is shown only when it is short: a long one is likely in the wrong place, and may be a secret.
    if isinstance(value, (str, int, float)) and not isinstance(value, bool) and len(str(value)) <= 20:
        return f"'{value}'"
    return type_name(value)


def _unknown(at: tuple[str, ...], known: list[str], where: str) -> ConfigError:
    import difflib

    key = ".".join(at)
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f"Did you mean '{near[0]}'?" if near else "Known here: " + ", ".join(sorted(known))
    context = {"key": key, "where": where, "at": list(at)}
    return ConfigError(f"{where}: unknown key '{key}'", hint=hint, context=context)


def _wrong(at: tuple[str, ...], what: str, where: str) -> ConfigError:
    key = ".".join(at)
    named = where if where.endswith(f" {key}") else f"{where}: {key}"
    return ConfigError(f"{named}: {what}", context={"key": key, "where": where, "at": list(at)})
