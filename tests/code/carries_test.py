#!/usr/bin/env python3
"""scripts/carries.py finds a branch on the number or kind of carries, however it is put (ctest: carries.planted).

    carries_test.py

Each plant is code put into a copy of the tree, at a place that is there; the unchanged copy has no fault.
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROW, STEP, IR = "backend/nvptx/online_row.c", "backend/nvptx/online_step.c", "ir/online.c"
REF = "void on_rows_ref(On *on, OnState *s) {\n"
FOLD = "    bool same = !(l->deps[id] >> on->o.j & 1);\n"
SCORE = "    if (rows < 0 || (o->rows >= 0 && o->rows != rows))\n"

# file, after which text (- in front of it), what
PLANTS = [
    (ROW, REF, "if (on->o.nrows == 2) return;"),
    (ROW, REF, "if (on->o.nrows) return;"),
    (ROW, REF, "if (!on->o.nrows) return;"),
    (ROW, REF, "while (on->o.nscores > 1) return;"),
    (ROW, REF, "switch (on->o.nproducts) { case 1: return; default: break; }"),
    (ROW, REF, "on->lags = on->o.nfactors ? on->lags : false;"),
    (ROW, REF, "bool two = on->o.nrows == 2;\n    on->lags &= two;"),
    (ROW, REF, "int n = on->o.nrows + on->o.nproducts;\n    if (n > 3) return;"),
    (ROW, REF, "int n = 0;\n    n += on->o.nrows;\n    int more = n - 1;\n    if (more && on->lags) return;"),
    (ROW, REF, "int n = 0;\n    for (int k = 0; k < on->o.nrows; k++) n++;\n    if (n == 2) return;"),
    (ROW, REF, "on->word_regs = on->o.nrows;\n    if (on->word_regs > 1) return;"),
    (ROW, REF, "if (on->o.loop->carries.n > 2) return;"),
    (ROW, REF, "if (state_size(on) > 2) return;"),
    (ROW, REF, "static const int how[] = {0, 0, 1};\n    on->lags = how[on->o.nrows];"),
    (ROW, REF, "for (int k = 2; k < on->o.nrows; k++) on->lags = false;"),
    (ROW, REF, "for (int k = 0; k + 3 < on->o.nrows; k++) on->lags = false;"),
    (ROW, REF, "for (int k = 0; k < on->o.nrows && on->o.nrows != 3; k++) on->lags = false;"),
    (ROW, REF, "for (int k = 0; k < on->o.nrows; k++)\n        if (k == 2) on->lags = false;"),
    (ROW, REF, "for (int k = 0; k < (on->o.nrows > 2); k++) on->lags = false;"),
    (ROW, REF, "for (int k = 0; k < 1 && on->o.nrows; k++) on->lags = false;"),
    (ROW, FOLD, "if (x->c->red == on->o.row[0].c->red) return;"),
    (ROW, FOLD, "switch (x->c->red) { default: break; }"),
    (ROW, FOLD, "same &= x->c->red != RED_sum;"),
    (ROW, FOLD, "if (reduce_combine(x->c->red) == OP_max) return;"),
    (ROW, FOLD, "Reduce how = x->c->red;\n    if (how == on->o.row[0].c->red) return;"),
    (ROW, FOLD, "Op how = reduce_combine(x->c->red);\n    same &= how > OP_add;"),
    (ROW, FOLD, "is_known(x->c->red);"),
    (STEP, "    bool turns = l->s->pingpong;\n", "turns &= on->o.nproducts < 2;"),
    (IR, "    int rows = own_axis(f, a, b);\n", "if (o->nscores == 2) rows = -1;"),
    (IR, "static bool find_body(Find *f) {\n", 'const char *what = "softmax";\n    if (!what) return false;'),
    (IR, "static bool find_body(Find *f) {\n", "bool is_attention = false;\n    if (is_attention) return false;"),
    (IR, "    if (!o->nscores) return no(f->why, \"no product of matrices in the loop\");\n", None), # a stale reason
]


def script(tree):
    p = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/carries.py"), tree], capture_output=True, text=True,
                       timeout=60, check=False)
    return p.returncode, p.stdout + p.stderr


def plant(tree, path, after, what):
    text = open(os.path.join(ROOT, path), encoding="utf-8").read()
    if text.count(after) != 1:
        return None
    helper = "static int state_size(const On *on) {\n    return on->o.nrows + 1;\n}\n\n"
    new = text.replace(after, "" if what is None else after + "    " + what + "\n")
    if what and "state_size" in what:
        new = new.replace(REF, helper + REF)
    open(os.path.join(tree, path), "w", encoding="utf-8").write(new)
    return text


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as tree:
        for folder in ("ir", "passes", "backend"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(tree, folder))
        status, said = script(tree)
        if status:
            print("FAIL the tree as it is:\n" + said)
            failed += 1
        for path, after, what in PLANTS:
            old = plant(tree, path, after, what)
            if old is None:
                print("FAIL %s has not once: %s" % (path, after.strip()))
                failed += 1
                continue
            status, said = script(tree)
            if status != 1 or "carries: " + path not in said:
                print("FAIL not found in %s: %s\n%s" % (path, what, said))
                failed += 1
            open(os.path.join(tree, path), "w", encoding="utf-8").write(old)
        comment = os.path.join(tree, ROW)
        open(comment, "a", encoding="utf-8").write("\n/* softmax, if (on->o.nrows == 2) RED_max */\n")
        status, said = script(tree)
        if status:
            print("FAIL a comment is no code:\n" + said)
            failed += 1
    print("carries: %d plants, %d failed" % (len(PLANTS), failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
