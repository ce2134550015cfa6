"""Runs beside a candidate: evaluates a cache's key over training steps with new tensors and says each key.

Standard library and the target's own torch, on the CPU. Reads one JSON object from its argument and writes one.
"""

import ast
import importlib
import json
import sys
from typing import Any

ALLOWED = (ast.Expression, ast.Call, ast.Name, ast.Attribute, ast.Tuple, ast.Load, ast.Constant, ast.Subscript)
FUNCTIONS = {"id": id, "hash": hash, "tuple": tuple, "str": str, "int": int}
METHODS = frozenset(
    {"data_ptr", "stride", "size", "numel", "untyped_storage", "storage", "dim", "item", "tolist", "sum"}
)


def plain(text: str) -> ast.Expression:
    """The audit: a key's term, if it only asks a tensor what it is. Raises ValueError for anything that does more."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, ALLOWED) or (isinstance(node, ast.Attribute) and node.attr.startswith("__")):
            raise ValueError(f"{text!r} does more than ask a tensor what it is")
        if isinstance(node, ast.Call):
            called = node.func
            method = isinstance(called, ast.Attribute) and called.attr in METHODS
            if not method and not (isinstance(called, ast.Name) and called.id in FUNCTIONS):
                raise ValueError(f"{text!r} calls what is not known")
    return tree


def main() -> None:
    """The audit: every look-up of a simulated cache in every step, as JSON on standard output."""
    torch: Any = importlib.import_module("torch")  # of the target's interpreter, which alone needs one

    question = json.loads(sys.argv[1])
    terms = [compile(plain(term["text"]), "key", "eval") for term in question["terms"]]
    names = [term["name"] for term in question["terms"]]
    weight = torch.ones(4, 4)
    tensors, lookups = [], []
    for step in range(question["steps"]):
        for _half in range(2):
            tensor = weight if question["role"] == "weight" else torch.ones(4, 4)
            tensors.append(tensor)  # an address that is used again would hide that the tensor is another one
            namespaces = [{**FUNCTIONS, name: tensor} for name in names]
            key = [eval(code, {"__builtins__": {}}, here) for code, here in zip(terms, namespaces, strict=True)]
            lookups.append({"step": step, "key": repr(key), "version": step if question["role"] == "weight" else 0})
        with torch.no_grad():
            weight.add_(1.0)
    sys.stdout.write(json.dumps({"lookups": lookups}) + "\n")


if __name__ == "__main__":
    main()
