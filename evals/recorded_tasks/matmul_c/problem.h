/* The matrix multiply task: its shapes, its data, what a call is, and what a right answer is. */
#ifndef PROBLEM_H
#define PROBLEM_H

#include <math.h>

#include "harness.h"
#include "kernel.h"

#define KERNEL "matmul_f32"
#define METRIC "GFLOPS"
#define DIMENSIONS 3
#define DIMENSION_NAMES "M,N,K"
#define INPUTS 2

typedef struct {
    const char *label;
    int d[DIMENSIONS]; /* m, n, k */
    const char *regime;
} Shape;

/* Sizes keep a naive call under 2 ms: the longer a call, the less like the clocks that two calls meet.
 * regime: small when a, b and c together stay within 128 KiB, half of the smallest second-level cache of a server. */
static UNUSED const Shape BENCHED[] = {
    {"sq48", {48, 48, 48}, "small"},      {"mid96", {64, 96, 80}, "small"},     {"odd97", {97, 83, 101}, "small"},
    {"wide16", {16, 256, 256}, "large"},  {"rect208", {48, 208, 160}, "large"}, {"sq120", {120, 120, 120}, "large"},
};

/* What the test adds: single rows and columns, sizes around powers of two and tile edges. */
static UNUSED const Shape TESTED[] = {
    {"one", {1, 1, 1}, ""},        {"row", {1, 33, 20}, ""},       {"column", {37, 1, 19}, ""}, {"k1", {9, 12, 1}, ""},
    {"tiny", {3, 5, 7}, ""},       {"even", {8, 16, 32}, ""},      {"odd", {17, 23, 31}, ""},   {"edge", {33, 65, 129}, ""},
    {"long_k", {7, 11, 300}, ""},  {"tall", {131, 9, 67}, ""},     {"flat", {6, 211, 45}, ""},
};

static UNUSED const char *const MIXES[] = {"normal", "positive", "cancelling", "wide_range", "sparse"};

typedef struct {
    const Shape *shape;
    Buffer in[INPUTS];
    Buffer out;
} Case;

static UNUSED size_t length_of(const Shape *s, int which) {
    size_t m = (size_t)s->d[0], n = (size_t)s->d[1], k = (size_t)s->d[2];
    return which == 0 ? m * k : which == 1 ? k * n : m * n;
}

/* GFLOP, or GB, of one call. */
static UNUSED double work_of(const Shape *s) {
    return 2e-9 * s->d[0] * s->d[1] * s->d[2];
}

static UNUSED int rows_of(const Shape *s) {
    return s->d[0];
}

static UNUSED void call(Symbol kernel, const Case *c) {
    const int *d = c->shape->d;
    ((void (*)(const float *, const float *, float *, int, int, int))kernel)(c->in[0].data, c->in[1].data, c->out.data,
                                                                             d[0], d[1], d[2]);
}

static UNUSED void fill(Case *c, int mix, uint64_t *rng) {
    for (int which = 0; which < INPUTS; which++) {
        for (size_t i = 0; i < c->in[which].len; i++) {
            float v = normal(rng);
            if (mix == 1) {
                v = (float)(0.5 + uniform(rng));
            } else if (mix == 3) {
                v *= (float)exp2(20.0 * uniform(rng) - 10.0);
            } else if (mix == 4) {
                v = uniform(rng) < 0.9 ? 0.0f : v;
            }
            c->in[which].data[i] = v;
        }
    }
    if (mix == 2) { /* neighbours along k nearly cancel: a pairs up as x, -x and b changes by one part in a thousand */
        int m = c->shape->d[0], n = c->shape->d[1], k = c->shape->d[2];
        for (int p = 1; p < k; p += 2) {
            for (int i = 0; i < m; i++) {
                c->in[0].data[i * k + p] = -c->in[0].data[i * k + p - 1];
            }
            for (int j = 0; j < n; j++) {
                c->in[1].data[p * n + j] = c->in[1].data[(p - 1) * n + j] * (1.0f + 1e-3f * normal(rng));
            }
        }
    }
}

/* Gives one element of each input a new value and returns the row of the output in which both show. Every timed call
 * follows one, so that an answer remembered from an earlier call is a wrong answer. */
static UNUSED int touch(Case *c, uint64_t step) {
    uint64_t rng = step;
    uint64_t where = draw(&rng);
    size_t i = where % c->in[0].len;
    c->in[0].data[i] = (float)(where >> 40) * 0x1p-24f + 0.5f;
    c->in[1].data[(where >> 20) % c->in[1].len] = (float)(where & 0xffffff) * 0x1p-24f - 1.5f;
    return (int)(i / (size_t)c->shape->d[2]);
}

/* Compares one row with a double precision reference. Adds the squared error to total[0] and the square of its scale,
 * |a||b|, to total[1]; returns the largest error in units of its bound, above 1 when wrong.
 *
 * The bound: fp32 summation in any order errs by a random walk of k roundings of partial sums, each at most |a||b|.
 * With u = 2^-24, 8 u (sqrt(k) + 1) |a||b| leaves a factor of ten to naive summation; fp16 or tf32 inputs err 20 times
 * more than the bound at k = 1 and still fail through the norm at k = 300. */
static UNUSED double row_error(const Case *c, int row, double total[2]) {
    int n = c->shape->d[1], k = c->shape->d[2];
    double worst = 0.0;
    for (int j = 0; j < n; j++) {
        double exact = 0.0, scale = 0.0;
        for (int p = 0; p < k; p++) {
            double term = (double)c->in[0].data[row * k + p] * (double)c->in[1].data[p * n + j];
            exact += term;
            scale += fabs(term);
        }
        double error = fabs((double)c->out.data[row * n + j] - exact);
        double ratio = error / (8.0 * 0x1p-24 * (sqrt(k) + 1.0) * scale + 1e-37);
        worst = ratio > worst ? ratio : isnan(ratio) ? INFINITY : worst;
        total[0] += error * error;
        total[1] += scale * scale;
    }
    return worst;
}

/* Bound on sqrt(total[0] / total[1]): the walk again, averaged over the matrix. */
static UNUSED double norm_bound(const Shape *s) {
    return 2.0 * 0x1p-24 * (sqrt(s->d[2]) + 1.0);
}

#endif
