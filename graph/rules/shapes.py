"""Which shapes a round measures, which it guards, and how they fall into configuration classes."""

import re
from collections.abc import Sequence

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Row
from ridgeline.graph.formula import evaluate
from ridgeline.graph.rules.score import relative_stddev

SPREAD_ROWS = 2
"""How many high-variance rows join small, medium and large: three to five shapes in all."""

LISTED = 40
"""Labels that a message lists."""

GROUPED_PRODUCT = re.compile(
    r"moe|expert|group(ed)?[_-]?(gemm|gmm|mm|matmul)|(gemm|gmm|matmul)[_-]?group", re.IGNORECASE
)
"""In the name of an operator whose groups are of unequal length in use."""


class ShapeMissing(ValueError):
    """The contract names a shape that the benchmark does not have."""


class SkewMissing(ValueError):
    """A grouped operator without a passing skewed shape: a gain on uniform groups alone proves nothing."""


class NoShapes(ValueError):
    """No row passed, so nothing can represent the benchmark."""


def choose_representative(rows: Sequence[Row], contract: Contract) -> tuple[str, ...]:
    """Labels of the quick level, in the benchmark's order: small, medium, large, the two noisiest, every skewed
    and every protected one.

    Size is the contract's FLOPs, else its bytes, else the row's time, else the row's position.
    Raises NoShapes, ShapeMissing, SkewMissing, or FormulaError for a formula over a column that the rows lack.
    """
    passing = [row for row in rows if row.check == "PASS"]
    if not passing:
        raise NoShapes("no row of the baseline passed")
    labels = tuple(row.label for row in rows)
    named = {
        "core_shapes": contract.core_shapes,
        "scoring.shape_weights": tuple(contract.scoring.shape_weights),
        "scoring.protected_shapes": contract.scoring.protected_shapes,
    }
    for field, names in named.items():
        if missing := [label for label in names if label not in labels]:
            raise ShapeMissing(f"{field}: {explain_missing_shapes(missing, labels)}")
    skewed = _find_skewed(passing, contract)
    by_size = sorted(range(len(passing)), key=lambda index: _row_size(passing[index], contract, index))
    chosen = {passing[by_size[place]].label for place in (0, len(by_size) // 2, -1)}
    chosen.update(_find_noisiest([row for row in passing if row.label not in chosen], contract))
    always = skewed.union(contract.scoring.protected_shapes)
    return tuple(row.label for row in passing if row.label in chosen or row.label in always)


def explain_missing_shapes(missing: Sequence[str], labels: Sequence[str]) -> str:
    """The loop's rule on chosen shapes: what is wrong with these labels, with those that the benchmark has."""
    more = f" and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
    return f"the benchmark has no shape {', '.join(map(repr, missing))}; it has {', '.join(labels[:LISTED])}{more}"


def list_classes(rows: Sequence[Row]) -> tuple[str, ...]:
    """For the loop's rules: configuration classes of the baseline in order of appearance."""
    return tuple(dict.fromkeys(row.config_class for row in rows))


def core_shapes(contract: Contract, active: Sequence[str]) -> tuple[str, ...]:
    """For verdicts: shapes under the 5 per cent guard: the contract's, else the whole active set."""
    return contract.core_shapes or tuple(active)


def is_grouped(contract: Contract) -> bool:
    """For the rules on shapes: whether the operator multiplies groups of tokens, skewed in training; a group norm is none."""
    return bool(GROUPED_PRODUCT.search(contract.target_op))


def _find_skewed(passing: Sequence[Row], contract: Contract) -> frozenset[str]:
    labels = {row.label for row in passing}
    if missing := [label for label in contract.skew_shapes if label not in labels]:
        raise SkewMissing(f"skew_shapes: {', '.join(missing)} did not pass in the baseline; correct skew_shapes")
    if is_grouped(contract) and not contract.skew_shapes:
        raise SkewMissing(f"{contract.target_op} works on groups; name at least one skewed shape in skew_shapes")
    return frozenset(contract.skew_shapes)


def _row_size(row: Row, contract: Contract, place: int) -> float:
    columns = {item.name: item.value for item in row.metrics}
    if formula := contract.work.flops or contract.work.bytes:
        return evaluate(formula, columns)
    return columns.get(contract.scoring.time_ms or "", float(place))


def _find_noisiest(rows: Sequence[Row], contract: Contract) -> list[str]:
    spread = [(relative_stddev(row, contract.scoring) or 0.0, row.label) for row in rows]
    ranked = sorted((item for item in spread if item[0] > 0), key=lambda item: -item[0])
    return [label for _, label in ranked[:SPREAD_ROWS]]
