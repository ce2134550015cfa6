"""What a built library takes from elsewhere: names that it leaves undefined, and what each of them means."""

import re
import struct
from collections.abc import Iterator
from typing import Literal

from ridgeline.graph.values import Value

Kind = Literal["plain", "library", "loader", "starter", "network", "unknown"]
"""plain: the C runtime. library: ready-made operators. loader, starter, network: ways to have others do the work."""

DYNSYM = 11
"""Section type of the dynamic symbol table (ELF specification, SHT_DYNSYM)."""
DYNAMIC = 6
NEEDED = 1
LARGEST = 256 << 20

LIBRARY = re.compile(
    r"(scipy_)?cblas_|LAPACKE_|lapack_|openblas|mkl_|MKL_|dnnl|bli_|clblast|fftw|gsl_|arm_|vDSP"
    r"|cublas|cudnn|cusparse|cusolver|cufft|cutensor|rocblas|hipblas|miopen|rocfft|hipfft|nccl|aoti_torch"
    r"|_ZN2at|_ZN3c10|_ZN5torch"
    r"|(s|d|c|z|sb|sh)(gemm|gemv|symm|syrk|trsm|trmm|ger|axpy|scal|dot|dotu|nrm2|asum|gesv|getrf|potrf|geqrf)"
    r"(3m)?(_|_64_|64_)?$"
)
LOADER = re.compile(
    r"_?_?(dlopen|dlmopen|dlsym|dlvsym|dladdr1?|dl_iterate_phdr|libc_dl\w+|mprotect|memfd_create|shm_open)$"
)
STARTER = re.compile(
    r"_?_?(system|popen|v?fork|clone3?|posix_spawnp?|exec[lv]p?e?|fexecve|syscall|ptrace|process_vm_\w+|kill|prctl"
    r"|pthread_kill|signal|sigaction|setitimer|timer_\w+)$"
)
NETWORK = re.compile(
    r"(socket(pair)?|connect|bind|listen|accept4?|send(to|msg)?|recv(from|msg)?|getaddrinfo|gethostbyname\w*)$"
)
MATHS = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor
    fma fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround
    modf nearbyint nextafter pow remainder remquo rint round scalbln scalbn sin sincos sinh sqrt tan tanh tgamma
    trunc y0 y1 yn
    cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj cpow cproj creal csin
    csinh csqrt ctan ctanh
    canonicalize drem finite fmaximum fmaximum_mag fmaximum_mag_num fmaximum_num fmaxmag fminimum fminimum_mag
    fminimum_mag_num fminimum_num fminmag fromfp fromfpx gamma llogb nan nextdown nexttoward nextup pow10 roundeven
    scalb significand totalorder totalordermag ufromfp ufromfpx
    acospi asinpi atan2pi atanpi compoundn cospi exp10m1 exp2m1 log10p1 log2p1 logp1 pown powr rootn rsqrt sinpi tanpi
"""
"""C99 with complex numbers, TS 18661 and C23, and what the GNU library has besides."""
RUNTIME = """
    malloc calloc realloc reallocarray free cfree aligned_alloc posix_memalign memalign valloc pvalloc mallopt
    malloc_trim malloc_usable_size mlock munlock mmap mmap64 mremap munmap madvise posix_madvise mincore msync
    abort atexit exit _exit _Exit quick_exit at_quick_exit abs labs llabs imaxabs div ldiv lldiv imaxdiv
    ffs ffsl ffsll qsort qsort_r bsearch
    rand srand rand_r random srandom random_r srandom_r initstate initstate_r setstate drand48 erand48 lrand48
    nrand48 mrand48 jrand48 srand48 seed48 drand48_r lrand48_r srand48_r getrandom getentropy arc4random
    memcpy memmove memset memcmp memchr memrchr rawmemchr memmem memccpy mempcpy bcmp bcopy bzero explicit_bzero
    wmemcpy wmemmove wmemset wmemcmp wmemchr wcslen swab index rindex
    strlen strnlen strcmp strncmp strcasecmp strncasecmp strcoll strcpy strncpy stpcpy stpncpy strlcpy strlcat strcat
    strncat strchr strchrnul strrchr strstr strcasestr strspn strcspn strpbrk strtok strtok_r strsep strdup strndup
    strerror strerror_r strverscmp strxfrm
    isalnum isalpha isascii isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit tolower
    toupper toascii
    atof atoi atol atoll strtof strtod strtold strtol strtoll strtoul strtoull strtoimax strtoumax strfromf strfromd
    sprintf snprintf vsprintf vsnprintf asprintf vasprintf printf vprintf fprintf vfprintf dprintf vdprintf puts
    putchar putc fputs fputc fwrite fread fflush scanf sscanf vsscanf fscanf getc fgetc getchar ungetc fgets getline
    fopen fopen64 fdopen fclose fileno feof ferror clearerr fseek fseeko ftell ftello rewind setbuf setvbuf stdin
    stdout stderr perror open open64 close read pread pread64 write pwrite lseek lseek64 fstat fstat64 unlink
    getenv secure_getenv environ errno getauxval __getauxval getpid gettid getpagesize sysconf get_nprocs
    get_nprocs_conf getrusage getrlimit gnu_get_libc_version
    sched_yield sched_getcpu sched_getaffinity sched_setaffinity sched_getscheduler sched_getparam
    sched_get_priority_max sched_get_priority_min getcpu getpriority
    time times clock clock_getres clock_gettime clock_nanosleep gettimeofday timespec_get difftime nanosleep usleep
    sleep gmtime gmtime_r localtime localtime_r mktime strftime
    fesetround fegetround feclearexcept fedisableexcept feenableexcept fegetenv fegetexcept fegetexceptflag fegetmode
    feholdexcept feraiseexcept fesetenv fesetexcept fesetexceptflag fesetmode fetestexcept fetestexceptflag
    feupdateenv matherr signgam __signgam setjmp _setjmp __sigsetjmp longjmp _longjmp __longjmp_chk
    __libc_single_threaded __memcmpeq __rawmemchr __strdup __strndup __strtok_r __stpcpy __mempcpy __bzero
    __chk_fail __fdelt_chk __dynamic_cast
"""
"""Memory, strings, numbers as text, files, random numbers, time, and where it runs: what a plain kernel may call."""
PLAIN_NAMES = frozenset(RUNTIME.split())
WIDTH = r"(?:[fl]|f16|bf16|f32x?|f64x?|f128)?(?:_r)?"
"""Of numbers: what the C library appends to the names of functions."""
NARROWED = r"(?:f|d|f32x?|f64x?)(?:add|sub|mul|div|fma|sqrt)(?:l|f32x|f64x?|f128)?"
PLAIN = re.compile(
    r"__(stack_chk_\w+|cxa_\w+|gmon_start__|errno_location|tls_get_addr|(mem|wmem|str|stp|explicit_bzero)\w*_chk"
    r"|v?[adfs]?n?printf_chk|f(gets|read)_chk|p?read_chk|isoc\d+_\w+|assert\w*|ctype\w*"
    r"|sched_cpu\w+|g(cc|xx)_personality_v0|sync_\w+|aarch64_(cas|swp|ld)\w+|gnu_[fh]2[fh]_ieee"
    rf"|(finite|isnan|isinf|signbit|fpclassify|issignaling|iseqsig|iscanonical|clog10){WIDTH}"
    r"|dso_handle|register_atfork|powi?[sdtx]f2|\w+_finite"
    r"|(add|sub|mul|div|mod|u?div|u?mod|neg|fix|float|ext|trunc|cmp|ashl|ashr|lshr|pow|mulo?|bswap|ffs|clz|ctz"
    r"|popcount|parity|absv|clrsb)\w*[sdtxhb]\w?[234]?|(eq|ne|l[et]|g[et]|unord)[sdtxhb]f2|ucmp[sdt]i2"
    r"|cpu_(model|indicator_init|features2?)|emutls_get_address)$"
    r"|_ITM_\w+|_Unwind_\w+|GOMP_\w+|omp_\w+|GOACC_\w+|__kmpc_\w+|pthread_\w+|thrd_\w+|mtx_\w+|cnd_\w+|call_once"
    r"|tss_\w+|sem_\w+|atomic_\w+|__atomic_\w+|_ZGV\w+|__svml_\w+|_Z(n|d)[wa]\w*|_ZN?K?St\w*|_ZNK?S\w*|_ZT[CISTV]\w*"
    rf"|acc_\w+|(?:isnan|isinf|[sg]etpayload|setpayloadsig|{'|'.join(MATHS.split())}){WIDTH}$|{NARROWED}$"
)
NEEDED_PLAIN = re.compile(
    r"(libc|libm|libmvec|libdl|librt|libpthread|ld-linux-[\w-]+|libgcc_s|libstdc\+\+|libgomp|libomp|libiomp5|libatomic)"
    r"\.so[.\d]*"
)
NEEDED_DEVICE = re.compile(r"(libcudart|libcuda|libamdhip64|libhsa-runtime64)\.so[.\d]*")
DEVICE = re.compile(r"(cuda|__cuda|cu|hip|__hip|hsa_)[A-Z_]\w*|__cudaRegister\w*|__hipRegister\w*")
PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("library", LIBRARY), ("loader", LOADER), ("starter", STARTER), ("network", NETWORK),
)  # fmt: skip


class Taken(Value):
    """What a library does not bring itself."""

    symbols: tuple[str, ...]
    """Undefined names of its dynamic symbol table."""
    needed: tuple[str, ...]
    """Libraries that it has loaded with it."""


class NotALibrary(ValueError):
    """A file that is no 64-bit little-endian ELF library, or a damaged one."""


def taken(data: bytes) -> Taken:
    """Read the library of these bytes; nothing of it is run. Raises NotALibrary."""
    if len(data) > LARGEST or data[:6] != b"\x7fELF\x02\x01":
        raise NotALibrary("what was built is no 64-bit ELF library")
    try:
        sections = [*_sections(data)]
        symbols = [name for kind, *where in sections if kind == DYNSYM for name in _undefined(data, sections, where)]
        needed = [name for kind, *where in sections if kind == DYNAMIC for name in _needed(data, sections, where)]
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotALibrary(f"what was built is damaged ({error})") from None
    if not any(kind == DYNSYM for kind, *_ in sections):
        raise NotALibrary("what was built has no table of dynamic symbols")
    return Taken(symbols=tuple(dict.fromkeys(symbols)), needed=tuple(needed))


def kind_of(symbol: str, *, device: bool = False) -> Kind:
    """What it means that a library takes this name from elsewhere. `device`: the runtime of GPUs counts as plain."""
    name = symbol.split("@")[0]
    for kind, pattern in PATTERNS:
        if pattern.match(name):
            return kind
    if device and DEVICE.match(name):
        return "plain"
    return "plain" if name in PLAIN_NAMES or PLAIN.match(name) else "unknown"


def plain_library(name: str, *, device: bool = False) -> bool:
    """Whether a library that is loaded with it is the C runtime, or the runtime of GPUs where that is the language."""
    return bool(NEEDED_PLAIN.fullmatch(name) or (device and NEEDED_DEVICE.fullmatch(name)))


def _sections(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Type, offset, size and linked section of each."""
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for index in range(count):
        at = start + index * size
        (kind,) = struct.unpack_from("<I", data, at + 4)
        offset, length = struct.unpack_from("<QQ", data, at + 24)
        (link,) = struct.unpack_from("<I", data, at + 40)
        yield kind, offset, length, link


def _undefined(data: bytes, sections: list[tuple[int, int, int, int]], where: list[int]) -> Iterator[str]:
    offset, size, link = where
    names = sections[link][1]
    for at in range(offset + 24, offset + size, 24):  # the first entry is empty
        name, _, _, section = struct.unpack_from("<IBBH", data, at)
        if section == 0:
            yield _text(data, names + name)


def _needed(data: bytes, sections: list[tuple[int, int, int, int]], where: list[int]) -> Iterator[str]:
    offset, size, link = where
    for at in range(offset, offset + size, 16):
        tag, value = struct.unpack_from("<qQ", data, at)
        if tag == NEEDED:
            yield _text(data, sections[link][1] + value)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="replace")
