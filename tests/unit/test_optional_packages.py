"""What is not installed with Ridgeline: what needs it says the one command that brings it."""

import tomllib
from pathlib import Path

import pytest

from ridgeline.graph.errors import OPTIONAL_PACKAGES, install_command, missing_package

ROOT = Path(__file__).parents[2]


def test_the_commands_name_what_the_extras_of_the_package_ask_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name != "dev"}
    assert sorted(OPTIONAL_PACKAGES.values()) == sorted(text for wanted in extras.values() for text in wanted)
    assert not any("torch" in text or "litellm" in text for text in project["dependencies"])


def test_what_the_pages_and_the_tools_for_agents_need_comes_with_the_command():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {text.partition(">")[0] for text in project["dependencies"]}
    assert {"fastapi", "uvicorn", "mcp"} <= names


def test_one_command_brings_several_packages():
    assert install_command("torch", "triton") == "pip install 'torch>=2.8' 'triton>=3.6'"


@pytest.mark.parametrize(
    ("said", "mend"),
    [
        (
            "Traceback:\n  File \"bench.py\", line 3\nModuleNotFoundError: No module named 'torch'",
            "the package torch is not installed there; pip install 'torch>=2.8'",
        ),
        ("No module named 'torch.nn'", "the package torch is not installed there; pip install 'torch>=2.8'"),
        ("ModuleNotFoundError: No module named 'torchvision'", None),
        ("ModuleNotFoundError: No module named 'my_kernels'", None),
        ("shape a differs", None),
    ],
)
def test_a_programs_last_words_name_the_package_that_it_lacks(said, mend):
    assert missing_package(said) == mend
