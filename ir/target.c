/* target.c - facts of target.def. */
#include "ir/target.h"

#include <string.h>

/* The letters of the `has` column. */
enum { M = TGT_M, F = TGT_F, T = TGT_T, W = TGT_W };

static const Target targets[] = {
#define TARGET(name, major, minor, smem, regs, sms, gbs, l2, f32, bf16, ptx, has, part)            \
    {#name, part, major, minor, smem, regs, sms, gbs, l2, f32, bf16, ptx, has},
#include "ir/target.def"
#undef TARGET
};

const Target *target_at(int i) {
    return i >= 0 && i < (int)(sizeof targets / sizeof *targets) ? &targets[i] : NULL;
}

const Target *target_named(const char *name) {
    for (int i = 0; target_at(i); i++)
        if (!strcmp(targets[i].name, name)) return &targets[i];
    return NULL;
}
