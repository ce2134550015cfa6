"""What the audit of a candidate's source found: places where a benchmark could be fooled, and what settles each."""

from typing import Literal

from ridgeline.graph.values import Bucket, Value

Closer = Literal[
    "hit_rate_trace",
    "fresh_tensor_simulation",
    "sensitivity_pair",
    "precision_probe",
    "graph_lane",
    "stream_fingerprint",
    "poisoned_output",
    "judge_clock",
    "one_call_path",
    "isolation",
    "knock_out",
    "held_out_shapes",
    "skew_shapes",
    "reading",
]
"""What settles a finding of the audit; `reading` is a person's."""
KeyPart = Literal["weight", "weight_version", "activation", "gradient", "address", "content", "layout", "other"]
"""What a term of a cache's key tells apart: a tensor's identity by its role, its address, its values, its shape."""


Allowable = Literal[
    "address-cache",
    "build-setting",
    "call-count",
    "caller-look",
    "capture-branch",
    "clock-control",
    "clock-read",
    "constant-output",
    "content-cache",
    "device-state",
    "downgrade",
    "fake-report",
    "fallback",
    "file-access",
    "global-setting",
    "graph-replay",
    "identity-cache",
    "inline-asm",
    "hidden-name",
    "kept-output",
    "layout-cache",
    "lazy-output",
    "library-call",
    "local-macro",
    "may-exit",
    "memo",
    "mode-branch",
    "native-load",
    "network",
    "pass-through",
    "patched-library",
    "raw-syscall",
    "reads-output",
    "reads-reference",
    "reads-seed",
    "runs-at-load",
    "runs-text",
    "shadowed-import",
    "shared-macro",
    "side-stream",
    "size-branch",
    "sleeps",
    "starts-process",
    "symbol-name",
    "tensor-weakref",
    "thread",
    "uniform-groups",
    "unreadable",
    "untouched-output",
    "value-branch",
    "weight-cache",
]
"""Rules of the audit that a contract may allow: all that do not convict."""

Role = Literal["weight", "activation", "gradient"]
Severity = Literal["convicts", "routes", "notes"]
"""convicts: no honest kernel has it. routes: a closer check decides. notes: allowed, and worth knowing."""


class KeyTerm(Value):
    """One term of a cache's key, for example `id(x)`."""

    text: str
    name: str = ""
    """The variable that it is taken of; empty where that is not plain."""
    part: KeyPart


class Finding(Value):
    """One place in a candidate's source that the audit names. It is a reason to look closer, rarely a judgement."""

    rule: str
    path: str
    line: int
    code: str
    meaning: str
    severity: Severity
    closer: Closer
    bucket: Bucket | None = None
    """Rule-11 bucket of a cache; None where the finding is about something else."""
    key: tuple[KeyTerm, ...] = ()
    """Of a cache, as far as it can be read."""


class Lookup(Value):
    """One look-up of a recorded or simulated run: which step, of what tensor, under which key."""

    step: int
    role: Role
    key: str
    version: int = 0
    """How often the weight had been changed by then."""


class Simulation(Value):
    """A run of fresh steps and how it was made; without look-ups it could not be run."""

    method: Literal["tensors", "recorded keys", "symbols", "unavailable"]
    lookups: tuple[Lookup, ...] = ()
    detail: str = ""
