/* One shape with its arrays, as test.c and bench.c open it. The same file lies in each task's folder. */
#ifndef CASE_H
#define CASE_H

#include "problem.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* The arrays hold nothing yet but their tags; fill() them. */
static Case case_open(const Shape *shape, Placement placement, uint64_t *rng) {
    Case c = {.shape = shape};
    for (int i = 0; i < INPUTS; i++) {
        c.in[i] = buffer_open(length_of(shape, i), placement, i, (uint32_t)draw(rng));
    }
    c.out = buffer_open(length_of(shape, INPUTS), placement, INPUTS, (uint32_t)draw(rng));
    return c;
}

static void case_close(Case *c) {
    for (int i = 0; i < INPUTS; i++) {
        buffer_close(&c->in[i]);
    }
    buffer_close(&c->out);
}

#endif
