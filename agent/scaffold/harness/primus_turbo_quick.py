"""Quick validation of a Primus-Turbo kernel: the project's own `quick_test_bench.py` on the shapes that are named.

Written by `ridgeline init --like primus-turbo`. The template's SHAPES stay empty in the project; here they are filled
from the labels, which have the template's own form `M<M>_N<N>_K<K>`. Its CSV header and its exit codes are passed on.
"""

import argparse
import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "agent" / "skills" / "primus-turbo-develop" / "optimize-handoff" / "quick_test_bench.py"
LABEL = re.compile(r"M(\d+)_N(\d+)_K(\d+)")


def main() -> int:
    """Of the quick test that `init` writes for Primus-Turbo: the template's exit code: 0 all PASS, 1 some FAIL, 2 no device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--summary-csv", required=True)
    parser.add_argument("--labels", required=True, help="comma list, M4096_N4096_K4096")
    parser.add_argument("--repeats", default="3")
    parser.add_argument("--iters-per-repeat", default="50")
    words = parser.parse_args()
    spec = importlib.util.spec_from_file_location("quick_test_bench", TEMPLATE)
    template = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(template)
    for label in words.labels.split(","):
        size = LABEL.fullmatch(label)
        if size is None:
            sys.exit(f"--labels: {label!r} is not of the form M4096_N4096_K4096")
        template.SHAPES.append({"label": label, **dict(zip("MNK", map(int, size.groups()), strict=True))})
    options = ("--repeats", words.repeats, "--iters-per-repeat", words.iters_per_repeat)
    sys.argv = [str(TEMPLATE), *options, "--summary-csv", words.summary_csv]
    return template.main()


if __name__ == "__main__":
    sys.exit(main())
