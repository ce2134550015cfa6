"""What a built library takes from elsewhere says whether others could do its work."""

import subprocess

import pytest

from sandbox.judge.provenance import judged
from sandbox.judge.symbols import NotALibrary, Taken, kind_of, taken

HONEST = """
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
void run(const float *x, float *y, int64_t n) {
    float *t = malloc(n * sizeof *t);
    memset(y, 0, n * sizeof *y);
    #pragma omp parallel for
    for (int64_t i = 0; i < n; i++) y[i] = expf(x[i]) + powf(x[i], 3) + (float)sqrt(fabs(x[i])) + lroundf(x[i]);
    memcpy(t, y, n * sizeof *t);
    free(t);
}
"""


def built(folder, text, *flags):
    (folder / "k.c").write_text(text)
    library = folder / "k.so"
    words = ("gcc", "-shared", "-fPIC", "-O2", "-fopenmp", "-o", library, folder / "k.c", *flags, "-lm")
    subprocess.run(words, check=True, capture_output=True)
    return library


@pytest.mark.parametrize("flags", [(), ("-O3", "-march=native", "-ffast-math"), ("-O0", "-fstack-protector-all")])
def test_a_kernel_of_ones_own(tmp_path, flags):
    answered = judged(taken(built(tmp_path, HONEST, *flags)), None)
    assert answered.answer == "yes", answered.evidence


@pytest.mark.parametrize(
    ("call", "answer", "said"),
    [
        ("extern void cblas_sgemm(); void run() { cblas_sgemm(); }", "no", "cblas_sgemm"),
        ("extern void sgemm_(); void run() { sgemm_(); }", "no", "sgemm_"),
        ("extern void scipy_cblas_dgemm64_(); void run() { scipy_cblas_dgemm64_(); }", "no", "dgemm64"),
        ("#include <dlfcn.h>\nvoid *run() { return dlopen(0, 2); }", "unverified", "can load other code: dlopen"),
        ('#include <stdlib.h>\nint run() { return system("true"); }', "unverified", "another program work: system"),
        ("#include <unistd.h>\nint run() { return fork(); }", "unverified", "another program work: fork"),
        (
            "#include <sys/socket.h>\nint run() { return socket(1, 1, 0); }",
            "unverified",
            "another machine work: socket",
        ),
        ("extern void strange(); void run() { strange(); }", "unverified", "not the C runtime's: strange"),
    ],
)
def test_what_has_others_do_the_work(tmp_path, call, answer, said):
    answered = judged(taken(built(tmp_path, call)), None)
    assert answered.answer == answer
    assert said in " ".join(answered.evidence)


def test_a_library_that_is_linked_in(tmp_path):
    (tmp_path / "sub").mkdir()
    other = built(tmp_path / "sub", "void helper(void) {}")
    other.rename(tmp_path / "libengine.so")
    text = "extern void helper(void); void run(void) { helper(); }"
    found = taken(built(tmp_path, text, f"-L{tmp_path}", "-lengine"))
    assert "libengine.so" in found.needed
    assert judged(found, None).answer == "unverified"


@pytest.mark.parametrize(
    "data", [b"", b"no library", b"\x7fELF\x02\x01" + bytes(58), b"\x7fELF\x02\x01" + b"\xff" * 400]
)
def test_a_file_that_is_none(tmp_path, data):
    path = tmp_path / "x.so"
    path.write_bytes(data)
    with pytest.raises(NotALibrary, match=r"x\.so"):
        taken(path)


def test_every_cut_of_a_library_is_read_or_refused(tmp_path):
    library = built(tmp_path, HONEST)
    data, whole = library.read_bytes(), taken(library)
    cut = tmp_path / "cut.so"
    refused = 0
    for size in range(0, len(data), 97):
        cut.write_bytes(data[:size])
        try:
            found = taken(cut)
        except NotALibrary:
            refused += 1
            continue
        assert found == whole, size
    assert refused > 100


def test_a_gpus_runtime_is_part_of_its_language():
    found = Taken(symbols=("cudaLaunchKernel", "__cudaRegisterFunction", "dlopen", "malloc"), needed=("libc.so.6",))
    assert judged(found, "__global__ void k() {}").answer == "yes"
    assert judged(found, "handle = dlopen(name)").answer == "unverified"
    assert judged(found, None).answer == "unverified"
    assert judged(Taken(symbols=("cublasSgemm_v2",), needed=()), "").answer == "no"
    assert kind_of("hipMalloc", device=True) == "plain"
