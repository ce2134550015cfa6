#ifndef KERNEL_H
#define KERNEL_H

/* c = a * b for row-major float matrices: a is m x k, b is k x n, c is m x n; m, n, k >= 1, all values finite.
 * The three arrays do not overlap and are aligned to 4 bytes only. a and b are read only; c holds garbage on entry. */
void matmul_f32(const float *a, const float *b, float *c, int m, int n, int k);

#endif
