/* hard.c - what the hard build checks after every pass: that the IR is sound, and that its text is
 * the whole of it. In other builds these do nothing.
 */
#include "compiler/compiler_int.h"

#include <string.h>

#ifdef FKC_HARD
static const Source *text_source(Job *j, const Str *text) {
    return source_new(j->arena, "(round trip)", str_get(text), text->n);
}

static void must_equal(const char *pass, const char *name, Str *first, Str *second) {
    if (strcmp(str_get(first), str_get(second)))
        FK_BUG("after %s, the text of %s does not read back:\n%s\n%s", pass, name, str_get(first),
               str_get(second));
    str_free(first);
    str_free(second);
}

static void must_read(const void *again, const Diags *d, const char *pass, const char *name) {
    if (!again) FK_BUG("after %s, the text of %s is refused: %s", pass, name, d->list.v[0].text);
}

void hard_check(Job *j, const Graph *g, const char *pass) {
    Str why = {0}, first = {0}, second = {0};
    Diags d = {.arena = j->arena};
    if (!graph_verify(g, &why)) FK_BUG("after %s, %s: %s", pass, g->name, str_get(&why));
    graph_print(&first, g);
    const Graph *again = graph_parse(j->arena, text_source(j, &first), &d);
    must_read(again, &d, pass, g->name);
    graph_print(&second, again);
    must_equal(pass, g->name, &first, &second);
    str_free(&why);
}

static void check_schedule(Job *j, const Schedule *s, const TProg *t, const char *pass) {
    Str why = {0}, first = {0}, second = {0};
    Diags d = {.arena = j->arena};
    if (!schedule_verify(s, t, &why)) FK_BUG("after %s, %s: %s", pass, t->name, str_get(&why));
    schedule_print(&first, s, t);
    const Schedule *again = schedule_parse(j->arena, text_source(j, &first), t, &d);
    must_read(again, &d, pass, s->name);
    schedule_print(&second, again, t);
    must_equal(pass, s->name, &first, &second);
    str_free(&why);
}

void hard_check_plan(Job *j, const Plan *p, const char *pass) {
    for (int i = 0; i < p->steps.n; i++) {
        const Step *s = &p->steps.v[i];
        Str why = {0}, first = {0}, second = {0};
        Diags d = {.arena = j->arena};
        if (!tile_verify(s->tile, &why)) FK_BUG("after %s, %s: %s", pass, s->name, str_get(&why));
        tile_print(&first, s->tile);
        const TProg *again = tile_parse(j->arena, text_source(j, &first), &d);
        must_read(again, &d, pass, s->name);
        tile_print(&second, again);
        must_equal(pass, s->name, &first, &second);
        str_free(&why);
        for (int k = 0; k < s->schedules.n; k++)
            check_schedule(j, s->schedules.v[k], s->tile, pass);
    }
}
#else
void hard_check(Job *j, const Graph *g, const char *pass) {
    (void)j, (void)g, (void)pass;
}

void hard_check_plan(Job *j, const Plan *p, const char *pass) {
    (void)j, (void)p, (void)pass;
}
#endif
