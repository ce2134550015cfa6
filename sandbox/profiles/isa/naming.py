"""Which of several kernels is meant."""

from collections.abc import Sequence


class NotReadable(ValueError):
    """The text or file is not the code of a kernel; the message says what is missing.

    `several`: the kernels in it, where one of them had to be named and none was.
    """

    def __init__(self, text: str, several: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.several = tuple(several)


def named(found: Sequence[str], kernel: str | None) -> str:
    """The kernel of that name, mangled or plain; the only one where no name is given. Raises `NotReadable`."""
    if kernel is None and len(found) == 1:
        return found[0]
    if kernel is not None:
        if kernel in found:
            return kernel
        longer = [name for name in found if _stands_for(name, kernel)]
        if len(longer) == 1:
            return longer[0]
    listed = ", ".join(found) or "none"
    what = f"no kernel {kernel!r}" if kernel else "not exactly one kernel"
    raise NotReadable(f"{what}; those in it: {listed}", () if kernel else found)


def _stands_for(name: str, kernel: str) -> bool:
    """C++ writes a name and its length into a longer one; FlyDSL numbers its kernels."""
    numbered = name.startswith(f"{kernel}_") and name[len(kernel) + 1 :].isdigit()
    return numbered or (name.startswith("_Z") and f"{len(kernel)}{kernel}" in name)
