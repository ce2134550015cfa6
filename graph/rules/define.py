"""How contract, instruction and overrides become one target, or questions; nothing is guessed."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Machine
from ridgeline.graph.rules.goal import GoalError, parse_goal, unit_of
from ridgeline.graph.target import Goal, Target
from ridgeline.graph.values import Hypothesis, Prediction, Value

# What a person's one-line instruction says, and nothing that it does not say.

_PRODUCT = re.compile(r"\b(MI\d{2,3}[A-Z]?|GB\d{3}|[HABLV]\d{2,3}S?|RTX ?\d{4})\b")
_PRODUCT_ANY_CASE = re.compile(r"\b(mi\d{3}[a-z]?)\b", re.IGNORECASE)
_ARCH = re.compile(r"\b(gfx[0-9a-f]{3,4}|sm_\d{2,3}a?)\b", re.IGNORECASE)
_GOAL = re.compile(
    r"(?:>=?|≥|\bat least|\bover|\babove|\bmore than)\s*\d+(?:\.\d+)?\s*"
    r"(?:[TG]FLOP/?S|[TG]B/s|%(?:\s*(?:of\s+)?peak)?(?:\s+efficiency)?|x\b|times\b)",
    re.IGNORECASE,
)
_ROUNDS = re.compile(
    r"\b(?:at most|max(?:imum)?(?: of)?|up to|no more than)\s+(-?\d+)\s+(?:iterations?|rounds?)\b"
    r"|\bmax[_ ]iterations?\s*[=:]?\s*(-?\d+)",
    re.IGNORECASE,
)
_NO_COMMIT = re.compile(r"\b(?:no|without|don't|do not|never)\s+(?:git\s+)?commit", re.IGNORECASE)


class InstructionFields(Value):
    """Parts of an instruction. Empty means that it says nothing about the field."""

    operators: tuple[str, ...] = ()
    """Slugs, in the order of the text."""
    precisions: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    """Products and architectures as written, upper case for products, lower for architectures."""
    goal: str = ""
    max_iterations: int | None = None
    no_commit: bool = False

    @property
    def slug(self) -> str:
        """From an instruction's operator and precision: `gemm_fp8_blockwise`; empty when no operator or several are named."""
        if len(self.operators) != 1:
            return ""
        return "_".join((*self.operators, *self.precision, *self.variants))

    @property
    def precision(self) -> tuple[str, ...]:
        """The one precision that an instruction names; nothing when several are: which one names the kernel is not said."""
        return self.precisions if len(self.precisions) == 1 else ()


def parse_instruction(text: str) -> InstructionFields:
    """At definition: read an instruction. Words that are not understood are ignored; contradictions are left to the caller."""
    plain = " ".join(re.sub(r"[^a-z0-9_]+", " ", text.lower()).split())
    rounds = _ROUNDS.search(text)
    goal = _GOAL.search(text)
    return InstructionFields(
        operators=_find_word(plain, OPERATORS),
        precisions=_find_word(plain, PRECISIONS),
        variants=_find_word(plain, VARIANTS),
        backends=_find_word(plain, BACKEND_WORDS),
        products=_products(text),
        goal=goal.group(0).strip() if goal else "",
        max_iterations=int(rounds.group(1) or rounds.group(2)) if rounds else None,
        no_commit=_NO_COMMIT.search(text) is not None,
    )


def read_slug(slug: str) -> InstructionFields:
    """At definition: words of an operator's slug or an instruction, read alike so that both can be compared."""
    return parse_instruction(slug.replace("_", " "))


def arch_of(device: str) -> str | None:
    """At definition of the target: architecture of a product or of an architecture's own name; None when it is neither."""
    return device.lower() if device.lower() in KNOWN_ARCHS else ARCHS.get(device.upper())


def _products(text: str) -> tuple[str, ...]:
    """At definition of the target: products and architectures that a text names."""
    names = [m.upper().replace(" ", "") for m in (*_PRODUCT.findall(text), *_PRODUCT_ANY_CASE.findall(text))]
    # Known products count in any case; unknown ones only when written like one, since "a16" may be anything.
    names += [word.upper() for word in re.findall(r"[A-Za-z0-9]+", text) if word.upper() in ARCHS]
    return tuple(dict.fromkeys((*names, *(m.lower() for m in _ARCH.findall(text)))))


def _find_word(plain: str, words: Mapping[str, str]) -> tuple[str, ...]:
    """At definition: values of phrases in an instruction, by position; a phrase inside a longer one does not count.

    A phrase without a value only covers the words inside it: a project's name says nothing of the backend.
    """
    hits: list[tuple[int, str]] = []
    rest = f" {plain} "
    for phrase in sorted(words, key=len, reverse=True):
        needle = f" {phrase} "
        while (at := rest.find(needle)) >= 0:
            hits.append((at, words[phrase]))
            rest = rest[: at + 1] + "#" * len(phrase) + rest[at + 1 + len(phrase) :]
    return tuple(dict.fromkeys(value for _, value in sorted(hits) if value))


FIELDS = (
    "target_op",
    "target_backend",
    "target_gpu",
    "dtype",
    "target_shapes",
    "performance_target",
    "execution_mode",
    "git_commit",
    "git_branch",
    "max_iterations",
    "campaign",
)
"""What an override may name. The rest of a target follows from these or from the contract."""
_REF = re.compile(r"^(?!-)(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[A-Za-z0-9][A-Za-z0-9._/+-]*(?<![./])$")
_SLUG = re.compile(r"^[a-z0-9_]+$")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


class Question(Value):
    field: str
    message: str
    """What is missing or contradictory, and what may be answered."""


def make_first_hypothesis(target: Target) -> Hypothesis:
    """At definition: what Stage 1 sets out to do; it claims no gain, for nothing is measured yet."""
    return Hypothesis(
        id="stage-1",
        lever="first-kernel",
        claim=f"I expect a kernel in {target.target_lang} to compute what PyTorch computes, because its code says what that is",
        change=f"write the first {target.target_lang} kernel of {target.target_op} in place of PyTorch",
        category="algorithm",
        bucket="K1",
        evidence=("the kernel's files hold PyTorch alone",),
        risks="wrong results; until the test passes nothing is committed",
        verification="the correctness test passes",
        prediction=Prediction(counter="none", direction="down"),
        high_risk=True,
    )


class Questions(Value):
    """The campaign cannot begin before these are answered."""

    questions: tuple[Question, ...]


def resolve_target(
    contract: Contract,
    *,
    instruction: str,
    created: str,
    contract_path: str,
    machine: Machine,
    overrides: Mapping[str, str],
    branch_prefix: str = "optimize",
) -> Target | Questions:
    """At definition: the target. The contract is the base, the instruction fills in, an override wins.

    `created` is local time, `YYYY-MM-DD HH:MM` or ISO-8601. `branch_prefix` is `kernel-opt` for autonomous runs.
    """
    return _Resolver(contract, parse_instruction(instruction), machine, overrides).target(
        created=created[:16].replace("T", " "),
        contract_path=contract_path,
        instruction=instruction,
        branch_prefix=branch_prefix,
    )


def state_precision(
    contract: Contract, *, instruction: str = "", overrides: Mapping[str, str] | None = None
) -> Contract:
    """At definition: the contract with its campaign's precision, where its file leaves it open: ceilings rest on it.

    An override wins, then stands the contract's `dtype`, then what the instruction says, then the operator's name.
    """
    own = (contract.dtype,) if "dtype" in contract.model_fields_set else ()
    named = (*parse_instruction(instruction).precision, *read_slug(contract.target_op).precisions)
    dtype = (overrides or {}).get("dtype") or next(iter((*own, *named)), contract.dtype)
    return contract if dtype == contract.dtype else contract.model_copy(update={"dtype": dtype})


class _Resolver:
    """Collects questions while the fields are filled, so that a person is asked once for all of them."""

    def __init__(
        self, contract: Contract, instruction: InstructionFields, machine: Machine, overrides: Mapping[str, str]
    ) -> None:
        self.contract = contract
        self.instruction = instruction
        self.machine = machine
        self.overrides = overrides
        self.questions: list[Question] = [
            Question(field=name, message=f"cannot be overridden; one of {', '.join(FIELDS)}")
            for name in overrides
            if name not in FIELDS
        ]

    def target(self, *, created: str, contract_path: str, instruction: str, branch_prefix: str) -> Target | Questions:
        contract = self.contract
        op, backend = self._op(), self._backend()
        gpu, platform = self._gpu(backend)
        campaign = self._campaign(f"{op}_{backend.lower()}_{gpu}_{created[:10].replace('-', '')}")
        metric = _metric(contract)
        filled = Target(
            target_op=op,
            target_backend=backend,
            target_lang=LANGUAGES.get(backend, backend),
            target_gpu=gpu,
            platform=platform,
            dtype=self._dtype(op),
            target_shapes=self._shapes(),
            performance_target=self._goal(metric),
            primary_metric=metric,
            project_skill=contract_path,
            execution_mode=self._choice("execution_mode", contract.execution_mode, ("repo", "workspace")),
            git_commit=self._commits(),
            git_branch=self._branch(f"{branch_prefix}/{campaign}"),
            max_iterations=self._rounds(),
            campaign=campaign,
            created=created,
            instruction=instruction,
        )
        return Questions(questions=tuple(self.questions)) if self.questions else filled

    def _ask(self, field: str, message: str) -> None:
        self.questions.append(Question(field=field, message=message))

    def _op(self) -> str:
        default_op, slug = self.contract.target_op, self.instruction.slug
        operators = self.instruction.operators
        if "target_op" in self.overrides:
            chosen = self.overrides["target_op"]
            if not _SLUG.match(chosen):
                self._ask("target_op", f"is {chosen!r}; use lower-case letters, digits and underscores")
            return chosen
        if len(operators) > 1 and not set(read_slug(default_op).operators) & set(operators):
            self._ask("target_op", f"the instruction names {', '.join(operators)}; the contract {default_op}")
        if not slug or not read_slug(default_op).operators:
            return default_op
        if clash := _clash(read_slug(default_op), self.instruction):
            self._ask("target_op", f"the instruction says {clash}, the contract says {default_op}; correct one of them")
        # The instruction may say more than the contract's name does, as blockwise FP8 of a plain gemm; never less.
        return slug if _adds(read_slug(default_op), self.instruction) else default_op

    def _backend(self) -> str:
        default_backend, backends = self.contract.target_backend, self.instruction.backends
        if "target_backend" in self.overrides:
            return self._choice("target_backend", default_backend, tuple(LANGUAGES))
        if backends and default_backend not in backends:
            names = ", ".join(backends)
            self._ask(
                "target_backend",
                f"the instruction says {names}, the contract says {default_backend}; correct one of them",
            )
        return default_backend

    def _gpu(self, backend: str) -> tuple[str, str]:
        """At definition: (architecture, platform) of the GPU that an instruction or contract names."""
        device = self._device(backend)
        if device is None:
            return "unknown", "unknown"
        if device.lower() == "cpu":
            arch, platform = self.machine.arch, self.machine.name
        else:
            arch_of_device = arch_of(device)
            if arch_of_device is None:
                self._ask(
                    "target_gpu",
                    f"{device} is unknown; give one of {', '.join((*ARCHS, *sorted(KNOWN_ARCHS)))}, or cpu",
                )
                return "unknown", device
            arch, platform = arch_of_device, device
        self._check_device(backend, arch, device)
        return arch, platform

    def _device(self, backend: str) -> str | None:
        default_gpu, products = self.contract.target_gpu, self.instruction.products
        if "target_gpu" in self.overrides:
            return self.overrides["target_gpu"]
        if len({arch_of(name) or name for name in products}) > 1:
            self._ask("target_gpu", f"the instruction names {' and '.join(products)}; a campaign has one target")
            return None
        if chosen := products[0] if products else default_gpu:
            return chosen
        if VENDORS.get(backend) == "cpu":
            return "cpu"
        self._ask("target_gpu", "is missing; name the product, for example MI300X, or its architecture, or cpu")
        return None

    def _check_device(self, backend: str, arch: str, device: str) -> None:
        if arch != self.machine.arch or (device.lower() == "cpu" and self.machine.kind != "cpu"):
            self._ask(
                "target_gpu",
                f"is {device} ({arch}), this machine is {self.machine.name} ({self.machine.arch});"
                " run there, or name this one",
            )
        elif vendor(arch) != VENDORS.get(backend, vendor(arch)):
            self._ask(
                "target_gpu", f"{backend} does not run on {device} ({arch}); correct target_backend or target_gpu"
            )

    def _dtype(self, op: str) -> str:
        if "dtype" in self.overrides:
            return self._choice("dtype", self.contract.dtype, tuple(dict.fromkeys(PRECISIONS.values())))
        if "dtype" not in self.contract.model_fields_set:
            return next(iter((*self.instruction.precision, *read_slug(op).precisions)), self.contract.dtype)
        own, wish = self.contract.dtype, "".join(self.instruction.precision)
        if wish and wish != PRECISIONS.get(own.lower(), own) and not _clash(read_slug(op), self.instruction):
            self._ask("dtype", f"the instruction says {wish}, the contract says {own}; correct one of them")
        return own

    def _shapes(self) -> tuple[str, ...]:
        if "target_shapes" in self.overrides:
            text = self.overrides["target_shapes"]
            labels = tuple(label.strip() for label in text.split(",") if label.strip())
            if not labels:
                self._ask("target_shapes", "is empty; give labels separated by commas, or all")
            return () if labels == ("all",) else labels
        default_shapes = self.contract.target_shapes
        return () if default_shapes == "all" else default_shapes

    def _goal(self, metric: str) -> Goal | None:
        text = self.overrides.get("performance_target", self.instruction.goal or self.contract.performance_target or "")
        if text.strip().lower() in {"", "null", "none"}:
            return None
        try:
            return parse_goal(text, metric)
        except GoalError as error:
            self._ask("performance_target", str(error))
            return None

    def _choice(self, field: str, default: str, allowed: tuple[str, ...]) -> str:
        chosen = self.overrides.get(field, default)
        if chosen not in allowed:
            self._ask(field, f"is {chosen!r}; one of {', '.join(allowed)}")
        return chosen

    def _commits(self) -> bool:
        default = self.contract.git_commit and not self.instruction.no_commit
        return self._choice("git_commit", str(default).lower(), ("true", "false")) == "true"

    def _branch(self, auto: str) -> str:
        chosen = self.overrides.get("git_branch", self.contract.git_branch)
        if not _REF.match(chosen):
            self._ask("git_branch", f"{chosen!r} is no name of a branch; give auto, none or a valid name")
        return auto if chosen == "auto" else chosen

    def _rounds(self) -> int | None:
        wish = self.instruction.max_iterations
        default = wish if wish is not None else self.contract.max_iterations
        text = self.overrides.get("max_iterations", str(default)).strip().lower()
        if text in {"none", "null", ""}:
            return None
        if not re.fullmatch(r"-?\d+", text) or not 1 <= int(text) < 120:
            self._ask("max_iterations", f"is {text}; give 1 to 119, or null for no limit")
            return None
        return int(text)

    def _campaign(self, auto: str) -> str:
        chosen = self.overrides.get("campaign", auto)
        if not _NAME.match(chosen):
            self._ask("campaign", f"{chosen!r} is no name of a folder; use letters, digits, dot, dash and underscore")
        return chosen


def _metric(contract: Contract) -> str:
    """At definition: the target's metric. Forward and backward together: the combined step, or the project's name for it."""
    scoring = contract.scoring
    if not scoring.combined:
        return ", ".join(scoring.primary_metric)
    metric = scoring.primary_metric[0]
    if len(scoring.primary_metric) == 1 and metric not in contract.benchmark_output.columns:
        return metric
    return f"Combined Step {unit_of(scoring.forward or '')}".rstrip()


def _clash(contract: InstructionFields, instruction: InstructionFields) -> str:
    """At definition: what an instruction says that the contract's name excludes; empty when they agree."""
    for mine, theirs in ((contract.operators, instruction.operators), (contract.precisions, instruction.precisions)):
        if mine and theirs and not set(mine) & set(theirs):
            return ", ".join(theirs)
    return ""


def _adds(contract: InstructionFields, instruction: InstructionFields) -> bool:
    """At definition: whether the instruction names all that the contract's name does, and more."""
    mine = {*contract.operators, *contract.precisions, *contract.variants}
    theirs = {*instruction.operators, *instruction.precision, *instruction.variants}
    return mine < theirs


# The words of a target: backends, products, architectures, operators and precisions.

LANGUAGES: Mapping[str, str] = MappingProxyType(
    {
        "TRITON": "TRITON",
        "CK": "HIP",
        "HIPBLASLT": "HIP",
        "TURBO": "HIP",
        "HIP": "HIP",
        "FLYDSL": "FLYDSL",
        "CUDA": "CUDA",
        "CUTEDSL": "CUTEDSL",
        "C": "C",
        "PYTHON": "PYTHON",
    }
)
"""Backend -> language of its sources."""

VENDORS: Mapping[str, str] = MappingProxyType(
    {
        "CK": "amd",
        "HIPBLASLT": "amd",
        "TURBO": "amd",
        "HIP": "amd",
        "FLYDSL": "amd",
        "CUDA": "nvidia",
        "CUTEDSL": "nvidia",
        "C": "cpu",
        "PYTHON": "cpu",
    }
)
"""Backends that run on devices of one maker only; Triton is in none."""

ARCHS: Mapping[str, str] = MappingProxyType(
    {
        "MI300X": "gfx942",
        "MI325X": "gfx942",
        "MI308X": "gfx942",
        "MI350X": "gfx950",
        "MI355X": "gfx950",
        "MI250X": "gfx90a",
        "MI250": "gfx90a",
        "MI210": "gfx90a",
        "H100": "sm_90",
        "H200": "sm_90",
        "H20": "sm_90",
        "A100": "sm_80",
        "B200": "sm_100",
        "GB200": "sm_100",
        "B300": "sm_103",
        "L40S": "sm_89",
        "RTX4090": "sm_89",
        "RTX5090": "sm_120",
        "MI300A": "gfx942",
    }
)
"""Product -> architecture. A product that is not here is asked for, never guessed."""

KNOWN_ARCHS = frozenset(ARCHS.values())

BACKEND_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "triton": "TRITON",
        "ck": "CK",
        "composable kernel": "CK",
        "hipblaslt": "HIPBLASLT",
        "turbo": "TURBO",
        "primus turbo": "",
        "flydsl": "FLYDSL",
        "hip": "HIP",
        "cuda": "CUDA",
        "cutedsl": "CUTEDSL",
        "cute dsl": "CUTEDSL",
        "in c": "C",
        "c kernel": "C",
        "c code": "C",
        "python": "PYTHON",
    }
)
"""How an instruction names a backend. A single `c` is too common a name of a matrix to count."""

OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "grouped gemm": "grouped_gemm",
        "groupgemm": "grouped_gemm",
        "group gemm": "grouped_gemm",
        "batched gemm": "batched_gemm",
        "flash attention": "attention",
        "paged attention": "paged_attention",
        "layer norm": "layernorm",
        "rms norm": "rmsnorm",
        "matrix multiply": "gemm",
        "matrix multiplication": "gemm",
        "gemm": "gemm",
        "matmul": "gemm",
        "gemv": "gemv",
        "attention": "attention",
        "softmax": "softmax",
        "layernorm": "layernorm",
        "rmsnorm": "rmsnorm",
        "quantize": "quant",
        "quantization": "quant",
        "quant": "quant",
        "dequant": "dequant",
        "transpose": "transpose",
        "row reduction": "reduce",
        "sum reduction": "reduce",
        "reduction kernel": "reduce",
        "reduce kernel": "reduce",
        "conv transpose": "conv",
        "conv1d": "conv",
        "conv2d": "conv",
        "conv3d": "conv",
        "convolution": "conv",
        "conv": "conv",
        "moe": "moe",
        "rope": "rope",
        "gelu": "gelu",
        "silu": "silu",
        "swiglu": "swiglu",
        "dropout": "dropout",
        "embedding": "embedding",
        "topk": "topk",
        "top k": "topk",
        "sampling": "sampling",
        "cross entropy": "cross_entropy",
        "linear attention": "linear_attention",
        "gated delta rule": "gated_delta_rule",
        "gated delta": "gated_delta_rule",
        "gated deltanet": "gated_delta_rule",
        "mamba2": "ssd",
        "mamba 2": "ssd",
        "state space duality": "ssd",
        "ssd": "ssd",
        "allreduce": "allreduce",
        "all reduce": "allreduce",
        "prefix scan": "scan",
        "prefix sum": "scan",
    }
)
"""Phrase -> slug of the operator. Longer phrases are looked for first; words that are also plain verbs (reduce, scan)
count only in a phrase."""

PRECISIONS: Mapping[str, str] = MappingProxyType(
    {
        "fp64": "fp64",
        "f64": "fp64",
        "float64": "fp64",
        "double precision": "fp64",
        "fp32": "fp32",
        "f32": "fp32",
        "float32": "fp32",
        "fp16": "fp16",
        "f16": "fp16",
        "float16": "fp16",
        "bf16": "bf16",
        "bfloat16": "bf16",
        "fp8": "fp8",
        "f8": "fp8",
        "fp4": "fp4",
        "mxfp8": "mxfp8",
        "mxfp4": "mxfp4",
        "nvfp4": "nvfp4",
        "int8": "int8",
        "int4": "int4",
    }
)
"""Word -> precision of the slug and of the dtype."""

VARIANTS: Mapping[str, str] = MappingProxyType(
    {
        "blockwise": "blockwise",
        "rowwise": "rowwise",
        "tensorwise": "tensorwise",
        "channelwise": "channelwise",
        "block wise": "blockwise",
        "row wise": "rowwise",
        "tensor wise": "tensorwise",
        "channel wise": "channelwise",
    }
)
"""Words after the precision in a slug, for example `gemm_fp8_blockwise`."""


def vendor(arch: str) -> str:
    """At definition of the target: maker of an architecture: amd, nvidia or cpu."""
    if arch.startswith("gfx"):
        return "amd"
    return "nvidia" if arch.startswith("sm_") else "cpu"
