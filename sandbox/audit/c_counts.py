"""C, C++, CUDA and HIP: whether a lasting counter decides anything, or only says where the next entry of a table is."""

from ridgeline.sandbox.audit.c_source import CFunction, CSource

RESTRICTIONS = frozenset({"restrict", "__restrict__", "__restrict"})
LEAVES = frozenset({"return", "goto", "break", "continue", "longjmp"})


def decides(source: CSource, name: str) -> bool:
    """Whether some condition asks for the counter, other than to keep it within its table or to set one up once."""
    for at, token in enumerate(source.tokens):
        branch = token.kind == "name" and token.text == "if" and source.text(at + 1) == "("
        asked = branch and name in source.names(at + 2, source.closing(at + 1))
        if asked and not _bookkeeping(source, at, name):
            return True
        if token.text == "?" and name in source.names(max(0, at - 8), at):
            return True
    return False


def _bookkeeping(source: CSource, at: int, name: str) -> bool:
    """`if (++next == 4) next = 0;`, `if (n < MOST) table[n++] = entry;` and `if (!ready++)` before a table's loop."""
    close = source.closing(at + 1)
    begin, end = _body(source, close + 1)
    if source.text(end + 1) == "else":
        return False
    words = [token.text for token in source.tokens[begin:end]]
    while words[-1:] == [";"]:
        words.pop()
    function = source.around(at)
    given = parameters(function) if function else set()
    if words == [name, "=", "0"]:
        return True
    if words[1:6] == ["[", name, "++", "]", "="]:
        return words[0] not in given and ";" not in words
    once = [token.text for token in source.tokens[at + 2 : close]] == ["!", name, "++"]
    return once and not (_handed_on(source, given) | given | LEAVES) & set(words) and not _calls(source, begin, end)


def parameters(function: CFunction) -> set[str]:
    """Names of what a function takes: each the last one before a comma, or before an array's bracket."""
    found: set[str] = set()
    last = ""
    for token in function.head:
        if token.text == "," and last:
            found.add(last)
        last = (
            token.text if token.kind == "name" and token.text not in RESTRICTIONS else "" if token.text == "," else last
        )
    return found | ({last} if last else set())


def _body(source: CSource, at: int) -> tuple[int, int]:
    """The statement that begins at a token: its first token, and the `;` or bracket that ends it."""
    begin = at
    while source.text(at) in {"for", "while"} and source.text(at + 1) == "(":
        at = source.closing(at + 1) + 1
    if source.text(at) == "{":
        return (begin + 1 if at == begin else begin), source.closing(at)
    while at < len(source.tokens) - 1 and source.text(at) != ";":
        at += 1
    return begin, at


def _handed_on(source: CSource, given: set[str]) -> set[str]:
    """Names that a parameter was assigned to anywhere: through them a body reaches what it is given."""
    return {
        source.text(at - 1)
        for at, token in enumerate(source.tokens)
        if token.text == "=" and source.text(at + 1) in given
    }


def _calls(source: CSource, begin: int, end: int) -> bool:
    """Whether functions of this file are called in between, which may do anything."""
    own = {function.name for function in source.functions}
    return any(begin <= call.at < end and call.name in own for call in source.calls)
