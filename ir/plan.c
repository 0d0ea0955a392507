/* plan.c - prints a plan: temporaries, then each step with what was made of it.
 *
 *     plan linear_gelu {
 *       temp h: bf16[M, N] = %7 @ 0
 *       step linear_gelu.0 stores %7
 *     }
 *
 * with the reason for the general schedule alone, if any, in quotes; and after it the tile programs
 * and schedules, as their own texts.
 */
#include "ir/plan.h"
#include "ir/text_int.h"

static void put_temp(Str *out, const Plan *p, int k, const IxNames *names) {
    const Temp *t = &p->temps.v[k];
    str_add(out, "  temp ");
    text_put_name(out, t->name);
    str_printf(out, ": %s", dtype_name(t->type));
    for (int d = 0; d < t->rank; d++) {
        str_add(out, d ? ", " : "[");
        ix_print(out, t->dims[d], names);
    }
    str_printf(out, "%s = %%%d @ %d\n", t->rank ? "]" : "", t->node, k);
}

int plan_kernels(const Plan *p) {
    int n = 0;
    for (int k = 0; k < p->steps.n; k++) n += !p->steps.v[k].joins;
    return n;
}

void plan_print(Str *out, const Plan *p, bool tiles, bool schedules) {
    static const Node no_axes;
    IxNames names = graph_names(p->graph, &no_axes);
    str_add(out, "plan ");
    text_put_name(out, p->graph->name);
    str_add(out, " {\n");
    for (int k = 0; k < p->temps.n; k++) put_temp(out, p, k, &names);
    for (int k = 0; k < p->steps.n; k++) {
        const Step *s = &p->steps.v[k];
        str_add(out, "  step ");
        text_put_name(out, s->name);
        for (int i = 0; i < s->stores.n; i++)
            str_printf(out, "%s%%%d", i ? ", " : " stores ", s->stores.v[i]);
        if (schedules && s->why) str_printf(out, " general \"%s\"", s->why);
        str_add(out, "\n");
    }
    str_add(out, "}\n");
    for (int k = 0; k < p->steps.n; k++) {
        const Step *s = &p->steps.v[k];
        if (tiles && s->tile) tile_print(out, s->tile);
        for (int i = 0; schedules && s->tile && i < s->schedules.n; i++)
            schedule_print(out, s->schedules.v[i], s->tile);
    }
}
