"""Hardware numbers as data: each with the file and line it stands at, or UNKNOWN, never inferred."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property

from ridgeline.knowledge.documents import Document, Item, Problem
from ridgeline.knowledge.facts import Citation, citations, without
from ridgeline.knowledge.library import Library
from ridgeline.knowledge.registry import UNVERIFIED, Source, registry

MISSING = "gpu-wiki not found"
"""Rules 5.1.6: what stands in place of a number that no document gives."""
HEADING = "Specs"
TFLOPS, TOPS = "TFLOPS", "TOPS"
DTYPES = {
    **dict.fromkeys(("bf16", "fp16", "fp32", "fp64", "tf32", "xf32", "fp8", "bf8", "fp6", "bf6", "fp4"), TFLOPS),
    **dict.fromkeys(("mxfp8", "mxfp6", "mxfp4", "nvfp4"), TFLOPS),
    **dict.fromkeys(("int8", "int4"), TOPS),
}
ONE_SOURCE = "one source"
"""No second one was found that gives the same number."""
KINDS = ("dense", "sparse", "vector", "matrix", "achieved")
"""Matrix units without and with structured sparsity, vector units, matrix units where a vendor says only that; and the
most that somebody measured of dense matrix products, with the source that says how: a ceiling below the theoretical."""
UNITS = {
    "hbm_bandwidth": "TB/s",
    "hbm_capacity": "GB",
    "l1_capacity": "KiB",
    "l2_capacity": "MiB",
    "l3_capacity": "MiB",
    "mall_capacity": "MiB",
    "lds_capacity": "KiB",
    "smem_capacity": "KiB",
    "wave_size": "lanes",
    "l1_bandwidth": "bytes/clk/SM",
    "shuffle_rate": "lanes/clk/SM",
    "boost_clock": "MHz",
    "tdp": "W",
    "link_bandwidth": "GB/s",
    "host_bandwidth": "GB/s",
}
"""Unit of each metric that has a fixed one; peaks have that of their data type, counts none or their own word. Links are
those to other GPUs, all together; host is PCIe. Both count both directions, as vendors print them."""
DIES = "gcd_count"
"""How many devices a module is; its other numbers are those of all its dies."""
OF_EACH_DIE = ("boost_clock", "wave_size")
_SPEC = re.compile(r"(?P<metric>[a-z][a-z0-9_]*): (?P<rest>.+)")
_NUMBER = re.compile(r"(?P<value>\d+(?:[ ,]\d{3})*(?:\.\d+)?)(?: (?P<unit>[A-Za-z/%][\w/%.-]*(?: [\w/%.-]+)*))?")
_UNKNOWN = re.compile(r"UNKNOWN(?: \([^()]+\))?")
_VENDOR = re.compile(r"\b(nvidia|amd|instinct|tesla|radeon|corporation|inc|accelerator|graphics|gpu)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """One hardware number of one product; value None means UNKNOWN."""

    product: str
    """Name of the product's file without its suffix; what was asked for where no product has that name."""
    metric: str
    value: float | None
    unit: str
    source_path: str | None
    source_line: int | None
    written: str = ""
    """The value as it stands in the line; a word such as gfx942 for a metric that is no number."""
    citations: tuple[Citation, ...] = ()
    note: str = ""
    """Why there is no value, and what there is instead."""
    standing: str = ""
    """What speaks against the number: ONE_SOURCE, or UNVERIFIED where every source of it says so of itself."""
    dies: int = 1
    """How many equal parts of the line's number this is one of."""

    @property
    def text(self) -> str:
        """Registered form: `<metric>: <value> <unit> <- <path>:L<line>`."""
        if not self.written:
            return f"{self.metric}: UNKNOWN ({MISSING})"
        return f"{self.metric}: {' '.join(filter(None, (self.written, self.unit)))} <- {self.place}"

    @property
    def place(self) -> str:
        """Where a hardware number stands: `path:L<line>`, whether its source calls itself unverified, of how many dies it is a part."""
        word = f" ({UNVERIFIED})" if self.standing == UNVERIFIED else ""
        return f"{self.source_path}:L{self.source_line}{word}{f' / {self.dies} dies' if self.dies > 1 else ''}"


class Products:
    """Every product and architecture of a library, by exact name after case, blanks and vendor words are dropped."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._documents = tuple(document for document in library.documents if document.kind in ("product", "hardware"))
        self._specs_by_key: dict[str, dict[str, Spec]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the product files."""
        return tuple(name_of(document) for document in self._documents if document.kind == "product")

    def find(self, product: str) -> Document | None:
        """The document of a GPU product or architecture; None for an unknown name or a family that means several."""
        return self._documents_by_name.get(normal(product))

    def routes(self) -> Iterator[tuple[str, str, str]]:
        """Every name of a GPU in normal form, the product it means (empty for an architecture) and its architecture."""
        for name, document in self._documents_by_name.items():
            stated = self._specs_of(document).get("arch")
            only = document.gpus[0] if len(document.gpus) == 1 else ""
            product = name_of(document) if document.kind == "product" else ""
            yield name, product, (stated.written if stated else "") or only

    def spec(self, product: str, metric: str) -> Spec:
        """One hardware number; UNKNOWN where no line gives it. What holds for the architecture holds for its products."""
        name = re.sub(r"[\s-]+", "_", metric.strip().lower())
        document = self.find(product)
        if document is None:
            return _unknown(product, name, note=self._suggest_names(product))
        product_spec = self._specs_of(document).get(name)
        if product_spec is not None and product_spec.written:
            return product_spec
        shared = self._of_architecture(document).get(name)
        if shared is not None and shared.written:
            return replace(shared, product=name_of(document))
        return product_spec or _unknown(name_of(document), name, note=self._metrics(document))

    def device_spec(self, product: str, metric: str) -> Spec:
        """One hardware number of the device that a kernel runs on: of a module whose dies are devices (MI250X), the part of one."""
        spec, dies = self.spec(product, metric), self.spec(product, DIES).value
        document = self.find(product)
        of_module = document is not None and document.kind == "product" and spec.source_path == document.path
        if dies is None or spec.value is None or not of_module or spec.metric in OF_EACH_DIE:
            return spec
        value = spec.value / dies
        return replace(spec, value=value, written=f"{value:g}", dies=int(dies))

    def all(self, product: str) -> tuple[Spec, ...]:
        """Every hardware number of a product in the order of its lines, then those of its architecture."""
        document = self.find(product)
        if document is None:
            return ()
        specs_by_metric = self._specs_of(document)
        return (
            *specs_by_metric.values(),
            *(spec for name, spec in self._of_architecture(document).items() if name not in specs_by_metric),
        )

    def _of_architecture(self, document: Document) -> dict[str, Spec]:
        if document.kind != "product":
            return {}
        stated = self._specs_of(document).get("arch")
        above = self.find(stated.written) if stated else None
        return self._specs_of(above) if above is not None and above.kind == "hardware" else {}

    def _specs_of(self, document: Document) -> dict[str, Spec]:
        """Specs of one document, and of the others of its architecture's folder; read once."""
        folder = document.path.rpartition("/")[0]
        key = folder if document.kind == "hardware" else document.path
        if key not in self._specs_by_key:
            together = [d for d in self._documents if d.path.rpartition("/")[0] == folder and d.kind == "hardware"]
            self._specs_by_key[key] = {
                spec.metric: replace(spec, standing=_standing(spec, self._sources))
                for source_document in (together if document.kind == "hardware" else [document])
                for spec in specs(source_document)
            }
        return self._specs_by_key[key]

    @cached_property
    def _documents_by_name(self) -> dict[str, Document]:
        by_name: dict[str, Document] = {}
        for document in reversed(self._documents):
            for name in (*document.default_for, *document.aliases, name_of(document)):
                by_name[normal(name)] = document
        return by_name

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        return registry(self._library).sources

    def nearest_metric(self, product: str, metric: str) -> str | None:
        """The metric that a name stands for most likely, where no document and no data type has that name."""
        name = re.sub(r"[\s-]+", "_", metric.strip().lower())
        known = {spec.metric for document in self._documents for spec in self._specs_of(document).values()}
        known |= {*UNITS, *(f"{dtype}_{kind}" for dtype in DTYPES for kind in KINDS)}
        if name in known:
            return None
        document = self.find(product)
        of_product = [*self._specs_of(document), *self._of_architecture(document)] if document else []
        choice = of_product or sorted(known)
        alike = [other for other in choice if other.partition("_")[0] == name.partition("_")[0]]
        return next(iter(get_close_matches(name, alike or choice, n=1, cutoff=0.0)), "")

    def _suggest_names(self, product: str) -> str:
        key = normal(product)
        similar = [name for name in self.names if key and normal(name).startswith(key)]
        if similar:
            return f"{product} may be {' or '.join(similar)}; say which"
        nearest = get_close_matches(key, self._documents_by_name, n=1, cutoff=0.6)
        meant = f"; did you mean {name_of(self._documents_by_name[nearest[0]])}?" if nearest else ""
        return f"no document is about {product}{meant}; known are {', '.join(self.names) or 'none'}"

    def _metrics(self, document: Document) -> str:
        metrics = [*self._specs_of(document), *self._of_architecture(document)]
        return f"{document.path} gives {', '.join(dict.fromkeys(metrics)) or 'no number'}"


def normal(product: str) -> str:
    """A GPU's name in lower case, without blanks, hyphens and vendor words: `NVIDIA H100-SXM` and `h100 sxm` are the same."""
    return re.sub(r"[\s_()/-]+", "", _VENDOR.sub(" ", product.lower()))


def name_of(document: Document) -> str:
    """`h100-sxm` of `hardware/h100-sxm.md`, `gfx942` of `hardware/gfx942/overview.md`."""
    folder, _, file = document.path.rpartition("/")
    return file.removesuffix(".md") if document.kind == "product" else folder.rpartition("/")[2]


def specs(document: Document) -> Iterator[Spec]:
    """Every spec line that can be read; `wrong` says what is wrong with the others."""
    for item in _lines(document):
        result = _parse_spec(item, document)
        if isinstance(result, Spec):
            yield result


def wrong(document: Document) -> Iterator[Problem]:
    """Lines below `## Specs` that are no spec, have no source, or stand twice."""
    line_by_metric: dict[str, int] = {}
    for item in _lines(document):
        spec = _parse_spec(item, document)
        if isinstance(spec, Problem):
            yield spec
        elif spec.metric in line_by_metric:
            what, mend = f"{spec.metric} stands in line {line_by_metric[spec.metric]} too", "keep one line a metric"
            yield Problem(path=document.path, line=item.line, what=what, mend=mend)
        else:
            line_by_metric[spec.metric] = item.line


def unit_of(metric: str) -> str | None:
    """The one unit a hardware metric may have; None where any will do."""
    dtype, _, kind = metric.rpartition("_")
    return DTYPES.get(dtype) if kind in KINDS and dtype in DTYPES else UNITS.get(metric)


def _standing(spec: Spec, sources: Mapping[str, Source]) -> str:
    """What speaks against a hardware number, by its sources; nothing for an architecture's own name and for no number."""
    named = {citation.source for citation in spec.citations}
    if {sources[name].standing for name in named if name in sources} == {UNVERIFIED}:
        return UNVERIFIED
    return ONE_SOURCE if len(named) == 1 and spec.value is not None else ""


def _lines(document: Document) -> Iterator[Item]:
    for section in document.sections:
        if section.heading == HEADING and document.kind in ("product", "hardware"):
            yield from section.items()


def _parse_spec(item: Item, document: Document) -> Spec | Problem:
    def bad(what: str, mend: str) -> Problem:
        return Problem(path=document.path, line=item.line, what=what, mend=mend)

    match = _SPEC.fullmatch(without(item.text))
    if match is None:
        return bad("is no spec", "write `metric: value unit [src: id]`, the metric in a-z, 0-9 and _")
    metric, rest = match["metric"], match["rest"].strip()
    cited = citations(item.text)
    base = _unknown(name_of(document), metric, note=rest)
    base = replace(base, source_path=document.path, source_line=item.line)
    if _UNKNOWN.fullmatch(rest):
        return base
    if not cited:
        return bad(f"{metric} has no source", "end the line with [src: id]")
    number = _NUMBER.fullmatch(rest)
    if number is None:
        if unit_of(metric) or not re.fullmatch(r"[\w.+-]+", rest):
            return bad(f"{metric}: {rest!r} is no number with a unit", "write one number and one unit")
        return replace(base, written=rest, citations=cited, note="")
    due = unit_of(metric)
    if due is not None and number["unit"] != due:
        return bad(f"{metric} is in {number['unit'] or 'no unit'}", f"give it in {due}")
    plain = re.sub(r"[ ,]", "", number["value"])
    return replace(base, value=float(plain), unit=number["unit"] or "", written=plain, citations=cited, note="")


def _unknown(product: str, metric: str, *, note: str) -> Spec:
    return Spec(product=product, metric=metric, value=None, unit="", source_path=None, source_line=None, note=note)
