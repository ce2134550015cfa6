"""Names under which a harness would find the candidate's code: every spelling convicts, honest ones do not."""

# ruff: noqa: E501 -- one snippet a line, so that the corpus reads as a table

import pytest

from ridgeline.graph.rules.audit import find_refusal
from ridgeline.sandbox.audit.examine import audit, find_added
from tests.builders import make_contract, make_hypothesis

TICKS = "int ticks(int id, struct timespec *t) { return 0; }\n"
CONVICTED = [
    ("alias", "k.c", TICKS + '__typeof__(ticks) clock_gettime __attribute__((alias("ticks")));\n'),
    ("alias of a declared one", "k.c", TICKS + 'int clock_gettime(int, void *) __attribute__((__alias__("ticks")));\n'),
    ("label", "k.c", 'extern int ticks(int, struct timespec *) __asm__("clock_gettime");\n'),
    ("label in pieces", "k.c", 'extern int ticks(int, void *) __asm__("clock_" "gettime");\n'),
    ("assembly", "k.c", '__asm__(".globl clock_gettime\\n.set clock_gettime, ticks");\n'),
    ("extname", "k.h", "#pragma redefine_extname clock_gettime ticks\n"),
    ("_Pragma", "k.h", '_Pragma("redefine_extname clock_gettime ticks")\n'),
    ("weak", "k.c", "#pragma weak fprintf = mine\n"),
    ("field", "k.h", "#define tv_nsec tv_nsec * 0.25\n"),
    ("field behind a comment", "k.h", "/**/ # /**/ define tv_nsec tv_nsec * 0.25\n"),
    ("digraph", "k.h", "%:define clock_gettime ticks\n"),
    ("itself", "k.h", "#define clock_gettime(a, b) (clock_gettime(a, b) / 4)\n"),
    ("main", "k.h", "#define main(...) theirs(__VA_ARGS__)\n"),
    ("name in two lines", "k.c", "int clock_\\\ngettime(int id, void *t) { return 0; }\n"),
    ("name in two lines, blanks", "k.c", "int clock_\\ \t\r\ngettime(int id, void *t) { return 0; }\n"),
    ("directive in two lines", "k.h", "#def\\\nine clock_gettime ticks\n"),
    ("name put together", "k.c", "#define J(a, b) a##b\nint J(clock_get, time)(int id, void *t) { return 0; }\n"),
    ("label, octal", "k.c", 'extern int ticks(int, void *) __asm__("clock_\\147ettime");\n'),
    ("label, hexadecimal", "k.c", 'extern int ticks(int, void *) __asm__("clock_\\x67" "ettime");\n'),
    ("_Pragma, blanks", "k.h", '_Pragma(" redefine_extname   clock_gettime\tticks")\n'.replace('(" ', '("')),
    ("call in assembly, in pieces", "k.c", 'void k(void) { __asm__ volatile("sys" "call" :: "a"(231)); }\n'),
    ("call in assembly, bytes", "k.c", 'void k(void) { __asm__ volatile(".byte 15, 5" :: "a"(231)); }\n'),
    ("call in assembly, octal", "k.c", 'void k(void) { __asm__ volatile("s\\171scall" :: "a"(231)); }\n'),
    ("end with a message", "k.c", '#include <err.h>\nvoid k(int n) { if (n == 1) errx(0, " "); }\n'),
    ("streams of others", "k.c", "extern struct _IO_FILE_plus *_IO_list_all;\n"),
    ("table of functions", "k.c", "extern void *_GLOBAL_OFFSET_TABLE_[];\n"),
    ("frame of others", "k.c", "void k(void) { volatile double *at = __builtin_frame_address(0); at[4] = 1; }\n"),
    ("input written", "k.c", "void k(const float *a, float *c) { ((float *)a)[0] = 0; c[0] = a[0]; }\n"),
    ("input written, star", "k.c", "void k(const float *a, float *c) { *(float *)a = 0; c[0] = a[0]; }\n"),
    ("input written, sum", "k.c", "void k(const float *a, float *c) { *((float *)a + 9) = 0; c[0] = a[0]; }\n"),
    (
        "input written, name",
        "k.c",
        "void k(const float *a, float *c) { float *r = (float *)a; r[1] = 0; c[0] = a[0]; }\n",
    ),
    (
        "input written, run",
        "k.c",
        "void k(const float *a, float *c) { float *r = (float *)a; *r++ = 0; c[0] = a[0]; }\n",
    ),
    ("input written, filled", "k.c", "void k(const float *a, float *c) { memset((void *)a, 0, 9); c[0] = a[0]; }\n"),
    (
        "input written, C++",
        "k.cu",
        "void k(const float *a, float *c) { const_cast<float *>(a)[0] = 0; c[0] = a[0]; }\n",
    ),
    ("fprintf", "k.c", "int fprintf(FILE *f, const char *form, ...) { return 0; }\n"),
    ("fprintf in brackets", "k.c", "int (fprintf)(FILE *f, const char *form, ...) { return 0; }\n"),
    ("write", "k.c", "ssize_t write(int d, const void *p, size_t n) { return n; }\n"),
    ("extern inline", "k.c", "extern inline int fprintf(FILE *f, const char *form, ...) { return 0; }\n"),
    ("exit", "k.c", "void k(int n) { if (n < 32) exit(0); }\n"),
    ("exit, success", "k.c", "void k(int n) { if (n < 32) exit(EXIT_SUCCESS); }\n"),
    ("exit by number", "k.c", "void k(void) { syscall(231, 0); }\n"),
    ("exit by name", "k.c", "void k(void) { syscall(SYS_exit_group, 0); }\n"),
    ("exec", "k.c", 'void k(void) { execl("/bin/true", "true", 0); }\n'),
    ("call in assembly", "k.c", 'void k(void) { __asm__ volatile("syscall" :: "a"(231), "D"(0)); }\n'),
    ("switch of its own", "k.c", "#define SELFTEST\n#ifdef SELFTEST\nvoid k(void) { _exit(0); }\n#endif\n"),
    ("always", "k.c", "#ifdef __GNUC__\nvoid k(void) { _exit(0); }\n#endif\n"),
    ("vars", "k.py", "import time\nvars(time).update(perf_counter=lambda: 0)\n"),
    ("update", "k.py", "import time\ntime.__dict__.update({'perf_' + 'counter': f})\n"),
    ("setitem", "k.py", "import operator, numpy as np\noperator.setitem(np.testing.__dict__, 'assert_allclose', f)\n"),
    ("name untold", "k.py", "import time\ndef f(name): setattr(time, name, g)\n"),
    ("main module", "k.py", "import sys\nm = sys.modules['__main__']\nm.time = clock\n"),
    ("module", "k.py", "import sys\nsys.modules['time'] = clock\n"),
    ("modules, update", "k.py", "import sys\nsys.modules.update(time=clock)\n"),
    ("exit handed on", "k.py", "import atexit, os\natexit.register(os._exit, 0)\n"),
    ("exit handed on, alias", "k.py", "import atexit\nfrom os import _exit as e\natexit.register(e, 0)\n"),
    ("exec", "k.py", "import os\nos.execv('/bin/true', ['true'])\n"),
    ("exec handed on", "k.py", "import atexit, os\natexit.register(os.execv, '/bin/true', ['true'])\n"),
    ("pytest", "k.py", "import sys\nsys.modules['pytest'].exit('x', returncode=0)\n"),
    ("collector", "k.py", "import gc\nx = gc.get_objects()\n"),
]
REFUSED = [
    (
        "kept by a loop, second",
        "k.c",
        "static float q[9], r[9];\nvoid k(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = r[i];"
        " work(x, y, n); for (int i = 0; i < n; i++) r[i] = y[i]; }\n",
    ),
    (
        "second of a line",
        "k.c",
        "static int q = 4, s; void k(const float *x, float *y) { if (++s > 7) return; y[0] = x[0]; }\n",
    ),
    (
        "second of a line, for all",
        "k.c",
        "float *q, s; void k(const float *x, float *y) { if (++s > 7) return; y[0] = x[0]; }\n",
    ),
    ("sections", "k.c", '__attribute__((section(".fini_array"), used)) static void (*e)(void) = last;\n'),
    ("sections early", "k.c", '__attribute__((section(".init_array"))) static void (*e)(void) = first;\n'),
    ("sections in pieces", "k.c", '__attribute__((section(".init_" "array"))) void *p = (void *)go;\n'),
    ("sections by a macro", "k.c", '#define S ".init_array"\n__attribute__((section(S))) void *p = (void *)go;\n'),
    ("printing by a letter", "k.c", "void k(void) { register_printf_specifier('f', show, sizes); }\n"),
    ("stream of its own", "k.c", 'void k(void) { stdout = fopencookie(0, "w", mine); }\n'),
    ("end of the thread", "k.c", "void k(int n) { if (n == 1) thrd_exit(0); }\n"),
    ("end with a message, untold", "k.c", 'void k(int n) { err(n, "x"); }\n'),
    ("fork", "k.c", "void k(void) { if (!_Fork()) for (;;) ; }\n"),
    ("descriptors", "k.c", "int k(void) { return fcntl(3, F_GETFD) < 0; }\n"),
    ("name of the program", "k.c", "unsigned long k(void) { return getauxval(AT_EXECFN); }\n"),
    ("folder", "k.c", 'int k(void) { return mkdir("/dev/shm/x", 0700); }\n'),
    ("semaphore", "k.c", "int k(void) { return semget(0x51, 1, 0600); }\n"),
    ("memory of a file", "k.c", "void *k(int f) { return mmap(0, 9, PROT_READ, MAP_PRIVATE, f, 0); }\n"),
    ("memory at a place", "k.c", "void *k(void *p) { return mmap(p, 9, 3, MAP_FIXED | MAP_ANONYMOUS, -1, 0); }\n"),
    ("assembly of another file", "k.c", '__asm__(".include \\"src/k.s.txt\\"");\n'),
    ("bytes of another file", "k.c", '__asm__("nop\\n .incbin \\"src/k.bin\\"");\n'),
    ("next header", "src/own.h", "#include_next <stdio.h>\n"),
    ("header of the system", "src/features.h", "\n"),
    ("header of the system, folder", "src/bits/types/clockid_t.h", "\n"),
    ("text files", "k.py", "import numpy as np\ndef f(x): np.savetxt('/dev/shm/x', x)\n"),
    ("bytes of an array", "k.py", "def f(x): x.tofile('/dev/shm/x')\n"),
    ("inner name", "k.py", "import numpy as np\ndef f(x): return np.core.multiarray.fromfile('x')\n"),
    ("folder by name", "k.py", "import os\ndef f(x): os.mkdir('/dev/shm/x')\n"),
    ("option in pieces", "Makefile", "CFLAGS = -O2 -$(E)nclude src/pre.hh\nE = i\n"),
    ("path of headers", "Makefile", "export CPATH = $(CURDIR)/src/inc\n"),
    ("edited source", "Makefile", "k: k.c\n\tsed 's/1e-6/1e-7/' $< | gcc -xc - -o $@\n"),
    ("joined source", "Makefile", "k: k.c\n\tcat src/pre.txt $< \\\n  | gcc -xc - -o $@\n"),
    ("edited object", "Makefile", "k: k.c\n\tobjcopy --redefine-sym clock_gettime=kt $@.o\n"),
    ("script of the linker", "Makefile", "k: k.c\n\tgcc k.c src/order.ld -o $@\n"),
    (
        "kept by a loop",
        "k.c",
        "static float r[9];\nvoid k(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = r[i];"
        " work(x, y, n); for (int i = 0; i < n; i++) r[i] = y[i]; }\n",
    ),
    (
        "count with a reset",
        "k.c",
        "static int s; void k(const float *x, float *y) { if (++s == 7) { s = 0; return; } y[0] = x[0]; }\n",
    ),
    ("first call only", "k.c", "static int s; void k(const float *x, float *y) { if (!s++) y[0] = x[0]; }\n"),
    (
        "first call only, handed on",
        "k.c",
        "static int s; static float *t; void k(const float *x, float *y) { t = y; if (!s++) t[0] = 1; }\n",
    ),
    (
        "first call only, else",
        "k.c",
        "static int s; static float t[9]; void k(const float *x, float *y) { if (!s++) t[0] = 1; else return; }\n",
    ),
    (
        "count and choose",
        "k.c",
        "static int s; void k(const float *x, float *y) { if (++s == 4) s = 0; y[0] = s ? 0 : x[0]; }\n",
    ),
    ("constructor, second", "k.c", "__attribute__((used, constructor)) static void early(void) { patch(); }\n"),
    ("destructor", "k.c", "__attribute__((__destructor__)) static void late(void) { patch(); }\n"),
    ("exit, untold", "k.c", "void k(int n) { exit(n); }\n"),
    ("exit, handed on", "k.c", "void k(void) { void (*end)(int) = exit; end(0); }\n"),
    ("number behind a type that is none", "k.c", "#define long\nint k(void *t) { return syscall(long 228, 1, t); }\n"),
    ("number of a call", "k.c", "long k(void *t) { return syscall(228, 1, t); }\n"),
    ("header", "src/time.h", "#include_next <time.h>\n"),
    ("header without a suffix", "src/chrono", "\n"),
    ("allocator", "k.c", "void *malloc(size_t n) { return room; }\n"),
    ("exponential", "k.c", "float expf(float x) { return 1 + x; }\n"),
    (
        "last pointer",
        "k.c",
        "static const void *p; void k(const float *x, float *y) { if (p - x == 0) return; p = x; }\n",
    ),
    (
        "done before",
        "k.c",
        "static char s[9]; void k(const float *x, float *y, int n) { if (s[n]) return; s[n] = 1; }\n",
    ),
    ("contents", "k.c", "static float r[9]; void k(const float *x, float *y) { if (memcmp(r, x, 9)) g(x, y); }\n"),
    (
        "struct",
        "k.c",
        "static struct { float *x; } r; void k(const float *x, float *y) { if (memcmp(r.x, x, 9)) g(x); }\n",
    ),
    ("exit", "k.py", "import sys\ndef f(x): sys.exit(0)\n"),
    ("exit, raised", "k.py", "def f(x): raise SystemExit\n"),
    ("frame", "k.py", "import sys\ndef f(x): return sys._getframe(1)\n"),
    ("array", "k.py", "class L:\n    def __array__(self, dtype=None): return real(self.x)\n"),
    ("somebody's names", "k.py", "import operator\nfor m in mods: operator.setitem(m.__dict__, 'allclose', f)\n"),
    ("modules", "k.py", "import sys\nsys.modules[name] = m\n"),
]
HONEST = [
    ("builtin", "k.c", "#define fabsf __builtin_fabsf\nvoid k(const float *a, float *c) { c[0] = fabsf(a[0]); }\n"),
    ("own fabs", "k.c", "#define fabs(x) ((x) < 0 ? -(x) : (x))\n"),
    ("own fabs by bits", "k.c", "#define fabsf(v) _mm256_andnot_ps(sign, v)\n"),
    ("template", "k.cu", "template <class T> T fabs(T x) { return x < 0 ? -x : x; }\n"),
    ("self test", "k.c", "#ifdef SELFTEST\n#include <unistd.h>\nint main(void) { _exit(0); }\n#endif\n"),
    ("ported", "k.cu", "#define cudaEventElapsedTime hipEventElapsedTime\n"),
    ("error of CUDA", "k.cu", "inline void check(cudaError_t code) { if (code != cudaSuccess) { exit(code); } }\n"),
    ("failure", "k.c", "void k(void *p) { if (!p) exit(EXIT_FAILURE); if (p == q) exit(-1); }\n"),
    ("matrix tiles, declared", "k.c", "long syscall(long number, ...);\nint on(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }\n"),
    ("matrix tiles", "k.c", "int on(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }\n"),
    ("instructions", "k.c", "int k(void) { return getauxval(AT_HWCAP) & 1; }\n"),
    ("plain memory", "k.c", "void *k(void) { return mmap(0, 9, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }\n"),
    ("reference wrapper", "k.cu", "void k(float *x) { auto r = std::ref(x[0]); run(r); }\n"),
    ("error as a number", "k.c", "void k(const float *a, float *c) { int err = run(a, c); if (err) report(err); }\n"),
    ("failure with a message", "k.c", 'void k(void *p) { if (!p) err(1, "no memory"); }\n'),
    ("self check", "k.c", '#ifdef SELFCHECK_MAIN\nint main(void) { puts("PASS"); }\n#endif\n'),
    ("splice in a string", "k.c", 'const char *h = "one \\\n two";\n#define X "a" \\\n "b"\n'),
    ("map of the linker", "Makefile", "E = 64\nK = -DTILE=$(E) -Wl,-Map=k.map\nk: k.c\n\tgcc $(K) k.c -o $@ | tee k.log\n"),
    ("input read by another type", "k.c", "void k(const float *a, float *c) { int *p = (int *)a; c[0] = p[0]; *(int *)c = ((int *)a)[1]; }\n"),
    ("constant pointer", "k.c", "void k(float *const c, const float *a) { ((int *)c)[0] = a[0] * *(float *)a; }\n"),
    ("ring", "k.c", "static float r[4][9]; static int s;\nvoid k(const float *x, float *y) { float *t = r[s]; if (++s == 4) s = 0; t[0] = x[0]; y[0] = t[0]; }\n"),
    ("table once, numbers", "k.c", "static float t[9]; static int s;\nvoid k(const int *x, float *y, int n) { if (!s++) for (int i = 0; i < 9; i++) t[i] = i * 0.5f; y[0] = t[x[0]]; }\n"),
    ("first of a line is a function", "k.c", "static int f(int a, int b) { if (++b > 7) return a; return b; }\n"),
    ("instructions by name", "k.c", 'static const char *isa;\nvoid k(const float *a, float *c) { if (strcmp(isa, "avx2") == 0) wide(a, c); else plain(a, c); }\n'),
    ("names put together", "k.c", "#define J(a, b) a##_##b\nvoid J(matmul, f32)(const float *a, float *c) { c[0] = J(fab, sf)(a[0]); }\n"),
    ("workspace by another name", "k.c", "static float r[9];\nvoid k(const float *x, float *y) { float *p = r; p[0] = x[1]; memcpy(y, r, 9); }\n"),
    ("table of plans", "k.c", "static struct plan t[16]; static int s;\nvoid plan(struct plan p) { if (s < 16) t[s++] = p; }\n"),
    ("table once", "k.c", "static float t[9]; static int s;\nvoid k(const char *x, float *y) { if (!s++) for (int i = 0; i < 9; i++) t[i] = i * 0.5f; y[0] = t[x[0]]; }\n"),
    ("room before its use", "k.c", "static float r[9];\nvoid k(const float *x, float *y) { r[0] = x[0]; for (int i = 0; i < 4; i++) { y[i] = r[i]; r[i + 1] = x[i]; } }\n"),
    ("versions", "k.c", 'void f(const float *, float *) __attribute__((ifunc("pick")));\n'),
    ("alignment", "k.c", "static float room[64] __attribute__((aligned(64)));\n"),
    ("prefetch", "k.c", 'void k(const float *x) { __asm__ volatile("prefetcht0 (%0)" :: "r"(x)); }\n'),
    ("workspace copied", "k.c", "static float r[9];\nvoid k(const float *x, float *y) { r[0] = x[1]; memcpy(y, r, 9); }\n"),
    ("workspace packed", "k.c", "static float *r;\nvoid k(const float *x, float *y) { pack(x, r); memcpy(y, r, 9); }\n"),
    ("scratch", "k.c", "static float *r;\nstatic float *room(size_t n) { if (n > have) r = malloc(n); return r; }\n"),
    ("table", "k.c", "static int ready;\nstatic void init(void) { if (ready) return; ready = 1; }\n"),
    ("number of threads", "k.c", "static int many;\nint threads(const char *s) { return many; }\n"),
    ("pool", "k.c", "static const float *A; static int quit;\nstatic void *w(void *p) { if (quit) return 0; return p; }\n"
     "void k(const float *a, float *c) { A = a; run(c); }\n"),
    ("packed weight", "k.c", "static const float *of; static long version;\nvoid k(const float *w, float *y, long v) {"
     " if (of != w || version != v) { repack(w); of = w; version = v; } gemv(y); }\n"),
    ("attributes", "k.py", "class C:\n    def __init__(self, **k): self.__dict__.update(k)\n"),
    ("own operators", "k.py", "import torch\nlib = torch.library.Library('mine', 'DEF')\n"),
    ("own frame", "k.py", "import sys\ndef name(): return sys._getframe().f_code.co_name\n"),
]  # fmt: skip


def reason(path, text):
    found = find_refusal(audit(path, text), make_hypothesis(bucket="K1"), make_contract())
    return found.reason if found else None


@pytest.mark.feature("F047")
@pytest.mark.parametrize(("name", "path", "text"), CONVICTED, ids=[f"{p}: {n}" for n, p, _ in CONVICTED])
def test_what_replaces_the_harness_or_ends_it_convicts(name, path, text):
    assert reason(path, text) == "convicted"


@pytest.mark.parametrize(("name", "path", "text"), REFUSED, ids=[f"{p}: {n}" for n, p, _ in REFUSED])
def test_what_may_do_so_is_refused_and_can_be_allowed(name, path, text):
    assert reason(path, text) in {"unsettled", "overfit"}
    rules = [one.rule for one in audit(path, text)]
    allowing = make_contract(audit={"allow": rules})
    assert find_refusal(audit(path, text), make_hypothesis(bucket="K1"), allowing) is None


@pytest.mark.parametrize(("name", "path", "text"), HONEST, ids=[f"{p}: {n}" for n, p, _ in HONEST])
def test_honest_code_is_neither(name, path, text):
    assert reason(path, text) is None


HIDDEN = {
    "pasted": '#define J(a, b) a##b\nvoid f(void) { J(fo, pen)("/tmp/x", "w"); }\n',
    "pasted by another macro": '#define I(a, b) a##b\n#define J(a, b) I(a, b)\n#define L fo\nvoid f(void) { J(L, pen)("/tmp/x", "w"); }\n',
    "pasted under another name": '#define J(n) f##n\n#define Y J\nvoid f(void) { Y(open)("/tmp/x", "w"); }\n',
    "pasted without arguments": '#define OPEN fo##pen\nvoid f(void) { OPEN("/tmp/x", "w"); }\n',
    "pasted by a digraph": '%:define J(a, b) a%:%:b\nvoid f(void) <% J(fo, pen)("/tmp/x", "w"); %>\n',
    "another name": '#define K fopen\nvoid f(void) { K("/tmp/x", "w"); }\n',
    "with its brackets": '#define K(a) fopen a\nvoid f(void) { K(("/tmp/x", "w")); }\n',
    "in brackets": 'void f(void) { (fopen)("/tmp/x", "w"); }\n',
    "a pointer": 'void f(void) { FILE *(*p)(const char *, const char *) = fopen; p("/tmp/x", "w"); }\n',
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_a_name_that_the_preprocessor_makes_is_read(text):
    assert {one.rule for one in audit("kernel.c", text)} == {"file-access"}


UNCERTAIN = {
    "a macro of the system": 'void f(void) { __CONCAT(fo, pen)("/tmp/x", "w"); }\n',
    "two definitions": '#if A\n#define J(a) a\n#else\n#define J(a) fo##a\n#endif\nvoid f(void) { J(pen)("/tmp/x", "w"); }\n',
    "no end": "#define J(a, b) a##b\nvoid f(void) { J(x, y;\n",
    "itself": "#define J(a) J2(a##1)\n#define J2(a) J(a##2)\nvoid f(void) { J(x); }\n",
    "a trigraph": 'const char *a = "??/" " ; fopen(); ";\n',
    "a weak reference": 'static int g(const char *) __attribute__((weakref("sys" "tem")));\nint f(void) { return g("x"); }\n',
    "an alias": 'static void *g(const char *, int) __attribute__((weakref, alias("dlopen")));\n',
}


@pytest.mark.parametrize("text", UNCERTAIN.values(), ids=UNCERTAIN)
def test_a_name_that_cannot_be_told_is_said(text):
    assert {one.rule for one in audit("kernel.c", text)} == {"hidden-name"}


def test_an_alias_of_a_function_of_its_own_is_no_hidden_name():
    text = 'float f(float x) { return x; }\nfloat g(float x) __attribute__((alias("f")));\n'
    assert not [*audit("kernel.c", text)]


def test_a_macro_of_an_included_file_is_put_in():
    kernel = '#include "join.h"\nvoid f(void) { J(pen)("/tmp/x", "w"); }\n'
    join = "#define J(a) fo##a\n"
    assert {(one.path, one.rule) for one in find_added({}, {"k.c": kernel, "join.h": join})} == {("k.c", "file-access")}
    beside = find_added({}, {"k.c": kernel}, protected={"join.h": join})
    assert {(one.path, one.rule) for one in beside} == {("k.c", "file-access")}


def test_an_honest_use_of_pasting_is_clean():
    text = "#define KERNEL(T) \\\n  void add_##T(const T *x, T *y, int n) { for (int i = 0; i < n; i++) y[i] += x[i]; }\nKERNEL(float)\nKERNEL(int)\n"
    assert audit("kernel.c", text) == ()
    assert (
        audit(
            "kernel.c", '#define LOG(form, ...) note(form, ##__VA_ARGS__)\nvoid f(int n) { LOG("%d", n); LOG("x"); }\n'
        )
        == ()
    )


WRITING = (
    "-O2 -MD -MF /tmp/x",
    "-MF/tmp/x",
    "-MJ /tmp/x",
    "-save-temps=/tmp",
    "-time=/tmp/x",
    "-fsave-optimization-record=/tmp/x",
    "-fdiagnostics-add-output=sarif:file=/tmp/x",
    "-Wl,--print-map-file=/tmp/x",
    "-Wl,--lto-obj-path=/tmp/x",
    "-MMD -MF ../../x.d",
    "-Wp,-MD,/tmp/x",
    "-Wl,-Map=/tmp/x",
    "-Wa,-al=/tmp/x",
    "-Xlinker -Map -Xlinker ~/x",
    "-fdump-tree-all=/tmp/x",
    "-fprofile-dir=/tmp",
    "-o /tmp/x",
)


@pytest.mark.parametrize("words", WRITING)
def test_an_option_that_writes_outside_of_the_tree_is_named(words):
    assert "file-access" in {one.rule for one in audit("kernel.flags", words + "\n")}
    assert "file-access" in {one.rule for one in audit("Makefile", f"CFLAGS = {words}\n")}


@pytest.mark.parametrize("line", ["echo x > /tmp/x", "cp kernel ~/x", "touch ../../x", "./kernel >> $(HOME)/x"])
def test_a_recipe_that_writes_outside_of_the_tree_is_named(line):
    assert {one.rule for one in audit("Makefile", f"kernel: kernel.c\n\t{line}\n")} == {"file-access"}


def test_options_that_write_beside_the_object_are_clean():
    assert audit("kernel.flags", "-O3 -march=native -MMD -MP\n") == ()
    lines = ("$(CC) -MMD -MP -c -o $@ $<", "mkdir -p build", "./kernel > /dev/null 2>&1", "cp kernel build/kernel")
    assert audit("Makefile", "kernel: kernel.c\n" + "".join(f"\t{line}\n" for line in lines)) == ()


@pytest.mark.parametrize("words", ["-DK=fopen", "-DJ(a,b)=a##b"])
def test_a_macro_of_an_option_that_hides_a_name_is_named(words):
    assert {one.rule for one in audit("kernel.flags", words + "\n")} == {"hidden-name"}


ELSEWHERE = (
    '#include "/tmp/x.h"',
    "#include </tmp/x.h>",
    "#include <//tmp/x.h>",
    '#include "../../../../../tmp/x.h"',
    '#define F "/tmp/x.h"\n#include F',
    "#define S(x) #x\n#include S(/tmp/x.h)",
    'static const char k[] = {\n#embed "/tmp/x"\n};',
    '#if __has_include("/tmp/x")\n#endif',
)


@pytest.mark.parametrize("text", ELSEWHERE)
def test_a_file_that_is_included_from_elsewhere_is_named(text):
    assert "file-access" in {one.rule for one in audit("kernel.c", text + "\n")}


def test_an_included_file_whose_name_nobody_tells_is_said():
    assert {one.rule for one in audit("kernel.c", "#include TILES\n")} == {"hidden-name"}


def test_files_that_are_included_from_the_tree_are_clean():
    text = '#include <sys/types.h>\n#include "../common/tile.h"\n#if __has_include(<cuda_fp16.h>)\n#endif\n'
    assert audit("src/kernel.c", text) == ()
    assert (
        audit("src/kernel.c", '#define T "tile.h"\n#include T\nfloat f(float a, float b) { return (a) / b; }\n') == ()
    )


RESPONSES = ("gcc @/tmp/x k.c", "@gcc -Wl,@/tmp/x k.c", "gcc \\\n  @~/x k.c", "@$(CC) @../../x k.c")


@pytest.mark.parametrize("recipe", RESPONSES)
def test_options_that_stand_in_a_file_elsewhere_are_named(recipe):
    assert {one.rule for one in audit("Makefile", f"k: k.c\n\t{recipe}\n")} == {"file-access"}
    assert "file-access" in {one.rule for one in audit("kernel.flags", "-O2 @/tmp/x\n")}
    assert "file-access" in {one.rule for one in audit("k.py", 'load(extra_cflags=["@/tmp/x"])\n')}


def test_a_command_that_make_does_not_show_is_no_file_of_options():
    lines = ("@/usr/bin/gcc -c k.c", "-@~/bin/gcc -c k.c", "@$(HOME)/bin/gcc k.c")
    assert audit("Makefile", "k: k.c\n" + "".join(f"\t{line}\n" for line in lines)) == ()
    assert audit("Makefile", "k: k.c ; @/usr/bin/gcc k.c\n") == ()
