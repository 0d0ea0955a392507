"""The suites of attention.py: which rows there are, of which modules, and what they must reach (no torch
needed). attention_cases.py makes their tensors, the references and the other sides.

`python3 attention_suites.py` prints the modules, a line each: NAME FILE, and options of fkc.
"""
import os
from dataclasses import dataclass, replace

import attention_cases
from runner import Bar

HEAD_DIMS, LENGTHS = (64, 128, 256), (1024, 4096, 16384)
TOKENS, WIDTH = 16384, 2048  # B * S and H * D
FLEX_MODE = os.environ.get("FLEX_MODE", "default")
COMPILE_MODE = os.environ.get("COMPILE_MODE", "max-autotune-no-cudagraphs")


@dataclass
class Row:
    suite: str
    group: str    # rows of one bar
    fn: str
    shape: str
    file: str     # the program, in this folder unless it has a folder
    sizes: dict
    work: float   # FLOP or bytes
    against: str = "cuDNN"
    module: str = ""
    flush: str = "zero"
    unit: str = "TFLOP/s"
    limit: int = 60
    sleep: int = 400000
    rounds: int = 25
    launches: int = 1
    bound: tuple = ("E",)  # sizes that the module has as constants
    util: float = None  # the bar of a row of `util`
    arch: str = ""      # the chip that the module is made for, if not this one

    def __post_init__(self):
        self.module = self.module or module_name(self.file, {n: self.sizes[n] for n in self.bound}, self.arch)

    @property
    def free(self):
        """Sizes that the module leaves open."""
        return {n: v for n, v in self.sizes.items() if n not in self.bound}


def module_name(file, binds, arch):
    return "_".join([os.path.basename(file)] + [f"{n}{v}" for n, v in binds.items()] + ([arch] if arch else []))


def bound(row):
    """The same row on the module with every size bound."""
    return replace(row, module="", bound=tuple(row.sizes))


def modules():
    """{name: (file, options of fkc)} of all rows, both ways."""
    rows = [r for suite in SUITES.values() for r in suite(None)]
    return {r.module: (r.file, [f"--bind {n}={r.sizes[n]}" for n in r.bound] + [f"--arch={r.arch}"] * bool(r.arch))
            for r in rows + [bound(r) for r in rows]}


# ---- rows ----

def pairs(s, causal=False, window=None):
    """Queries with keys, of a sequence; causal masks count half, as is the custom."""
    if window:
        return sum(min(i + 1, window) for i in range(s))
    return s * s / (2 if causal else 1)


def square(suite, group, fn, d, s, file="attention", **more):
    """A row of B * S tokens and H * D wide, queries as many as keys."""
    b, h = TOKENS // s, WIDTH // d
    work = 4 * b * h * d * pairs(s, fn.startswith("causal") or fn not in ("full", "full_lse", "bias"),
                                 1024 if fn == "window" else None)
    return Row(suite, group, fn, more.pop("shape", f"d{d} S{s}"), file, {"B": b, "S": s, "H": h, "E": d}, work, **more)


def forward(suite, file, against):
    return [square(suite, "S 1024" if s == 1024 else "S >= 4096", fn, d, s, file, against=against)
            for d in HEAD_DIMS for s in LENGTHS for fn in ("full", "causal")]


def suite_forward(seed):
    return forward("forward", "attention", "cuDNN")


def suite_f16(seed):
    return forward("f16", "attention_f16", "our bf16")


def suite_mods(seed):
    return [square("mods", group, fn, 128, 4096, "attention_starts" if fn == "document_start" else "attention_mods",
                   against=f"Flex {FLEX_MODE}", limit=180)
            for fn, group in (("softcap", "causal + softcap 30"), ("window", "causal + window 1024"),
                              ("alibi", "ALiBi"), ("bias", "additive bias"), ("document", "documents"),
                              ("document_start", "documents, by their starts"))]


def decode(group, fn, b, t, file="decode", **more):
    h, g, d = 32, 4, 128
    sizes = {"B": b, "T": t, "H": h, "E": d}
    if fn == "paged":
        sizes["P"] = b * t // 16 + 7
    return Row("decode", group, fn, f"B{b} T{t}", file, sizes, 2 * b * t * (h // g) * d * 2, unit="TB/s",
               **{"flush": "read", **more})


def suite_decode(seed):
    rows = []
    for b, t in ((1, 131072), (2, 32768)):  # fewer tiles than multiprocessors: the loop is cut
        rows += [decode("split", "decode", b, t), decode("split, dirty L2", "decode", b, t, flush="zero"),
                 decode("split, torch's choice", "decode", b, t, against="SDPA"),
                 decode("split, with lengths", "decode_len", b, t, against=""),
                 decode("split, paged", "paged", b, t, "decode_paged", against="")]
    rows += [decode("split, short", "decode", b, t) for b, t in ((1, 8192), (4, 4096), (18, 8192))]
    for b, t in ((16, 8192), (64, 4096)):
        rows += [decode("contiguous", "decode", b, t), decode("contiguous, dirty L2", "decode", b, t, flush="zero"),
                 decode("contiguous, with lengths", "decode_len", b, t, against=""),
                 decode("paged", "paged", b, t, "decode_paged", against=""),
                 decode("paged, dirty L2", "paged", b, t, "decode_paged", against="", flush="zero")]
    return rows


def suite_ce(seed):
    sizes = {"M": 8192, "K": 4096, "V": 128256}
    return [Row("ce", "linear + cross-entropy", "cross_entropy", "8192x4096x128256", "examples/cross_entropy", sizes,
                2 * 8192 * 4096 * 128256, COMPILE_MODE, limit=300, rounds=9, bound=())]


def suite_accuracy(seed):
    rows = []
    for kind, file in (("bf16", "attention_lse"), ("f16", "attention_lse_f16")):
        for d in HEAD_DIMS:
            for fn in ("full_lse", "causal_lse"):
                for scale in ("", " q*100"):
                    rows.append(square("accuracy", kind, fn, d, 4096, file, shape=f"{kind} d{d} S4096{scale}", rounds=3))
    return rows


def suite_util(seed):
    bars = {("full", 4096): 0.82, ("full", 16384): 0.82, ("causal", 4096): 0.76, ("causal", 16384): 0.84}
    return [square("util", f"{fn} S{s}", fn, 128, s, util=bar) for (fn, s), bar in bars.items()]


def suite_sm80(seed):
    """mma.sync and cp.async: PTX for sm_80, which the driver compiles for this chip."""
    return [square("sm80", "d128 S4096", fn, 128, 4096, arch="sm_80") for fn in ("causal", "full")] + \
           [square("sm80", "other", fn, d, s, arch="sm_80")
            for d, s in ((64, 4096), (128, 1024), (128, 16384), (256, 4096)) for fn in ("causal", "full")]


def suite_edge(seed):
    """CASES A17: right, with a bias whose batch stride is beyond 2^31 and whose rows are 12184 apart."""
    b, s, h, e = 2, 12180, 16, 128
    return [Row("edge", "A17", "bias_all", "B2 H16 S12180", "attention_mods", {"B": b, "S": s, "H": h, "E": e},
                4 * b * h * e * pairs(s), "", rounds=3, limit=120)]


SUITES = {"forward": suite_forward, "f16": suite_f16, "mods": suite_mods, "decode": suite_decode,
          "ce": suite_ce, "accuracy": suite_accuracy, "util": suite_util, "edge": suite_edge, "sm80": suite_sm80}
CASES = attention_cases.CASES

BARS = [
    Bar("forward", "S >= 4096", mean=1.18, least=1.0),
    Bar("forward", "S 1024", mean=1.0, least=0.92),
    Bar("f16", "S >= 4096", least=0.97),
    Bar("f16", "S 1024", least=0.97),
    Bar("mods", "causal + softcap 30", least=3.0),
    Bar("mods", "causal + window 1024", least=2.2),
    Bar("mods", "ALiBi", least=1.5),
    Bar("mods", "additive bias", least=1.5),
    Bar("mods", "documents", least=1.5),
    Bar("mods", "documents, by their starts"),
    Bar("decode", "contiguous", tbs=3.9),
    Bar("decode", "contiguous, dirty L2"),
    Bar("decode", "split", tbs=3.9),
    Bar("decode", "split, dirty L2"),
    Bar("decode", "split, torch's choice"),
    Bar("decode", "split, with lengths"),
    Bar("decode", "split, paged"),
    Bar("decode", "split, short"),
    Bar("decode", "contiguous, with lengths"),
    Bar("decode", "paged", tbs=3.4),
    Bar("decode", "paged, dirty L2"),
    Bar("ce", "linear + cross-entropy", least=1.0, workspace=64e6),
    Bar("accuracy", "bf16", error=3e-3, second=1e-5),
    Bar("edge", "A17", error=3e-3),
    Bar("sm80", "d128 S4096", tflops=300, error=3e-3),
    Bar("sm80", "other", error=3e-3),
    Bar("accuracy", "f16", error=4e-4, second=1e-5),
] + [Bar("util", r.group, util=r.util) for r in suite_util(None)]

if __name__ == "__main__":
    for name, (file, options) in sorted(modules().items()):
        path = file if "/" in file else f"tests/bench/{file}"
        print(name, path + ".fk", *options)
