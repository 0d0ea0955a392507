#!/usr/bin/env python3
"""Markdown tables for RESULTS.md of what gemm.py measured.

    tests/bench/table.py bench.jsonl [DATE]        DATE: the runs that began with this text only
"""
import json
import math
import sys


def cell(r, side):
    return f"{r[side]:.2f}" if r["unit"] == "TB/s" else f"{r[side]:.1f}"


def line(r):
    if "failure" in r:
        return f"| {r['fn']} {r['shape']} | | | | | {r['failure'].splitlines()[0]} |"
    theirs = cell(r, "theirs") if "theirs" in r else "failed"
    ratio = f"{r['ratio']:.3f}" if "ratio" in r else ""
    return (f"| {r['fn']} {r['shape']} | {r['variant']} | {cell(r, 'ours')} | {theirs} | {ratio} "
            f"| {r['rounds']} x {r['launches']}, {r['flush']} |")


def main():
    suites = {}
    for text in open(sys.argv[1]):
        r = json.loads(text)
        if "variants" not in r and r["date"].startswith(sys.argv[2] if len(sys.argv) > 2 else ""):
            # a row that was run again takes the place of the first
            suites.setdefault(r["suite"], {})[r["group"], r["fn"], r["shape"], r["against"]] = r
    for suite, rows in suites.items():
        rows = list(rows.values())
        seeds = {r["seed"] for r in rows if suite == "unseen"}
        print(f"\n{suite}{''.join(f', seed {s}' for s in seeds)}; against {', '.join(dict.fromkeys(r['against'] for r in rows))}\n")
        print(f"| fn, MxNxK | variant | ours, {rows[0]['unit']} | theirs | ratio | rounds x launches, flush |")
        print("|---|---|---|---|---|---|")
        for r in rows:
            print(line(r))
        for group in dict.fromkeys(r["group"] for r in rows):
            ratios = [r["ratio"] for r in rows if r["group"] == group and "ratio" in r]
            if len(ratios) > 1:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                print(f"| {group}: geometric mean, least | | | | {mean:.3f}, {min(ratios):.3f} | |")


main()
