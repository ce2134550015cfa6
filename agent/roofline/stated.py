"""What the knowledge base states of a product, as the registered numbers that a roofline rests on."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Machine
from ridgeline.graph.policy.operations.amount import canonical
from ridgeline.graph.policy.operations.families import Units
from ridgeline.graph.record import Spec

if TYPE_CHECKING:
    from ridgeline.knowledge.specs import Products
    from ridgeline.knowledge.specs import Spec as Known

OTHERS = ("sm_count", "cu_count", "l2_capacity", "mall_capacity", "smem_capacity", "lds_capacity")
"""Registered beside peak and bandwidth where a document gives them; nobody is asked for the ones it does not."""


def products(wikis: tuple[Path, ...] = ()) -> "Products":
    """Every product of the knowledge base and of attached folders of the same layout."""
    from ridgeline.knowledge.library import Library
    from ridgeline.knowledge.specs import Products

    return Products(Library(wikis))


def stated(found: "Products", product: str, dtype: str, *, units: Units = "matrix") -> tuple[Spec, ...]:
    """Compute peak of `dtype` on `units`, bandwidth, and the sizes that matter; UNKNOWN where no line gives one.

    The peak is the dense one: rates with structured sparsity are never taken for it.
    """
    peak = next(
        (spec for name in peaks(dtype, units) if (spec := found.spec(product, name)).value is not None),
        found.spec(product, f"{_plain(dtype)}_dense"),
    )
    others = (spec for name in OTHERS if (spec := found.spec(product, name)).value is not None)
    return tuple(map(registered, (peak, found.spec(product, "hbm_bandwidth"), *others)))


def of_machine(machine: Machine, contract: Contract, wikis: tuple[Path, ...] = ()) -> tuple[Spec, ...]:
    """For the device that a contract runs on; none for a processor, whose ceilings are measured."""
    if machine.kind == "cpu":
        return ()
    known = products(wikis)
    return stated(known, _product(known, machine, contract), contract.dtype)


def peaks(dtype: str, units: Units) -> Iterator[str]:
    """Metrics that can be the compute peak, the right one first."""
    name = _plain(dtype)
    if units == "vector":
        yield from (f"{name}_vector", "fp32_vector")
    yield from (f"{name}_dense", f"{name}_matrix", f"{name}_vector")


def registered(spec: "Known") -> Spec:
    """The same number as the graph has it."""
    from ridgeline.knowledge.specs import MISSING

    source = spec.place if spec.value is not None else MISSING
    return Spec(metric=spec.metric, value=spec.value, unit=spec.unit, source=source)


def _product(known: "Products", machine: Machine, contract: Contract) -> str:
    """The device's own name; the contract's where that is masked and the architectures agree."""
    named = contract.target_gpu
    if known.find(machine.name) is None and named is not None and known.spec(named, "arch").written == machine.arch:
        return named
    return machine.name


def _plain(dtype: str) -> str:
    try:
        return canonical(dtype)
    except ValueError:
        return "".join(letter if letter.isalnum() else "_" for letter in dtype.lower())
