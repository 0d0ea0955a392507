/* schedule_text.c - the text form of a schedule.
 *
 *     schedule := "schedule" NAME "for" NAME "target" NAME "{" line... "}"    NAME: its tile
 * program line     := "move" ("plain" | "cpasync" | "tma") | "mul" ("fma" | "mma" | "wgmma") |
 * "threads" INT | "axis" NAME ["lanes" INT] ["regs" INT] ["vec" INT] ["tile" INT] ["shared"]
 * absent: 1 | "value" VALUE "place" ("reg" | "smem" | "global")
 *                 ["buffers" INT] ["swizzle" INT] ["slabs" INT] ["evict" ("first" | "last")]
 *                 ["plain"] ["over"]
 *               | "op" VALUE ["stage" INT] ["order" INT] ["wait" VALUE] ["release" VALUE]
 *               | "role" NAME ["warps" INT] ["regs" INT]
 *               | "cluster" INT INT INT | "raster" INT | "split" INT | "halves" INT
 *               | "promote" INT ["pieces" INT] ["sets" INT]
 *               | "pingpong" | "turns" | "deal" | "persistent" | "dynamic"
 *               | "wide" | "held" | "grouped"
 *     VALUE    := "%" INT
 *
 * What is absent is 0 (no such thing). An example:
 *
 *     schedule general for linear_gelu.0 target sm_80 {
 *       move plain
 *       mul fma
 *       threads 256
 *       axis n lanes 32 regs 4
 *       axis m lanes 8 regs 4
 *     }
 */
#include "ir/schedule.h"
#include "ir/text_int.h"
#include "ir/tile_int.h"

#include <string.h>

static const char *const move_name[] = {"plain", "cpasync", "tma"};
static const char *const mul_name[] = {"fma", "mma", "wgmma"};
static const char *const place_name[] = {"reg", "smem", "global"};
static const char *const evict_name[] = {"none", "first", "last"};

/* ---- printing ----------------------------------------------------------------------------- */

static void put_int(Str *out, const char *what, int v, int absent) {
    if (v != absent) str_printf(out, " %s %d", what, v);
}

static void put_line_int(Str *out, const char *what, int v) {
    if (v) str_printf(out, "  %s %d\n", what, v);
}

static void put_lists(Str *out, const Schedule *s, const IxNames *names) {
    for (int i = 0; i < s->axes.n; i++) {
        const SAxis *a = &s->axes.v[i];
        str_printf(out, "  axis %s", names->axis[a->axis]);
        put_int(out, "lanes", a->lanes, 1);
        put_int(out, "regs", a->regs, 1);
        put_int(out, "vec", a->vec, 1);
        put_int(out, "tile", a->tile, 0);
        str_add(out, a->shared ? " shared\n" : "\n");
    }
    for (int i = 0; i < s->values.n; i++) {
        const SValue *v = &s->values.v[i];
        str_printf(out, "  value %%%d place %s", v->value, place_name[v->place]);
        put_int(out, "buffers", v->buffers, 0);
        put_int(out, "swizzle", v->swizzle, 0);
        put_int(out, "slabs", v->slabs, 0);
        if (v->evict) str_printf(out, " evict %s", evict_name[v->evict]);
        str_add(out, v->plain ? " plain" : "");
        str_add(out, v->over ? " over\n" : "\n");
    }
    for (int i = 0; i < s->ops.n; i++) {
        const SOp *o = &s->ops.v[i];
        str_printf(out, "  op %%%d", o->value);
        put_int(out, "stage", o->stage, 0);
        put_int(out, "order", o->order, 0);
        if (o->wait >= 0) str_printf(out, " wait %%%d", o->wait);
        if (o->release >= 0) str_printf(out, " release %%%d", o->release);
        str_addc(out, '\n');
    }
    for (int i = 0; i < s->roles.n; i++) {
        const SRole *r = &s->roles.v[i];
        str_add(out, "  role ");
        text_put_name(out, r->name);
        put_int(out, "warps", r->warps, 0);
        put_int(out, "regs", r->regs, 0);
        str_addc(out, '\n');
    }
}

void schedule_print(Str *out, const Schedule *s, const TProg *t) {
    IxNames names = tile_names(t);
    str_add(out, "schedule ");
    text_put_name(out, s->name);
    str_add(out, " for ");
    text_put_name(out, t->name);
    str_add(out, " target ");
    text_put_name(out, s->target);
    str_printf(out, " {\n  move %s\n  mul %s\n", move_name[s->move], mul_name[s->mul]);
    put_line_int(out, "threads", s->threads);
    put_lists(out, s, &names);
    const int *c = s->cluster;
    if (c[0] || c[1] || c[2]) str_printf(out, "  cluster %d %d %d\n", c[0], c[1], c[2]);
    put_line_int(out, "raster", s->raster);
    put_line_int(out, "split", s->split);
    put_line_int(out, "halves", s->halves);
    if (s->promote) {
        str_printf(out, "  promote %d", s->promote);
        put_int(out, "pieces", s->pieces, 0);
        put_int(out, "sets", s->sets, 0);
        str_addc(out, '\n');
    }
    if (s->pingpong) str_add(out, "  pingpong\n");
    if (s->dynamic) str_add(out, "  dynamic\n");
    if (s->turns) str_add(out, "  turns\n");
    if (s->deal) str_add(out, "  deal\n");
    if (s->persistent) str_add(out, "  persistent\n");
    if (s->wide) str_add(out, "  wide\n");
    if (s->held) str_add(out, "  held\n");
    if (s->grouped) str_add(out, "  grouped\n");
    str_add(out, "}\n");
}

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct Reader {
    Text *t;
    Arena *a;
    const TProg *p;
    IxNames names;
    Schedule *s;
} Reader;

static int read_word(Reader *r, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (text_accept(r->t, names[i])) return i;
    text_error(r->t, "expected %s, %s or %s, found '%s'", names[0], names[1], names[2],
               r->t->tok.text);
    return 0;
}

static int read_int(Reader *r) {
    return text_count(r->t, INT32_MAX);
}

static int read_value(Reader *r) {
    return text_value(r->t, r->p->nvalues);
}

static bool read_axis(Reader *r) {
    Text *t = r->t;
    SAxis a = {.axis = -1, .lanes = 1, .regs = 1, .vec = 1};
    const char *name = text_name(t);
    for (int i = 0; i < r->p->axes.n; i++)
        if (!strcmp(r->names.axis[i], name)) a.axis = i;
    if (a.axis < 0) text_error(t, "'%s' is no axis of %s", name, r->p->name);
    if (text_accept(t, "lanes")) a.lanes = read_int(r);
    if (text_accept(t, "regs")) a.regs = read_int(r);
    if (text_accept(t, "vec")) a.vec = read_int(r);
    if (text_accept(t, "tile")) a.tile = read_int(r);
    a.shared = text_accept(t, "shared");
    vec_push(r->a, &r->s->axes, a);
    return true;
}

static bool read_place(Reader *r) {
    SValue v = {.value = read_value(r)};
    text_expect(r->t, "place");
    v.place = (SPlace)read_word(r, place_name, 3);
    if (text_accept(r->t, "buffers")) v.buffers = read_int(r);
    if (text_accept(r->t, "swizzle")) v.swizzle = read_int(r);
    if (text_accept(r->t, "slabs")) v.slabs = read_int(r);
    if (text_accept(r->t, "evict")) v.evict = (SEvict)read_word(r, evict_name, 3);
    v.plain = text_accept(r->t, "plain");
    v.over = text_accept(r->t, "over");
    vec_push(r->a, &r->s->values, v);
    return true;
}

static bool read_op(Reader *r) {
    SOp o = {.value = read_value(r), .wait = -1, .release = -1};
    if (text_accept(r->t, "stage")) o.stage = read_int(r);
    if (text_accept(r->t, "order")) o.order = read_int(r);
    if (text_accept(r->t, "wait")) o.wait = read_value(r);
    if (text_accept(r->t, "release")) o.release = read_value(r);
    vec_push(r->a, &r->s->ops, o);
    return true;
}

static bool read_role(Reader *r) {
    SRole role = {.name = text_name(r->t)};
    if (text_accept(r->t, "warps")) role.warps = read_int(r);
    if (text_accept(r->t, "regs")) role.regs = read_int(r);
    vec_push(r->a, &r->s->roles, role);
    return true;
}

static bool read_number(Reader *r, int *to) {
    *to = read_int(r);
    return true;
}

static bool read_cluster(Reader *r) {
    for (int i = 0; i < 3; i++) r->s->cluster[i] = read_int(r);
    return true;
}

static bool read_promote(Reader *r) {
    r->s->promote = read_int(r);
    if (text_accept(r->t, "pieces")) r->s->pieces = read_int(r);
    if (text_accept(r->t, "sets")) r->s->sets = read_int(r);
    return true;
}

static bool read_line(Reader *r) {
    Text *t = r->t;
    Schedule *s = r->s;
    if (text_accept(t, "move")) return s->move = (SMove)read_word(r, move_name, 3), true;
    if (text_accept(t, "mul")) return s->mul = (SMul)read_word(r, mul_name, 3), true;
    if (text_accept(t, "threads")) return read_number(r, &s->threads);
    if (text_accept(t, "axis")) return read_axis(r);
    if (text_accept(t, "value")) return read_place(r);
    if (text_accept(t, "op")) return read_op(r);
    if (text_accept(t, "role")) return read_role(r);
    if (text_accept(t, "cluster")) return read_cluster(r);
    if (text_accept(t, "raster")) return read_number(r, &s->raster);
    if (text_accept(t, "split")) return read_number(r, &s->split);
    if (text_accept(t, "halves")) return read_number(r, &s->halves);
    if (text_accept(t, "promote")) return read_promote(r);
    if (text_accept(t, "pingpong")) return s->pingpong = true;
    if (text_accept(t, "dynamic")) return s->dynamic = true;
    if (text_accept(t, "turns")) return s->turns = true;
    if (text_accept(t, "deal")) return s->deal = true;
    if (text_accept(t, "persistent")) return s->persistent = true;
    if (text_accept(t, "wide")) return s->wide = true;
    if (text_accept(t, "held")) return s->held = true;
    if (text_accept(t, "grouped")) return s->grouped = true;
    return false;
}

Schedule *schedule_parse(Arena *a, const Source *src, const TProg *p, Diags *d) {
    Text t;
    text_open(&t, a, src, d);
    Reader r = {.t = &t, .a = a, .p = p, .names = tile_names(p), .s = ARENA_NEW(a, Schedule)};
    text_expect(&t, "schedule");
    r.s->name = text_name(&t);
    text_expect(&t, "for");
    const char *of = text_name(&t);
    if (strcmp(of, p->name) != 0) text_error(&t, "a schedule for %s, not %s", of, p->name);
    text_expect(&t, "target");
    r.s->target = text_name(&t);
    text_expect(&t, "{");
    text_skip_lines(&t);
    while (!t.failed && read_line(&r)) text_end_line(&t);
    text_expect(&t, "}");
    text_skip_lines(&t);
    if (!t.failed && t.tok.kind != TOK_END) text_error(&t, "text behind the schedule");
    return t.failed ? NULL : r.s;
}
