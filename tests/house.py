"""`make house`: lines and modules of each room, and the modules that one neighbour alone imports."""

import sys
from collections import defaultdict

from tests.shape.test_rooms import imports, modules, short, text


def main() -> None:
    """Print the table."""
    lines: dict[str, list[int]] = defaultdict(list)
    for module, path in modules().items():
        parts = short(module).split(".")
        lines["/".join(parts[:2]) if len(parts) > 2 or path.name == "__init__.py" else parts[0]].append(
            text(path).count("\n")
        )
    for room, counts in sorted(lines.items()):
        sys.stdout.write(f"{room:24}{len(counts):5} modules{sum(counts):8} lines\n")
    users: dict[str, set[str]] = defaultdict(set)
    for module, targets in imports().items():
        for target in targets:
            users[target].add(module)
    beside = [m for m in modules() if len(users[m]) == 1 and min(users[m]).rpartition(".")[0] == m.rpartition(".")[0]]
    total = sum(map(sum, lines.values()))
    sys.stdout.write(
        f"{'all':24}{len(modules()):5} modules{total:8} lines; imported by one neighbour only: {len(beside)}\n"
    )


if __name__ == "__main__":
    main()
