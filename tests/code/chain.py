#!/usr/bin/env python3
"""In machine code, nothing of memory comes before the wait for the launch before (backend/nvptx/chain.c).

    chain.py FKC PROGRAM.fk [options of fkc]

What PTX has behind griddepcontrol.wait, also loads that no store of the kernel meets, an assembler could
bring forward: ACQBULK must come first. Exit code 77, aloud, without ptxas or nvdisasm.
"""
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

MEMORY = re.compile(r"\b(LDG|UTMALDG|UTMASTG|UBLKCP|LDGSTS|STG|ATOMG|REDG?)\b")


def images(data):
    """The ELF images in a module, by their section and program headers."""
    for m in re.finditer(rb"\x7fELF\x02\x01\x01", data):
        at = m.start()
        phoff, shoff = struct.unpack_from("<QQ", data, at + 0x20)
        phsize, phs, shsize, shs = struct.unpack_from("<HHHH", data, at + 0x36)
        yield data[at : at + max(phoff + phsize * phs, shoff + shsize * shs)]


def code_of(image, work):
    (work / "image").write_bytes(image)
    text = subprocess.run(
        ["nvdisasm", "-c", work / "image"], capture_output=True, text=True, check=True
    ).stdout
    name = re.search(r"\.text\.(\S+?),", text)
    return name.group(1) if name else "?", [l for l in text.split("\n") if re.search(r"/\*[0-9a-f]{4,}\*/", l)]


def fault(code):
    """Whether it waits, and an access of memory before."""
    waits = [k for k, line in enumerate(code) if "ACQBULK" in line]
    if not waits:
        return False, None
    before = [line for line in code[: waits[0]] if MEMORY.search(line)]
    return True, before[0].strip() if before else None


def main():
    command = sys.argv[1:]
    if not shutil.which("nvdisasm"):
        print("SKIP: no nvdisasm")
        return 77
    waiting = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run = subprocess.run(command + ["--no-expect", "-o", work / "m.fkm"], capture_output=True, text=True)
        if run.returncode:
            print(f"FAIL: {run.stderr}")
            return 1
        found = [code_of(i, work) for i in images((work / "m.fkm").read_bytes())]
        if not found:
            print("SKIP: no ptxas")
            return 77
        for name, code in found:
            waits, first = fault(code)
            waiting += waits
            if first:
                bad += 1
                print(f"FAIL {name}: before its wait: {first}")
    # the rule itself: code spoilt on purpose
    spoilt = ["/*0000*/ LDG.E R0, [R2]", "/*0010*/ ACQBULK", "/*0020*/ EXIT"]
    if not fault(spoilt)[1] or fault(spoilt[1:])[1]:
        bad += 1
        print("FAIL: the rule does not see a load before the wait")
    print(f"{waiting} kernels wait, {bad} faults")
    return 1 if bad or not waiting else 0


sys.exit(main())
