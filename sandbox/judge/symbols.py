"""What a built library takes from elsewhere: names that it leaves undefined, and what each of them means."""

import re
import struct
from collections.abc import Iterator
from typing import Literal

from graph.values import Value

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
    trunc y0 y1
"""
RUNTIME = """
    malloc calloc realloc free aligned_alloc posix_memalign memalign valloc abort abs labs llabs div qsort bsearch
    rand srand rand_r drand48 memcpy memmove memset memcmp memchr mempcpy bcopy bzero strlen strcmp strncmp strcpy
    strncpy strcat strchr strstr snprintf vsnprintf printf puts putchar fprintf fputs fputc fwrite fflush stderr
    stdout perror atoi strtol strtod getenv secure_getenv exit atexit time clock clock_gettime gettimeofday
    sched_yield sched_getcpu sysconf get_nprocs getpagesize nanosleep usleep sleep errno environ _Exit
    isalpha isdigit toupper tolower open close read write lseek fopen fclose fread fgets fscanf sscanf unlink
    mmap mmap64 munmap madvise
"""
PLAIN_NAMES = frozenset(RUNTIME.split())
PLAIN = re.compile(
    r"__(stack_chk_\w+|cxa_\w+|gmon_start__|errno_location|tls_get_addr|memcpy_chk|memset_chk|memmove_chk|sprintf_chk"
    r"|s?n?printf_chk|fprintf_chk|vsnprintf_chk|isoc\d+_\w+|assert_fail|ctype_\w+|sched_cpu\w+|gxx_personality_v0"
    r"|finite|isnan[fl]?|isinf[fl]?|signbit[fl]?|fpclassify[fl]?|dso_handle|register_atfork|powi?[sdtx]f2|\w+_finite"
    r"|(add|sub|mul|div|mod|u?div|u?mod|neg|fix|float|ext|trunc|cmp|ashl|ashr|lshr|pow|mulo?|bswap|ffs|clz|ctz"
    r"|popcount|parity)\w*[sdtxhb]\w?[234]?|cpu_(model|indicator_init|features2?)|emutls_get_address)$"
    r"|_ITM_\w+|_Unwind_\w+|GOMP_\w+|omp_\w+|GOACC_\w+|__kmpc_\w+|pthread_\w+|thrd_\w+|mtx_\w+|cnd_\w+|call_once"
    r"|sem_\w+|atomic_\w+|__atomic_\w+|_ZGV\w+|__svml_\w+|_Z(n|d)[wa]\w*|_ZN?K?St\w*|_ZNS\w*|_ZT[IVS]\w*"
    rf"|(?:{'|'.join(MATHS.split())})[fl]?$"
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
