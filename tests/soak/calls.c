/* Preloaded into a campaign and its git: numbers every call that changes a file or a folder below one place, and at one of
 * these numbers kills, tears a write, begins to fail, or moves the clock. What to do lies in a file that all share. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { NOTHING, KILL_BEFORE, KILL_AFTER, TEAR, FAIL, JUMP };
enum { ALL, THIS_PROCESS, THE_CAMPAIGN };

struct control { /* as in tests/soak/kills.py */
    _Atomic int64_t count; /* calls so far */
    int64_t at;            /* what to do is done at this call */
    int64_t then;          /* and everything is killed at this later one; 0 never */
    int64_t jump_s;        /* added to the wall clock from then on */
    int32_t what, scope, code;
    int32_t root; /* process of the campaign; -1: the next that loads this */
    _Atomic int32_t done;
    int32_t logging;
    char place[400], log[400], where[700];
};

static struct control *control;
static char program[80];

static void find_program(void) {
    char words[4096];
    int file = open("/proc/self/cmdline", O_RDONLY);
    ssize_t size = file < 0 ? 0 : read(file, words, sizeof words - 1);
    if (file >= 0) close(file);
    if (size <= 0) return;
    words[size] = 0;
    const char *name = strrchr(words, '/');
    snprintf(program, sizeof program, "%.30s", name ? name + 1 : words);
    if (strncmp(program, "git", 3) != 0) return;
    for (char *word = words + strlen(words) + 1; word < words + size; word += strlen(word) + 1) {
        if (!strcmp(word, "-c") || !strcmp(word, "-C") || !strcmp(word, "--git-dir") || !strcmp(word, "--work-tree")) word += strlen(word) + 1;
        else if (word[0] != '-') {
            snprintf(program, sizeof program, "git %.40s", word);
            return;
        }
    }
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SOAK_CONTROL");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *shared = mmap(0, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    find_program();
    if (shared == MAP_FAILED) return;
    control = shared;
    __sync_bool_compare_and_swap(&control->root, -1, getpid());
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static void find_place(int folder, const char *path, char *out, size_t size) {
    char base[PATH_MAX] = "";
    if (!path || path[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, base, sizeof base - 1);
        base[length < 0 ? 0 : length] = 0;
    }
    snprintf(out, size, "%s%s%s", base, base[0] && path ? "/" : "", path ? path : "");
}

static void kill_what_is_meant(int scope) {
    pid_t root = control->root;
    if (scope != THIS_PROCESS && root > 0) kill(root, SIGKILL);
    if (scope != THE_CAMPAIGN) kill(getpid(), SIGKILL);
}

/* What the call is to do: 0 go on, an errno, -1 be killed after it, -2 write half of it and be killed. */
static int meet(const char *call, int folder, const char *path) {
    if (!control || !control->place[0]) return 0;
    char place[PATH_MAX];
    int before = errno;
    find_place(folder, path, place, sizeof place);
    errno = before;
    if (strncmp(place, control->place, strlen(control->place)) != 0) return 0;
    int64_t number = atomic_fetch_add(&control->count, 1) + 1;
    if (control->logging) {
        char line[PATH_MAX + 200];
        int length = snprintf(line, sizeof line, "%lld\t%s\t%s\t%s\n", (long long)number, program, call, place);
        int file = open(control->log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (file >= 0) {
            static ssize_t (*real_write)(int, const void *, size_t);
            if (!real_write) real_write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
            real_write(file, line, (size_t)length);
            close(file);
        }
        errno = before;
    }
    if (control->then && number >= control->then) {
        snprintf(control->where, sizeof control->where, "%s\t%s\t%.500s", program, call, place);
        atomic_store(&control->done, 2);
        kill_what_is_meant(ALL);
    }
    if (!control->at || number < control->at) return 0;
    if (number == control->at) {
        snprintf(control->where, sizeof control->where, "%s\t%s\t%.500s", program, call, place);
        atomic_store(&control->done, 1);
        switch (control->what) {
        case KILL_BEFORE: kill_what_is_meant(control->scope); return 0;
        case KILL_AFTER: return -1;
        case TEAR: return -2;
        default: break;
        }
    }
    return control->what == FAIL ? control->code : 0;
}

static void end_call(int order) {
    if (order < 0) kill_what_is_meant(control->scope);
}

#define CHANGE(type, name, folder, path, parameters, arguments, types) \
    type name parameters { \
        REAL(type, name, types); \
        int order = meet(#name, folder, path); \
        if (order > 0) return errno = order, -1; \
        type result = real arguments; \
        end_call(order); \
        return result; \
    }
#define TYPES(...) __VA_ARGS__

CHANGE(int, rename, AT_FDCWD, to, (const char *from, const char *to), (from, to), TYPES(const char *, const char *))
CHANGE(int, renameat, in, to, (int out, const char *from, int in, const char *to), (out, from, in, to),
       TYPES(int, const char *, int, const char *))
CHANGE(int, renameat2, in, to, (int out, const char *from, int in, const char *to, unsigned how), (out, from, in, to, how),
       TYPES(int, const char *, int, const char *, unsigned))
CHANGE(int, unlink, AT_FDCWD, path, (const char *path), (path), TYPES(const char *))
CHANGE(int, unlinkat, folder, path, (int folder, const char *path, int how), (folder, path, how), TYPES(int, const char *, int))
CHANGE(int, remove, AT_FDCWD, path, (const char *path), (path), TYPES(const char *))
CHANGE(int, mkdir, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode), TYPES(const char *, mode_t))
CHANGE(int, mkdirat, folder, path, (int folder, const char *path, mode_t mode), (folder, path, mode), TYPES(int, const char *, mode_t))
CHANGE(int, rmdir, AT_FDCWD, path, (const char *path), (path), TYPES(const char *))
CHANGE(int, link, AT_FDCWD, to, (const char *from, const char *to), (from, to), TYPES(const char *, const char *))
CHANGE(int, linkat, in, to, (int out, const char *from, int in, const char *to, int how), (out, from, in, to, how),
       TYPES(int, const char *, int, const char *, int))
CHANGE(int, symlink, AT_FDCWD, to, (const char *from, const char *to), (from, to), TYPES(const char *, const char *))
CHANGE(int, symlinkat, in, to, (const char *from, int in, const char *to), (from, in, to), TYPES(const char *, int, const char *))
CHANGE(int, ftruncate, file, NULL, (int file, off_t size), (file, size), TYPES(int, off_t))
CHANGE(int, ftruncate64, file, NULL, (int file, off64_t size), (file, size), TYPES(int, off64_t))
CHANGE(int, fsync, file, NULL, (int file), (file), TYPES(int))
CHANGE(int, fdatasync, file, NULL, (int file), (file), TYPES(int))
CHANGE(int, utimensat, folder, path, (int folder, const char *path, const struct timespec times[2], int how),
       (folder, path, times, how), TYPES(int, const char *, const struct timespec *, int))
CHANGE(int, chmod, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode), TYPES(const char *, mode_t))

#define MAKES (O_CREAT | O_TRUNC)
#define OPEN(name, at, folder, parameters, arguments, types) \
    int name parameters { \
        REAL(int, name, types); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        int order = control && (flags & (O_WRONLY | O_RDWR | MAKES)) && !(flags & __O_TMPFILE) ? meet(#name, folder, path) : 0; \
        if (order > 0) return errno = order, -1; \
        int result = real arguments; \
        end_call(order); \
        return result; \
    }

OPEN(open, 0, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode), TYPES(const char *, int, ...))
OPEN(open64, 0, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode), TYPES(const char *, int, ...))
OPEN(openat, 1, folder, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), TYPES(int, const char *, int, ...))
OPEN(openat64, 1, folder, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), TYPES(int, const char *, int, ...))

#define WRITE(name, parameters, arguments, types) \
    ssize_t name parameters { \
        REAL(ssize_t, name, types); \
        int order = control && file > 2 ? meet(#name, file, NULL) : 0; \
        if (order > 0) return errno = order, -1; \
        if (order == -2) size /= 2; \
        ssize_t result = real arguments; \
        end_call(order); \
        return result; \
    }

WRITE(write, (int file, const void *data, size_t size), (file, data, size), TYPES(int, const void *, size_t))
WRITE(pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at), TYPES(int, const void *, size_t, off_t))
WRITE(pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at), TYPES(int, const void *, size_t, off64_t))

static int64_t moved_s(void) {
    if (!control || !control->jump_s) return 0;
    return control->at == 0 || atomic_load(&control->count) >= control->at ? control->jump_s : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(int, clock_gettime, clockid_t, struct timespec *);
    int result = real(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += moved_s();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    REAL(int, gettimeofday, struct timeval *, void *);
    int result = real(now, zone);
    if (!result) now->tv_sec += moved_s();
    return result;
}

time_t time(time_t *out) {
    REAL(time_t, time, time_t *);
    time_t now = real(NULL) + moved_s();
    if (out) *out = now;
    return now;
}
