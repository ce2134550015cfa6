"""Which sizes a Python call passes, by the expressions that make its arguments."""

import ast

import pytest

from ridgeline.agent.scaffold.signature import python_calls, read_extents


@pytest.mark.parametrize(
    ("expression", "extents"),
    [
        ("np.zeros((64, 32))", (64, 32)),
        ("np.zeros(64, np.float32)", ()),
        ("np.zeros(64, dtype=np.float32)", (64,)),
        ("torch.randn(8, 16).to('cpu').half()", (8, 16)),
        ("np.full(100, 7)", (100,)),
        ("rng.normal(0.0, 1.0, size=(3, 5))", (3, 5)),
        ("rng.integers(5, 10, 50)", ()),
        ("np.arange(4 * 8).reshape(4, 8)", (4, 8)),
        ("np.arange(2, 9)", ()),
        ("list(range(7))", (7,)),
        ("[0.5 for _ in range(12)]", (12,)),
        ("'ab' * 100", (200,)),
        ("b'abc'", (3,)),
        ("x.reshape(-1, 3)", ()),
        ("load(64)", ()),
    ],
)
def test_sizes_are_read_or_said_not_to_be_known(expression, extents):
    assert read_extents(ast.parse(expression, mode="eval").body) == extents


def test_names_are_followed_within_their_function_and_the_module():
    text = "N = 8\ndef a():\n    x = [0.0] * N\n    f(x, N)\n\ndef b(x):\n    f(x, y)\n    y = 3\n"
    assert [(call.arguments, call.place) for call in python_calls(text, "f", "use.py")] == [
        ("[0.0] * 8, 8", "use.py:4"),
        ("x, y", "use.py:7"),
    ]
