"""The edit kinds, each as a table: what matches, what is left alone, what the text becomes."""

import ast

import pytest

from ridgeline.knowledge.pattern import search
from ridgeline.knowledge.rewrite import add_restrict, apply, before_loops, render
from ridgeline.knowledge.source import tokens
from ridgeline.knowledge.steps import Case, Constant, Decorator, Flags, Insert, LoopPragma, Restrict, Substitute
from ridgeline.knowledge.sweeps import neighbours, set_constant, settings

O3 = Flags(add=("-O3",), pragma='#pragma GCC optimize("O3")')


@pytest.mark.parametrize(
    ("find", "text", "found"),
    [
        ("$for(i, 0, $n) { $x += $y; }", "for (int i = 0; i < n; i++) { s += a[i]; }", True),
        ("$for(i, 0, $n) { $x += $y; }", "for (size_t i = 0; i < n; ++i) s += a[i];", True),
        ("$for(i, 0, $n) { $x += $y; }", "for (i = 0; i < 2 * n; i += 1)\n  s += a[i]; // sum", True),
        ("$for(i, 0, $n) { $x += $y; }", "for (int i = 0; i < n; i += 2) { s += a[i]; }", False),
        ("$for(i, 0, $n) { $x += $y; }", "for (int i = 1; i < n; i++) { s += a[i]; }", False),
        ("$for(i, 0, $n) { $x += $y; }", "for (int i = 0; i < n; i++) { s += a[i]; t++; }", False),
        ("$for(i, 0, $n) { $add($x, $y); }", "for (int i = 0; i < n; i++) s = s + a[i];", True),
        ("$f:id($a, $a)", "g(x + 1, x+1)", True),
        ("$f:id($a, $a)", "g(x + 1, x + 2)", False),
        ("$s = $mul($A:atom, k)", "s = k * (a + b)", True),
        ("$s = $A:atom * k;", "s = a + b * k;", False),
        ("$T:type $x:id = $v:num;", "const unsigned long total = -3;", True),
        ("$T:type $x:id = $v:num;", "total = 3;", False),
        ("f($x)", '"f(1)"; /* f(2) */', False),
        ("if ($c) { $x = $y; }", "if (a > b) c = d;", True),
    ],
)
def test_pattern(find: str, text: str, found: bool) -> None:
    assert bool(list(search(text, find, lang="c"))) is found


@pytest.mark.parametrize(
    ("condition", "expression", "true"),
    [
        ("unit A j", "b[p * n + j]", True),
        ("unit A j", "b[j]", True),
        ("unit A j", "b[p][j + 1]", True),
        ("unit A j", "b[j][p]", False),
        ("unit A j", "b[j * n + p]", False),
        ("unit A j", "b[idx[j]]", False),
        ("has A j", "b[j * n]", True),
        ("lacks A j", "b[j * n]", False),
        ("lacks A j", "b[i]", True),
    ],
)
def test_condition(condition: str, expression: str, true: bool) -> None:
    text = f"for (int j = 0; j < n; j++) {{ s += {expression}; }}"
    assert bool(list(search(text, "$for(j, 0, $n) { s += $A; }", lang="c", where=(condition,)))) is true


def test_unknown_condition_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown condition"):
        list(search("a = b;", "$x:id = $y;", lang="c", where=("loves x y",)))


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("a[i]", "i + 1", "a[i + 1]"),
        ("a[i * k + p]", "i + 1", "a[(i + 1) * k + p]"),
        ("a[n + i]", "i + 1", "a[n + i + 1]"),
        ("a[-i]", "i + 1", "a[-(i + 1)]"),
        ("a[p /* row */ + i]", "q", "a[p /* row */ + q]"),
        ("ai[i]", "q", "ai[q]"),
    ],
)
def test_renaming_keeps_precedence(expression: str, value: str, expected: str) -> None:
    text = f"f({expression}, i);"
    match = next(search(text, "f($A, $i:id);", lang="c"))
    assert render(text, match, replace="${A|i=" + value + "}", lang="c") == expected


def test_fresh_names_do_not_collide_and_text_is_indented_like_its_place() -> None:
    text = "void f(void) {\n\tint t = 1;\n\tif (t)\n\t\tg(t);\n}\n"
    match = next(search(text, "g($x);", lang="c"))
    assert (
        render(text, match, replace="{\nint $t = $x;\ng($t);\n}", lang="c")
        == "{\n\t\t\tint t2 = t;\n\t\t\tg(t2);\n\t\t}"
    )


def test_virtual_braces_have_no_width() -> None:
    text = "for (;;) if (a) b; else while (c) d;"
    stream = tokens(text, "c")
    assert "".join(token.text for token in stream) == "for(;;){if(a){b;}else{while(c){d;}}}"
    assert "".join(text[token.start : token.end] for token in stream) == text.replace(" ", "")


@pytest.mark.parametrize(
    ("old", "add", "new"),
    [
        ("-O2\n", ("-O3",), "-O3\n"),
        ("-Os -g", ("-O3",), "-g -O3\n"),
        ("-O3\n", ("-O3",), None),
        ("-march=x86-64 -O2", ("-march=native",), "-O2 -march=native\n"),
        ("", ("-ffast-math",), "-ffast-math\n"),
        ("-O2 # level", ("-g",), "-O2 -g\n"),
        ('-DNAME="a b" -O1\n', ("-O3",), '-DNAME="a b" -O3\n'),
        ('-DODD="', ("-O3",), '-DODD=" -O3\n'),
        ("-mtune=generic", ("-march=native",), "-mtune=generic -march=native\n"),
    ],
)
def test_flags(old: str, add: tuple[str, ...], new: str | None) -> None:
    changed = apply((Flags(add=add),), {"k.flags": old, "k.c": "int a;"}, flags_file="k.flags")
    assert changed == (None if new is None else {"k.flags": new})


def test_flags_without_a_file_become_a_pragma_once() -> None:
    sources = {"k.c": "int a;\n", "k.h": "int b;\n"}
    changed = apply((O3,), sources, flags_file=None)
    assert changed == {"k.c": '#pragma GCC optimize("O3")\nint a;\n'}
    assert apply((O3,), sources | changed, flags_file=None) is None
    assert apply((Flags(add=("-march=native",)),), sources, flags_file=None) is None


@pytest.mark.parametrize(
    ("step", "text", "expected"),
    [
        (Insert(where="top", text="A"), "x\n", "A\nx\n"),
        (Insert(where="top", text="A", only_if="y"), "x\n", None),
        (
            Insert(where="after_includes", text="A"),
            "#include <a>\n#include <b>\n\nx\n",
            "#include <a>\n#include <b>\n\nA\n\nx\n",
        ),
        (Insert(where="before", text="A", match="fo+"), "x\n foo\n", "x\nA\n foo\n"),
        (Insert(where="before", text="A", match="bar"), "x\n foo\n", None),
        (Insert(where="top", text="x"), "x\n", None),
    ],
)
def test_insert(step: Insert, text: str, expected: str | None) -> None:
    changed = apply((step,), {"k.c": text}, flags_file=None)
    assert changed == (None if expected is None else {"k.c": expected})


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("define", "#define TILE 8 // why\n", "#define TILE 16 // why\n"),
        ("define", "#define TILE (8)\n", "#define TILE (16)\n"),
        ("define", "static constexpr int TILE = 8;\n", "static constexpr int TILE = 16;\n"),
        ("define", "#define TILE_OF 8\n#define TILES(x) 8\n", None),
        ("define", "#define TILE 8 * 2\n", None),
        ("assigned", "TILE = 8  # rows\n", "TILE = 16  # rows\n"),
        ("assigned", "TILE: tl.constexpr = 8\n", "TILE: tl.constexpr = 16\n"),
        ("assigned", "TILE = tl.constexpr(8)\n", "TILE = tl.constexpr(16)\n"),
        ("assigned", "def f(x, TILE: tl.constexpr = 8):\n", "def f(x, TILE: tl.constexpr = 16):\n"),
        ("assigned", "TILE = next_power_of_2(8)\n", None),
        ("keyword", "k[g](x, TILE=8)\n", "k[g](x, TILE=16)\n"),
        ("keyword", "triton.Config({'TILE': 8}, num_warps=4)\n", "triton.Config({'TILE': 16}, num_warps=4)\n"),
        ("keyword", "k[g](x, TILE=8)\nk[h](y, TILE=32)\n", None),
        ("keyword", "k[g](x, TILE=size)\n", None),
    ],
)
def test_constant(form: str, text: str, expected: str | None) -> None:
    step = Constant(names="TILE", form=form, ladder=(4, 8, 16, 32))
    found = settings(step, {"k": text})
    assert [setting.value for setting in found] == ([] if expected is None else [8])
    if expected is not None:
        assert set_constant(text, step, target={"TILE": 16}) == expected


@pytest.mark.parametrize(("value", "expected"), [(8, (16, 4)), (4, (8,)), (32, (16,)), (6, (8, 4)), (64, (32,))])
def test_neighbours(value: int, expected: tuple[int, ...]) -> None:
    step = Constant(names="T", form="define", ladder=(4, 8, 16, 32))
    assert neighbours(step, value) == expected


def test_missing_argument_is_added_to_every_launch_of_a_kernel() -> None:
    kernel = "@triton.jit\ndef k(x):\n    pass\n\n\n"
    text = kernel + "def f(x):\n    k[(1,)](x)\n    k[(2,)](\n        x,\n    )\n    other[(1,)](x)\n"
    step = Constant(names="num_warps", form="keyword", ladder=(1, 2, 4, 8), missing=4)
    assert settings(step, {"k.py": text})[0].present is False
    new = set_constant(text, step, target={"num_warps": 8})
    ast.parse(new)
    assert "k[(1,)](x, num_warps=8)" in new
    assert "x, num_warps=8\n    )" in new
    assert "other[(1,)](x)\n" in new


@pytest.mark.parametrize(
    ("text", "innermost", "lines"),
    [
        ("for (;;) {\n  for (;;) {\n  }\n}\n", True, [1]),
        ("for (;;) {\n  for (;;) {\n  }\n}\n", False, [0]),
        ("for (;;)\n  a;\nfor (;;)\n  b;\n", True, [0, 3]),
        ("#pragma GCC ivdep\nfor (;;)\n  a;\n", True, []),
    ],
)
def test_pragma_before_loops(text: str, innermost: bool, lines: list[int]) -> None:
    new = before_loops(text, "#pragma P", innermost=innermost).splitlines()
    assert [index for index, line in enumerate(new) if line.strip() == "#pragma P"] == lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("void f(const float *a, float* b) {}", "void f(const float *restrict a, float*restrict b) {}"),
        ("void f(float *a) {}", "void f(float *a) {}"),
        ("void f(const float *a, float *b);", "void f(const float *a, float *b);"),
        ("void f(float *restrict a, float *b) {}", "void f(float *restrict a, float *b) {}"),
        (
            "int g; void f(int n, T *a, T *b) { if (p * q) {} }",
            "int g; void f(int n, T *restrict a, T *restrict b) { if (p * q) {} }",
        ),
    ],
)
def test_restrict(text: str, expected: str) -> None:
    assert add_restrict(text, plain_c=True) == expected


def test_restrict_in_cpp_uses_the_compilers_word() -> None:
    assert apply((Restrict(),), {"k.cu": "void f(T *a, T *b) {}"}, flags_file=None) == {
        "k.cu": "void f(T *__restrict__ a, T *__restrict__ b) {}"
    }
    headers = apply((Restrict(),), {"k.h": "namespace a { void f(T *a, T *b) {} }"}, flags_file=None)
    assert headers == {"k.h": "namespace a { void f(T *__restrict__ a, T *__restrict__ b) {} }"}


def test_decorator_keeps_the_indentation() -> None:
    step = Decorator(text="@tuned", above=r"@triton\.jit")
    assert apply((step,), {"k.py": "class A:\n    @triton.jit\n    def f(): ...\n"}, flags_file=None) == {
        "k.py": "class A:\n    @tuned\n    @triton.jit\n    def f(): ...\n"
    }


def test_all_edits_apply_or_none_does() -> None:
    works = Insert(where="top", text="A")
    fails = Substitute(cases=(Case(find="nothing($x)", replace="$x"),))
    assert apply((works, fails), {"k.c": "x;\n"}, flags_file=None) is None
    assert apply((O3, works), {"k.c": "x;\n", "f": "-O3"}, flags_file="f") == {"k.c": "A\nx;\n"}


def test_files_that_are_not_code_are_left_alone() -> None:
    assert apply((LoopPragma(text="#pragma P"),), {"notes.md": "for (;;) {}\n"}, flags_file=None) is None


def test_within_touches_only_decorated_functions() -> None:
    text = "@jit\ndef f(x):\n    return e(x)\n\n\ndef g(x):\n    return e(x)\n\n\ny = e(1)\n"
    step = Substitute(cases=(Case(find="e($x)", replace="e2($x)"),), within="@jit")
    changed = apply((step,), {"k.py": text}, flags_file=None)
    assert changed is not None
    assert changed["k.py"] == text.replace("return e(x)", "return e2(x)", 1)


def test_python_lines_end_statements() -> None:
    assert not list(search("a = b\nc(d)\n", "$x:id = $y + $z", lang="python"))
    assert list(search("a = (b +\n     c)\n", "$x:id = ($y + $z)", lang="python"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    #pragma GCC unroll 4\n    for (;;) {\n        a;\n    }\n", "    b;\n"),
        ("    #pragma GCC ivdep\n    #pragma GCC unroll 4\n    for (;;)\n        a;\n", "    b;\n"),
        ("    x;\n    for (;;) {\n        #pragma GCC ivdep\n        a;\n    }\n", "    x;\n    b;\n"),
        ("    #pragma omp simd\n    for (;;)\n        a;\n", "    #pragma omp simd\n    b;\n"),
    ],
)
def test_advice_to_the_compiler_goes_with_the_loop_it_was_about(before: str, after: str) -> None:
    step = Substitute(cases=(Case(find="for (;;) { a; }", replace="b;"),))
    assert apply((step,), {"k.c": before}, flags_file=None) == {"k.c": after}


def test_branches_that_each_open_a_brace_do_not_hide_what_is_behind_them():
    head = "#if A\nvoid f(int a) {\n#else\nvoid f(long a) {\n#endif\n    for (;;) {}\n}\n"
    text = f"{head}void g(float *x, float *y) {{\n    for (int i = 0; i < 9; i++) y[i] = x[i];\n}}\n"
    assert "void g(float *restrict x, float *restrict y)" in add_restrict(text, plain_c=True)
    assert before_loops(text, "#pragma P", innermost=True).count("    #pragma P\n    for") == 2


def test_loops_are_found_in_a_long_file():
    text = "".join(f"void f{n}(void) {{\n    for (;;) {{ use({n}); }}\n}}\n" for n in range(6000))
    assert before_loops(text, "#pragma P", innermost=True).count("#pragma P\n    for") == 6000
