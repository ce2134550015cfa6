#include <math.h>
#include <stdint.h>

void cross_entropy_online(const float *x, const int64_t *target, float *loss, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols) {
        double top = x[0], sum = 1;
        for (int64_t c = 1; c < cols; c++) {
            if (x[c] > top) sum = sum * exp(top - x[c]) + 1, top = x[c];
            else sum += exp(x[c] - top);
        }
        loss[r] = (float)(log(sum) + (top - x[target[r]]));
    }
}

/* Everything is taken relative to the row's maximum, the target's logit too; sums in eight lanes. */
void cross_entropy_shifted(const float *x, const int64_t *target, float *loss, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols) {
        float top = x[0], sums[8] = {0}, sum = 0;
        for (int64_t c = 1; c < cols; c++) top = x[c] > top ? x[c] : top;
        for (int64_t c = 0; c < cols; c++) sums[c % 8] += expf(x[c] - top);
        for (int lane = 0; lane < 8; lane++) sum += sums[lane];
        loss[r] = logf(sum) - (x[target[r]] - top);
    }
}
