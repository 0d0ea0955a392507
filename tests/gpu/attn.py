#!/usr/bin/env python3
"""The correctness grid of attention: what tests/gpu/attn.sh runs on a GPU, and a small part of it that
tests/gpu/attn_test.sh runs on the emulated device.

    attn.py programs DIR              writes DIR/NAME.fk, one fn each, and DIR/wrong_NAME.fk, other_NAME.fk
    attn.py cases DIR FKRUN AT        writes DIR/cases.txt and DIR/wrong.txt for the modules DIR/NAME.fkm,
                                      which will lie in AT: command lines of fkrun, one a line
    attn.py small DIR FKRUN           writes DIR/small.txt and DIR/wrong.txt for the modules DIR/NAME.fkm: for
                                      the emulated device
    attn.py few                       prints the names of the programs that small.txt has

The cases: every program (attnprograms.py; some for sm_80 as well, by mma.sync) at lengths and head dims drawn so
that each value comes as often as the others; in one of three an operand lies oddly in memory; variants by force; few queries and many
keys; no queries, no keys; sixteen launched two hundred times. Those of wrong.txt must fail. The same files
come out each time.
"""
import itertools
import os
import random
import re
import sys

import attnprograms as ap
from grid import Deck, listed, shuffled, write

LENGTHS = (1, 2, 7, 16, 63, 64, 65, 127, 128, 129, 192, 250, 255, 257, 300, 512, 777, 1000, 1024, 1752, 2049, 4250)
HEAD_DIMS = tuple(range(32, 257, 8))
TWO_DIMS = ((192, 128), (128, 64), (64, 128), (72, 200), (256, 40), (96, 192), (32, 256), (576, 512))
EACH, EACH_BOUND = 7, 4  # drawn cases of a program
MOST = 5_000_000         # elements of all tensors of a case: the host fills them
WORK = 20e9              # multiplications of a case, for kernels that are not fast
REPEAT_200 = 16
BYTES = {"bf16": 2, "f16": 2, "f32": 4, "i32": 4, "bool": 1}


class Case:
    """A program at sizes, with what else is asked of it."""

    def __init__(self, text, sizes, *options):
        self.text, self.options, self.repeat = text, list(options), 3
        self.all = {**sizes, **text.bound}
        if text.T == "S":
            self.all["T"] = self.all["S"]
        if text.V == "E":
            self.all["V"] = self.all["E"]
        self.all["H"] = -(-self.all["H"] // text.group) * text.group

    def extent(self, dims):
        n = 1
        for d in dims.split(", "):
            n *= eval(d.replace("/", "//"), {}, self.all)  # a dim of the program: sizes and numbers
        return n

    def elements(self):
        tensors = [d for _, d in self.text.params.values()] + [d for _, _, d in self.text.outputs]
        return sum(self.extent(d) for d in tensors)

    def work(self):
        a = self.all
        return a["B"] * a["H"] * a["S"] * a["T"] * (a["E"] + a["V"])

    def fits(self):
        return self.elements() < MOST and self.work() < WORK

    def zero(self):
        """Outputs that may be 0 everywhere: of nothing, or where a mask may leave nothing."""
        a = self.all
        few = a["B"] * a["H"] * a["S"] <= 64 or a["T"] <= 16 or (a["S"] > 4 * a["T"])
        few |= self.text.p.mask in ("documents", "starts", "lengths", "ragged") and a["B"] * min(a["S"], a["T"]) < 400
        return [f"--zero={name}" for name, _, _ in self.text.outputs] if few else []

    def line(self, at, seed):
        words = ["--check", "--check-seconds=3", f"--repeat={self.repeat}", f"--seed={seed}"]
        words += [f"-s {name}={self.all[name]}" for name in self.text.sizes]
        return " ".join(words + self.options + self.zero() + [f"{at}/{self.text.name}.fkm"])


# ---- drawing ----

class Drawer:
    def __init__(self, seed, lengths=LENGTHS, head_dims=HEAD_DIMS, two=TWO_DIMS, heads=(1, 2, 3, 8), batches=(1, 2, 3)):
        self.rng = random.Random(seed)
        self.lengths = [Deck(self.rng, lengths) for _ in range(2)]
        self.most = max(lengths)
        self.head_dims, self.two = Deck(self.rng, head_dims), Deck(self.rng, two)
        self.heads, self.batches = heads, batches

    def length(self, which):
        if self.rng.random() < 0.2:
            return self.rng.randint(1, self.most)
        return self.lengths[which].draw(lambda v: True)

    def sizes(self, text, kind):
        """`kind`: which of S and T are alike, or one of them 1 or 0."""
        if text.p.dims == "two":
            E, V = self.two.draw(lambda v: True)
        else:
            E = V = self.head_dims.draw(lambda v: True)
        S = self.length(0)
        T = {"same": S, "no keys": 0}.get(kind) if kind in ("same", "no keys") else self.length(1)
        if kind in ("one query", "no queries"):
            S = int(kind == "one query")
        for B, H in itertools.product(shuffled(self.rng, self.batches) + [1], shuffled(self.rng, self.heads) + [1]):
            case = Case(text, {"B": B, "H": H, "S": S, "T": T, "E": E, "V": V})
            if case.fits():
                return case.all
        return None

    def case(self, text, kind):
        for _ in range(50):
            found = self.sizes(text, kind)
            if found:
                return Case(text, found)
        raise SystemExit(f"attn: no sizes fit {text.name}")


KINDS = ("same", "any", "any", "same", "one query", "any", "same", "no keys", "any", "no queries")


def oddly(rng, case):
    """An operand off its alignment, with a longer pitch, or transposed."""
    params = [(n, t, d) for n, (t, d) in case.text.params.items()] + case.text.outputs
    name, dtype, dims = rng.choice([x for x in params if x[1] != "bool"] or params)
    what = rng.choice(("offset", "pad", "pad", "pad8", "transpose"))
    if what == "transpose" and "," in dims:
        return f"--transpose={name}"
    if what == "offset":
        return f"--offset={name}={BYTES[dtype]}"
    return f"--pad={name}={8 if what == 'pad8' else rng.choice((1, 3, 4))}"


def drawn(texts):
    rng, drawer, cases = random.Random(1), Drawer(2), []
    for i in range(EACH):
        for text in texts:
            if i < (EACH_BOUND if text.bound or text.arch else EACH):
                case = drawer.case(text, KINDS[(i * 3 + text.p.number) % len(KINDS)])
                if len(cases) % 3 == 2:
                    case.options.append(oddly(rng, case))
                cases.append(case)
    for which, values in (("S", LENGTHS), ("T", LENGTHS), ("E", HEAD_DIMS)):
        missing = set(values) - {c.all[which] for c in cases}
        if missing:
            raise SystemExit(f"attn: no case has {which} in {missing}")
    return cases


def biases(texts):
    """CASES A27, A17: rows of a bias that are not aligned, dense and in a larger matrix."""
    cases = []
    for text in texts:
        if "c" in text.params and not text.bound and not text.arch:
            for T, pad in ((43, 0), (77, 0), (77, 3), (1337, 0), (200, 4)):
                case = Case(text, {"B": 2, "H": 2, "S": 130, "T": T, "E": 64, "V": 64}, *([f"--pad=c={pad}"] if pad else []))
                cases.append(case)
    return cases


def forced(texts, fkrun, folder):
    """Variants by force: of each program three, other ones than of the program before."""
    drawer, cases = Drawer(3), []
    for i, text in enumerate(texts):
        case = drawer.case(text, "any" if i % 2 else "same")
        names = sorted(v for v, fits in listed(fkrun, folder, case).items() if fits)
        cases += [Case(text, case.all, f"--variant={names[(3 * i + k) % len(names)]}") for k in range(min(3, len(names)))]
    return cases


def often(texts):
    drawer, cases = Drawer(4, lengths=(64, 129, 250, 512, 777)), []
    for i in range(REPEAT_200):
        case = drawer.case(texts[len(texts) - 1 - 5 * i], KINDS[i % 2])
        case.repeat = 200
        cases.append(case)
    return cases


# ---- files ----

def write_programs(folder):
    for text in ap.texts():
        write(folder, text.name + ".fk", text.render())
    for name in ap.WRONG:
        right, other = ap.wrong(name)
        write(folder, f"wrong_{name}.fk", right)
        write(folder, f"other_{name}.fk", other)


def write_wrong(folder, at, sizes, *options):
    lines = [" ".join(["--check", *options, "--seed=1", sizes, f"{at}/wrong_{name}.fkm"]) for name in ap.WRONG]
    write(folder, "wrong.txt", "\n".join(lines) + "\n")


def write_cases(folder, fkrun, at):
    texts = ap.texts()
    parts = {"drawn": drawn(texts), "biases": biases(texts), "forced": forced(texts, fkrun, folder), "200 times": often(texts)}
    cases = [c for part in parts.values() for c in part]
    lines = shuffled(random.Random(2), [c.line(at, seed + 1) for seed, c in enumerate(cases)])
    write(folder, "cases.txt", "\n".join(lines) + "\n")
    write_wrong(folder, at, "-s B=2 -s S=150 -s H=2 -s E=64")
    print(f"{len(cases)} cases: " + ", ".join(f"{name} {len(part)}" for name, part in parts.items()))


def few():
    """The first, which have everything, and two of the usual: causal, without and with shared heads."""
    return [t for t in ap.texts() if not t.bound and not t.arch and (t.p.number < ap.FEW or t.p.number - ap.COUNT in (2, 5))]


def write_small(folder, fkrun):
    drawer = Drawer(6, lengths=(1, 2, 9, 17, 40, 64, 65, 70), head_dims=(8, 16, 32, 40, 64),
                    two=((24, 16), (16, 40), (64, 32)), heads=(1, 2), batches=(1, 2))
    there = [t for t in few() if os.path.exists(os.path.join(folder, t.name + ".fkm"))]  # what compiled
    cases = [drawer.case(text, kind) for text in there for kind in ("same", "any", "one query")]
    cases += [drawer.case(text, kind) for text, kind in zip(there, itertools.cycle(("no keys", "no queries")))]
    for i, text in enumerate(there):
        case = Case(text, {"B": 2, "H": 2, "S": 130, "T": 200, "E": 64, "V": 32})
        names = sorted(v for v, fits in listed(fkrun, folder, case).items() if fits)
        most = 2 if text.p.number < ap.FEW else 6
        for k in range(min(most, len(names))):  # also rows without a key, whole groups of them
            name = names[(2 * i + k) % len(names)]
            odd = {"S": 200, "T": 136 if "brought" in name else 129}  # TMA needs whole 16 bytes
            cases.append(Case(text, {**case.all, **(odd if k % 2 else {})}, f"--variant={name}"))
    lines = ["--device=emu " + re.sub("--repeat=3", "--repeat=2", c.line(folder, seed + 1)) for seed, c in enumerate(cases)]
    write(folder, "small.txt", "\n".join(lines) + "\n")
    write_wrong(folder, folder, "-s B=2 -s S=100 -s H=1 -s E=16", "--device=emu")


if __name__ == "__main__":
    what, args = sys.argv[1:2], sys.argv[2:]
    if what == ["programs"] and len(args) == 1:
        write_programs(*args)
    elif what == ["cases"] and len(args) == 3:
        write_cases(*args)
    elif what == ["small"] and len(args) == 2:
        write_small(*args)
    elif what == ["few"] and not args:
        print("\n".join(t.name for t in few()))
    else:
        sys.exit(__doc__)
