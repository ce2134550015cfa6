"""What a worker has compiled goes to later workers of the same version, whose folders lie elsewhere."""

import json
from pathlib import Path

import pytest

from ridgeline.sandbox.harness.judge_cache import pack, unpack


def test_files_come_again_under_the_paths_of_the_new_folder(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "triton" / "key").mkdir(parents=True)
    (old / "triton" / "key" / "kernel.cubin").write_bytes(bytes(range(256)))
    group = {"child_paths": {"kernel.cubin": f"{old}/triton/key/kernel.cubin"}}
    (old / "triton" / "key" / "__grp__kernel.json").write_text(json.dumps(group))

    unpack(pack(str(old), 1 << 20), str(new))

    assert (new / "triton" / "key" / "kernel.cubin").read_bytes() == bytes(range(256))
    listed = json.loads((new / "triton" / "key" / "__grp__kernel.json").read_text())["child_paths"]
    assert Path(listed["kernel.cubin"]) == new / "triton" / "key" / "kernel.cubin"


def test_too_much_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(1000))

    assert pack(str(tmp_path), 500) == b""


def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(b"x")
    packed = pack(str(tmp_path / "in"), 1000).replace(b'"file"', b'"../f"')

    with pytest.raises(ValueError, match="f"):
        unpack(packed, str(tmp_path / "out"))
