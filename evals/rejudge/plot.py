"""A picture of the table: what each rule claims, what of it is true, and how often identical versions fool it."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.evals.rejudge.table import Tally

TRUE, CLAIMED, FOOLED = "#1a7f37", "#b0b0b0", "#b35900"
FORMATS = (".png", ".svg")


def draw(path: Path, tallies: Sequence[Tally]) -> None:
    """Write the picture, `.png` or `.svg` by the name. Raises UserError where matplotlib or the format is missing."""
    if path.suffix not in FORMATS:
        raise UserError(f"--plot: {path}: the name must end in {' or '.join(FORMATS)}")
    if find_spec("matplotlib") is None:
        raise UserError("--plot: matplotlib is not installed here; pip install matplotlib", exit_code=5)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.5 * len(tallies) + 2), dpi=144, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    places = list(range(len(tallies)))
    left.barh([p - 0.2 for p in places], [t.claimed for t in tallies], height=0.38, color=CLAIMED, label="claimed")
    left.barh([p + 0.2 for p in places], [t.true for t in tallies], height=0.38, color=TRUE, label="true")
    left.set_xlabel("speedup of what is kept, geometric mean of campaigns")
    left.set_yticks(places, [tally.rule for tally in tallies])
    left.invert_yaxis()
    left.legend(loc="upper left", bbox_to_anchor=(0, 1.08), ncols=2, frameon=False)
    shares = [100 * tally.twins_kept / tally.twins if tally.twins else 0.0 for tally in tallies]
    right.barh(places, shares, height=0.6, color=FOOLED)
    right.set_xlabel(f"identical versions that were kept, % of {tallies[0].twins}")
    right.set_xlim(0, 100)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format=path.suffix[1:])
