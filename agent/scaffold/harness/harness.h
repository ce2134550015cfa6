/* What test.c and bench.c share: the arrays of one call, their values, loading a build, and what counts as equal.
 * Nothing here depends on the function; problem.h says what it takes, call.h how it is called. */
#ifndef RIDGELINE_HARNESS_H
#define RIDGELINE_HARNESS_H

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define PAGE ((size_t)4096)
#define MAX_SIZES 12
#define MAX_ARRAYS 16

typedef enum { F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, RAW } Kind;
typedef enum { INPUT, OUTPUT, INOUT } Role;
/* ORDINARY values are timed; the others are tested only. OWN calls fill_own() of problem.h. LETTERS are characters that
 * the original asks about, BYTES are any. */
typedef enum { ORDINARY, ZEROS, EXTREMES, NOT_A_NUMBER, INFINITE, SUBNORMAL, LETTERS, BYTES } Mix;
typedef enum { ANY, RANGE, TEXT, OWN } Values;

/* Numbers of one kind that lie together in a struct. */
typedef struct {
    size_t offset;
    Kind kind;
    int count;
} Field;

typedef struct {
    const char *name;
    Kind kind;
    Role role;
    Values values;
    double low, high;                          /* of RANGE: low <= value < high */
    int64_t (*elements)(const int64_t *sizes); /* how many */
    size_t bytes;                              /* of one element */
    const char *ranges, *letters;              /* of ANY and TEXT: characters of LETTERS, those of ranges and others */
    int inner;                                 /* elements that lie together, as the numbers of a struct; 0 for one */
    const Field *fields;                       /* of structs: what is known to be in them */
    int field_count;
} Array;

typedef struct {
    const char *label, *config_class;
    int timed;
    int64_t sizes[MAX_SIZES];
} Shape;

typedef enum { CENTRE, START, END } Placement; /* where an array lies in its pages: END is against one that faults */

typedef struct {
    char *data, *zone;
    size_t bytes, zone_bytes;
    unsigned char tag;
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

static UNUSED double uniform(uint64_t *rng) { return (double)(draw(rng) >> 11) * 0x1p-53; }

/* Mean 0, variance 1, from the sum of four 16-bit uniforms. */
static UNUSED double normal(uint64_t *rng) {
    uint64_t bits = draw(rng);
    double sum = (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) + (double)(bits >> 32 & 0xffff) +
                 (double)(bits >> 48);
    return (sum / 65536.0 - 2.0) * 1.7320508075688772;
}

static UNUSED double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values in place. */
static UNUSED double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* `stagger` spreads the arrays of one call over different lines of a page. */
static UNUSED Buffer buffer_open(size_t bytes, Placement placement, int stagger, unsigned char tag) {
    size_t zone = (bytes + 4 * PAGE - 1) / PAGE * PAGE;
    char *map = mmap(NULL, zone + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + PAGE, zone, PROT_READ | PROT_WRITE)) {
        die("no memory for the arrays; give smaller shapes");
    }
    Buffer b = {NULL, map + PAGE, bytes, zone, tag};
    size_t centre = PAGE + 192 * (size_t)stagger;
    size_t offset = placement == START ? 0 : placement == END || centre + bytes > zone ? zone - bytes : centre;
    b.data = b.zone + offset;
    memset(b.zone, tag, zone);
    return b;
}

static UNUSED void buffer_close(Buffer *b) { munmap(b->zone - PAGE, b->zone_bytes + 2 * PAGE); }

/* The first byte around the data that is not what it was; NULL when there is none. */
static UNUSED const char *buffer_spoilt(const Buffer *b) {
    for (char *at = b->zone; at < b->zone + b->zone_bytes; at++) {
        if ((at < b->data || at >= b->data + b->bytes) && (unsigned char)*at != b->tag) {
            return at;
        }
    }
    return NULL;
}

static UNUSED void fill_fields(const Array *array, char *data, const int64_t *sizes, Mix mix, uint64_t *rng);

#include "problem.h"

#define ARRAY_COUNT COUNT(ARRAYS)

static UNUSED double get_number(Kind kind, const char *at) {
    switch (kind) {
    case F32: { float v; memcpy(&v, at, sizeof v); return v; }
    case F64: { double v; memcpy(&v, at, sizeof v); return v; }
    case I8: return *(const int8_t *)at;
    case U8: case RAW: return *(const uint8_t *)at;
    case I16: { int16_t v; memcpy(&v, at, sizeof v); return v; }
    case U16: { uint16_t v; memcpy(&v, at, sizeof v); return v; }
    case I32: { int32_t v; memcpy(&v, at, sizeof v); return v; }
    case U32: { uint32_t v; memcpy(&v, at, sizeof v); return v; }
    case I64: { int64_t v; memcpy(&v, at, sizeof v); return (double)v; }
    case U64: { uint64_t v; memcpy(&v, at, sizeof v); return (double)v; }
    }
    return 0.0;
}

static UNUSED void set_number(Kind kind, char *at, double number) {
    int64_t whole = kind == F32 || kind == F64 || kind == U64 ? 0 : (int64_t)number;
    switch (kind) {
    case F32: { float v = (float)number; memcpy(at, &v, sizeof v); break; }
    case F64: memcpy(at, &number, sizeof number); break;
    case I8: case U8: case RAW: memcpy(at, &whole, 1); break;
    case I16: case U16: memcpy(at, &whole, 2); break;
    case I32: case U32: memcpy(at, &whole, 4); break;
    case I64: memcpy(at, &whole, 8); break;
    case U64: { uint64_t v = (uint64_t)number; memcpy(at, &v, sizeof v); break; }
    }
}

/* Whole numbers: all of the small types; of the wide signed ones a range whose sums do not overflow. */
static void whole_range(const Array *array, double *low, double *high) {
    static const double LOW[] = {0, 0, -128, -32768, -32768, -0x1p31, 0, 0, 0, 0, 0};
    static const double HIGH[] = {0, 0, 128, 32768, 32768, 0x1p31, 256, 65536, 0x1p32, 0x1p53, 256};
    *low = array->values == RANGE ? array->low : LOW[array->kind];
    *high = array->values == RANGE ? array->high : HIGH[array->kind];
}

static double real_number(const Array *array, Mix mix, uint64_t *rng) {
    if (array->values == RANGE) {
        return mix == EXTREMES ? (draw(rng) & 1 ? array->low : array->high)
                               : array->low + (array->high - array->low) * uniform(rng);
    }
    switch (mix) {
    case ZEROS: return draw(rng) & 1 ? 0.0 : -0.0;
    case EXTREMES: return normal(rng) * exp2(40.0 * uniform(rng) - 20.0);
    case SUBNORMAL: return normal(rng) * (array->kind == F32 ? 0x1p-140 : 0x1p-1060);
    default: return normal(rng);
    }
}

static double whole_number(const Array *array, Mix mix, uint64_t *rng) {
    double low, high;
    whole_range(array, &low, &high);
    if (mix == ZEROS) {
        return low > 0.0 ? low : 0.0;
    }
    if (mix == EXTREMES) {
        return draw(rng) & 1 ? low : high - 1.0;
    }
    return floor(low + (high - low) * uniform(rng));
}

static int has_letters(const Array *array) {
    return (array->values == ANY || array->values == TEXT) && (array->ranges != NULL || array->letters != NULL);
}

/* One of the characters of the ranges, or of `all`; where there are no ranges every other one is any byte. */
static double letter_of(const Array *array, int all, uint64_t *rng) {
    size_t ranged = array->ranges ? strlen(array->ranges) : 0, others = array->letters ? strlen(array->letters) : 0;
    if (ranged == 0 && draw(rng) & 1) {
        return 1.0 + (double)(draw(rng) % 255);
    }
    size_t at = (size_t)(draw(rng) % (all || ranged == 0 ? ranged + others : ranged));
    return (unsigned char)(at < ranged ? array->ranges[at] : array->letters[at - ranged]);
}

static UNUSED double number_of(const Array *array, Mix mix, uint64_t *rng) {
    if (mix == ORDINARY && LETTERS_TIMED && has_letters(array)) {
        return letter_of(array, 0, rng);
    }
    if (array->values == TEXT) {
        return mix == ZEROS ? 'a'
               : mix == EXTREMES || mix == BYTES ? 1.0 + floor(255.0 * uniform(rng))
                                                 : 'a' + floor(26.0 * uniform(rng));
    }
    return array->kind <= F64 ? real_number(array, mix, rng) : whole_number(array, mix, rng);
}

/* One number that no order of additions can hide, at a random place. */
static void plant(const Array *array, char *data, int64_t count, Mix mix, uint64_t *rng) {
    if (array->kind <= F64 && array->values == ANY && count > 0 && (mix == NOT_A_NUMBER || mix == INFINITE)) {
        set_number(array->kind, data + (draw(rng) % (uint64_t)count) * array->bytes, mix == INFINITE ? INFINITY : NAN);
    }
}

/* Characters alone, with one wrong byte, or with one or two of those that stand in no range at the end. */
static void fill_letters(const Array *array, char *data, int64_t count, uint64_t *rng) {
    int all = (int)(draw(rng) & 1), how = (int)(draw(rng) % 3);
    int64_t last = count - 1 - (array->values == TEXT);
    for (int64_t i = 0; i < count; i++) {
        data[i] = (char)(unsigned char)letter_of(array, all, rng);
    }
    if (how == 1 && last >= 0) {
        data[draw(rng) % (uint64_t)(last + 1)] = (char)(1 + draw(rng) % 255);
    }
    for (int64_t i = last; how == 2 && array->letters != NULL && i >= 0 && i >= last - (int64_t)(draw(rng) & 1); i--) {
        data[i] = array->letters[draw(rng) % strlen(array->letters)];
    }
}

static UNUSED void fill(const Array *array, char *data, const int64_t *sizes, Mix mix, uint64_t *rng) {
    int64_t count = array->elements(sizes);
    if (array->values == OWN) {
        fill_own(array, data, sizes, mix, rng);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        set_number(array->kind, data + (size_t)i * array->bytes, number_of(array, mix, rng));
    }
    if (mix == LETTERS && has_letters(array)) {
        fill_letters(array, data, count, rng);
    }
    plant(array, data, count, mix, rng);
    if (array->values == TEXT && count > 0) {
        data[count - 1] = '\0';
    }
}

static const size_t NUMBER_BYTES[] = {4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};

/* Structs, field by field. */
static UNUSED void fill_fields(const Array *array, char *data, const int64_t *sizes, Mix mix, uint64_t *rng) {
    const Field *fields = array->fields;
    memset(data, 0, (size_t)array->elements(sizes) * array->bytes);
    for (int64_t i = 0; i < array->elements(sizes); i++) {
        for (int f = 0; f < array->field_count; f++) {
            Array field = {.name = array->name, .kind = fields[f].kind, .values = ANY};
            for (int e = 0; e < fields[f].count; e++) {
                char *at = data + (size_t)i * array->bytes + fields[f].offset + (size_t)e * NUMBER_BYTES[field.kind];
                set_number(field.kind, at, number_of(&field, mix, rng));
            }
        }
    }
}

/* Two calls on the same values: what went in, and what each build made of it. */
typedef struct {
    const Shape *shape;
    Mix mix; /* of the values that are in the arrays */
    Buffer now[MAX_ARRAYS];    /* what the build under test gets */
    char *before[MAX_ARRAYS];  /* the values before a call */
    char *right[MAX_ARRAYS];   /* what the original makes of them */
    double *exact[MAX_ARRAYS]; /* the same in double, of F32 arrays; NULL without build/libexact.so */
    double worst[MAX_ARRAYS];  /* how far the original is from `exact` at most, over all elements */
    void *device[MAX_ARRAYS];  /* on a GPU: what the build gets instead of `now` */
} Case;

typedef void (*Call)(void **arrays, const int64_t *sizes);

typedef struct {
    Call call;
    /* Of a build for a GPU; NULL otherwise. time_us makes `calls` calls and returns microseconds by the device. */
    void *(*place)(size_t bytes);
    void (*copy)(void *to, const void *from, size_t bytes, int to_device);
    double (*time_us)(void **arrays, const int64_t *sizes, int calls);
} Build;

static void *symbol_of(void *library, const char *name) { return dlsym(library, name); }

/* A build that is not there is NULL in `call`, and an error where it is needed. */
static UNUSED Build load(const char *file, int needed) {
    Build b = {0};
    if (!needed && access(file, R_OK) != 0) {
        return b;
    }
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "error: %s\n", dlerror());
        exit(2);
    }
    *(void **)&b.call = symbol_of(library, "ridgeline_call");
    *(void **)&b.place = symbol_of(library, "ridgeline_place");
    *(void **)&b.copy = symbol_of(library, "ridgeline_copy");
    *(void **)&b.time_us = symbol_of(library, "ridgeline_time_us");
    void (*prepare)(void);
    *(void **)&prepare = symbol_of(library, "ridgeline_prepare");
    if (b.call == NULL || prepare == NULL) {
        fprintf(stderr, "error: %s has no ridgeline_call\n", file);
        exit(2);
    }
    prepare();
    return b;
}

static UNUSED size_t bytes_of(const Case *c, int i) {
    return (size_t)ARRAYS[i].elements(c->shape->sizes) * ARRAYS[i].bytes;
}

static UNUSED Case case_open(const Shape *shape, Placement placement, const Build *build, uint64_t *rng) {
    Case c = {.shape = shape};
    for (int i = 0; i < ARRAY_COUNT; i++) {
        size_t bytes = bytes_of(&c, i);
        c.now[i] = buffer_open(bytes, placement, i, (unsigned char)(draw(rng) | 1));
        c.before[i] = malloc(bytes + 1);
        c.right[i] = malloc(bytes + 1);
        c.exact[i] = malloc((size_t)ARRAYS[i].elements(shape->sizes) * 8 + 8);
        c.device[i] = build->place ? build->place(bytes) : NULL;
        if (!c.before[i] || !c.right[i] || !c.exact[i]) {
            die("no memory for the arrays; give smaller shapes");
        }
    }
    return c;
}

static UNUSED void case_close(Case *c) {
    for (int i = 0; i < ARRAY_COUNT; i++) {
        buffer_close(&c->now[i]);
        free(c->before[i]);
        free(c->right[i]);
        free(c->exact[i]);
    }
}

/* One of the arrays of floats that go in, or -1: subnormal numbers in two of them would multiply to nothing. */
static int pick_real(uint64_t *rng) {
    int listed[MAX_ARRAYS], count = 0;
    for (int i = 0; i < ARRAY_COUNT; i++) {
        if (ARRAYS[i].kind <= F64 && ARRAYS[i].role != OUTPUT) {
            listed[count++] = i;
        }
    }
    return count ? listed[draw(rng) % (uint64_t)count] : -1;
}

/* New values in all arrays, outputs too: a right answer overwrites them. */
static UNUSED void case_fill(Case *c, Mix mix, uint64_t *rng) {
    int chosen = pick_real(rng);
    c->mix = mix;
    for (int i = 0; i < ARRAY_COUNT; i++) {
        int is_usual = ARRAYS[i].role == OUTPUT || (mix == SUBNORMAL && i != chosen);
        fill(&ARRAYS[i], c->before[i], c->shape->sizes, is_usual ? ORDINARY : mix, rng);
        memcpy(c->now[i].data, c->before[i], c->now[i].bytes);
    }
}

/* Gives what may have changed its values from before the call. */
static UNUSED void restore(Case *c) {
    for (int i = 0; i < ARRAY_COUNT; i++) {
        if (ARRAYS[i].role == INOUT) {
            memcpy(c->now[i].data, c->before[i], c->now[i].bytes);
        }
    }
}

static UNUSED int has_inout(void) {
    for (int i = 0; i < ARRAY_COUNT; i++) {
        if (ARRAYS[i].role == INOUT) {
            return 1;
        }
    }
    return 0;
}

static UNUSED void to_device(const Build *build, Case *c) {
    for (int i = 0; i < ARRAY_COUNT; i++) {
        build->copy(c->device[i], c->now[i].data, c->now[i].bytes, 1);
    }
}

static UNUSED void run(const Build *build, Case *c) {
    void *arrays[MAX_ARRAYS];
    for (int i = 0; i < ARRAY_COUNT; i++) {
        arrays[i] = build->place ? c->device[i] : c->now[i].data;
    }
    if (build->place) {
        to_device(build, c);
    }
    build->call(arrays, c->shape->sizes);
    for (int i = 0; build->place && i < ARRAY_COUNT; i++) {
        build->copy(c->now[i].data, c->device[i], c->now[i].bytes, 0);
    }
}

/* What the original and the double version make of values, which are used up: in `right` and `exact`. */
static void solve_once(Case *c, char **values, const Build *original, const Build *exact) {
    void *wide[MAX_ARRAYS];
    for (int i = 0; i < ARRAY_COUNT; i++) {
        memcpy(c->now[i].data, values[i], c->now[i].bytes);
        wide[i] = ARRAYS[i].kind == F32 ? (void *)c->exact[i] : values[i];
        for (int64_t e = 0; ARRAYS[i].kind == F32 && e < ARRAYS[i].elements(c->shape->sizes); e++) {
            c->exact[i][e] = get_number(F32, values[i] + (size_t)e * 4);
        }
    }
    run(original, c);
    for (int i = 0; i < ARRAY_COUNT; i++) {
        memcpy(c->right[i], c->now[i].data, c->now[i].bytes);
    }
    if (exact->call == NULL) {
        return;
    }
    exact->call(wide, c->shape->sizes);
    for (int i = 0; i < ARRAY_COUNT; i++) {
        for (int64_t e = 0; ARRAYS[i].kind == F32 && e < ARRAYS[i].elements(c->shape->sizes); e++) {
            double off = fabs(get_number(F32, c->right[i] + (size_t)e * 4) - c->exact[i][e]);
            c->worst[i] = isfinite(off) && off > c->worst[i] ? off : c->worst[i];
        }
    }
}

/* Whether so few numbers come out that one of them may be right by luck, and say nothing of rounding. */
static int has_few_results(const Case *c) {
    int64_t count = 0;
    for (int i = 0; i < ARRAY_COUNT; i++) {
        count += ARRAYS[i].role == INPUT ? 0 : ARRAYS[i].elements(c->shape->sizes);
    }
    return count < 64;
}

/* Another rounding of the same problem: the values again, each float moved by its last digits. Where no float goes in,
 * other values of the same kind. */
static void nudge(char *to, const char *from, const Case *c, int i, int has_floats, uint64_t *rng) {
    int64_t count = ARRAYS[i].elements(c->shape->sizes);
    memcpy(to, from, (size_t)count * ARRAYS[i].bytes);
    if (!has_floats && ARRAYS[i].role != OUTPUT) {
        fill(&ARRAYS[i], to, c->shape->sizes, c->mix, rng);
    }
    for (int64_t e = 0; ARRAYS[i].kind == F32 && e < count; e++) {
        double number = get_number(F32, from + (size_t)e * 4);
        set_number(F32, to + (size_t)e * 4, number * (1.0 + (uniform(rng) - 0.5) * 0x1p-20));
    }
}

#define NUDGES 15
#define NUDGES_US 2e5 /* a slow function gets fewer of them */

/* What the original makes of the present values, in `right`; leaves `now` as it was. */
static UNUSED void case_solve(Case *c, const Build *original, const Build *exact) {
    char *start[MAX_ARRAYS], *values[MAX_ARRAYS];
    uint64_t rng = 1;
    int has_floats = pick_real(&rng) >= 0;
    double until = now_us() + NUDGES_US;
    for (int i = 0; i < ARRAY_COUNT; i++) {
        c->worst[i] = 0.0;
        start[i] = malloc(c->now[i].bytes + 1);
        values[i] = malloc(c->now[i].bytes + 1);
        if (!start[i] || !values[i]) {
            die("no memory for the arrays; give smaller shapes");
        }
        memcpy(start[i], c->now[i].data, c->now[i].bytes);
    }
    for (int n = 0; exact->call != NULL && has_few_results(c) && n < NUDGES && (n < 3 || now_us() < until); n++) {
        for (int i = 0; i < ARRAY_COUNT; i++) {
            nudge(values[i], start[i], c, i, has_floats, &rng);
        }
        solve_once(c, values, original, exact);
    }
    for (int i = 0; i < ARRAY_COUNT; i++) {
        memcpy(values[i], start[i], c->now[i].bytes);
    }
    solve_once(c, values, original, exact);
    for (int i = 0; i < ARRAY_COUNT; i++) {
        memcpy(c->now[i].data, start[i], c->now[i].bytes);
        free(start[i]);
        free(values[i]);
    }
}

/* How far a number may be from the right one: what the original itself is off from double, four times; without double
 * TOLERANCE of the number and of the root mean square of its array. */
static double allowed(const Case *c, int i, double right, double scale, int exact) {
    double unit = ARRAYS[i].kind == F32 ? 0x1p-24 : 0x1p-53, least = ARRAYS[i].kind == F32 ? 0x1p-146 : 0x1p-1071;
    return exact ? 4.0 * c->worst[i] + 16.0 * unit * fabs(right) + least : TOLERANCE * (fabs(right) + scale) + least;
}

/* What is wrong in one array: the first element that differs, what it is and what it should be, and how many differ. */
typedef struct {
    int array;
    int64_t index, differ;
    int byte; /* of a struct, where the number begins; -1 where elements are numbers */
    char got[40], expected[40], why[96];
} Difference;

/* A number with as few digits as tell it from its neighbours; a byte of which nothing is known as it is stored. */
static void write_number(char *text, size_t room, Kind kind, const char *at) {
    double number = get_number(kind, at);
    int64_t whole = 0;
    switch (kind) {
    case F32:
    case F64:
        for (int digits = kind == F32 ? 6 : 15; digits <= (kind == F32 ? 9 : 17); digits++) {
            snprintf(text, room, "%.*g", digits, number);
            if (kind == F32 ? strtof(text, NULL) == (float)number : strtod(text, NULL) == number) {
                break;
            }
        }
        if (isnan(number)) {
            snprintf(text, room, "nan");
        }
        break;
    case I64: case U64:
        memcpy(&whole, at, sizeof whole);
        snprintf(text, room, kind == I64 ? "%lld" : "%llu", (long long)whole);
        break;
    case RAW: snprintf(text, room, "0x%02x", *(const unsigned char *)at); break;
    default: snprintf(text, room, "%.0f", number);
    }
}

/* Counts an element that differs, and keeps it when it is the first. */
static void note_difference(Difference *d, int i, int64_t index, const char *got, const char *expected, const char *why) {
    const Array *array = &ARRAYS[i];
    size_t at = 0;
    Kind kind = array->kind;
    if (d->differ++) {
        return;
    }
    d->array = i;
    d->index = index;
    d->byte = -1;
    snprintf(d->why, sizeof d->why, "%s", why);
    if (kind == RAW) {
        while (at + 1 < array->bytes && got[at] == expected[at]) {
            at++;
        }
        for (int f = 0; f < array->field_count; f++) {
            const Field *field = &array->fields[f];
            size_t each = NUMBER_BYTES[field->kind];
            if (at >= field->offset && at < field->offset + (size_t)field->count * each) {
                at = field->offset + (at - field->offset) / each * each;
                kind = field->kind;
                break;
            }
        }
        d->byte = (int)at;
    }
    write_number(d->got, sizeof d->got, kind, got + at);
    write_number(d->expected, sizeof d->expected, kind, expected + at);
}

static void note_outside(Difference *d, int i, const Buffer *b, const char *at) {
    int before = at < b->data;
    *d = (Difference){.array = i};
    snprintf(d->why, sizeof d->why, "something was written outside the array, at byte %lld %s",
             (long long)(before ? b->data - at : at - (b->data + b->bytes) + 1), before ? "before its start" : "behind its end");
}

/* The rest of a line of MISMATCH: array, index, got, expected, how many of how many differ, and why. */
static UNUSED void print_difference(const Difference *d, const Shape *shape) {
    const Array *array = &ARRAYS[d->array];
    printf(" array=%s", array->name);
    if (d->differ) {
        int inner = array->inner > 1 ? array->inner : 1;
        printf(" index=%lld", (long long)(d->index / inner));
        if (inner > 1) {
            printf(",%lld", (long long)(d->index % inner));
        }
        if (d->byte >= 0) {
            printf(" byte=%d", d->byte);
        }
        printf(" got=%s expected=%s", d->got, d->expected);
        printf(" differ=%lld/%lld", (long long)d->differ, (long long)array->elements(shape->sizes));
    }
    printf(": %s\n", d->why);
}

static void compare_real(const Case *c, int i, int exact, Difference *d, double *error) {
    int64_t count = ARRAYS[i].elements(c->shape->sizes);
    double squares = 0.0;
    for (int64_t e = 0; e < count; e++) {
        double right = get_number(ARRAYS[i].kind, c->right[i] + (size_t)e * ARRAYS[i].bytes);
        squares += isfinite(right) ? right * right / (double)count : 0.0;
    }
    for (int64_t e = 0; e < count; e++) {
        const char *expected = c->right[i] + (size_t)e * ARRAYS[i].bytes, *got = c->now[i].data + (size_t)e * ARRAYS[i].bytes;
        double right = get_number(ARRAYS[i].kind, expected), value = get_number(ARRAYS[i].kind, got);
        if (isnan(right) || isnan(value)) {
            if (isnan(right) != isnan(value)) {
                note_difference(d, i, e, got, expected,
                                isnan(right) ? "the original gives NaN there" : "NaN where the original gives a number");
            }
            continue;
        }
        double aim = exact && isfinite(right) && isfinite(c->exact[i][e]) ? c->exact[i][e] : right;
        double off = value == right ? 0.0 : fabs(value - aim);
        double ratio = off / allowed(c, i, right, sqrt(squares), exact);
        *error = ratio > *error ? ratio : *error;
        if (!(ratio <= 1.0)) {
            note_difference(d, i, e, got, expected, "a number is further from the right one than rounding explains");
        }
    }
}

static void compare_bytes(const Case *c, int i, const char *expected, const char *why, Difference *d) {
    size_t bytes = ARRAYS[i].bytes;
    if (memcmp(c->now[i].data, expected, c->now[i].bytes) == 0) {
        return;
    }
    for (int64_t e = 0; e < ARRAYS[i].elements(c->shape->sizes); e++) {
        size_t at = (size_t)e * bytes;
        if (memcmp(c->now[i].data + at, expected + at, bytes) != 0) {
            note_difference(d, i, e, c->now[i].data + at, expected + at, why);
        }
    }
}

/* 1 when `now` is what the original gave, else 0, and how it differs. `error`: the largest in units of what is allowed. */
static UNUSED int case_compare(const Case *c, const Build *exact, Difference *d, double *error) {
    *d = (Difference){0};
    for (int i = 0; i < ARRAY_COUNT; i++) {
        const char *spoilt = buffer_spoilt(&c->now[i]);
        if (spoilt != NULL) {
            note_outside(d, i, &c->now[i], spoilt);
            return 0;
        }
        if (ARRAYS[i].role == INPUT) {
            compare_bytes(c, i, c->before[i], "an input was changed", d);
        } else if (ARRAYS[i].kind > F64) {
            compare_bytes(c, i, c->right[i], "differs from the original", d);
        } else {
            compare_real(c, i, exact->call != NULL && ARRAYS[i].kind == F32, d, error);
        }
        if (d->differ) {
            return 0;
        }
    }
    return 1;
}

#endif
