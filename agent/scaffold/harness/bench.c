/* Times a build, or two builds against each other. One thread; where it runs is the caller's choice (taskset).
 *
 *   build/bench --csv FILE [--shapes a,b]                                        one row per shape
 *   build/bench --pair A_DIR B_DIR --csv FILE --shapes a,b --blocks N --seed S   one row per timed slot
 *   build/bench --profile LABEL                                                  a few calls, for a profiler
 *
 * Exits 1 when a timed call of --pair gave a wrong answer, 2 when it cannot run. */
#include <sys/resource.h>

#include "harness.h"

#define LEAST_SAMPLES 7
#define MOST_SAMPLES 101
#define TRIES 6
#define PATIENCE 3.0   /* a measurement on a busy machine may take this many times what it takes on an idle one */
#define SAMPLE_US 500.0 /* a longer one hardly ever ends before a busy machine gives the core to another process */
#define SHAPE_US 56e3   /* all samples of a shape, where LEAST_SAMPLES do not take longer */
#define VISIT_US 100.0 /* one side of --pair: longer visits meet different clocks */
#define BLOCK_US 50e3  /* one block of one shape */
#define MOST_PASSES 401
#define PROFILED_CALLS 3
#define CHECK_US 5e3 /* calls after a visit that are held against the original, at least one */
#define MOST_CHECKS 32
#define SETS_BYTES (256 << 10) /* arrays of the calls of one visit, each with its own: they lie in a second cache */
#define MOST_SETS 2048
#define POOL_BYTES ((size_t)1 << 20) /* of values that were drawn once, of which calls get slices; of a larger array a part is new */
#define PART_BYTES ((size_t)1 << 12)
#define PROFILED_POOL_BYTES ((size_t)1 << 14) /* of a few calls, where a simulator draws a hundred times as slowly; no less than a part */

typedef struct {
    const char *csv, *shapes, *profile, *dirs[2];
    int blocks;
    uint64_t seed;
} Options;

typedef struct {
    double us[4], ratio; /* per call, in the order they ran; sum of ln(b) less sum of ln(a) */
    int first, shared;   /* side of the slots 0 and 3; whether another process took the core during any of them */
} Pass;

/* Arrays of several calls, one behind the other. One set, of large arrays and on a GPU, is the case's own. */
typedef struct {
    int count;
    size_t stride[MAX_ARRAYS], pool_bytes[MAX_ARRAYS];
    Buffer now[MAX_ARRAYS];   /* of all sets */
    char *before[MAX_ARRAYS]; /* what each holds before a call, in the same order */
    char *pool[MAX_ARRAYS];   /* values that sets get slices of */
} Sets;

static Build original, exact;
static Sets sets;
static size_t pool_bytes = POOL_BYTES;
static double retry_until; /* on the clock of now_us */
static int shared;         /* another process took the core during the last visit */
static Difference wrong;   /* of the last call that was not right */

static int selected(const Options *o, const char *label) {
    if (o->shapes == NULL || strcmp(o->shapes, "all") == 0) {
        return 1;
    }
    size_t len = strlen(label);
    for (const char *at = o->shapes; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, label, len) == 0 && (at[len] == ',' || at[len] == '\0')) {
            return 1;
        }
    }
    return 0;
}

static long interruptions(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

static char *now_of(int i, int set) { return sets.now[i].data + (size_t)set * sets.stride[i]; }

static char *before_of(int i, int set) { return sets.before[i] + (size_t)set * sets.stride[i]; }

static int is_sliced(const Case *c, int i) {
    return ARRAYS[i].role != OUTPUT && ARRAYS[i].values != OWN && bytes_of(c, i) > 0;
}

/* Gives a set values that no call had before: a processor learns no branches of them, and an answer remembered from an
 * earlier call is a wrong one. */
static void renew(const Case *c, int set, uint64_t *rng) {
    for (int i = 0; i < ARRAY_COUNT; i++) {
        size_t bytes = bytes_of(c, i), part = bytes > POOL_BYTES ? PART_BYTES : bytes, each = ARRAYS[i].bytes;
        char *now = now_of(i, set), *before = before_of(i, set);
        if (is_sliced(c, i)) {
            part = part / each * each;
            size_t at = draw(rng) % ((bytes - part) / each + 1) * each;
            size_t from = draw(rng) % ((sets.pool_bytes[i] - part) / each + 1) * each;
            memcpy(before + at, sets.pool[i] + from, part);
            before[bytes - 1] = ARRAYS[i].values == TEXT ? '\0' : before[bytes - 1];
            memcpy(now + at, before + at, part);
            now[bytes - 1] = before[bytes - 1];
        }
        if (ARRAYS[i].values == OWN && ARRAYS[i].role != OUTPUT) {
            fill(&ARRAYS[i], before, c->shape->sizes, ORDINARY, rng);
        }
        if (ARRAYS[i].role == INOUT || (ARRAYS[i].values == OWN && ARRAYS[i].role == INPUT)) {
            memcpy(now, before, bytes);
        }
    }
}

static void call_set(const Build *build, const Case *c, int set) {
    void *arrays[MAX_ARRAYS];
    for (int i = 0; i < ARRAY_COUNT; i++) {
        arrays[i] = now_of(i, set);
    }
    build->call(arrays, c->shape->sizes);
}

/* Values of an array, as many as renew() takes slices of. */
static char *open_pool(const Array *array, size_t bytes, uint64_t *rng) {
    char *pool = malloc(bytes + 1);
    for (size_t at = 0; pool != NULL && at + array->bytes <= bytes; at += array->bytes) {
        set_number(array->kind, pool + at, number_of(array, ORDINARY, rng));
    }
    return pool;
}

static void open_sets(Case *c, const Build *build, uint64_t *rng) {
    size_t together = 64;
    for (int i = 0; i < ARRAY_COUNT; i++) {
        together += (sets.stride[i] = (bytes_of(c, i) + 63) / 64 * 64);
    }
    size_t fit = SETS_BYTES / together;
    sets.count = build->place || fit < 2 ? 1 : fit > MOST_SETS ? MOST_SETS : (int)fit;
    for (int i = 0; i < ARRAY_COUNT; i++) {
        size_t bytes = bytes_of(c, i), all = (size_t)sets.count * sets.stride[i];
        sets.now[i] = sets.count > 1 ? buffer_open(all, CENTRE, i, (unsigned char)(draw(rng) | 1)) : c->now[i];
        sets.before[i] = sets.count > 1 ? malloc(all + 1) : c->before[i];
        sets.pool_bytes[i] = ((bytes > POOL_BYTES ? 0 : bytes) + pool_bytes) / ARRAYS[i].bytes * ARRAYS[i].bytes;
        sets.pool[i] = is_sliced(c, i) ? open_pool(&ARRAYS[i], sets.pool_bytes[i], rng) : NULL;
        if (!sets.before[i] || (is_sliced(c, i) && !sets.pool[i])) {
            die("no memory for the arrays; give smaller shapes");
        }
        for (int set = 0; set < sets.count; set++) {
            fill(&ARRAYS[i], before_of(i, set), c->shape->sizes, ORDINARY, rng);
            memcpy(now_of(i, set), before_of(i, set), bytes);
        }
    }
}

static void close_sets(void) {
    for (int i = 0; i < ARRAY_COUNT; i++) {
        free(sets.pool[i]);
        if (sets.count > 1) {
            buffer_close(&sets.now[i]);
            free(sets.before[i]);
        }
    }
}

/* Microseconds of one call, on values of its own that were put there before the clock ran; on a GPU all have the same.
 * At most as many calls as there are sets. */
static double time_calls(const Build *build, Case *c, int count, uint64_t *rng) {
    int first = (int)(draw(rng) % (uint64_t)sets.count), used = build->time_us ? 1 : count;
    for (int i = 0; i < used; i++) {
        renew(c, (first + i) % sets.count, rng);
    }
    if (build->time_us) {
        void *arrays[MAX_ARRAYS];
        memcpy(arrays, c->device, sizeof arrays);
        to_device(build, c);
        return build->time_us(arrays, c->shape->sizes, count);
    }
    double began = now_us();
    for (int i = 0; i < count; i++) {
        call_set(build, c, (first + i) % sets.count);
    }
    return (now_us() - began) / count;
}

/* When another process took the core meanwhile, it is timed again, at most TRIES times and until retry_until. */
static double visit(const Build *build, Case *c, int count, uint64_t *rng) {
    double us = 0.0;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        long before = interruptions();
        us = time_calls(build, c, count, rng);
        shared = interruptions() != before;
        if (!shared || now_us() > retry_until) {
            break;
        }
    }
    return us > 1e-4 ? us : 1e-4;
}

/* Whether a call right after a visit, in arrays that the visit left behind, is what the original gives. */
static int is_call_right(const Build *build, Case *c, uint64_t *rng) {
    int set = (int)(draw(rng) % (uint64_t)sets.count);
    double error = 0.0;
    renew(c, set, rng);
    for (int i = 0; i < ARRAY_COUNT && sets.count > 1; i++) {
        memcpy(c->before[i], before_of(i, set), c->now[i].bytes);
        memcpy(c->now[i].data, now_of(i, set), c->now[i].bytes);
    }
    case_solve(c, &original, &exact);
    if (sets.count == 1) {
        run(build, c);
        return case_compare(c, &exact, &wrong, &error);
    }
    call_set(build, c, set);
    for (int i = 0; i < ARRAY_COUNT; i++) {
        memcpy(c->now[i].data, now_of(i, set), c->now[i].bytes);
        const char *spoilt = buffer_spoilt(&sets.now[i]);
        if (spoilt != NULL) {
            note_outside(&wrong, i, &sets.now[i], spoilt);
            return 0;
        }
    }
    return case_compare(c, &exact, &wrong, &error);
}

/* The same of as many calls as are quickly checked: what is wrong now and then is seen in some. */
static int is_right(const Build *build, Case *c, uint64_t *rng) {
    double until = now_us() + CHECK_US;
    int right = is_call_right(build, c, rng);
    for (int call = 1; right && call < MOST_CHECKS && now_us() < until; call++) {
        right = is_call_right(build, c, rng);
    }
    return right;
}

static int calls_for(double us, double call_us) {
    double count = us / call_us;
    return count < 1.0 ? 1 : count > 1e6 ? 1000000 : (int)ceil(count);
}

/* Calls of a visit that takes so long; each set is called once. A GPU's calls are many on the same. */
static int visit_calls(const Build *build, double us, double call_us) {
    int count = calls_for(us, call_us);
    return build->time_us || count < sets.count ? count : sets.count;
}

/* Microseconds of one warm call. */
static double one_call_us(const Build *build, Case *c, uint64_t *rng) {
    visit(build, c, 1, rng);
    double once = visit(build, c, 1, rng);
    int more = once < 200.0 ? visit_calls(build, 200.0, once + 0.05) : 1;
    return more > 1 ? visit(build, c, more, rng) : once;
}

static Case open_shape(const Shape *shape, const Build *build, uint64_t *rng) {
    Case c = case_open(shape, CENTRE, build, rng);
    c.mix = ORDINARY;
    open_sets(&c, build, rng);
    retry_until = now_us() + PATIENCE * BLOCK_US;
    return c;
}

static void close_shape(Case *c) {
    close_sets();
    case_close(c);
}

static FILE *open_csv(const Options *o) {
    FILE *out = fopen(o->csv, "w");
    if (out == NULL) {
        die("cannot write the file that --csv names");
    }
    return out;
}

static int run_benchmark(const Options *o) {
    Build build = load(HERE "/build/libkernel.so", 1);
    FILE *out = open_csv(o);
    uint64_t rng = o->seed;
    fprintf(out, "label,");
    for (int i = 0; i < SIZE_COUNT; i++) {
        fprintf(out, "%s,", SIZE_NAMES[i]);
    }
    fprintf(out, "class,Check,Time (ms)\n");
    for (int i = 0; i < COUNT(SHAPES); i++) {
        if (!SHAPES[i].timed || !selected(o, SHAPES[i].label)) {
            continue;
        }
        Case c = open_shape(&SHAPES[i], &build, &rng);
        double us[MOST_SAMPLES], once = one_call_us(&build, &c, &rng);
        int count = visit_calls(&build, SAMPLE_US, once), samples = calls_for(SHAPE_US, count * once);
        samples = samples < LEAST_SAMPLES ? LEAST_SAMPLES : samples > MOST_SAMPLES ? MOST_SAMPLES : samples;
        retry_until = now_us() + PATIENCE * SHAPE_US;
        for (int sample = 0; sample < samples; sample++) {
            us[sample] = visit(&build, &c, count, &rng);
        }
        fprintf(out, "%s,", SHAPES[i].label);
        for (int size = 0; size < SIZE_COUNT; size++) {
            fprintf(out, "%lld,", (long long)SHAPES[i].sizes[size]);
        }
        const char *check = is_right(&build, &c, &rng) ? "PASS" : "FAIL";
        fprintf(out, "%s,%s,%.9f\n", SHAPES[i].config_class, check, median(us, samples) * 1e-3);
        close_shape(&c);
    }
    return fclose(out) ? 2 : 0;
}

static int by_ratio(const void *a, const void *b) { return ascending(&((const Pass *)a)->ratio, &((const Pass *)b)->ratio); }

/* One block: as many short passes A B B A (or B A A B) as fit into BLOCK_US, of which the one with the median ratio is
 * reported: an interruption spoils one pass only. An odd number, so that the median is a pass. */
static Pass block_of(const Build builds[2], Case *c, int count, int passes, uint64_t *rng) {
    static Pass all[MOST_PASSES];
    retry_until = now_us() + PATIENCE * BLOCK_US;
    for (int p = 0; p < passes; p++) {
        all[p] = (Pass){.first = (int)(draw(rng) >> 63)};
        uint64_t values[2] = {draw(rng), draw(rng)}; /* each side is timed with either */
        for (int s = 0; s < 4; s++) {
            int side = s == 0 || s == 3 ? all[p].first : !all[p].first;
            uint64_t own = values[s / 2];
            all[p].us[s] = visit(&builds[side], c, count, &own);
            all[p].shared |= shared;
            all[p].ratio += side ? log(all[p].us[s]) : -log(all[p].us[s]);
        }
        passes = p % 2 == 0 && now_us() > retry_until ? p + 1 : passes;
    }
    qsort(all, (size_t)passes, sizeof *all, by_ratio);
    return all[passes / 2];
}

/* One shape of --pair: both sides see the same values in the same arrays, and make the same number of calls. */
static int pair_shape(const Options *o, const Build builds[2], const Shape *shape, uint64_t *rng, FILE *out) {
    Case c = open_shape(shape, &builds[0], rng);
    double a = one_call_us(&builds[0], &c, rng), b = one_call_us(&builds[1], &c, rng);
    double slower = a > b ? a : b;
    int count = visit_calls(&builds[0], VISIT_US, slower);
    int passes = calls_for(BLOCK_US, 8.0 * count * slower) * 2 - 1;
    passes = passes > MOST_PASSES ? MOST_PASSES : passes;
    for (int block = 0; block < o->blocks; block++) {
        Pass pass = block_of(builds, &c, count, passes, rng);
        for (int s = 0; s < 4; s++) {
            int side = s == 0 || s == 3 ? pass.first : !pass.first;
            fprintf(out, "%s,%d,%d,%c,%.6f,", shape->label, block, s, "ab"[side], pass.us[s]);
            fprintf(out, "%.0f,%d\n", now_us(), pass.shared);
        }
        for (int side = 0; side < 2; side++) {
            if (!is_right(&builds[side], &c, rng)) {
                printf("MISMATCH label=%s block=%d side=%c", shape->label, block, "ab"[side]);
                print_difference(&wrong, shape);
                return 1;
            }
        }
    }
    close_shape(&c);
    return 0;
}

static int run_pair(const Options *o) {
    Build builds[2];
    for (int side = 0; side < 2; side++) {
        char path[4200];
        if (snprintf(path, sizeof path, "%s/" HERE "/build/libkernel.so", o->dirs[side]) >= (int)sizeof path) {
            die("a folder's name is too long");
        }
        builds[side] = load(path, 1);
    }
    FILE *out = open_csv(o);
    uint64_t rng = o->seed;
    fprintf(out, "label,block,slot,side,time_us,at_us,shared\n");
    for (int i = 0; i < COUNT(SHAPES); i++) {
        if (SHAPES[i].timed && selected(o, SHAPES[i].label) && pair_shape(o, builds, &SHAPES[i], &rng, out)) {
            fclose(out);
            return 1;
        }
    }
    return fclose(out) ? 2 : 0;
}

static int run_profile(const Options *o) {
    Build build = load(HERE "/build/libkernel.so", 1);
    uint64_t rng = o->seed;
    pool_bytes = PROFILED_POOL_BYTES;
    for (int i = 0; i < COUNT(SHAPES); i++) {
        if (strcmp(o->profile, SHAPES[i].label) == 0) {
            Case c = open_shape(&SHAPES[i], &build, &rng);
            run(&build, &c);
            retry_until = 0.0; /* the calls that a profiler counts are the calls that are timed */
            double least = INFINITY; /* of so few calls another process may slow one down by far; a card keeps its own time */
            int at_once = build.time_us ? PROFILED_CALLS : 1;
            for (int call = 0; call < PROFILED_CALLS; call += at_once) {
                double us = visit(&build, &c, at_once, &rng);
                least = us < least ? us : least;
            }
            printf("calls=%d\nkernel_time_us=%.3f\n", PROFILED_CALLS, least);
            close_shape(&c);
            return 0;
        }
    }
    die("no shape has the label that --profile names");
    return 2;
}

static void read_options(Options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        int left = argc - i - 1;
        if (left >= 1 && strcmp(argv[i], "--csv") == 0) {
            o->csv = argv[++i];
        } else if (left >= 1 && strcmp(argv[i], "--shapes") == 0) {
            o->shapes = argv[++i];
        } else if (left >= 1 && strcmp(argv[i], "--blocks") == 0) {
            o->blocks = atoi(argv[++i]);
        } else if (left >= 1 && strcmp(argv[i], "--seed") == 0) {
            o->seed = strtoull(argv[++i], NULL, 10);
        } else if (left >= 1 && strcmp(argv[i], "--profile") == 0) {
            o->profile = argv[++i];
        } else if (left >= 2 && strcmp(argv[i], "--pair") == 0) {
            o->dirs[0] = argv[++i];
            o->dirs[1] = argv[++i];
        } else {
            fprintf(stderr, "error: %s is unknown or lacks its value; see the head of bench.c\n", argv[i]);
            exit(2);
        }
    }
}

int main(int argc, char **argv) {
    Options o = {.blocks = 5, .seed = (uint64_t)getpid() ^ (uint64_t)now_us()};
    read_options(&o, argc, argv);
    original = load(HERE "/build/liboriginal.so", 1);
    exact = load(HERE "/build/libexact.so", 0);
    if (o.profile != NULL) {
        return run_profile(&o);
    }
    if (o.csv == NULL) {
        die("--csv FILE is missing");
    }
    return o.dirs[0] != NULL ? run_pair(&o) : run_benchmark(&o);
}
