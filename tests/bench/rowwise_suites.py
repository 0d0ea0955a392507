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


def suite_rows(seed):
    return [row("rows", "all", fn, m, n) for fn in STREAMS for m, n in SHAPES]


def suite_long(seed):
    return [row("long", "few long rows", fn, m, n) for fn, m, n in
            (("softmax", 4, 65536), ("softmax", 4, 1000000), ("layernorm", 7, 50257))]


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
    c = Case(inputs, outs, theirs)
    half = torch.empty(row.work // 2, dtype=torch.uint8, device="cuda")
    to = torch.empty_like(half)
    times, _ = maker.benchlib.timed([lambda: to.copy_(half)], 15, 1, row.flush, row.sleep)
    c.notes["copy"] = row.work / times[0][0] / 1e9
    return c


SUITES = {"rows": suite_rows, "long": suite_long}
CASES = {fn: case for fn in STREAMS}
BARS = [Bar("rows", "all", mean=1.10, least=0.97, share=0.88), Bar("long", "few long rows", least=1.0)]

if __name__ == "__main__":
    print("rowwise tests/bench/rowwise.fk")
