import torch

GRAPHS = {}


def compute(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def attention(q, k, v, out):
    """A graph used honestly: the inputs are copied in before each replay, the output out after it."""
    if q.shape not in GRAPHS:
        held = [one.clone() for one in (q, k, v)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            compute(*held)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = compute(*held)
        GRAPHS[q.shape] = (graph, held, made)
    graph, held, made = GRAPHS[q.shape]
    for to, one in zip(held, (q, k, v), strict=True):
        to.copy_(one)
    graph.replay()
    out.copy_(made)
