"""YAML as people write it in front matter and registries: a value, or what is wrong and in which line."""


class NotYaml(ValueError):
    """A text that is no YAML with values that can be read. `line`: where, counted from 1."""

    def __init__(self, why: str, line: int) -> None:
        super().__init__(why)
        self.line = line


def read_yaml(text: str) -> object:
    """The value. Raises NotYaml, also for what would overflow Python: bottomless nesting, numbers of 5,000 digits."""
    import yaml  # not above: a search that needs none answers sooner

    try:
        # both loaders read the same; the compiled one, where there is one, ten times as fast
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise NotYaml(" ".join(str(error).split()), mark.line + 1 if mark else 1) from None
    except RecursionError:
        raise NotYaml("is nested too deep", 1) from None
    except ValueError as error:  # a date of month 13, a number of too many digits
        raise NotYaml(f"holds a value that cannot be read: {error}", 1) from None
