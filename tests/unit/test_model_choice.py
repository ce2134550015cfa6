"""Which model, at which address, with which variables: all of it checked offline."""

from pathlib import Path

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import KeyMissing
from ridgeline.agent.providers.choice import Choice, Price, choose, elsewhere, missing, provider_of, require


def chosen(name=None, base_url=None, fallbacks=(), **environment):
    return choose(name, base_url=base_url, fallbacks=fallbacks, environment=environment)


def test_a_choice_comes_from_the_command_line_and_then_from_the_environment():
    assert chosen() is None
    assert chosen("openai/gpt-5", RIDGELINE_MODEL="other/x").name == "openai/gpt-5"
    found = chosen(RIDGELINE_MODEL="openai/x", RIDGELINE_BASE_URL="http://h:1/v1/", RIDGELINE_MODEL_PRICE="0.5, 1.5")
    assert found == Choice(name="openai/x", base_url="http://h:1/v1", price=Price(input=0.5, output=1.5))
    assert (found.planner, Choice(name="mailbox").planner) == ("llm:openai/x", "mailbox")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"base_url": "http://h"}, "--model: is missing"),
        ({"fallbacks": ("a/b",)}, "--model: is missing"),
        ({"name": " openai/x"}, "spaces"),
        ({"name": "openai/x", "fallbacks": ("",)}, "is empty"),
        ({"name": "mailbox", "base_url": "http://h"}, "leave out --base-url"),
        ({"name": "openai/x", "fallbacks": ("mailbox",)}, "stands alone"),
        ({"name": "openai/x", "base_url": "localhost:80"}, "no http address"),
        ({"name": "openai/x", "base_url": "http://[::1"}, "no http address"),
        ({"name": "openai/x", "base_url": "http://h:99999"}, "no http address"),
        ({"name": "openai/x", "base_url": "http://me:pass@h/v1"}, "would be written down"),
        ({"name": "openai/x", "base_url": "http://h/v1?key=1"}, "would be written down"),
        ({"name": "openai/x", "RIDGELINE_MODEL_PRICE": "1"}, "RIDGELINE_MODEL_PRICE"),
        ({"name": "openai/x", "RIDGELINE_MODEL_PRICE": "1,-2"}, "RIDGELINE_MODEL_PRICE"),
        ({"name": "openai/x", "RIDGELINE_MODEL_PRICE": "nan,1"}, "RIDGELINE_MODEL_PRICE"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, words):
    with pytest.raises(UserError, match=words) as caught:
        chosen(**arguments)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert "pass@" not in str(caught.value)


def test_a_campaign_that_goes_on_may_find_its_server_elsewhere():
    kept = Choice(name="openai/x", base_url="http://old:1/v1")
    assert elsewhere(kept, {}) == kept
    assert elsewhere(kept, {"RIDGELINE_BASE_URL": "http://new:2/v1"}).base_url == "http://new:2/v1"
    assert elsewhere(Choice(name="mailbox"), {"RIDGELINE_BASE_URL": "http://new:2/v1"}).base_url == ""


@pytest.mark.parametrize(
    ("name", "base_url", "environment", "lacking"),
    [
        ("openai/gpt-5", "", {}, ("OPENAI_API_KEY",)),
        ("openai/gpt-5", "", {"OPENAI_API_KEY": "k"}, ()),
        ("openai/gpt-5", "", {"OPENAI_API_KEY": ""}, ("OPENAI_API_KEY",)),
        ("openai/local", "http://h/v1", {}, ()),
        ("openai/local", "", {"OPENAI_BASE_URL": "http://h/v1"}, ()),
        ("anthropic/claude", "", {}, ("ANTHROPIC_API_KEY",)),
        ("gemini/pro", "", {}, ("GEMINI_API_KEY or GOOGLE_API_KEY",)),
        ("gemini/pro", "", {"GOOGLE_API_KEY": "k"}, ()),
        ("azure/mine", "", {}, ("AZURE_API_KEY or AZURE_AD_TOKEN", "AZURE_API_BASE", "AZURE_API_VERSION")),
        ("azure/mine", "https://h", {"AZURE_AD_TOKEN": "t", "AZURE_API_VERSION": "v"}, ()),
        (
            "bedrock/a",
            "",
            {},
            (
                "AWS_ACCESS_KEY_ID or AWS_PROFILE or AWS_BEARER_TOKEN_BEDROCK",
                "AWS_REGION_NAME or AWS_REGION or AWS_DEFAULT_REGION",
            ),
        ),
        ("bedrock/a", "", {"AWS_PROFILE": "p", "AWS_REGION": "r"}, ()),
        ("hosted_vllm/m", "", {}, ("HOSTED_VLLM_API_BASE",)),
        ("hosted_vllm/m", "http://h/v1", {}, ()),
        ("ollama/llama3", "", {}, ()),
        ("ollama_chat/llama3", "", {}, ()),
    ],
)
def test_the_variables_that_are_missing_are_named(name, base_url, environment, lacking, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    provider = provider_of(name)
    assert missing(provider, name=name, base_url=base_url, environment=environment) == lacking
    if not lacking:
        assert require(name, base_url=base_url, environment=environment) == provider
        return
    with pytest.raises(KeyMissing) as caught:
        require(name, base_url=base_url, environment=environment)
    assert caught.value.exit_code == 5
    assert all(word in str(caught.value) for word in lacking)


def test_credentials_in_a_file_are_enough_for_aws(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    Path(tmp_path, ".aws").mkdir()
    assert missing("bedrock", name="bedrock/a", base_url="", environment={}) == ()


def test_vllm_in_this_process_is_not_meant():
    with pytest.raises(KeyMissing, match="hosted_vllm/some/model"):
        provider_of("vllm/some/model")


@pytest.mark.slow
def test_names_that_only_litellm_knows(monkeypatch):
    for name in ("GROQ_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert provider_of("gpt-5") == "openai"
    with pytest.raises(KeyMissing, match="names no provider"):
        provider_of("nosuch/model")
    with pytest.raises(KeyMissing, match="GROQ_API_KEY"):
        require("groq/some-model", base_url="", environment={})
