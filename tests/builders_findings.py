"""Findings of the audit for tests."""

from ridgeline.graph.finding import Finding


def make_finding(severity: str = "routes", **fields) -> Finding:
    default = {
        "rule": "file-access",
        "path": "k.py",
        "line": 3,
        "code": "open(p)",
        "meaning": "reads files",
        "closer": "isolation",
    }
    return Finding(severity=severity, **{**default, **fields})
