#ifndef KERNEL_H
#define KERNEL_H

/* y[i][j] = exp(x[i][j]) / sum over j of exp(x[i][j]) for row-major float arrays of rows x cols; both >= 1, all values
 * finite and of any magnitude. The arrays do not overlap and are aligned to 4 bytes only. x is read only; y holds
 * garbage on entry. */
void softmax_f32(const float *x, float *y, int rows, int cols);

#endif
