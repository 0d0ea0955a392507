#!/usr/bin/env python3
"""Good kernels, broken on purpose: the emulated device must say so (ctest: emu_mutants).

    mutants.py BUILD [PATTERN]      PATTERN: only mutants whose module/name has it; says all reports

Each row of mutants.txt is one fault in the PTX of one kernel that fkc makes, and the kind of report
(runtime/emu/report.def) that it must give, whether or not numbers change. The kernels themselves must
give none, from several seeds.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SECONDS = 60


def table(path):
    """Rows of words in '|', without comments."""
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if line.strip() and not line.startswith("#"):
            yield number, [cell.strip() for cell in line.rstrip("\n").split(" | ")]


def report_kinds():
    text = open(os.path.join(ROOT, "runtime/emu/report.def"), encoding="utf-8").read()
    return dict(re.findall(r'^REPORT\((\w+), "([^"]*)"', text, re.M))


class Module:
    """A kernel that fkc made, and how it is run."""

    def __init__(self, build, work, row):
        self.name, source, fn, self.kernel, sizes, env = row
        self.build, self.work = build, work
        options = [word for word in env.split() if word.startswith("--")]
        stem = os.path.basename(source)[:-3] + "".join(options).replace("=", "_")
        self.path = os.path.join(work, stem + ".fkm")
        variant = re.sub(r"^\d+_?", "", self.kernel[len(fn) + 1:]) or "general"
        self.run = ["--device=emu", "--fn=" + fn, "--variant=" + variant]
        self.run += [arg for size in sizes.split() for arg in ("-s", size)]
        self.env = dict(word.split("=") for word in env.split() if word not in options)
        if not os.path.exists(self.path):
            source = os.path.join(ROOT, source)
            subprocess.run([build + "/fkc", "--ptxas=none", "--no-expect", *options, source, "-o",
                            self.path], check=True, stderr=subprocess.DEVNULL)
        self.ptx = subprocess.run([build + "/tests/emu/emu_ptx", self.path, self.kernel], check=True,
                                  capture_output=True, text=True).stdout

    def launch(self, ptx=None, name="", **env):
        """What fkrun says of the kernel, with this text in place of its own."""
        module = self.path
        if ptx is not None:
            text = os.path.join(self.work, name + ".ptx")
            module = os.path.join(self.work, name + ".fkm")
            open(text, "w", encoding="utf-8").write(ptx)
            subprocess.run([self.build + "/tests/emu/emu_ptx", self.path, self.kernel, text, module],
                           check=True)
        done = subprocess.run([self.build + "/fkrun", *self.run, module], capture_output=True,
                              text=True, env={**os.environ, **self.env, **env}, timeout=SECONDS)
        if ptx is not None:
            os.remove(module)
        return done.returncode, done.stderr


def broken(ptx, pattern, text, which):
    """The text with one match of a pattern (or all) replaced; None: there is no such match."""
    found = list(re.finditer(pattern, ptx))
    wanted = found if which == "all" else found[int(which):][:1]
    if not wanted:
        return None
    for match in reversed(wanted):
        new = match.expand(text)
        new += "\n" * (match.group().count("\n") - new.count("\n"))  # lines keep their numbers
        ptx = ptx[:match.start()] + new + ptx[match.end():]
    return ptx


def kinds_in(said, kinds):
    return [kind for kind, text in kinds.items()
            if re.search(r"(^|: )" + re.escape(text) + r"(, PTX line|, CTA)", said, re.M)]


def main():
    build = os.path.abspath(sys.argv[1])
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    kinds = report_kinds()
    modules, mutants, faults = {}, [], 0
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = list(table(os.path.join(HERE, "mutants.txt")))
        for number, row in rows:
            if row[0] == "module":
                modules[row[1]] = row[1:]
            elif wanted in row[0] + "/" + row[1]:
                mutants.append((number, row))
        used = {row[0] for _, row in mutants}
        modules = {name: Module(build, work, row) for name, row in modules.items() if name in used}

        def clean(job):
            module, seed = job
            code, said = module.launch(FK_EMU_SEED=seed)
            return "" if not code and not said else f"{module.name}, unbroken, seed {seed}: {code} {said}"

        def judge(job):
            number, row = job
            where = f"mutants.txt:{number}: {row[0]}/{row[1]}"
            try:
                module, (pattern, text, which, kind) = modules[row[0]], row[2:6]
            except (KeyError, ValueError):
                return f"{where}: no such module, or not six cells"
            text = "" if text == "-" else text
            ptx = broken(module.ptx, pattern, text, which)
            if ptx is None or ptx == module.ptx:
                return f"{where}: it changes nothing"
            name = re.sub(r"\W", "_", row[0] + "_" + row[1]) + str(number)
            try:
                code, said = module.launch(ptx, name)
            except subprocess.TimeoutExpired:
                return f"{where}: not done after {SECONDS} s"
            if wanted:
                print(f"{where}: {kinds_in(said, kinds)} {said}")
            if kind == "exempt":
                return f"{where}: exempt, and reported: {said}" if kinds_in(said, kinds) else ""
            if kind not in kinds:
                return f"{where}: there is no kind {kind}"
            return "" if kind in kinds_in(said, kinds) else f"{where}: no {kind}: {code} {said[:1500]}"

        jobs = [pool.submit(clean, (m, seed)) for m in modules.values() for seed in ("0", "5")]
        jobs += [pool.submit(judge, job) for job in mutants]
        for job in jobs:
            fault = job.result()
            faults += fault != ""
            if fault:
                print("FAIL", fault)
    exempt = sum(row[5:6] == ["exempt"] for _, row in mutants)
    print(f"{len(mutants) - exempt} mutants and {exempt} exempt of {len(modules)} kernels: {faults} failed")
    return 1 if faults or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
