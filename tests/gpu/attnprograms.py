"""The programs of the attention grid: one fn a file, a choice of operand type, mask, score, heads, layout,
normaliser, outputs, epilogue and producer. Every two values that may stand together do so as often as
this few programs allow, and the first FEW have every value; then come the usual ones.
"""
import collections
import itertools
import random

DOMAINS = {
    "dtype": ("bf16", "f16"),
    "mask": ("full", "causal", "topleft", "window", "band", "prefix", "documents", "starts", "lengths", "ragged",
             "blocks", "keep"),
    "score": ("plain", "cap", "alibi", "hst", "bhst", "bst", "st", "bt", "temper"),
    "heads": ("mha", "gqa", "mqa"),
    "layout": ("bshe", "bhse", "qkv", "kv"),
    "norm": ("softmax", "sink", "sigmoid", "product"),
    "outs": ("o", "lse", "all"),
    "otype": ("half", "f32", "other"),
    "after": ("none", "gate", "residual", "scale"),
    "before": ("none", "rope", "weight"),
    "dims": ("same", "two"),
}
FIELDS = tuple(DOMAINS)
COUNT, FEW = 42, 14
USUAL = """bf16 full mha bshe o same, f16 full mha bshe lse same, bf16 causal mha bshe lse same, f16 causal gqa bshe o same,
    bf16 causal gqa bhse lse two, bf16 causal mqa bshe o same, f16 window gqa bshe lse same, bf16 window mha bhse o two,
    bf16 causal mha qkv lse same, f16 full mha bhse o two, bf16 lengths gqa bshe o same, bf16 topleft mha bshe lse two,
    f16 causal gqa kv lse same, bf16 prefix mha bshe o same"""
# What --bind makes of some: E and V of dims `two`, E of `same`.
BOUND = {"same": (64, 128, 256, 96, 40, 80, 160, 248, 512, 32, 192, 48),
         "two": ((192, 128), (576, 512), (128, 64), (64, 256), (48, 80), (72, 200), (96, 192), (256, 40))}
BOUND_COUNT = 28


class Program(collections.namedtuple("Program", FIELDS + ("number",))):
    @property
    def name(self):
        return f"{self.dtype}_{self.mask}_{self.number:02d}_" + "_".join(
            v for v in (self.score, self.heads, self.layout, self.norm, self.outs, self.after, self.before)
            if v not in ("none", "plain", "softmax"))


def allowed(p):
    if p["layout"] == "qkv" and (p["heads"] != "mha" or p["dims"] != "same"):
        return False
    if p["layout"] == "kv" and p["dims"] != "same":
        return False
    return p["norm"] == "softmax" or p["outs"] == "o"


def singles_and_pairs(p):
    values = [(f, p[f]) for f in FIELDS]
    return set(values) | set(itertools.combinations(values, 2))


def programs():
    """Each is the best of some drawn: what has most that is new, a single value above all."""
    rng, seen, found = random.Random(5), set(), []
    while len(found) < COUNT:
        best = None
        for _ in range(300):
            p = {f: rng.choice(v) for f, v in DOMAINS.items()}
            if rng.random() < 0.7:
                p["norm"] = "softmax"
            if not allowed(p):
                continue
            new = singles_and_pairs(p) - seen
            score = sum(30 if isinstance(v[0], str) else 1 for v in new)
            if best is None or score > best[0]:
                best = score, p
        seen |= singles_and_pairs(best[1])
        found.append(Program(number=len(found), **best[1]))
    first = set().union(*(singles_and_pairs(p._asdict()) for p in found[:FEW]))
    missing = {(f, v) for f, values in DOMAINS.items() for v in values} - first
    if missing:
        raise SystemExit(f"attn: no early program has {sorted(missing)}")
    return found + [usual(line, COUNT + i) for i, line in enumerate(USUAL.split(","))]


def usual(line, number):
    p = {f: v[0] for f, v in DOMAINS.items()}
    p.update(zip(("dtype", "mask", "heads", "layout", "outs", "dims"), line.split()))
    return Program(number=number, **p)


def texts():
    """All programs: those with every size open, then some with the head dims bound."""
    plain = [Text(p) for p in programs()]
    bound, at = [], {"same": 0, "two": 0}
    for i in range(BOUND_COUNT):
        p = plain[COUNT + i // 2 if i % 2 else i * 3 // 2].p
        dims = BOUND[p.dims]
        value = dims[at[p.dims] % len(dims)]
        at[p.dims] += 1
        bound.append(Text(p, {"E": value} if p.dims == "same" else dict(zip("EV", value))))
    return plain + bound + [Text(t.p, arch="sm_80") for t in plain if t.p.number < FEW or t.p.number >= COUNT]


# ---- text ----

class Text:
    """The program's text; `params` are its tensors by name: (type, dims), `outputs` the names of outputs."""

    def __init__(self, p, bound=None, arch=""):
        self.p, self.bound, self.arch, self.params, self.outputs = p, bound or {}, arch, {}, []
        self.group = (2, 4, 8)[p.number % 3] if p.heads == "gqa" else 1
        self.width = (100, 1, 64, 700)[p.number % 4]
        self.V = "V" if p.dims == "two" else "E"
        self.T = "S" if p.layout == "qkv" else "T"
        self.body()

    @property
    def name(self):
        return self.p.name + "".join(f"_{n}{v}" for n, v in self.bound.items()) + ("_" + self.arch if self.arch else "")

    @property
    def sizes(self):
        """Those that are open."""
        return [n for n in ("B", "H", "S", "T", "E", "V") if n in (*"BHSE", self.T, self.V) and n not in self.bound]

    def tensor(self, name, dtype, dims):
        self.params[name] = (dtype, dims)

    def factors(self):
        """How q, k and v are read at a last index."""
        p, t = self.p, self.p.dtype
        head = {"mha": "h", "gqa": f"h/{self.group}", "mqa": None}[p.heads]
        heads = {"mha": "H", "gqa": f"H/{self.group}", "mqa": None}[p.heads]
        if p.layout == "qkv":
            self.tensor("qkv", t, "B, S, 3, H, E")
            return [lambda e, w=w, x=x: f"qkv[b, {x}, {w}, h, {e}]" for w, x in enumerate("ijj")]
        order = p.layout == "bhse"
        self.tensor("q", t, "B, H, S, E" if order else "B, S, H, E")
        q = lambda e: f"q[b, h, i, {e}]" if order else f"q[b, i, h, {e}]"  # noqa: E731
        if p.layout == "kv":
            self.tensor("kv", t, f"B, T, 2, {heads + ', ' if heads else ''}E")
            tail = f"{head}, " if head else ""
            return [q] + [lambda e, w=w: f"kv[b, j, {w}, {tail}{e}]" for w in (0, 1)]
        middle = [x for x in ((heads, "T") if order else ("T", heads)) if x]
        at = [x for x in ((head, "j") if order else ("j", head)) if x]
        for name, last in (("k", "E"), ("v", self.V)):
            self.tensor(name, t, ", ".join(["B", *middle, last]))
        return [q] + [lambda e, n=n: f"{n}[{', '.join(['b', *at])}, {e}]" for n in "kv"]

    def produced(self, q, k):
        """Lines that make q and k, and how they are read then."""
        p, lines = self.p, []
        if p.before == "none":
            return lines, q("e"), k("e")
        k_axes = {"mha": "b, h, j, e", "gqa": "b, y, j, e", "mqa": "b, j, e"}[p.heads]
        k_read = k_axes.replace("y", f"h/{self.group}")
        grouped = lambda e: k(e).replace(f"h/{self.group}", "y")  # noqa: E731
        if p.before == "weight":
            self.tensor("w", "f32", "E")
            lines.append(f"qr[b, h, i, e]: {p.dtype} = {q('e')} * w[e]")
            return lines, "qr[b, h, i, e]", k("e")
        for name, read, axes, at, n in (("qr", q, "b, h, i, e", "i", "S"), ("kr", grouped, k_axes, "j", self.T)):
            cs, sn = ("cs", "sn") if n == "S" else ("ct", "st")
            self.tensor(cs, "f32", f"{n}, E")
            self.tensor(sn, "f32", f"{n}, E")
            turned = read("(e + E/2) % E")
            lines.append(f"{name}[{axes}]: {p.dtype} = {read('e')} * {cs}[{at}, e] + "
                         f"select(e < E/2, -{turned}, {turned}) * {sn}[{at}, e]")
        return lines, "qr[b, h, i, e]", f"kr[{k_read}]"

    def scored(self, product):
        p, d, s = self.p, self.p.dtype, f"sum[e] {product}"
        scale = ("", "8 * ", "40 * ")[p.number % 3] if p.norm == "softmax" and p.before == "none" else ""
        s = f"{scale}E^-0.5 * {s}"
        t = ("f32", d)[p.number % 2]
        bias = {"hst": ("H, S, ", "h, i, j"), "bhst": ("B, H, S, ", "b, h, i, j"), "bst": ("B, S, ", "b, i, j"),
                "st": ("S, ", "i, j"), "bt": ("B, ", "b, j")}
        if p.score in bias:
            dims, at = bias[p.score]
            self.tensor("c", t, dims + self.T)
            return f"{s} + c[{at}]"
        if p.score == "cap":
            return f"5 * tanh(({s}) / 5)"
        if p.score == "alibi":
            self.tensor("slope", "f32", "H")
            return f"{s} - 0.1 * slope[h] * (i + {self.T} - S - j)"
        if p.score == "temper":
            self.tensor("tau", "f32", "B, H, S")
            return f"tau[b, h, i] * ({s})"
        return s

    def domain(self):
        p, T, w = self.p, self.T, self.width
        at = "i" if T == "S" else "i + T - S"
        if p.mask == "prefix":
            self.tensor("pre", "i32", "B")
        if p.mask in ("lengths", "ragged"):
            self.tensor("len", "i32", "B")
        if p.mask == "documents":
            self.tensor("idq", "i32", "B, S")
            self.tensor("idk", "i32", f"B, {T}")
        if p.mask == "starts":
            self.tensor("start", "i32", "B, S")
        if p.mask == "keep":
            self.tensor("keep", "bool", f"S, {T}")
        return {"full": "", "causal": f"j <= {at}", "topleft": "j <= i", "window": f"j <= {at} and {at} - j < {w}",
                "band": f"j - i <= 30 and i - j <= {w}", "prefix": f"j <= {at} or j < pre[b]",
                "documents": f"j <= {at} and idq[b, i] == idk[b, j]", "starts": f"start[b, i] <= j and j <= {at}",
                "lengths": "j < len[b]", "ragged": f"j <= {at} and j < len[b]", "blocks": "j <= i and i/100 == j/100",
                "keep": "keep[i, j]"}[p.mask]

    def body(self):
        p, at = self.p, "b, h, i, j"
        q, k, v = self.factors()
        lines, q, k = self.produced(q, k)
        v = v("f" if self.V == "V" else "e")
        e = "f" if self.V == "V" else "e"
        lines.append(f"s[{at}] = {self.scored(q + ' * ' + k)}")
        domain = self.domain()
        j = f"j where {domain}" if domain else "j"
        if p.norm == "sink":
            self.tensor("sink", "f32", "H")
            lines += [f"m[b, h, i] = max(max[{j}] s[{at}], sink[h])",
                      f"n[b, h, i] = sum[{j}] exp(s[{at}] - m[b, h, i]) + exp(sink[h] - m[b, h, i])",
                      f"u[b, h, i, {e}] = (sum[{j}] exp(s[{at}] - m[b, h, i]) * {v}) / n[b, h, i]"]
        elif p.norm == "softmax":
            lines += [f"p[{at}] = softmax[{j}](s[{at}])", f"u[b, h, i, {e}] = sum[j] p[{at}] * {v}"]
        else:
            weight = f"sigmoid(s[{at}])" if p.norm == "sigmoid" else f"s[{at}]"
            lines.append(f"u[b, h, i, {e}] = sum[{j}] {weight} * {v}")
        self.lines = lines
        self.lines += self.stores(e, j)

    def stores(self, e, j):
        p = self.p
        order = p.layout == "bhse"
        axes, dims = (f"b, h, i, {e}", f"B, H, S, {self.V}") if order else (f"b, i, h, {e}", f"B, S, H, {self.V}")
        u = f"u[b, h, i, {e}]"
        if p.after == "gate":
            self.tensor("g", p.dtype, dims)
            u = f"silu(g[{axes}]) * {u}"
        if p.after == "residual":
            self.tensor("r", "f32", dims)
            u = f"{u} + r[{axes}]"
        if p.after == "scale":
            self.tensor("z", "f32", "H")
            u = f"z[h] * {u}"
        other = {"bf16": "f16", "f16": "bf16"}[p.dtype]
        self.outputs = [("o", {"half": p.dtype, "f32": "f32", "other": other}[p.otype], dims)]
        if p.after == "none":
            lines = [f"o[{axes}] = {self.lines.pop().split(' = ', 1)[1]}"]
        else:
            lines = [f"o[{axes}] = {u}"]
        if p.outs in ("lse", "all"):
            self.outputs.append(("l", "f32", "B, H, S"))
            lines.append(f"l[b, h, i] = logsumexp[{j}](s[b, h, i, j])")
        if p.outs == "all":
            self.outputs.append(("x", "f32", "B, H, S"))
            lines.append(f"x[b, h, i] = max[{j}] s[b, h, i, j]")
        return lines

    def render(self):
        options = [f"--bind {n}={v}" for n, v in self.bound.items()] + [f"--arch={self.arch}"] * bool(self.arch)
        head = "# fkc: " + " ".join(options) + "\n" if options else ""
        params = ", ".join(f"{n}: {t}[{d}]" for n, (t, d) in self.params.items())
        outs = ", ".join(f"{n}: {t}[{d}]" for n, t, d in self.outputs)
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"{head}fn {self.name}({params})\n    -> ({outs})\n{{\n{body}}}\n"


# ---- wrong references ----

# What --check must find: the kernels of a program against the reference of another.
WRONG = {
    "diagonal": ("j <= i", "j < i + select(i == 0, 1, 0)"),
    "window": ("j <= i and i - j < 64", "j <= i and i - j < 65"),
    "length": ("j < len[b]", "j < len[b] + 1"),
    "scale": ("j <= i", None),
    "share": ("j <= i", None),
}


def wrong(name):
    """Two programs of the same signature: what runs, and what it is held against."""
    where, other = WRONG[name]
    out = []
    for turn in range(2):
        d = other if turn and other else where
        scale, share = ("1.01 * " if turn and name == "scale" else ""), ("1.005 * " if turn and name == "share" else "")
        out.append(f"fn wrong_{name}(q: bf16[B, S, H, E], k: bf16[B, S, H, E], v: bf16[B, S, H, E], len: i32[B])\n"
                   f"    -> (o: f32[B, S, H, E], l: f32[B, H, S])\n{{\n"
                   f"    s[b, h, i, j] = {scale}8 * E^-0.5 * sum[e] q[b, i, h, e] * k[b, j, h, e]\n"
                   f"    p[b, h, i, j] = softmax[j where {d}](s[b, h, i, j])\n"
                   f"    o[b, i, h, e] = {share}sum[j] p[b, h, i, j] * v[b, j, h, e]\n"
                   f"    l[b, h, i] = logsumexp[j where {d}](s[b, h, i, j])\n}}\n")
    return out
