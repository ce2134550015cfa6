"""C sources of any length: honest quantizers one behind the other, and what would make a reader look at all of it often."""

QUANTIZER = """
static void quantize_block_{n}(const float * restrict x, block_q{n} * restrict y, int64_t k) {{
    static const float levels_{n}[4] = {{ 0.0f, 0.25f, 0.5f, 1.0f }};
    const int blocks = k / 32;
    for (int i = 0; i < blocks; i++) {{
        float most = 0.0f;  // of the block
        for (int j = 0; j < 32; j++) {{
            const float v = x[i * 32 + j];
            if (fabsf(v) > most) {{ most = fabsf(v); }}
        }}
#if defined(__AVX2__)
        for (int j = 0; j < 16; j++) {{
#else
        for (int j = 0; j < 32; ++j) {{
#endif
            y[i].d = GGML_FP32_TO_FP16(most / ((1 << 3) - 1));
            y[i].qs[j] = (uint8_t) MIN(15, (int8_t) (x[i * 32 + j] * levels_{n}[j & 3] + 8.5f));
        }}
    }}
    assert(k % 32 == 0 && "whole blocks");
}}
"""
PER_FUNCTION = QUANTIZER.count("\n")
KERNEL = "static float kept[8];\nstatic int calls;\nvoid f(const float *x, float *y, int n) {{\n{body}}}\n"
DENSE = {
    "copies of what is kept": KERNEL.format(body="    memcpy(y, kept, 32);\n{}"),
    "places that give what is kept": KERNEL.format(body="    y[0] = kept[1];\n{}"),
    "counted calls": KERNEL.format(body="    if (calls == n) y[1] = x[0];\n    calls++;\n{}"),
    "casts of inputs": KERNEL.format(body="    float *room = (float *)x; use(room[0]);\n{}"),
    "exits of errors": KERNEL.format(body="    if (code != OK) exit(other);\n{}"),
    "pasted names": "#define JOIN(a, b) a##b\n" + KERNEL.format(body="    JOIN(ki, nd)(y, n);\n{}"),
    "open branches": "#if A\n{{\n#else\n{{\n{}",
    "open brackets": "float g(\n{}",
    "declarations without an end": "static int a\n{}",
    "strings in a row": '"a" "b"\n{}',
}
"""By what they hold much of: a source with a place for more of its last line but one."""


def quantizers(lines: int) -> str:
    """About so many lines of functions that each quantize a block."""
    return '#include "quants.h"\n' + "".join(QUANTIZER.format(n=n) for n in range(lines // PER_FUNCTION))


def dense(kind: str, lines: int) -> str:
    """About so many lines that hold much of one thing."""
    head, _, rest = DENSE[kind].replace("{{", "{").replace("}}", "}").partition("{}")
    *first, line = head.rstrip("\n").split("\n")
    return "\n".join((*first, *[line] * (lines - len(first)))) + "\n" + rest
