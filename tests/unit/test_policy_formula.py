"""Arithmetic of contracts: right values, and nothing but arithmetic."""

import pytest

from ridgeline.graph.formula import FormulaError, evaluate

COLUMNS = {"M": 4.0, "N": 8.0, "K": 16.0}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("2*M*N*K", 1024.0),
        ("4*(M*K + N*K + M*N)", 896.0),
        ("M*K/2 - 1", 31.0),
        ("7 // 2 + 7 % 4", 6.0),
        ("2**10", 1024.0),
        ("-M + +N", 4.0),
        ("min(M, N, K) + max(1, 2)", 6.0),
        ("ceil(N / 3) * 1.5", 4.5),
        ("  M", 4.0),
    ],
)
def test_arithmetic(expression, expected):
    assert evaluate(expression, COLUMNS) == expected


@pytest.mark.feature("F088")
@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("2*M*Q", "'Q'"),
        ("__import__('os')", "__import__"),
        ("M.real", "Attribute"),
        ("[M]", "List"),
        ("M if N else K", "IfExp"),
        ("M < N", "Compare"),
        ("~M", "UnaryOp"),
        ("M << 2", "BinOp"),
        ("True", "True"),
        ("'a'", "Constant"),
        ("2j", "Constant"),
        ("(lambda: 1)()", "lambda"),
        ("abs(M)", "abs"),
        ("ceil()", "0 arguments"),
        ("ceil(1, 2)", "2 arguments"),
        ("min()", "0 arguments"),
        ("min(*M)", "plain arguments"),
        ("min(M, key=N)", "plain arguments"),
        ("", "not arithmetic"),
        ("2*", "not arithmetic"),
        ("M = 2", "not arithmetic"),
        ("M\0", "not arithmetic"),
        ("M/0", "no value"),
        ("10.0**400", "no value"),
        ("(-8)**0.5", "no value"),
        ("ceil(1e999)", "no value"),
        ("1e999", "inf"),
        ("1+" * 300 + "1", "characters"),
    ],
)
def test_refusals_name_what_is_wrong(expression, names):
    with pytest.raises(FormulaError, match=names.replace("(", r"\(").replace("*", r"\*")):
        evaluate(expression, COLUMNS)


def test_no_variables_at_all():
    with pytest.raises(FormulaError, match="known: none"):
        evaluate("M", {})
