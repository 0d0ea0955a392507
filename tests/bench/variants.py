"""--variants of gemm.py and attention.py: every variant of a row's fn at its sizes, ours alone, beside what the rule predicts.

fkrun (in BUILD) lists the variants with their predictions and writes a module for each that has no
other; those are checked and timed in turn as the two sides of a comparison are (benchlib.py).
"""
import os
import re
import subprocess
import tempfile

written = tempfile.TemporaryDirectory(prefix="fkc-variants-")
SLOW = 3  # times the best: timed once, with the rest no more


def fkrun(o, *args):
    r = subprocess.run([os.path.join(o.build, "fkrun"), *args], capture_output=True, text=True, timeout=60)
    if r.returncode:
        raise RuntimeError(f"fkrun {' '.join(args)}: {r.stderr.strip()[:300]}")
    return r.stdout


def listed(o, row, module):
    """[(variant, predicted us or None, does its guard hold)] of all steps, each name once."""
    sizes = [f"-s{name}={v}" for name, v in row.free.items()]
    found = {}
    for line in fkrun(o, "--list", "--fn", row.fn, *sizes, module).splitlines():
        v = re.match(r"  variant=(\S*) predicted=(?:([0-9.]+)us|\?)(.*)", line)
        if v:
            found.setdefault(v[1], (v[1], float(v[2]) if v[2] else None, "not for" not in v[3]))
    return list(found.values())


def only(o, row, module, variant):
    path = os.path.join(written.name, f"{row.module}-{variant}.fkm")
    if not os.path.exists(path):
        fkrun(o, "--list", "--fn", row.fn, "--variant", variant, "--write", path, module)
    return path


def measure(suites, torch, maker, row, o):
    benchlib, module = maker.benchlib, maker.path(row.module)
    torch.manual_seed(1)
    case = suites.CASES[row.fn](torch, row, maker)
    tensors = case.inputs + [out.tensor for out in case.outs]
    chosen = maker.ours(row.module, row.fn, tensors).variants()
    table, all_of_it = [], listed(o, row, module)
    fast = any(holds and name != "general" for name, _, holds in all_of_it)
    for name, predicted, holds in all_of_it:
        entry = {"variant": name, "predicted us": predicted}
        if not holds:
            entry["failure"] = "not for these sizes and layouts"
        elif name == "general" and fast:
            entry["failure"] = "not timed"
        table.append(entry)
        if "failure" in entry:
            continue
        try:
            call = benchlib.Ours(maker.lib, only(o, row, module, name), row.fn, tensors)
            benchlib.checked(call, case.outs)
            (first,), _ = benchlib.timed([call], 3, 1, row.flush, row.sleep, seconds=0.1)
            entry["us"], entry["call"] = first[0] * 1e3, call
        except Exception as x:
            entry["failure"] = f"{type(x).__name__}: {x}"[:200]
            torch.cuda.synchronize()  # raises if the context is lost
    case.theirs_want = None
    for out in case.outs:
        out.want = None
    least = min((e["us"] for e in table if "us" in e), default=0)
    near = [e for e in table if e.get("us", 1e30) <= SLOW * least]
    if near:
        times, how = benchlib.timed([e["call"] for e in near], o.rounds, row.launches, row.flush, row.sleep)
        for e, t in zip(near, times):
            e["us"], e["rounds"] = t[0] * 1e3, how["rounds"]
    for e in table:
        e.pop("call", None)
    return {"chosen": chosen, "variants": table}


def put(row, r):
    if "failure" in r:
        print(f"{row.fn} {row.shape} FAILED {r['failure']}", flush=True)
        return
    timed = [e for e in r["variants"] if "us" in e]
    least = min((e["us"] for e in timed), default=1)
    taken = [e["us"] for e in timed if e["variant"] == r["chosen"]]
    loss = f", {100 * (taken[0] / least - 1):.1f} % slower than the best" if taken else ""
    print(f"{row.fn} {row.shape}: chosen {r['chosen']}{loss}")
    for e in sorted(r["variants"], key=lambda e: e.get("us", 1e30)):
        predicted = f"{e['predicted us']:9.1f}" if e["predicted us"] is not None else "        ?"
        if "us" in e:
            model = f"{e['predicted us'] / e['us']:6.3f}" if e["predicted us"] is not None else "      "
            print(f"  {e['variant']:20s} {e['us']:9.1f} us  x{e['us'] / least:5.3f}  predicted {predicted} us {model}")
        else:
            print(f"  {e['variant']:20s} {e['failure']}")
    print(end="", flush=True)
