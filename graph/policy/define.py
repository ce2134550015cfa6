"""DEFINE_TARGET: contract, instruction and overrides become one target, or questions; nothing is guessed."""

import re
from collections.abc import Mapping

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Machine
from ridgeline.graph.policy.goal import GoalError, parse_goal, unit_of
from ridgeline.graph.policy.instruction import Said, arch_of, parse, parts
from ridgeline.graph.policy.vocabulary import ARCHS, KNOWN_ARCHS, LANGUAGES, PRECISIONS, VENDORS, vendor
from ridgeline.graph.target import Goal, Target
from ridgeline.graph.values import Value

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


class Questions(Value):
    """The campaign cannot begin before these are answered."""

    questions: tuple[Question, ...]


def resolve(
    contract: Contract,
    *,
    instruction: str,
    created: str,
    contract_path: str,
    machine: Machine,
    overrides: Mapping[str, str],
    branch_prefix: str = "optimize",
) -> Target | Questions:
    """Rules 3.1 and 3.6. The contract is the base, the instruction fills in, an override wins.

    `created` is local time, `YYYY-MM-DD HH:MM` or ISO-8601. `branch_prefix` is `kernel-opt` for autonomous runs.
    """
    return _Resolver(contract, parse(instruction), machine, overrides).target(
        created=created[:16].replace("T", " "),
        contract_path=contract_path,
        instruction=instruction,
        branch_prefix=branch_prefix,
    )


class _Resolver:
    """Collects questions while the fields are filled, so that a person is asked once for all of them."""

    def __init__(self, contract: Contract, said: Said, machine: Machine, overrides: Mapping[str, str]) -> None:
        self.contract = contract
        self.said = said
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
        own, slug = self.contract.target_op, self.said.slug
        if "target_op" in self.overrides:
            chosen = self.overrides["target_op"]
            if not _SLUG.match(chosen):
                self._ask("target_op", f"is {chosen!r}; use lower-case letters, digits and underscores")
            return chosen
        if len(self.said.operators) > 1 and not set(parts(own).operators) & set(self.said.operators):
            self._ask("target_op", f"the instruction names {', '.join(self.said.operators)}; the contract {own}")
        if not slug or not parts(own).operators:
            return own
        if clash := _clash(parts(own), self.said):
            self._ask("target_op", f"the instruction says {clash}, the contract says {own}; correct one of them")
        # The instruction may say more than the contract's name does, as blockwise FP8 of a plain gemm; never less.
        return slug if _adds(parts(own), self.said) else own

    def _backend(self) -> str:
        own, named = self.contract.target_backend, self.said.backends
        if "target_backend" in self.overrides:
            return self._choice("target_backend", own, tuple(LANGUAGES))
        if named and own not in named:
            told = ", ".join(named)
            self._ask("target_backend", f"the instruction says {told}, the contract says {own}; correct one of them")
        return own

    def _gpu(self, backend: str) -> tuple[str, str]:
        """(architecture, platform)."""
        device = self._device(backend)
        if device is None:
            return "unknown", "unknown"
        if device.lower() == "cpu":
            arch, platform = self.machine.arch, self.machine.name
        else:
            known = arch_of(device)
            if known is None:
                self._ask(
                    "target_gpu",
                    f"{device} is unknown; give one of {', '.join((*ARCHS, *sorted(KNOWN_ARCHS)))}, or cpu",
                )
                return "unknown", device
            arch, platform = known, device
        self._check_device(backend, arch, device)
        return arch, platform

    def _device(self, backend: str) -> str | None:
        own, named = self.contract.target_gpu, self.said.products
        if "target_gpu" in self.overrides:
            return self.overrides["target_gpu"]
        if len({arch_of(name) or name for name in named}) > 1:
            self._ask("target_gpu", f"the instruction names {' and '.join(named)}; a campaign has one target")
            return None
        if chosen := named[0] if named else own:
            return chosen
        if backend == "C":
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
        if "dtype" in self.contract.model_fields_set:
            return self.contract.dtype
        return next(iter((*self.said.precision, *parts(op).precisions)), self.contract.dtype)

    def _shapes(self) -> tuple[str, ...]:
        if "target_shapes" in self.overrides:
            text = self.overrides["target_shapes"]
            labels = tuple(label.strip() for label in text.split(",") if label.strip())
            if not labels:
                self._ask("target_shapes", "is empty; give labels separated by commas, or all")
            return () if labels == ("all",) else labels
        own = self.contract.target_shapes
        return () if own == "all" else own

    def _goal(self, metric: str) -> Goal | None:
        text = self.overrides.get("performance_target", self.said.goal or self.contract.performance_target or "")
        if text.strip().lower() in {"", "null", "none"}:
            return None
        try:
            return parse_goal(text, metric)
        except GoalError as error:
            self._ask("performance_target", str(error))
            return None

    def _choice(self, field: str, own: str, allowed: tuple[str, ...]) -> str:
        chosen = self.overrides.get(field, own)
        if chosen not in allowed:
            self._ask(field, f"is {chosen!r}; one of {', '.join(allowed)}")
        return chosen

    def _commits(self) -> bool:
        own = self.contract.git_commit and not self.said.no_commit
        return self._choice("git_commit", str(own).lower(), ("true", "false")) == "true"

    def _branch(self, auto: str) -> str:
        chosen = self.overrides.get("git_branch", self.contract.git_branch)
        if not _REF.match(chosen):
            self._ask("git_branch", f"{chosen!r} is no name of a branch; give auto, none or a valid name")
        return auto if chosen == "auto" else chosen

    def _rounds(self) -> int | None:
        own = self.said.max_iterations if self.said.max_iterations is not None else self.contract.max_iterations
        text = self.overrides.get("max_iterations", str(own)).strip().lower()
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
    """Rules 3.1: forward and backward together are judged by the combined step, or the project's name for it."""
    scoring = contract.scoring
    if not scoring.combined:
        return ", ".join(scoring.primary_metric)
    named = scoring.primary_metric[0]
    if len(scoring.primary_metric) == 1 and named not in contract.benchmark_output.columns:
        return named
    return f"Combined Step {unit_of(scoring.forward or '')}".rstrip()


def _clash(own: Said, said: Said) -> str:
    """What the instruction says that the contract's name excludes; empty when they agree."""
    for mine, theirs in ((own.operators, said.operators), (own.precisions, said.precisions)):
        if mine and theirs and not set(mine) & set(theirs):
            return ", ".join(theirs)
    return ""


def _adds(own: Said, said: Said) -> bool:
    mine = {*own.operators, *own.precisions, *own.variants}
    theirs = {*said.operators, *said.precision, *said.variants}
    return mine < theirs
