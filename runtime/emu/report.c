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
        if (r->seen_kind[k] == kind && r->seen_line[k] == line) return true;
    return r->n == MAX_REPORTS;
}

bool report_known(Reports *r, ReportKind kind, uint32_t line) {
    pthread_mutex_lock(&r->lock);
    bool known = is_known(r, kind, line);
    pthread_mutex_unlock(&r->lock);
    return known;
}

static bool is_new(Reports *r, ReportKind kind, uint32_t line) {
    if (is_known(r, kind, line)) return false;
    r->seen_kind[r->n] = kind;
    r->seen_line[r->n++] = line;
    return true;
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
    if (is_new(r, kind, i ? i->line : 0)) {
        put(r, "%s%s", r->used ? "\n" : "", kinds[kind].text);
        put_place(r, w, i, lane);
        put(r, ": %s", text);
    }
    pthread_mutex_unlock(&r->lock);
    if (kinds[kind].ends) atomic_store(&r->ended, 1);
    return kinds[kind].ends ? STOP : NEXT;
}
