// See report_int.h.
#include "runtime/emu/machine_int.h"

#include <stdarg.h>

static const struct {
    const char *text;
    bool ends;
} kinds[] = {
#define REPORT(name, text, ends) {text, ends},
#include "runtime/emu/report.def"
#undef REPORT
};

static bool is_known(const Reports *r, ReportKind kind, uint32_t line) {
    for (uint32_t k = 0; k < r->n; k++)
        if (r->seen[k].kind == kind && r->seen[k].line == line) return true;
    return r->n == MAX_REPORTS;
}

bool report_known(Reports *r, ReportKind kind, uint32_t line) {
    pthread_mutex_lock(&r->lock);
    bool known = is_known(r, kind, line);
    pthread_mutex_unlock(&r->lock);
    return known;
}

// "st.global.u16" of "@%p1 st.global.u16 [%rd1], %rs1;"
static void name_op(const Warp *w, const Ins *i, char *out, size_t room) {
    char line[100];
    const char *p = i ? emu_line(w->func->module, i->line, line, sizeof line) : "";
    if (*p == '@') p += strcspn(p, " "), p += strspn(p, " ");
    snprintf(out, room, "%.*s", (int)strcspn(p, " ;"), p);
}

// The report at hand, which is not known yet; it has a text of its own unless an earlier one is
// like it.
static Reported *add(Reports *r, ReportKind kind, const Warp *w, const Ins *i) {
    Reported *x = &r->seen[r->n];
    *x = (Reported){.kind = kind, .line = i ? i->line : 0, .first = r->n};
    name_op(w, i, x->op, sizeof x->op);
    for (uint32_t k = 0; k < r->n && i; k++)
        if (r->seen[k].kind == kind && !strcmp(r->seen[k].op, x->op)) {
            x->first = r->seen[k].first;
            break;
        }
    r->n++;
    return x;
}

__attribute__((format(printf, 2, 3))) static void put(Reports *r, const char *format, ...) {
    va_list args;
    if (r->used >= sizeof r->text - 1) return;
    va_start(args, format);
    int n = vsnprintf(r->text + r->used, sizeof r->text - r->used, format, args);
    va_end(args);
    r->used += (size_t)n;
    if (r->used > sizeof r->text - 1) r->used = sizeof r->text - 1;
}

static void put_place(Reports *r, const Warp *w, const Ins *i, int lane) {
    const Grid *g = w->cta->cluster->grid;
    const uint32_t *d = g->dim;
    char line[100];
    if (i)
        put(r, ", PTX line %u '%s'", i->line,
            emu_line(w->func->module, i->line, line, sizeof line));
    put(r, d[1] * d[2] > 1 ? ", CTA (%u, %u, %u)" : ", CTA %u", w->cta->id[0], w->cta->id[1],
        w->cta->id[2]);
    if (lane >= 0)
        put(r, ", thread %u", w->id * LANES + (uint32_t)lane);
    else if (i)
        put(r, ", warp %u", w->id);
}

Step report(Warp *w, const Ins *i, int lane, ReportKind kind, const char *format, ...) {
    Reports *r = w->cta->cluster->grid->reports;
    char text[1536];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&r->lock);
    Reported *x = is_known(r, kind, i ? i->line : 0) ? NULL : add(r, kind, w, i);
    if (x && x == &r->seen[x->first]) {
        put(r, "%s%s", r->used ? "\n" : "", kinds[kind].text);
        put_place(r, w, i, lane);
        put(r, ": %s", text);
        x->end = r->used;
    }
    pthread_mutex_unlock(&r->lock);
    if (kinds[kind].ends) atomic_store(&r->ended, 1);
    return kinds[kind].ends ? STOP : NEXT;
}

void report_put_all(const Reports *r, char *out, size_t room) {
    enum { NAMED = 8 };
    size_t n = 0, from = 0;
    for (uint32_t k = 0; k < r->n && n < room - 1; k++) {
        const Reported *x = &r->seen[k];
        uint32_t more = 0;
        if (x->first != k) continue;
        n += (size_t)snprintf(out + n, room - n, "%.*s", (int)(x->end - from), r->text + from);
        from = x->end;
        for (uint32_t j = k + 1; j < r->n && n < room - 1; j++) {
            if (r->seen[j].first != k || ++more > NAMED) continue;
            n += (size_t)snprintf(out + n, room - n, "%s %u",
                                  more > 1 ? "," : "; the same at PTX lines", r->seen[j].line);
        }
        if (more > NAMED && n < room - 1)
            n += (size_t)snprintf(out + n, room - n, " and %u more", more - NAMED);
    }
}
