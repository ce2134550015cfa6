/* Times a build, or two builds against each other. One thread; where it runs is the caller's choice (taskset).
 * The same file serves each task; problem.h says what is measured.
 *
 *   build/bench --csv FILE [--shapes a,b] [--iters-ms MS]                    one row per shape
 *   build/bench --pair A_DIR B_DIR --csv FILE --shapes a,b --blocks N --seed S   one row per timed slot
 *   build/bench --profile LABEL                                              a few calls, for a profiler
 *
 * Exits 1 when a timed call of --pair gave a wrong answer, 2 when it cannot run. */
#include <sys/resource.h>

#include "case.h"

#define SAMPLES 7
#define PIECES 3 /* of a sample */
#define TRIES 6
#define PATIENCE 3.0 /* a measurement on a busy machine may take this many times what it takes on an idle one */
#define VISIT_US 100.0  /* one side of --pair, the slower one: longer visits meet different clocks */
#define BLOCK_US 50e3   /* one block of one shape */
#define MOST_PASSES 401
#define PROFILED_CALLS 3

typedef struct {
    const char *csv, *shapes, *profile, *dirs[2];
    int blocks;
    double budget_us; /* per shape, in --csv mode */
    uint64_t seed;
} Options;

typedef struct {
    double us[4]; /* per call, in the order they ran */
    double ratio; /* sum of ln(b) less sum of ln(a) */
    int first, shared; /* side of the slots 0 and 3; whether another process took the core during any of them */
} Pass;

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

static double retry_until; /* on the clock of now_us */
static int shared;         /* another process took the core during the last visit */

static long interruptions(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/* Mean microseconds of one call over `calls` of them; each gets an input that no call had before. When another process
 * took the core meanwhile, that was no measurement: it is made again, at most TRIES times and until retry_until. */
static double visit(Symbol kernel, Case *c, int calls, uint64_t *step) {
    double us = 0.0;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        long before = interruptions();
        double start = now_us();
        for (int i = 0; i < calls; i++) {
            touch(c, (*step)++);
            call(kernel, c);
        }
        us = (now_us() - start) / calls;
        shared = interruptions() != before;
        if (!shared || now_us() > retry_until) {
            break;
        }
    }
    return us;
}

/* A visit after which the row that the last call's new input changed, and another, must be right. Before it every output
 * is moved by one: wrong if it stays, yet nothing by which a kernel could know a judged visit from any other. */
static double judged_visit(Symbol kernel, Case *c, int calls, uint64_t *step, int *wrong) {
    for (size_t i = 0; i < c->out.len; i++) {
        c->out.data[i] += 1.0f;
    }
    double us = visit(kernel, c, calls, step);
    double total[2] = {0.0, 0.0};
    int last = touch(c, *step - 1);
    int other = (int)(*step % (uint64_t)rows_of(c->shape));
    *wrong |= !(row_error(c, last, total) <= 1.0) || !(row_error(c, other, total) <= 1.0);
    return us;
}

static Case filled_case(const Shape *shape, uint64_t *rng) {
    Case c = case_open(shape, CENTRE, rng);
    fill(&c, 0, rng);
    retry_until = now_us() + PATIENCE * BLOCK_US;
    return c;
}

/* Microseconds of one warm call. */
static double one_call_us(Symbol kernel, Case *c, uint64_t *step) {
    visit(kernel, c, 1, step);
    double once = visit(kernel, c, 1, step);
    int more = once < 200.0 ? (int)(200.0 / (once + 0.05)) + 1 : 0;
    return more > 1 ? visit(kernel, c, more, step) : once;
}

static int calls_for(double us, double call_us) {
    double calls = us / call_us;
    return calls < 1.0 ? 1 : calls > 1e6 ? 1000000 : (int)ceil(calls);
}

/* The median of PIECES visits, the last of them judged. */
static double sample_of(Symbol kernel, Case *c, int calls, uint64_t *step, int *wrong) {
    double us[PIECES];
    for (int i = 0; i < PIECES; i++) {
        us[i] = i + 1 < PIECES ? visit(kernel, c, calls, step) : judged_visit(kernel, c, calls, step, wrong);
    }
    return median(us, PIECES);
}

static FILE *open_csv(const Options *o) {
    FILE *out = fopen(o->csv, "w");
    if (out == NULL) {
        die("cannot write the file that --csv names");
    }
    return out;
}

static void write_row(FILE *out, const Shape *s, const double *us, const char *check) {
    double rates[SAMPLES], times[SAMPLES], mean = 0.0, spread = 0.0;
    for (int i = 0; i < SAMPLES; i++) {
        rates[i] = work_of(s) / (us[i] * 1e-6);
        times[i] = us[i];
        mean += rates[i] / SAMPLES;
    }
    for (int i = 0; i < SAMPLES; i++) {
        spread += (rates[i] - mean) * (rates[i] - mean) / (SAMPLES - 1);
    }
    fprintf(out, "%s", s->label);
    for (int i = 0; i < DIMENSIONS; i++) {
        fprintf(out, ",%d", s->d[i]);
    }
    double rate = median(rates, SAMPLES);
    fprintf(out, ",%s,%.4f,%.4f,%.6f,%s\n", check, rate, sqrt(spread), median(times, SAMPLES) * 1e-3, s->regime);
}

static int run_benchmark(const Options *o) {
    Symbol kernel = load("build/libkernel.so", KERNEL);
    FILE *out = open_csv(o);
    uint64_t rng = o->seed;
    fprintf(out, "label," DIMENSION_NAMES ",Check,Forward " METRIC ",Forward " METRIC "_stddev,Forward Time (ms),regime\n");
    for (int i = 0; i < COUNT(BENCHED); i++) {
        if (!selected(o, BENCHED[i].label)) {
            continue;
        }
        Case c = filled_case(&BENCHED[i], &rng);
        double us[SAMPLES];
        int wrong = 0;
        retry_until = now_us() + PATIENCE * o->budget_us;
        int calls = calls_for(o->budget_us / (SAMPLES * PIECES), one_call_us(kernel, &c, &rng));
        for (int sample = 0; sample < SAMPLES; sample++) {
            us[sample] = sample_of(kernel, &c, calls, &rng, &wrong);
        }
        write_row(out, &BENCHED[i], us, wrong ? "FAIL" : "PASS");
        case_close(&c);
    }
    return fclose(out) ? 2 : 0;
}

static int by_ratio(const void *a, const void *b) {
    return ascending(&((const Pass *)a)->ratio, &((const Pass *)b)->ratio);
}

/* One block: as many short passes A B B A (or B A A B) as fit into BLOCK_US, of which the one with the median ratio is
 * reported. The processor's clock changes within tens of milliseconds, so short passes compare like with like, and an
 * interruption spoils one pass only. An odd number, so that the median is a pass. */
static Pass block_of(const Symbol kernels[2], Case *c, int calls, int passes, uint64_t *rng, int *wrong) {
    static Pass all[MOST_PASSES];
    int judged = (int)(draw(rng) % (uint64_t)passes);
    retry_until = now_us() + PATIENCE * BLOCK_US;
    for (int p = 0; p < passes; p++) {
        all[p] = (Pass){.first = (int)(draw(rng) >> 63)};
        uint64_t step = draw(rng);
        double log_ratio = 0.0;
        for (int s = 0; s < 4; s++) {
            int side = s == 0 || s == 3 ? all[p].first : !all[p].first;
            all[p].us[s] = p == judged && s >= 2 ? judged_visit(kernels[side], c, calls, &step, wrong)
                                                     : visit(kernels[side], c, calls, &step);
            all[p].shared |= shared;
            log_ratio += side ? log(all[p].us[s]) : -log(all[p].us[s]);
        }
        all[p].ratio = log_ratio;
        passes = p % 2 == 0 && p >= judged && now_us() > retry_until ? p + 1 : passes;
    }
    qsort(all, (size_t)passes, sizeof *all, by_ratio);
    return all[passes / 2];
}

/* One shape of --pair: both sides see the same inputs in the same arrays, and make the same number of calls. */
static int pair_shape(const Options *o, const Symbol kernels[2], const Shape *shape, uint64_t *rng, FILE *out) {
    Case c = filled_case(shape, rng);
    int wrong = 0;
    double a = one_call_us(kernels[0], &c, rng);
    double b = one_call_us(kernels[1], &c, rng);
    double slower = a > b ? a : b;
    int calls = calls_for(VISIT_US, slower);
    int passes = calls_for(BLOCK_US, 8.0 * calls * slower) * 2 - 1;
    passes = passes > MOST_PASSES ? MOST_PASSES : passes;
    for (int block = 0; block < o->blocks; block++) {
        Pass pass = block_of(kernels, &c, calls, passes, rng, &wrong);
        for (int s = 0; s < 4; s++) {
            int side = s == 0 || s == 3 ? pass.first : !pass.first;
            fprintf(out, "%s,%d,%d,%c,%.6f,", shape->label, block, s, "ab"[side], pass.us[s]);
            fprintf(out, "%.0f,%d\n", now_us(), pass.shared);
        }
        if (wrong) {
            printf("MISMATCH label=%s rel_err=inf block=%d: a timed call gave a wrong answer\n", shape->label, block);
            return 1;
        }
    }
    case_close(&c);
    return 0;
}

static int run_pair(const Options *o) {
    Symbol kernels[2];
    for (int side = 0; side < 2; side++) {
        char path[4200];
        if (snprintf(path, sizeof path, "%s/build/libkernel.so", o->dirs[side]) >= (int)sizeof path) {
            die("a folder's name is too long");
        }
        kernels[side] = load(path, KERNEL);
    }
    FILE *out = open_csv(o);
    uint64_t rng = o->seed;
    fprintf(out, "label,block,slot,side,time_us,at_us,shared\n");
    for (int i = 0; i < COUNT(BENCHED); i++) {
        if (selected(o, BENCHED[i].label) && pair_shape(o, kernels, &BENCHED[i], &rng, out)) {
            fclose(out);
            return 1;
        }
    }
    return fclose(out) ? 2 : 0;
}

static int run_profile(const Options *o) {
    Symbol kernel = load("build/libkernel.so", KERNEL);
    uint64_t rng = o->seed;
    for (int i = 0; i < COUNT(BENCHED); i++) {
        if (strcmp(o->profile, BENCHED[i].label) == 0) {
            Case c = filled_case(&BENCHED[i], &rng);
            call(kernel, &c);
            retry_until = 0.0; /* the calls that a profiler counts are the calls that are told */
            double us = visit(kernel, &c, PROFILED_CALLS, &rng);
            printf("calls=%d\nkernel_time_us=%.3f\n", PROFILED_CALLS, us);
            case_close(&c);
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
        } else if (left >= 1 && strcmp(argv[i], "--iters-ms") == 0) {
            o->budget_us = 1e3 * atof(argv[++i]);
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
    Options o = {.blocks = 5, .budget_us = 60e3, .seed = (uint64_t)getpid() ^ (uint64_t)now_us()};
    read_options(&o, argc, argv);
    if (o.profile != NULL) {
        return run_profile(&o);
    }
    if (o.csv == NULL) {
        die("--csv FILE is missing");
    }
    return o.dirs[0] != NULL ? run_pair(&o) : run_benchmark(&o);
}
