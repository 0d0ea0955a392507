"""The suites of rowwise.py: their rows, tensors, what they must give, torch's side, and the bars.

`python3 rowwise_suites.py` prints the modules, a line each: NAME FILE, and what is bound.
"""
import os
from dataclasses import dataclass

from runner import Bar, Case, Out

SHAPES = ((16384, 4096), (65536, 1024), (4096, 16384))
COMPILE_MODE = os.environ.get("COMPILE_MODE", "max-autotune-no-cudagraphs")
STREAMS = {"layernorm": 2, "rmsnorm": 2, "softmax": 2, "residual_layernorm": 4, "bias_gelu": 2}
BOUND = os.environ.get("ROWWISE_BOUND", "")


@dataclass
class Row:
    suite: str
    group: str
    fn: str
    shape: str
    sizes: dict
    work: float  # bytes
    against: str = COMPILE_MODE
    flush: str = "zero"
    unit: str = "TB/s"
    limit: int = 120
    sleep: int = 400000
    rounds: int = 25
    launches: int = 1

    module = "rowwise"
    file = "rowwise"

    @property
    def free(self):
        return self.sizes


def row(suite, group, fn, m, n):
    return Row(suite, group, fn, f"{m}x{n}", {"M": m, "N": n}, STREAMS[fn] * m * n * 2)


def sized(suite, group, fn, streams, **sizes):
    """A row of other sizes than M and N; streams: tensors of all sizes that are read or written."""
    elements = 1
    for n in sizes.values():
        elements *= n
    return Row(suite, group, fn, "x".join(str(n) for n in sizes.values()), sizes, streams * elements * 2)


def suite_rows(seed):
    return [row("rows", "all", fn, m, n) for fn in STREAMS for m, n in SHAPES]


def suite_long(seed):
    return [row("long", "few long rows", fn, m, n) for fn, m, n in
            (("softmax", 4, 65536), ("softmax", 4, 1000000), ("layernorm", 7, 50257))]


def suite_more(seed):
    """What has no row in the issue's table: sums, columns, several axes, short rows, other orders."""
    rows = [sized("more", "long", "total", 1, M=m, N=n) for m, n in ((16384, 4096), (1000, 1000))]
    rows += [sized("more", "long", "logsumexp", 1, M=m, N=n) for m, n in ((16, 1000000), (4096, 32000))]
    rows += [sized("more", "long", "vector", 2, N=n) for n in (50000, 4000000)]
    rows += [sized("more", "long", fn, 2, M=m, N=n) for fn in ("softmax", "layernorm")
             for m, n in ((512, 131072), (1000, 33000), (33, 4097))]
    rows += [sized("more", "short", fn, 2, M=m, N=n) for fn in ("softmax", "rmsnorm")
             for m, n in ((1000000, 8), (1000000, 64), (300000, 100))]
    rows += [sized("more", "columns", fn, streams, M=m, N=n) for fn, streams in (("bias_grad", 1), ("norm_grads", 2))
             for m, n in SHAPES + ((1000000, 64),)]
    rows += [sized("more", "axes", "group_norm", 2, B=b, G=32, C=c, H=h, W=h) for b, c, h in ((32, 10, 56), (64, 4, 14))]
    rows += [sized("more", "axes", "layernorm_two", 2, B=4096, C=64, W=64),
             sized("more", "axes", "batch_mean", 1, B=64, C=256, H=56, W=56)]
    rows += [sized("more", "orders", "transpose", 2, M=m, N=n) for m, n in ((8192, 8192), (16384, 1000))]
    rows += [sized("more", "orders", "heads_apart", 3, B=8, T=4096, H=32, D=64),
             sized("more", "points", "swiglu_points", 3, B=8, T=4096, H=32, D=64)]
    return rows


def norm(torch, fn, x, g, b):
    f = torch.nn.functional
    if fn == "rmsnorm":
        return x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * g
    if fn == "softmax":
        return torch.softmax(x, 1)
    if fn == "bias_gelu":
        return f.gelu(x + b)
    return f.layer_norm(x, (x.shape[1],), g, b, 1e-5)


def by_torch(torch, fn):
    """What a user would write and compile, on bf16 tensors."""
    f = torch.nn.functional
    if fn == "rmsnorm":
        return lambda x, g: f.rms_norm(x, (x.shape[1],), g, 1e-5)
    if fn == "softmax":
        return lambda x: torch.softmax(x, 1)
    if fn == "bias_gelu":
        return lambda x, b: f.gelu(x + b)
    if fn == "layernorm":
        return lambda x, g, b: f.layer_norm(x, (x.shape[1],), g, b, 1e-5)

    def both(x, r, g, b):
        h = x + r
        return h, f.layer_norm(h, (x.shape[1],), g, b, 1e-5)
    return both


def noted(torch, row, maker, c):
    half = torch.empty(row.work // 2, dtype=torch.uint8, device="cuda")
    to = torch.empty_like(half)
    times, _ = maker.benchlib.timed([lambda: to.copy_(half)], 15, 1, row.flush, row.sleep)
    c.notes["copy"] = row.work / times[0][0] / 1e9
    return c


def case(torch, row, maker):
    m, n, fn = row.sizes["M"], row.sizes["N"], row.fn
    x, r = (torch.randn(m, n, device="cuda").bfloat16() for _ in range(2))
    g, b = (torch.randn(n, device="cuda").bfloat16() for _ in range(2))
    inputs = {"layernorm": [x, g, b], "rmsnorm": [x, g], "softmax": [x], "bias_gelu": [x, b],
              "residual_layernorm": [x, r, g, b]}[fn]
    wants = []
    if fn == "residual_layernorm":
        wants.append((x.float() + r.float()).bfloat16().float())
    wants.append(norm(torch, fn, wants[0] if wants else x.float(), g.float(), b.float()))
    outs = [Out(torch.empty_like(x), want, 3e-3, 0.02) for want in wants]
    torch._dynamo.reset()
    compiled = torch.compile(by_torch(torch, fn), mode=row.against, dynamic=False)
    theirs = (lambda: compiled(*inputs)[0]) if len(wants) > 1 else (lambda: compiled(*inputs))
    return noted(torch, row, maker, Case(inputs, outs, theirs))


def group_norm(torch, x, g, b):
    """Of x[b, g, c, h, w], by groups and channels as torch has them."""
    y = torch.nn.functional.group_norm(x.flatten(1, 2), x.shape[1], g.flatten(), b.flatten(), 1e-5)
    return y.view(x.shape)


def others(torch):
    """fn: dimensions of its inputs (letters of its sizes), of its outputs and their type; the mathematics, which
    is what a user would compile, too."""
    f = torch.nn.functional
    top = torch.float32
    return {
        "total": (["MN"], [("", top)], lambda x: x.sum(dtype=top)),
        "logsumexp": (["MN"], [("M", top)], lambda x: torch.logsumexp(x.float(), 1)),
        "vector": (["N"], [("N", None)], lambda x: torch.softmax(x, 0)),
        "bias_grad": (["MN"], [("N", top)], lambda d: d.sum(0, dtype=top)),
        "norm_grads": (["MN", "MN"], [("N", top), ("N", top)],
                       lambda d, x: ((d.float() * x.float()).sum(0), d.sum(0, dtype=top))),
        "group_norm": (["BGCHW", "GC", "GC"], [("BGCHW", None)], lambda x, g, b: group_norm(torch, x, g, b)),
        "layernorm_two": (["BCW", "CW"], [("BCW", None)],
                          lambda x, g: f.layer_norm(x, x.shape[1:], g, None, 1e-5)),
        "batch_mean": (["BCHW"], [("C", top)], lambda x: x.mean((0, 2, 3), dtype=top)),
        "transpose": (["MN"], [("NM", None)], lambda x: x.t().contiguous()),
        "heads_apart": (["BTHD", "BHTD"], [("BHTD", None)], lambda x, r: (f.gelu(x.transpose(1, 2)) + r).contiguous()),
        "swiglu_points": (["BTHD", "BTHD"], [("BTHD", None)], lambda x, u: f.silu(x) * u),
    }


def other_case(torch, row, maker):
    ins, outs, fn = others(torch)[row.fn]
    def shape(dims):
        return [row.sizes[d] for d in dims]
    inputs = [torch.randn(shape(dims), device="cuda").bfloat16() for dims in ins]
    wants = fn(*[x.float() for x in inputs])
    wants = list(wants) if isinstance(wants, tuple) else [wants]
    made = [Out(torch.empty(shape(dims), device="cuda", dtype=kind or torch.bfloat16), want, 3e-3, 0.02)
            for (dims, kind), want in zip(outs, wants)]
    torch._dynamo.reset()
    compiled = torch.compile(fn, mode=row.against, dynamic=False)
    theirs = (lambda: compiled(*inputs)[0]) if len(wants) > 1 else (lambda: compiled(*inputs))
    return noted(torch, row, maker, Case(inputs, made, theirs))


SUITES = {"rows": suite_rows, "long": suite_long, "more": suite_more}
OTHERS = ("total", "logsumexp", "vector", "bias_grad", "norm_grads", "group_norm", "layernorm_two", "batch_mean",
          "transpose", "heads_apart", "swiglu_points")
CASES = {**{fn: case for fn in STREAMS}, **{fn: other_case for fn in OTHERS}}
BARS = [Bar("rows", "all", mean=1.10, least=0.97, share=0.88), Bar("long", "few long rows", least=1.0)]
BARS += [Bar("more", group, least=1.0) for group in ("long", "short", "columns", "axes", "orders", "points")]

if __name__ == "__main__":
    print("rowwise tests/bench/rowwise.fk")
