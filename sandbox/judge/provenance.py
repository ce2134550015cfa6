"""Is it the candidate's own work? What it calls, what it leaves undefined, and whether its kernels make the output."""

import base64
import binascii
import os
import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from ridgeline.graph.judgment import QuestionAnswer
from ridgeline.graph.task import DType, Shape, Task, Tensor
from ridgeline.graph.values import Value
from ridgeline.sandbox.judge.dtypes import FLOAT8, Floats, from_float64, is_float, to_float64, unit
from ridgeline.sandbox.judge.freeze import Frozen
from ridgeline.sandbox.judge.inputs import MIXES, PARTS, axis_lengths, draw
from ridgeline.sandbox.judge.options import answer_no, answer_unverified, answer_yes
from ridgeline.sandbox.judge.pool import PoisonPool
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import BrokenWorker, SealedCall, Session
from ridgeline.sandbox.judge.shared_buffers import PLACEMENTS
from ridgeline.sandbox.judge.worker import COMPILED, WorkerLost, WorkerMode, build_without_runtime, names_compiler

# Was an array made, or does it only look like the answer? A fill or a copy comes near to many answers.

TRIVIAL_NEARNESS = 0.1
"""An output that misses the right one by less than a tenth of what a fill or a copy misses it by, in L2 or in whole
numbers that differ, was made: what lies in memory by chance is not."""
MANY_ELEMENTS = 16
"""Elements from which on the best constant is a fill; of fewer it would be the answer itself."""
ROUNDING_UNITS = 2.0
"""Of an output that was made, in units of its type."""


def find_rounding(dtype: DType) -> float:
    """By what share of its size an output that was made may be off: of 8 bits by no more than its own rounding."""
    return (1.0 if dtype in FLOAT8 else ROUNDING_UNITS) * unit(dtype)


def is_made(
    values: Floats,
    right: Floats,
    *,
    dtype: DType,
    inputs: Mapping[str, Floats],
    before: Floats | None = None,
    filling: Floats | None = None,
) -> bool | None:
    """For the judge: whether `values` are the right ones, and not only as near to them as zeros, one number or a copy would be.

    `inputs`: the task's; `before`: what a mutated array held; `filling`: what an output held, which may be a right answer
    to other inputs. None where a fill or a copy is the right answer.
    """
    fills = [np.zeros(1) if before is None else before, *_input_copies(right, inputs)]
    if filling is not None and np.isfinite(filling).all():
        fills.append(filling)
    if is_float(dtype):
        return _is_made_float(values, right, fills, inputs, find_rounding(dtype))
    missed = float(np.mean(values != right))
    if missed > TRIVIAL_NEARNESS:
        return False
    if right.size >= MANY_ELEMENTS:
        numbers, counts = np.unique(right, return_counts=True)
        fills.append(numbers[[np.argmax(counts)]])
    least = min(float(np.mean(right != fill)) for fill in fills)
    if missed > TRIVIAL_NEARNESS * least:
        return False
    return True if least else None


def _is_made_float(
    values: Floats, right: Floats, fills: list[Floats], inputs: Mapping[str, Floats], rounding: float
) -> bool | None:
    """For the judge: whether float values are made, by L2. First what any other array is: far away, when nothing else is looked at."""
    where = np.isfinite(right)
    with np.errstate(all="ignore"):
        away = float(np.linalg.norm((values - right)[where]))
        size = float(np.linalg.norm(right[where]))
        if not away <= (TRIVIAL_NEARNESS + rounding) * size:
            return False
        if right.size >= MANY_ELEMENTS and where.any():
            fills = [*fills, np.full(1, np.mean(right[where]))]
        least = min(float(np.linalg.norm((right - fill)[where])) for fill in fills)
        # what only moves from an input to its place can be copied there by anybody
        is_input_value = np.isin(
            right, np.concatenate([np.zeros(0), *(array.reshape(-1) for array in inputs.values())])
        )
        computed = float(np.linalg.norm(right[where & ~is_input_value]))
    least = min(least, computed) if computed else least
    if not away <= TRIVIAL_NEARNESS * least + rounding * size:
        return False
    return True if least > 4 * rounding * size else None


def _input_copies(right: Floats, inputs: Mapping[str, Floats]) -> Iterator[Floats]:
    """Inputs as they are, where they fit the judged output: a copy of one is no work."""
    for array in inputs.values():
        if array.size == right.size:
            yield array.reshape(right.shape)
        elif array.ndim <= right.ndim and all(
            a in (1, b) for a, b in zip(array.shape[::-1], right.shape[::-1], strict=False)
        ):
            yield array


# Did others put the result where a kernel only moved it? What the arguments of kernels held that did nothing.
#
# In the run without its kernels, a worker says what every argument held just before each launch: values at even
# distances as they lie in memory, and of the same values sorted. It is a claim, and is only held against the candidate.

LAUNCH_REPORT = TypeAdapter(dict[str, list[tuple[str, int, str]]])
SAMPLED_ELEMENTS = 64
"""Values of either order, as in the worker."""
COPY_CLOSE = 1e-3
"""Of the values' size: the slack of a result that was computed in another precision."""
FEW_VALUES = 8
"""Of fewer elements all are compared, and none may be a plain 0 or 1."""
RANKED_VALUES = 32
"""Of a sample that must differ for their order to mean something."""
UNORDERED_SHARE = 0.1
"""Of neighbours in a sample that rise, or fall, at least, where it has no order; roundings of equal values turn a few."""
DISTINCT_VALUES = 4
"""Values of a sample that must differ for equality to mean something."""
MEMBER_ELEMENTS = 64
"""Elements of an output from which on single values can be found again in it."""
NEARER_FACTOR = 0.05
"""Of the distance between neighbours in the output: a stranger's value lies a quarter away."""
FARTHER_FACTOR = 10.0
"""So much farther from the inputs a value must lie than from the output to be none of theirs."""


@dataclass(frozen=True, kw_only=True)
class LaunchArgument:
    """One argument of one launch."""

    kernel: str
    size: int
    """Elements of the array."""
    lying: Floats
    """A sample in the order of the array."""
    sorted: Floats | None
    """A sample of the sorted values; None where sorting was too much."""


@dataclass(frozen=True, kw_only=True)
class RightOutput:
    """What one output should be, beside the task's inputs. Where the arrays lie only these methods know."""

    dtype: DType
    values: Any
    inputs: Mapping[str, Any]

    @property
    def size(self) -> int:
        """Elements of the judged output."""
        return int(self.values.size)

    def sizes(self) -> dict[str, int]:
        """Elements of the judged call's inputs."""
        return {name: array.size for name, array in self.inputs.items()}

    def has_numbers(self) -> bool:
        """For the judge: whether any element of the right output is finite."""
        return bool(np.isfinite(self.values).any())

    def sample(self, name: str | None = None, *, ordered: bool = False) -> Floats:
        """For the judge: what a worker would tell of an input (None: of the output), as it lies or sorted."""
        array = self._array(name)
        return sample_elements(np.sort(array, axis=None) if ordered else array)

    def share_of_inputs(self, values: Floats) -> float:
        """For the judge: how many of these values, in float32, are those of inputs."""
        inputs = [array.reshape(-1) for array in self.inputs.values()]
        return float(np.mean(np.isin(values, np.concatenate(inputs).astype(np.float32))))

    def levels(self, name: str | None = None) -> Any:
        """For the judge: different finite values of an input (None: of the output), sorted."""
        array = self._array(name)
        return np.unique(array[np.isfinite(array)])

    def find_nearest(self, values: Floats, levels: Any) -> "NearestLevels":
        """For the judge: of each value, what lies beside it among the levels, of which there are two and more."""
        places = np.searchsorted(levels, values)
        at = np.clip(places, 1, len(levels) - 1)
        return NearestLevels(values=values, places=places, low=levels[at - 1], high=levels[at])

    def _array(self, name: str | None) -> Any:
        return self.values if name is None else self.inputs[name]


@dataclass(frozen=True, kw_only=True)
class NearestLevels:
    """Values, and what lies beside each of them."""

    values: Floats
    places: NDArray[np.int64]
    """Where each would have to be put to keep the order."""
    low: Floats
    high: Floats

    @property
    def distances(self) -> Floats:
        """For the judge: how far each value is from the nearest known one."""
        return np.minimum(np.abs(self.values - self.low), np.abs(self.high - self.values))

    @property
    def gaps(self) -> Floats:
        """For the judge: how far the neighbours of each are from each other."""
        return self.high - self.low


def read_launch_report(report: bytes) -> tuple[LaunchArgument, ...] | None:
    """For the judge: the report of a worker whose kernels do nothing; None for one that is no report."""
    try:
        rows = LAUNCH_REPORT.validate_json(report).get("held", [])
        return tuple(argument for kernel, size, packed in rows if (argument := _parse_argument(kernel, size, packed)))
    except (ValidationError, ValueError, binascii.Error):
        return None


def _parse_argument(kernel: str, size: int, packed: str) -> LaunchArgument | None:
    values = np.frombuffer(base64.b64decode(packed, validate=True), np.float32).astype(np.float64)
    count = min(size, SAMPLED_ELEMENTS)
    if count < 1 or len(values) not in (count, 2 * count):
        return None
    return LaunchArgument(
        kernel=kernel[:80], size=size, lying=values[:count], sorted=values[count:] if len(values) > count else None
    )


def find_copied_output(arguments: tuple[LaunchArgument, ...], right: RightOutput) -> str | None:
    """For the judge: the kernel that was given the output ready-made; None when none was seen.

    The same numbers, in order or out of it, whole or a part among others, or each changed in the same way, as by a factor or
    a logarithm. What an input holds as it is given counts
    for nothing: a kernel may move that, where moving is the task.
    """
    if right.size == 0 or not right.has_numbers():
        return None
    return next(
        (
            argument.kernel
            for argument in arguments
            if _is_output(argument, right) or _is_changed_output(argument, right) or _is_part_of_output(argument, right)
        ),
        None,
    )


def sample_elements(values: Floats) -> Floats:
    """For the judge: of an array as it lies, at the places where a worker takes it; in float32, as it is told."""
    flat = values.reshape(-1)
    if flat.size > SAMPLED_ELEMENTS:
        flat = flat[[k * (flat.size - 1) // (SAMPLED_ELEMENTS - 1) for k in range(SAMPLED_ELEMENTS)]]
    with np.errstate(over="ignore"):
        return flat.astype(np.float32).astype(np.float64)


def _is_output(argument: LaunchArgument, right: RightOutput) -> bool:
    """For the judge: whether an argument of the output's size is the output."""
    if argument.size != right.size:
        return False
    expected = right.sample()
    tight = _is_of_inputs(argument, right)
    fitting = [name for name, size in right.sizes().items() if size == right.size]
    if _has_same_values(argument.lying, expected, right.dtype, tight=tight):
        return not any(_has_same_values(right.sample(name), expected, right.dtype) for name in fitting)
    if argument.sorted is None or not is_float(right.dtype):
        return False
    expected = right.sample(ordered=True)
    if not _has_same_values(argument.sorted, expected, right.dtype, tight=tight):
        return False
    return not any(_has_same_values(right.sample(name, ordered=True), expected, right.dtype) for name in fitting)


def _is_changed_output(argument: LaunchArgument, right: RightOutput) -> bool:
    """For the judge: whether an argument of the output's size rises, or falls, wherever the output rises: a kernel had but to undo
    one change of all its elements. What rises with the place as well is none: the places themselves may be an argument."""
    if argument.size != right.size or not is_float(right.dtype):
        return False
    expected = right.sample()
    where = np.isfinite(expected) & np.isfinite(argument.lying)
    values, places = np.unique(expected[where], return_index=True)
    if len(values) < RANKED_VALUES or _is_ordered(expected[where]):
        return False
    lying = argument.lying[where][places]
    if not _is_ordered(lying) or len(np.unique(lying)) < len(values) / 2:
        return False
    fitting = [name for name, size in right.sizes().items() if size == right.size]
    return not any(_is_ordered(right.sample(name)[where][places]) for name in fitting)


def _is_ordered(values: Floats) -> bool:
    """For the judge: whether a sample rises, or falls, nearly everywhere; by chance it does both about as often."""
    rising = float(np.mean(np.diff(values) > 0))
    return not UNORDERED_SHARE < rising < 1 - UNORDERED_SHARE


def _is_of_inputs(argument: LaunchArgument, right: RightOutput) -> bool:
    """For the judge: whether its values are those of inputs: then others may have moved them, and only equality tells the output."""
    return bool(right.inputs) and right.share_of_inputs(argument.lying) > 1 / 2


def _has_same_values(sample: Floats, expected: Floats, dtype: DType, *, tight: bool = False) -> bool:
    where = np.isfinite(expected)
    if not where.any() or not np.array_equal(where, np.isfinite(sample)):
        return False
    values = expected[where]
    if len(expected) < FEW_VALUES:
        if np.isin(values, (0.0, 1.0, -1.0)).any():
            return False
    elif len(np.unique(values)) < DISTINCT_VALUES:
        return False
    size = float(np.sqrt(np.mean(values**2)))
    slack = (1 if dtype in FLOAT8 else 4) * unit(dtype) + (COPY_CLOSE if is_float(dtype) and not tight else 0.0)
    return bool(np.all(np.abs(sample[where] - values) <= slack * np.maximum(size, np.abs(values))))


def _is_part_of_output(argument: LaunchArgument, right: RightOutput) -> bool:
    """For the judge: whether its values can be found again in the output one by one, and not in the inputs."""
    if not is_float(right.dtype):
        return False
    output_values = right.levels()
    values = np.unique(argument.lying[np.isfinite(argument.lying)])
    values = values[~np.isin(values, (0.0, 1.0, -1.0))]
    if len(output_values) < max(MEMBER_ELEMENTS, right.size // 4) or len(values) < MEMBER_ELEMENTS // 4:
        return False
    nearest = right.find_nearest(values, output_values)
    # what lay in memory by chance is often many numbers beside zero, and so beside a single one of the output's
    if len(np.unique(nearest.places)) < MEMBER_ELEMENTS // 4:
        return False
    distance = np.median(nearest.distances)
    if distance > NEARER_FACTOR * np.median(nearest.gaps):
        return False
    return all(
        np.median(right.find_nearest(values, levels).distances) > FARTHER_FACTOR * distance
        for levels in map(right.levels, right.inputs)
        if len(levels) > 1
    )


# What a traced worker says that it called: which of it computes, and how much of the task's data that was.

OperatorKind = Literal[
    "operators", "functions", "kernels", "loads", "starts", "connects", "modules", "escapes", "oddities"
]
OperatorCounts = Annotated[tuple[int, int], Field(strict=False)]
TRACE_REPORT = TypeAdapter(dict[OperatorKind, dict[str, OperatorCounts]])
MINOR_OPERATORS = 1 / 16
"""Share of the task's elements below which an operator only finishes what a kernel did: adding up the sums of blocks
takes a thousandth, one pass over a single input or output a quarter and more."""
MANY_OUTPUTS_SHARE = 1 / 256
"""Share of the task's elements from which on outputs are many: then twice the outputs are what an operator is held
against, since inputs may hardly be read. Of fewer, as sums have, an operator may add up what blocks left."""
MOST_LISTED = 6
GLUE_OPERATORS = frozenset(
    """
    empty empty_like empty_strided new_empty new_empty_strided new_zeros new_full new_ones zeros zeros_like zero_
    ones ones_like full full_like fill_ fill scalar_tensor arange lift_fresh lift_fresh_copy view _unsafe_view
    reshape _reshape_alias as_strided as_strided_ expand permute transpose t t_ transpose_ squeeze squeeze_
    unsqueeze unsqueeze_ slice select narrow split split_with_sizes chunk unbind unfold flatten unflatten movedim
    swapaxes detach detach_ alias clone copy_ copy _to_copy to contiguous set_ resize_ is_pinned pin_memory
    _local_scalar_dense item view_as_real view_as_complex real imag diagonal broadcast_to broadcast_arrays cat
    concatenate stack hstack vstack is_same_size equal sym_size sym_stride sym_numel sym_storage_offset size
    stride numel record_stream _pin_memory atleast_1d atleast_2d ravel copyto ascontiguousarray array_equal
    shares_memory may_share_memory ndim shape result_type min_scalar_type can_cast
    pad constant_pad_nd _pad_enum _pad_circular reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d flip fliplr flipud roll rot90 rollaxis repeat tile pixel_shuffle
    pixel_unshuffle channel_shuffle native_channel_shuffle im2col unfold_copy expand_as view_as type_as reshape_as
    expand_copy permute_copy transpose_copy view_copy slice_copy select_copy split_copy narrow_copy unbind_copy
    squeeze_copy unsqueeze_copy as_strided_copy alias_copy diagonal_copy slice_scatter select_scatter
    diagonal_scatter as_strided_scatter diag diag_embed diagflat block_diag moveaxis swapdims expand_dims
    tensor_split unsafe_split unsafe_split_with_sizes unsafe_chunk hsplit vsplit dsplit array_split column_stack
    row_stack dstack block atleast_3d meshgrid eye empty_permuted _foreach_copy_ _foreach_zero_ lift
    asarray asanyarray asfortranarray require broadcast_shapes iscontiguous is_contiguous
    """.split()  # noqa: SIM905  a table, not code
)
"""Operators that make, view, move or describe arrays without computing a value. Where something is moved to hangs on
shapes alone: what is looked up by values (index, gather, take, repeat_interleave, masks) is an operator's work."""
OWN_NAMESPACES = ("aten", "prims", "numpy")
"""Whose operators are the framework's."""
ENGINE_LIBRARIES = (
    "blas",
    "mkl",
    "lapack",
    "dnnl",
    "cudnn",
    "cufft",
    "cusolver",
    "cusparse",
    "miopen",
    "rocfft",
    "cutlass",
    "torch",
)
"""Parts of the names of libraries that have the work done already."""


class TracedOperators(Value):
    """What was called in the traced run, by kind and name: how often, and of how many elements. A claim."""

    calls: Mapping[OperatorKind, Mapping[str, tuple[int, int]]]

    def names(self, kind: OperatorKind) -> tuple[str, ...]:
        """For the judge: in the order in which they were first seen."""
        return tuple(self.calls.get(kind, {}))

    def computing(self, elements: int, outputs: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """For the judge: operators that compute: those with a real share of `elements`, all that the calls had, and the minor ones.

        `outputs`: how many of them are results.
        """
        most = least_share(elements, outputs)
        counts = {
            name: counted
            for kind in ("operators", "functions")
            for name, counted in self.calls.get(kind, {}).items()
            if name.partition(".")[0] in OWN_NAMESPACES and name.rpartition(".")[2] not in GLUE_OPERATORS
        }
        major = [name for name, (_, touched) in counts.items() if touched > most]
        return tuple(major), tuple(name for name in counts if name not in major)

    def left(self, elements: int, outputs: int = 0) -> tuple[str, ...]:
        """For the judge: how a real share of the data was taken to where nobody sees what is done with it."""
        most = least_share(elements, outputs)
        return tuple(name for name, (_, touched) in self.calls.get("escapes", {}).items() if touched > most)

    def foreign(self) -> tuple[str, ...]:
        """For the judge: operators of neither the framework nor NumPy: somebody registered them."""
        return tuple(name for name in self.names("operators") if name.partition(".")[0] not in OWN_NAMESPACES)

    def engines(self) -> tuple[str, ...]:
        """For the judge: libraries of ready-made operators that were loaded by name."""
        return tuple(name for name in self.names("loads") if any(part in name.lower() for part in ENGINE_LIBRARIES))


def least_share(elements: int, outputs: int) -> float:
    """For the judge: elements above which an operator has a real share of a task with so many, `outputs` of them results."""
    return MINOR_OPERATORS * (min(elements, 2 * outputs) if outputs > MANY_OUTPUTS_SHARE * elements else elements)


def read_trace_report(report: bytes) -> TracedOperators | None:
    """For the judge: the report of a traced worker; None for one that is no report."""
    try:
        return TracedOperators(calls=TRACE_REPORT.validate_json(report))
    except ValidationError:
        return None


def list_some(names: tuple[str, ...]) -> str:
    """A few names that a judgment tells of, and how many more."""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"{', '.join(name[:80] for name in names[:MOST_LISTED])}{more}"


# What a built library takes from elsewhere: names that it leaves undefined, and what each of them means.

SymbolKind = Literal["plain", "library", "loader", "starter", "network", "unknown"]
"""plain: the C runtime. library: ready-made operators. loader, starter, network: ways to have others do the work."""

DYNSYM = 11
"""Section type of the dynamic symbol table (ELF specification, SHT_DYNSYM)."""
DYNAMIC = 6
NEEDED = 1
LARGEST_LIBRARY = 256 << 20

LIBRARY_CALLS = re.compile(
    r"(scipy_)?cblas_|LAPACKE_|lapack_|openblas|mkl_|MKL_|dnnl|bli_|clblast|fftw|gsl_|arm_|vDSP"
    r"|cublas|cudnn|cusparse|cusolver|cufft|cutensor|rocblas|hipblas|miopen|rocfft|hipfft|nccl|aoti_torch"
    r"|_ZN2at|_ZN3c10|_ZN5torch"
    r"|(s|d|c|z|sb|sh)(gemm|gemv|symm|syrk|trsm|trmm|ger|axpy|scal|dot|dotu|nrm2|asum|gesv|getrf|potrf|geqrf)"
    r"(3m)?(_|_64_|64_)?$"
)
LOADER_CALLS = re.compile(
    r"_?_?(dlopen|dlmopen|dlsym|dlvsym|dladdr1?|dl_iterate_phdr|libc_dl\w+|mprotect|memfd_create|shm_open)$"
)
STARTER_CALLS = re.compile(
    r"_?_?(system|popen|v?fork|clone3?|posix_spawnp?|exec[lv]p?e?|fexecve|syscall|ptrace|process_vm_\w+|kill|prctl"
    r"|pthread_kill|signal|sigaction|setitimer|timer_\w+)$"
)
NETWORK_CALLS = re.compile(
    r"(socket(pair)?|connect|bind|listen|accept4?|send(to|msg)?|recv(from|msg)?|getaddrinfo|gethostbyname\w*)$"
)
MATH_CALLS = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor
    fma fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround
    modf nearbyint nextafter pow remainder remquo rint round scalbln scalbn sin sincos sinh sqrt tan tanh tgamma
    trunc y0 y1 yn
    cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj cpow cproj creal csin
    csinh csqrt ctan ctanh
    canonicalize drem finite fmaximum fmaximum_mag fmaximum_mag_num fmaximum_num fmaxmag fminimum fminimum_mag
    fminimum_mag_num fminimum_num fminmag fromfp fromfpx gamma llogb nan nextdown nexttoward nextup pow10 roundeven
    scalb significand totalorder totalordermag ufromfp ufromfpx
    acospi asinpi atan2pi atanpi compoundn cospi exp10m1 exp2m1 log10p1 log2p1 logp1 pown powr rootn rsqrt sinpi tanpi
"""
"""C99 with complex numbers, TS 18661 and C23, and what the GNU library has besides."""
RUNTIME_CALLS = """
    malloc calloc realloc reallocarray free cfree aligned_alloc posix_memalign memalign valloc pvalloc mallopt
    malloc_trim malloc_usable_size mlock munlock mmap mmap64 mremap munmap madvise posix_madvise mincore msync
    abort atexit exit _exit _Exit quick_exit at_quick_exit abs labs llabs imaxabs div ldiv lldiv imaxdiv
    ffs ffsl ffsll qsort qsort_r bsearch
    rand srand rand_r random srandom random_r srandom_r initstate initstate_r setstate drand48 erand48 lrand48
    nrand48 mrand48 jrand48 srand48 seed48 drand48_r lrand48_r srand48_r getrandom getentropy arc4random
    memcpy memmove memset memcmp memchr memrchr rawmemchr memmem memccpy mempcpy bcmp bcopy bzero explicit_bzero
    wmemcpy wmemmove wmemset wmemcmp wmemchr wcslen swab index rindex
    strlen strnlen strcmp strncmp strcasecmp strncasecmp strcoll strcpy strncpy stpcpy stpncpy strlcpy strlcat strcat
    strncat strchr strchrnul strrchr strstr strcasestr strspn strcspn strpbrk strtok strtok_r strsep strdup strndup
    strerror strerror_r strverscmp strxfrm
    isalnum isalpha isascii isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit tolower
    toupper toascii
    atof atoi atol atoll strtof strtod strtold strtol strtoll strtoul strtoull strtoimax strtoumax strfromf strfromd
    sprintf snprintf vsprintf vsnprintf asprintf vasprintf printf vprintf fprintf vfprintf dprintf vdprintf puts
    putchar putc fputs fputc fwrite fread fflush scanf sscanf vsscanf fscanf getc fgetc getchar ungetc fgets getline
    fopen fopen64 fdopen fclose fileno feof ferror clearerr fseek fseeko ftell ftello rewind setbuf setvbuf stdin
    stdout stderr perror open open64 close read pread pread64 write pwrite lseek lseek64 fstat fstat64 unlink
    getenv secure_getenv environ errno getauxval __getauxval getpid gettid getpagesize sysconf get_nprocs
    get_nprocs_conf getrusage getrlimit gnu_get_libc_version
    sched_yield sched_getcpu sched_getaffinity sched_setaffinity sched_getscheduler sched_getparam
    sched_get_priority_max sched_get_priority_min getcpu getpriority
    time times clock clock_getres clock_gettime clock_nanosleep gettimeofday timespec_get difftime nanosleep usleep
    sleep gmtime gmtime_r localtime localtime_r mktime strftime
    fesetround fegetround feclearexcept fedisableexcept feenableexcept fegetenv fegetexcept fegetexceptflag fegetmode
    feholdexcept feraiseexcept fesetenv fesetexcept fesetexceptflag fesetmode fetestexcept fetestexceptflag
    feupdateenv matherr signgam __signgam setjmp _setjmp __sigsetjmp longjmp _longjmp __longjmp_chk
    __libc_single_threaded __memcmpeq __rawmemchr __strdup __strndup __strtok_r __stpcpy __mempcpy __bzero
    __chk_fail __fdelt_chk __dynamic_cast
"""
"""Memory, strings, numbers as text, files, random numbers, time, and where it runs: what a plain kernel may call."""
PLAIN_NAMES = frozenset(RUNTIME_CALLS.split())
WIDTH = r"(?:[fl]|f16|bf16|f32x?|f64x?|f128)?(?:_r)?"
"""Of numbers: what the C library appends to the names of functions."""
NARROWED = r"(?:f|d|f32x?|f64x?)(?:add|sub|mul|div|fma|sqrt)(?:l|f32x|f64x?|f128)?"
PLAIN_SYMBOLS = re.compile(
    r"__(stack_chk_\w+|cxa_\w+|gmon_start__|errno_location|tls_get_addr|(mem|wmem|str|stp|explicit_bzero)\w*_chk"
    r"|v?[adfs]?n?printf_chk|f(gets|read)_chk|p?read_chk|isoc\d+_\w+|assert\w*|ctype\w*"
    r"|sched_cpu\w+|g(cc|xx)_personality_v0|sync_\w+|aarch64_(cas|swp|ld)\w+|gnu_[fh]2[fh]_ieee"
    rf"|(finite|isnan|isinf|signbit|fpclassify|issignaling|iseqsig|iscanonical|clog10){WIDTH}"
    r"|dso_handle|register_atfork|powi?[sdtx]f2|\w+_finite"
    r"|(add|sub|mul|div|mod|u?div|u?mod|neg|fix|float|ext|trunc|cmp|ashl|ashr|lshr|pow|mulo?|bswap|ffs|clz|ctz"
    r"|popcount|parity|absv|clrsb)\w*[sdtxhb]\w?[234]?|(eq|ne|l[et]|g[et]|unord)[sdtxhb]f2|ucmp[sdt]i2"
    r"|cpu_(model|indicator_init|features2?)|emutls_get_address)$"
    r"|_ITM_\w+|_Unwind_\w+|GOMP_\w+|omp_\w+|GOACC_\w+|__kmpc_\w+|pthread_\w+|thrd_\w+|mtx_\w+|cnd_\w+|call_once"
    r"|tss_\w+|sem_\w+|atomic_\w+|__atomic_\w+|_ZGV\w+|__svml_\w+|_Z(n|d)[wa]\w*|_ZN?K?St\w*|_ZNK?S\w*|_ZT[CISTV]\w*"
    rf"|acc_\w+|(?:isnan|isinf|[sg]etpayload|setpayloadsig|{'|'.join(MATH_CALLS.split())}){WIDTH}$|{NARROWED}$"
)
NEEDED_PLAIN = re.compile(
    r"(libc|libm|libmvec|libdl|librt|libpthread|ld-linux-[\w-]+|libgcc_s|libstdc\+\+|libgomp|libomp|libiomp5|libatomic)"
    r"\.so[.\d]*"
)
NEEDED_DEVICE = re.compile(r"(libcudart|libcuda|libamdhip64|libhsa-runtime64)\.so[.\d]*")
DEVICE_SYMBOLS = re.compile(r"(cuda|__cuda|cu|hip|__hip|hsa_)[A-Z_]\w*|__cudaRegister\w*|__hipRegister\w*")
SYMBOL_PATTERNS: tuple[tuple[SymbolKind, re.Pattern[str]], ...] = (
    ("library", LIBRARY_CALLS), ("loader", LOADER_CALLS), ("starter", STARTER_CALLS), ("network", NETWORK_CALLS),
)  # fmt: skip


class UndefinedSymbols(Value):
    """What a library does not bring itself."""

    symbols: tuple[str, ...]
    """Undefined names of its dynamic symbol table."""
    needed: tuple[str, ...]
    """Libraries that it has loaded with it."""


class NotALibrary(ValueError):
    """A file that is no 64-bit little-endian ELF library, or a damaged one."""


def read_undefined_symbols(data: bytes) -> UndefinedSymbols:
    """For the judge: read the library of these bytes; nothing of it is run. Raises NotALibrary."""
    if len(data) > LARGEST_LIBRARY or data[:6] != b"\x7fELF\x02\x01":
        raise NotALibrary("what was built is no 64-bit ELF library")
    try:
        sections = [*_read_sections(data)]
        symbols = [
            name for kind, *where in sections if kind == DYNSYM for name in _list_undefined(data, sections, where)
        ]
        needed = [name for kind, *where in sections if kind == DYNAMIC for name in _list_needed(data, sections, where)]
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotALibrary(f"what was built is damaged ({error})") from None
    if not any(kind == DYNSYM for kind, *_ in sections):
        raise NotALibrary("what was built has no table of dynamic symbols")
    return UndefinedSymbols(symbols=tuple(dict.fromkeys(symbols)), needed=tuple(needed))


def symbol_kind(symbol: str, *, device: bool = False) -> SymbolKind:
    """For the judge: what it means that a library takes this name from elsewhere. `device`: the runtime of GPUs counts as plain."""
    name = symbol.split("@")[0]
    for kind, pattern in SYMBOL_PATTERNS:
        if pattern.match(name):
            return kind
    if device and DEVICE_SYMBOLS.match(name):
        return "plain"
    return "plain" if name in PLAIN_NAMES or PLAIN_SYMBOLS.match(name) else "unknown"


def is_plain_library(name: str, *, device: bool = False) -> bool:
    """For the judge: whether a library that is loaded with it is the C runtime, or the runtime of GPUs where that is the language."""
    return bool(NEEDED_PLAIN.fullmatch(name) or (device and NEEDED_DEVICE.fullmatch(name)))


def _read_sections(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Type, offset, size and linked section of each section of a judged library."""
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for index in range(count):
        at = start + index * size
        (kind,) = struct.unpack_from("<I", data, at + 4)
        offset, length = struct.unpack_from("<QQ", data, at + 24)
        (link,) = struct.unpack_from("<I", data, at + 40)
        yield kind, offset, length, link


def _list_undefined(data: bytes, sections: list[tuple[int, int, int, int]], where: list[int]) -> Iterator[str]:
    offset, size, link = where
    names = sections[link][1]
    for at in range(offset + 24, offset + size, 24):  # the first entry is empty
        name, _, _, section = struct.unpack_from("<IBBH", data, at)
        if section == 0:
            yield _read_text(data, names + name)


def _list_needed(data: bytes, sections: list[tuple[int, int, int, int]], where: list[int]) -> Iterator[str]:
    offset, size, link = where
    for at in range(offset, offset + size, 16):
        tag, value = struct.unpack_from("<qQ", data, at)
        if tag == NEEDED:
            yield _read_text(data, sections[link][1] + value)


def _read_text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="replace")


# The calls of a run that asks whose work it is, and whether a candidate works less where nobody looks.

CALL_S = 120.0
PACE_REPEATS = 3
LATE_CALLS = (40, 160)
"""Every timed size is called so often more, a secret number between these: what works itself only in its first calls is
found by what it does then, traced and without its kernels alike."""
LATE_S = 3.0
"""Seconds for them, of which each timed size has an equal share."""
REPEAT_S = 3.0
"""A size is called again, up to so often, while its calls took less: first calls compile, and start the profiler."""
SLOWER_FACTOR = 10.0
SLACK_US = {"cpu": 10_000.0, "cuda": 50_000.0}
"""A traced call may take so many times what a plain one takes, and so much more: noting operators takes some ms."""


@dataclass
class PaceCalls:
    """Of a run: the shortest call of each size in us, and the elements that all calls had."""

    least_us: dict[str, float] = field(default_factory=dict)
    elements: int = 0
    outputs: int = 0
    """Of the elements, those of results."""

    def add(self, task: Task, shape: Shape, wall_us: float, *, late: bool = False) -> None:
        """One judged call more. `late`: times of calls late in a process count for themselves."""
        label = f"{shape.label}, late" if late else shape.label
        self.least_us[label] = min(wall_us, self.least_us.get(label, wall_us))
        self.elements += total_elements(shape, (*task.inputs, *task.outputs))
        self.outputs += total_elements(shape, call_results(task))


UNUSUAL_CALLS, UNUSUAL_WITHIN = 2, 20
"""Of the first calls late in a process, so many at secret places have values of another kind, as between timed calls."""


class WorkCalls:
    """Calls that own work is judged by, and what they show: with arrays of NumPy.

    A process that is asked whose work it is lives as a timed one does, but for being traced or without its kernels:
    the same sizes first, locked at the same point, empty calls, arrays at either place, outputs filled by the same policy,
    unusual values in between. What a candidate could tell one from the other by would hide others' work.
    """

    def __init__(self, task: Task, reference: Reference | None = None, *, locks: bool = True) -> None:
        """`reference`: needed by what asks what is right. `locks`: timed processes are kept from starting others."""
        self.task, self._reference, self._locks = task, reference, locks
        self._consts: dict[str, Mapping[str, Any]] = {}
        self._poisons: dict[str, PoisonPool] = {}
        self._decoys: dict[str, Mapping[str, Any]] = {}
        self._fillings: Mapping[str, Any] = {}

    def begin(self, session: Any, shapes: Sequence[Shape]) -> BrokenWorker | None:
        """For the judge: what comes before the first call that counts, as timed processes have it."""
        self._decoys.clear()
        self._consts.clear()
        timed = [shape for shape in shapes if shape.timed] or shapes
        for shape in timed if self._locks and session.framework == "torch" else ():
            for _ in range(PLACEMENTS):
                sealed = self.call(session, shape, self.draw_next(shape))
                if isinstance(sealed, BrokenWorker):
                    return sealed
        return session.lock() if self._locks else None

    def draw_next(self, shape: Shape, *, unusual: bool = False) -> dict[str, Any]:
        """For the judge: values for the process's next call of that size; constant ones stay as they are in its life."""
        drawn = (self.draw_unusual if unusual else self.draw)(shape, self._consts.get(shape.label, {}))
        constant = [tensor.name for tensor in self.task.inputs if tensor.constness == "const"]
        self._consts[shape.label] = {name: drawn[name] for name in constant}
        return drawn

    def fit_size(self, shape: Shape) -> Shape:
        """For the judge: the size at which outputs are looked at: that one."""
        return shape

    def draw(self, shape: Shape, consts: Mapping[str, Any]) -> dict[str, Any]:
        """For the judge: inputs of a call of that size. `consts`: those that stay as they are in the life of a process."""
        return {**draw(self.task, shape.dims, "normal", secret_rng()), **consts}

    def call(self, session: Any, shape: Shape, inputs: Mapping[str, Any]) -> Any:
        """For the judge: one call to see whose work it is: a SealedCall, or a BrokenWorker."""
        if shape.label not in self._poisons:
            self._poisons[shape.label] = PoisonPool(self.task, shape.dims, secret_rng())
        self._fillings = self._poisons[shape.label].draw(self._decoys.get(shape.label))
        placement = int(secret_rng().integers(PLACEMENTS))
        sealed = session.call(shape.dims, inputs, placement=placement, poison=self._fillings, timeout_s=CALL_S)
        if isinstance(sealed, SealedCall):
            self._decoys[shape.label] = sealed.outputs
        return sealed

    def draw_unusual(self, shape: Shape, consts: Mapping[str, Any]) -> dict[str, Any]:
        """For the judge: the same with values of another kind than ordinary."""
        rng = secret_rng()
        mix = (*MIXES[1:], *PARTS)[int(rng.integers(len(MIXES) - 1 + len(PARTS)))]
        return {**draw(self.task, shape.dims, mix, rng), **consts}

    def compare(
        self, shape: Shape, outputs: Mapping[str, Any], inputs: Mapping[str, Any], arguments: tuple[LaunchArgument, ...]
    ) -> "CallFindings":
        """For the judge: whether the outputs of a call without kernels were made, and what those kernels were given."""
        assert self._reference is not None
        oracle, dtype_of = self._reference.oracle(inputs), self.task.dtype_of
        float_inputs = {name: to_float64(array, dtype_of(name)) for name, array in inputs.items()}
        findings = CallFindings()
        for name in (tensor.name for tensor in call_results(self.task)):
            right = RightOutput(dtype=dtype_of(name), values=oracle[name], inputs=float_inputs)
            if kernel := find_copied_output(arguments, right):
                findings.kernels_by_output[name] = kernel
            findings.made_by_output[name] = is_made(
                to_float64(outputs[name], dtype_of(name)),
                oracle[name],
                dtype=dtype_of(name),
                inputs=float_inputs,
                before=float_inputs.get(name),
                filling=to_float64(self._fillings[name], dtype_of(name)) if name in self._fillings else None,
            )
        self._decoys[shape.label] = {
            tensor.name: from_float64(oracle[tensor.name], tensor.dtype) for tensor in self.task.outputs
        }
        return findings


@dataclass
class CallFindings:
    """What one call without kernels shows."""

    made_by_output: dict[str, bool | None] = field(default_factory=dict)
    """Whether an array was made all the same, as `is_made` says."""
    kernels_by_output: dict[str, str] = field(default_factory=dict)
    """Arrays that a kernel was given ready-made, and which kernel."""


def call_every_size(session: Session, values: WorkCalls, shapes: Sequence[Shape]) -> PaceCalls | str:
    """For the judge: call an open session at every size. Why that did not go, in words, where it did not."""
    calls, task = PaceCalls(), values.task
    if broken := values.begin(session, shapes):
        return f"{broken.reason}: {broken.detail}"
    for number, shape in enumerate(shapes):
        session.ping_often()
        for is_late in (False, True):
            began, repeats = time.monotonic(), 0
            most, patience_s = plan_late_calls(shapes, number) if is_late else (PACE_REPEATS, REPEAT_S)
            unusual = draw_unusual_places() if is_late else ()
            while repeats < most and (not repeats or time.monotonic() - began < patience_s):
                inputs = values.draw_next(shape, unusual=repeats in unusual)
                sealed = values.call(session, shape, inputs)
                if isinstance(sealed, BrokenWorker):
                    return f"{shape.label}: {sealed.reason}: {sealed.detail}"
                repeats += 1
                calls.add(task, shape, sealed.wall_us, late=is_late)
    return calls


def draw_unusual_places() -> tuple[int, ...]:
    """For the judge: which of a size's late calls have values of another kind: secret."""
    return tuple(int(place) for place in secret_rng().integers(UNUSUAL_WITHIN, size=UNUSUAL_CALLS))


def plan_late_calls(shapes: Sequence[Shape], number: int) -> tuple[int, float]:
    """For the judge: how often the size of that number is called late at most, and for how long: none but timed ones, or the first."""
    timed = sum(shape.timed for shape in shapes)
    return (
        (draw_late_calls(), LATE_S / max(timed, 1)) if shapes[number].timed or (not timed and not number) else (0, 0.0)
    )


def draw_late_calls() -> int:
    """For the judge: how often a size is called before it is looked at again: secret."""
    return int(secret_rng().integers(*LATE_CALLS))


def find_slower_size(traced: PaceCalls, plain: PaceCalls, *, slack_us: float) -> str | None:
    """For the judge: the size at which a candidate's traced call takes far longer than its plain one, with both times; None for none.

    A candidate that is honest only while it is looked at works less where it is not. Noting costs about the same
    anywhere, so a short call may take `slack_us` longer.
    """
    for label, least_us in plain.least_us.items():
        if label in traced.least_us and traced.least_us[label] > SLOWER_FACTOR * least_us + slack_us:
            return f"{label}: {traced.least_us[label]:.0f} us, else {least_us:.0f} us"
    return None


def call_results(task: Task) -> tuple[Tensor, ...]:
    """For the judge: what a call leaves: outputs, and inputs that it may write."""
    return (*task.outputs, *(tensor for tensor in task.inputs if tensor.constness == "mutated"))


def total_elements(shape: Shape, arrays: Sequence[Tensor]) -> int:
    """Elements of all these judged arrays at that size."""
    return sum(int(np.prod(axis_lengths(tensor, shape.dims))) for tensor in arrays)


def secret_rng() -> np.random.Generator:
    """The judge's secret random numbers: seeded by the system."""
    return np.random.default_rng(int.from_bytes(os.urandom(8), "little"))


Opened = Callable[[WorkerMode], AbstractContextManager[Session]]
"""A fresh worker with the candidate in it, not yet open, in that mode."""
MOST_SHAPES = 6
DRAWS = 3
"""Sets of values with which an output must be right."""


class Work(Value):
    """Whose the work is, and how far the candidate's code reaches."""

    answered: QuestionAnswer
    reaches: tuple[str, ...] = ()
    """What it was seen to load, start or have that could change its own process, the timers of a card among it."""


def judge_own_work(
    task: Task,
    new: Frozen,
    reference: Reference,
    *,
    opened: Opened | None = None,
    values: WorkCalls | None = None,
    plain: PaceCalls | None = None,
    card: bool = False,
) -> Work:
    """For the judge: whether the result is made by the candidate's own code. Costs three fresh workers for Python, none for C.

    `opened`: workers as they are timed. `values`: where arrays are not NumPy's; `opened` then gives sessions that take what it
    draws. `card`: they are called on a card. `plain`: the pace of a
    process in which nobody looked, where there was one: then two workers do.

    What a worker tells of itself can only speak against the candidate, or be confirmed by the knock-out, which the
    judge sees. Raises ReferenceFailed.
    """
    if task.language in COMPILED:
        return _judge_compiled(task, new)
    if task.language in ("flydsl", "cutedsl"):
        reason = f"launches of {task.language} kernels cannot be traced, nor their kernels knocked out"
        return Work(answered=answer_unverified(reason), reaches=("cannot be traced",))

    def fresh(mode: WorkerMode) -> AbstractContextManager[Session]:
        return opened(mode) if opened else _session(task, new, mode)

    slack_us = SLACK_US["cuda" if card else "cpu"]
    values = values or WorkCalls(task, reference, locks=not card)
    compiles = not card and names_compiler(task, new.folder)
    return _PythonCandidate(
        task=task, values=values, opened=fresh, slack_us=slack_us, plain=plain, compiles=compiles
    ).work()


@contextmanager
def _session(task: Task, new: Frozen, mode: WorkerMode) -> Iterator[Session]:
    with Session(task, new.folder) as session:
        session.mode = mode
        yield session


def _judge_compiled(task: Task, new: Frozen) -> Work:
    """For the judge: own work of a compiled candidate, by the names that its library takes from elsewhere; nothing is run."""
    try:
        library = build_without_runtime(task, new.folder)
    except WorkerLost as lost:
        return Work(answered=answer_unverified(f"it was not built: {lost.detail}"), reaches=("was not built",))
    try:
        return judge_symbols(read_undefined_symbols(library), device=task.language != "c")
    except NotALibrary as error:
        return Work(answered=answer_unverified(str(error)), reaches=(str(error),))


def judge_symbols(undefined: UndefinedSymbols, *, device: bool) -> Work:
    """For the judge: what undefined names mean. `device`: its language has a runtime for GPUs, which is not linked into it."""
    kinds: dict[str, list[str]] = {}
    for symbol in undefined.symbols:
        kinds.setdefault(symbol_kind(symbol, device=device), []).append(symbol)
    meanings = {
        "loader": "can load other code",
        "starter": "can have another program work",
        "network": "can have another machine work",
        "unknown": "takes names from elsewhere that are not the C runtime's",
    }
    doubts = tuple(f"{text}: {list_some(tuple(kinds[kind]))}" for kind, text in meanings.items() if kind in kinds)
    if strange := [name for name in undefined.needed if not is_plain_library(name, device=device)]:
        doubts = (f"is linked with {list_some(tuple(strange))}", *doubts)
    if library := kinds.get("library"):
        return Work(answered=answer_no(f"calls a library's operators: {list_some(tuple(library))}"), reaches=doubts)
    if doubts:
        return Work(answered=answer_unverified(*doubts), reaches=doubts)
    return Work(
        answered=answer_yes(f"takes only the runtime of its language from elsewhere ({len(undefined.symbols)} names)")
    )


@dataclass
class _KnockoutFindings:
    """Of the run without kernels: arrays that were right all the same, and those that could show it."""

    unharmed: list[str] = field(default_factory=list)
    telling: set[str] = field(default_factory=set)
    harmed: bool = False
    kernels_by_output: dict[str, str] = field(default_factory=dict)
    """Arrays that a kernel was given ready-made, and which kernel."""
    unread: bool = False
    """What kernels were given could not be read."""


@dataclass(frozen=True, kw_only=True)
class _PythonCandidate:
    """A candidate in Python: first traced, then with its kernels knocked out, then as it is."""

    task: Task
    values: WorkCalls
    opened: Opened
    slack_us: float
    plain: PaceCalls | None = None
    compiles: bool = False
    """It names PyTorch's compiler, which starts programs: once locked it can be called at no size that it was not before."""

    def work(self) -> Work:
        """For the judge: the answer, with what it rests on."""
        run = self._run_traced()
        if isinstance(run, str):
            return Work(answered=answer_unverified(run), reaches=(run,))
        traced, calls = run
        doubts = tuple(self._doubts(traced, calls))
        answered = self._answer(traced, doubts, calls)
        return Work(answered=self._as_fast(answered, calls) if answered.answer == "yes" else answered, reaches=doubts)

    def _answer(self, traced: TracedOperators, doubts: tuple[str, ...], calls: PaceCalls) -> QuestionAnswer:
        major, minor = traced.computing(calls.elements, calls.outputs)
        notes = [f"ready-made operators with little to do: {list_some(minor)}"] if minor else []
        if major:
            return answer_no(f"ready-made operators compute it: {list_some(major)}", *notes)
        if engines := traced.engines():
            return answer_no(f"loads a library of operators: {list_some(engines)}")
        kernels = traced.names("kernels")
        if not kernels:
            doubt = "no kernel of its own was seen to run" + ("" if minor else ", and no operator either")
            return answer_unverified(*doubts, doubt, *notes)
        knockout = self._check_knockout(f"its own kernels ran: {list_some(kernels)}", *notes)
        return answer_unverified(*doubts) if doubts and knockout.answer != "no" else knockout

    def _doubts(self, traced: TracedOperators, calls: PaceCalls) -> list[str]:
        meanings: tuple[tuple[Literal["loads", "starts", "connects", "modules", "oddities"], str], ...] = (
            ("loads", "loads compiled code"),
            ("starts", "starts another program"),
            ("connects", "opens a connection"),
            ("modules", "uses modules that compute or compile"),
            ("oddities", "does what hides work"),
        )
        doubts = [f"{text}: {list_some(names)}" for kind, text in meanings if (names := traced.names(kind))]
        if left := traced.left(calls.elements, calls.outputs):
            doubts.append(f"takes its tensors out of PyTorch: {list_some(left)}")
        if foreign := traced.foreign():
            doubts.append(f"calls operators that somebody registered: {list_some(foreign)}")
        return doubts

    def _run_traced(self) -> tuple[TracedOperators, PaceCalls] | str:
        """For the judge: what was called at every size, or why that is not known."""
        with self.opened("trace") as session:
            if broken := session.open():
                return f"the traced run: {broken.reason}: {broken.detail}"
            calls = call_every_size(session, self.values, self._shapes())
            if isinstance(calls, str):
                return f"the traced run, {calls}"
            report = session.report()
        if isinstance(report, BrokenWorker):
            return f"the traced run: {report.reason}: {report.detail}"
        traced = read_trace_report(report)
        return (traced, calls) if traced else "the traced run gave no report that can be read"

    def _as_fast(self, answered: QuestionAnswer, traced: PaceCalls) -> QuestionAnswer:
        """For the judge: what works only while it is traced is slower there than where nobody looks."""
        plain = self.plain or self._run_plain()
        if isinstance(plain, str):
            return answer_unverified(*answered.evidence, f"the plain run: {plain}")
        if took := find_slower_size(traced, plain, slack_us=self.slack_us):
            return answer_unverified(*answered.evidence, f"it takes much longer where it is traced: {took}")
        return answered

    def _run_plain(self) -> PaceCalls | str:
        """For the judge: the pace of every size where nobody looks, or why it is not known."""
        with self.opened("plain") as session:
            if broken := session.open():
                return f"{broken.reason}: {broken.detail}"
            return call_every_size(session, self.values, self._shapes())

    def _check_knockout(self, *evidence: str) -> QuestionAnswer:
        """For the judge: with its kernels replaced by nothing the output must be wrong, else something else made it."""
        findings = _KnockoutFindings()
        if stopped := self._run_without_kernels(findings):
            return answer_unverified(*evidence, f"the run without them: {stopped.reason}: {stopped.detail}")
        if findings.kernels_by_output:
            return self._find_given_work(findings.kernels_by_output, *evidence)
        if findings.unread:
            return answer_unverified(*evidence, "the run without them gave no report that can be read")
        if not findings.unharmed:
            if not findings.harmed:
                return answer_unverified(
                    *evidence, "without them the output is right, but a fill or a copy would be, too"
                )
            return answer_yes(*evidence, "without them the output is wrong")
        names = tuple(findings.unharmed)
        if findings.telling <= {*names}:
            return answer_no(f"without its kernels the output is still right: {list_some(names)}")
        return answer_unverified(*evidence, f"without them some outputs are still right: {list_some(names)}")

    def _run_without_kernels(self, findings: "_KnockoutFindings") -> BrokenWorker | None:
        """For the judge: the run without its kernels: what ended it. What a candidate raises does not: that is caught there."""
        with self.opened("knockout") as session:
            if broken := session.open():
                return broken
            shapes = [self.values.fit_size(shape) for shape in self._shapes()]
            if broken := self.values.begin(session, shapes):
                findings.harmed = True  # as below
                return broken if broken.reason == "crash" else None
            for number, shape in enumerate(shapes):
                session.ping_often()
                if stopped := self._look_at_size(session, shape, findings):
                    findings.harmed = True  # what goes on for ever without its kernels needs them
                    return stopped if stopped.reason == "crash" else None
                most, patience_s = plan_late_calls(shapes, number)
                if most and not self._call_late(session, shape, findings, most, patience_s):
                    return None
        return None

    def _call_late(
        self, session: Session, shape: Shape, findings: "_KnockoutFindings", most: int, patience_s: float
    ) -> bool:
        """For the judge: call a size so often, and look at it once more; whether the process goes on."""
        until, unusual = time.monotonic() + patience_s, draw_unusual_places()
        for number in range(most):
            sealed = self.values.call(session, shape, self.values.draw_next(shape, unusual=number in unusual))
            if isinstance(sealed, BrokenWorker) or time.monotonic() > until:
                break
        return not (
            isinstance(session.report(), BrokenWorker)  # what those calls held
            or self._look_at_size(session, shape, findings)
        )

    def _look_at_size(self, session: Session, shape: Shape, findings: "_KnockoutFindings") -> BrokenWorker | None:
        """For the judge: what stopped it at that size. An array that is right once may be so by chance, and is asked again, and so
        is one of few elements that an argument holds."""
        right = self._judge_names()
        given = {
            name: ""
            for name in right
            if total_elements(shape, [each for each in call_results(self.task) if each.name == name]) < FEW_VALUES
        }
        for _ in range(DRAWS):
            inputs = self.values.draw_next(shape)
            sealed = self.values.call(session, shape, inputs)
            if isinstance(sealed, BrokenWorker):
                return sealed
            seen = self._classify_outputs(shape, sealed.outputs, inputs, session.report(), findings)
            made_by_output, kernels = seen.made_by_output, seen.kernels_by_output
            findings.kernels_by_output |= {name: kernel for name, kernel in kernels.items() if name not in given}
            given = {name: kernels[name] for name in given if name in kernels}
            findings.telling |= {name for name, is_right in made_by_output.items() if is_right is not None}
            findings.harmed = findings.harmed or False in made_by_output.values()
            right = [name for name in right if made_by_output[name]]
            if not right and not given:
                return None
        findings.kernels_by_output |= given
        findings.unharmed += [name for name in right if name not in findings.unharmed]
        return None

    def _classify_outputs(
        self,
        shape: Shape,
        outputs: Mapping[str, Any],
        inputs: Mapping[str, Any],
        report: bytes | BrokenWorker,
        findings: "_KnockoutFindings",
    ) -> CallFindings:
        """For the judge: of each array, whether it was made, and which kernels were given one ready-made."""
        arguments = read_launch_report(report) if isinstance(report, bytes) else None
        findings.unread = findings.unread or arguments is None
        return self.values.compare(shape, outputs, inputs, arguments or ())

    def _find_given_work(self, kernels_by_output: Mapping[str, str], *evidence: str) -> QuestionAnswer:
        """For the judge: its kernels moved what was there already: all of the work, or a part of it."""
        moves = tuple(f"{name} ({kernel})" for name, kernel in kernels_by_output.items())
        evidence_line = f"a kernel is given the output ready-made: {list_some(moves)}"
        results, shape = call_results(self.task), self._shapes()[0]
        if 2 * total_elements(
            shape, [tensor for tensor in results if tensor.name in kernels_by_output]
        ) >= total_elements(shape, results):
            return answer_no(evidence_line, *evidence)
        return answer_unverified(evidence_line, *evidence)

    def _judge_names(self) -> list[str]:
        return [tensor.name for tensor in call_results(self.task)]

    def _shapes(self) -> tuple[Shape, ...]:
        """Sizes at which the judge looks whose work it is: the timed ones first: they are what the claim is about."""
        shapes = self.task.timed if self.compiles and self.task.timed else self.task.shapes
        return tuple(sorted(shapes, key=lambda shape: not shape.timed)[:MOST_SHAPES])
