"""What the compiler and the headers say of types that no table has: plain numbers, and structs of them."""

import ast
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ridgeline.agent.scaffold.native import BUILD_S, Field, Plan
from ridgeline.agent.scaffold.signature import ITEM_BYTES, KINDS, QUALIFIERS, Parameter
from ridgeline.graph.values import Value
from ridgeline.sandbox.isolation.process import run

PLAIN_TYPES = {
    1: ("float", "double"),
    2: ("char", "signed char", "short", "int", "long", "long long"),
    3: ("unsigned char", "unsigned short", "unsigned", "unsigned long", "unsigned long long", "_Bool"),
}
PROBED = frozenset({"input", "output", "inout", "size", "scalar"})
"""Roles of parameters whose type matters."""
DEEPEST = 8
"""Structs within structs, and names for names, that are followed."""
MOST_FIELDS = 64
MOST_TEXT = 32_000_000
"""Bytes of a source with everything it includes."""


class Layout(Value):
    """What a type holds, in C's usual layout."""

    fields: tuple[Field, ...] = ()
    bytes: int = 0
    align: int = 1
    why: str = ""
    """Why it cannot be filled with numbers; then the rest says nothing."""


def resolve_types(plan: Plan) -> Plan:
    """C types of the scaffolded function under names that no table has: kinds of plain numbers, bytes and fields of others."""
    signature = plan.signature
    if signature.language in ("cuda", "hip"):
        return plan
    unknown = [item for item in signature.parameters if not item.kind and not item.why and item.role in PROBED]
    kinds = {item.name: probe_type(plan, _element_of(item)) for item in unknown}
    plain = {name: kind[0] for name, kind in kinds.items() if kind and kind[0] != "RAW"}
    parameters = [
        item.model_copy(update={"kind": plain[item.name]}) if item.name in plain else item
        for item in signature.parameters
    ]
    structs = [item for item in parameters if not item.kind and not item.why and item.role in PROBED]
    text = _preprocess(plan) if structs else ""
    layouts = {item.name: _layout_of(item, kinds[item.name], text) for item in structs}
    fields = {name: layout.fields for name, layout in layouts.items() if not layout.why}
    gaps = [
        f"{item.name}: {_describe_unsupported(item, layouts[item.name], text)}"
        for item in structs
        if layouts[item.name].why
    ]
    result = signature.result_kind
    if not result and signature.result != "void" and "*" not in signature.result:
        measured = probe_type(plan, signature.result)
        result = measured[0] if measured and measured[0] != "RAW" else ""
    if signature.result != "void" and not result:
        gaps.append(f"result: is a {signature.result}, which is not compared")
    update = {
        "parameters": tuple(_as_numbers(item, fields.get(item.name, ())) for item in parameters),
        "gaps": (*signature.gaps, *gaps),
        "result_kind": result,
    }
    items = {name: kind[1] for name, kind in kinds.items() if kind and kind[0] == "RAW"}
    return plan.model_copy(
        update={"signature": signature.model_copy(update=update), "item_bytes": items, "fields": fields}
    )


def _element_of(item: Parameter) -> str:
    return item.element or re.sub(r"\*|\bconst\b|\[.*", "", item.type).strip()


def _as_numbers(item: Parameter, fields: tuple[Field, ...]) -> Parameter:
    """A struct of numbers of one kind, as complex ones are, is so many numbers."""
    if len(fields) != 1 or item.kind or item.role == "scalar":
        return item
    return item.model_copy(update={"kind": fields[0].kind, "extents": (*item.extents, str(fields[0].count))})


def _layout_of(item: Parameter, kind: tuple[str, int] | None, text: str) -> Layout:
    """Layout of one element of a C array, checked against its size; a plain parameter of a struct stays a place to fill."""
    if kind is None:
        return Layout(why="the compiler does not know here")
    if item.role == "scalar":
        return Layout(why="is no plain number")
    layout = read_layout(text, _element_of(item))
    if not layout.why and layout.bytes != kind[1]:
        return Layout(why=f"takes {kind[1]} bytes, and its fields {layout.bytes}")
    return layout


def _describe_unsupported(item: Parameter, layout: Layout, text: str) -> str:
    """A complaint about a C type: what it is, why nothing stands for it, and who in the source makes one."""
    name = _element_of(item).split()[-1]
    makers = re.findall(rf"\b{re.escape(name)}\s*\*?\s*(\w+)\s*\(", text)
    hint = f"; {makers[-1]}() gives one" if makers else ""
    return f"is a {item.type}, which {layout.why}{hint}"


def _preprocess(plan: Plan) -> str:
    """The C source with everything it includes; empty where that fails."""
    argv = (plan.compiler, *plan.flags, "-w", "-E", "-P", str(plan.signature.file.resolve()))
    done = run(argv, cwd=plan.root, timeout_s=BUILD_S, output_bytes=MOST_TEXT)
    return done.output if done.ok else ""


# Structs.


def read_layout(text: str, name: str, depth: int = 0) -> Layout:
    """What a C type holds, by its definition in preprocessed source; neighbours of one kind are one field."""
    words = [word for word in name.split() if word not in QUALIFIERS - {"struct"}]
    bare = " ".join(word for word in words if word != "struct")
    kind = KINDS.get(bare.removeprefix("std::"), "")
    if kind and bare != "void":
        return Layout(fields=(Field(offset=0, kind=kind),), bytes=ITEM_BYTES[kind], align=ITEM_BYTES[kind])
    if depth > DEEPEST or not re.fullmatch(r"\w+", bare):
        return Layout(why="is no struct of numbers")
    body = _body_of(text, bare)
    if body is not None:
        return _merge(_layout_of_members(text, body, depth))
    alias = re.search(rf"\btypedef\s+([^;{{}}()]*?)\b{bare}\s*;", text)
    if alias is None:
        return Layout(why="is defined nowhere that its source includes")
    if "*" in alias[1]:
        return Layout(why="is a pointer")
    if re.search(r"\benum\b", alias[1]):
        return Layout(fields=(Field(offset=0, kind="I32"),), bytes=4, align=4)
    return read_layout(text, alias[1], depth + 1)


def _body_of(text: str, name: str) -> str | None:
    """What stands between the braces of a struct; None where it is none."""
    match = re.search(rf"\bstruct\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?{name}\s*\{{", text)
    if match:
        return text[match.end() : _closing(text, match.end() - 1)]
    match = re.search(rf"\}}\s*(?:__attribute__\s*\(\([^;]*?\)\)\s*)?{name}\s*;", text)
    if match is None:
        return None
    depth, at = 0, match.start()
    while at >= 0:
        depth += {"}": 1, "{": -1}.get(text[at], 0)
        if depth == 0:
            break
        at -= 1
    head = text[max(0, at - 120) : at].rpartition(";")[2]
    return text[at + 1 : match.start()] if re.search(r"\bstruct\b", head) else None


def _closing(text: str, at: int) -> int:
    """Where the brace at a place of a C struct is closed."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text)


def _members(body: str) -> Iterator[str]:
    """Declarations of a C struct's body, without the semicolon."""
    start = depth = 0
    for place, letter in enumerate(body):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == ";" and depth == 0:
            yield body[start:place].strip()
            start = place + 1


def _layout_of_members(text: str, body: str, depth: int, *, union: bool = False) -> Layout:
    """One member behind the other, each where its alignment lets it lie; of a union the first."""
    fields: list[Field] = []
    end, align = 0, 1
    for member in filter(None, _members(body)):
        layout, counts = _member(text, member, depth)
        if layout.why:
            return layout
        align = max(align, layout.align)
        for count in counts:
            start = 0 if union else -(-end // layout.align) * layout.align
            if not (union and fields):
                fields += [
                    item.model_copy(update={"offset": start + place * layout.bytes + item.offset})
                    for place in range(count)
                    for item in layout.fields
                ] if len(layout.fields) > 1 else [
                    item.model_copy(update={"offset": start + item.offset, "count": item.count * count})
                    for item in layout.fields
                ]  # fmt: skip
            end = max(end, start + count * layout.bytes)
            if len(fields) > MOST_FIELDS:
                return Layout(why=f"holds more than {MOST_FIELDS} fields")
    if not fields:
        return Layout(why="holds nothing that is read here")
    return Layout(fields=tuple(fields), bytes=-(-end // align) * align, align=align)


def _member(text: str, member: str, depth: int) -> tuple[Layout, list[int]]:
    """The C type of one declaration, and how many elements each of its names has."""
    member = re.sub(r"__attribute__\s*\(\(.*?\)\)|\b__extension__\b|\balignas\s*\([^)]*\)", "", member).strip()
    if "{" in member:
        brace, close = member.index("{"), member.rindex("}")
        is_union = re.match(r"union\b", member) is not None
        inner = _layout_of_members(text, member[brace + 1 : close], depth + 1, union=is_union)
        return inner, _counts(member[close + 1 :])
    name = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", member)
    if "*" in member or "&" in member:
        return Layout(why=f"holds a pointer ({name[1] if name else member[:40]})"), []
    if "(" in member and not re.search(r"\[[^\]]*\(", member):
        return Layout(why="has functions of its own"), []
    if ":" in re.sub(r"\w+::", "", member):
        return Layout(why=f"holds single bits ({member.partition(':')[0].split()[-1]})"), []
    head = re.match(r"((?:\w+\s+)+)(\w+\s*(?:\[.*)?(?:,.*)?)$", member, re.DOTALL)
    if head is None:
        return Layout(why=f"holds what is not read here ({member[:40]})"), []
    return read_layout(text, head[1], depth + 1), _counts(head[2])


def _counts(declarators: str) -> list[int]:
    """Elements of each name in the C declaration `a, b[4][2]`; one for a nameless member. A size that is no number counts as none."""
    counts: list[int] = []
    for declarator in declarators.split(","):
        count = 1
        for size in re.findall(r"\[([^\]]*)\]", declarator):
            count *= _compute(size) or 0
        counts.append(count)
    return counts


def _compute(text: str) -> int | None:
    """A constant expression of whole numbers in C; None for any other."""
    try:
        return _value_of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None


def _value_of(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _value_of(node.left), _value_of(node.right)
        results: Mapping[type[ast.operator], int] = {
            ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right,
            **({ast.Div: left // right} if right and isinstance(node.op, ast.Div) else {}),
        }  # fmt: skip
        if type(node.op) in results:
            return results[type(node.op)]
    raise ValueError("no constant expression")


def _merge(layout: Layout) -> Layout:
    """Neighbouring fields of a struct of one kind, without a gap between them, as one field."""
    merged: list[Field] = []
    for item in layout.fields:
        before = merged[-1] if merged else None
        touches = before and before.offset + before.count * ITEM_BYTES[before.kind] == item.offset
        if before and touches and before.kind == item.kind:
            merged[-1] = before.model_copy(update={"count": before.count + item.count})
        else:
            merged.append(item)
    return layout.model_copy(update={"fields": tuple(merged)})


# One type, as the compiler has it.


def probe_type(plan: Plan, name: str) -> tuple[str, int] | None:
    """Kind and bytes of a type as the compiler has it in the function's source; None where that does not compile.

    An array of 8 * bytes + 1 (float), + 2 (signed), + 3 (unsigned) or + 4 (anything else) elements says it in its size.
    """
    source = f'#include "{plan.signature.file.resolve()}"\n'
    if plan.signature.language == "c":
        cases = ", ".join(f"{number}: {code}" for code, numbers in PLAIN_TYPES.items() for number in numbers)
        text = f"{source}char ridgeline_type[8 * sizeof({name}) + _Generic(*({name} *)0, {cases}, default: 4)];\n"
    else:
        sort = f"std::is_floating_point<{name}>::value ? 1 : !std::is_integral<{name}>::value ? 4 : std::is_signed<{name}>::value ? 2 : 3"
        text = f'{source}#include <type_traits>\nextern "C" {{ char ridgeline_type[8 * sizeof({name}) + ({sort})]; }}\n'
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        file = Path(folder) / ("probe.c" if plan.signature.language == "c" else "probe.cpp")
        file.write_text(text, encoding="utf-8")
        argv = (plan.compiler, *plan.flags, "-w", "-O0", "-fno-lto", "-c", str(file), "-o", f"{folder}/probe.o")
        compiled = run(argv, cwd=plan.root, timeout_s=BUILD_S)
        if not compiled.ok:
            return None
        symbols = run(("nm", "-P", f"{folder}/probe.o"), cwd=plan.root, timeout_s=BUILD_S)
    size = re.search(r"^ridgeline_type \w \w+ (\w+)", symbols.output, re.MULTILINE)
    return _kind_of_size(int(size[1], 16)) if size else None


def _kind_of_size(size: int) -> tuple[str, int]:
    count, code = divmod(size, 8)
    letter = {1: "F", 2: "I", 3: "U"}.get(code)
    kind = f"{letter}{8 * count}"
    return (kind, count) if letter and kind in ITEM_BYTES else ("RAW", count)
