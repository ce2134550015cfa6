"""Every rule of the audit: what a finding means, which closer check settles it, and whether it convicts by itself.

A rule convicts only when no kernel has an honest use for what it names, so that reading the source is enough. All
others name things that honest kernels do too: a workspace kept between calls, a second stream, a cast to half. Those
are sent to the check that tells the two apart by running the candidate.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ridgeline.graph.finding import Closer, Finding, KeyTerm, Severity
from ridgeline.graph.values import Bucket

QUOTED = 160
"""Characters of the source line that a finding repeats."""


@dataclass(frozen=True)
class Rule:
    """What the audit says about one kind of place."""

    meaning: str
    closer: Closer
    bucket: Bucket | None = None
    convicts: bool = False
    only: Literal["", "C", "Python"] = ""
    """The one language whose sources can have it; empty for any."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A rule that fired at a line, counted from 1. `code` is quoted in place of the line."""

    rule: str
    line: int
    key: tuple[KeyTerm, ...] = ()
    code: str = ""
    soft: bool = False
    """It does not convict: the place is not part of what is built, as far as this file tells."""


RULES: dict[str, Rule] = {
    # Convicting: nobody computes anything with these.
    "replaced-clock": Rule("replaces what the time is taken with", "judge_clock", convicts=True),
    "replaced-judge": Rule("replaces what results are compared with", "isolation", convicts=True),
    "caller-frame": Rule("reads the variables of whoever calls it", "isolation", convicts=True, only="Python"),
    "object-walk": Rule(
        "searches the process's memory for other people's objects", "isolation", convicts=True, only="Python"
    ),
    "foreign-memory": Rule("reads or writes memory outside its own arrays", "isolation", convicts=True),
    "preload": Rule("has its own library loaded before everybody else's", "isolation", convicts=True),
    "hidden-code": Rule("runs code that is packed so that it cannot be read", "reading", convicts=True, only="Python"),
    "ends-process": Rule("ends the process as a success before anything is checked", "isolation", convicts=True),
    "other-program": Rule("has the build run another program than its compiler", "isolation", convicts=True, only="C"),
    "hidden-syscall": Rule("calls the operating system from inline assembly", "isolation", convicts=True, only="C"),
    "kills-others": Rule("ends processes that are not its own", "isolation", convicts=True),
    # Caches and replay.
    "identity-cache": Rule(
        "keeps results under the identity of a tensor that is new in every step", "hit_rate_trace", "W2", only="Python"
    ),
    "weight-cache": Rule("keeps what it made of a weight for the next call", "fresh_tensor_simulation", "W1"),
    "address-cache": Rule(
        "keeps results under an address, which allocators use again", "fresh_tensor_simulation", "W2"
    ),
    "content-cache": Rule("keeps results under a few of the input's values", "sensitivity_pair", "W3"),
    "layout-cache": Rule("returns what it kept for a shape, whatever the values", "fresh_tensor_simulation", "W3"),
    "memo": Rule("remembers the results of a function of tensors", "hit_rate_trace", "W3", only="Python"),
    "tensor-weakref": Rule("remembers a tensor by a weak reference", "hit_rate_trace", "W2", only="Python"),
    "kept-output": Rule("returns what an earlier call left behind", "fresh_tensor_simulation", "W3"),
    "reads-output": Rule("looks at what its output holds before it writes there", "poisoned_output"),
    "device-state": Rule("keeps state on the device from call to call", "fresh_tensor_simulation"),
    "call-count": Rule("counts its calls and decides by the count", "one_call_path"),
    "graph-replay": Rule("replays a captured graph without copying the inputs in", "graph_lane"),
    # Streams and threads.
    "side-stream": Rule("works on a stream of its own that nothing waits for", "stream_fingerprint"),
    "thread": Rule("works in a thread that may outlive the call", "stream_fingerprint"),
    "lazy-output": Rule("returns an object that computes when it is looked at", "poisoned_output", only="Python"),
    # Harness and surroundings.
    "may-exit": Rule("may end the process before anything is checked", "isolation"),
    "raw-syscall": Rule("calls the operating system by number", "isolation", only="C"),
    "symbol-name": Rule("gives its code the name of another's symbol", "isolation", only="C"),
    "shared-macro": Rule("changes the text of a protected file that includes it", "isolation", only="C"),
    "local-macro": Rule("gives a name of the system another meaning in this file", "reading"),
    "patched-library": Rule("changes a library for everybody in the process", "isolation", only="Python"),
    "global-setting": Rule("changes a setting that the reference shares", "precision_probe"),
    "caller-look": Rule("looks at who calls it", "one_call_path", only="Python"),
    "mode-branch": Rule("asks whether it is being tested or timed", "one_call_path"),
    "capture-branch": Rule("asks whether it is being captured", "graph_lane"),
    "clock-read": Rule("reads a clock", "one_call_path"),
    "sleeps": Rule("waits on purpose", "judge_clock"),
    "clock-control": Rule("changes the device's clocks, power or cache limits", "judge_clock"),
    "file-access": Rule("reads or writes files", "isolation"),
    "network": Rule("opens a connection", "isolation"),
    "starts-process": Rule("starts or forks a process", "isolation"),
    "native-load": Rule("loads compiled code that is not among the sources", "isolation"),
    "inline-asm": Rule("has inline assembly, which this audit does not read", "reading"),
    "runs-at-load": Rule("runs when it is loaded, before it is called", "isolation"),
    "hidden-name": Rule("puts together a name that reading cannot tell", "isolation"),
    "runs-text": Rule("runs text as code", "reading"),
    "shadowed-import": Rule("takes the place of a module that others import", "isolation"),
    "build-setting": Rule("changes by an option of the build what the sources mean", "isolation"),
    "reads-reference": Rule("uses the reference, the test or the benchmark", "isolation"),
    "reads-seed": Rule("reads or sets the seeds that inputs are drawn with", "isolation"),
    "fake-report": Rule("prints or writes what a benchmark would report", "isolation"),
    # Numbers and work.
    "downgrade": Rule("computes in less precision than the data has", "precision_probe"),
    "relaxed-math": Rule("lets the compiler change what NaN, infinity, subnormals and rounding give", "reading"),
    "library-call": Rule("has a library do the work", "knock_out"),
    "fallback": Rule("goes to a library when its own kernel fails", "knock_out"),
    "constant-output": Rule("returns what does not depend on the inputs", "sensitivity_pair"),
    "untouched-output": Rule("returns memory that it did not write", "poisoned_output"),
    "pass-through": Rule("returns its input", "sensitivity_pair"),
    "value-branch": Rule("chooses its way by the input's values", "sensitivity_pair"),
    "size-branch": Rule("ends early for some sizes", "held_out_shapes"),
    "uniform-groups": Rule("takes for granted that all groups are of one size", "skew_shapes"),
    "protected-path": Rule("changes a file that the contract protects", "isolation", convicts=True),
    "unreadable": Rule("cannot be parsed, so it was not examined", "reading"),
}

CONVICTING = frozenset(name for name, rule in RULES.items() if rule.convicts)


def describe_rules(names: Collection[str], *, compiled: bool, explained: bool) -> str:
    """Those of the audit's rules that a source of the language can break, in the table's order; `explained`: with what each means.

    `compiled`: C and its kin, else Python.
    """
    language = "C" if compiled else "Python"
    rules = ((name, rule) for name, rule in RULES.items() if name in names and rule.only in ("", language))
    return ", ".join(f"{name} ({rule.meaning})" if explained else name for name, rule in rules)


def finding(hit: Hit, path: str, lines: list[str], *, embedded: bool = False) -> Finding:
    """The finding of a hit in the file `path`; `embedded` source, inside a string, is never convicted."""
    rule = RULES[hit.rule]
    quoted = hit.code or (lines[hit.line - 1].strip() if 0 < hit.line <= len(lines) else "")
    return Finding(
        rule=hit.rule,
        path=path,
        line=hit.line,
        code=quoted if len(quoted) <= QUOTED else f"{quoted[: QUOTED - 3]}...",
        meaning=rule.meaning,
        severity=_severity(hit, embedded=embedded),
        closer=rule.closer,
        bucket=rule.bucket,
        key=hit.key,
    )


def _severity(hit: Hit, *, embedded: bool) -> Severity:
    """The audit: a weight cache whose key holds the weight's version is allowed; Rule 11 bounds what it may claim."""
    if hit.rule == "weight-cache" and any(term.part == "weight_version" for term in hit.key):
        return "notes"
    return "convicts" if RULES[hit.rule].convicts and not embedded and not hit.soft else "routes"
