"""A small knowledge base on disk that is right; tests break one thing in it at a time."""

from pathlib import Path

from ridgeline.knowledge.library import Library

PRODUCT = """---
title: Acme Roadrunner
kind: product
gpus: [gfx942]
aliases: [Acme RR80, Roadrunner SXM]
default_for: [Roadrunner]
phase: [analyze]
summary: The fast one.
---
# Acme Roadrunner

## Specs

- arch: gfx942 [src: acme-sheet]
- bf16_dense: 1000 TFLOPS [src: acme-sheet, table 2]
- bf16_sparse: 2000 TFLOPS [src: acme-sheet]
- hbm_bandwidth: 4.0 TB/s [src: acme-sheet]
- cu_count: 304 CUs [src: acme-sheet]
- fp4_dense: UNKNOWN (no source found)
"""
SIBLING = PRODUCT.replace("[Acme RR80, Roadrunner SXM]", "[]").replace("default_for: [Roadrunner]\n", "")
HARDWARE = """---
title: gfx942
kind: hardware
gpus: [gfx942]
summary: What a CU has.
---
# gfx942

## Specs

- lds_capacity: 64 KiB [src: acme-isa, section 3.2]

## LDS

- LDS has 32 banks of 4 bytes. [src: acme-isa]
- A column stride of 128 bytes is a full bank conflict. [src: acme-isa; acme-sheet, page 4]
"""
GEMM = """---
title: GEMM, directions
kind: op
ops: [gemm]
phase: [propose]
summary: What to try.
---
# GEMM

Prose needs no source. See [the hardware](../../hardware/gfx942/overview.md) and [a page](https://example.com/a).

## Tiles

1. Steps need none either.

- A tile of 128x128 launches 64 blocks for 1024x1024. [src: acme-sheet]

```
- 5 % of code is not prose
```

## Shared memory layout

- Pad rows by 16 bytes against bank conflicts. [src: acme-isa]
"""
OVERVIEW = GEMM.replace("GEMM, directions", "GEMM, overview").replace("## Tiles", "## Anatomy")
TRITON = """---
title: Triton, notes
kind: backend
langs: [triton]
summary: Traps.
---
# Triton

## Bank conflicts in Triton

- The compiler swizzles shared memory by itself. [src: acme-sheet]
"""
CARD = """---
id: pad-rows
title: Pad the rows
langs: [hip]
ops: [gemm]
gpus: [gfx942]
category: layout
bucket: K1
bottlenecks: [memory]
because: a column falls into one bank
change: sixteen bytes of padding per row
prediction: {counter: SQ_LDS_BANK_CONFLICT, direction: down}
risks: more LDS
verification: the counter falls
sources: ["acme-isa, section 3"]
---
## Applies when
Bank conflicts are high.

## How
Pad.

## Pitfalls
None.
"""
SOURCES = """acme-isa:
  title: The ISA
  url: https://example.com/isa.pdf
  publisher: Acme
  accessed: 2026-11-21
acme-sheet:
  title: Data sheet
  repo: acme/docs
  path: sheet.md
  publisher: Acme
  accessed: 2026-11-21
"""
FILES = {
    "hardware/roadrunner-80.md": PRODUCT,
    "hardware/roadrunner-90.md": SIBLING,
    "hardware/gfx942/overview.md": HARDWARE,
    "ops/gemm/directions.md": GEMM,
    "ops/gemm/overview.md": OVERVIEW,
    "backends/triton/notes.md": TRITON,
    "cards/hip/pad-rows.md": CARD,
    "sources/acme.yaml": SOURCES,
}


def write_base(folder: Path, **changes: str) -> Library:
    """Write the files; a change is the new text of one path."""
    for path, text in FILES.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for path, text in changes.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return Library(folder=folder)
