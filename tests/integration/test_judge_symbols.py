"""What a built library takes from elsewhere says whether others could do its work."""

import shutil
import subprocess

import pytest

from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.judge.provenance import (
    NotALibrary,
    UndefinedSymbols,
    judge_symbols,
    read_undefined_symbols,
    symbol_kind,
)
from ridgeline.sandbox.judge.worker import build_without_runtime

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
    answered = judge_symbols(
        read_undefined_symbols(built(tmp_path, HONEST, *flags).read_bytes()), device=False
    ).answered
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
    answered = judge_symbols(read_undefined_symbols(built(tmp_path, call).read_bytes()), device=False).answered
    assert answered.answer == answer
    assert said in " ".join(answered.evidence)


def test_a_library_that_is_linked_in(tmp_path):
    (tmp_path / "sub").mkdir()
    other = built(tmp_path / "sub", "void helper(void) {}")
    other.rename(tmp_path / "libengine.so")
    text = "extern void helper(void); void run(void) { helper(); }"
    found = read_undefined_symbols(built(tmp_path, text, f"-L{tmp_path}", "-lengine").read_bytes())
    assert "libengine.so" in found.needed
    assert judge_symbols(found, device=False).answered.answer == "unverified"


@pytest.mark.parametrize(
    "data", [b"", b"no library", b"\x7fELF\x02\x01" + bytes(58), b"\x7fELF\x02\x01" + b"\xff" * 400]
)
def test_bytes_that_are_none(data):
    with pytest.raises(NotALibrary, match="what was built"):
        read_undefined_symbols(data)


def test_every_cut_of_a_library_is_read_or_refused(tmp_path):
    library = built(tmp_path, HONEST)
    data = library.read_bytes()
    whole, refused = read_undefined_symbols(data), 0
    for size in range(0, len(data), 97):
        try:
            found = read_undefined_symbols(data[:size])
        except NotALibrary:
            refused += 1
            continue
        assert found == whole, size
    assert refused > 100


def test_a_gpus_runtime_is_part_of_its_language():
    own = UndefinedSymbols(
        symbols=("cudaLaunchKernel", "__cudaRegisterFunction", "malloc"), needed=("libc.so.6", "libcudart.so.13")
    )
    assert judge_symbols(own, device=True).answered.answer == "yes"
    assert judge_symbols(own, device=False).answered.answer == "unverified"
    assert (
        judge_symbols(UndefinedSymbols(symbols=(*own.symbols, "dlopen"), needed=()), device=True).answered.answer
        == "unverified"
    )
    assert judge_symbols(UndefinedSymbols(symbols=("cublasSgemm_v2",), needed=()), device=True).answered.answer == "no"
    assert symbol_kind("hipMalloc", device=True) == "plain"


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("cexpf cexp cabsf cpowl crealf128 conj csqrtf64 roundeven roundevenf sinf32x lgammaf_r expf16", "plain"),
        ("nextup fmaximum_numf canonicalize getpayloadf64 faddl f32xmulf64x __clog10f __signgam __iseqsigf", "plain"),
        ("sched_getaffinity sched_setaffinity getauxval __getauxval getcpu gettid fesetround feraiseexcept", "plain"),
        ("bcmp memrchr memccpy __memcmpeq strtof atof atoll sprintf vfprintf __strcat_chk __memset_chk", "plain"),
        ("strnlen strtok_r stpcpy lldiv qsort_r random ffsll isspace setjmp longjmp __sigsetjmp isnanf", "plain"),
        ("__absvdi2 __clrsbdi2 __eqtf2 __unordtf2 __ucmpti2 __muldc3 __truncsfbf2 __aarch64_ldadd4_acq", "plain"),
        ("__gcc_personality_v0 __libc_single_threaded __dynamic_cast tss_create acc_on_device", "plain"),
        ("__gets __getpid __gethostname_chk __netlink_assert __clear_cache __register_frame", "unknown"),
        ("cexpq sinf1 cexpfoo ptrace2 pipe poll raise setenv fcntl ioctl shmget roundevenx", "unknown"),
        ("dlsym dlopen mprotect memfd_create", "loader"),
        ("cgemm_ cdot_64_ zaxpy_ cscal_", "library"),
        ("system fork kill signal", "starter"),
    ],
)
def test_names(names, kind):
    found = {name: symbol_kind(name) for name in names.split()}
    assert set(found.values()) == {kind}, found


CUDA = """
#include <cstdint>
#include <dlfcn.h>
__global__ void twice(const float *x, float *y, int64_t n) {
    int64_t i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
extern "C" void run(const float *x, float *y, int64_t n) {
    %s
    twice<<<(n + 255) / 256, 256>>>(x, y, n);
}
"""
PASTED = """
#define JOINED(a, b) a##b
    if (void *found = JOINED(dl, sym)(RTLD_DEFAULT, "cu" "blasSgemm_v2")) ((void (*)(int64_t))found)(n);
"""


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize(("line", "answer"), [("", "yes"), (PASTED, "unverified")])
def test_what_a_cuda_source_takes_is_told_apart_from_what_its_runtime_takes(tmp_path, line, answer):
    tmp_path.chmod(0o755)  # frozen sources are readable by everybody, too
    (tmp_path / "k.cu").write_text(CUDA % line)
    task = Task(
        name="twice",
        language="cuda",
        source=("k.cu",),
        entry="run",
        inputs=(Input(name="x", shape=("n",)),),
        outputs=(Output(name="y", shape=("n",)),),
        shapes=(Shape(label="s", dims={"n": 8}),),
    )
    answered = judge_symbols(read_undefined_symbols(build_without_runtime(task, tmp_path)), device=True).answered
    assert answered.answer == answer, answered.evidence
    if answer != "yes":
        assert answered.evidence == ("can load other code: dlsym",)
