"""What is taken out of a recording, what is left as it is, and what must not be in it at all."""

import pytest

from ridgeline.evals.recordings.export import Private, Scrub, artifacts_in, secrets
from ridgeline.graph.values import Artifact

HOME, ROOT = "/" + "home", "/" + "root"
PRIVATE = Private(
    folders=(("/srv/kernels/softmax", "/kernels/softmax"),),
    hosts=("node17.corp.example", "node17"),
    users=("mira", "root", "al"),
    words=("Team Blue",),
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cc -c /srv/kernels/softmax/kernel.c", "cc -c /kernels/softmax/kernel.c"),
        (f"{HOME}/mira/venv/bin/python -P", "/private/python -P"),
        ("at /tmp/ridgeline-x1/bench.py:3", "at /private/bench.py:3"),
        (f"{ROOT}/.cache/triton/abc", "/private/abc"),
        ("/usr/bin/gcc and /opt/rocm/bin/hipcc", "/usr/bin/gcc and /opt/rocm/bin/hipcc"),
        ("a/tmp/b and x.home/y are no absolute paths", "a/tmp/b and x.home/y are no absolute paths"),
        ("/tmp and /home alone say nothing", "/tmp and /home alone say nothing"),
        ("on node17.corp.example (node17)", "on [host] ([host])"),
        ("node170 is another", "node170 is another"),
        ("mira ran it; admiral did not", "[user] ran it; admiral did not"),
        ("the root of the tree, and al too", "the root of the tree, and al too"),
        ("written for Team Blue", "written for [word]"),
        ("mail first.last@corp.example now", "mail [mail] now"),
        ("ridgeline@localhost", "ridgeline@localhost"),
        ("GPU-8f0c1a2b-1234-5678-9abc-def012345678", "[device]"),
        ("NVIDIA H100 80GB HBM3, driver 580.95", "NVIDIA H100 80GB HBM3, driver 580.95"),
        ("", ""),
    ],
)
def test_names_are_replaced_and_nothing_else(before, after):
    assert Scrub(PRIVATE).text(before) == after
    assert Scrub(PRIVATE).text(after) == after, "taking out twice is taking out once"


def test_values_keep_their_form_and_artifacts_follow_their_contents():
    scrub = Scrub(PRIVATE)
    old, new = "a" * 64, Artifact(sha256="b" * 64, name="x.csv", size=5)
    scrub.replace_artifact(old, new)
    told = scrub.value({"n": 1, "ok": None, "mira": ["mira", 2.5], "raw": {"sha256": old, "name": "x.csv", "size": 9}})
    assert told == {"n": 1, "ok": None, "mira": ["[user]", 2.5], "raw": new.model_dump()}
    assert artifacts_in([told]) == [new]
    assert scrub.value({"sha256": old, "line": 3}) == {"sha256": old, "line": 3}, "a digest alone is no artifact"


def test_bytes_that_are_no_text_stay_as_they_are():
    assert Scrub(PRIVATE).data(b"\xff\x00mira") == b"\xff\x00mira"
    assert Scrub(PRIVATE).data(b"by mira\r\n") == b"by [user]\r\n"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("key = sk-ant-api03-abcdefghijklmnop", "a provider's key"),
        ("aws AKIAIOSFODNN7EXAMPLE", "a provider's key"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ", "a provider's key"),
        ("Authorization: Bearer abc", "a provider's key"),
        ("hf_abcdefghijklmnopqrstuvwx", "an access token"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "a private key"),
        ("https://mira:hunter22@server/x", "a password in an address"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN", "a signed token"),
        ('\\"api_key\\": \\"a1b2c3d4e5f6g7h8\\"', "a value that is named like a secret"),
        ("PASSWORD=correct7horse9battery", "a value that is named like a secret"),
        ("x = zq81-private-value", "the value of the environment variable MY_API_KEY"),
        ('"tokens": 1234567890123', None),
        ("import sklearn  # sk-learn", None),
        ("password = getpass()", None),
        ('"key":"644889b36b621f5d528989971f79a77202efcafa08a4e0894ec1a0f60e8a8e55"', None),
        ("see https://docs.example/a:b@c", None),
        ("the key to speed is the shared-memory swizzle", None),
    ],
)
def test_keys_are_found_with_their_line_and_never_shown(tmp_path, line, what):
    path = tmp_path / "ledger.jsonl"
    path.write_text(f"first\n{line}\n")
    environment = {"MY_API_KEY": "zq81-private-value", "KEYBOARD": "/usr/share/keys", "TOKENIZERS": "parallel"}
    found = list(secrets(path, "ledger.jsonl", environment))
    assert found == ([f"ledger.jsonl: line 2: holds {what}"] if what else [])
