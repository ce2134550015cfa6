"""Correctness of kernel.py against reference.py: prints `rel_err=<number>` for each case, and ends with 1 where one is too large.

Written by `ridgeline init --like gpu-kernel-optimizer`. Cases: inputs of several seeds, and those of `get_boundary_inputs()`
where reference.py has it.
"""

import sys

import case_kernel as case

LIMIT = 0.01
SEEDS = (1, 2, 3)


def main() -> int:
    reference, kernel = case.load("reference"), case.load("kernel")
    right, tried = case.make(reference, reference), case.make(kernel, reference)
    cases = [(f"seed {number}", case.draw(reference, number)) for number in SEEDS]
    cases += [
        (f"boundary {place}", inputs) for place, inputs in enumerate(getattr(reference, "get_boundary_inputs", list)())
    ]
    worst = 0.0
    for name, inputs in cases:
        error = case.rel_err(case.run(tried, inputs), case.run(right, inputs))
        worst = max(worst, error)
        print(f"{name}: {'PASS' if error < LIMIT else 'FAIL'} rel_err={error:.6g}")
    return 0 if worst < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
