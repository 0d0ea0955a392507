#!/usr/bin/env python3
"""Row kernels and pointwise work against torch.compile, and against a copy of the same bytes.

    tests/bench/rowwise.py BUILD [SUITE...] [options]     BUILD: build-gpu (tests/gpu/pack.sh build rowwise)

Suites: rows (layer norm, rms norm, softmax, residual + layer norm, bias + gelu), long (few long rows), more
(sums of all, columns, several axes, short and wide rows, transposes: each at least as fast). Without a suite: all.
Each row checks all our outputs, filled with NaN before, against f32 mathematics and between two launches,
then times ours, torch.compile and a copy in turn (benchlib.py says how). COMPILE_MODE: torch.compile's mode.
"""
import sys

import rowwise_suites
import runner

if __name__ == "__main__":
    sys.exit(runner.main(rowwise_suites, __file__, __doc__))
