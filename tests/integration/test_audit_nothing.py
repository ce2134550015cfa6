"""`audit` says nothing of what it cannot read."""

import pytest


@pytest.mark.parametrize("data", [b"", b" \n", b"\x7fELF\x00\x01"], ids=["empty", "blank", "binary"])
def test_a_file_without_text_is_nothing_to_read(cli, tmp_path, data):
    file = tmp_path / "kernel.c"
    file.write_bytes(data)
    refused = cli("audit", file)
    assert refused.code == 2
    assert "nothing to read" in refused.err
