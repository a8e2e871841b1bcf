"""Messages to bytes and back: what fits is kept to the last bit, what does not is refused with its reason."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.contract import Message
from tacit.core.errors import ContractError, MessageRefused
from tacit.peer.node.exchange import VERSION, Parcel, Position
from tacit.peer.transport.codec import LAST_ROUND, REASONS, Codec, Layout
from tacit.peer.transport.frames import (
    CHUNK,
    CONTROL_LIMIT,
    INLINE,
    content_frames,
    parse_frame,
    parse_key_message,
    printable,
)
from tacit.peer.transport.wire import tacit_pb2 as pb
from tests.peer.linked import HELLO, JOB, SPECS, message, parcel, spec

CODEC = Codec(JOB, SPECS)
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "uint8", "bool", "complex64")


def refusal(reason: str, text: str, action: Any, *arguments: Any) -> None:
    assert reason in REASONS
    with pytest.raises(MessageRefused) as caught:
        action(*arguments)
    assert caught.value.reason == reason
    assert text in caught.value.detail


def header(**changes: Any) -> pb.Header:
    frame = parse_frame(next(CODEC.frames(parcel("b", 4))))
    assert isinstance(frame, pb.Frame)
    for field, value in changes.items():
        setattr(frame.header, field, value)
    return frame.header


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3).map(tuple)), max_size=5),
    st.integers(0, 2**32 - 1),
)
def test_what_is_packed_is_unpacked_bit_by_bit(leaves: list[tuple[str, tuple[int, ...]]], seed: int) -> None:
    layout, rng = Layout(spec(*leaves[:3], public=leaves[3:])), np.random.default_rng(seed)
    one = spec(*leaves[:3], public=leaves[3:]).message
    given_message = jax.tree.map(lambda s: np.asarray(rng.integers(0, 2, s.shape) * 1.5, s.dtype), one)
    content = layout.pack(given_message)
    assert len(content) == layout.size
    back = layout.unpack(content)
    jax.tree.map(np.testing.assert_array_equal, back, given_message)
    assert all(
        leaf.dtype == s.dtype and leaf.flags.aligned
        for leaf, s in zip(jax.tree.leaves(back), jax.tree.leaves(one), strict=True)
    )


def test_content_is_little_endian_leaf_after_leaf_whatever_the_layout_in_memory() -> None:
    layout = Layout(spec(("float32", (2, 2)), ("int32", (1,))))
    columns = np.asfortranarray(np.array([[1, 2], [3, 4]], np.float32))
    content = layout.pack(Message({"leaf0": columns, "leaf1": jnp.array([-2])}, {}))
    assert content == np.array([1, 2, 3, 4], "<f4").tobytes() + (-2).to_bytes(4, "little", signed=True)


def test_what_is_unpacked_lies_in_the_given_memory() -> None:
    buffer = np.frombuffer(CODEC.pack(0, message(0)), np.uint8)
    assert all(np.shares_memory(leaf, buffer) for leaf in jax.tree.leaves(CODEC.unpack(0, buffer)))


@pytest.mark.parametrize(
    "broken",
    [
        Message({"leaf0": np.zeros((3, 2), np.float64)}, {"leaf0": np.int32(1)}),
        Message({"leaf0": np.zeros((2, 3), np.float32)}, {"leaf0": np.int32(1)}),
        Message({"other": np.zeros((3, 2), np.float32)}, {"leaf0": np.int32(1)}),
    ],
)
def test_a_message_of_its_own_that_does_not_fit_is_a_fault_of_the_algorithm(broken: Message) -> None:
    with pytest.raises(ContractError, match="this phase sends float32"):
        CODEC.pack(0, broken)
    with pytest.raises(ContractError, match="with 5 bytes; this phase sends 28"):
        list(CODEC.frames(Parcel("peers", 0, 1, "b", bytes(5))))


@pytest.mark.parametrize("size", [0, 1, INLINE - 4, INLINE, INLINE + 4, CHUNK, CHUNK + 4, 3 * CHUNK, 3 * CHUNK + 400])
def test_a_message_of_any_size_goes_through_its_frames(size: int) -> None:
    codec = Codec(JOB, (spec(("uint8", (size,))),))
    content = np.random.default_rng(size).bytes(size)
    frames = list(codec.frames(Parcel("peers", 0, 1, "b", content)))
    assert len(frames) == 1 + (0 if size <= INLINE else -(-size // CHUNK))
    assert max(map(len, frames)) <= CHUNK + 4
    head = parse_frame(frames[0])
    assert isinstance(head, pb.Frame)
    assembler = codec.expect(head.header)
    for frame in frames[1:]:
        assert pb.Frame.FromString(frame).content  # what is written by hand is protobuf
        if assembler.missing > CHUNK:
            refusal("truncated", f"of {size} bytes", assembler.message)
        assembler.add(parse_frame(frame))
    assert assembler.missing == 0
    assert (assembler.phase, assembler.sent) == (0, 1)
    assert assembler.message().private["leaf0"].tobytes() == content
    refusal("oversized", f"expected {size}", assembler.add, memoryview(b"x"))


@pytest.mark.parametrize(
    ("reason", "text", "changes"),
    [
        ("phase", "phase 2 of 2", {"phase": 2}),
        ("round", "round 0", {"round": 0}),
        ("round", f"round {LAST_ROUND + 1}", {"round": LAST_ROUND + 1}),
        ("size", "29 bytes of content with a header, expected 28", {"content": bytes(29)}),
        ("size", "27 bytes of content with a header, expected 28", {"content": bytes(27)}),
        ("size", "0 bytes of content with a header, expected 28", {"content": b""}),
        ("size", "expected 51 in phase 1", {"phase": 1}),
        ("size", "nothing in phase 0, which has 28 bytes for everybody", {"content": b"", "nothing": True}),
        ("masks", "8 bytes of tags", {"masks": bytes(8)}),
    ],
)
def test_every_field_of_a_header_is_checked(reason: str, text: str, changes: dict[str, Any]) -> None:
    CODEC.expect(header())
    CODEC.expect(header(round=LAST_ROUND))
    refusal(reason, text, CODEC.expect, header(**changes))


def test_content_that_does_not_fit_a_frame_comes_in_frames_of_its_own() -> None:
    codec = Codec(JOB, (spec(("uint8", (INLINE + 1,))),))
    assert codec.expect(pb.Header(round=1)).missing == INLINE + 1
    refusal("size", "1 bytes of content with a header, expected 0", codec.expect, pb.Header(round=1, content=b"x"))


def test_a_message_says_nothing_that_hello_has_settled() -> None:
    (data,) = CODEC.frames(parcel("b", 4))
    assert len(data) == 28 + 6  # kind and length, round, content and its length
    (last,) = CODEC.frames(parcel("b", LAST_ROUND, phase=1))
    assert len(last) == 51 + 12


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1, 2**18 - 1, 2**18, 2**18 + 4])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
def test_numbers_that_are_none_are_refused_wherever_they_stand(bad: float, place: int, dtype: str) -> None:
    layout = Layout(spec(("int32", (2,)), (dtype, (2**18 + 5,))))
    values = np.zeros(2**18 + 5, dtype)
    content = layout.pack(Message({"leaf0": np.full(2, -1, np.int32), "leaf1": values}, {}))
    layout.unpack(content)
    values[place] = bad
    refusal("finite", f"at place {place}", layout.unpack, content[:8] + values.tobytes())


def test_truth_values_are_zero_or_one() -> None:
    layout = Layout(spec(("bool", (3,))))
    layout.unpack(b"\0\1\0")
    refusal("content", "other than 0 and 1", layout.unpack, b"\0\2\0")
    refusal("size", "2 bytes of content, expected 3", layout.unpack, b"\0\1")


FORMS = [layout.form for layout in CODEC.layouts]


def test_hello_says_version_job_round_and_forms() -> None:
    def heard(**changes: Any) -> int:
        hello = pb.Hello(**{"version": VERSION, "job": JOB, "round": 3, "forms": FORMS} | changes)
        return CODEC.check_hello(parse_frame(pb.Frame(hello=hello).SerializeToString()))

    assert heard() == 3
    assert CODEC.check_hello(parse_frame(CODEC.hello(5))) == 5
    refusal("version", f"version 1, this peer speaks {VERSION}", lambda: heard(version=1))
    refusal("job", f"job other, this peer works on {JOB}", lambda: heard(job="other"))
    refusal("round", "the last is", lambda: heard(round=2**31))
    refusal("order", "header before hello", CODEC.check_hello, pb.Frame(header=header()))
    refusal("order", "content before hello", CODEC.check_hello, memoryview(b"x"))


@pytest.mark.parametrize(
    ("reason", "text", "leaves"),
    [
        ("shape", "0 leaves, expected 2", []),
        ("dtype", "float64, expected float32", [("float64", [3, 2]), ("int32", [])]),
        ("shape", "2 x 3, expected 3 x 2", [("float32", [2, 3]), ("int32", [])]),
        ("shape", "shape 6, expected 3 x 2", [("float32", [6]), ("int32", [])]),
        ("shape", "leaf 1 of phase 0", [("float32", [3, 2]), ("int32", [1])]),
    ],
)
def test_messages_of_another_form_are_refused_at_hello(
    reason: str, text: str, leaves: list[tuple[str, list[int]]]
) -> None:
    other = pb.Form(leaves=[pb.Leaf(dtype=dtype, shape=shape) for dtype, shape in leaves])
    hello = pb.Hello(version=VERSION, job=JOB, round=3, forms=[other, FORMS[1]])
    refusal(reason, text, CODEC.check_hello, pb.Frame(hello=hello))
    hello = pb.Hello(version=VERSION, job=JOB, round=3, forms=FORMS[:1])
    refusal("phase", "1 phases, expected 2", CODEC.check_hello, pb.Frame(hello=hello))


def test_positions_that_cannot_be_are_refused() -> None:
    assert CODEC.position(pb.Progress(round=3, phase=1)) == Position(3, 1)
    assert CODEC.position(pb.Welcome(round=LAST_ROUND, phase=2)) == Position(LAST_ROUND, 2)
    refusal("round", "the last is", CODEC.position, pb.Progress(round=2**31))
    refusal("phase", "phase 3 of 2", CODEC.position, pb.Welcome(round=1, phase=3))


@pytest.mark.parametrize(
    ("reason", "data"),
    [
        ("malformed", b""),
        ("malformed", b"\x08"),
        ("malformed", HELLO[:-1]),
        ("malformed", b"\x22\x00"),
        ("malformed", b"\x22"),
        ("malformed", b"\x22\x05abcd"),
        ("malformed", b"\x22\x03abcd"),
        ("malformed", HELLO + b"\x22\x01x"),
        ("malformed", b"\x0a\x04\x12\x02\xff\xfe"),
        ("oversized", b"\x22\x81\x80\x40" + bytes(CHUNK + 1)),
        ("oversized", b"\x22\xff\xff\xff\xff\x0f"),
        ("oversized", b"\x0a" + bytes(CONTROL_LIMIT)),
        ("compressed", b"\x1f\x8b" + bytes(10)),
        ("compressed", b"\x78\x9c" + bytes(10)),
    ],
)
def test_bytes_that_are_no_frame_are_refused(reason: str, data: bytes) -> None:
    refusal(reason, "", parse_frame, data)


def test_letters_have_a_limit() -> None:
    assert (
        parse_key_message(pb.Letter(correspondent="c", payload=b"x" * 2**20).SerializeToString()).correspondent == "c"
    )
    refusal("oversized", "at most", parse_key_message, pb.Letter(payload=bytes(2**20 + 2**13)).SerializeToString())
    refusal("malformed", "no Letter", parse_key_message, b"\x0a\x05")


def test_content_is_cut_without_a_rest() -> None:
    assert list(content_frames(b"")) == []
    assert [len(parse_frame(f)) for f in content_frames(bytes(2 * CHUNK))] == [CHUNK, CHUNK]


def test_texts_of_others_are_short_and_on_one_line() -> None:
    assert printable("a\nb\x1b[0m" + "x" * 1000) == "a?b?[0m" + "x" * 493


def test_whoever_is_not_called_is_told_so_by_an_empty_content() -> None:
    called = spec(("float32", (3,)))._replace(addressed=True)
    codec = Codec(JOB, (called, spec(("float32", (3,)))))
    assert codec.pack(0, None) == b""
    (frame,) = codec.frames(Parcel("peers", 0, 1, "b", b""))
    parsed = parse_frame(frame)
    assert isinstance(parsed, pb.Frame)
    received = codec.expect(parsed.header)
    assert received.missing == 0
    assert received.message() is None
    # Of a phase that is for everybody nothing may be left out, and a message that is cut off is none.
    with pytest.raises(ContractError, match="0 bytes"):
        list(codec.frames(Parcel("peers", 1, 1, "b", b"")))
    assert len(frame) == 6
    parsed.header.phase = 1
    refusal("size", "nothing in phase 1", codec.expect, parsed.header)
    refusal("size", "12 bytes of content", codec.expect, pb.Header(round=1, content=bytes(12), nothing=True))
    refusal("size", "0 bytes of content with a header, expected 12", codec.expect, pb.Header(round=1))
    refusal("size", "4 bytes of content", codec.unpack, 0, bytes(4))
    with pytest.raises(ContractError, match="empty messages"):
        Codec(JOB, (spec()._replace(addressed=True),))
