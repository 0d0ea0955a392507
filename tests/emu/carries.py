#!/usr/bin/env python3
"""One kernel serves any number and kind of carries: seen in what is made, and in what it computes
(ctest: emu_carries). What scripts/carries.py reads in the code, run.

    carries.py BUILD

Programs with one to eight carries over one score: max or min alone, folds to the last position, counts,
products of numbers, log-sum-exps in one frame and in two, sums of products with a frame and without. All must
have the kernel online_*, and in each of its variants of one name the same skeleton: barriers, copies,
wgmma, votes and register counts in the order in which they are emitted. Of more sums of products only the
products themselves and the stores of their results are there more than once. Each variant that stands in
RUN is checked on the emulated device. Last, an instruction more or less must show.
"""
import os
import re
import subprocess
import sys
import tempfile

WHERE = "[j where j <= i + T - S]"
ROWS = {
    "top": ("f32[S]", ["top[i] = max%s s[i, j]"]),
    "least": ("f32[S]", ["least[i] = min%s s[i, j]"]),
    "lse": ("f32[S]", ["lse[i] = logsumexp%s(s[i, j])"]),
    "capped": ("f32[S]", ["capped[i] = logsumexp%s(3 * s[i, j])"]),
    "size": ("f32[S]", ["size[i] = sum%s abs(s[i, j])"]),
    "times": ("f32[S]", ["times[i] = prod%s (1 + 0.01 * s[i, j])"]),
    "last": ("i64[S]", ["last[i] = max%s select(s[i, j] > 0, j, -1)"]),
    "count": ("i32[S]", ["count[i] = sum%s i32(s[i, j] > 0)"]),
}
COLUMNS = {
    "o": ("bf16[S, 64]", ["p[i, j] = softmax%s(s[i, j])", "o[i, d] = sum[j] p[i, j] * v[j, d]"]),
    "u": ("bf16[S, 64]", ["r[i, j] = softmax%s(3 * tanh(s[i, j]))", "u[i, d] = sum[j] r[i, j] * v[j, d]"]),
    "g": ("bf16[S, 64]", ["g[i, d] = sum%s sigmoid(s[i, j]) * v[j, d]"]),
}
# Carries: lse has two, in a frame; so has capped; o and u have three, of which those of one score are shared.
PROGRAMS = [["top"], ["least"], ["last"], ["lse"], ["top", "least"], ["lse", "size"], ["lse", "capped"],
            ["lse", "capped", "times"], ["lse", "last", "count", "least", "size"], ["o"], ["o", "lse"],
            ["o", "top", "last"], ["o", "capped", "times"], ["o", "u"], ["o", "g"],
            ["o", "u", "g", "last", "size"]]
RUN = {"online_64x64", "online_128x80"} # without how far its frames lag
PART = re.compile(r"mbarrier\.[a-z_]+|wgmma\.[a-z_]+|cp\.async\.bulk\.[a-z]+|bar\.[a-z]+|setmaxnreg\.[a-z]+\.[a-z.]*u32\(i32 \d+|"
                  r"vote\.[a-z]+|fence\.[a-z_.:]+|elect\.sync")


def source(names):
    parts = [(n, ROWS.get(n) or COLUMNS[n]) for n in names]
    body = ["s[i, j] = 0.125 * sum[e] q[i, e] * k[j, e]"]
    body += [line.replace("%s", WHERE) for _, (_, lines) in parts for line in lines]
    v = ", v: bf16[T, 64]" if set(names) & set(COLUMNS) else ""
    outs = ", ".join(n + ": " + part[0] for n, part in parts)
    return "fn f(q: bf16[S, 64], k: bf16[T, 64]%s) -> (%s)\n{\n    %s\n}\n" % (v, outs, "\n    ".join(body))


def skeleton(text):
    """What threads wait for and hand on, in order; the same twice in a row once."""
    out = []
    for line in text.split("\n"):
        if line.startswith("declare") or not re.search(r"\bcall\b", line):
            continue
        for part in PART.findall(line)[:1]:
            part = re.sub(r"^wgmma\.(fence|mma_async|commit_group)", "wgmma", part)
            if not out or out[-1] != part:
                out.append(part)
    return out


def once(parts):
    """Without what stands there again right after itself."""
    out = []
    for part in parts:
        out.append(part)
        for n in range(1, len(out) // 2 + 1):
            if out[-n:] == out[-2 * n:-n]:
                del out[-n:]
                break
    return out


class Test:
    def __init__(self, build, work):
        self.fkc, self.fkrun, self.work = build + "/fkc", build + "/fkrun", work
        self.failed = self.checked = self.compared = 0
        self.known = {} # variant, products: program, skeleton

    def fail(self, names, what):
        print("FAIL %s: %s" % ("+".join(names), what))
        self.failed += 1

    def call(self, *args):
        p = subprocess.run(args, capture_output=True, text=True, timeout=300, check=False)
        return p.returncode, p.stdout + p.stderr

    def compare(self, names, variant, parts):
        products = len(set(names) & set(COLUMNS))
        keys = [((variant, products), parts)]
        if products:
            keys.append(((variant, "any"), once(parts)))
        for key, mine in keys:
            other = self.known.setdefault(key, (names, mine))
            self.compared += other[0] is not names
            if other[1] != mine:
                self.fail(names, "%s is not made as of %s" % (variant, "+".join(other[0])))

    def program(self, names):
        path = os.path.join(self.work, "_".join(names) + ".fk")
        open(path, "w", encoding="utf-8").write(source(names))
        module = path[:-3] + ".fkm"
        status, said = self.call(self.fkc, "--ptxas=none", path, "-o", module)
        if status:
            return self.fail(names, said)
        _, text = self.call(self.fkc, "--ptxas=none", "--emit=llvm", path)
        kernels = dict(re.findall(r"^define void @f_0_(\w+)\((.*?)^}", text, re.M | re.S))
        online = {k: v for k, v in kernels.items() if k.startswith("online_")}
        if not online or re.search(r"^define void @f_1", text, re.M):
            return self.fail(names, "has another kernel: " + " ".join(kernels))
        plain = {re.sub(r"_lag\d+", "", k): k for k in online}
        for variant, body in online.items():
            self.compare(names, variant, skeleton(body))
        for variant in sorted(RUN):
            if variant not in plain:
                self.fail(names, "has no " + variant)
                continue
            for size in ("S=70 T=150", "S=1 T=65"):
                args = [a for w in size.split() for a in ("-s", w)]
                status, said = self.call(self.fkrun, "--device=emu", "--check", "--check-seconds=5",
                                         "--variant=" + plain[variant], *args, module)
                self.checked += 1
                if status:
                    self.fail(names, said[-2000:])
        return online

    def shows(self, text):
        """One instruction less, and one more, makes another skeleton, once() or not."""
        lines, mine = text.split("\n"), skeleton(text)
        kinds = {}
        for n, line in enumerate(lines):
            for part in skeleton(line):
                kinds.setdefault(part, []).append(n)
        for part, at in kinds.items():
            gone = skeleton("\n".join(lines[:at[-1]] + lines[at[-1] + 1:]))
            more = skeleton("\n".join([lines[at[0]]] + lines))
            if len(at) == 1 and gone == mine:
                self.fail([part], "is not missed")
            if part != mine[0] and (more == mine or once(more) == once(mine)):
                self.fail([part], "is not seen")
        if len(kinds) < 8:
            self.fail(sorted(kinds), "are all that is looked at")


def main():
    with tempfile.TemporaryDirectory() as work:
        t = Test(sys.argv[1], work)
        for names in PROGRAMS:
            online = t.program(names)
        t.shows(next(iter(online.values())))
    print("carries: %d programs, %d kernels made alike, %d launches right, %d failed" %
          (len(PROGRAMS), t.compared, t.checked, t.failed))
    return t.failed != 0 or not t.compared


if __name__ == "__main__":
    sys.exit(main())
