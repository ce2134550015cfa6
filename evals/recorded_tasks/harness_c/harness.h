/* What test.c and bench.c share, for every task: random numbers, buffers with guarded edges, the clock, loading a build.
 * The same file lies in each task's folder, because a task must be complete by itself. */
#ifndef HARNESS_H
#define HARNESS_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define UNUSED __attribute__((unused))

typedef void (*Symbol)(void);

/* Where the data lies in its pages. CENTRE aligns it to 64 bytes between two bands of known words; START and END put
 * it against a page that cannot be touched, so that one element too far in that direction is a fault. */
typedef enum { CENTRE, START, END } Placement;

typedef struct {
    float *data;
    size_t len;     /* floats */
    uint32_t *zone; /* the accessible pages around data */
    size_t words;   /* 4-byte words in zone */
    uint32_t tag;   /* every word of zone outside data; a quiet NaN, so reading it is seen in the result */
} Buffer;

static UNUSED void die(const char *what) {
    fprintf(stderr, "error: %s\n", what);
    exit(2);
}

/* splitmix64: every state is a good one, so any seed will do. */
static UNUSED uint64_t draw(uint64_t *rng) {
    uint64_t z = (*rng += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static UNUSED double uniform(uint64_t *rng) {
    return (double)(draw(rng) >> 11) * 0x1p-53;
}

/* Mean 0, variance 1, from the sum of four 16-bit uniforms: as good as a normal for data, and cheap for megabytes. */
static UNUSED float normal(uint64_t *rng) {
    uint64_t bits = draw(rng);
    double sum = (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) + (double)(bits >> 32 & 0xffff) +
                 (double)(bits >> 48);
    return (float)((sum / 65536.0 - 2.0) * 1.7320508075688772);
}

static UNUSED double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values in place. */
static UNUSED double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* `stagger` spreads the buffers of one call over different lines of a page: equal page offsets would make every load
 * and store of the call compete for the same cache sets. */
static UNUSED Buffer buffer_open(size_t len, Placement placement, int stagger, uint32_t tag) {
    size_t bytes = (len * sizeof(float) + 4 * PAGE - 1) / PAGE * PAGE;
    char *map = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + PAGE, bytes, PROT_READ | PROT_WRITE)) {
        die("no memory for the buffers");
    }
    Buffer b = {NULL, len, (uint32_t *)(map + PAGE), bytes / 4, 0x7fc00000u | (tag & 0x3fffffu)};
    size_t offset = placement == START ? 0 : placement == END ? bytes / 4 - len : PAGE / 4 + 272 * (size_t)stagger;
    b.data = (float *)b.zone + offset;
    for (size_t i = 0; i < b.words; i++) {
        b.zone[i] = b.tag;
    }
    return b;
}

static UNUSED void buffer_close(Buffer *b) {
    munmap((char *)b->zone - PAGE, b->words * 4 + 2 * PAGE);
}

/* 1 when every word around the data is still what it was. */
static UNUSED int buffer_intact(const Buffer *b) {
    size_t first = (size_t)(b->data - (float *)b->zone);
    for (size_t i = 0; i < b->words; i++) {
        if ((i < first || i >= first + b->len) && b->zone[i] != b->tag) {
            return 0;
        }
    }
    return 1;
}

/* The kernel of one build. Two files are two copies in memory, also when their bytes are equal. */
static UNUSED Symbol load(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "error: %s\n", dlerror());
        exit(2);
    }
    void *found = dlsym(handle, name);
    if (found == NULL) {
        fprintf(stderr, "error: %s has no function %s\n", library, name);
        exit(2);
    }
    Symbol symbol;
    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}

#endif
