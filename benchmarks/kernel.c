/* The limit: online push-sum with logistic regression for one fixed dimension, on one core, nothing else.
 *
 * Compiled on the spot with -DDIM=<features>. A row holds the DIM model entries and the mass, padded to a multiple of
 * four floats. Sigmoid and loss are taken for a block of agents at a time, so that the compiler can use its vector
 * exponential; the mix is plain compressed rows.
 */
#include <math.h>
#include <stddef.h>

enum { ROW = (DIM + 1 + 3) / 4 * 4, BLOCK = 64, WIDES = ROW / 16, NARROWS = ROW % 16 / 4 };

typedef float wide __attribute__((vector_size(64), aligned(4)));
typedef float narrow __attribute__((vector_size(16), aligned(4)));

double push_sum_rounds(int agents, int rounds, int period, const float *x, const float *y, const int *start,
                       const int *sender, const float *weight, const float *own, float *state, float *moved,
                       float step, float l2) {
    double total = 0;
    for (int t = 0; t < rounds; t++) {
        const float *xt = x + (size_t)(t % period) * agents * DIM;
        const float *yt = y + (size_t)(t % period) * agents;
        for (int first = 0; first < agents; first += BLOCK) {
            int count = agents - first < BLOCK ? agents - first : BLOCK;
            float margin[BLOCK], inverse[BLOCK], square[BLOCK], pull[BLOCK];
            for (int b = 0; b < count; b++) {
                const float *xi = xt + (size_t)(first + b) * DIM, *z = state + (size_t)(first + b) * ROW;
                float dot = 0, norm = 0;
                for (int k = 0; k < DIM; k++) {
                    dot += xi[k] * z[k];
                    norm += z[k] * z[k];
                }
                inverse[b] = 1.0f / z[DIM];
                margin[b] = yt[first + b] * dot * inverse[b];
                square[b] = norm;
            }
            for (int b = count; b < BLOCK; b++) margin[b] = inverse[b] = square[b] = 0;
            float loss = 0;
            for (int b = 0; b < BLOCK; b++) {
                float e = expf(-fabsf(margin[b]));
                float one = b < count ? 1.0f : 0.0f;
                loss += one * (logf(1.0f + e) + fmaxf(-margin[b], 0.0f) + 0.5f * l2 * square[b] * inverse[b] * inverse[b]);
                pull[b] = (margin[b] > 0 ? e : 1.0f) / (1.0f + e);
            }
            total += loss;
            for (int b = 0; b < count; b++) {
                const float *xi = xt + (size_t)(first + b) * DIM, *z = state + (size_t)(first + b) * ROW;
                float *out = moved + (size_t)(first + b) * ROW;
                float c = step * yt[first + b] * pull[b], shrink = 1.0f - step * l2 * inverse[b];
                for (int k = 0; k < DIM; k++) out[k] = shrink * z[k] + c * xi[k];
                for (int k = DIM; k < ROW; k++) out[k] = z[k];
            }
        }
        for (int i = 0; i < agents; i++) {
            const float *mine = moved + (size_t)i * ROW;
            wide a[WIDES + 1];
            narrow b[NARROWS + 1];
            for (int k = 0; k < WIDES; k++) a[k] = own[i] * ((const wide *)mine)[k];
            for (int k = 0; k < NARROWS; k++) b[k] = own[i] * ((const narrow *)(mine + 16 * WIDES))[k];
            for (int e = start[i]; e < start[i + 1]; e++) {
                const float *row = moved + (size_t)sender[e] * ROW;
                float w = weight[e];
                for (int k = 0; k < WIDES; k++) a[k] += w * ((const wide *)row)[k];
                for (int k = 0; k < NARROWS; k++) b[k] += w * ((const narrow *)(row + 16 * WIDES))[k];
            }
            float *out = state + (size_t)i * ROW;
            for (int k = 0; k < WIDES; k++) ((wide *)out)[k] = a[k];
            for (int k = 0; k < NARROWS; k++) ((narrow *)(out + 16 * WIDES))[k] = b[k];
        }
    }
    return total;
}
