"""Why a campaign cannot go on: states of the world, never verdicts on a candidate."""


class CampaignError(Exception):
    """One line for a person: what is wrong and the mend."""

    exit_code = 2


class NeedsAnswer(CampaignError):
    """DEFINE_TARGET has questions that must not be guessed at."""


class BrokenBaseline(CampaignError):
    """The unmodified kernel does not build, is wrong, or cannot be measured: nothing can be optimized on it."""
