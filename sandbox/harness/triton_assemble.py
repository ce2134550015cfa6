"""Runs in a process of its own: turns Triton IR into assembly and a binary. The kernel's file is not run here.

Arguments: a request (JSON) and where to write the answer (JSON). Needs the standard library and Triton.
"""

import base64
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer with the assembly, the binary and the shared memory per block in bytes, for one target."""
    request, answer = Path(sys.argv[1]), Path(sys.argv[2])
    made = assembled(request.parent, json.loads(request.read_text(encoding="utf-8")))
    answer.write_text(json.dumps(made), encoding="utf-8")


def assembled(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """What the compiler makes of the IR; what it refuses ends this process with the compiler's own words."""
    source = folder / "kernel.ttir"
    source.write_text(wanted["ttir"], encoding="utf-8")
    words = wanted["backend"], wanted["arch"], wanted["warp_size"]
    target = import_module("triton.backends.compiler").GPUTarget(*words)
    made = import_module("triton").compile(str(source), target=target, options=wanted["options"])
    binary = made.asm.get("hsaco") or made.asm.get("cubin") or b""
    return {
        "assembly": made.asm.get("amdgcn") or made.asm.get("ptx"),
        "binary": base64.b64encode(binary).decode(),
        "shared": made.metadata.shared,
        "num_warps": made.metadata.num_warps,
        "num_stages": getattr(made.metadata, "num_stages", None),
        "name": made.metadata.name,
    }


if __name__ == "__main__":
    main()
