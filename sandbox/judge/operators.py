"""What a traced worker says that it called: which of it computes, and how much of the task's data that was."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ridgeline.graph.values import Value

Kind = Literal["operators", "functions", "kernels", "loads", "starts", "connects", "modules", "escapes", "oddities"]
Counts = Annotated[tuple[int, int], Field(strict=False)]
REPORT = TypeAdapter(dict[Kind, dict[str, Counts]])
MINOR = 1 / 16
"""Share of the task's elements below which an operator only finishes what a kernel did: adding up the sums of blocks
takes a thousandth, one pass over a single input or output a quarter and more."""
RARE = 1 / 256
"""Share of the task's elements from which on outputs are many: then twice the outputs are what an operator is held
against, since inputs may hardly be read. Of fewer, as sums have, an operator may add up what blocks left."""
MOST_TOLD = 6
GLUE = frozenset(
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
OURS = ("aten", "prims", "numpy")
"""Whose operators are the framework's."""
ENGINES = (
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


class Traced(Value):
    """What was called in the traced run, by kind and name: how often, and of how many elements. A claim."""

    seen: Mapping[Kind, Mapping[str, tuple[int, int]]]

    def names(self, kind: Kind) -> tuple[str, ...]:
        """In the order in which they were first seen."""
        return tuple(self.seen.get(kind, {}))

    def computing(self, elements: int, outputs: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Operators that compute: those with a real share of `elements`, all that the calls had, and the minor ones.

        `outputs`: how many of them are results.
        """
        most = least_share(elements, outputs)
        found = {
            name: counted
            for kind in ("operators", "functions")
            for name, counted in self.seen.get(kind, {}).items()
            if name.partition(".")[0] in OURS and name.rpartition(".")[2] not in GLUE
        }
        major = [name for name, (_, touched) in found.items() if touched > most]
        return tuple(major), tuple(name for name in found if name not in major)

    def left(self, elements: int, outputs: int = 0) -> tuple[str, ...]:
        """How a real share of the data was taken to where nobody sees what is done with it."""
        most = least_share(elements, outputs)
        return tuple(name for name, (_, touched) in self.seen.get("escapes", {}).items() if touched > most)

    def foreign(self) -> tuple[str, ...]:
        """Operators of neither the framework nor NumPy: somebody registered them."""
        return tuple(name for name in self.names("operators") if name.partition(".")[0] not in OURS)

    def engines(self) -> tuple[str, ...]:
        """Libraries of ready-made operators that were loaded by name."""
        return tuple(name for name in self.names("loads") if any(part in name.lower() for part in ENGINES))


def least_share(elements: int, outputs: int) -> float:
    """Elements above which an operator has a real share of a task with so many, `outputs` of them results."""
    return MINOR * (min(elements, 2 * outputs) if outputs > RARE * elements else elements)


def read(report: bytes) -> Traced | None:
    """The report of a traced worker; None for one that is no report."""
    try:
        return Traced(seen=REPORT.validate_json(report))
    except ValidationError:
        return None


def listed(names: tuple[str, ...]) -> str:
    """A few of them, and how many more."""
    more = f" and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else ""
    return f"{', '.join(name[:80] for name in names[:MOST_TOLD])}{more}"
