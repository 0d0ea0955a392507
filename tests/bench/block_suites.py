"""The suites of block.py.

`python3 block_suites.py` prints the modules, a line each: NAME FILE, and what is bound.
"""
import os
from dataclasses import dataclass

from runner import Bar, Case, Out

D, H, E, F = 4096, 32, 128, 14336
TOKENS = {"block": 4096, "short": 1024}
COMPILE_MODE = os.environ.get("COMPILE_MODE", "max-autotune-no-cudagraphs")


@dataclass
class Row:
    suite: str
    group: str
    shape: str
    module: str
    work: float  # multiply-adds, twice
    against: str = COMPILE_MODE
    flush: str = "zero"
    unit: str = "TFLOP/s"
    limit: int = 600
    sleep: int = 2000000
    rounds: int = 25
    launches: int = 1

    fn = "transformer_block"
    file = "block"
    free = {}


def row(suite):
    t = TOKENS[suite]
    linears = 2 * t * D * (4 * H * E + 3 * F)
    attention = 2 * 2 * H * E * t * (t + 1) / 2
    return Row(suite, "block", f"{t}x{D}", f"block_{t}", linears + attention)


def rotated(torch, x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def wanted(torch, x, g1, wq, wk, wv, cs, sn, wo, g2, wg, wu, wd):
    """f32, rounded where the program rounds."""
    def bf(v):
        return v.bfloat16().float()

    def norm(v, g):
        return bf(v * torch.rsqrt((v * v).mean(1, keepdim=True) + 1e-6) * g)
    n = norm(x, g1)
    q, k, v = (bf(torch.einsum("tc,hec->the", n, w)) for w in (wq, wk, wv))
    q, k = (bf(z * cs[:, None] + rotated(torch, z) * sn[:, None]) for z in (q, k))
    a = torch.empty_like(v)
    mask = torch.ones(len(x), len(x), device=x.device).tril().bool()
    for h in range(v.shape[1]):
        s = (q[:, h] @ k[:, h].T * E ** -0.5).masked_fill(~mask, float("-inf"))
        a[:, h] = bf(torch.softmax(s, 1) @ v[:, h])
    r = bf(x + torch.einsum("the,dhe->td", a, wo))
    m = norm(r, g2)
    b = bf(torch.nn.functional.silu(m @ wg.T) * (m @ wu.T))
    return r + b @ wd.T


def by_torch(torch):
    """What a user would write and compile, on bf16 tensors."""
    f = torch.nn.functional

    def block(x, g1, wq, wk, wv, cs, sn, wo, g2, wg, wu, wd):
        n = f.rms_norm(x, (x.shape[1],), g1, 1e-6)
        q, k, v = (f.linear(n, w.flatten(0, 1)).unflatten(1, (w.shape[0], w.shape[1])) for w in (wq, wk, wv))
        q, k = ((z * cs[:, None] + rotated(torch, z) * sn[:, None]).to(z.dtype) for z in (q, k))
        q, k, v = (z.transpose(0, 1)[None] for z in (q, k, v))
        a = f.scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1)
        r = x + f.linear(a.flatten(1, 2), wo.flatten(1, 2))
        m = f.rms_norm(r, (r.shape[1],), g2, 1e-6)
        return r + f.linear(f.silu(f.linear(m, wg)) * f.linear(m, wu), wd)
    return block


def kernels(torch, call):
    """Kernels on the device in one call."""
    from torch.profiler import ProfilerActivity, profile
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as p:
        call()
        torch.cuda.synchronize()
    return sum(str(e.device_type).endswith("CUDA") and "mem" not in e.name.lower()[:4] for e in p.events())


def case(torch, row, maker):
    t = int(row.shape.split("x")[0])

    def drawn(*shape, scale=1.0):
        return (torch.randn(*shape, device="cuda") * scale).bfloat16()
    angle = torch.arange(t, device="cuda")[:, None] * 10000 ** (-torch.arange(0, E, 2, device="cuda") / E)
    cs, sn = (torch.cat((z, z), 1).float().contiguous() for z in (angle.cos(), angle.sin()))
    inputs = [drawn(t, D), drawn(D), *(drawn(H, E, D, scale=D ** -0.5) for _ in range(3)), cs, sn,
              drawn(D, H, E, scale=D ** -0.5), drawn(D), drawn(F, D, scale=D ** -0.5),
              drawn(F, D, scale=D ** -0.5), drawn(D, F, scale=F ** -0.5)]
    want = wanted(torch, *(z.float() for z in inputs))
    torch._dynamo.reset()
    compiled = torch.compile(by_torch(torch), mode=row.against, dynamic=False)
    theirs = (lambda: compiled(*inputs))
    c = Case(inputs, [Out(torch.empty_like(inputs[0]), want, 1e-2, 0.2)], theirs)
    c.notes["their kernels"] = kernels(torch, theirs)
    return c


SUITES = {name: (lambda seed, name=name: [row(name)]) for name in TOKENS}
CASES = {"transformer_block": case}
BARS = [Bar("block", "block", least=1.05), Bar("short", "block")]

if __name__ == "__main__":
    for tokens in TOKENS.values():
        print(f"block_{tokens} tests/bench/block.fk", *(f"--bind={n}={v}" for n, v in
              (("T", tokens), ("D", D), ("H", H), ("F", F))))
