"""Which language model a campaign asks, and how patiently: everything but the keys, which stay in the environment."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import KeyMissing
from ridgeline.agent.providers.library import library
from ridgeline.graph.values import Value

MAILBOX = "mailbox"
RECORDED = "recorded:"
"""Begins the name of a model that gives the answers of a recording, or of a folder with answers, again."""
AGENT = "agent:"
"""Begins the names of models that an installed coding agent answers for, for example `agent:claude`."""
TIMEOUT_S = 300.0
"""One request. A long answer of a large model takes minutes."""
TOTAL_S = 900.0
"""One question with all its retries."""


class Price(Value):
    """Dollars per million tokens."""

    input: float
    output: float


class Choice(Value):
    """A model by litellm's name `provider/model`, `agent:NAME` with or without `/model`, `mailbox`, or `recorded:FOLDER`."""

    name: str
    base_url: str = ""
    """Where an OpenAI-compatible server listens; empty for the provider's own address."""
    fallbacks: tuple[str, ...] = ()
    """Asked in this order when the models before them give no answer."""
    timeout_s: float = TIMEOUT_S
    total_s: float = TOTAL_S
    price: Price | None = None
    """What a person says it costs; wins over litellm's list."""

    @property
    def planner(self) -> str:
        """The chosen model's word in the ledger, for example `llm:openai/gpt-5`."""
        if self.name == MAILBOX:
            return MAILBOX
        return self.name_shown if self.recording else f"llm:{self.name}"

    @property
    def recording(self) -> Path | None:
        """The folder whose answers are given again; None where somebody is asked."""
        return Path(self.name.removeprefix(RECORDED)) if self.name.startswith(RECORDED) else None

    @property
    def name_shown(self) -> str:
        """The chosen model's name without the place of a folder on this machine."""
        return f"{RECORDED}{name_recorded(self.name.removeprefix(RECORDED))}" if self.recording else self.name


def choose(
    name: str | None,
    *,
    base_url: str | None,
    fallbacks: Sequence[str],
    environment: Mapping[str, str],
) -> Choice | None:
    """The model of the command line, completed from `RIDGELINE_MODEL`, `RIDGELINE_BASE_URL`, `RIDGELINE_MODEL_PRICE`.

    None when no model was asked for. Raises `UserError` for what cannot be.
    """
    model_name = name or environment.get("RIDGELINE_MODEL", "")
    url = base_url or environment.get("RIDGELINE_BASE_URL", "")
    if not model_name:
        if base_url or fallbacks:
            raise UserError("--model: is missing; give it together with --base-url or --fallback")
        return None
    if any(not part.strip() or part != part.strip() for part in (model_name, *fallbacks)):
        raise UserError("--model: is empty or has spaces around it; write provider/model, for example openai/gpt-5")
    if model_name == MAILBOX and (base_url or fallbacks):
        raise UserError("--model mailbox: is answered through files; leave out --base-url and --fallback")
    if MAILBOX in fallbacks:
        raise UserError("--fallback mailbox: a mailbox stands alone; use --model mailbox")
    if model_name.startswith(RECORDED):
        return _choose_recorded(model_name.removeprefix(RECORDED), alone=not base_url and not fallbacks)
    if any(part.startswith(RECORDED) for part in fallbacks):
        raise UserError(f"--fallback {RECORDED}FOLDER: recorded answers stand alone; use --model {RECORDED}FOLDER")
    if any(part.startswith(AGENT) for part in fallbacks) or (model_name.startswith(AGENT) and (base_url or fallbacks)):
        raise UserError(f"--model {AGENT}NAME: stands alone; leave out --base-url and --fallback")
    return Choice(
        name=model_name,
        base_url="" if model_name == MAILBOX or model_name.startswith(AGENT) else checked_url(url),
        fallbacks=tuple(fallbacks),
        price=_price(environment.get("RIDGELINE_MODEL_PRICE", "")),
    )


def _choose_recorded(folder: str, *, alone: bool) -> Choice:
    """The choice of recorded answers, by the whole path of their folder. Raises UserError for what cannot be."""
    if not alone:
        raise UserError(f"--model {RECORDED}FOLDER: asks nobody; leave out --base-url and --fallback")
    if not folder.strip():
        raise UserError(f"--model {RECORDED} names no folder; write {RECORDED}evals/campaigns/NAME")
    return Choice(name=f"{RECORDED}{Path(folder).expanduser().absolute()}")


def name_recorded(folder: str) -> str:
    """The name of a folder with recorded answers, without its place on this machine."""
    return Path(folder).name or folder


def has_model(planner: str) -> bool:
    """Whether a campaign's planner, as the ledger names it, asked a model, or gave a model's answers again."""
    return planner.startswith(("llm:", MAILBOX, RECORDED))


def elsewhere(choice: Choice, environment: Mapping[str, str]) -> Choice:
    """The choice of model of a campaign that goes on: its server may listen at another address by now."""
    url = checked_url(environment.get("RIDGELINE_BASE_URL", ""))
    has_server = choice.name != MAILBOX and not choice.name.startswith((AGENT, RECORDED))
    return choice.model_copy(update={"base_url": url}) if url and has_server else choice


def checked_url(url: str) -> str:
    """The address of a model's server without its last slash. It is written into the campaign, so it may hold no key."""
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UserError("--base-url: is no http address; write for example http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        raise UserError(
            "--base-url: holds a name, password or query, and would be written down; give the key by variable"
        )
    return url.rstrip("/")


def _price(text: str) -> Price | None:
    if not text:
        return None
    mend = "RIDGELINE_MODEL_PRICE: write two numbers, dollars per million tokens in and out, for example 0.5,1.5"
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(mend) from None
    if len(values) != 2 or not all(0 <= value < 1e6 for value in values):
        raise UserError(mend)
    return Price(input=values[0], output=values[1])


# What each provider needs from the environment, checked offline and named before anything is measured.

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
        provider = lib.get_llm_provider(model=name)[1]
    except lib.exceptions.BadRequestError:
        raise KeyMissing(
            f"--model: {name[:80]!r} names no provider that litellm knows; write provider/model, for example"
            f" anthropic/NAME, or openai/{name[:80]} with --base-url for an OpenAI-compatible server"
        ) from None
    return str(provider)


def own_server(provider: str, base_url: str, environment: Mapping[str, str]) -> bool:
    """Whether requests to the model go to an address that somebody gave, so that litellm's prices say nothing about it."""
    if provider == "azure":
        return False
    return bool(base_url) or any(environment.get(name) for name in BASES.get(provider, ()))


def missing(provider: str, *, name: str, base_url: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Keys or packages that a model lacks here, each as `A` or `A or B`; empty when it can be asked."""
    if provider == "openai" and own_server(provider, base_url, environment):
        return ()
    if provider not in NEEDS:
        lacking = library().validate_environment(model=name)["missing_keys"]
        return () if base_url else tuple(str(key) for key in lacking)
    needed = NEEDS[provider]
    if provider == "bedrock" and (Path.home() / ".aws").is_dir():
        needed = ()
    base_variables = {*BASES.get(provider, ())} if base_url else set()
    return tuple(
        " or ".join(names[:3])
        for names in needed
        if not any(environment.get(variable) or variable in base_variables for variable in names)
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
