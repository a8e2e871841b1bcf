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
from tacit.peer.transport import frames as wire
from tacit.peer.transport.codec import LAST_ROUND, REASONS, Codec, Layout
from tacit.peer.transport.frames import (
    CHUNK,
    CONTENT,
    CONTROL_LIMIT,
    HEADER,
    INLINE,
    KEY_MESSAGE_LIMIT,
    LETTER,
    Answer,
    End,
    Header,
    Hello,
    Leaf,
    Letter,
    Place,
    Receipt,
    content_frames,
    framed,
    number,
    number_at,
    parse,
    printable,
)
from tests.peer.linked import HELLO, JOB, SPECS, frames, message, parcel, spec
from tests.peer.mutated_frames import read

CODEC = Codec(JOB, SPECS)
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "uint8", "bool", "complex64")


def refusal(reason: str, text: str, action: Any, *arguments: Any) -> None:
    assert reason in REASONS
    with pytest.raises(MessageRefused) as caught:
        action(*arguments)
    assert caught.value.reason == reason
    assert text in caught.value.detail


def header(**changes: Any) -> Header:
    ((kind, payload),) = read(frames(parcel("b", 4))[0])
    assert kind == HEADER
    return parse(HEADER, memoryview(payload))._replace(**changes)


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
    sent = frames(Parcel("peers", 0, 1, "b", content), codec)
    assert len(sent) == max(1, 0 if size <= INLINE else -(-size // CHUNK))
    (kind, payload), *parts = read(b"".join(sent))
    assert kind == HEADER
    assembler = codec.expect(parse(HEADER, memoryview(payload)))
    for kind, part in parts:
        assert kind == CONTENT
        if assembler.missing > CHUNK:
            refusal("truncated", f"of {size} bytes", assembler.message)
        assembler.place(len(part))[:] = part
    assert assembler.missing == 0
    assert (assembler.phase, assembler.sent) == (0, 1)
    assert assembler.message().private["leaf0"].tobytes() == content
    refusal("oversized", f"expected {size}", assembler.place, 1)


@pytest.mark.parametrize("step", [1, 2, 3, 1000, 2**14])
def test_frames_are_the_same_however_their_bytes_come(step: int) -> None:
    said = [HELLO, *frames(parcel("b", 1)), Letter(1, "c", bytes(range(256)) * 500).frame(), Place(2**31, 1).frame(2)]
    said += [head + bytes(part) for head, part in content_frames(bytes(3000))]
    said += [framed(HEADER, bytes(CONTROL_LIMIT))] * 3
    found = read(b"".join(said), step)
    assert [framed(kind, payload) for kind, payload in found] == said


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_numbers_are_read_as_they_are_written_and_one_way_only(value: int, behind: bytes) -> None:
    data = number(value)
    assert number_at(memoryview(data + behind), 0) == (value, len(data))
    assert all(number_at(memoryview(data[:cut]), 0) is None for cut in range(len(data)))
    if len(data) < 5:
        at_length = bytes((*data[:-1], data[-1] | 0x80, 0))
        refusal("malformed", "shortest", number_at, memoryview(at_length), 0)


def test_every_frame_is_parsed_to_what_it_was_made_of() -> None:
    for one in (
        Receipt(1, 2**31, "stale", "l\u00e4te"),
        Letter(7, "c", b"sealed"),
        Answer(2**32 - 1, "busy", ""),
        End("", "this peer stops"),
        Header(3, 5, b"content", b"12345678", True),
        Header(40, 1),
        CODEC.hello(9),
        Hello(1, "", 0, ((), (Leaf("bool", (2**32 - 1, 0)),))),
    ):
        ((kind, payload),) = read(one.frame())
        assert parse(kind, memoryview(payload)) == one
        if kind not in (LETTER, HEADER):  # whose last field goes on to the end
            refusal("malformed", "1 bytes too many", parse, kind, memoryview(payload + b"x"))
        refusal("malformed", "", parse, kind, memoryview(payload[:1] if kind == HEADER else payload[:-7] or b""))
    ((kind, payload),) = read(Place(4, 1).frame(2))
    assert parse(kind, memoryview(payload)) == (4, 1)


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
    assert codec.expect(Header(0, 1)).missing == INLINE + 1
    refusal("size", "1 bytes of content with a header, expected 0", codec.expect, Header(0, 1, b"x"))


def test_a_message_says_nothing_that_hello_has_settled() -> None:
    (data,) = frames(parcel("b", 4))
    assert len(data) == 28 + 4  # kind and length, phase and round
    (last,) = frames(parcel("b", LAST_ROUND, phase=1))
    assert len(last) == 51 + 8


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


FORMS = CODEC.hello(1).forms


def test_hello_says_version_job_round_and_forms() -> None:
    def heard(**changes: Any) -> int:
        ((_, payload),) = read(Hello(VERSION, JOB, 3, FORMS)._replace(**changes).frame())
        return CODEC.check_hello(parse(wire.HELLO, memoryview(payload)))

    assert heard() == 3
    refusal("version", f"version 1, this peer speaks {VERSION}", lambda: heard(version=1))
    refusal("job", f"job other, this peer works on {JOB}", lambda: heard(job="other"))
    refusal("round", "the last is", lambda: heard(round=2**31))


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
    other = tuple(Leaf(dtype, tuple(shape)) for dtype, shape in leaves)
    refusal(reason, text, CODEC.check_hello, Hello(VERSION, JOB, 3, (other, FORMS[1])))
    refusal("phase", "1 phases, expected 2", CODEC.check_hello, Hello(VERSION, JOB, 3, FORMS[:1]))


def test_positions_that_cannot_be_are_refused() -> None:
    assert CODEC.position(Place(3, 1)) == Position(3, 1)
    assert CODEC.position(Place(LAST_ROUND, 2)) == Position(LAST_ROUND, 2)
    refusal("round", "the last is", CODEC.position, Place(2**31, 0))
    refusal("phase", "phase 3 of 2", CODEC.position, Place(1, 3))


@pytest.mark.parametrize(
    ("reason", "data"),
    [
        ("malformed", b"\0\0"),
        ("malformed", b"\x0c\0"),
        ("malformed", b"\xff\xff"),
        ("malformed", b"\x1f\x8b" + bytes(10)),  # gzip
        ("malformed", bytes((CONTENT, 0))),
        ("malformed", bytes((HEADER,)) + b"\xff" * 5),
        ("malformed", bytes((HEADER,)) + b"\x80\0"),
        ("oversized", bytes((CONTENT,)) + number(CHUNK + 1)),
        ("oversized", bytes((HEADER,)) + number(CONTROL_LIMIT + 1)),
        ("oversized", bytes((LETTER,)) + number(KEY_MESSAGE_LIMIT + 1)),
    ],
)
def test_bytes_that_are_no_frame_are_refused(reason: str, data: bytes) -> None:
    refusal(reason, "", read, data)


def test_content_is_cut_without_a_rest() -> None:
    assert list(content_frames(b"")) == []
    assert [len(part) for _, part in content_frames(bytes(2 * CHUNK))] == [CHUNK, CHUNK]


def test_texts_of_others_are_short_and_on_one_line() -> None:
    assert printable("a\nb\x1b[0m" + "x" * 1000) == "a?b?[0m" + "x" * 493


def test_whoever_is_not_called_is_told_so_by_an_empty_content() -> None:
    called = spec(("float32", (3,)))._replace(addressed=True)
    codec = Codec(JOB, (called, spec(("float32", (3,)))))
    assert codec.pack(0, None) == b""
    (frame,) = frames(Parcel("peers", 0, 1, "b", b""), codec)
    ((_, payload),) = read(frame)
    parsed = parse(HEADER, memoryview(payload))
    received = codec.expect(parsed)
    assert received.missing == 0
    assert received.message() is None
    # Of a phase that is for everybody nothing may be left out, and a message that is cut off is none.
    with pytest.raises(ContractError, match="0 bytes"):
        list(codec.frames(Parcel("peers", 1, 1, "b", b"")))
    assert len(frame) == 4
    refusal("size", "nothing in phase 1", codec.expect, parsed._replace(phase=1))
    refusal("size", "12 bytes of content", codec.expect, Header(0, 1, bytes(12), nothing=True))
    refusal("size", "0 bytes of content with a header, expected 12", codec.expect, Header(0, 1))
    refusal("size", "4 bytes of content", codec.unpack, 0, bytes(4))
    with pytest.raises(ContractError, match="empty messages"):
        Codec(JOB, (spec()._replace(addressed=True),))
