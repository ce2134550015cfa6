"""A task: a reference and a kernel whose harness Ridgeline owns. The models behind `task.yaml`."""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from ridgeline.graph.values import Value

Language = Literal["c", "python", "triton", "cuda", "hip", "flydsl", "cutedsl"]
"""How the candidate is built and called. `python` is any module with an entry function, PyTorch or NumPy."""
DType = Literal[
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8", "uint8",
    "bool",
]  # fmt: skip
"""8-bit floats as PyTorch and the OCP specification have them: e4m3fn ends at 448 and has no infinity, e5m2 at 57344."""
Constness = Literal["per_call", "const", "mutated"]
"""`per_call`: new values at every call. `const`: the same for all calls of one size in the life of a process, so it
may be packed in advance, once for each size: another size comes with other values, even where its extents are the same.
`mutated`: the kernel may write to it, and what it leaves there is judged as an output."""
Spread = Literal["normal", "uniform", "positive", "integers", "mask"]
"""How values are drawn: N(0,1); U[-1,1]; U(0.1,1); whole numbers in [low, high); 0 or 1. `within` moves the second and
the third to another range."""
FLOAT8_LARGEST: dict[DType, float] = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
"""The largest number of each 8-bit type."""
Precision = Literal["strict", "relaxed", "tf32", "emulated"]
"""fp32 work: exact to fp32 rounding; other formulas for the same in fp32 allowed, though they round more (Strassen, Winograd,
a variance from one pass, fast math); TF32 products allowed; splits into several lower-precision products allowed.
Half-precision outputs always mean products summed in fp32. Outputs of 8 bits are the nearest to what `strict` or `relaxed`
asks of fp32. Integers are always exact."""
Library = Literal["forbidden", "reported", "allowed"]
"""May the result come from a vendor library or the framework's own operators?"""
Convention = Literal["out", "return"]
"""`out`: outputs are given to the kernel, after the inputs. `return`: it returns new ones (never in C)."""

NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
LABEL = re.compile(r"^[A-Za-z0-9._-]+$")


class Tensor(Value):
    """One array; each extent is a whole number or arithmetic over the shape's dimensions, for example `2*n`."""

    name: str
    shape: tuple[str, ...]
    dtype: DType = "float32"

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not NAME.match(name):
            raise ValueError(f"{name!r} is not a name; use letters, digits and _")
        return name

    @field_validator("shape", mode="before")
    @classmethod
    def _words(cls, shape: object) -> object:
        return tuple(str(extent) for extent in shape) if isinstance(shape, list | tuple) else shape


class Input(Tensor):
    """What the kernel reads."""

    constness: Constness = "per_call"
    """`const`: the same values in every call of a size, not always at the same place: what was made of them may be kept, the array not.
    `mutated`: the kernel writes to it."""
    values: Spread = "normal"
    low: int = 0
    high: int = 8
    """Bounds of `integers`; `high` is not drawn."""
    within: tuple[float, float] | None = None
    """Ends of `uniform` or `positive` numbers, instead of -1 and 1, or 0.1 and 1."""


class Output(Tensor):
    """What the kernel must write, every element of it."""


class Shape(Value):
    """One size: its dimensions by name."""

    label: str
    dims: dict[str, int]
    config_class: str = "all"
    timed: bool = True
    """False: correctness only."""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """In the mean over timed sizes: the share of calls that a service makes at it."""
    protected: bool = False
    """May lose nothing: slower with confidence, however little, is lost."""

    @field_validator("label")
    @classmethod
    def _is_a_label(cls, label: str) -> str:
        if not LABEL.match(label):
            raise ValueError(f"{label!r}: use letters, digits, '.', '_' and '-'")
        return label


class DrawnSizes(Value):
    """Sizes that the judge draws and no candidate has seen: each dimension in [low, high], `count` of them."""

    ranges: dict[str, tuple[int, int]] = Field(default_factory=dict)
    multiples: dict[str, int] = Field(default_factory=dict)
    """Dimensions that the operator wants divisible by a number."""
    count: int = Field(default=6, ge=0, le=64)


class Build(Value):
    """How a C, CUDA or HIP source becomes a library."""

    compiler: str | None = None
    """Default: gcc, nvcc, hipcc."""
    flags: tuple[str, ...] = ()


class Task(Value):
    """`task.yaml`, next to the reference and the candidate's source."""

    task: Literal[1] = 1
    """Version of this format."""
    name: str = Field(pattern=r"^[a-z0-9_]+$")
    """Small letters, digits and `_`."""
    language: Language
    source: tuple[str, ...] = Field(min_length=1)
    """The candidate's files, relative to this file's folder; nothing else of the folder reaches it."""
    entry: str
    """Function of the first source file. C: `void entry(inputs..., outputs..., int64_t dims...)`, pointers to
    contiguous arrays. Others: called with the inputs, then the outputs where the convention is `out`."""
    arguments: tuple[str, ...] = ()
    """Order of the arguments by name, dimensions included; default: inputs, outputs (if `out`), in C dimensions."""
    reference: str = "reference.py"
    """Trusted Python with `reference(inputs...)` and the outputs as its result, in NumPy or PyTorch."""
    convention: Convention = "out"
    """`out`: outputs are given to the kernel, after the inputs. `return`: it returns new ones (never in C)."""
    inputs: tuple[Input, ...] = Field(min_length=1)
    outputs: tuple[Output, ...] = ()
    """None where the kernel only changes inputs that are `mutated`."""
    shapes: tuple[Shape, ...] = Field(min_length=1)
    """Public sizes; the timed ones are measured."""
    drawn: DrawnSizes = DrawnSizes()
    precision: Precision = "strict"
    """fp32 work: `strict`: to fp32 rounding. `relaxed`: other formulas for the same in fp32, which round more (Strassen,
    Winograd, a variance from one pass, fast math). `tf32`: TF32 products. `emulated`: splits into lower-precision products."""
    library: Library = "reported"
    """Whether the result may come from a vendor library or the framework's own operators."""
    cache: Literal["cold", "warm"] = "warm"
    """Whether timed calls find their inputs in the last cache."""
    bytes: str | None = None
    """Least bytes that one call must move, as arithmetic over the dimensions."""
    flops: str | None = None
    """Operations of one call, as arithmetic over the dimensions."""
    build: Build = Build()
    threads: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        names = [tensor.name for tensor in (*self.inputs, *self.outputs)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"inputs and outputs: {', '.join(twice)} is named twice")
        if not self.outputs and all(tensor.constness != "mutated" for tensor in self.inputs):
            raise ValueError("outputs: there is none, and no input is mutated; name what the kernel writes")
        dims = set(self.shapes[0].dims)
        for shape in self.shapes:
            if set(shape.dims) != dims:
                raise ValueError(f"shapes: {shape.label} has other dimensions than {self.shapes[0].label}")
        if unknown := sorted(set(self.drawn.ranges) - dims):
            raise ValueError(f"drawn.ranges: {', '.join(unknown)} is no dimension of the shapes")
        if self.language in ("c", "cuda", "hip") and self.convention == "return":
            raise ValueError("convention: a C function returns no array; use out")
        if unknown := sorted(set(self.arguments) - {*names, *dims}):
            raise ValueError(f"arguments: {', '.join(unknown)} is neither an input, an output nor a dimension")
        return self

    @property
    def order(self) -> tuple[str, ...]:
        """Names of a task's arguments, in order."""
        if self.arguments:
            return self.arguments
        out = tuple(tensor.name for tensor in self.outputs) if self.convention == "out" else ()
        dims = tuple(self.shapes[0].dims) if self.language in ("c", "cuda", "hip") else ()
        return (*(tensor.name for tensor in self.inputs), *out, *dims)

    def dtype_of(self, name: str) -> DType:
        """Type of the task's input or output of that name; it must be there."""
        return next(tensor.dtype for tensor in (*self.inputs, *self.outputs) if tensor.name == name)

    @property
    def timed(self) -> tuple[Shape, ...]:
        """The sizes of a task that are measured."""
        return tuple(shape for shape in self.shapes if shape.timed)
