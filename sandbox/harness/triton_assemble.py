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
    """In the process that assembles Triton's IR: answer with assembly, binary and bytes of shared memory per block, for one target."""
    request, answer = Path(sys.argv[1]), Path(sys.argv[2])
    result = assemble(request.parent, json.loads(request.read_text(encoding="utf-8")))
    answer.write_text(json.dumps(result), encoding="utf-8")


def assemble(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """In the process that assembles Triton's IR: what the compiler makes of it; what it refuses ends this process, in its words."""
    source = folder / "kernel.ttir"
    source.write_text(request["ttir"], encoding="utf-8")
    words = request["backend"], request["arch"], request["warp_size"]
    target = import_module("triton.backends.compiler").GPUTarget(*words)
    compiled = import_module("triton").compile(str(source), target=target, options=request["options"])
    binary = compiled.asm.get("hsaco") or compiled.asm.get("cubin") or b""
    return {
        "assembly": compiled.asm.get("amdgcn") or compiled.asm.get("ptx"),
        "binary": base64.b64encode(binary).decode(),
        "shared": compiled.metadata.shared,
        "tensor_columns": getattr(compiled.metadata, "tmem_size", None) or None,
        "num_warps": compiled.metadata.num_warps,
        "num_stages": getattr(compiled.metadata, "num_stages", None),
        "name": compiled.metadata.name,
        "ttgir": compiled.asm.get("ttgir") or "",
    }


if __name__ == "__main__":
    main()
