"""Codec of messages, with every check that is possible before a message touches any state.

The memory reserved for a message follows from this peer's own specs, never from a number that came from outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Message
from tacit.core.errors import ContractError, MessageRefused, PrivacyError
from tacit.peer.node.exchange import VERSION, Parcel, Position
from tacit.peer.transport import handshake
from tacit.peer.transport.frames import INLINE, Form, Header, Hello, Leaf, Place, content_frames, printable
from tacit.privacy.noise import hides
from tacit.runtime import MessageSpec

if TYPE_CHECKING:
    from tacit.core.packing import Packing

REASONS = frozenset(
    {
        *handshake.REASONS,
        "server name",  # the dialled server has another name
        "identity",  # a certificate with no or several names
        "role",  # one of an observer or operator, who is no member
        "revoked",  # one that the authority has taken back
        "sender",  # a member, but not one that this peer hears
        "hello",  # did not say hello in time
        "version",
        "job",
        "order",  # frames that do not come in the order of the protocol
        "malformed",  # bytes that are no frame
        "oversized",
        "truncated",  # the stream ended within a message
        "address",  # of a phase whose messages go another way
        "phase",
        "round",
        "dtype",
        "shape",
        "size",
        "finite",
        "stale",
        "repeated",
        "early",
        "ahead",  # a neighbour that names a round far ahead, alone: it is followed a little at a time
        "content",
        "masks",  # it names no sessions where it must be masked, or other ones than it should
        "recipient",  # a key message to a peer that cannot get it
        "busy",  # too many key messages at once
        "crowded",  # a connection that had to make room for another
        "unproven",  # one that did not prove its identity in time
    }
)
"""Every reason for which something from outside is refused; counters are kept by these words."""

LAST_ROUND = 2**31 - 2
"""Rounds are int32 in a view, and so is the position after the last one."""
_FINITE_BLOCK = 2**18
"""Numbers looked at together: they stay in the cache, and the temporary array stays small."""


class _Leaf(NamedTuple):
    name: str
    """Name of its type."""
    dtype: np.dtype
    wire: np.dtype
    """The same, little-endian."""
    shape: tuple[int, ...]
    begin: int
    end: int
    numbers: int
    """How many there are."""
    may_be_infinite: bool
    packing: Packing | None
    """How they are written in fewer bytes; None: as they are."""

    def written(self, array: np.ndarray) -> bytes | memoryview:
        """Return the bytes of an array of this leaf."""
        if self.packing is not None:
            return self.packing.pack(np.asarray(array).reshape(-1))
        return np.ascontiguousarray(array, self.wire).reshape(-1).view(np.uint8).data

    def read(self, content: bytes | np.ndarray) -> np.ndarray:
        """Return the numbers of this leaf in a whole content, as a view of it where they are written as they are."""
        if self.packing is not None:
            own = np.frombuffer(content, np.uint8, self.end - self.begin, self.begin)
            return self.packing.unpack(own, self.numbers, self.dtype)
        return np.frombuffer(content, self.wire, self.numbers, self.begin)


class Layout:
    """Layout of one phase's message in bytes: leaf after leaf, little-endian, without gaps."""

    def __init__(self, spec: MessageSpec) -> None:
        self.optional = spec.addressed
        """Whether an empty content is allowed: the neighbour is not called."""
        self.masked = hides(spec.release.mechanism)
        """Whether such messages leave only under masks."""
        leaves = jax.tree.leaves(spec.message)
        self._structure: Any = jax.tree.structure(spec.message)
        self.leaves: list[_Leaf] = []
        begin = 0
        for leaf, (size, packing) in zip(leaves, spec.bytes_of_leaves(), strict=True):
            dtype = np.dtype(leaf.dtype)
            shape, count, inexact = tuple(leaf.shape), math.prod(leaf.shape), jnp.issubdtype(dtype, jnp.inexact)
            wire, end = dtype.newbyteorder("<"), begin + size
            self.leaves.append(_Leaf(dtype.name, dtype, wire, shape, begin, end, count, inexact, packing))
            begin = end
        self._expected = [(leaf.dtype, leaf.shape) for leaf in self.leaves]
        self.size = begin
        if self.optional and not self.size:
            raise ContractError("a phase that names whom it is for sends empty messages; send a number at least")
        self.form: Form = tuple(Leaf(leaf.name, leaf.shape) for leaf in self.leaves)
        self.inline = self.size <= INLINE
        """Whether all of the content travels in the header's own frame."""

    def pack(self, message: Message) -> bytes:
        """Return the content of a message that fits."""
        leaves, structure = jax.tree.flatten(message)
        found = [(np.dtype(leaf.dtype), tuple(leaf.shape)) for leaf in leaves]
        if structure != self._structure or found != self._expected:
            raise ContractError(f"a message of {_named(found)}; this phase sends {_named(self._expected)}")
        return b"".join(leaf.written(array) for array, leaf in zip(leaves, self.leaves, strict=True))

    def unpack(self, content: bytes | np.ndarray) -> Message | None:
        """Return the message in `content`, as views of it; refuse one of another size or with numbers that are none.

        None where nothing is for this peer.
        """
        size = len(content)
        if self.optional and size == 0:
            return None
        if size != self.size:
            raise MessageRefused("size", f"{size} bytes of content, expected {self.size}")
        arrays = []
        for number, leaf in enumerate(self.leaves):
            array = leaf.read(content)
            _check_values(number, array, leaf.may_be_infinite)
            if not array.flags.aligned:
                array = array.copy()
            arrays.append(array.astype(leaf.dtype, copy=False).reshape(leaf.shape))
        message: Message = jax.tree.unflatten(self._structure, arrays)
        return message


class Codec:
    """All frames between two peers of one job, made and validated."""

    def __init__(self, job: str, specs: Sequence[MessageSpec]) -> None:
        self.job = job
        self.layouts = tuple(Layout(spec) for spec in specs)
        self._packed: tuple[Message | None, bytes] = None, b""
        """The last message that was packed, and its content."""

    def pack(self, phase: int, message: Message | None) -> bytes:
        """Return the content of a message of one phase; none where nothing is for the receiver."""
        if message is None:
            return b""
        last, content = self._packed
        if last is not message:
            content = self.layouts[phase].pack(message)
            self._packed = message, content
        return content

    def forget(self) -> None:
        """Let go of the last message that was packed."""
        self._packed = None, b""

    def unpack(self, phase: int, content: bytes | np.ndarray) -> Message | None:
        """Return the message of one phase in `content`, or refuse it."""
        return self.layouts[phase].unpack(content)

    def hello(self, at_round: int) -> Hello:
        """Return the first frame of a link."""
        return Hello(VERSION, self.job, at_round, tuple(layout.form for layout in self.layouts))

    def check_hello(self, hello: Hello) -> int:
        """Return the round that a neighbour claims; refuse a hello of another job, version or form."""
        if hello.version != VERSION:
            raise MessageRefused("version", f"version {hello.version}, this peer speaks {VERSION}")
        if hello.job != self.job:
            remedy = "use the same job.toml, version of tacit and --with files: `tacit peer check` shows them"
            raise MessageRefused("job", f"job {printable(hello.job)}, this peer works on {self.job}; {remedy}")
        self._check_forms(hello.forms)
        if hello.round > LAST_ROUND:
            raise MessageRefused("round", f"round {hello.round}, the last is {LAST_ROUND}")
        return hello.round

    def frames(self, parcel: Parcel) -> Iterator[tuple[bytes, memoryview]]:
        """Return all frames of a parcel, each with the content that follows its first bytes, in its place."""
        layout = self.layouts[parcel.phase]
        if len(parcel.content) != layout.size and not (layout.optional and not parcel.content):
            raise ContractError(
                f"a parcel of phase {parcel.phase} with {len(parcel.content)} bytes; this phase sends {layout.size}"
            )
        if layout.masked and not parcel.masks:  # a fault of the caller
            raise PrivacyError(
                f"a parcel of phase {parcel.phase} to {parcel.receiver!r} without masks, of a phase whose messages are "
                "masked; send what `Masker.masked` returns"
            )
        nothing = layout.optional and not parcel.content
        inline = parcel.content if layout.inline else b""
        head = Header(parcel.phase, parcel.round, inline, parcel.masks, nothing).frame()
        if layout.inline or nothing:
            yield head, memoryview(b"")
            return
        for before, part in content_frames(parcel.content):
            yield head + before, part
            head = b""

    def expect(self, header: Header) -> Assembler:
        """Check a header and return the assembler of its content."""
        if header.phase >= len(self.layouts):
            raise MessageRefused("phase", f"phase {header.phase} of {len(self.layouts)}")
        if not 1 <= header.round <= LAST_ROUND:
            raise MessageRefused("round", f"round {header.round}, expected 1 to {LAST_ROUND}")
        layout = self.layouts[header.phase]
        if header.nothing and not layout.optional:
            raise MessageRefused(
                "size", f"nothing in phase {header.phase}, which has {layout.size} bytes for everybody"
            )
        size = 0 if header.nothing else layout.size
        expected = size if layout.inline else 0
        if len(header.content) != expected:
            found = f"{len(header.content)} bytes of content with a header"
            raise MessageRefused("size", f"{found}, expected {expected} in phase {header.phase}")
        if layout.masked != bool(header.masks):
            wanted = "some, one per partner" if layout.masked else "none"
            raise MessageRefused("masks", f"{len(header.masks)} bytes of tags in phase {header.phase}, not {wanted}")
        assembler = Assembler(layout, header.phase, header.round, header.masks, size)
        if header.content:
            assembler.place(len(header.content))[:] = header.content
        return assembler

    def position(self, said: Place) -> Position:
        """Return a neighbour's position, or refuse one that cannot be."""
        if said.round > LAST_ROUND + 1:
            raise MessageRefused("round", f"a position in round {said.round}, the last is {LAST_ROUND + 1}")
        if said.phase > len(self.layouts):
            raise MessageRefused("phase", f"a position in phase {said.phase} of {len(self.layouts)}")
        return Position(said.round, said.phase)

    def _check_forms(self, forms: Sequence[Form]) -> None:
        """Refuse a neighbour whose messages have another form."""
        if len(forms) != len(self.layouts):
            raise MessageRefused("phase", f"{len(forms)} phases, expected {len(self.layouts)}")
        for phase, (form, layout) in enumerate(zip(forms, self.layouts, strict=True)):
            _check_leaves(phase, form, layout)


class Assembler:
    """Collects the content of one message, chunk by chunk, in the memory that its spec asks for."""

    def __init__(self, layout: Layout, phase: int, sent: int, masks: bytes, size: int) -> None:
        """Take the size that is to come: the layout's, or 0 where nothing is for this peer."""
        self.phase, self.sent, self.masks = phase, sent, masks
        self._layout, self._size = layout, size
        # Pages are touched as content comes: a large message that is announced and not sent costs nothing.
        self._buffer = np.empty(size, np.uint8)
        self._view = self._buffer.data
        self._filled = 0

    @property
    def missing(self) -> int:
        """Bytes that have not come yet."""
        return self._size - self._filled

    def place(self, size: int) -> memoryview:
        """Return the memory of the next chunk, to be filled before anything else is asked for."""
        begin, end = self._filled, self._filled + size
        if end > self._size:
            raise MessageRefused("oversized", f"at least {end} bytes of content, expected {self._size}")
        self._filled = end
        return self._view[begin:end]

    def message(self) -> Message | None:
        """Return the complete message, with finite numbers; None: this peer is not called."""
        if self.missing:
            raise MessageRefused("truncated", f"{self._filled} of {self._size} bytes of content")
        return self._layout.unpack(self._buffer)


def _check_leaves(phase: int, form: Form, layout: Layout) -> None:
    if len(form) != len(layout.leaves):
        raise MessageRefused("shape", f"{len(form)} leaves, expected {len(layout.leaves)} in phase {phase}")
    for number, (said, leaf) in enumerate(zip(form, layout.leaves, strict=True)):
        where = f"leaf {number} of phase {phase}"
        if said.dtype != leaf.name:
            expected = f"expected {leaf.name}; give all peers the same dtype"
            raise MessageRefused("dtype", f"{where} is of type {printable(said.dtype)}, {expected}")
        if said.shape != leaf.shape:
            raise MessageRefused(
                "shape", f"{where} is of shape {_sizes(said.shape[:8])}, expected {_sizes(leaf.shape)}"
            )


def _check_values(number: int, array: np.ndarray, may_be_infinite: bool) -> None:
    """Refuse numbers that are not finite, and Booleans other than 0 and 1."""
    if array.dtype == np.bool_:
        if array.size and array.view(np.uint8).max() > 1:
            raise MessageRefused("content", f"leaf {number} of type bool holds bytes other than 0 and 1")
        return
    if not may_be_infinite:
        return
    for begin in range(0, array.size, _FINITE_BLOCK):
        block = np.isfinite(array[begin : begin + _FINITE_BLOCK])
        if not block.all():
            place = begin + int(np.argmin(block))
            raise MessageRefused("finite", f"leaf {number} holds {array[place]} at place {place}")


def _sizes(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "of one number"


def _named(leaves: Sequence[tuple[np.dtype, tuple[int, ...]]]) -> str:
    return ", ".join(f"{dtype.name} {_sizes(shape)}" for dtype, shape in leaves)
