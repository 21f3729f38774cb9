"""The place in force, in words for a model, so that it never has to guess."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes._json import plain

from ._result import LEAST, shown

if TYPE_CHECKING:
    from hermes.sandbox import Sandbox

__all__ = ["place_line", "place_text"]

_ISOLATION = {
    "none": "no isolation at all: commands run on the user's own machine, as the user, in the user's files",
    "container": "a container: nothing of the user's machine but what is mounted",
    "vm": "a virtual machine of its own",
    "remote": "another machine, with the files and rights of the user there",
}
_NETWORK = {
    "on": "on",
    "off": "off: nothing can be reached",
    "internal": "internal only: nothing outside can be reached",
    "host": "that of the machine itself",
}

_LISTS = ("domains", "allow_domains", "allow_networks", "modal.allow_domains", "modal.allow_cidrs")


def place_text(box: Sandbox, cwd: str | None = None) -> str:
    """Return what an open sandbox is: kind, directory, network, what is kept and asked, limits.

    :param cwd: the directory of the default session, where that is known
    """
    facts, gate = box.describe(), box._gate
    host = f" ({box._options['host']})" if box._options.get("host") else ""
    lines = [
        f"Place: {box.backend}{host}, sandbox '{box.name}'; "
        f"{_ISOLATION.get(facts['isolation'], facts['isolation'])}.",
        f"Directory: sessions and relative paths begin in {plain(box.cwd)}."
        + (f" The default session is in {plain(cwd)} now." if cwd not in (None, box.cwd) else ""),
        f"Network: {_network(box)}.",
        f"Kept: {_kept(box)}",
    ]
    lines += [f"Attention: {why}." for why in facts["reaches_host"]]
    if gate is None or gate.scope == "rules":
        lines.append("Approval: nothing is asked; the place is the boundary.")
    elif gate.mode == "off":
        lines.append("Approval: off; only what destroys the machine is blocked.")
    else:
        lines.append(
            "Approval: a person is asked about what cannot be undone or is not known. A refusal is final: "
            "take another way, or tell the user; do not try the same again."
        )
    config, general = box._config.tool_use, box._timeout
    seconds = config.timeout if general is None else general
    limit = "none" if seconds is None else f"{seconds:.15g} s"
    lines.append(f"Limits: a command without a timeout of its own has {limit}; "
                 f"a result has {max(LEAST, config.max_output)} bytes at the most.")  # fmt: skip
    return "\n".join(lines)


_SHORT = {
    "none": "NOT isolated",
    "remote": "another machine",
}


def place_line(box: Sandbox, cwd: str | None = None) -> str:
    """Return the same in one line, for the person: what isolates it, the directory, network, what is kept.

    :param cwd: the directory of the default session, where that is known
    """
    facts, gate = box.describe(), box._gate
    host = f":{box._options['host']}" if box._options.get("host") else ""
    kind = _SHORT.get(facts["isolation"], facts["isolation"]) + ("!" if facts["reaches_host"] else "")
    kept = "files are yours" if box.backend == "local" else "files stay" if box.named else "nothing stays"
    asks = "asks" if gate is not None and gate.scope == "all" and gate.mode != "off" else "asks nothing"
    return " | ".join(
        (
            f"{box.backend}{host} ({kind})",
            f"network {_kind_of_network(box)[0]}",
            kept,
            asks,
            shown(cwd or box.cwd),
        )
    )


def _network(box: Sandbox) -> str:
    """Return what can be reached, in words."""
    made, listed = _kind_of_network(box)
    only = f"; only {', '.join(map(str, listed))} can be reached" if listed and made == "on" else ""
    return _NETWORK.get(made, made) + only


def _kind_of_network(box: Sandbox) -> tuple[str, list[Any]]:
    """Return the network of the place as it was really made, and a list of what alone it reaches."""
    record, wanted = box._record, box._the_place().spec.network
    known: list[dict[str, Any]] = [record.locator, record.settings] if record is not None else []
    made = next((one["network"] for one in known if isinstance(one.get("network"), str)), wanted)
    if made is None:
        outside = box.describe()["isolation"] in ("none", "remote") or box.backend == "singularity"
        made = "host" if outside else "on"
    return made, [name for one in known for key in _LISTS for name in one.get(key) or ()]


def _kept(box: Sandbox) -> str:
    spec = box._the_place().spec
    if box.backend == "local":
        return "files are the user's own, and stay."
    if not box.named:
        return "nothing: files and processes end with this conversation."
    if spec.persistent or box.describe()["persistent"]:
        return "files stay, also when the place is stopped; background jobs end with it."
    return "files and background jobs stay as long as the sandbox is there; they are lost when it ends."
