#!/usr/bin/env python3
"""The correctness grid of matrix products with epilogues: what tests/gpu/grid.sh runs on a GPU.

    grid.py programs DIR              writes DIR/NAME.fk, one fn each, and DIR/wrong_NAME.fk, other_NAME.fk
    grid.py cases DIR FKRUN AT        writes DIR/cases.txt and DIR/wrong.txt for the modules DIR/NAME.fkm,
                                      which will lie in AT: command lines of fkrun, one a line

The cases: for every program, sizes drawn so that every value of each of M, N, K comes as often as the
others; bases and pitches that are not aligned, transposed views; every tensor-core variant of every
module by force, at sizes that leave ragged edges on all sides, and some with many tiles a CTA; some two
hundred times over. The cases of wrong.txt must fail. The same files come out each time.
"""
import os
import random
import re
import subprocess
import sys

import gridprograms as gp

M_N = (1, 2, 7, 63, 64, 65, 127, 128, 129, 255, 257, 1000, 1752)
K = (0, 1, 8, 63, 64, 100, 511, 584, 4096)
EACH = 11            # drawn cases of a program
MOST = 14_000_000    # elements of all matrices of a case: the host fills and checks them
REPEAT_200 = 16      # cases launched so often
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "e4m3": 1, "e5m2": 1}


def shuffled(rng, values):
    return sorted(values, key=lambda v: rng.random())


class Deck:
    """Draws every value equally often, in an order without a pattern."""

    def __init__(self, rng, values):
        self.rng, self.values, self.cards = rng, values, []

    def draw(self, fits):
        for _ in range(100):
            if len(self.cards) < len(self.values):
                self.cards = shuffled(self.rng, self.values) + self.cards
            for i in reversed(range(len(self.cards))):
                if fits(self.cards[i]):
                    return self.cards.pop(i)
        raise SystemExit("grid: no size fits")


class Case:
    """A program at sizes, with what else is asked of it."""

    def __init__(self, text, m, n, k, batch, *options):
        self.text, self.m, self.n, self.k, self.batch, self.options = text, m, n, k, batch, list(options)
        self.repeat = 3

    def batches(self):
        b = 1
        for size in self.batch.values():
            b *= size
        return b

    def elements(self):
        m, n, k = self.m, self.n, self.k
        return self.batches() * (m * k + n * k + m * n * (len(self.text.outputs) + len(self.text.matrices)))

    def zero(self):
        """The outputs that may be 0 everywhere: products of nothing, few elements or a row of one sign
        that a mask or relu takes away."""
        p = self.text.p
        few = self.m * self.n * self.batches() <= 64 or (self.m <= 2 and p.operand == "index")
        few |= min(self.m, self.n) <= 2 and p.act == "relu"
        nothing = self.k == 0 and p.operand in ("none", "scales", "index")
        return [f"--zero={name}" for name, _ in self.text.outputs] if few or nothing else []

    def line(self, at, seed):
        sizes = {"M": self.m, "N": self.n, "K": self.k, **self.batch}
        words = ["--check", "--check-seconds=10", f"--repeat={self.repeat}", f"--seed={seed}"]
        words += [f"-s {name}={value}" for name, value in sizes.items()]
        words += self.options + self.zero() + [f"{at}/{self.text.p.name}.fkm"]
        return " ".join(words)


def batch_of(text, i):
    """Sizes of the batch, a few of each."""
    batch = {}
    if "B" in text.sizes:
        batch["B"] = (3, 1, 2)[i % 3]
    if "H" in text.sizes:
        batch["H"] = (4, 8)[i % 2]
    return batch


def drawn(texts):
    rng = random.Random(1)
    decks = [Deck(rng, M_N), Deck(rng, M_N), Deck(rng, K)]
    cases = []
    for i in range(EACH):
        for text in texts:
            batch = batch_of(text, i)
            k = decks[2].draw(lambda v: Case(text, 1, 1, v, batch).elements() < MOST)
            m = decks[0].draw(lambda v: Case(text, v, 1, k, batch).elements() < MOST)
            n = decks[1].draw(lambda v: Case(text, m, v, k, batch).elements() < MOST)
            cases.append(Case(text, m, n, k, batch))
    for which, values in (("m", M_N), ("n", M_N), ("k", K)):
        missing = set(values) - {getattr(c, which) for c in cases}
        if missing:
            raise SystemExit(f"grid: no case has {which} in {missing}")
    return cases


def odd_layouts(texts):
    """Bases one element off, of one tensor at a time; pitches that TMA cannot have, and some that it can;
    transposed views: of one program for every operand type and order, and of all that have matrices."""
    cases, best = [], {}
    for text in texts:
        best.setdefault((text.p.dtype, text.p.order), []).append(text)
    best = {min(same, key=lambda t: (not t.vectors, t.p.batch != "none")) for same in best.values()}
    for text in texts:
        p = text.p
        first = text in best
        if not first and not text.matrices:
            continue
        element = {"x": BYTES[p.dtype], "w": BYTES[p.dtype], **{name: BYTES[t] for name, t in text.outputs}}
        for declared in text.params:
            name, dtype = re.match(r"(\w+): (\w+)", declared).groups()
            element[name] = BYTES[dtype]
        batch = batch_of(text, 2)
        tensors = text.matrices + ["y"]
        if first:
            tensors += ["x", "w"] + text.vectors
            for k in (511, 12, 100):
                cases.append(Case(text, 256, 256, k, batch))
            cases.append(Case(text, 129, 255, 511, batch))
        for name in tensors:
            cases.append(Case(text, 128, 256, 64, batch, f"--offset={name}={element[name]}"))
        for name in tensors:
            if name not in text.vectors:
                cases.append(Case(text, 257, 128, 136, batch, f"--transpose={name}"))
                cases.append(Case(text, 129, 128, 64, batch, f"--pad={name}=1"))
        if first:
            cases.append(Case(text, 200, 136, 64, batch, "--pad=x=8", "--pad=w=4", "--pad=y=16"))
            cases.append(Case(text, 136, 200, 72, batch, "--pad=x=16", "--offset=x=16", "--offset=w=8", "--pad=y=3"))
    return cases


# ---- forced variants ----

def listed(fkrun, folder, case):
    """{variant: does it take the sizes}, of all steps, but for the general kernel."""
    words = case.line(folder, 1).split()
    sizes = [w for i, w in enumerate(words) if w == "-s" or (i and words[i - 1] == "-s")]
    r = subprocess.run([fkrun, "--list"] + sizes + [words[-1]], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"grid: {fkrun} --list: {r.stderr}")
    found = {}
    for name, rest in re.findall(r"^  variant=(\S*) predicted=\S*(.*)", r.stdout, re.M):
        if name != "general":
            found[name] = found.get(name, False) or "not for these" not in rest
    return found


def forced(texts, fkrun, folder):
    """Every variant where it is taken: ragged in all of M, N, K where the layouts allow it, once with more
    tiles than multiprocessors; and the general kernel."""
    cases, never = [], []
    for text in texts:
        i, p = text.p.number, text.p
        few, many = batch_of(text, 2), {name: 4 for name in batch_of(text, 0)}
        ragged = [(257, 272, 144), (136, 144, 80), (1000, 1008, 592), (64, 64, 64), (1, 256, 512), (2, 512, 4096)]
        if p.order[0] == "t":  # M is the pitch of x
            ragged = [(264, 272, 144), (144, 136, 80), (1008, 1000, 592), (64, 64, 64), (16, 256, 512)]
        big = (776, 784, 80) if many else (3080, 3088, 80)
        left = None
        for m, n, k in ragged:
            case = Case(text, m, n, k, few)
            takes = listed(fkrun, folder, case)
            if left is None:
                left = sorted(takes)
            for name in [v for v in left if takes.get(v)]:
                left.remove(name)
                cases.append(Case(text, m, n, k, few, f"--variant={name}"))
        never += [f"{p.name} {v}" for v in left]
        names = [v for v, ok in sorted(listed(fkrun, folder, Case(text, *big, many)).items()) if ok]
        for v in names[i % 3::3]:
            cases.append(Case(text, *big, many, f"--variant={v}"))
        cases.append(Case(text, 130, 70, 40, few, "--variant=general"))
    for v in never:
        print(f"grid: at no size is there {v}", file=sys.stderr)
    return cases


def often(texts):
    """Launched two hundred times: plain sizes, an own one for each."""
    cases = []
    for i in range(REPEAT_200):
        text = texts[(i * len(texts)) // REPEAT_200]
        case = Case(text, *((264, 272, 144), (128, 256, 512), (257, 129, 100), (64, 1000, 584))[i % 4], batch_of(text, i))
        case.repeat = 200
        cases.append(case)
    return cases


# ---- files ----

def write(folder, name, text):
    with open(os.path.join(folder, name), "w") as f:
        f.write(text)


def write_programs(folder):
    for p in gp.programs():
        write(folder, p.name + ".fk", gp.Text(p).render())
    for name in gp.WRONG:
        right, other = gp.wrong(name)
        write(folder, f"wrong_{name}.fk", right)
        write(folder, f"other_{name}.fk", other)


def rendered():
    texts = [gp.Text(p) for p in gp.programs()]
    for text in texts:
        text.render()  # which finds its tensors
    return texts


def write_cases(folder, fkrun, at):
    texts = rendered()
    parts = {"drawn": drawn(texts), "odd layouts": odd_layouts(texts), "forced": forced(texts, fkrun, folder),
             "200 times": often(texts)}
    cases = [c for part in parts.values() for c in part]
    order = random.Random(2)
    lines = shuffled(order, [c.line(at, seed + 1) for seed, c in enumerate(cases)])
    write(folder, "cases.txt", "\n".join(lines) + "\n")
    wrong = [f"--check --seed=1 -s M=77 -s N=136 -s K=64 {at}/wrong_{name}.fkm" for name in gp.WRONG]
    write(folder, "wrong.txt", "\n".join(wrong) + "\n")
    print(f"{len(cases)} cases: " + ", ".join(f"{name} {len(part)}" for name, part in parts.items()))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "programs":
        write_programs(sys.argv[2])
    elif len(sys.argv) == 5 and sys.argv[1] == "cases":
        write_cases(*sys.argv[2:])
    else:
        sys.exit(__doc__)
