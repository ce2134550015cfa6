/* Is a build right? `build/test [--library FILE] [--seed N]`. Prints PASS lines and exits 0, or MISMATCH and exits 1.
 * The data is new in each run; the seed is printed, so that a failure can be seen again. The same file serves each task. */
#include <signal.h>

#include "case.h"

static char now_running[256];
static double worst_seen;
static int calls;

static void on_fault(int number) {
    static const char told[] = " (access outside the arrays, or the kernel crashed)\n";
    ssize_t ignored = write(STDOUT_FILENO, now_running, strlen(now_running));
    ignored += write(STDOUT_FILENO, told, sizeof told - 1);
    (void)ignored;
    (void)number;
    _exit(1);
}

static void mismatch(const char *label, const char *mix, double rel_err, const char *why) {
    printf("MISMATCH label=%s rel_err=%.3e data=%s: %s\n", label, rel_err, mix, why);
    exit(1);
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

/* NaN first, later plausible numbers: a kernel can neither leave an element out nor tell a checked call by its poison. */
static void poison(Buffer *out, int with_noise, uint64_t *rng) {
    for (size_t i = 0; i < out->len; i++) {
        out->data[i] = with_noise ? normal(rng) : NAN;
    }
}

static void check_values(const Case *c, const char *mix) {
    double total[2] = {0.0, 0.0};
    double worst = 0.0;
    for (int row = 0; row < rows_of(c->shape); row++) {
        double error = row_error(c, row, total);
        worst = error > worst ? error : worst;
    }
    double rel_err = sqrt(total[0]) / (sqrt(total[1]) + 1e-30);
    if (!(rel_err <= norm_bound(c->shape))) {
        mismatch(c->shape->label, mix, rel_err, "the error's norm is above what fp32 arithmetic gives");
    }
    if (!(worst <= 1.0)) {
        mismatch(c->shape->label, mix, rel_err, "an element's error is above what fp32 arithmetic gives");
    }
    worst_seen = worst > worst_seen ? worst : worst_seen;
}

/* One call with everything checked: the values, the inputs, the words around all arrays. */
static void check_call(Symbol kernel, Case *c, const char *mix, int with_noise, uint64_t *rng) {
    float *copy[INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        copy[i] = malloc(c->in[i].len * sizeof(float));
        memcpy(copy[i], c->in[i].data, c->in[i].len * sizeof(float));
    }
    poison(&c->out, with_noise, rng);
    snprintf(now_running, sizeof now_running, "MISMATCH label=%s rel_err=inf data=%s:", c->shape->label, mix);
    call(kernel, c);
    calls++;
    for (int i = 0; i < INPUTS; i++) {
        if (memcmp(copy[i], c->in[i].data, c->in[i].len * sizeof(float)) != 0 || !buffer_intact(&c->in[i])) {
            mismatch(c->shape->label, mix, INFINITY, "an input was changed");
        }
        free(copy[i]);
    }
    if (!buffer_intact(&c->out)) {
        mismatch(c->shape->label, mix, INFINITY, "something was written outside the output");
    }
    check_values(c, mix);
}

/* All kinds of data through the same arrays, so that an answer kept by address is found out, in each placement. */
static void check_shape(Symbol kernel, const Shape *shape, uint64_t *rng) {
    for (int placement = CENTRE; placement <= END; placement++) {
        Case c = case_open(shape, placement, rng);
        for (int mix = 0; mix < COUNT(MIXES); mix++) {
            fill(&c, mix, rng);
            check_call(kernel, &c, MIXES[mix], (mix + placement) % 2, rng);
        }
        case_close(&c);
    }
    printf("PASS label=%s\n", shape->label);
}

int main(int argc, char **argv) {
    const char *library = "build/libkernel.so";
    uint64_t seed = 0;
    int seeded = 0;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--library") == 0) {
            library = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 10);
            seeded = 1;
        } else {
            die("usage: build/test [--library FILE] [--seed N]");
        }
    }
    seed = seeded ? seed : fresh_seed();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %llu\n", (unsigned long long)seed);
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    signal(SIGFPE, on_fault);
    signal(SIGILL, on_fault);
    Symbol kernel = load(library, KERNEL);
    for (int i = 0; i < COUNT(TESTED); i++) {
        check_shape(kernel, &TESTED[i], &seed);
    }
    for (int i = 0; i < COUNT(BENCHED); i++) {
        check_shape(kernel, &BENCHED[i], &seed);
    }
    printf("PASS %d calls, largest error %.2f of its bound\n", calls, worst_seen);
    return 0;
}
