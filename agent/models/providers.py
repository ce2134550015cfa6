"""What each provider needs from the environment, checked offline and named before anything is measured."""

from collections.abc import Mapping
from pathlib import Path

from ridgeline.agent.models.base import KeyMissing
from ridgeline.agent.models.library import library

AWS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_ROLE_ARN",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
)
NEEDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "openai": (("OPENAI_API_KEY",),),
    "anthropic": (("ANTHROPIC_API_KEY",),),
    "gemini": (("GEMINI_API_KEY", "GOOGLE_API_KEY"),),
    "azure": (("AZURE_API_KEY", "AZURE_AD_TOKEN"), ("AZURE_API_BASE",), ("AZURE_API_VERSION",)),
    "bedrock": (AWS, ("AWS_REGION_NAME", "AWS_REGION", "AWS_DEFAULT_REGION")),
    "hosted_vllm": (("HOSTED_VLLM_API_BASE",),),
    "ollama": (),
    "ollama_chat": (),
}
"""By provider: all of these, each by any one of its names. Ollama listens on this machine unless told otherwise."""
BASES = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "azure": ("AZURE_API_BASE",),
    "hosted_vllm": ("HOSTED_VLLM_API_BASE",),
    "ollama": ("OLLAMA_API_BASE",),
    "ollama_chat": ("OLLAMA_API_BASE",),
}
"""Variables that say where the server is, as `--base-url` does."""
LOCAL = frozenset({"ollama", "ollama_chat"})
"""Servers on one's own machine: no dollars."""


def provider_of(name: str) -> str:
    """The provider of a model's name. Raises KeyMissing for one that nobody knows."""
    prefix, slash, _ = name.partition("/")
    if slash and prefix in NEEDS:
        return prefix
    if prefix == "vllm" and slash:
        rest = name.removeprefix("vllm/")
        raise KeyMissing(
            f"--model: vllm/ would load the model into this process; write hosted_vllm/{rest} --base-url URL"
        )
    lib = library()
    try:
        found = lib.get_llm_provider(model=name)[1]
    except lib.exceptions.BadRequestError:
        raise KeyMissing(
            f"--model: {name[:80]!r} names no provider that litellm knows; write provider/model, for example"
            f" anthropic/NAME, or openai/{name[:80]} with --base-url for an OpenAI-compatible server"
        ) from None
    return str(found)


def own_server(provider: str, base_url: str, environment: Mapping[str, str]) -> bool:
    """Whether the requests go to an address that somebody gave, so that litellm's prices say nothing about it."""
    if provider == "azure":
        return False
    return bool(base_url) or any(environment.get(name) for name in BASES.get(provider, ()))


def missing(provider: str, *, name: str, base_url: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What the model lacks, each as `A` or `A or B`; empty when it can be asked."""
    if provider == "openai" and own_server(provider, base_url, environment):
        return ()
    if provider not in NEEDS:
        lacking = library().validate_environment(model=name)["missing_keys"]
        return () if base_url else tuple(str(key) for key in lacking)
    needed = NEEDS[provider]
    if provider == "bedrock" and (Path.home() / ".aws").is_dir():
        needed = ()
    given = {*BASES.get(provider, ())} if base_url else set()
    return tuple(
        " or ".join(names[:3])
        for names in needed
        if not any(environment.get(variable) or variable in given for variable in names)
    )


def require(name: str, *, base_url: str, environment: Mapping[str, str]) -> str:
    """The provider of a model that can be asked. Raises KeyMissing naming what is missing."""
    provider = provider_of(name)
    lacking = missing(provider, name=name, base_url=base_url, environment=environment)
    if not lacking:
        return provider
    words = ", ".join(lacking)
    verb = "is" if len(lacking) == 1 else "are"
    hint = "; or name the server by --base-url" if any("_API_BASE" in word for word in lacking) else ""
    raise KeyMissing(f"--model {name}: {words} {verb} not set; set in the environment{hint}")


def variables(provider: str) -> str:
    """The variable that holds the provider's key, for messages."""
    needed = NEEDS.get(provider)
    return " or ".join(needed[0][:3]) if needed else f"the key of {provider}"
