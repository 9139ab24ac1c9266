/* Kernels in C, to test the executor and to time it. Operands and numbers are as of any kernel. */
#ifndef AUTOTUNE_NATIVE_SAMPLES_H
#define AUTOTUNE_NATIVE_SAMPLES_H

#include <stdint.h>

static void nothing_kernel(char **operands, const int64_t *numbers) {
    (void) operands;
    (void) numbers;
}

/* operand0, an int64, grows by number0. */
static void count_kernel(char **operands, const int64_t *numbers) {
    *(int64_t *) operands[0] += numbers[0];
}

/* operand0[i] = operand1[i] + operand2[i], i < number0, int64. */
static void add_kernel(char **operands, const int64_t *numbers) {
    int64_t *out = (int64_t *) operands[0];
    const int64_t *a = (const int64_t *) operands[1], *b = (const int64_t *) operands[2];
    for (int64_t i = 0; i < numbers[0]; i++) out[i] = a[i] + b[i];
}

/* Appends to the log operand0, an int64 array whose first element is how many are in use: number0
 * operands from operand1 on, number1 numbers from number2 on. */
static void record_kernel(char **operands, const int64_t *numbers) {
    int64_t *log = (int64_t *) operands[0];
    for (int64_t i = 0; i < numbers[0]; i++) log[log[0]++] = (int64_t) (intptr_t) operands[1 + i];
    for (int64_t i = 0; i < numbers[1]; i++) log[log[0]++] = numbers[2 + i];
}

#endif
