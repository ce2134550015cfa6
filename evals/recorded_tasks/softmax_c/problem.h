/* The row softmax task: its shapes, its data, what a call is, and what a right answer is. */
#ifndef PROBLEM_H
#define PROBLEM_H

#include <math.h>

#include "harness.h"
#include "kernel.h"

#define KERNEL "softmax_f32"
#define METRIC "GB/s"
#define DIMENSIONS 2
#define DIMENSION_NAMES "rows,cols"
#define INPUTS 1

typedef struct {
    const char *label;
    int d[DIMENSIONS]; /* rows, cols */
    const char *regime;
} Shape;

/* Sizes keep a naive call under 2 ms: the longer a call, the less like the clocks that two calls meet.
 * regime: long_rows when a row of x and y (8 bytes a column) leaves a 32 KiB first-level cache between two passes. */
static UNUSED const Shape BENCHED[] = {
    {"r64x64", {64, 64}, "short_rows"},    {"r1000x33", {1000, 33}, "short_rows"}, {"r256x250", {256, 250}, "short_rows"},
    {"r16x4096", {16, 4096}, "long_rows"}, {"r9x8191", {9, 8191}, "long_rows"},    {"r4x32768", {4, 32768}, "long_rows"},
};

/* What the test adds: single rows and columns, widths around vector lengths. */
static UNUSED const Shape TESTED[] = {
    {"one", {1, 1}, ""},      {"row", {1, 100}, ""},    {"column", {50, 1}, ""},  {"two", {3, 2}, ""},
    {"tiny", {4, 7}, ""},     {"vector", {9, 8}, ""},   {"odd", {33, 17}, ""},    {"edge", {20, 65}, ""},
    {"tail", {13, 1027}, ""}, {"prime", {5, 4099}, ""},
};

static UNUSED const char *const MIXES[] = {"normal", "large_positive", "large_negative", "wide_spread", "constant", "peak"};

typedef struct {
    const Shape *shape;
    Buffer in[INPUTS];
    Buffer out;
} Case;

static UNUSED size_t length_of(const Shape *s, int which) {
    (void)which;
    return (size_t)s->d[0] * (size_t)s->d[1];
}

/* GFLOP, or GB, of one call: x is read once and y written once, whatever a kernel really moves. */
static UNUSED double work_of(const Shape *s) {
    return 8e-9 * s->d[0] * s->d[1];
}

static UNUSED int rows_of(const Shape *s) {
    return s->d[0];
}

static UNUSED void call(Symbol kernel, const Case *c) {
    ((void (*)(const float *, float *, int, int))kernel)(c->in[0].data, c->out.data, c->shape->d[0], c->shape->d[1]);
}

/* Offsets of 1000 overflow, or vanish to 0/0, unless each row's own maximum is subtracted first. */
static UNUSED void fill(Case *c, int mix, uint64_t *rng) {
    float scale = mix == 3 ? 300.0f : mix == 4 ? 0.0f : 1.0f;
    size_t cols = (size_t)c->shape->d[1];
    float offset = 0.0f;
    for (size_t i = 0; i < c->in[0].len; i++) {
        if (i % cols == 0) {
            offset = mix == 1 ? 1000.0f : mix == 2 ? -1000.0f : 4.0f * normal(rng);
        }
        c->in[0].data[i] = offset + scale * normal(rng);
    }
    for (size_t i = 0; mix == 5 && i < c->in[0].len; i += cols) { /* one element holds nearly all the mass of its row */
        c->in[0].data[i + draw(rng) % cols] += 60.0f;
    }
}

/* Gives one element a new value and returns the row in which it shows. Every timed call follows one, so that an answer
 * remembered from an earlier call is a wrong answer. */
static UNUSED int touch(Case *c, uint64_t step) {
    uint64_t rng = step;
    uint64_t where = draw(&rng);
    size_t i = where % c->in[0].len;
    c->in[0].data[i] = (float)(where >> 40) * 0x1p-22f - 2.0f;
    return (int)(i / (size_t)c->shape->d[1]);
}

/* Compares one row with a double precision reference. Adds the squared error to total[0] and the square of the result
 * to total[1]; returns the largest error in units of its bound, above 1 when wrong.
 *
 * The bound, relative, with u = 2^-24: 32 u for the exponential, the reciprocal and the product, 4 u |x - max| for
 * rounding the exponent's argument, 4 u sqrt(cols) for summation in any order. Results below 1e-36 may be flushed. */
static UNUSED double row_error(const Case *c, int row, double total[2]) {
    int cols = c->shape->d[1];
    const float *x = c->in[0].data + (size_t)row * (size_t)cols;
    const float *y = c->out.data + (size_t)row * (size_t)cols;
    double max = x[0], sum = 0.0, got = 0.0, worst = 0.0;
    for (int j = 1; j < cols; j++) {
        max = x[j] > max ? x[j] : max;
    }
    for (int j = 0; j < cols; j++) {
        sum += exp(x[j] - max);
    }
    for (int j = 0; j < cols; j++) {
        double exact = exp(x[j] - max) / sum;
        double error = fabs((double)y[j] - exact);
        double bound = 0x1p-24 * (32.0 + 4.0 * (max - x[j]) + 4.0 * sqrt(cols)) * exact + 1e-36;
        worst = error / bound > worst ? error / bound : isnan(error) ? INFINITY : worst;
        total[0] += error * error;
        total[1] += exact * exact;
        got += y[j];
    }
    double off = fabs(got - 1.0) / (0x1p-24 * (64.0 + 4.0 * sqrt(cols)));
    return off > worst ? off : worst;
}

/* Bound on sqrt(total[0] / total[1]): most of the mass lies within a few units of the maximum. */
static UNUSED double norm_bound(const Shape *s) {
    return 0x1p-24 * (64.0 + 4.0 * sqrt(s->d[1]));
}

#endif
