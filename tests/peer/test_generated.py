"""The generated code is what the compiler makes of the .proto."""

from __future__ import annotations

from pathlib import Path

from grpc_tools import protoc

import tacit.peer.transport

TRANSPORT = Path(tacit.peer.transport.__file__).parent


def test_the_wire_is_generated_from_the_proto(tmp_path: Path) -> None:
    source = TRANSPORT / "tacit.proto"
    assert protoc.main(["", f"-I{TRANSPORT}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", str(source)]) == 0
    for name in ("tacit_pb2.py", "tacit_pb2.pyi"):
        assert (TRANSPORT / "wire" / name).read_text() == (tmp_path / name).read_text(), "run `make proto`"
