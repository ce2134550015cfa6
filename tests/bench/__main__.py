"""`make bench`: what Ridgeline itself costs, measured here and now. Exits 1 when a stated bound is broken."""

import argparse
import json
import sys
from pathlib import Path

from tests.bench import (
    audit,
    branches,
    busy,
    fleet,
    judge,
    knowledge,
    known_noise,
    loop,
    measurement,
    overhead,
    prompts,
    recorded,
    services,
    simulation,
    startup,
    traces,
)

SUITES = {
    "startup": startup.run,
    "loop": loop.run,
    "overhead": overhead.run,
    "measurement": measurement.run,
    "simulation": simulation.run,
    "known_noise": known_noise.run,
    "recorded": recorded.run,
    "knowledge": knowledge.run,
    "prompts": prompts.run,
    "traces": traces.run,
    "judge": judge.run,
    "audit": audit.run,
    "branches": branches.run,
    "busy": busy.run,
    "fleet": fleet.run,
    "services": services.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="which parts; default: all")
    parser.add_argument("--out", type=Path, help="also write the rows as JSON")
    asked = parser.parse_args()
    rows = []
    for name in asked.suites or SUITES:
        for row in SUITES[name]():
            rows.append({"suite": name, **row})
            bound = f"  (bound {row['bound']:g})" if row.get("bound") is not None else ""
            verdict = "" if row.get("ok") is None else ("  ok" if row["ok"] else "  BROKEN")
            sys.stdout.write(f"{name:12} {row['what']:58} {row['value']:10.3f} {row['unit']:12}{bound}{verdict}\n")
            sys.stdout.flush()
    if asked.out:
        asked.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(row.get("ok") is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
