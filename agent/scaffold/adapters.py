"""Contracts of projects whose layout is known: `ridgeline init --like NAME` finds the eight prerequisites in a checkout.

An adapter is one function that reads a checkout and returns the contract's fields; the loop knows none of them.
"""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ridgeline.agent.contract_file import FILE_NAME
from ridgeline.agent.errors import UserError, UserErrors
from ridgeline.agent.scaffold.contract import begin_repository, removing_unfinished
from ridgeline.graph.rules.define import InstructionFields, arch_of, parse_instruction
from ridgeline.sandbox.store.yaml_file import nearest

TEMPLATES = Path(__file__).parent / "harness"


@dataclass(frozen=True, kw_only=True)
class Prerequisites:
    """What an adapter found: the contract's fields, and files of ours that its commands name, path -> template."""

    fields: Mapping[str, Any]
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """What was written."""

    contract: Path
    files: tuple[Path, ...]


def write(folder: Path, like: str, *, instruction: str) -> Adopted:
    """`init --like`: write the contract and what its commands need. Raises UserError for a project that is not laid out so."""
    if like == ROUTER:
        return make_router_workspace(folder, instruction)
    if like not in ADAPTERS:
        raise UserError(f"--like: no project {like!r}; {nearest(like, (*ADAPTERS, ROUTER))}")
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the checkout of the project")
    target = folder / FILE_NAME
    if target.exists():
        raise UserError(f"{target}: exists already; edit it, or move it away first")
    found = ADAPTERS[like](folder, parse_instruction(instruction))
    for path, template in found.files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((TEMPLATES / template).read_text(encoding="utf-8"), encoding="utf-8")
    head = f"# Written by `ridgeline init --like {like}`: look at every line, commit it, then `ridgeline check .`.\n"
    target.write_text(head + yaml.safe_dump(dict(found.fields), sort_keys=False, width=1000), encoding="utf-8")
    return Adopted(contract=target, files=tuple(folder / path for path in found.files))


# Primus-Turbo: operators with several backends, one benchmark script each, a quick template among its agent's skills.

TURBO_KERNELS: Mapping[tuple[str, str], str] = {
    ("gemm", "TRITON"): "primus_turbo/triton/gemm/gemm_kernel.py",
    ("gemm_fp8", "TRITON"): "primus_turbo/triton/gemm/gemm_fp8_kernel.py",
    ("gemm_fp8", "CK"): "csrc/kernels/gemm/ck/**",
    ("gemm_fp8", "TURBO"): "csrc/kernels/gemm/turbo/**",
}
TURBO_HANDOFF = "agent/skills/primus-turbo-develop/optimize-handoff"
TURBO_TEMPLATE = f"{TURBO_HANDOFF}/quick_test_bench.py"
TURBO_QUICK = "benchmark/ridgeline/quick_bench.py"
TURBO_BENCHES = ("benchmark/ops/training/bench_gemm_turbo.py", "benchmark/ops/bench_gemm_turbo.py")
GRANULARITIES = ("tensorwise", "rowwise", "blockwise")
METRICS = ("Forward TFLOPS", "Backward TFLOPS")
QUICK_COLUMNS = (
    *("label", "B", "M", "N", "K", "Check"),
    *(name for metric in METRICS for name in (metric, f"{metric}_stddev")),
    *("Forward Time (ms)", "Backward Time (ms)", "out_snr", "da_snr", "db_snr"),
)
"""Of the quick template, frozen by the hand-off's contract."""


def adopt_primus_turbo(root: Path, asked: InstructionFields) -> Prerequisites:
    """GEMM of Primus-Turbo in BF16 or FP8, on the backend that the instruction names."""
    backend = _require_single("backend", asked.backends, "TRITON, CK or TURBO")
    family, granularity = _read_gemm(asked)
    kernel = TURBO_KERNELS.get((family, backend))
    if kernel is None:
        known = ", ".join(f"{name} {where}" for name, where in TURBO_KERNELS)
        raise UserError(f"--instruction: no kernel of {family} for {backend} is known; known: {known}")
    test, bench = f"tests/pytorch/ops/test_{family}.py", _first_file(root, TURBO_BENCHES)
    for path in (kernel.removesuffix("/**"), test, TURBO_TEMPLATE):
        _require(root, path)
    product = _require_single("GPU", asked.products, "MI300X or MI355X")
    precise = ["Dtype", "Granularity"] if granularity else ["Dtype"]
    project_columns = ["TestID", "Platform", "GPU", "Case", "MBS", "M", "N", "K", *precise, "Check"]
    project_columns += ["Forward Time (ms)", "Forward TFLOPS", "Backward Time (ms)", "Backward TFLOPS"]
    variable = f"PRIMUS_TURBO_GEMM_BACKEND={backend}"
    options = f"--dtype fp8 --granularity {granularity}" if granularity else "--dtype bf16"
    chosen = f"{granularity} and {backend}" if granularity else backend
    rebuild: dict[str, Any] = {"required": False}
    if kernel.startswith("csrc/"):
        build = f"GPU_ARCHS={arch_of(product) or product} pip install --no-build-isolation -e . -v"
        rebuild = {"required": True, "command": build}
    fields = {
        "target_op": f"{family}_{granularity}" if granularity else family,
        "target_backend": backend,
        "target_gpu": product,
        "dtype": "fp8" if granularity else "bf16",
        "kernel_source": [kernel],
        "protected": ["tests/**", "benchmark/**", "agent/**"],
        "test_command": f'pytest {test} -v -k "{chosen}"',
        "benchmark_command": f"{variable} python {bench} {options} --output {{csv}}",
        "project_output": {"columns": project_columns, "label": "M{M}_N{N}_K{K}"},
        "quick_command": f"{variable} python {TURBO_QUICK} --summary-csv {{csv}} --labels {{shapes}}",
        "benchmark_output": {"columns": list(QUICK_COLUMNS)},
        "scoring": {"primary_metric": "Forward TFLOPS", "time_ms": "Forward Time (ms)"},
        "work": {"flops": "2*M*N*K", "bytes": "M*K + N*K + 2*M*N" if granularity else "2*(M*K + N*K + M*N)"},
        "execution_mode": "repo",
        "rebuild": rebuild,
        "full_test_command": "pytest tests/pytorch/ -v",
        "timeouts": {"test_s": 1800, "benchmark_s": 5400},
    }
    return Prerequisites(fields=fields, files={TURBO_QUICK: "primus_turbo_quick.py"})


def _read_gemm(asked: InstructionFields) -> tuple[str, str]:
    """Family of the operator and granularity of its scales; no granularity in BF16."""
    if asked.operators != ("gemm",):
        raise UserError("--instruction: names no one operator that is known here; say for example 'blockwise FP8 GEMM'")
    if asked.precision in ((), ("bf16",)):
        return "gemm", ""
    variant = _require_single("granularity", asked.variants, ", ".join(GRANULARITIES))
    if asked.precision != ("fp8",) or variant not in GRANULARITIES:
        raise UserError(
            f"--instruction: {'_'.join((*asked.precision, variant))}: give FP8 with {' or '.join(GRANULARITIES)}"
        )
    return "gemm_fp8", variant


# FlyDSL: one fixed command that tests and measures, whose CSV says how wrong and how slow each row is.

FLYDSL_TESTS = "tests"
FLYDSL_TEST = f"{FLYDSL_TESTS}/kernels/test_pa.py"
FLYDSL_CONFIG = ("block_size", "mtp", "head_size")
FLYDSL_ERROR, FLYDSL_TIME = "err_flydsl_ps", "us_flydsl_ps"


def adopt_flydsl(root: Path, asked: InstructionFields) -> Prerequisites:
    """Paged attention of FlyDSL by its fixed command; how its CSV is read follows from one that a run left here."""
    _require(root, FLYDSL_TEST)
    kernels = sorted(path.relative_to(root).as_posix() for path in root.glob("kernels/*pa*.py"))
    if not kernels:
        raise UserError(f"{root}: has no kernels/*pa*.py; give the root of a FlyDSL checkout")
    product = _require_single("GPU", asked.products, "MI300X or MI355X")
    run = f"python {FLYDSL_TEST}"
    file, rows = _read_result(root, run)
    config = [name for name in FLYDSL_CONFIG if name in rows[0]]
    columns = list(rows[0])
    fields = {
        "target_op": "paged_attention",
        "target_backend": "FLYDSL",
        "target_gpu": product,
        "kernel_source": kernels,
        "protected": ["tests/**"],
        "test_command": run,
        "correctness": {"kind": "column", "column": FLYDSL_ERROR, "op": "==", "threshold": 0.0},
        "benchmark_command": run,
        "quick_command": run,
        "project_output": {
            "file": file,
            "columns": columns,
            "label": "_".join(f"{name}{{{name}}}" for name in _choose_label(rows, config)),
            "check": None,
            "time_us": FLYDSL_TIME,
        },
        "benchmark_output": {
            "columns": ["label", *config, "Check", FLYDSL_ERROR, FLYDSL_TIME, "Time (ms)"],
            "config_columns": config,
        },
        "scoring": {"primary_metric": FLYDSL_TIME, "higher_is_better": False, "time_ms": "Time (ms)"},
        "execution_mode": "repo",
        "rebuild": {"required": False},
        "profile": {"command": run},
        "timeouts": {"test_s": 1800, "benchmark_s": 1800},
    }
    return Prerequisites(fields=fields, files={})


def _read_result(root: Path, run: str) -> tuple[str, list[dict[str, str]]]:
    """Name and rows of the CSV that FlyDSL's fixed command left in the checkout. Raises UserError where there is none."""
    for path in sorted(root.glob("*.csv")):
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = list(csv.DictReader(file))
        if rows and {FLYDSL_ERROR, FLYDSL_TIME} <= rows[0].keys():
            return path.name, rows
    raise UserError(
        f"{root}: has no CSV with {FLYDSL_ERROR} and {FLYDSL_TIME}; run `{run}` there once, so that its file and columns"
        " are known, and leave the file uncommitted"
    )


def _choose_label(rows: Sequence[Mapping[str, str]], config: Sequence[str]) -> list[str]:
    """For a contract to be written: columns that name each row: the configuration's, and of the others those that tell two rows apart.

    Raises UserError where nothing that is not measured tells them apart.
    """
    others = [
        name for name in rows[0] if name not in config and not name.startswith(("err_", "us_")) and name.isidentifier()
    ]
    chosen = list(config)
    for name in ("", *others):
        chosen += [name] if name else []
        if chosen and len({tuple(row[part] for part in chosen) for row in rows}) == len(rows):
            return chosen
    raise UserError(f"{FLYDSL_TEST}: no columns of its CSV tell all rows apart; write the contract by hand")


ADAPTERS: Mapping[str, Callable[[Path, InstructionFields], Prerequisites]] = {
    "primus-turbo": adopt_primus_turbo,
    "flydsl": adopt_flydsl,
}


# The router (design document 002): a workspace of its own around one kernel, from a platform, a framework and a demo.

ROUTER = "gpu-kernel-optimizer"
ROUTER_FIELD = re.compile(
    r"\b(platform|framework|kernel_demo|gpu_wiki_path|reference_project|additional_notes)\s*[:=]\s*([^,;\n]+)",
    re.IGNORECASE,
)
ROUTER_ASKS: Mapping[str, str] = {
    "platform": "the GPU, for example MI300X or H100",
    "framework": "Triton, FlyDSL, CuteDSL, HIP or CUDA",
    "kernel_demo": "the path of the kernel that is there, which becomes kernel.py",
}
"""What the router asks for before anything else; of all its fields only the demo's path is looked at."""
ROUTER_FILES = {
    "case_kernel.py": "router_case.py",
    "test_kernel.py": "router_test.py",
    "bench_kernel.py": "router_bench.py",
}
REL_ERR = {"fp8": 0.05, "fp4": 0.05}
"""Largest relative error by precision; 0.01 for every other."""
IGNORED = ("__pycache__/", "*.pyc", "*.ncu-rep", "profiles/*/att/*.att", "profiles/*/att/*.out", "agent/workspace/")
KERNEL_IMPORTS = re.compile(r"^\s*(?:import|from)\s+(?:triton|flydsl|cutlass|cuda)\b", re.MULTILINE)


def make_router_workspace(folder: Path, instruction: str) -> Adopted:
    """A new repository with the demo as kernel.py and reference.py, its test and benchmark, and the contract.

    Raises UserError for what the instruction leaves open, a demo that is not there, and a folder that is not empty.
    """
    said = {name.lower(): value.strip() for name, value in ROUTER_FIELD.findall(instruction)}
    asked = parse_instruction(instruction)
    for name, words in (("platform", asked.products), ("framework", asked.backends)):
        if name not in said and len(words) == 1:
            said[name] = words[0]
    if missing := [name for name in ROUTER_ASKS if name not in said]:
        raise UserErrors(
            [f"--instruction: {name}: is not given; say `{name}: ...`, {ROUTER_ASKS[name]}" for name in missing]
        )
    demo = Path(said["kernel_demo"]).expanduser()
    if not demo.is_file():
        raise UserError(f"--instruction: kernel_demo: {demo}: no such file; give the path of a kernel in Python")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            f"{folder}: exists already, and nothing in it is overwritten; name a folder that does not exist yet"
        )
    text = demo.read_text(encoding="utf-8", errors="replace")
    fields = _list_router_fields(said, asked, demo, text)
    limit = fields["correctness"]["threshold"]
    files = {
        "kernel.py": text,
        "reference.py": text,
        **{
            path: (TEMPLATES / template).read_text(encoding="utf-8").replace("LIMIT = 0.01", f"LIMIT = {limit}")
            for path, template in ROUTER_FILES.items()
        },
        "README.md": _write_router_readme(fields, said),
        ".gitignore": "".join(f"{pattern}\n" for pattern in IGNORED),
        FILE_NAME: f"# Written by `ridgeline init --like {ROUTER}`: look at every line, then `ridgeline check .`.\n"
        + yaml.safe_dump(fields, sort_keys=False, width=1000),
    }
    with removing_unfinished(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            (folder / path).write_text(content, encoding="utf-8")
        begin_repository(folder, f"Workspace for {fields['target_op']}")
    return Adopted(contract=folder / FILE_NAME, files=tuple(folder / path for path in files if path != FILE_NAME))


def _list_router_fields(said: Mapping[str, str], asked: InstructionFields, demo: Path, text: str) -> dict[str, Any]:
    """Fields of the router's contract to be written. Raises UserError for a framework that is none."""
    backends = parse_instruction(said["framework"]).backends
    if len(backends) != 1:
        raise UserError(f"--instruction: framework: {said['framework']}: is none; say {ROUTER_ASKS['framework']}")
    dtype = "".join(asked.precision) or "fp32"
    knowledge: dict[str, Any] = {}
    if said.get("gpu_wiki_path", "none") != "none":
        knowledge["wiki"] = [str(Path(said["gpu_wiki_path"]).expanduser().absolute())]
    if said.get("reference_project", "none") != "none":
        knowledge["reference_project"] = str(Path(said["reference_project"]).expanduser().absolute())
    fields = {
        "target_op": asked.slug or re.sub(r"[^a-z0-9]+", "_", demo.stem.lower()).strip("_"),
        "target_backend": backends[0],
        "target_gpu": said["platform"],
        "dtype": dtype,
        "kernel_source": ["kernel.py"],
        "protected": ["reference.py", *ROUTER_FILES],
        "test_command": "python test_kernel.py",
        "correctness": {"kind": "rel_err", "op": "<", "threshold": REL_ERR.get(dtype, 0.01)},
        "benchmark_command": "python bench_kernel.py --csv {csv}",
        "quick_command": "python bench_kernel.py --csv {csv} --shapes {shapes}",
        "benchmark_output": {"columns": ["label", "Check", "latency_us", "Time (ms)"]},
        "scoring": {"primary_metric": "latency_us", "higher_is_better": False, "time_ms": "Time (ms)"},
        "execution_mode": "repo",
        "rebuild": {"required": False},
    }
    if knowledge:
        fields["knowledge"] = knowledge
    if "torch" in text and not KERNEL_IMPORTS.search(text):
        fields["start"] = "pytorch"
    return fields


def _write_router_readme(fields: Mapping[str, Any], said: Mapping[str, str]) -> str:
    """The workspace's README in the router's sections; what is not known yet reads TBD."""
    correct = fields["correctness"]
    sections = {
        "Target": [
            f"platform: {fields['target_gpu']}",
            f"arch: {arch_of(fields['target_gpu']) or 'TBD'}",
            f"framework: {fields['target_backend']}",
            f"dtype: {fields['dtype']}",
            f"kernel type: {fields['target_op']}",
        ],
        "Execution": [f"execution_mode: {fields['execution_mode']}", "local_gpu: TBD"],
        "Inputs": [
            f"kernel_demo: {said['kernel_demo']}",
            "reference: reference.py",
            "shapes: those of `get_inputs()`",
            f"correctness threshold: rel_err {correct['op']} {correct['threshold']}",
        ],
        "Hard Constraints": ["only kernel.py is changed; test, benchmark and reference are protected"],
        "Additional Notes": [said.get("additional_notes", "none")],
        "Stop Conditions": ["compute-bound target: TBD", "memory-bound target: TBD"],
        "Files": [
            "a campaign keeps memory/, plans/, profiles/, rounds/, logs/ and its own README, with specifications, roofline and "
            "stop conditions, in `agent/workspace/<campaign>/`",
        ],
    }
    head = f"# {fields['target_op']}\n\n`ridgeline run . --preset router` optimizes kernel.py.\n"
    return head + "".join(
        f"\n## {title}\n\n" + "".join(f"- {item}\n" for item in items) for title, items in sections.items()
    )


def _require(root: Path, path: str) -> None:
    """Raises UserError for a path that a checkout to be scaffolded does not have."""
    if not (root / path).exists():
        raise UserError(
            f"{root}: has no {path}, so it is not laid out as expected; write the contract by hand (`ridgeline init`)"
        )


def _first_file(root: Path, paths: tuple[str, ...]) -> str:
    """The first of several paths that the scaffolded checkout has."""
    for path in paths:
        if (root / path).is_file():
            return path
    raise UserError(f"{root}: has neither {' nor '.join(paths)}, so it is not laid out as expected")


def _require_single(what: str, words: tuple[str, ...], known: str) -> str:
    """The one word of the instruction that `init --like` needs; nothing is guessed."""
    if len(words) != 1:
        said = f"names {' and '.join(words)}" if words else "names none"
        raise UserError(f"--instruction: {what}: {said}; say one of {known}")
    return words[0]
