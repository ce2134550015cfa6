"""What a person's one-line instruction says, and nothing that it does not say."""

import re
from collections.abc import Mapping

from ridgeline.graph.policy.vocabulary import ARCHS, BACKEND_WORDS, KNOWN_ARCHS, OPERATORS, PRECISIONS, VARIANTS
from ridgeline.graph.values import Value

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


class Said(Value):
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
        """`gemm_fp8_blockwise`; empty when no operator or more than one is named."""
        if len(self.operators) != 1:
            return ""
        return "_".join((*self.operators, *self.precision, *self.variants))

    @property
    def precision(self) -> tuple[str, ...]:
        """The one precision named; nothing when several are, for it is not said which one names the kernel."""
        return self.precisions if len(self.precisions) == 1 else ()


def parse(text: str) -> Said:
    """Read an instruction. Words that are not understood are ignored; contradictions are left to the caller."""
    plain = " ".join(re.sub(r"[^a-z0-9_]+", " ", text.lower()).split())
    rounds = _ROUNDS.search(text)
    goal = _GOAL.search(text)
    return Said(
        operators=_found(plain, OPERATORS),
        precisions=_found(plain, PRECISIONS),
        variants=_found(plain, VARIANTS),
        backends=_found(plain, BACKEND_WORDS),
        products=_products(text),
        goal=goal.group(0).strip() if goal else "",
        max_iterations=int(rounds.group(1) or rounds.group(2)) if rounds else None,
        no_commit=_NO_COMMIT.search(text) is not None,
    )


def parts(slug: str) -> Said:
    """The same reading of an operator's slug, so that slug and instruction can be compared."""
    return parse(slug.replace("_", " "))


def arch_of(device: str) -> str | None:
    """Architecture of a product or of a known architecture's own name; None when it is neither."""
    return device.lower() if device.lower() in KNOWN_ARCHS else ARCHS.get(device.upper())


def _products(text: str) -> tuple[str, ...]:
    names = [m.upper().replace(" ", "") for m in (*_PRODUCT.findall(text), *_PRODUCT_ANY_CASE.findall(text))]
    # Known products count in any case; unknown ones only when written like one, since "a16" may be anything.
    names += [word.upper() for word in re.findall(r"[A-Za-z0-9]+", text) if word.upper() in ARCHS]
    return tuple(dict.fromkeys((*names, *(m.lower() for m in _ARCH.findall(text)))))


def _found(plain: str, words: Mapping[str, str]) -> tuple[str, ...]:
    """Values of the phrases in the text, by position; a phrase inside a longer one found before is not counted."""
    hits: list[tuple[int, str]] = []
    rest = f" {plain} "
    for phrase in sorted(words, key=len, reverse=True):
        needle = f" {phrase} "
        while (at := rest.find(needle)) >= 0:
            hits.append((at, words[phrase]))
            rest = rest[: at + 1] + "#" * len(phrase) + rest[at + 1 + len(phrase) :]
    return tuple(dict.fromkeys(value for _, value in sorted(hits)))
