"""The rows of attention_suites.py: their tensors, what they must give, computed in f32, and the other side,
as torch calls it. torch is handed in.
"""
import math

from runner import Case, Out

AT_ONCE = 1 << 28  # elements of a block of scores of the reference


def reference(torch, q, k, v, score=None, keep=None):
    """o[B, S, H, E] and log-sum-exp[B, H, S] in f32, of q[B, S, H, E], k and v[B, T, H/G, E]. score(b, h, i,
    j, s) is what the softmax is taken of, keep(b, h, i, j) its domain; h, i, j are of shapes that broadcast."""
    B, S, H, E = q.shape
    T, group = k.shape[1], H // k.shape[2]
    o = torch.empty(B, S, H, v.shape[3], device=q.device)
    l = torch.empty(B, H, S, device=q.device)
    at = lambda first, last: torch.arange(first, last, device=q.device)  # noqa: E731
    heads = max(1, min(H, AT_ONCE // max(1, S * T)))
    rows = max(1, min(S, AT_ONCE // max(1, heads * T)))
    for b in range(B):
        for h0 in range(0, H, heads):
            h = at(h0, min(H, h0 + heads))
            kk, vv = (x[b][:, h // group].transpose(0, 1).float() for x in (k, v))
            for i0 in range(0, S, rows):
                i = at(i0, min(S, i0 + rows))
                s = q[b, i][:, h].transpose(0, 1).float() @ kk.transpose(1, 2) * E ** -0.5
                where = (b, h[:, None, None], i[None, :, None], at(0, T)[None, None, :])
                if score:
                    s = score(*where, s)
                if keep:
                    s = s.masked_fill(~keep(*where), -math.inf)
                m = s.amax(2, keepdim=True)
                p = (s - m).exp_()
                total = p.sum(2, keepdim=True)
                o[b, i0:i0 + len(i), h] = ((p @ vv) / total).transpose(0, 1)
                l[b, h, i0:i0 + len(i)] = (m + total.log())[:, :, 0]
    return o, l


def randn(torch, dtype, *shape):
    return torch.randn(*shape, device=DEVICE).to(dtype)


DEVICE = "cuda"
causal = lambda b, h, i, j: j <= i  # noqa: E731


def qkv(torch, row, dtype):
    n = row.sizes
    return [randn(torch, dtype, n["B"], n["S"], n["H"], n["E"]) for _ in range(3)]


def sdpa(torch, q, k, v, is_causal=False, gqa=False, any_kernel=False):
    """cuDNN's kernel: an error if it has none; or the one that torch chooses."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend = SDPBackend.CUDNN_ATTENTION if DEVICE == "cuda" else SDPBackend.MATH
    if any_kernel:
        backend = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION,
                   SDPBackend.MATH]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))

    def call():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal,
                                                                    enable_gqa=gqa).transpose(1, 2)
    return call


def flex(torch, row, q, k, v, score=None, keep=None):
    """FlexAttention, compiled; its block mask is made before."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    B, S, H, _ = q.shape
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    mask = create_block_mask(keep, B if keep.__name__ == "by_batch" else None, None, S, S, device=DEVICE) if keep else None
    call = torch.compile(flex_attention, dynamic=False, mode=row.against.split()[1])
    return lambda: call(q, k, v, score_mod=score, block_mask=mask).transpose(1, 2)


# ---- a fn each ----

BARS = {"bf16": (3e-3, 0.0625), "f16": (4e-4, 0.0079)}  # of the accuracy table; the element's, as error() has it


def case_square(torch, row, maker):
    is_causal = row.fn.startswith("causal")
    kind = "f16" if "f16" in row.file.split("_") else "bf16"
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[kind]
    q, k, v = qkv(torch, row, dtype)
    if row.shape.endswith("q*100"):
        q *= 100
    o = torch.empty_like(q)
    want, want_l = reference(torch, q, k, v, keep=causal if is_causal else None)
    outs = [Out(o, want, *BARS[kind], by_row=True)]
    if row.fn.endswith("_lse"):
        l = torch.empty(want_l.shape, device=DEVICE)
        outs.append(Out(l, want_l, 1e-5, 1e-4))
    if row.against == "our bf16":
        tensors = [x.bfloat16() for x in (q, k, v)] + [torch.empty_like(o, dtype=torch.bfloat16)]
        other = maker.ours(row.module.replace("attention_f16", "attention"), row.fn, tensors)
        return Case([q, k, v], outs, lambda: (other(), tensors[3])[1], keep=tensors)
    return Case([q, k, v], outs, sdpa(torch, q, k, v, is_causal))


def case_mods(torch, row, maker):
    q, k, v = qkv(torch, row, torch.bfloat16)
    B, S, H, _ = q.shape
    extra, score, keep = [], None, causal
    if row.fn == "softcap":
        score = lambda b, h, i, j, s: 30 * torch.tanh(s / 30)  # noqa: E731
    elif row.fn == "window":
        keep = lambda b, h, i, j: (j <= i) & (i - j < 1024)  # noqa: E731
    elif row.fn == "alibi":
        slope = torch.exp2(-8 * torch.arange(1, H + 1, device=DEVICE) / H)
        extra, score = [slope], lambda b, h, i, j, s: s - slope[h] * (i - j)
    elif row.fn == "bias":
        c = randn(torch, torch.bfloat16, H, S, S)
        extra, score, keep = [c], lambda b, h, i, j, s: s + c[h, i, j], None
    elif row.fn == "bias_all":
        c = randn(torch, torch.bfloat16, B, H, S, S + 4)[:, :, :, :S]
        extra, score, keep = [c], lambda b, h, i, j, s: s + c[b, h, i, j], None
    else:
        extra, keep = documents(torch, row, B, S)
    # FlexAttention's functions take the score first.
    theirs = None
    if row.against:
        theirs = flex(torch, row, q, k, v, score and (lambda s, b, h, i, j: score(b, h, i, j, s)), keep)
    o = torch.empty_like(q)
    want, _ = reference(torch, q, k, v, score, keep)
    return Case([q, k, v] + extra, [Out(o, want, *BARS["bf16"], by_row=True)], theirs)


def documents(torch, row, B, S):
    """Of random lengths, eight in a row."""
    g = torch.Generator().manual_seed(7)
    cuts = [torch.cat((torch.zeros(1, dtype=torch.long), torch.randperm(S - 1, generator=g)[:7].sort().values + 1))
            for _ in range(B)]
    starts = torch.zeros(B, S, dtype=torch.long)
    for b, cut in enumerate(cuts):
        starts[b, cut] = cut
    starts = starts.cummax(1).values.to(DEVICE)
    ids = (starts[:, 1:] != starts[:, :-1]).cumsum(1)
    ids = torch.cat((torch.zeros(B, 1, dtype=torch.long, device=DEVICE), ids), 1)

    def by_batch(b, h, i, j):
        return (j <= i) & (ids[b, i] == ids[b, j])
    return [(ids if row.fn == "document" else starts).int()], by_batch


def case_decode(torch, row, maker):
    n = row.sizes
    B, H, T, E = n["B"], n["H"], n["T"], n["E"]
    q = randn(torch, torch.bfloat16, B, H, E)
    k, v = (randn(torch, torch.bfloat16, B, T, H // 4, E) for _ in range(2))
    want, _ = reference(torch, q[:, None], k, v)
    o = torch.empty_like(q)
    inputs, theirs = [q, k, v], None
    if row.fn == "decode":
        call = sdpa(torch, q[:, None], k, v, gqa=True, any_kernel=row.against == "SDPA")
        theirs = lambda: call()[:, 0]  # noqa: E731
    else:
        inputs.append(torch.full((B,), T, dtype=torch.int32, device=DEVICE))
    if row.fn == "paged":
        tab = torch.randperm(n["P"], device=DEVICE)[:B * T // 16].int()
        pages = [torch.full((n["P"], 16, H // 4, E), math.nan, dtype=torch.bfloat16, device=DEVICE) for _ in (k, v)]
        for page, x in zip(pages, (k, v)):
            page[tab.long()] = x.reshape(B * T // 16, 16, H // 4, E)
        inputs[1:3] = pages
        inputs.insert(3, tab.reshape(B, T // 16))
    return Case(inputs, [Out(o, want[:, 0], *BARS["bf16"], by_row=True)], theirs)


def case_ce(torch, row, maker):
    n, f = row.sizes, torch.nn.functional
    M, K, V = n["M"], n["K"], n["V"]
    x, w = randn(torch, torch.bfloat16, M, K), (torch.randn(V, K, device=DEVICE) / math.sqrt(K)).bfloat16()
    label = torch.randint(V, (M,), device=DEVICE)
    want, wide = torch.empty(M, device=DEVICE), w.float()
    for m in range(0, M, 1024):
        want[m:m + 1024] = f.cross_entropy(x[m:m + 1024].float() @ wide.t(), label[m:m + 1024], reduction="none")
    del wide
    theirs = torch.compile(lambda x, w, y: f.cross_entropy(f.linear(x, w).float(), y, reduction="none"),
                           mode=row.against, dynamic=False)
    c = Case([x, w, label.int()], [Out(torch.empty(M, device=DEVICE), want, 2e-5, 1.2e-4)], lambda: theirs(x, w, label))
    if DEVICE == "cuda":
        c.theirs()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        c.theirs()
        torch.cuda.synchronize()
        c.notes["their workspace"] = torch.cuda.max_memory_allocated() - before
    return c


CASES = {fn: case_square for fn in ("full", "causal", "full_lse", "causal_lse")}
CASES |= {fn: case_mods for fn in ("softcap", "window", "alibi", "bias", "bias_all", "document", "document_start")}
CASES |= {fn: case_decode for fn in ("decode", "decode_len", "paged")}
CASES["cross_entropy"] = case_ce
