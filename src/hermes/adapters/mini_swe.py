"""An environment of mini-swe-agent: ``environment_class: hermes.adapters.mini_swe.HermesEnvironment``."""

from __future__ import annotations

import weakref
from typing import Any

from minisweagent.environments.local import LocalEnvironment
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel, Field

from hermes.errors import CommandError, HermesError, Refused
from hermes.sync import Sandbox

from . import told

__all__ = ["HermesEnvironment", "HermesEnvironmentConfig"]

KEPT = 4 << 20  # bytes of output; the agent's own templates say what its model sees of it
NAMES = ("system", "node", "release", "version", "machine")


class HermesEnvironmentConfig(BaseModel):
    """What the section ``environment`` may say.

    ``sandbox`` is a backend's name, None for the configured one; ``options`` go to :class:`hermes.Sandbox`:
    ``image``, ``workspace``, ``name``, ``approval`` and so on.
    """

    sandbox: str | None = None
    cwd: str = ""
    env: dict[str, str] = Field(default_factory=dict)
    timeout: int = 30
    options: dict[str, Any] = Field(default_factory=dict)


class HermesEnvironment(LocalEnvironment):
    """Runs the agent's commands in a sandbox, each in a shell of its own, as the agent tells its model."""

    def __init__(self, *, config_class: type = HermesEnvironmentConfig, **kwargs: Any) -> None:
        super().__init__(config_class=config_class, **kwargs)
        box = Sandbox(**told(backend=self.config.sandbox, env=self.config.env, **self.config.options))
        self._box = box.open()
        # The agent never says that it is done. When the program ends it is too late: threads went first.
        self._leave = weakref.finalize(self, box.__exit__)
        self._leave.atexit = False
        told_by = self._box.exec("uname -s; uname -n; uname -r; uname -v; uname -m")
        self._machine = dict(zip(NAMES, told_by.text.splitlines(), strict=False))

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run a command and return what the agent shows its model.

        :raises HermesError: the place does not work, which ends the agent's run
        """
        try:
            result = self._box.exec(
                action.get("command", ""),
                cwd=cwd or self.config.cwd or None,
                timeout=timeout or self.config.timeout,
                merge_stderr=True,
                max_output=KEPT,
            )
        except (Refused, CommandError) as error:
            return _failed("", error)
        if result.timed_out:
            limit = timeout or self.config.timeout
            return _failed(result.text, TimeoutError(f"the command was ended after {limit} s"))
        output = {"output": result.text, "returncode": result.exit_code, "exception_info": ""}
        self._check_finished(output)
        return output

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        variables: dict[str, Any] = recursive_merge(
            self.config.model_dump(), self._machine, {"cwd": self.config.cwd or self._box.cwd}, kwargs
        )
        return variables

    def cleanup(self) -> None:
        """Leave the sandbox, as happens by itself when nobody has the environment any more."""
        self._leave()


def _failed(output: str, error: Exception) -> dict[str, Any]:
    kind = error.code if isinstance(error, HermesError) else type(error).__name__
    return {
        "output": output,
        "returncode": -1,
        "exception_info": f"An error occurred while executing the command: {error}",
        "extra": {"exception_type": kind, "exception": str(error)},
    }
