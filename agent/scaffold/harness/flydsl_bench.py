"""Test and benchmark of a FlyDSL kernel: runs the project's one fixed command, and gives its CSV a label and a check.

Written by `ridgeline init --like flydsl`. The command takes no arguments and writes a CSV of its own name into the folder
in which it runs; a row is right when COMMAND ended well and its error column is 0.
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path

COMMAND = ["python", str(Path("tests") / "kernels" / "test_pa.py")]
CONFIG = ["block_size", "mtp", "head_size"]
ERROR, TIME_US = "err_flydsl_ps", "us_flydsl_ps"
HEADER = ["label", *CONFIG, "Check", ERROR, TIME_US, "Time (ms)"]


def main() -> int:
    """Exit code of the command; 3 where it wrote no CSV with the columns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--shapes", default="", help="comma list of labels; all rows are measured, these are written")
    words = parser.parse_args()
    before = {path: path.stat().st_mtime_ns for path in Path().glob("*.csv")}
    ended = subprocess.run([sys.executable if COMMAND[0] == "python" else COMMAND[0], *COMMAND[1:]], check=False)
    if ended.returncode != 0:
        return ended.returncode
    new = [path for path in Path().glob("*.csv") if before.get(path) != path.stat().st_mtime_ns]
    tables = [list(csv.DictReader(path.open(encoding="utf-8", newline=""))) for path in new]
    rows = next((rows for rows in tables if rows and {ERROR, TIME_US} <= rows[0].keys()), None)
    if rows is None:
        print(f"{' '.join(COMMAND)} wrote no CSV with {ERROR} and {TIME_US}")
        return 3
    wanted = set(words.shapes.split(",")) - {""}
    with Path(words.csv).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for row in rows:
            config = [row.get(name, "-") for name in CONFIG]
            label = "_".join(f"{name}{value}" for name, value in zip(CONFIG, config, strict=True) if value != "-")
            if wanted and label not in wanted:
                continue
            check = "PASS" if float(row[ERROR]) == 0 else "FAIL"
            writer.writerow([label, *config, check, row[ERROR], row[TIME_US], f"{float(row[TIME_US]) / 1000:.9g}"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
