"""The suites of gemm.py: which rows there are and what they must reach (no torch needed), and how the
tensors, the reference and the other side of a row are made (torch is handed in).
"""
import math
import os
import random
from dataclasses import dataclass

from runner import Bar, Case, Out

NINE = ["4096x4096x4096", "8192x8192x8192", "8192x8192x1024", "8192x8192x512", "16384x4096x4096",
        "1000x4104x4096", "512x4096x4096", "256x4096x4096", "64x4096x4096"]
SUMS = {"swiglu": 2, "qkv": 3}  # products of one shape in a kernel
THRICE = {"4096x4096x4096", "8192x8192x8192", "16384x4096x4096"}  # back to back in a sample
COMPILE_MODE = os.environ.get("COMPILE_MODE", "max-autotune-no-cudagraphs")  # max-autotune copies every input


@dataclass
class Row:
    suite: str
    group: str   # rows of one bar
    fn: str
    shape: str   # MxNxK
    module: str = "gemm"
    against: str = ""
    flush: str = "zero"
    unit: str = "TFLOP/s"
    limit: int = 60  # seconds after which the row is given up
    sleep: int = 200000

    @property
    def launches(self):
        return 3 if self.shape in THRICE else 1

    @property
    def free(self):
        """Sizes that the module leaves open."""
        names = ("N", "K") if self.fn == "matvec" else ("M", "N", "K")
        return {} if "unseen_" in self.module else {n: v for n, v in zip(("M", "N", "K"), sizes(self)) if n in names}

    @property
    def work(self):
        """FLOP, or bytes of the weights."""
        m, n, k = sizes(self)
        n *= SUMS.get(self.fn, 1)
        return 2 * n * k if self.unit == "TB/s" else 2 * m * n * k


BARS = [
    Bar("nine", "plain", mean=1.0),
    Bar("nine", "gelu_bias", mean=1.08, least=0.99),
    Bar("nine", "relu_bias", mean=1.04, least=0.97),
    Bar("orders", "nn tn tt", mean=0.97),
    Bar("orders", "nt"),
    Bar("unseen", "sizes bound", mean=1.03),
    Bar("unseen", "sizes unbound"),
    Bar("gated", "4096", least=1.25),
    Bar("gated", "8192", least=1.10),
    Bar("swiglu", "one product of both weights, then pointwise", least=1.03),
    Bar("swiglu", "two products, then pointwise", least=1.03),
    Bar("swiglu", "thin"),
    Bar("qkv", "one product of all weights"),
    Bar("qkv", "three products"),
    Bar("odd", "N=4097", least=4.0),
    Bar("odd", "K=4095", least=1.0),
    Bar("fp8", "fast, row scales", least=1.0),
    Bar("fp8", "fast, they: tensor scales"),
    Bar("fp8", "promoted, row scales", least=0.97),
    Bar("fp8", "promoted, they: tensor scales"),
    Bar("fp8block", "scales of 1 x 128 and 128 x 128", least=0.9),
    Bar("thin", "16 rows", least=1.0),
    Bar("thin", "K=16384", least=0.95),
    Bar("thin", "64 rows, gelu", least=0.99),
    Bar("thin", "1 row", tbs=3.6),
    Bar("thin", "1 row, dirty L2"),
    Bar("thin", "vector", tbs=3.6),
    Bar("w4a16", "16 rows", least=2.0),
    Bar("w4a16", "4096 rows", least=0.8),
    Bar("w4a16", "others"),
    Bar("sm80", "mma.sync", tflops=380),
    Bar("sm80", "orders"),
    Bar("sm80", "split along k"),
]


def unseen_shapes(seed, count=6):
    """Uniform; the largest takes 8 GB with its reference."""
    r = random.Random(seed)
    return [f"{r.randint(100, 20000)}x{8 * r.randint(32, 2048)}x{8 * r.randint(32, 2048)}" for _ in range(count)]


def suite_nine(seed):
    menu = [("plain", "mm"), ("gelu_bias", "GELU_BIAS"), ("relu_bias", "RELU_BIAS")]
    return [Row("nine", f, f, s, against=t) for s in NINE for f, t in menu]


def suite_orders(seed):
    rows = []
    for s in ("4096x4096x4096", "8192x8192x8192"):
        rows += [Row("orders", "nn tn tt", f, s, module="mm_orders", against="mm") for f in ("nn", "tn", "tt")]
        rows += [Row("orders", "nt", "plain", s, against="mm")]
    return rows


def suite_unseen(seed):
    """Compiled for the sizes (unseen_pack.sh), and by the module that serves all sizes."""
    return [Row("unseen", f"sizes {how}", "gelu_bias", s, against="GELU_BIAS",
                module=f"unseen_{s}" if how == "bound" else "gemm")
            for how in ("bound", "unbound") for s in unseen_shapes(seed)]


def suite_gated(seed):
    return [Row("gated", s.split("x")[0], "gated", s, module="gemm_gated", against=COMPILE_MODE, limit=240,
                sleep=1000000) for s in ("4096x4096x4096", "8192x8192x8192")]


def suite_swiglu(seed):
    """The first half of a gated MLP; cuBLAS with the weights side by side, or one after the other."""
    rows = [Row("swiglu", how, "swiglu", s, module="mm_sums", against=how.split()[0], limit=240, sleep=1000000)
            for s in ("8192x14336x4096", "4096x14336x4096", "2048x8192x2048")
            for how in ("one product of both weights, then pointwise", "two products, then pointwise")]
    return rows + [Row("swiglu", "thin", "swiglu", f"{m}x14336x4096", module="mm_sums", against="one", limit=240)
                   for m in (1, 16, 64)]


def suite_qkv(seed):
    return [Row("qkv", how, "qkv", s, module="mm_sums", against=how.split()[0], limit=240)
            for s in ("8192x4096x4096", "4096x2048x2048", "16x4096x4096")
            for how in ("one product of all weights", "three products")]


def suite_odd(seed):
    return [Row("odd", "N=4097", "plain", "4095x4097x4096", against="mm"),
            Row("odd", "K=4095", "plain", "4096x4096x4095", against="mm")]


def suite_fp8(seed):
    return [Row("fp8", f"{a}, {'' if s == 'row' else 'they: '}{s} scales", "scaled", "8192x8192x8192",
                module="gemm_fp8_fast" if a == "fast" else "gemm_fp8", against=f"scaled_mm {s} {a}")
            for a in ("fast", "promoted") for s in ("row", "tensor")]


def suite_fp8block(seed):
    return [Row("fp8block", "scales of 1 x 128 and 128 x 128", "block_scaled", s, module="gemm_fp8block",
                against="scaled_mm block") for s in ("4096x7168x2048", "8192x8192x8192")]


def suite_thin(seed):
    return [Row("thin", "16 rows", "plain", "16x4096x4096", against="mm"),
            Row("thin", "K=16384", "plain", "512x512x16384", against="mm"),
            Row("thin", "64 rows, gelu", "gelu_bias", "64x4096x4096", against="GELU_BIAS"),
            Row("thin", "1 row", "plain", "1x8192x8192", against="mm", flush="read", unit="TB/s"),
            Row("thin", "1 row, dirty L2", "plain", "1x8192x8192", against="mm", unit="TB/s"),
            Row("thin", "vector", "matvec", "1x8192x8192", module="gemm_thin", against="mv", flush="read",
                unit="TB/s")]


def suite_w4a16(seed):
    """Dequantised inside the loop; they multiply weights that are bf16 in memory."""
    return [Row("w4a16", group, "w4a16", f"{m}x8192x8192", module="gemm_w4", against="mm")
            for group, m in (("16 rows", 16), ("4096 rows", 4096), ("others", 1), ("others", 64), ("others", 512))]


SPLIT = ("2048x2048x2048", "512x512x8192", "64x4096x4096", "16x4096x4096", "16x14336x4096", "16x1024x8192")


def suite_sm80(seed):
    """Modules of --arch=sm_80: mma.sync, whose PTX the driver compiles for the GPU at hand."""
    return [Row("sm80", "mma.sync", "gelu_bias", s, module="gemm_sm80", against="GELU_BIAS")
            for s in ("4096x4096x4096", "8192x8192x8192")] + \
           [Row("sm80", "orders", f, "4096x4096x4096", module="mm_orders_sm80", against="mm") for f in ("nn", "tn", "tt")] + \
           [Row("sm80", "split along k", "gelu_bias", s, module="gemm_sm80", against="GELU_BIAS") for s in SPLIT]


SUITES = {"nine": suite_nine, "orders": suite_orders, "unseen": suite_unseen, "gated": suite_gated,
          "swiglu": suite_swiglu, "qkv": suite_qkv,
          "odd": suite_odd, "fp8": suite_fp8, "fp8block": suite_fp8block, "thin": suite_thin, "w4a16": suite_w4a16, "sm80": suite_sm80}


# ---- tensors, reference, the other side ----

def sizes(row):
    return [int(v) for v in row.shape.split("x")]


def bf16(torch, *shape, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).bfloat16()


def case_plain(torch, row, maker):
    m, n, k = sizes(row)
    x, w = bf16(torch, m, k), bf16(torch, n, k, scale=2 / math.sqrt(k))
    y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return Case([x, w], [Out(y, x.float() @ w.float().t())], lambda: torch.mm(x, w.t()))


def case_bias(torch, row, maker):
    c = case_plain(torch, row, maker)
    x, w = c.inputs
    b = bf16(torch, w.shape[0])
    z = c.outs[0].want + b.float()
    gelu = row.fn == "gelu_bias"
    c.outs[0].want = torch.nn.functional.gelu(z, approximate="tanh") if gelu else torch.relu(z)
    c.inputs = [x, w, b]
    c.theirs = lambda: torch.ops.aten._addmm_activation(b, x, w.t(), use_gelu=gelu)
    return c


def case_order(torch, row, maker):
    m, n, k = sizes(row)
    ta, tb = row.fn[0] == "t", row.fn[1] == "t"
    a = bf16(torch, *((k, m) if ta else (m, k)))
    b = bf16(torch, *((n, k) if tb else (k, n)), scale=2 / math.sqrt(k))
    av, bv = a.t() if ta else a, b.t() if tb else b
    y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return Case([a, b], [Out(y, av.float() @ bv.float())], lambda: torch.mm(av, bv))


def case_gated(torch, row, maker):
    c = case_plain(torch, row, maker)
    x, w = c.inputs
    m, n, k = sizes(row)
    b, r = bf16(torch, n), bf16(torch, m, n)
    f = torch.nn.functional
    c.outs[0].want = f.silu(c.outs[0].want + b.float()) * r.float() + r.float()
    c.inputs = [x, w, b, r]
    fused = torch.compile(lambda x, w, b, r: f.silu(f.linear(x, w, b)) * r + r, mode=COMPILE_MODE, dynamic=False)
    c.theirs = lambda: fused(x, w, b, r)
    return c


def weights(torch, row):
    """x, the weights in one tensor, and each of them (views, dense)."""
    m, n, k = sizes(row)
    count = SUMS[row.fn]
    both = bf16(torch, count * n, k, scale=2 / math.sqrt(k))
    return bf16(torch, m, k), both, list(both.chunk(count))


def case_swiglu(torch, row, maker):
    x, both, (g, u) = weights(torch, row)
    silu = torch.nn.functional.silu
    want = silu(x.float() @ g.float().t()) * (x.float() @ u.float().t())
    n = g.shape[0]
    of_one = torch.compile(lambda z: silu(z[:, :n].float()).mul(z[:, n:]).bfloat16(), mode=COMPILE_MODE, dynamic=False)
    of_two = torch.compile(lambda a, b: silu(a.float()).mul(b).bfloat16(), mode=COMPILE_MODE, dynamic=False)
    one = row.against == "one"
    return Case([x, g, u], [Out(torch.empty_like(want, dtype=torch.bfloat16), want)],
                lambda: of_one(torch.mm(x, both.t())) if one else of_two(torch.mm(x, g.t()), torch.mm(x, u.t())))


def case_qkv(torch, row, maker):
    x, all_of_them, w = weights(torch, row)
    want = [x.float() @ v.float().t() for v in w]
    outs = [Out(torch.empty_like(v, dtype=torch.bfloat16), v) for v in want]
    n = w[0].shape[0]
    if row.against == "one":
        return Case([x, *w], outs, lambda: torch.mm(x, all_of_them.t())[:, :n])
    return Case([x, *w], outs, lambda: [torch.mm(x, v.t()) for v in w][0])


def case_scaled(torch, row, maker):
    m, n, k = sizes(row)
    e4m3, fast = torch.float8_e4m3fn, row.against.endswith("fast")
    x, w = torch.randn(m, k, device="cuda").to(e4m3), torch.randn(n, k, device="cuda").to(e4m3)
    sx, sw = torch.rand(m, device="cuda") + 0.5, (torch.rand(n, device="cuda") + 0.5) / math.sqrt(k)
    y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    z = x.float() @ w.float().t()
    want = z * sx[:, None] * sw[None, :]
    if "tensor" in row.against:
        one = torch.ones((), device="cuda")
        a, b, theirs_want = one, one, z
    else:
        a, b, theirs_want = sx[:, None].contiguous(), sw[None, :].contiguous(), None
    c = Case([x, w, sx, sw], [Out(y, want)], lambda: torch._scaled_mm(
        x, w.t(), scale_a=a, scale_b=b, out_dtype=torch.bfloat16, use_fast_accum=fast), theirs_want)
    if fast:
        c.outs[0].norm, c.outs[0].most = 5e-3, 0.1
    return c


def blocks(torch, row):
    """Scales of 1 x 128 of x and of 128 x 128 of w, and for each element."""
    m, n, k = sizes(row)
    sx = torch.rand(m, k // 128, device="cuda") + 0.5
    sw = (torch.rand(n // 128, k // 128, device="cuda") + 0.5) / math.sqrt(k)
    return sx, sw, sx.repeat_interleave(128, 1), sw.repeat_interleave(128, 0).repeat_interleave(128, 1)


def case_block_scaled(torch, row, maker):
    """Theirs with the same scales (of x column by column, as they ask), or with those of tensors where they
    have none: which is said."""
    m, n, k = sizes(row)
    x, w = (torch.randn(v, k, device="cuda").to(torch.float8_e4m3fn) for v in (m, n))
    sx, sw, each_x, each_w = blocks(torch, row)
    want = (x.float() * each_x) @ (w.float() * each_w).t()
    one = torch.ones((), device="cuda")

    def scaled_mm(a, b):
        return torch._scaled_mm(x, w.t(), scale_a=a, scale_b=b, out_dtype=torch.bfloat16, use_fast_accum=False)
    scales, theirs_want, name = (sx.t().contiguous().t(), sw.t()), None, "block"
    try:
        scaled_mm(*scales)
    except Exception as e:
        print(f"scaled_mm with block scales: {e}")
        scales, theirs_want, name = (one, one), x.float() @ w.float().t(), "tensor"
    y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    c = Case([x, w, sx, sw], [Out(y, want)], lambda: scaled_mm(*scales), theirs_want)
    c.notes["their scales"] = name
    return c


def case_matvec(torch, row, maker):
    _, n, k = sizes(row)
    x, w = bf16(torch, k), bf16(torch, n, k, scale=2 / math.sqrt(k))
    y = torch.empty(n, device="cuda", dtype=torch.bfloat16)
    return Case([x, w], [Out(y, w.float() @ x.float())], lambda: torch.mv(w, x))


def nibbles(torch, n, k):
    """Numbers from 0 to 15, and the same packed, low half first."""
    q = torch.randint(0, 16, (n, k), device="cuda", dtype=torch.uint8)
    packed = (q[:, 0::2] | (q[:, 1::2] << 4)).contiguous()
    packed.nibbles = True
    return q, packed


def case_w4a16(torch, row, maker):
    m, n, k = sizes(row)
    (q, qp), (z, zp) = nibbles(torch, n, k), nibbles(torch, n, k // 128)
    x = bf16(torch, m, k)
    s = ((torch.rand(n, k // 128, device="cuda") + 0.5) / (4 * math.sqrt(k))).bfloat16()
    wide = [v.repeat_interleave(128, dim=1).float() for v in (z, s)]
    w = ((q.float() - wide[0]) * wide[1]).bfloat16()
    y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return Case([x, qp, zp, s], [Out(y, x.float() @ w.float().t())], lambda: torch.mm(x, w.t()))


CASES = {"plain": case_plain, "gelu_bias": case_bias, "relu_bias": case_bias, "nn": case_order,
         "tn": case_order, "tt": case_order, "gated": case_gated, "scaled": case_scaled,
         "block_scaled": case_block_scaled,
         "w4a16": case_w4a16, "swiglu": case_swiglu, "qkv": case_qkv,
         "matvec": case_matvec}

