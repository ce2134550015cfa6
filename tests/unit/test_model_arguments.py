"""What a provider is sent, and what a model costs to load: nothing, where it is not asked."""

import subprocess
import sys

import pytest

from ridgeline.agent.providers import library
from ridgeline.agent.providers.base import Ask, KeyMissing, Message
from ridgeline.agent.providers.client import arguments

TALK = (Message(role="system", text="rules"), Message(role="user", text="all of it"), Message(role="user", text="more"))


def messages(provider, model):
    ask = Ask(purpose="p", messages=TALK)
    return arguments(ask, provider=provider, model=model, schema=True, tools=True)["messages"]


@pytest.mark.parametrize(
    ("provider", "model", "marked"),
    [
        ("anthropic", "anthropic/claude-sonnet-4-5", True),
        ("bedrock", "bedrock/anthropic.claude-3-5", True),
        ("vertex_ai", "vertex_ai/claude-opus-4", True),
        ("bedrock", "bedrock/meta.llama3", False),
        ("openai", "openai/gpt-5", False),
        ("gemini", "gemini/gemini-2.5-pro", False),
    ],
)
def test_the_prefix_is_marked_for_caching_where_the_provider_wants_marks(provider, model, marked):
    found = messages(provider, model)
    assert [isinstance(message["content"], list) for message in found] == [marked, marked, False]
    if marked:
        assert found[0]["content"] == [{"type": "text", "text": "rules", "cache_control": {"type": "ephemeral"}}]


@pytest.mark.slow
def test_a_mailbox_needs_nothing_of_litellm():
    program = (
        "import sys; sys.modules['litellm'] = sys.modules['openai'] = sys.modules['tiktoken'] = None\n"
        "import ridgeline.agent.campaign.runner, ridgeline.agent.planner.model\n"
        "import ridgeline.agent.providers.budget\n"
        "from ridgeline.agent.providers.choice import Choice\n"
        "from ridgeline.graph.limits import Limits\n"
        "from pathlib import Path\n"
        "model = ridgeline.agent.providers.budget.open_model(Choice(name='mailbox'), campaign=Path('.'), limits=Limits())\n"
        "assert model.count('a b c') and not model.tools\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_litellm_that_is_not_installed_is_named(monkeypatch):
    library.library.cache_clear()
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(KeyMissing, match="litellm, which is not installed") as caught:
        library.library()
    assert caught.value.exit_code == 5
    library.library.cache_clear()
