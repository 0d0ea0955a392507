/* target.h - the chips of target.def. */
#ifndef FK_IR_TARGET_H
#define FK_IR_TARGET_H

#include "ir/base/base.h"

enum TargetHas { TGT_M = 1, TGT_F = 2, TGT_T = 4, TGT_W = 8 };

typedef struct Target {
    const char *name, *part;
    int major, minor;
    int smem, regs, sms;
    double gbs, l2_mib, f32_tflops, bf16_tflops;
    int ptx; /* 80 is PTX ISA 8.0 */
    int has;
} Target;

const Target *target_named(const char *name); /* NULL when unknown */
const Target *target_at(int i);               /* NULL past the end */

#endif
