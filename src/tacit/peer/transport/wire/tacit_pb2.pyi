from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("hello", "welcome", "header", "content", "receipt", "progress", "letter")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LETTER_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    welcome: Welcome
    header: Header
    content: bytes
    receipt: Receipt
    progress: Progress
    letter: Letter
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., header: _Optional[_Union[Header, _Mapping]] = ..., content: _Optional[bytes] = ..., receipt: _Optional[_Union[Receipt, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., letter: _Optional[_Union[Letter, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version", "job", "round", "forms")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    FORMS_FIELD_NUMBER: _ClassVar[int]
    version: int
    job: str
    round: int
    forms: _containers.RepeatedCompositeFieldContainer[Form]
    def __init__(self, version: _Optional[int] = ..., job: _Optional[str] = ..., round: _Optional[int] = ..., forms: _Optional[_Iterable[_Union[Form, _Mapping]]] = ...) -> None: ...

class Form(_message.Message):
    __slots__ = ("leaves",)
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    leaves: _containers.RepeatedCompositeFieldContainer[Leaf]
    def __init__(self, leaves: _Optional[_Iterable[_Union[Leaf, _Mapping]]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("round", "phase")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    round: int
    phase: int
    def __init__(self, round: _Optional[int] = ..., phase: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("round", "phase")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    round: int
    phase: int
    def __init__(self, round: _Optional[int] = ..., phase: _Optional[int] = ...) -> None: ...

class Leaf(_message.Message):
    __slots__ = ("dtype", "shape")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("phase", "round", "content", "masks", "nothing")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    MASKS_FIELD_NUMBER: _ClassVar[int]
    NOTHING_FIELD_NUMBER: _ClassVar[int]
    phase: int
    round: int
    content: bytes
    masks: bytes
    nothing: bool
    def __init__(self, phase: _Optional[int] = ..., round: _Optional[int] = ..., content: _Optional[bytes] = ..., masks: _Optional[bytes] = ..., nothing: _Optional[bool] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("phase", "round", "accepted", "reason", "detail")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    phase: int
    round: int
    accepted: bool
    reason: str
    detail: str
    def __init__(self, phase: _Optional[int] = ..., round: _Optional[int] = ..., accepted: _Optional[bool] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class Letter(_message.Message):
    __slots__ = ("correspondent", "payload")
    CORRESPONDENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    correspondent: str
    payload: bytes
    def __init__(self, correspondent: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...
