"""The programs of the grid: matrix products whose epilogues are of every kind, one fn a file.

A program is a choice of operand type, memory order, epilogue operand, activation, outputs, output type
and batch. Every operand type and every order meets every value of all the others (fp8 has one order);
what else can meet does so as often as this few programs allow.
"""
import collections
import itertools

FP8 = ("e4m3", "e5m2")
ORDERS = ("nt", "nn", "tn", "tt")  # n: K is the second index of x, the first of w; t: the other way
DOMAINS = {
    "dtype": ("bf16", "f16") + FP8,
    "order": ORDERS,
    "operand": ("none", "scalarrow", "col", "rowcol", "scales", "mat32h", "mat16b8", "trans", "share", "index", "gated"),
    "act": ("none", "relu", "gelu", "gelu_tanh", "silu"),
    "outs": ("plain", "aux", "copies", "rowred", "colred"),
    "otype": ("f32", "f16", "bf16") + FP8,
    "batch": ("none", "both", "one", "group"),
}
FIELDS = tuple(DOMAINS)
SEEDS = 9  # programs of 16-bit types in the order nt, besides those that pairs need


class Program(collections.namedtuple("Program", FIELDS + ("number",))):
    @property
    def name(self):
        parts = [self.dtype, self.order, self.operand, self.act, self.outs, self.otype]
        return "_".join(parts + ([self.batch] if self.batch != "none" else []))


def allowed(p):
    """Can these values of some fields stand together?"""
    if p.get("dtype") in FP8 and p.get("order", "nt") != "nt":
        return False
    if p.get("operand") == "share" and p.get("batch") == "none":
        return False
    if p.get("operand") == "gated" and p.get("act", "silu") != "silu":
        return False
    return not (p.get("outs") == "copies" and p.get("otype", "f32") != "f32")


def pairs(p):
    return {((a, p[a]), (b, p[b])) for a, b in itertools.combinations(FIELDS, 2)}


def all_pairs(needed):
    """Pairs of values that may meet: those that must, of an operand type or an order with another field;
    or all, but for batches, lest most programs have one."""
    found = set()
    for a, b in itertools.combinations(FIELDS, 2):
        if a not in ("dtype", "order") and (needed or b == "batch"):
            continue
        for x, y in itertools.product(DOMAINS[a], DOMAINS[b]):
            if allowed({a: x, b: y}):
                found.add(((a, x), (b, y)))
    return found


def factors():
    """(dtype, order, operand) of every program."""
    found = []
    for i, operand in enumerate(DOMAINS["operand"]):
        half = DOMAINS["dtype"][:2]
        for j, order in enumerate(("nn", "tn", "tt")):
            found.append((half[(i + j) % 2], order, operand))
        found += [(t, "nt", operand) for t in FP8]
    for i in range(SEEDS):
        found.append((("bf16", "f16")[i % 2], "nt", DOMAINS["operand"][(2 * i + 1) % len(DOMAINS["operand"])]))
    return found


def programs():
    """The other fields of each program: what meets most that has not met yet, then what is rarest."""
    left, needed, use, found = all_pairs(False), all_pairs(True), collections.Counter(), []
    rest = [f for f in FIELDS if f not in ("dtype", "order", "operand")]
    for number, (dtype, order, operand) in enumerate(factors()):
        best = None
        for values in itertools.product(*(DOMAINS[f] for f in rest)):
            p = dict(zip(FIELDS, (dtype, order, operand) + values))
            if not allowed(p):
                continue
            rarity = sum(use[(f, p[f])] for f in rest if f != "batch") + 100 * (p["batch"] != "none")
            new = pairs(p) & left
            score = (len(new) + 9 * len(new & needed), -rarity)
            if best is None or score > best[0]:
                best = score, p
        p = best[1]
        left -= pairs(p)
        use.update((f, p[f]) for f in FIELDS)
        found.append(Program(number=number, **p))
    missing = needed & left
    if missing:
        raise SystemExit(f"grid: pairs that no program has: {sorted(missing)}")
    if len({p.name for p in found}) != len(found):
        raise SystemExit("grid: two programs are the same")
    return found


# ---- text ----

class Text:
    """The parts of a program's text. `names` are its tensors: outputs in `outputs`, matrices in
    `matrices`, vectors in `vectors`."""

    def __init__(self, p):
        self.p, self.params, self.outputs, self.vectors, self.matrices = p, [], [], [], []
        self.vector_type = ("f32", "bf16", "f16")[p.number % 3]
        b = {"none": [], "both": ["b"], "one": ["b"], "group": ["b", "h"]}[p.batch]
        self.head = "".join(i + ", " for i in b)
        self.dims = {"b": "B, ", "b, h, ": "B, H, ", "b, ": "B, ", "": ""}[self.head]
        self.sizes = ["M", "N", "K"] + [i.upper() for i in b]

    def tensor(self, kind, name, dtype, dims):
        self.params.append(f"{name}: {dtype}[{dims}]" if dims else f"{name}: {dtype}")
        if kind is not None:
            kind.append(name)

    def factor(self, name, batched, group, first, second):
        """One of x and w, whose indices are first, second; its text in the sum."""
        dims, head = ("", "") if not batched else (self.dims, self.head)
        if group:
            dims, head = "B, H/4, ", "b, h/4, "
        self.tensor(None, name, self.p.dtype, f"{dims}{first.upper()}, {second.upper()}")
        return f"{name}[{head}{first}, {second}]"

    def product(self):
        p = self.p
        of_x = p.batch in ("both", "group") or (p.batch == "one" and p.number % 2 == 0)
        of_w = p.batch in ("both", "group") or (p.batch == "one" and p.number % 2 == 1)
        x = self.factor("x", of_x, False, *("mk" if p.order[0] == "n" else "km"))
        w = self.factor("w", of_w, p.batch == "group", *("nk" if p.order[1] == "t" else "kn"))
        # so that an activation is not saturated, nor lost, whatever K is
        scale = "" if p.act == "none" and p.operand != "index" else "3 * (K + 64)^-0.5 * "
        return f"{scale}sum[k] {x} * {w}"

    def matrix(self, name, dtype, dims=None, index=None):
        self.tensor(self.matrices, name, dtype, dims or self.dims + "M, N")
        return f"{name}[{index or self.head + 'm, n'}]"

    def vector(self, name, dtype, dim):
        self.tensor(self.vectors, name, dtype, dim)
        return f"{name}[{dim.lower()}]"

    def before(self):
        """The value before the activation."""
        p, a = self.p, self.product()
        v = self.vector_type
        if p.operand == "scalarrow":
            self.tensor(None, "s", "f32", "")
            return f"s * {a} + {self.vector('r', v, 'M')}"
        if p.operand in ("col", "gated"):
            return f"{a} + {self.vector('c', v, 'N')}"
        if p.operand == "rowcol":
            return f"{a} + {self.vector('c', v, 'N')} + {self.vector('r', 'f32', 'M')}"
        if p.operand == "scales":
            return f"{self.vector('r', 'f32', 'M')} * {self.vector('c', 'f32', 'N')} * {a}"
        if p.operand == "mat32h":
            return f"{self.matrix('p', 'f16')} * {a} + {self.matrix('q', 'f32')}"
        if p.operand == "mat16b8":
            return f"{a} + {self.matrix('q', 'bf16')} + {self.matrix('p', FP8[p.number % 2])}"
        if p.operand == "trans":
            return f"{a} + {self.matrix('t', v, self.dims + 'N, M', self.head + 'n, m')}"
        if p.operand == "share":
            return f"{a} + {self.matrix('q', v, 'M, N', 'm, n')}"
        if p.operand == "index":
            return f"{a} + 0.001 * (m - n)"
        return a

    def after(self):
        """The value after the activation, of u[..]."""
        p, u = self.p, f"u[{self.head}m, n]"
        v = u if p.act == "none" else f"{p.act}({u})"
        if p.operand == "gated":
            q = self.matrix("q", self.vector_type)
            return f"silu({u}) * {q} + {q}"
        if p.operand == "index":
            reduced = p.outs in ("rowred", "colred")
            # a row has some values, of which a few may cancel: fp8 sums are held against the row
            return f"select(n <= m + 7, {v}, {'0.0' if reduced or p.number % 2 else '-inf'})"
        return v

    def output(self, name, dtype, dims):
        self.outputs.append((name, dtype))
        return f"{name}: {dtype}[{self.dims}{dims}]"

    def render(self):
        p, i = self.p, self.head + "m, n"
        lines = [f"u[{i}] = {self.before()}", f"g[{i}] = {self.after()}", f"y[{i}] = g[{i}]"]
        outs = [self.output("y", p.otype, "M, N")]
        reduce = ("sum", "max")[p.number // 2 % 2]
        if p.outs == "aux":
            outs.append(self.output("z", ("bf16", "f32", "f16")[p.number % 3], "M, N"))
            lines.append(f"z[{i}] = u[{i}]")
        if p.outs == "copies":
            outs.append(self.output("z", "bf16", "M, N"))
            lines.append(f"z[{i}] = g[{i}]")
        if p.outs == "rowred":
            outs.append(self.output("z", "f32", "M"))
            lines.append(f"z[{self.head}m] = {reduce}[n] g[{i}]")
        if p.outs == "colred":
            outs.append(self.output("z", "f32", "N"))
            lines.append(f"z[{self.head}n] = {reduce}[m] g[{i}]")
        body = "".join(f"    {s}\n" for s in lines)
        return f"fn {p.name}({', '.join(self.params)})\n    -> ({', '.join(outs)})\n{{\n{body}}}\n"


# ---- programs and wrong references ----

# What --check must find: the kernels of a program against the reference of another.
WRONG = {
    "bias": ("bf16", "a[m, n]", "a[m, n] - c[n]"),
    "activation": ("f32", "gelu(a[m, n])", "gelu_tanh(a[m, n])"),
    "sign": ("bf16", "relu(a[m, n])", "a[m, n]"),
    "diagonal": ("bf16", "select(n <= m, a[m, n], 0.0)", "select(n < m, a[m, n], 0.0)"),
    "term": ("bf16", "a[m, n]", "a[m, n] - x[m, K - 1] * w[n, K - 1]"),
    "share": ("bf16", "a[m, n]", "1.005 * a[m, n]"),
    "element": ("bf16", "a[m, n]", "select(m == 5 and n == 7, a[m, n] + 1, a[m, n])"),
    "column": ("f32", "a[m, n] + m", "a[m, n] + m + select(n == N - 1, 1, 0)"),
}


def wrong(name):
    """Two programs of the same signature: what runs, and what it is held against."""
    dtype, right, other = WRONG[name]
    return [f"fn wrong_{name}(x: bf16[M, K], w: bf16[N, K], c: f32[N]) -> (y: {dtype}[M, N])\n{{\n"
            f"    a[m, n] = sum[k] x[m, k] * w[n, k] + c[n]\n    y[m, n] = {value}\n}}\n"
            for value in (right, other)]
