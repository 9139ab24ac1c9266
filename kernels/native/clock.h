/* The step that times the steps before it: stands between the calls of a program that is profiled. */
#ifndef AUTOTUNE_NATIVE_CLOCK_H
#define AUTOTUNE_NATIVE_CLOCK_H

#include "native/flag.h"

/* operand0 is an int64 ledger: when it was last written, then nanoseconds by row. What has passed since
 * then is added to row number0; number 0 only starts the clock. */
static void clock_kernel(char **operands, const int64_t *numbers) {
    int64_t *ledger = (int64_t *) operands[0], now = now_ns();
    ledger[numbers[0]] += now - ledger[0];
    ledger[0] = now;
}

#endif
