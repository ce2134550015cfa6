"""Code that real kernels have and that a careless rule would call a cheat: name, path, source."""

# ruff: noqa: E501 -- one snippet a line, so that the corpus reads as a table

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"

PYTHON: tuple[tuple[str, str], ...] = (
    ("autotune", "@triton.autotune(configs=[triton.Config({'B': 64}), triton.Config({'B': 128})], key=['M', 'N'])\n@triton.jit\ndef k(x, o, M, N, B: tl.constexpr):\n    i = tl.arange(0, B)\n    tl.store(o + i, tl.load(x + i, mask=i < N), mask=i < N)\n"),
    ("output allocated and written", "def f(x):\n    out = torch.empty_like(x)\n    k[(1,)](x, out)\n    return out\n"),
    ("workspace by shape", "WS = {}\ndef f(x):\n    key = (x.device, x.shape, x.dtype)\n    ws = WS.get(key)\n    if ws is None:\n        ws = WS[key] = torch.empty_like(x)\n    out = torch.empty_like(x)\n    k[(1,)](x, ws, out)\n    return out\n"),
    ("tile table", "TILES = {(4096, 4096): (128, 64), (1024, 1024): (64, 64)}\ndef f(a, b):\n    bm, bn = TILES.get((a.shape[0], b.shape[1]), (64, 32))\n    out = torch.empty((a.shape[0], b.shape[1]), device=a.device)\n    k[(triton.cdiv(a.shape[0], bm),)](a, b, out, BM=bm, BN=bn)\n    return out\n"),
    ("plan by size", "from functools import lru_cache\n@lru_cache(maxsize=None)\ndef plan(m, n, k):\n    return (max(16, m // 64), min(n, 128), k)\n"),
    ("plan by layout", "from functools import cache\n@cache\ndef grid(layout, x):\n    return layout.shape, layout.stride, x\n"),
    ("number of units", "import functools\n@functools.lru_cache\ndef sms(device):\n    return torch.cuda.get_device_properties(device).multi_processor_count\n"),
    ("joined streams", "def f(x, y):\n    main = torch.cuda.current_stream()\n    side = torch.cuda.Stream()\n    side.wait_stream(main)\n    with torch.cuda.stream(side): k[(1,)](x)\n    k[(1,)](y)\n    main.wait_stream(side)\n    return x, y\n"),
    ("optional import", "try:\n    import triton.language.extra.libdevice as lib\nexcept ImportError:\n    lib = None\nclass Cfg:\n    pass\n"),
    ("words in names", "# see http://host/path#time.perf_counter\ntime_steps = 3\nelapsed_tokens = 7 // 2\ndef f(time_steps, x): return k[(time_steps,)](x)\n"),
    ("a local called time", "def f(x):\n    time = x.shape[1]\n    event = State()\n    event.elapsed_time = time\n    return k[(1,)](x, event)\n"),
    ("weight cache with version", "Q = {}\ndef f(x, weight):\n    key = (id(weight), weight._version, weight.shape)\n    if key not in Q:\n        Q[key] = quantize(weight)\n    return mine(x, Q[key])\n"),
    ("plan by module", "PLANS = {}\ndef f(module, x):\n    p = PLANS.setdefault(id(module), Plan())\n    return p.run(x)\n"),
    ("context for the backward pass", "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, w):\n        ctx.save_for_backward(x, w)\n        ctx.shape = x.shape\n        return launch(x, w)\n    @staticmethod\n    def backward(ctx, grad_out):\n        x, w = ctx.saved_tensors\n        return launch_b(grad_out, x, w), None\n"),
    ("graph with copies", "class R:\n    def __init__(self, x):\n        self.x = x.clone()\n        self.g = torch.cuda.CUDAGraph()\n        with torch.cuda.graph(self.g): self.out = mine(self.x)\n    def __call__(self, x):\n        self.x.copy_(x)\n        self.g.replay()\n        return self.out.clone()\n"),
    ("accumulate in single", "@triton.jit\ndef k(a, b, o, K, B: tl.constexpr):\n    acc = tl.zeros((B, B), dtype=tl.float32)\n    for s in range(0, K, B):\n        acc += tl.dot(tl.load(a + s), tl.load(b + s))\n    tl.store(o, acc)\n"),
    ("settings of a compiler", "import torch._inductor.config as config\nconfig.max_autotune = True\ntorch.backends.cudnn.benchmark = True\n"),
    ("registering an operator", "lib = torch.library.Library('mine', 'DEF')\nlib.define('f(Tensor x) -> Tensor')\n"),
    ("own method for tensors of its own", "class Packed:\n    def __init__(self, t): self.t = t\n    def allclose(self, o): return torch.allclose(self.t, o.t)\n"),
    ("program entry", "import sys, time\ndef f(x): return k[(1,)](x)\nif __name__ == '__main__':\n    t = time.perf_counter()\n    f(torch.ones(4))\n    print('speedup', time.perf_counter() - t, sys.argv)\n"),
    ("interpreter switch", "import os\nINTERPRET = os.environ.get('TRITON_INTERPRET') == '1'\ndef f(x): return k[(1,)](x)\n"),
    ("arguments checked", "def f(a, b):\n    assert a.shape[1] == b.shape[0]\n    if not a.is_contiguous(): a = a.contiguous()\n    if a.numel() == 0: return a.new_empty(0)\n    return launch(a, b)\n"),
    ("split by size", "def f(x):\n    n = x.numel()\n    if n <= 1024:\n        one[(1,)](x)\n    else:\n        many[(triton.cdiv(n, 1024),)](x)\n    return x\n"),
    ("atomic split-k", "def f(a, b):\n    c = torch.zeros((a.shape[0], b.shape[1]), device=a.device)\n    splitk[(4, 4, 8)](a, b, c)\n    return c\n"),
    ("generated source", "SRC = TEMPLATE.format(B=64)\nns = {}\nexec(compile(SRC, 'gen.py', 'exec'), ns)\nkernel = ns['kernel']\n"),
    ("frame of its own", "import sys\ndef name():\n    return sys._getframe(0).f_code.co_name\n"),
    ("log of a call", "import logging\nlog = logging.getLogger(__name__)\ndef f(x):\n    log.debug('launch %s', x.shape)\n    return k[(1,)](x)\n"),
    ("collector switched off while tuning", "import gc\ndef tune(x):\n    gc.collect()\n    torch.cuda.empty_cache()\n"),
    ("extension in a string", "from torch.utils.cpp_extension import load_inline\nCUDA = '''\n#include <torch/extension.h>\n__global__ void k(const float* x, float* o, int n) { int i = threadIdx.x; if (i < n) o[i] = x[i] * 2; }\n'''\nmod = load_inline('m', cpp_sources='', cuda_sources=CUDA)\n"),
    ("documented trick", 'NOTE = """A cheat would write torch.cuda.Event.elapsed_time = lambda: 0 or os._exit(0)."""\ndef f(x): return k[(1,)](x)\n'),
    ("environment for a tool", "import os\nos.environ['TRITON_CACHE_DIR'] = 'cache'\n"),
    ("a kernel called times", "def times(a, b):\n    out = torch.empty_like(a)\n    k[(1,)](a, b, out)\n    return out\n"),
    ("list of tensors by index", "def f(xs, i):\n    return k[(1,)](xs[i])\n"),
    ("gather", "class Rope:\n    def forward(self, x, pos):\n        return rope[(pos.numel(),)](x, self.cos[pos], self.sin[pos])\n"),
)  # fmt: skip

C: tuple[tuple[str, str], ...] = (
    ("saxpy", "void f(const float *restrict x, float *restrict y, int n, float a) { for (int i = 0; i < n; i++) y[i] += a * x[i]; }\n"),
    ("static workspace", "static float panel[64 * 64];\nvoid f(const float *a, float *c, int n) { pack(a, panel, n); for (int i = 0; i < n; i++) c[i] = panel[i] * 2; }\n"),
    ("constant table", "static const float lut[4] = {0, 1, 2, 3};\nfloat f(const float *x, float *o, int i) { return lut[i & 3] + x[0]; }\n"),
    ("CUDA error", "#define CHECK(e) do { if ((e) != cudaSuccess) { exit(1); } } while (0)\nvoid f(const float* x, float* o) { k<<<1, 32>>>(x, o); CHECK(cudaGetLastError()); }\n"),
    ("joined streams", "void f(const float* x, float* o) { cudaStream_t s; cudaStreamCreate(&s); k<<<1, 32, 0, s>>>(x, o); cudaEventRecord(e, s); cudaStreamWaitEvent(0, e, 0); }\n"),
    ("guard and border", "__global__ void k(const float* x, float* o, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return; o[i] = x[i]; }\n"),
    ("a kernel called times", "__global__ void times(const float* a, const float* b, float* o, int n) { int i = threadIdx.x; if (i < n) o[i] = a[i] * b[i]; }\n"),
    ("own clock type", "struct Stage { int clock() { return n; } int n; };\nint f(Stage s, const float* x, float* o) { o[0] = x[0]; return s.clock(); }\n"),
    ("in a namespace", "namespace mine { int memcmp(const float* a, const float* b, int n) { return a[0] < b[0]; } }\n"),
    ("static helper", "static inline float fabsf(float x) { return x < 0 ? -x : x; }\nvoid f(const float *x, float *o) { o[0] = fabsf(x[0]); }\n"),
    ("half data", "__global__ void k(const half* x, half* o) { o[threadIdx.x] = __hadd(x[threadIdx.x], x[threadIdx.x]); }\n"),
    ("prefetch assembly", '__device__ void p(const void* q) { asm volatile("prefetch.global.L2 [%0];" :: "l"(q)); }\n'),
    ("words in a comment", "/* ptrace( fopen(\"/proc/self/mem\") _exit(0); */\nvoid f(const float *x, float *o) { o[0] = x[0]; } // kill(getppid(), 9)\n"),
    ("words in a string", 'const char *help = "do not call _exit(0) or define clock_gettime";\n'),
    ("quick check for small sizes", "void f(const float *x, float *o, int n) { if (n <= 0) return; for (int i = 0; i < n; i++) o[i] = x[i]; }\n"),
    ("openmp", "void f(const float *x, float *o, int n) {\n#pragma omp parallel for\n  for (int i = 0; i < n; i++) o[i] = x[i];\n}\n"),
    ("line continued", "#define LOAD(p, i) \\\n  (*(const float4*)((p) + (i)))\nvoid f(const float *x, float *o) { *(float4*)o = LOAD(x, 0); }\n"),
    ("ported names", "#define cudaDeviceSynchronize hipDeviceSynchronize\n#define cudaEventRecord hipEventRecord\nvoid f(const float *x, float *o) { o[0] = x[0]; }\n"),
    ("template", "template <int BM, int BN> __global__ void k(const float* a, float* c) { __shared__ float s[BM * BN]; s[threadIdx.x] = a[threadIdx.x]; __syncthreads(); c[threadIdx.x] = s[threadIdx.x]; }\n"),
)  # fmt: skip

LOCALS: tuple[tuple[str, str], ...] = (
    ("macro assigns its argument's names", "#define ZERO(i) s##i = 0.0f, u##i = 0.0f\nvoid f(const float *x, float *o, int n) { float ZERO(0); int i = 0; for (; i + 8 <= n; i += 8) o[i] = s0 + u0; for (; i < n; i++) if (i < 4) o[i] = x[i]; }\n"),
    ("statement macro", "#define SWAP(a, b) t = a; a = b; b = t;\nvoid f(const float *x, float *o, int n) { int t = 0, a = 1, b = n; SWAP(a, b) if (t > 3) return; t++; o[0] = x[t]; }\n"),
    ("macro with a loop", "#define EACH(k) for (k = 0; k < 8; k++)\nvoid f(const float *x, float *o, int n) { int k; EACH(k) o[k] = x[k]; if (k == 8) o[0] = 0; k++; }\n"),
    ("loop variable declared before", "static int i = 3;\nint threads(void) { return i; }\nvoid f(const float *x, float *o, int n) { int i = 0, j; for (; i + 4 <= n; i += 4) o[i] = x[i]; for (; i < n; i++) if (i > 2) o[i] = x[i]; for (j = i; j < n; j++) o[j] = 0; }\n"),
    ("static of another function", "static int ready(void) { static int n; if (n == 0) n = 1; return n; }\nvoid f(const float *x, float *o, int n) { if (n <= 0) return; while (n--) { o[n] = x[n]; n++; n--; } }\n"),
    ("static in a block", "void f(const float *x, float *o, int n) { { static int left; left = n; o[0] = left; } int left = n; for (; left > 8; left -= 8) o[left] = x[left]; if (left) return; left++; }\n"),
    ("parameter of a file's name", "static int n = 4;\nvoid f(const float *x, float *o, int n) { if (n <= 0) return; for (int i = 0; i < n; i++) o[i] = x[i]; n++; if (n > 3) o[0] = 0; }\n"),
    ("default argument", "void f(const float *x, float *o, int n = 0);\nvoid f(const float *x, float *o, int n) { if (n == 0) return; for (; n > 0; n--) o[n] = x[n]; }\n"),
    ("template default", "template <int B = 64, int N = 4>\nvoid g(const float *x, float *o) { if (N == 0) return; o[0] = x[0]; }\n"),
    ("array of at least", "void f(const float x[static 16], float o[static 16], int n) { if (n <= 0) return; for (int i = 0; i < n; i++) o[i] = x[i]; }\n"),
    ("pointers stepped", "static const float *p;\nvoid f(const float *x, float *o, int n) { const float *p = x, *e = x + n; float *q = o; for (; p < e; p++, q++) if (*p > 0) *q = *p; if (p == e) return; }\n"),
    ("counter in a struct", "typedef struct { int full, rest; } Layout;\nstatic Layout layout_of(int d) { Layout l = {d / 32, d % 32}; if (l.rest > 16) { l.full++; l.rest = 0; } return l; }\n"),
    ("member of a file's name", "static int count;\nstruct S { int count; };\nvoid f(const float *x, float *o, int n, struct S *s) { s->count++; if (s->count > 3) o[0] = x[0]; }\n"),
    ("enum constants", "enum { ROWS = 4, COLUMNS };\nenum kind { NONE = 0, SOME };\nvoid f(const float *x, float *o, int n) { int rows = ROWS; for (; rows < n; rows++) if (rows == COLUMNS) o[rows] = x[rows]; }\n"),
    ("lambda", "static int i;\nvoid f(const float *x, float *o, int n) { auto step = [&](int i) { if (i > 3) i++; return i; }; o[0] = x[step(n)]; }\n"),
    ("lambda counter", "void f(const float *x, float *o, int n) { int done = 0; auto each = [&] { done++; }; each(); if (done > n) o[0] = x[0]; }\n"),
    ("functor", "namespace k { struct Op { int n = 0; void operator()(int i) { n++; if (n > i) n = 0; } }; }\nvoid f(const float *x, float *o, int n) { k::Op op; op(n); o[0] = x[0]; }\n"),
    ("CUDA grid stride", "__global__ void k(const float* x, float* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; for (; i < n; i += gridDim.x * blockDim.x) o[i] = x[i]; if (i == n) i++; }\n"),
    ("shared counter", "__global__ void k(const float* x, float* o, int n) { __shared__ int count; extern __shared__ float room[]; if (threadIdx.x == 0) count = 0; __syncthreads(); if (x[threadIdx.x] > 0) count++; if (count > 3) o[0] = room[0]; }\n"),
    ("shared memory of the file", "extern __shared__ float room[];\n__global__ void k(const float* x, float* o, int n) { room[threadIdx.x] = x[threadIdx.x]; __syncthreads(); o[threadIdx.x] = room[threadIdx.x]; }\n"),
    ("branches of the preprocessor", "#ifdef __AVX512F__\nstatic void f(const float *x, float *o, int n) { int i = 0; for (; i + 16 <= n; i += 16) o[i] = x[i];\n#else\nstatic void f(const float *x, float *o, int n) { int i = 0;\n#endif\n for (; i < n; i++) if (i > 2) o[i] = x[i]; }\n"),
    ("unrolled by a macro", "#define STEP(k) do { acc##k += x[i + k]; i++; } while (0)\nvoid f(const float *x, float *o, int n) { float acc0 = 0, acc1 = 0; int i = 0; while (i + 8 < n) { STEP(0); STEP(1); } if (i < n) acc0 += x[i]; o[0] = acc0 + acc1; }\n"),
    ("macro that makes functions", "#define MAKE(T) static void add_##T(const T *x, T *o, int n) { int i = 0; for (; i < n; i++) if (i > 1) o[i] = x[i]; }\nMAKE(float)\nMAKE(int)\nvoid f(const float *x, float *o, int n) { int i = 0; if (i < n) i++; add_float(x, o, n); }\n"),
    ("setup once", 'static int wide = -1;\nstatic int is_wide(void) { if (wide < 0) wide = __builtin_cpu_supports("avx2"); return wide; }\nvoid f(const float *x, float *o, int n) { int i = 0; if (is_wide()) for (; i + 8 <= n; i += 8) o[i] = x[i]; for (; i < n; i++) o[i] = x[i]; }\n'),
    ("remainder", "void f(const float *x, float *o, int n) { int i, left; for (i = 0, left = n; left >= 4; left -= 4, i += 4) o[i] = x[i]; switch (left) { case 3: o[i] = x[i]; i++; /* fall through */ case 2: o[i] = x[i]; i++; } if (i > n) return; }\n"),
    ("goto and while", "void f(const float *x, float *o, int n) { int tries = 0; again: tries++; if (tries < 3) goto again; o[0] = x[0]; }\n"),
    ("do while with pointers", "void f(const float *x, float *o, int n) { const float *end = x + n; do { *o++ = *x++; } while (x < end); if (x == end) return; }\n"),
    ("histogram", "void f(const int *x, int *o, int n) { int count[256] = {0}; for (int i = 0; i < n; i++) count[x[i]]++; for (int i = 0; i < 256; i++) if (count[i] > 1) o[i] = count[i]; }\n"),
    ("heap by call", "void f(const float *x, float *o, int n) { float *room = malloc(n * 4); if (room == NULL) return; memcpy(room, x, n * 4); for (int i = 0; i < n; i++) o[i] = room[i]; free(room); }\n"),
    ("thread id", "void f(const float *x, float *o, int n) {\n#pragma omp parallel\n { int i = omp_get_thread_num(); for (; i < n; i += omp_get_num_threads()) if (i > 2) o[i] = x[i]; i++; } }\n"),
    ("C++ range and templates", "template <typename T, int U> void g(const T *x, T *o, int n) { int i{0}; for (; i + U <= n; i += U) o[i] = x[i]; for (; i < n; ++i) if (i > 1) o[i] = x[i]; }\nvoid f(const float *x, float *o, int n) { g<float, 4>(x, o, n); }\n"),
    ("constants of a class", "struct Tile { static constexpr int M = 64; static const int N = 32; };\nvoid f(const float *x, float *o, int n) { int M = 0; for (; M < n; M++) if (M == Tile::N) o[M] = x[M]; }\n"),
)  # fmt: skip
"""C: variables of one call that have the name of one that lasts, or look like it."""

PYTHON_LOCALS: tuple[tuple[str, str], ...] = (
    ("loop and pointers", "@triton.jit\ndef k(x, o, n, B: tl.constexpr):\n    i = tl.program_id(0)\n    p = x + i\n    acc = 0.0\n    count = 0\n    for s in range(0, n, B):\n        acc += tl.load(p)\n        p += B\n        count += 1\n        if count > 4:\n            acc += 0.0\n    tl.store(o + i, acc)\n"),
    ("while", "@triton.jit\ndef k(x, o, n, B: tl.constexpr):\n    i = 0\n    while i < n:\n        i += 1\n        if i == 3:\n            tl.store(o, tl.load(x + i))\n"),
    ("host counter", "def f(x):\n    out = torch.empty_like(x)\n    done = 0\n    while done < x.shape[0]:\n        done += 128\n        if done > x.shape[0]:\n            done = x.shape[0]\n    k[(done,)](x, out)\n    return out\n"),
    ("local list", "def f(x):\n    out = torch.empty_like(x)\n    sizes = [0, 0]\n    for size in x.shape:\n        sizes[0] += 1\n        if sizes[0] > 1:\n            sizes[1] += size\n    k[(sizes[1],)](x, out)\n    return out\n"),
    ("lambda grid", "def f(x):\n    out = torch.empty_like(x)\n    grid = lambda meta: (triton.cdiv(x.numel(), meta['B']),)\n    k[grid](x, out, x.numel(), B=64)\n    return out\n"),
    ("nested helper", "def f(x):\n    out = torch.empty_like(x)\n    launched = 0\n    def launch(part):\n        nonlocal launched\n        launched += 1\n        if launched > 2:\n            part = part.contiguous()\n        k[(1,)](part, out)\n    for part in x.split(64):\n        launch(part)\n    return out\n"),
    ("nested list counter", "def f(x):\n    out = torch.empty_like(x)\n    count = [0]\n    def launch(part):\n        count[0] += 1\n        if count[0] > 2:\n            part = part.contiguous()\n        k[(1,)](part, out)\n    for part in x.split(64):\n        launch(part)\n    return out\n"),
    ("iterator", "def f(x, sizes):\n    out = torch.empty_like(x)\n    it = iter(sizes)\n    if next(it) > 3:\n        k[(1,)](x, out)\n    return out\n"),
    ("comprehension", "def f(x):\n    out = torch.empty_like(x)\n    k[(sum(1 for s in x.shape if s > 1),)](x, out)\n    return out\n"),
    ("class plan", "class Plan:\n    def __init__(self, n):\n        self.steps = 0\n        while n > 1:\n            n //= 2\n            self.steps += 1\n            if self.steps > 20:\n                break\n"),
)  # fmt: skip

OPTIONS: tuple[tuple[str, str, str], ...] = (
    (
        "flags",
        "kernel.flags",
        "-O3 -march=native -mavx2 -funroll-loops -fno-builtin -flto -DTILE=64\n-ffp-contract=fast\n",
    ),
    ("flags of a linker", "kernel.flags", "-O2 -Wl,-Bsymbolic -Wl,-O1 -Wl,--as-needed -Dfabsf=__builtin_fabsf\n"),
    (
        "makefile",
        "Makefile",
        "# never -wrapper\nCFLAGS = -O2 -Isrc\nall:\n\t$(MAKE) -B lib\n\t$(CC) $(CFLAGS) k.c -o k -lm\n",
    ),
    ("script", "build.sh", "#!/bin/sh\nset -e\npython3 -B gen.py -o k.c\ngcc -O2 k.c -o k -lm\n"),
    ("document", "NOTES.md", "Do not use -wrapper or --wrap=main.\n\n- -B is make's\n"),
)

HONEST = (
    tuple((name, "kernel.py", HEAD + text) for name, text in PYTHON)
    + tuple((f"local: {name}", "kernel.py", HEAD + text) for name, text in PYTHON_LOCALS)
    + tuple((name, "kernel.cu", text) for name, text in C)
    + tuple((f"local: {name}", path, text) for path in ("kernel.c", "kernel.cu") for name, text in LOCALS)
    + OPTIONS
)
