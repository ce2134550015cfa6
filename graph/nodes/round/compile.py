"""Build the candidate."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.evidence import BuildResult
from ridgeline.graph.nodes.round.repair import repairs_left
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Applied, Built, Failed


def compile(state: State, runtime: Runtime[Ports]) -> Update:  # noqa: A001 - the phase's name
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Applied)
    build = ports.builder.build(trial.commit)
    built = Built(applied=trial, build=build)
    limits = history(ports).limits
    if new := tampered(ports, build):
        return {"trial": Failed(reached=built, reason="tampered", detail=new)}
    if build.ok or (limits.repair_builds and repairs_left(trial.drafted, limits) > 0):
        return {"trial": built}
    timed_out = build.exit is not None and build.exit.timed_out
    detail = build.exit.output if build.exit else "the build failed without saying why"
    return {"trial": Failed(reached=built, reason="build_timeout" if timed_out else "build_failed", detail=detail)}


def tampered(ports: Ports, build: BuildResult) -> str:
    """What a good build changed of the evaluation, beyond what the original's own build does; empty when nothing.

    The files were restored, but the test or the benchmark may have been built from what they were meanwhile.
    """
    if not build.ok or not build.touched:
        return ""
    new = sorted(build.touched - ports.builder.build(history(ports).opened.base_commit).touched)
    if not new:
        return ""
    return f"the build changed what judges it, which the original's build leaves alone: {', '.join(new)}"
