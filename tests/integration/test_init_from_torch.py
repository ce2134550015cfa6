"""A task made of a PyTorch file: its sizes are found, its reference is right, and the contract can be read."""

import textwrap
from pathlib import Path

import numpy as np
import pytest

from ridgeline.agent.contract_file import load
from ridgeline.agent.formats.reading import open_candidate
from ridgeline.sandbox.judge.inputs import axis_lengths, draw, draw_sizes
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.task_file import load_task

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow
LINEAR = """
    import torch
    import torch.nn as nn

    class Model(nn.Module):
        def __init__(self, in_features, out_features, scale):
            super().__init__()
            self.gemm = nn.Linear(in_features, out_features)
            self.norm = nn.LayerNorm(out_features)
            self.drop = nn.Dropout(0.5)
            self.scale = scale

        def forward(self, x):
            return self.drop(self.norm(self.gemm(x))) * self.scale

    batch_size = 256
    in_features, out_features = 512, 1024
    scale = 2.0

    def get_inputs():
        return [torch.rand(batch_size, in_features)]

    def get_init_inputs():
        return [in_features, out_features, scale]
"""
CONV = """
    import torch

    class Model(torch.nn.Module):
        def __init__(self, cin, cout, kernel_size):
            super().__init__()
            self.conv = torch.nn.Conv2d(cin, cout, kernel_size, stride=2, groups=4)
            self.bn = torch.nn.BatchNorm2d(cout)

        def forward(self, x):
            return self.bn(self.conv(x))

    batch = 8
    cin, cout, kernel_size = 16, 32, 5
    height = 64
    width = 48

    def get_inputs():
        return [torch.rand(batch, cin, height, width)]

    def get_init_inputs():
        return [cin, cout, kernel_size]
"""
FUNCTION = """
    import torch

    def scaled(x, weight, eps: float = 1e-6):
        inner = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
        return (inner * weight.float()).to(x.dtype)

    def get_inputs():
        return [torch.randn(64, 1024, dtype=torch.bfloat16), torch.randn(1024, dtype=torch.bfloat16), 1e-5]
"""
TOP = """
    import torch

    rows, cols, k = 40, 96, 5

    def largest(x):
        ordered = torch.sort(x, dim=1, descending=True, stable=True)
        return ordered.values.narrow(1, 0, k).contiguous(), ordered.indices.narrow(1, 0, k).contiguous()

    def get_inputs():
        return [torch.randn(rows, cols)]
"""
MANY = """
    import torch

    def update(p, ids, keep, state):
        state += p.gather(1, ids)
        return torch.log(p).masked_fill(~keep, 0).sum(-1), p.argmax(-1)

    def get_inputs():
        return [torch.rand(32, 100), torch.randint(0, 100, (32, 16)), torch.rand(32, 100) > 0.5, torch.zeros(32, 16)]
"""


CAUSAL = """
    import torch

    class Model(torch.nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.eval()
            self.register_buffer("keep", torch.tril(torch.ones(32, 32)))
            self.register_buffer("mean", torch.zeros(rows))
            self.register_buffer("noise", torch.randn(rows))
            self.start = torch.randn(rows)
            self.table = torch.nn.Embedding(500, 24)

        def forward(self, x, ids):
            size = x.shape[1]
            hidden = x.masked_fill(self.keep[:size, :size].sum() == 0, 0) * self.keep[:size, :size].sum(0)
            return hidden + (self.mean + self.noise + self.start)[:, None] + self.table(ids)

    rows = 16

    def get_inputs():
        return [torch.randn(rows, 24), torch.randint(0, 500, (rows,))]

    def get_init_inputs():
        return [rows]
"""
BRANCH = """
    import torch

    def f(x, y):
        return torch.where(x > 1, torch.lgamma(x), torch.log(x)) + y

    def get_inputs():
        return [torch.rand(64, 128) * 10 + 0.1, torch.randn(64, 128)]
"""
CONSTANT = """
    import torch

    def f(x):
        return x.max(1, keepdim=True).values - x.max(1, keepdim=True).values.mean(1, keepdim=True)

    def get_inputs():
        return [torch.randn(16, 64)]
"""


@pytest.fixture
def made(tmp_path, cli):
    def make(text: str, *options: str, how: str = "--from-pytorch", name: str = "12_Some_Op") -> Path:
        file = tmp_path / f"{name}.py"
        file.write_text(textwrap.dedent(text))
        said = cli("init", tmp_path / "task", how, file, *options)
        assert said.code == 0, said.err
        return tmp_path / "task"

    return make


def right(folder: Path) -> None:
    """Holds kernel.py against the reference, at all sizes and some unseen ones, as a person would."""
    task, _ = load_task(folder)
    rng = np.random.default_rng(3)
    names = {}
    exec(compile((folder / "kernel.py").read_text(), "kernel.py", "exec"), names)
    small = [shape for shape in task.shapes if not shape.timed]
    with Reference(task, folder) as reference:
        for shape in (*small, *draw_sizes(task, rng)[:4]):
            inputs = draw(task, shape.dims, "normal", rng)
            oracle = reference.oracle(inputs)
            assert {name: found.shape for name, found in oracle.items() if name not in inputs} == {
                one.name: axis_lengths(one, shape.dims) for one in task.outputs
            }
            if all(one.dtype == "float32" for one in (*task.inputs, *task.outputs)):
                result = names[task.entry](*(torch.from_numpy(inputs[one.name].copy()) for one in task.inputs))
                assert np.allclose(result.numpy(), oracle["out"], rtol=1e-3, atol=1e-3 * np.abs(oracle["out"]).max())


def test_a_kernelbench_problem(made, monkeypatch):
    folder = made(LINEAR, how="--from-kernelbench")
    task, _ = load_task(folder)
    assert task.name == "12_some_op"
    assert [(one.name, one.shape, one.constness) for one in task.inputs] == [
        ("x", ("batch_size", "in_features"), "per_call"),
        ("gemm_weight", ("out_features", "in_features"), "const"),
        ("gemm_bias", ("out_features",), "const"),
        ("norm_weight", ("out_features",), "const"),
        ("norm_bias", ("out_features",), "const"),
    ]
    assert task.outputs[0].shape == ("batch_size", "out_features")
    assert task.timed[0].dims == {"batch_size": 256, "in_features": 512, "out_features": 1024}
    assert task.flops == "2*batch_size*in_features*out_features"
    assert task.bytes is not None
    right(folder)
    monkeypatch.setenv("PATH", f"{Path(torch.__file__).parents[4] / 'bin'}:/usr/bin:/bin")
    contract = load(folder).contract
    assert contract.protected == ("task.yaml", "reference.py", "origin.json")
    assert contract.benchmark_output.columns == (
        "label", "batch_size", "in_features", "out_features", "class", "Check", "Time (ms)",
    )  # fmt: skip
    assert contract.scoring.higher_is_better is False


def test_an_answer_that_keeps_a_method_of_its_own_has_the_parameters_that_it_is_given(made):
    """torch.compile of a method does, too: what it keeps is the module that was made, not a copy of it."""
    model = """
        import torch

        class Model(torch.nn.Module):
            def __init__(self, n):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(n))

            def forward(self, x):
                return x * self.weight

        def get_inputs():
            return [torch.randn(64, 32)]

        def get_init_inputs():
            return [32]
    """
    answer = """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self, n):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(n))
                self.run = self.body

            def body(self, x):
                return x * self.weight

            def forward(self, x):
                return self.run(x)
    """
    folder = made(model, how="--from-kernelbench")
    file = folder.parent / "answer.py"
    file.write_text(textwrap.dedent(answer))
    names = {}
    with open_candidate(folder / "task.yaml", file) as sources:
        exec(compile((sources / "kernel.py").read_text(), "kernel.py", "exec"), names)
    for _ in range(3):
        x, weight = torch.randn(5, 32), torch.randn(32)
        assert torch.equal(names["run"](x, weight), x * weight)


def test_sizes_of_a_convolution(made):
    folder = made(CONV)
    task, _ = load_task(folder)
    assert task.inputs[1].shape == ("cout", "cin//4", "5", "5")
    assert task.outputs[0].shape == ("batch", "cout", "(height - 3)//2", "(width - 3)//2")
    assert task.drawn.multiples == {"cin": 4, "cout": 4}
    assert task.drawn.ranges["height"][0] >= 5
    right(folder)


def test_a_function_with_literal_sizes(made):
    folder = made(FUNCTION)
    task, _ = load_task(folder)
    assert [one.shape for one in (*task.inputs, *task.outputs)] == [("n64", "n1024"), ("n1024",), ("n64", "n1024")]
    assert {one.dtype for one in (*task.inputs, *task.outputs)} == {"bfloat16"}
    assert "_original(x, weight, 1e-05)" in (folder / "reference.py").read_text()
    right(folder)


def test_a_number_that_a_function_reads_itself_is_no_size(made):
    """Nothing gives a function another `k`, so a task in which it varies would be wrong."""
    folder = made(TOP)
    task, _ = load_task(folder)
    assert [one.shape for one in (*task.inputs, *task.outputs)] == [("rows", "cols"), ("rows", "5"), ("rows", "5")]
    assert set(task.shapes[0].dims) == {"rows", "cols"}
    right(folder)


def test_masks_indices_logarithms_and_changed_inputs(made):
    folder = made(MANY, "--entry", "update")
    task, _ = load_task(folder)
    p, ids, keep, state = task.inputs
    assert p.values == "positive", "a logarithm of N(0,1) is not finite"
    assert p.within is not None
    assert p.within[0] >= 0
    assert (ids.dtype, ids.values, ids.low, ids.high) == ("int64", "integers", 0, 100)
    assert (keep.dtype, keep.values) == ("bool", "mask")
    assert state.constness == "mutated"
    assert p.shape[1] == "100", "indices reach to there, so it cannot be chosen freely"
    assert [one.name for one in task.outputs] == ["out0", "out1"]
    right(folder)


def test_constants_statistics_and_chance_in_a_module(made):
    folder = made(CAUSAL)
    task, _ = load_task(folder)
    assert [(one.name, one.values) for one in task.inputs] == [
        ("x", "normal"), ("ids", "integers"), ("table_weight", "normal"), ("mean", "positive"), ("noise", "normal"),
    ]  # fmt: skip
    # the mask is a constant of the operator; a mean of zeros is what training changes; what chance made is no constant
    assert task.bytes is not None
    assert "500" not in task.bytes, "a call reads few rows of the table"
    notes = (folder / "README.md").read_text()
    assert "keep: a constant that the module makes" in notes
    assert "start: made by chance" in notes
    assert "eval mode" not in notes, "it is the file that says so"
    rng = np.random.default_rng(5)
    with Reference(task, folder) as reference:
        inputs = draw(task, task.shapes[0].dims, "normal", rng)
        oracle, trusted = reference.oracle(inputs)["out"], reference.trusted(inputs)["out"]
        reference.close()
        assert np.array_equal(reference.oracle(inputs)["out"], oracle)
    assert np.allclose(oracle, trusted, rtol=1e-5, atol=1e-4), "one start, in float64 and in float32"


def test_inputs_keep_to_the_range_of_the_file_where_that_is_needed(made):
    folder = made(BRANCH)
    task, _ = load_task(folder)
    x, y = task.inputs
    assert (x.values, y.values, y.within) == ("positive", "normal", None)
    assert x.within is not None
    assert 0.1 <= x.within[0] < 0.2
    assert 9 < x.within[1] <= 10.1
    assert "x: its result is not finite for N(0,1): it is drawn from [" in (folder / "README.md").read_text()


@pytest.mark.parametrize(("options", "code"), [((), 1), (("--anyway",), 0)])
def test_a_task_in_which_a_constant_passes(tmp_path, cli, options, code):
    (tmp_path / "op.py").write_text(textwrap.dedent(CONSTANT))
    said = cli("init", tmp_path / "task", "--from-pytorch", tmp_path / "op.py", *options)
    assert said.code == code
    assert "wrong: constant-output: out: hardly depends on the inputs" in said.out
    assert (tmp_path / "task" / "task.yaml").is_file()
    assert ("a wrong kernel may be called right there" in said.err) == (code == 1)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("def f(x):\n    return x\n", (), "defines no get_inputs(); write one"),
        ("import nothing_like_it\n", (), "line 1: ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("def f(:\n", (), "SyntaxError"),
        (
            "def f(x): return x\ndef g(x): return x\ndef get_inputs(): return []",
            (),
            "has 2 functions or modules (f, g)",
        ),
        (
            "def f(x): return x\ndef get_inputs(): return []",
            ("--entry", "h"),
            "has no function or module 'h'; it has f",
        ),
        ("def f(x): return x\ndef get_inputs(): return [1]", (), "returns something else than tensors"),
        (
            "import torch\ndef f(x): return torch.rand(3) + x\ndef get_inputs(): return [torch.rand(3)]",
            (),
            "gives other results for the same inputs",
        ),
        (
            "import torch\ndef f(x): return x * 1j\ndef get_inputs(): return [torch.rand(3)]",
            (),
            "has a tensor of complex64; tasks know",
        ),
        (
            "import torch\ndef f(x): return x[x > 0]\ndef get_inputs(): return [torch.rand(30)]",
            (),
            "line 2: how many elements its result has hangs on values",
        ),
    ],
)
def test_files_that_no_task_can_be_made_of(tmp_path, cli, text, options, said):
    (tmp_path / "op.py").write_text(text)
    done = cli("init", tmp_path / "task", "--from-pytorch", tmp_path / "op.py", *options)
    assert done.code == 2
    assert said in done.complaint
    assert done.complaint.startswith("op.py: ")
    assert not (tmp_path / "task").exists()


def test_outside_a_repository_a_new_folder_becomes_one_and_others_do_not(tmp_path, cli, git):
    (tmp_path / "op.py").write_text(textwrap.dedent(FUNCTION))
    made = cli("init", tmp_path / "task", "--from-pytorch", tmp_path / "op.py")
    assert "it is a git repository of its own, with one commit" in made.out
    assert git(tmp_path / "task", "status", "--short") == ""
    assert len(git(tmp_path / "task", "log", "--oneline").splitlines()) == 1
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine\n")
    inside = cli("init", tmp_path / "full", "--from-pytorch", tmp_path / "op.py")
    assert "look at task.yaml, commit it" in inside.out
    assert not (tmp_path / "full" / ".git").exists()


def test_nothing_is_overwritten_and_one_source_is_enough(tmp_path, cli):
    (tmp_path / "kernel.py").write_text("mine")
    done = cli("init", tmp_path, "--from-pytorch", tmp_path / "kernel.py")
    assert (done.code, (tmp_path / "kernel.py").read_text()) == (2, "mine")
    assert "has kernel.py already" in done.complaint
    both = cli("init", tmp_path / "new", "--from-pytorch", "a.py", "--from-kernelbench", "b.py")
    assert both.code == 2
    assert "--from-pytorch and --from-kernelbench: give one of them" in both.complaint
    assert "no such file" in cli("init", tmp_path / "new", "--from-pytorch", "absent.py").complaint
