"""Why there is no report on a kernel's code. None of these says anything about how good the kernel is."""

from collections.abc import Sequence

from ridgeline.graph.errors import WorldError


class NotCompiled(WorldError):
    """The file, or what was said about it, does not give code for this target. `field` names what can be mended.

    `several`: names of the kernels that were found, where one of them had to be named and none was.
    """

    exit_code = 2

    def __init__(self, field: str, text: str, several: Sequence[str] = ()) -> None:
        self.field, self.text, self.several = field, text, tuple(several)
        super().__init__(f"{field}: {text}")


class CompilerMissing(WorldError):
    """The compiler, or the tool that reads its output, is not on this machine."""
