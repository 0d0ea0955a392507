/* head.c - see head_int.h. The text is for people; the module's tables are what the runtime reads.
 */
#include "backend/nvptx/head_int.h"

#include <string.h>

static const TTensor *tensor_of(const TProg *t, const KParam *p) {
    for (int i = 0; i < t->tensors.n; i++) {
        const TTensor *x = &t->tensors.v[i];
        bool temp = p->kind == KP_TEMP || (p->kind == KP_TMAP && p->map.temp);
        if (x->id == p->index && (x->mem == TM_TEMP) == temp) return x;
    }
    FK_BUG("a kernel parameter of no tensor");
}

static void put_tensor(Str *out, const TTensor *x, const IxNames *names) {
    str_printf(out, "%s: %s", x->name, dtype_name(x->type));
    for (int d = 0; d < x->rank; d++) {
        str_add(out, d ? ", " : "[");
        ix_print(out, x->dims[d], names);
    }
    if (x->rank) str_addc(out, ']');
}

static void put_param(Str *out, const TProg *t, const KParam *p, int at, const IxNames *names) {
    str_printf(out, "//   %-3d ", at);
    switch (p->kind) {
    case KP_TENSOR:
        str_add(out, "pointer  ");
        put_tensor(out, tensor_of(t, p), names);
        break;
    case KP_TEMP:
        str_add(out, "pointer  temporary ");
        put_tensor(out, tensor_of(t, p), names);
        break;
    case KP_STRIDE:
        str_printf(out, "i64      stride of %s, dimension %d, in elements", tensor_of(t, p)->name,
                   p->dim);
        break;
    case KP_VALUE:
        str_add(out, "i64      ");
        ix_print(out, p->ix, names);
        break;
    case KP_TMAP:
        str_add(out, "map      ");
        put_tensor(out, tensor_of(t, p), names);
        str_add(out, ", box");
        for (int i = 0; i < p->map.rank; i++)
            str_printf(out, " %d of dimension %d,", p->map.box[i], p->map.dim[i]);
        str_printf(out, " swizzle %d", p->map.swizzle);
        break;
    case KP_SCRATCH: str_add(out, "pointer  scratch"); break;
    case KP_LAUNCH: str_add(out, "i64      which launch of the variant it is, from 0"); break;
    case KP_HEAD: str_add(out, "pointer  words that are 0 between launches"); break;
    case KP_SCALAR:
        str_printf(out, "pointer  %s: %s, or null and its bytes in %d", tensor_of(t, p)->name,
                   dtype_name(tensor_of(t, p)->type), at + 1);
        break;
    }
    str_addc(out, '\n');
}

/* LLVM's PTX begins with a banner; what counts begins at ".version". */
static const char *skip_banner(const char *body) {
    const char *v = strstr(body, ".version");
    return v ? v : body;
}

/* LLVM 19 has no metadata for the size of a cluster: it goes before the other directives. */
static void put_body(Str *out, const Kernel *k, const char *body) {
    const char *at = strstr(body, ".reqntid");
    if (!k->cluster) {
        str_add(out, body);
        return;
    }
    if (!at) FK_BUG("kernel %s has no .reqntid", k->name);
    str_addn(out, body, (size_t)(at - body));
    str_printf(out, ".reqnctapercluster %d, 1, 1\n%s", k->cluster, at);
}

const char *kernel_head(Arena *a, const Step *s, const Kernel *k, const BackendOptions *o,
                        int shared_bytes, const char *body) {
    IxNames names = {.size = s->tile->sizes};
    Str out = {0};
    str_printf(&out, "// %s", s->name);
    if (o->source) str_printf(&out, " of %s", o->source);
    str_add(&out, "\n// grid    ");
    ix_print(&out, k->grid, &names);
    if (k->cluster) str_printf(&out, "\n// cluster %d", k->cluster);
    str_printf(&out, "\n// block   %d\n// shared  %d bytes static, ", k->block, shared_bytes);
    if (k->smem)
        ix_print(&out, k->smem, &names);
    else
        str_addc(&out, '0');
    str_add(&out, " dynamic\n// params\n");
    for (int i = 0, at = 0; i < k->params.n; i++) {
        const KParam *p = &k->params.v[i];
        put_param(&out, s->tile, p, at, &names);
        at += p->kind == KP_SCALAR ? 2 : 1;
    }
    str_add(&out, "\n");
    put_body(&out, k, skip_banner(body));
    const char *text = arena_strdup(a, str_get(&out));
    str_free(&out);
    return text;
}
