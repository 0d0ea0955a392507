/* wgmma_cases.h - tile programs with schedules as text that tests of the tier of TMA and wgmma
 * share: parsed, verified, lowered to PTX. What fails fails the test.
 */
#ifndef FK_TESTS_BACKEND_WGMMA_CASES_H
#define FK_TESTS_BACKEND_WGMMA_CASES_H

#include "backend/backend.h"
#include "ir/mma.h"

typedef struct Case {
    const char *tile;
    int m, n, stages, groups;
    const char *more; /* lines of the schedule */
    int spills;       /* bytes after the loop */
} Case;

typedef struct Run {
    Arena a;
    TProg *t;
    Kernel k;
    MmaTiles tiles;
} Run;

extern const char gelu[], two_outputs[], batched[], batched_mn[], plain[], whole[], matrices[],
    scaled[], gated[], gated_f32[], gated_e4m3[];

extern Arena case_arena; /* of texts that last */
extern bool case_swap;   /* schedules list axis n first: it is rows, and m of the tile are its */
extern int case_plain;   /* factors that threads bring: 1 the first, 2 the second */

const char *case_changed(const char *text, const char *from, const char *to); /* one part of it */
const char *case_ordered(bool a_mn, bool b_mn); /* gelu with its factors in other memory orders */

void case_fail(const Diags *d);
TProg *case_tile(Arena *a, const char *text);
Schedule *case_schedule(Arena *a, const TProg *t, const Case *c);
void case_lower(Run *r, const Case *c);

int case_guards(const Kernel *k, KGuardKind kind, int index, int dim); /* of these */
int case_texts(const char *text, const char *what);                    /* places that have it */

#endif
