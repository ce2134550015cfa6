"""Why there is no report on a kernel's code. None of these says anything about how good the kernel is."""

from sandbox.errors import WorldError


class NotCompiled(WorldError):
    """The file, or what was said about it, does not give code for this target. `field` names what can be mended."""

    exit_code = 2

    def __init__(self, field: str, text: str) -> None:
        self.field, self.text = field, text
        super().__init__(f"{field}: {text}")


class CompilerMissing(WorldError):
    """The compiler, or the tool that reads its output, is not on this machine."""
