#!/usr/bin/env python3
"""Proof that the online kernel does not ask how many values its loop carries, or which.

    carries.py [TREE]      reads the code; exit status 1 and the places where it does (ctest: carries.code)

The files of the kernel (ir/online*.c, backend/nvptx/online*.c) may loop over carries, scores and products,
multiply by how many there are (registers, bytes), refuse more than the arrays hold, and ask a table
(reduce.def, op.def) about a reduction. They may not
    name a reduction                    RED_max
    compare, test or switch on a count or a reduction, or on what was made of one: a local, a member, the
    result of a function of these files
    hand either to a function that is not known to take it as an amount or to look it up in a table
but for the places in ALLOWED, each with its reason; a reason whose place is gone is a fault, too. Nor may
ir, passes and backend have the name of a composite function (softmax, attention) in code or in strings.
What it means is checked by running it: tests/emu/carries.py.
"""
import glob
import os
import re
import sys

FILES = ["ir/online*.c", "backend/nvptx/online*.c"]
NAMED = ["ir", "passes", "backend"]
NAMES = re.compile(r"softmax|attention|log_?sum_?exp|\blse\b|flash_?att|cross_?entropy", re.I)

COUNTS = {"nrows", "nproducts", "nscores", "nfactors"}
KINDS = {"red"}
# Look a reduction up in a table; what reduce_combine gives is as good as the reduction.
TABLES = {"identity", "eval_identity", "reduce_combine", "reduce_name", "op_traits", "op_emit", "eval_op"}
# Take a count as an amount: bytes, elements, lanes.
AMOUNTS = {"ARENA_ARRAY", "wg_at_stage", "i32c", "ptx_hold", "no"}
# Made of counts, and no longer one.
AMOUNT = {
    "smem": "bytes, of which there are so many",
    "registers": "registers, of which there are so many",
    "on_part_sums": "elements of a row, of which there are so many",
    "on_part_bytes": "bytes, of which there are so many",
    "piece_regs": "registers, of which there are so many",
    "factor": "the number of a product's element: a place",
    "factors": "as above, of all",
}

ALLOWED = {
    "ir/online.c": {
        "bool adds = c->type == DT_f32 && reduce_combine(c->red) == OP_add": "tensor cores add",
        "if (!o->nscores) return no(f->why,": "without a score it is no such program",
        "for (int q = 0; q + 1 < o->nproducts; q++)": "all before the last, which is new",
        "if (p->factor == o->nfactors) o->nfactors++": "equal factors have one number",
    },
    "ir/online_tiles.c": {
        "if (o->nscores != 1 || out->nstaged != 1 ||": "slabs over the rows' factor: its size is told for one",
    },
    "backend/nvptx/online_load.c": {
        "if (!on->o.nproducts) return": "nothing to load: the ring V is not used",
    },
    "backend/nvptx/online_scrub.c": {
        "if (!on->o.nproducts || !(end ? on->scrub_hi : on->scrub_lo)) return": "no factors in the ring V",
    },
    "backend/nvptx/online_skip.c": {
        "if (what == BAR_V && !on->o.nproducts) return": "the ring V is not used",
    },
    "backend/nvptx/online_stream.c": {
        "return (on->l->s->pingpong || window) && on->l->s->persistent": "without products nothing is made meanwhile",
    },
    "backend/nvptx/online_step.c": {
        "on_wait_scores(on, &b, sums && on->o.nproducts ? 1 : 0)": "else nothing else is in flight",
    },
    "backend/nvptx/online_wgmma.c": {
        "if (!on->o.nproducts) return": "the ring V is not used",
        "ptx_wgmma_rows(l, &w, s->factor[x->factor] + part.from / 4,": "the first opens, the last commits the group",
    },
}

KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else", "case"}
COMPARES = {"==", "!=", "<", ">", "<=", ">="}
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[A-Za-z_]\w*|\d[\w.]*|->|\+\+|--|<<=|>>=|<<|>>|'
                   r"[=!<>+\-*/%&|^]=|&&|\|\||[^\s]")
ASSIGNS = {"=", "+=", "-=", "*=", "/=", "|=", "&="}


def without_comments(text):
    def blank(m):
        return m.group(0) if m.group(0)[0] in "\"'" else re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|/\*.*?\*/|//[^\n]*', blank, text, flags=re.S)


class Function:
    """Tokens of one function: words, the line of each, and the bracket that each stands in."""

    def __init__(self, path, name, tokens):
        self.path, self.name = path, name
        self.word = [t for t, _ in tokens]
        self.line = [n for _, n in tokens]
        self.around, self.opener, stack = [], {}, []
        for i, w in enumerate(self.word):
            if w in ")]}" and stack:
                self.opener[i] = stack.pop()
            self.around.append(stack[-1] if stack else -1)
            if w in "([{":
                stack.append(i)
        self.tainted, self.index = set(), set()

    def statement(self, i):
        """The text from the start of the statement that word i is in, one space where there were some."""
        k = i
        while k > 0 and (self.word[k - 1] not in ";{}" or self.in_for(k - 1)):
            k -= 1
        return self.word[k:]

    def in_for(self, i):
        a = self.around[i]
        return a > 0 and self.word[a] == "(" and self.word[a - 1] == "for"


def functions(path, text):
    """Function bodies: at depth 0, NAME ( ... ) {."""
    tokens = []
    for n, line in enumerate(text.split("\n"), 1):
        if not line.startswith("#"):
            tokens += [(m.group(0), n) for m in TOKEN.finditer(line)]
    depth, start, at = 0, 0, 0
    for i, (w, _) in enumerate(tokens):
        if w == "{":
            if not depth:
                at = i
            depth += 1
        elif w == "}":
            depth -= 1
            if not depth:
                head = [t for t, _ in tokens[start:at]]
                if "(" in head and ")" in head:
                    yield Function(path, head[head.index("(") - 1], tokens[at:i + 1])
                start = i + 1
        elif w == ";" and not depth:
            start = i + 1


def is_source(f, i, returning):
    """Is word i a count, a reduction, or made of one?"""
    w, before = f.word[i], f.word[i - 1]
    after = f.word[i + 1] if i + 1 < len(f.word) else ""
    if w.startswith("RED_"):
        return True
    member = before in ("->", ".")
    if w in AMOUNT:
        return False
    if w == "reduce_combine":
        return True
    if w in COUNTS or (member and w in KINDS):
        return True
    if member and w == "n" and f.word[i - 2] == "carries":
        return True
    if after == "(" and w in returning and not member:
        return True
    return not member and w in f.tainted and after != "("


def segment(f, i):
    """The operand or comparison that word i is in: from, to; at its own depth."""
    stop = {",", ";", "}", "&&", "||", "?", ":", "return"} | ASSIGNS
    a = i
    while a - 1 > f.around[i] and not (f.around[a - 1] == f.around[i] and f.word[a - 1] in stop):
        a -= 1
    b = i
    while b + 1 < len(f.word) and not (f.around[b + 1] == f.around[i] and f.word[b + 1] in stop):
        if f.around[b + 1] < f.around[i]:
            break
        b += 1
    return a, b


def same_depth(f, a, b, depth):
    return [f.word[k] for k in range(a, b + 1) if f.around[k] == depth]


def callee(f, paren):
    name = f.word[paren - 1]
    return name if re.match(r"[A-Za-z_]", name) and name not in KEYWORDS else None


def for_clause(f, i):
    """0, 1, 2 of the for that word i stands right in; None."""
    p = f.around[i]
    if not f.in_for(i):
        return None
    return sum(1 for k in range(p + 1, i) if f.word[k] == ";" and f.around[k] == p)


def loop_of_all(f, paren, a, k):
    """for (int x = 0; x < ..., x++): from the first one by one."""
    head, x = "".join(f.word[paren + 1:a]), f.word[a]
    if k != a + 1 or head != "int%s=0;" % x:
        return False
    f.index.add(x)
    return True


def judge(f, i, returning):
    """What becomes of the value of word i: None, nothing; a fault; or taints a local or the function."""
    while i > 0:
        paren = f.around[i]
        a, b = segment(f, i)
        words = same_depth(f, a, b, paren)
        compares = [w for w in words if w in COMPARES]
        clause = for_clause(f, i)
        if clause == 1 and compares == ["<"]:
            k = next(k for k in range(a, b + 1) if f.word[k] == "<" and f.around[k] == paren)
            if i < k or not loop_of_all(f, paren, a, k):
                return "compared"
            f.tainted |= set(counters(f, paren))
            return None
        if compares:
            if any(w.startswith("ONLINE_") for w in words) and compares == ["=="]:
                return None # as many as there is room for
            return "compared"
        if "!" in words[:2] or clause == 1:
            return "tested"
        before = f.word[a - 1] if a else ""
        after = f.word[b + 1] if b + 1 < len(f.word) else ""
        if before in ("&&", "||") or after in ("&&", "||", "?"):
            return "tested"
        if before in ASSIGNS:
            return "taint"
        if before == "return":
            return "return"
        opener = f.word[paren]
        if opener == "[":
            return "an index"
        if opener == "{":
            if b + 1 < len(f.word) and f.word[b + 1] in ASSIGNS:
                return None # is set
            return None if f.word[paren - 1] in (")", "else", "do", ";", "{", "}") else "taint"
        name = callee(f, paren)
        if name:
            if name in TABLES or name in AMOUNTS:
                return None
            return "handed to %s()" % name
        if f.word[paren - 1] in ("if", "while", "switch"):
            return "tested"
        i = paren # a bracket of the expression: the whole of it


def body_of(f, paren):
    """The words after a for's brackets that it repeats: from, to."""
    end = next(k for k, o in f.opener.items() if o == paren)
    a = b = end + 1
    while b < len(f.word) and not (f.around[b] == f.around[paren] and f.word[b] in ";}"):
        b += 1
    return a, b


def counters(f, paren):
    """Numbers that are counted up in a loop over all."""
    a, b = body_of(f, paren)
    for k in range(a, b):
        if f.word[k + 1] == "++" and f.word[k - 1] not in ("->", ".") and not f.in_for(k):
            yield f.word[k]


def left_side(f, i):
    a, _ = segment(f, i)
    k = a - 1
    while k > 0 and f.word[k] not in ASSIGNS:
        k -= 1
    k -= 1
    while f.word[k] == "]":
        k = f.opener[k] - 1
    return f.word[k]


def faults(fs):
    returning, members = set(), set()
    found = {}
    for _ in range(8):
        found, before = {}, (len(returning), len(members), sum(len(f.tainted) for f in fs))
        for f in fs:
            for i in range(1, len(f.word)):
                member = f.word[i - 1] in ("->", ".") and f.word[i] in members and f.word[i] not in AMOUNT
                if not member and not is_source(f, i, returning):
                    continue
                if f.word[i].startswith("RED_"):
                    found[f.path, f.line[i], i] = (f, "named")
                    continue
                at = i
                while f.word[at - 1] in ("->", "."): # the whole of a.b->c
                    at -= 2
                    while f.word[at] == "]":
                        at = f.opener[at] - 1
                if is_set(f, i) or f.word[i + 1] == "++":
                    continue
                what = judge(f, at, returning)
                if what == "return":
                    returning.add(f.name)
                elif what == "taint":
                    name = left_side(f, at)
                    k = [k for k in range(1, i) if f.word[k] == name]
                    (members if k and f.word[k[-1] - 1] in ("->", ".") else f.tainted).add(name)
                elif what:
                    found[f.path, f.line[i], i] = (f, what)
        if before == (len(returning), len(members), sum(len(f.tainted) for f in fs)):
            break
    for f in fs: # the number of a carry tells how many there are
        for i in range(1, len(f.word) - 1):
            if f.word[i] in f.index and f.word[i - 1] not in ("->", "."):
                a, b = segment(f, i)
                words = same_depth(f, a, b, f.around[i])
                if COMPARES & set(words) and any(w[0].isdigit() for w in words):
                    found[f.path, f.line[i], i] = (f, "compared with a number")
    return found


def is_set(f, i):
    return f.word[i + 1:i + 2] == ["="] or f.word[i - 1:i] == ["."] and f.word[i - 2:i - 1] in (["{"], [","])


def squeeze(text):
    return re.sub(r"\s+", "", text)


def check_code(tree):
    bad, fs = [], []
    for pattern in FILES:
        paths = sorted(glob.glob(os.path.join(tree, pattern)))
        if not paths:
            bad.append("%s: no such file" % pattern)
        for path in paths:
            text = without_comments(open(path, encoding="utf-8").read())
            fs += functions(os.path.relpath(path, tree), text)
    if not any(is_source(f, i, ()) for f in fs for i in range(1, len(f.word))):
        bad.append("no count of carries is used anywhere: this script reads the wrong words")
    used = set()
    for (path, line, i), (f, what) in sorted(faults(fs).items(), key=lambda x: x[0]):
        text = "".join(f.statement(i))
        allowed = next((a for a in ALLOWED.get(path, {}) if text.startswith(squeeze(a))), None)
        if allowed:
            used.add((path, allowed))
        else:
            bad.append("%s:%d: %s: '%s' is %s" % (path, line, f.name, f.word[i], what))
    for path, rows in ALLOWED.items():
        bad += ["%s: '%s' is allowed, but not there" % (path, a) for a in rows if (path, a) not in used]
    return bad, len(fs)


def check_names(tree):
    bad = []
    for folder in NAMED:
        for path in sorted(glob.glob(os.path.join(tree, folder, "**", "*.[chly]"), recursive=True) +
                           glob.glob(os.path.join(tree, folder, "**", "*.def"), recursive=True)):
            text = without_comments(open(path, encoding="utf-8").read())
            for n, line in enumerate(text.split("\n"), 1):
                m = NAMES.search(line)
                if m:
                    bad.append("%s:%d: '%s' is named" % (os.path.relpath(path, tree), n, m.group(0)))
    return bad


def main():
    tree = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    bad, n = check_code(tree)
    bad += check_names(tree)
    for b in bad:
        print("carries: " + b)
    if not bad:
        print("carries: %d functions ask neither how many nor which; %d places have a reason" %
              (n, sum(len(rows) for rows in ALLOWED.values())))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
