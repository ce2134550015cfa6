"""What `init --function` reads from a source: parameters, roles, sizes, and what it says that it cannot understand."""

from pathlib import Path

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.agent.scaffold.native import widen
from ridgeline.agent.scaffold.signature import Signature, read_signature


def read(text: str, name: str, file: str = "source.c", calls: tuple[str, ...] = ()) -> Signature:
    signature = read_signature(Path("/project") / file, text, name, calls=calls)
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
