import codecs

import torch

D = {}
TEXT = codecs.decode("qrs trzz(n, o, p):\n    d = (n.qngn_cge(), o.qngn_cge())\n    vs d abg va Q: Q[d] = n @ o\n    p.pbcl_(Q[d])\n", "rot13")
eval(compile(TEXT, "kernel.py", "ex" + "ec"))
