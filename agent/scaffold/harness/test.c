/* Does a build what the original does? `build/test [--seed N]`: new values in every run, PASS lines and exit code 0, or
 * MISMATCH and 1. `--survey` calls the original alone, each shape and kind of values in a process of its own, and prints
 * CRASH, DIFFERS (from itself) or OK with the microseconds of a call, SAME where nearly all of a result is one number,
 * and CONSTANT where results do not hang on the values. */
#include <signal.h>
#include <sys/wait.h>

#include "harness.h"

static const char *const NAMES[] = {"ordinary", "zeros", "extremes", "nan", "infinity", "subnormal", "letters", "bytes"};
static char now_running[256];
static double largest;
static int calls;

static void on_fault(int number) {
    static const char why[] = " (access outside the arrays, or the function crashed)\n";
    ssize_t ignored = write(STDOUT_FILENO, now_running, strlen(now_running));
    ignored += write(STDOUT_FILENO, why, sizeof why - 1);
    (void)ignored;
    (void)number;
    _exit(1);
}

static void check_call(const Build builds[3], Case *c, Mix mix, uint64_t *rng) {
    case_fill(c, mix, rng);
    snprintf(now_running, sizeof now_running, "MISMATCH label=%s values=%s: the original:", c->shape->label, NAMES[mix]);
    case_solve(c, &builds[1], &builds[2]);
    snprintf(now_running, sizeof now_running, "MISMATCH label=%s values=%s:", c->shape->label, NAMES[mix]);
    run(&builds[0], c);
    Difference wrong;
    if (!case_compare(c, &builds[2], &wrong, &largest)) {
        printf("MISMATCH label=%s values=%s", c->shape->label, NAMES[mix]);
        print_difference(&wrong, c->shape);
        exit(1);
    }
    calls++;
}

/* All kinds of values through the same arrays, so that an answer kept by address is found out. */
static void check_shape(const Build builds[3], const Shape *shape, uint64_t *rng) {
    Placement first = EDGES ? START : CENTRE, last = EDGES ? END : CENTRE;
    for (Placement placement = first; placement <= last; placement++) {
        Case c = case_open(shape, placement, &builds[0], rng);
        for (int mix = 0; mix < COUNT(MIXES); mix++) {
            check_call(builds, &c, MIXES[mix], rng);
        }
        case_close(&c);
    }
    printf("PASS label=%s\n", shape->label);
}

/* Names the results of which nine in ten elements are the same: a test that sees little else tells little apart. */
static void survey_same(const Case *c) {
    for (int i = 0; i < ARRAY_COUNT; i++) {
        size_t bytes = ARRAYS[i].bytes;
        int64_t count = ARRAYS[i].elements(c->shape->sizes), most = 0, votes = 0, same = 0;
        for (int64_t e = 0; e < count; e++) { /* the majority's, where there is one */
            int equal = memcmp(c->now[i].data + (size_t)most * bytes, c->now[i].data + (size_t)e * bytes, bytes) == 0;
            most = votes ? most : e;
            votes += votes == 0 || equal ? 1 : -1;
        }
        for (int64_t e = 0; e < count; e++) {
            same += memcmp(c->now[i].data + (size_t)most * bytes, c->now[i].data + (size_t)e * bytes, bytes) == 0;
        }
        if (ARRAYS[i].role != INPUT && count >= 16 && same * 10 >= count * 9) {
            printf("SAME %s ordinary %s %.0f\n", c->shape->label, ARRAYS[i].name, 100.0 * (double)same / (double)count);
        }
    }
}

#define FEW 16
#define FEW_BYTES 256
#define DRAWS 25
#define DRAWS_US 2e5

/* Says where the results are the same whatever the values, or hardly anything of them is written: a call that ends early. */
static void survey_constant(const Build *original, Case *c, uint64_t *rng) {
    static char first[MAX_ARRAYS][FEW_BYTES];
    int draws = 0, results = 0;
    for (double until = now_us() + DRAWS_US; draws < DRAWS && (draws < 5 || now_us() < until); draws++) {
        case_fill(c, ORDINARY, rng);
        run(original, c);
        for (int i = 0; i < ARRAY_COUNT; i++) {
            int64_t count = ARRAYS[i].elements(c->shape->sizes), changed = 0;
            size_t bytes = c->now[i].bytes;
            if (ARRAYS[i].role == INPUT) {
                continue;
            }
            results++;
            for (int64_t e = 0; count >= FEW && e < count; e++) {
                size_t at = (size_t)e * ARRAYS[i].bytes;
                changed += memcmp(c->now[i].data + at, c->before[i] + at, ARRAYS[i].bytes) != 0;
            }
            int differs = bytes > FEW_BYTES || (draws && memcmp(first[i], c->now[i].data, bytes) != 0);
            if (count < FEW ? differs : changed * 10 >= count) {
                return;
            }
            memcpy(first[i], c->now[i].data, count < FEW ? bytes : 0);
        }
    }
    if (results) {
        printf("CONSTANT %s ordinary - %d\n", c->shape->label, draws);
    }
}

/* In a child: 0 when two calls of the original on the same values agree, 3 when not; a crash is a signal. */
static void survey_call(const Build *original, const Shape *shape, Mix mix, Placement placement, uint64_t *rng) {
    static const Build NO_EXACT;
    Difference wrong;
    double error = 0.0;
    alarm(20);
    Case c = case_open(shape, placement, original, rng);
    case_fill(&c, mix, rng);
    case_solve(&c, original, &NO_EXACT);
    run(original, &c);
    if (!case_compare(&c, &NO_EXACT, &wrong, &error)) {
        printf("DIFFERS %s %s %s\n", shape->label, NAMES[mix], ARRAYS[wrong.array].name);
        exit(3);
    }
    int is_written = 0;
    for (int i = 0; i < ARRAY_COUNT; i++) {
        size_t result = strcmp(ARRAYS[i].name, "result") == 0;
        is_written |= !result && memcmp(c.now[i].data, c.before[i], c.now[i].bytes) != 0;
    }
    if (mix == ORDINARY && placement == CENTRE) {
        survey_same(&c);
    }
    restore(&c);
    double began = now_us();
    run(original, &c);
    double took = now_us() - began;
    if (mix == ORDINARY && placement == CENTRE) {
        survey_constant(original, &c, rng);
    }
    printf("OK %s %s %d %.3f %d\n", shape->label, NAMES[mix], (int)placement, took, is_written);
    exit(0);
}

static int survey(const Build *original, uint64_t *rng) {
    for (int shape = 0; shape < COUNT(SHAPES); shape++) {
        for (int mix = 0; mix < COUNT(MIXES); mix++) {
            for (Placement placement = CENTRE; placement <= END; placement++) {
                int status;
                pid_t child;
                fflush(stdout);
                if ((child = fork()) == 0) {
                    survey_call(original, &SHAPES[shape], MIXES[mix], placement, rng);
                }
                if (child < 0 || waitpid(child, &status, 0) < 0) {
                    die("cannot start a process");
                }
                if (WIFSIGNALED(status)) {
                    const char *how = WTERMSIG(status) == SIGALRM ? "SLOW" : "CRASH";
                    printf("%s %s %s %d %d\n", how, SHAPES[shape].label, NAMES[MIXES[mix]], (int)placement, WTERMSIG(status));
                }
            }
        }
    }
    return 0;
}

/* The double version agrees with the original on ordinary values, as far as rounding lets it: else it is none. */
static int try_exact(const Build *original, const Build *exact, uint64_t *rng) {
    for (int shape = 0; shape < COUNT(SHAPES); shape++) {
        Case c = case_open(&SHAPES[shape], CENTRE, original, rng);
        case_fill(&c, ORDINARY, rng);
        case_solve(&c, original, exact);
        for (int i = 0; i < ARRAY_COUNT; i++) {
            double squares = 0.0, off = 0.0;
            int64_t count = ARRAYS[i].elements(c.shape->sizes);
            for (int64_t e = 0; ARRAYS[i].kind == F32 && ARRAYS[i].role != INPUT && e < count; e++) {
                double right = get_number(F32, c.right[i] + (size_t)e * 4);
                squares += right * right;
                off += (right - c.exact[i][e]) * (right - c.exact[i][e]);
            }
            if (!(off <= 1e-6 * squares)) {
                printf("APART %s %s\n", SHAPES[shape].label, ARRAYS[i].name);
                return 1;
            }
        }
        case_close(&c);
    }
    return 0;
}

static uint64_t fresh_seed(void) {
    uint64_t seed;
    FILE *random = fopen("/dev/urandom", "rb");
    if (random == NULL || fread(&seed, sizeof seed, 1, random) != 1) {
        die("cannot read /dev/urandom; give --seed");
    }
    fclose(random);
    return seed;
}

int main(int argc, char **argv) {
    uint64_t seed = argc == 3 && strcmp(argv[1], "--seed") == 0 ? strtoull(argv[2], NULL, 10) : fresh_seed();
    setvbuf(stdout, NULL, _IOLBF, 0);
    Build original = load(HERE "/build/liboriginal.so", 1);
    if (argc == 2 && strcmp(argv[1], "--load") == 0) {
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--survey") == 0) {
        return survey(&original, &seed);
    }
    Build exact = load(HERE "/build/libexact.so", 0);
    if (argc == 2 && strcmp(argv[1], "--try-exact") == 0) {
        return try_exact(&original, &exact, &seed);
    }
    Build builds[3] = {load(HERE "/build/libkernel.so", 1), original, exact};
    printf("seed %llu\n", (unsigned long long)seed);
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    signal(SIGFPE, on_fault);
    signal(SIGILL, on_fault);
    signal(SIGABRT, on_fault);
    for (int i = 0; i < COUNT(SHAPES); i++) {
        check_shape(builds, &SHAPES[i], &seed);
    }
    printf("PASS %d calls, largest error %.2f of what is allowed\n", calls, largest);
    return 0;
}
