"""The contract between hermes and a place where commands run.

A backend says what it can do, brings a place up, gives a duplex byte stream to a process inside it, and takes
it down. It knows nothing of shells, approval, files or output limits: all of that is written once, above it.

Rules that hold for every method:

* **No other place.** A method that cannot do its work raises. It never falls back to another backend, another
  host, another image or a weaker isolation, and never drops a limit, a mount or a network rule it was given.
* **Nothing runs twice.** A method never repeats a step whose outcome it does not know. Asking again whether
  something exists is fine; starting it again is not.
* **Told apart.** A place that is gone (``SandboxGone``), a link that is lost (``Unreachable``), a place that
  could not be brought up (``BackendError``) and a wish it cannot fulfil (``UnsupportedError``) are never
  reported as one another. What a method does not say it raises must not come out of it: failures of a client
  program, of the operating system and of an SDK are translated, with the original as ``__cause__``.
* **Cancellation.** Every async method may be cancelled at any await. It then leaves what it would have left
  by failing, lets ``CancelledError`` out, and does not take longer than its clean-up needs.
* **The event loop is never blocked.** File I/O, DNS look-ups and blocking SDK calls go to a thread.
* **Secrets** never appear in an argv, a label, a locator, a log line or an error text.
* **The inside is hostile.** Nothing read from inside the place is used on this machine as a path, a command
  or a size without a check. A wrapper put before the user's command is called by absolute path, since the
  image's ``PATH`` is not to be trusted.

One instance serves one sandbox and is used from one event loop. Its methods may run concurrently, apart from
``create``, ``destroy``, ``suspend`` and ``resume``, which the caller keeps apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import msgspec

from hermes.config import Config, Lifetime
from hermes.errors import HermesError, UnsupportedError

if TYPE_CHECKING:
    from hermes.state import Store
    from hermes.usage import Size

__all__ = [
    "Backend",
    "ByteChannel",
    "Capabilities",
    "Encoding",
    "GuestDirs",
    "Isolation",
    "Measure",
    "Network",
    "PlaceState",
    "Shown",
    "Spec",
    "Stray",
]

Isolation = Literal["none", "container", "vm", "remote"]
Network = Literal["on", "off", "internal", "host"]
WorkspaceKind = Literal["private", "here", "path"]
Encoding = Literal["binary", "text"]
Measure = Callable[[int, "int | None", Literal["bytes", "steps"]], None]
PlaceState = Literal["running", "stopped", "gone", "starting"]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a place can do. A fact that is not known to be true is stated as absent.

    ``isolation``
        What stands between a command and this machine: nothing, a container, a virtual machine, or the
        fact that it runs elsewhere.
    ``persistent``
        Files survive the place's own stop.
    ``suspend``, ``snapshot``
        The methods of that name work.
    ``network_off``
        ``network: off`` is enforced.
    ``limits``
        The limits that are enforced here, out of ``cpus``, ``memory``, ``pids`` and ``disk``.
    ``workspace``
        The kinds of workspace it can offer.
    ``copies``
        A workspace that is a directory of this machine is copied in by the caller, not mounted. ``create``
        then makes an empty directory for every kind of workspace, and :meth:`Backend.workspace` names it.
    ``shared_kernel``
        A unix socket bound inside can be connected to from this machine, so ``direct_channel`` may work.
    ``judged``
        Approval applies, because a command here can harm what lies outside the sandbox.
    ``reaches_host``
        Why this is no sandbox although its kind is one: one sentence for each wish that lets the host be
        reached. ``judged`` is then set.
    ``verified``
        How this backend's behaviour was proved: against the real thing, an emulator, or not at all.
    ``shares_network``
        Whether its network is that of the machine that it is on, so that what listens on that machine's
        loopback alone, and the metadata address of a cloud, are reached from inside.
    ``exceptions``
        What of the common behaviour this place cannot do: name of the case to the reason.
    """

    isolation: Isolation
    persistent: bool = False
    suspend: bool = False
    snapshot: bool = False
    network_off: bool = False
    limits: frozenset[str] = frozenset()
    workspace: frozenset[WorkspaceKind] = frozenset()
    copies: bool = False
    shared_kernel: bool = False
    judged: bool = False
    reaches_host: tuple[str, ...] = ()
    verified: Literal["real", "emulator", "unverified"] = "unverified"
    shares_network: bool = False
    exceptions: Mapping[str, str] = msgspec.field(default_factory=dict)


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for. A backend reads it and never changes it.

    ``name``, ``id``, ``named``
        The name by which the user finds the sandbox; 8 to 32 hex digits that no other sandbox has, fit for
        labels, container names and directories; whether the user chose the name, so that it outlives the
        client.
    ``workspace``, ``here``
        ``private``, ``here``, an absolute path on this machine, or None for the backend's own default;
        ``here`` is the directory that the word stands for.
    ``network``
        None for the backend's own default.
    ``limits``
        ``cpus`` (cores), ``memory`` and ``disk`` (bytes), ``pids`` (count).
    ``env``
        Variables to set in every session. May hold secrets, so never goes into an argv.
    ``persistent``
        Files must survive a stop of the place.
    ``keep``
        Nothing may stop or remove the place but the user.
    ``options``
        The backend's own options, unchecked: the backend refuses the ones it does not know.
    """

    name: str
    id: str
    named: bool = False
    workspace: str | None = None
    here: str | None = None
    network: Network | None = None
    limits: Mapping[str, float] = msgspec.field(default_factory=dict)
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    image: str | None = None
    persistent: bool = False
    keep: bool = False
    lifetime: Lifetime = msgspec.field(default_factory=Lifetime)
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Shown(NamedTuple):
    """A directory of this machine (``here``) that a place shows to commands, read-only, as ``inside``."""

    here: str
    inside: str


class GuestDirs(NamedTuple):
    """Directories inside the place, as absolute paths there. The guest creates them with mode 0700.

    ``run_dir`` holds the guest's socket and should be short and on a file system that knows sockets;
    ``state_dir`` holds spill files, which may grow to the quota, and should not be in memory.
    """

    run_dir: str
    state_dir: str


class ByteChannel(Protocol):
    """One duplex, ordered, reliable stream of bytes to a process inside the place.

    It carries frames and does not look into them. It is started once and used once.
    """

    @property
    def encoding(self) -> Encoding:
        """``binary`` when every byte value passes unchanged in both directions, otherwise ``text``.

        A ``text`` channel passes printable ASCII, 0x1e and newline in lines of up to 60 KB.
        """

    async def start(self, on_data: Callable[[bytes], None], on_close: Callable[[str | None], None]) -> None:
        """Connect, and begin to deliver.

        ``on_data`` gets each piece as it arrives, in order, on the event loop. ``on_close`` is called exactly
        once, after the last ``on_data``: with None when this end closed, otherwise with a sentence that says
        what happened, including a client program's last words. After a start that raised, neither is called.

        :raises BackendError: the client program cannot be started, or the far end cannot be trusted
        :raises SandboxGone: there is nothing to connect to
        :raises Unreachable: the transport says that the link is down
        """

    def write(self, data: bytes) -> None:
        """Queue bytes for sending, without waiting. On a closed channel it does nothing: ``on_close`` told.

        Never raises for the state of the far end.
        """

    async def drain(self) -> None:
        """Wait until what is queued is small again. Returns at once on a closed channel."""

    async def close(self) -> None:
        """Close, and release every process, descriptor and thread of this channel.

        May be called at any time and more than once. Bounded in time whatever the far end does, and whatever
        cancels it. What runs inside the place is not stopped: the guest outlives its clients.
        """


class Stray(NamedTuple):
    """A sandbox that only its provider knows. ``id`` is the one that its record had, ``created`` an epoch."""

    name: str
    id: str
    created: float


class Backend(ABC):
    """One sandbox in one kind of place.

    Making an instance does no I/O and cannot fail for the state of the machine. A place is then either
    brought up with ``create`` or looked up with ``find``; the methods below these two need one of them to
    have succeeded.
    """

    name: ClassVar[str]
    """The backend's name as users write it."""

    distant: ClassVar[bool] = False
    """Whether packets to it take so long that short messages are better compressed."""

    swept: ClassVar[bool] = True
    """Whether :meth:`prune` is cheap enough to be called now and then, when a sandbox is made."""

    snapshot_ends: ClassVar[bool] = False
    """Whether :meth:`snapshot` ends all that runs in the place, which runs again when it returns."""

    rouses: ClassVar[bool] = False
    """Whether connecting lets a guest go on that a command stopped: then a short silence is reason to."""

    paid: ClassVar[bool] = False
    """Whether each second costs money while it is there: a single command does not leave one behind then."""

    encoding: Encoding = "binary"
    """What the streams of ``exec_channel`` carry; see :attr:`ByteChannel.encoding`."""

    def __init__(self, spec: Spec, config: Config) -> None:
        """Make the backend of one sandbox.

        Its ``progress`` may be replaced: it gets a line for people about what takes long, such as a pull.
        So may its ``measure``, by what somebody watches: it gets how far that is, and of how much where
        that is known, in ``bytes`` or ``steps``.
        """
        self.spec = spec
        self.config = config
        self.progress: Callable[[str], None] = lambda line: None
        self.measure: Measure | None = None

    @classmethod
    @abstractmethod
    async def check(cls, config: Config) -> None:
        """Find out whether this backend can work on this machine, without bringing anything up.

        Says what is missing by name (a program, a daemon, a login, a kernel feature) and what to do about it.
        Takes at most a few seconds: an endpoint that does not answer counts as missing.

        :raises BackendError: code ``backend_unavailable``; it does not work here
        """

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this place can do, given its spec and the configuration.

        Must not do I/O. What is only known once the place is up may be refined after ``create`` or ``find``,
        but only towards less.
        """

    def check_spec(self) -> None:
        """Refuse what this place cannot honour, before anything is started. Called before ``create``.

        A backend with wishes of its own (options, images) extends this and calls the inherited one.

        :raises UnsupportedError: a limit, a network rule, a workspace or persistence that it cannot enforce
        :raises ConfigError: an option that the backend does not know
        """
        can, spec = self.capabilities, self.spec
        for limit in spec.limits:
            if limit not in can.limits:
                known = ", ".join(sorted(can.limits)) or "none"
                raise self._unsupported(f"the limit '{limit}'", f"limits it enforces here: {known}")
        if spec.network in ("off", "internal") and not can.network_off:
            raise self._unsupported(
                f"network: {spec.network}", "choose a backend that can, or leave the network on"
            )
        if spec.persistent and not can.persistent:
            raise self._unsupported("persistent: true", "files here do not survive the place's stop")
        if spec.workspace is not None:
            kind = spec.workspace if spec.workspace in ("private", "here") else "path"
            if kind not in can.workspace:
                known = ", ".join(sorted(can.workspace)) or "none"
                raise self._unsupported(f"workspace: {spec.workspace}", f"kinds it offers: {known}")
        if self.config.skills == "shared" and can.copies:
            raise self._unsupported("skills: shared", "files here can only be copied: --set skills=copy")
        self.copied()

    def copied(self) -> str | None:
        """Return the directory of this machine that is copied in as the workspace, None when none is. Blocks.

        :raises ConfigError: there is no such directory, or it would give away this machine
        """
        if not self.capabilities.copies or self.spec.workspace in (None, "private"):
            return None
        from ._workspace import checked_workspace

        return checked_workspace(str(self.spec.workspace), self.spec.here)

    def settings(self) -> dict[str, Any]:
        """Return what a place of this spec is made with, and cannot change later: image, mounts, limits.

        Plain values under names that a user knows, and no secrets. A place that was made with other values is
        not used for this spec: the caller refuses, or makes it anew.

        :raises ConfigError: as :meth:`check_spec`
        """
        return {}

    async def prepare(self, *, renew: bool = False) -> str:
        """Get what a first ``create`` would have to wait for, such as an image, and say what is ready.

        :param renew: get it again although it is there
        :raises BackendError: it cannot be had
        """
        return "ready; nothing has to be prepared"

    async def pin(self) -> dict[str, Any]:
        """Return the settings that name exactly what :meth:`prepare` got, where the present ones do not.

        They are written to the configuration, so that what runs here stays what was proved to work.
        """
        return {}

    async def examine(self) -> list[str]:
        """Return what ``hermes doctor`` says of a place that works, one line each. Starts nothing.

        :raises BackendError: something is missing after all
        """
        return []

    @abstractmethod
    async def create(self) -> dict[str, Any]:
        """Bring up the place that the spec describes, and return its locator.

        The locator is a small JSON object with which ``find`` recognises this very place from another
        process, later. The place carries a label (or its equivalent) with the spec's id, so that ``prune``
        can find it even when the locator was never written down; and whatever must end it without a client
        (idle stop, lifetime) is set here.

        Returns when a process can be started inside. Must not take over a place that exists already: with the
        id in its name, one that does is an error. On failure or cancellation nothing is left: no container,
        directory, mount, process or billed resource. What could not be removed is named in the error's
        context.

        :raises BackendError: the place could not be brought up; says which step failed and what it printed
        :raises UnsupportedError: only known now: something asked for cannot be enforced; nothing was started
        :raises Unreachable: the machine or service that should hold the place does not answer
        """

    @abstractmethod
    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        """Look for the place that ``create`` returned this locator for.

        ``running``: a process can be started inside, and this instance now stands for it. ``stopped``: it is
        there, and ``resume`` may start it. ``gone``: it is not there any more. Never starts, wakes, creates
        or repairs anything, and never takes another place of the same name for it. The locator is remembered
        in any case, for ``resume``, ``diagnose`` and ``destroy``. One that is malformed (written by another
        version) is answered with ``gone``.

        :raises Unreachable: it cannot be told, because the machine or service does not answer. Never ``gone``
            then: the caller would forget a place that lives
        :raises BackendError: it cannot be told, because the client program does not work here any more
        """

    async def look(self, locator: Mapping[str, Any]) -> PlaceState:
        """Do as :meth:`find`, for a list of sandboxes: where that assumes, this goes and looks.

        It alone may answer ``starting``: the place waits, in a queue, say, and would come up by itself.
        """
        return await self.find(locator)

    @abstractmethod
    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        """Prepare a process inside the place with a channel to its stdin and stdout.

        The process starts when the channel does, exactly once. It gets the argv unchanged, whatever
        bytes it holds (a transport that joins arguments into a shell line must quote them), no terminal
        unless the channel is ``text``, the place's default user, and ``/`` or the user's home as its
        directory. What it prints on stderr is never mixed into the channel.

        It may be called many times; the channels are independent of each other. The process may outlive the
        channel, and a closed channel must not kill what the process left behind in sessions of its own.

        :raises SandboxGone: the place does not exist any more. Never for a program that is missing inside
        :raises Unreachable: the link to it is down
        :raises BackendError: the transport's client program does not work
        """

    async def program_channel(self, program: str) -> ByteChannel | None:
        """Do as :meth:`exec_channel` for a Python program of a few kilobytes that reads its stdin. Before
        it starts, there is a line ``HERMES-READY`` and a blank on its stdout.

        For transports which give a process its stdin only after its command has come back, so that what
        follows on stdin comes a round trip late. None where that is not so: the program is then sent there.
        """
        return None

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        """Prepare a channel that connects to the guest's socket in ``run_dir`` with no process in between.

        ``run_dir`` is the path inside, as ``guest_dirs`` gave it; the backend translates it to this machine.
        None when that is not possible here. The directory belongs to the hostile side: a channel must refuse
        one
        with another owner or a wider mode than expected, and connect to the very socket that it checked.

        Must not raise for a guest that is not there: the channel's ``start`` raises ``SandboxGone`` then.
        """
        return None

    async def diagnose(self, reason: str) -> str:
        """Say why the channel broke: out of memory, removed by somebody, machine rebooted, time limit.

        ``reason`` is what ``on_close`` said. Returns one sentence when the place is gone or stopped, and an
        empty string when it is alive or when it cannot be told. Never raises, never starts anything, and
        takes a few seconds at most.
        """
        return ""

    def guest_python(self) -> Sequence[str]:
        """The argv prefix that starts a Python 3.6 or later inside, to which ``-c CODE`` is appended."""
        return ("python3",)

    @property
    def guest_likely(self) -> bool:
        """Whether a guest probably runs in the place, so that its program is only sent when asked for."""
        return False

    def failure(self, channel: ByteChannel) -> HermesError | None:
        """Return what kept a channel of :meth:`exec_channel` from its process, None when nothing is known.

        Asked when the channel ended before anything useful came: a login that was refused, a host that does
        not answer. The error says what to do.
        """
        return None

    @property
    def reconnect_for(self) -> float:
        """Seconds for which a lost link is sought before calls fail, where the client does not say."""
        return 60.0

    @property
    def service(self) -> str | None:
        """The address of the provider's API, or an emulator's, that is used; None where there is none."""
        return None

    @property
    def fleeting(self) -> str:
        """When it ends with its files although nobody asked for that, as a phrase; empty where they stay."""
        return ""

    @property
    def billed(self) -> Size | None:
        """What is paid for by the second while it runs; None where nothing is."""
        return None

    @property
    def stopped_by_client(self) -> bool:
        """Whether a client has to suspend the place after its idle time, since nothing else will."""
        return False

    @property
    def idle_after(self) -> float | None:
        """Seconds without use after which such a client does so, None for ``lifetime.idle_stop``."""
        return None

    def guest_options(self) -> Mapping[str, Any]:
        """What the guest has to know of this place, beyond its directories; see ``hermes.guest.main``.

        Called in a thread, so it may read files.
        """
        return {}

    @abstractmethod
    def guest_dirs(self) -> GuestDirs:
        """Where the guest keeps its socket and its spill files. The same for every client of this place."""

    def credentials_shown(self) -> Shown | None:
        """The directory that has the files which commands may know. None: they are sent through the channel.

        It is private, in memory where it can be, and belongs to the user inside. ``create`` and ``resume``
        make it, empty, and mount it as a directory; ``destroy`` removes it. Its files are written from above.
        """
        return None

    def workspace(self) -> str:
        """The directory inside in which sessions begin; empty for wherever the guest itself begins."""
        return ""

    def plain_argv(self, command: str) -> Sequence[str] | None:
        """The argv, on this machine, that runs shell text in the open place without hermes.

        That is one process of the transport's own client (``docker exec``, ``ssh``) for the one command: what
        ``hermes bench`` compares with. None where there is no such client.
        """
        return None

    def still(self, *, done: bool = False) -> bool:
        """Whether nothing of this machine that the place keeps from its commands can have changed.

        Asked on the event loop before and after each command, so it may take microseconds.

        :param done: after a command, where only what people have to know is of interest
        """
        return True

    async def mend(self) -> list[str]:
        """Protect anew what changed, after :meth:`still` said no; return what people have to know of it."""
        return []

    def session_env(self) -> Mapping[str, str] | None:
        """The environment that a new session starts from, or None for that of the guest's own process.

        Never anything of this machine's environment unless the place is this machine.
        """
        return None

    @abstractmethod
    async def destroy(self, *, keep_files: bool = False) -> None:
        """Take the place down, with all that runs in it and all that was made for it on this machine.

        With *keep_files* its own workspace and home stay, and a ``create`` with the same id uses them again.

        Nothing is left that ``prune`` would find or anyone would be billed for. Calling it again, or for a
        place that is gone or was never brought up, does nothing. The user's workspace is not touched unless
        it was private. Must not stop at the first thing that cannot be removed.

        :raises BackendError: something is left; its context names it
        :raises Unreachable: it cannot be told, because the machine or service does not answer
        """

    async def let_go(self) -> None:
        """Close what was kept open of the last look at a place that is not going to be used."""
        return None

    async def check_remake(self, locator: Mapping[str, Any]) -> None:
        """Check that a ``create`` will have the files of a place that was made with other settings.

        Called before that place is destroyed with ``keep_files``.

        :param locator: that of the place there is
        :raises HermesError: it will not; nothing was removed
        """
        return None

    async def lost(self) -> str:
        """Say what is lost with a place that :meth:`find` has just called gone, as in "its files are lost".

        Empty where a ``create`` with the same id has the files again, or there never were any.
        """
        return ""

    async def left(self) -> None:
        """Do what is needed so that nothing is lost of a place with a name when its client has left it.

        :raises HermesError: it could not be done; the place goes on
        """
        return None

    async def suspend(self) -> None:
        """Stop the place so that it costs as little as it can, keeping its files.

        :raises UnsupportedError: it cannot; nothing was stopped
        :raises SandboxGone: there is no place to suspend
        """
        raise self._unsupported("suspend", "")

    async def resume(self) -> None:
        """Start the place again after a suspend or a stop. Does nothing when it runs.

        :raises UnsupportedError: it cannot
        :raises SandboxGone: there is nothing left to resume. Never a fresh, empty place under the old name
        """
        raise self._unsupported("resume", "")

    async def link(self, port: int) -> str:
        """Return an address on the internet where a port of the place answers to whoever has it, for an hour.

        :raises UnsupportedError: its provider has none
        """
        raise self._unsupported("link", "'hermes sandbox forward' makes it reachable here")

    async def ssh_command(self) -> str:
        """Return the command with which whoever has it logs in by ssh, for an hour.

        :raises UnsupportedError: its provider has none
        """
        raise self._unsupported("access by ssh", "'hermes sandbox enter' opens a shell")

    async def snapshot(self) -> str:
        """Keep the state of the place's files, and return the id with which a new place can start from them.

        :raises UnsupportedError: it cannot; nothing was stopped
        :raises SandboxGone: there is no place to keep
        """
        raise self._unsupported("snapshot", "")

    @classmethod
    async def prune(cls, config: Config, store: Store) -> list[str]:
        """Remove what this backend left behind, and return what was removed, one line each.

        Left behind is what carries hermes's label and has outlived its lifetime, or is unnamed and its owner
        is no longer alive, or has no record in the store. Never anything without the label, with a
        living owner, or marked to be kept. A backend whose places can outlive the store must override this.

        :raises Unreachable: the machine or service does not answer; nothing is known to have been removed
        """
        return []

    @classmethod
    async def strays(cls, config: Config, store: Store) -> list[Stray]:
        """Return what a provider runs with the mark of this hermes home, and the store has no record of.

        :raises HermesError: the service does not answer, or the records cannot be read
        """
        return []

    def _unsupported(self, what: str, hint: str) -> UnsupportedError:
        others = {"suspend": "stopped", "snapshot": "kept", "link": "opened", "access by ssh": "opened"}
        done = others.get(what, "started")
        return UnsupportedError(
            f"the {self.name} backend cannot do {what}; nothing was {done}",
            hint=hint or None,
            context={"backend": self.name},
        )
