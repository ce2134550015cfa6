"""What `init --function` reads from a source: parameters, roles, sizes, and what it says that it cannot understand."""

from pathlib import Path

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.agent.scaffold.native import widen
from ridgeline.agent.scaffold.signature import CallSite, Signature, read_constants, read_signature
from ridgeline.agent.scaffold.types import read_layout


def read(text: str, name: str, file: str = "source.c", calls: tuple[str, ...] = ()) -> Signature:
    signature = read_signature(
        Path("/project") / file, text, name, calls=[CallSite(arguments=call, place="m.c:3") for call in calls]
    )
    assert signature is not None
    return signature


def roles(signature: Signature) -> dict[str, str]:
    return {parameter.name: parameter.role for parameter in signature.parameters}


MATMUL = """
void matmul(const float *a, const float *b, float *restrict c, int m, int n, int k) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
            c[i * n + j] = sum;
        }
}
"""


def test_arrays_have_the_sizes_that_their_subscripts_reach():
    signature = read(MATMUL, "matmul")
    assert roles(signature) == {"a": "input", "b": "input", "c": "output", "m": "size", "n": "size", "k": "size"}
    assert {array.name: set(array.extents) for array in signature.arrays} == {
        "a": {"m", "k"},
        "b": {"k", "n"},
        "c": {"m", "n"},
    }
    assert signature.gaps == ()


BOX = """
void box(const float *in, const float *taps, float *out, int n, int radius) {
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int j = -radius; j <= radius; j++)
            if (i + j >= 0 && i + j < n) sum += in[i + j] * taps[j + radius];
        out[i] = sum;
    }
}
"""


def test_what_moves_over_an_array_is_no_factor_of_its_length():
    signature = read(BOX, "box")
    assert {array.name: array.extents for array in signature.arrays} == {
        "in": ("n",), "taps": ("n", "radius"), "out": ("n",),
    }  # fmt: skip


NEAREST = """
void nearest(const unsigned *src, int sw, int sh, unsigned *dst, int dw, int dh) {
    for (int y = 0; y < dh; y++)
        for (int x = 0; x < dw; x++) {
            int sy = y * sh / dh, sx = (int)((float)x * (float)sw / (float)dw);
            dst[y * dw + x] = src[%s];
        }
}
"""


def test_sizes_behind_computed_places_are_seen_or_named():
    of_src = {"src": ("sw", "sh"), "dst": ("dw", "dh")}
    clamped = read(NEAREST % "min(sy, sh - 1) * sw + clamp(sx, 0, sw - 1)", "nearest")
    assert (clamped.sizes, clamped.unsized) == (("sw", "sh", "dw", "dh"), ())
    assert {array.name: array.extents for array in clamped.arrays} == of_src
    text = (NEAREST % "sy * sw + sx").replace(", sx =", "; int sx =")
    plain = read(text, "nearest")
    assert (plain.sizes, plain.unsized) == (("dw", "dh"), (("sw", "src"), ("sh", "src")))
    sized = read_signature(Path("/project/source.c"), text, "nearest", sizes={"sw", "sh"})
    assert sized is not None
    assert {array.name: array.extents for array in sized.arrays} == of_src
    offset = read(
        "void f(const int *x, int *y, int n, int from) { for (int i = 0; i < n; i++) y[i] = x[i + from]; }", "f"
    )
    assert offset.unsized == (), "what is only added makes no row longer"


def test_rows_are_followed_through_a_pointer():
    text = """void rows(const float *x, float *y, int rows, int cols) {
        for (int r = 0; r < rows; r++) {
            const float *in = x + r * cols;
            for (int c = 0; c < cols; c++) y[r * cols + c] = in[c];
        }
    }"""
    signature = read(text, "rows")
    assert [set(array.extents) for array in signature.arrays] == [{"rows", "cols"}, {"rows", "cols"}]


def test_macros_between_type_and_name_and_a_value_that_is_computed_with():
    text = """
    #define BASE 65521U
    uLong ZEXPORT checksum(uLong adler, const Bytef *buf, uInt len) {
        while (len--) { adler += *buf++; if (adler >= BASE) adler -= BASE; }
        return adler;
    }"""
    signature = read(text, "checksum", calls=("1UL, data, 512",))
    assert roles(signature) == {"adler": "scalar", "buf": "input", "len": "size"}
    assert signature.parameters[0].literal == "1UL"
    assert signature.result == "uLong"
    assert signature.result_kind == "", "the compiler knows what a uLong is"


def test_what_a_call_reads_of_its_output_is_put_back():
    text = (
        "void add(float *y, const float *x, float alpha, int n) { for (int i = 0; i < n; i++) y[i] += alpha * x[i]; }"
    )
    assert roles(read(text, "add")) == {"y": "inout", "x": "input", "alpha": "scalar", "n": "size"}


def test_a_stride_takes_the_place_of_the_width():
    text = """static void blur(const uint8_t *src, uint8_t *dst, int width, int height, int stride) {
        for (int y = 0; y < height; y++) for (int x = 0; x < width; x++) dst[y * stride + x] = src[y * stride + x];
    }"""
    signature = read(text, "blur")
    assert signature.static
    assert set(signature.arrays[0].extents) == {"stride", "height"}


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        ("float (*f)(float)", "f: is a callback"),
        ("float **rows", "rows: is a float * *"),
        ("float *restrict *rows", "rows: is a float * restrict *"),
    ],
)
def test_what_no_array_stands_for_is_said_in_one_line(parameter, said):
    signature = read(f"void run(const float *x, {parameter}, int n) {{ }}", "run")
    assert [gap for gap in signature.gaps if gap.startswith(said)], signature.gaps


def test_a_global_that_nobody_sets_here_is_said():
    text = """
    static const int steps[4] = {1, 2, 3, 4};
    static int table[256];
    int crc(const unsigned char *p, int n) { int c = 0; while (n--) c = table[c ^ *p++] + steps[0]; return c; }
    """
    assert read(text, "crc").gaps == ("global table: is changed elsewhere",)


LAZY = """
static unsigned table[256];
static int ready;
static void put(unsigned *to, unsigned i) { to[i] = i * 3; }
static void fill(void) { for (unsigned i = 0; i < 256; i++) %s; ready = 1; }
static void start(void) { if (!ready) fill(); }
unsigned crc(const unsigned char *p, int n) { unsigned c = 0; start(); while (n--) c ^= table[*p++]; return c + ready; }
%s
"""


@pytest.mark.parametrize(
    ("sets", "other", "gaps"),
    [
        ("table[i] = i", "", ()),
        ("put(table, i)", "", ()),
        ("table[i] = i", "unsigned look(int i) { if (ready) return table[i]; return ready; }", ()),
        ("table[i] = i", "void reset(void) { ready = 0; }", ("global ready: is changed elsewhere",)),
        ("table[i] = i", "unsigned *lend(void) { use(table); return 0; }", ("global table: is changed elsewhere",)),
        ("ready++", "", ("global table: is changed elsewhere",)),
        ("table[i] = ready", "extern int ready;", ("global ready: is changed elsewhere",)),
    ],
)
def test_a_table_that_the_function_fills_itself_needs_no_setting_up(sets, other, gaps):
    assert read(LAZY % (sets, other), "crc").gaps == gaps


def test_what_is_only_copied_from_a_global_is_not_set_by_the_function():
    text = "int gain;\nvoid f(int *x, int n) { int g = gain; while (n--) *x++ = by(gain) + g; }"
    assert read(text, "f").gaps == ("global gain: is changed elsewhere",)


def test_a_constant_of_an_enum_and_a_type_are_no_globals():
    text = """
    using internal::LITERAL;
    struct Node;
    enum { COPY };
    int tag(const unsigned char *p, int n) { struct Node *at = 0; return at ? COPY : LITERAL | p[n - 1]; }
    """
    assert read(text, "tag", "tag.cpp").gaps == ()


def test_a_pointer_that_is_only_followed_is_to_one_value_and_guessed_lengths_are_named():
    text = """
    static int count_into(unsigned *table, unsigned *most, const unsigned char *p, int size) {
        while (size--) table[*p++]++;
        *most = *most < 255 ? *most : 255;
        return 0;
    }
    int count(unsigned *table, unsigned *most, const unsigned char *p, int size, int bins) {
        if (*most > bins) return 1;
        return count_into(table, most, p, size);
    }"""
    signature = read(text, "count")
    assert {array.name: array.extents for array in signature.arrays} == {
        "table": ("size", "bins"),
        "most": ("1",),
        "p": ("size", "bins"),
    }
    assert signature.notes == (
        "lengths guessed, no subscript says them: table size * bins, p size * bins; others: elements_ in problem.h",
        "taken for a pointer to one, as only *most is used: most; others: elements_ in problem.h",
    )
    moved = read(text.replace("*most = *most", "*most++ = *most"), "count")
    assert moved.arrays[1].extents == ("size", "bins"), "the function it is passed to goes on behind it"
    unknown = read(text.replace("return count_into", "return elsewhere"), "count")
    assert unknown.arrays[1].extents == ("size", "bins"), "what another file does with it is not known"


def test_a_template_in_a_namespace_is_called_by_its_whole_name():
    text = """namespace img { template <typename T, int R = 2>
    void box(const T* src, T* dst, std::size_t n) { for (std::size_t i = 0; i < n; i++) dst[i] = src[i]; } }"""
    signature = read(text, "box<double, 3>", "box.hpp")
    assert signature.name == "img::box<double, 3>"
    assert signature.language == "c++"
    assert [array.kind for array in signature.arrays] == ["F64", "F64"]
    assumed = read(text.replace(", int R = 2", ""), "box", "box.hpp")
    assert assumed.name == "img::box<float>"
    assert "name another with --function 'box<...>'" in assumed.notes[0]


def test_a_member_of_a_class_is_refused_with_a_mend():
    with pytest.raises(UserError, match="write a free function"):
        read("struct Filter { int run(int a) { return a; } };", "run", "filter.cpp")


def test_text_without_a_length_ends_with_a_zero_and_gets_a_size():
    signature = read("int distance(const char *a, const char *b) { return a[0] - b[0]; }", "distance")
    assert [parameter.text for parameter in signature.parameters] == [True, True]
    assert signature.sizes == ("n",)


def test_a_kernel_needs_a_launch():
    text = "__global__ void scale(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }"
    signature = read(text, "scale", "scale.cu")
    assert signature.kernel
    assert [gap for gap in signature.gaps if gap.startswith("launch:")]


def test_values_of_python_come_from_annotations_examples_and_callers():
    text = '''
def distance(s1, s2, weights: list[float], limit, scale=1.0):
    """
    >>> distance("kitten", "sitting", [1.0], 3)
    3
    """
'''
    signature = read(text, "distance", "edit.py")
    assert [parameter.kind for parameter in signature.parameters] == ["text", "text", "reals", "whole"]
    assert signature.parameters[3].literal == "3"
    assert signature.notes == ("scale: left at the default",)
    unknown = read("def f(a, b): return a + b\n", "f", "m.py")
    assert unknown.gaps == ("a: has no annotation, and no caller gives a plain value",
                            "b: has no annotation, and no caller gives a plain value")  # fmt: skip
    assert read("def f(a, b): return a + b\n", "f", "m.py", calls=("'x', b'y'",)).gaps == ()


def test_a_triton_kernel_is_timed_by_the_function_that_launches_it():
    text = """
import torch
import triton

@triton.jit
def scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    pass

def scale(x):
    rows, cols = x.shape
    scale_kernel[(rows,)](x, cols, BLOCK=128)
    return x
"""
    signature = read(text, "scale_kernel", "scale.py")
    assert signature.name == "scale"
    assert signature.language == "triton"
    assert (signature.parameters[0].kind, signature.sizes) == ("tensor", ("rows", "cols"))
    assert signature.notes[0] == "scale_kernel is compiled by Triton; scale, which launches it, is timed"


def test_floats_are_widened_in_every_word_that_makes_them():
    assert widen("float f(float x) { return expf(x) * 0.5f + 1e-3f + FLT_MAX; }") == (
        "double f(double x) { return exp(x) * 0.5 + 1e-3 + DBL_MAX; }"
    )
    assert widen("int floats = 0x1f; floatx(f);") == "int floats = 0x1f; floatx(f);"


def test_macros_of_a_project_behind_the_star_say_nothing_of_the_type():
    text = "void copy(const float * MY_RESTRICT x, float * MY_RESTRICT y, long k) { for (long i = 0; i < k; i++) y[i] = x[i]; }"
    assert [parameter.kind for parameter in read(text, "copy").parameters] == ["F32", "F32", "I64"]


def test_the_end_of_an_array_is_no_array_of_its_own():
    text = """static unsigned count(const unsigned char *in, const unsigned char *match, const unsigned char *limit) {
        const unsigned char *start = in;
        while (in < limit && *match == *in) { in++; match++; }
        return in - start;
    }"""
    signature = read(text, "count")
    assert roles(signature) == {"in": "input", "match": "input", "limit": "end"}
    assert signature.parameters[2].end_of == "in"


def test_a_capacity_is_a_size_and_a_size_may_come_by_its_address():
    packed = read("int pack(const char *src, char *dst, int srcSize, int dstCapacity) { dst[0] = src[0]; return 1; }",
                  "pack", calls=("a, b, 100, 0",))  # fmt: skip
    assert packed.sizes == ("srcSize", "dstCapacity")
    fortran = read("void twice(const int *n, double *x) { for (int i = 0; i < *n; i++) x[i] *= 2; }", "twice")
    assert (fortran.sizes, fortran.parameters[0].by_pointer) == (("n",), True)


def test_what_the_body_takes_bytes_for_is_what_they_are():
    text = "float dot(const void *a, const void *b, int n) { const float *x = (const float *)a; const float *y = b; return x[n-1] * y[0]; }"
    assert [array.kind for array in read(text, "dot").arrays] == ["F32", "F32"]


def test_a_reference_to_a_number_is_passed_and_compared():
    text = "void sum(const float *x, int n, float &total) { for (int i = 0; i < n; i++) total += x[i]; }"
    total = read(text, "sum", "sum.cpp").parameters[2]
    assert (total.role, total.extents, total.by_value) == ("inout", ("1",), True)


def test_sizes_of_callers_are_taken_from_numbers_and_constants_with_their_place():
    text = "void fill(float *x, int rows, int cols) { for (int i = 0; i < rows * cols; i++) x[i] = 0; }"
    calls = [
        CallSite(arguments="p, 12, COLS", place="main.c:9", constants=read_constants("#define COLS 640 /* wide */\n")),
        CallSite(arguments="p, h, w", place="main.c:10"),
    ]
    signature = read_signature(Path("/project/fill.c"), text, "fill", calls=calls)
    assert signature is not None
    assert [(dict(shape.sizes), shape.place) for shape in signature.called] == [({"rows": 12, "cols": 640}, "main.c:9")]


def test_one_of_several_is_named_by_its_line():
    text = "int f(int a) { return a; }\nint f(const int *a, int n) { return a[n - 1]; }\n"
    assert read(text, "f", "f.cpp").line == 2
    assert "another with --function f:1" in read(text, "f", "f.cpp").notes[0]
    assert read(text, "f:1", "f.cpp").line == 1
    with pytest.raises(UserError, match="lines 1, 2"):
        read(text, "f:7", "f.cpp")


def test_a_static_member_is_called_by_its_class():
    assert read("struct Math { static int twice(int a) { return 2 * a; } };", "twice", "m.cpp").name == "Math::twice"


@pytest.mark.parametrize(
    ("text", "name", "fields", "size"),
    [
        ("typedef struct { float r; float i; } cpx;", "cpx", [(0, "F32", 2)], 8),
        ("struct p { float prob; int index; };", "struct p", [(0, "F32", 1), (4, "I32", 1)], 8),
        ("typedef unsigned short half; typedef struct { union { struct { half d; half m; }; unsigned int dm; };"
         " unsigned char s[12]; unsigned char q[256/2]; } block;", "block", [(0, "U16", 2), (4, "U8", 140)], 144),
        ("typedef struct { char tag; double at[2]; struct { short a, b; } more[2]; } deep;", "deep",
         [(0, "I8", 1), (8, "F64", 2), (24, "I16", 4)], 32),
    ],
)  # fmt: skip
def test_structs_of_numbers_are_read_field_by_field(text, name, fields, size):
    layout = read_layout(text, name)
    assert [(item.offset, item.kind, item.count) for item in layout.fields] == fields
    assert layout.bytes == size


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("typedef struct { int n; float *data; } T;", "holds a pointer (data)"),
        ("typedef struct state *T;", "is a pointer"),
        ("typedef struct { unsigned a : 3; } T;", "holds single bits (a)"),
        ("class T { public: int f(); };", "is defined nowhere that its source includes"),
    ],
)
def test_structs_that_no_numbers_fill_say_why(text, why):
    assert read_layout(text, "T").why == why


def test_fields_that_are_read_are_values_of_their_own_and_a_struct_that_is_written_or_handed_on_is_none():
    text = """typedef struct { int width; float gain; } info;
    static void scale(const info *i, float *x) { for (int k = 0; k < i->width; k++) x[k] *= i->gain; }
    static void fit(info *i, float *x) { i->width = 3; x[0] = i->gain; }
    static void hand(info *i, float *x) { other(i); x[0] = i->gain; }"""
    signature = read(text, "scale")
    assert roles(signature) == {"i": "struct", "i_width": "size", "i_gain": "scalar", "x": "inout"}
    assert roles(read(text, "fit"))["i"] == roles(read(text, "hand"))["i"] == "inout"


@pytest.mark.parametrize(
    ("body", "ranges", "letters"),
    [
        ("if (s[i] >= 'A' && s[i] <= 'Z') k++; else if (s[i] == '+' || '/' == s[i]) k += 2;", ("AZ",), "+/"),
        ("char c = s[i]; if (c < '0' || c > '9') return -1; k += c - '0';", ("09",), ""),
        ("k += ('a' <= s[i] && 'f' >= s[i]) | (s[i] >= 'b' && s[i] <= 'd') | (s[i] == 'e');", ("af", "bd"), ""),
        ("k += (unsigned)(s[i] - 'A') < 26; k += (unsigned char)(s[i] - '0') <= 9u;", ("AZ", "09"), ""),
        (r"switch (s[i]) { case '\n': case '\x41': k++; break; case 'a' ... 'f': k--; }", ("af",), "\nA"),
        ("k += value(s[i]);", ("az",), "_"),
        ("k += is_end(s + i);", (), ";"),
        ("k += mode == 'r' ? s[i] : 0;", (), ""),
        ("k += s[i] > 'm';", (), "m"),
    ],
)
def test_characters_that_elements_are_compared_with_are_drawn_for_them(body, ranges, letters):
    text = f"""
    static int value(int c) {{ return c >= 'a' && c <= 'z' ? c - 'a' : c != '_'; }}
    static int is_end(const char *at) {{ return *at == ';'; }}
    int f(const char *s, const char *t, int n, int mode) {{
        int k = 0;
        for (int i = 0; i < n; i++) {{ {body} }}
        return k + t[n - 1];
    }}"""
    s, t, *_ = read(text, "f").parameters
    assert (s.ranges, s.letters) == (ranges, letters)
    assert (t.ranges, t.letters) == ((), "")


def test_a_struct_by_value_is_made_of_its_plain_fields_and_one_with_more_is_a_place_to_fill():
    text = """typedef struct { int width; float gain; const float *pixels; } info;
    static void scale(const info i, float *x) { for (int k = 0; k < i.width; k++) x[k] *= i.gain; }
    static float sum(info i) { float s = 0; for (int k = 0; k < i.width; k++) s += i.pixels[k]; return s; }
    static float area(info i) { return i.gain * i.gain; }
    static float length(struct vector v) { return v.x * v.x + v.y * v.y; }"""
    assert roles(read(text, "scale")) == {"i": "struct", "i_width": "size", "i_gain": "scalar", "x": "inout"}
    whole = read(text, "sum")
    assert (roles(whole), whole.sizes) == ({"i": "scalar"}, ("n",))
    assert whole.gaps == ("i: is a info by value, whose field pixels is no plain number",)
    assert roles(read(text, "area")) == {"i": "input"}, "all of it is drawn: no field says how long a call takes"
    assert roles(read(text, "length")) == {"v": "struct", "v_x": "input", "v_y": "input"}


def test_a_default_stands_for_what_nobody_gives_and_a_length_may_lie_behind_a_void_pointer():
    text = """namespace a { float f(const void *x, const void *count, double cut = 0.25) {
        const float *p = (const float *)x; int n = *((const int *)count); float s = 0;
        for (int i = 0; i < n; i++) s += p[i] > cut; return s; } }"""
    x, count, cut = read(text, "f", "f.hpp").parameters
    assert (x.kind, count.role, count.by_pointer, cut.literal) == ("F32", "size", True, "0.25")


@pytest.mark.parametrize(
    ("described", "kind"),
    [
        ("values : list or iterable container\n        A sequence of integer node degrees.", "wholes"),
        ("values : sequence of float", "reals"),
        ("values (list of str): names", "texts"),
        ("values : array_like\n        Any.\n\n    other : list of int", "array"),
        ("values : object\n    other : list of int", ""),
    ],
)
def test_what_a_docstring_says_of_an_argument(described, kind):
    text = f'''def f(values):
    """Does it.

    Parameters
    ----------
    {described}
    """
'''
    (values,) = read(text, "f", "f.py").parameters
    assert values.kind == kind


def test_the_batch_that_a_star_takes_is_a_size_too():
    text = "import torch\ndef soft(x: torch.Tensor):\n    *batch, cols = x.shape\n    return x.view(-1, cols)\n"
    assert read(text, "soft", "soft.py").sizes == ("batch", "cols")
