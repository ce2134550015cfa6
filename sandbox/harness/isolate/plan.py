"""What the judge tells the programs that shut a worker in, or become one."""

import marshal

Mounts = list[tuple[str, str, str]]
"""(kind, what, where), parents before children. Kinds: `read` a file or folder, read-only; `device` likewise, with the
right to open device files; `scratch` a folder of that name in the worker's own memory file system; `folder` one in it;
`link` a symbolic link that says `what`; `processes` a view of the worker's own processes; and of commands `write` what may be
changed, `empty` an empty folder over what is there, `terminals` new ones, `still` what is there already and is only read,
`nothing` a file in the place of another."""


class Plan:
    """One start of one worker or command. Made by the judge, and by the program that reads it."""

    mode: str
    """`root` changes to another user, `user` to a user namespace, `bubblewrap` leaves both to that tool, `weak` does
    without namespaces."""
    argv: list[str]
    script: list[str]
    """Of a copy of a stem: the Python program that it runs, and its words; `argv` is what would have started it."""
    environment: dict[str, str]
    folder: str
    """Where the worker starts, with everything that it may write."""
    mounts: Mounts
    scratch_bytes: int
    scratch_files: int
    limits: list[tuple[int, int]]
    """Resource and its limit, as setrlimit(2) has them."""
    tasks: int
    """Processes and threads of the worker; of a command 0 where its namespace cannot number them."""
    groups: list[str]
    """Control groups to join, made by the judge and removed at the end."""
    keep: list[int]
    """Descriptors that the worker inherits."""
    report: int
    """Where a fault of the isolation, or a layer that this kernel lacks, is said; closed when the worker starts."""
    line: int
    """Nothing is ever written here: it closes when the worker has to end."""
    output: int
    """A file for what the worker prints."""
    output_bytes: int
    judge: int
    """Process id of the judge."""
    gpu: bool
    """Sockets of the local kind stay allowed."""
    base: str = ""
    """Folder that is not to be seen, in which the new file system is made; of workers their own."""
    same_user: bool = False
    """Whether the user stays who he was, and is not nobody."""
    streams: list[int]
    """A command's input, output and errors."""
    cpus: list[int]
    """Processors that a command may use."""
    network: str = "none"
    """`loopback`: processes of the command reach one another by it."""

    def __init__(self, fields: dict[str, object]) -> None:
        self.__dict__.update(fields)

    @property
    def makes_namespaces(self) -> bool:
        """Shutting a process in: whether the namespaces are made here."""
        return self.mode in ("root", "user")


def packed(plan: Plan) -> str:
    """Shutting a process in: the plan as one word of a command line. Both ends run the same interpreter."""
    return marshal.dumps(plan.__dict__).hex()


def unpacked(word: str) -> Plan:
    """Shutting a process in: the plan that `packed` made this word of."""
    return Plan(marshal.loads(bytes.fromhex(word)))
