"""Calls of the Cyclone DDS C library that its Python binding lacks or makes while it holds the interpreter.

``ctypes`` lets other threads of the interpreter run meanwhile: a writer that waits for a slow reader stops its own
thread alone. Sending and receiving bytes as they are needs functions that are no promised interface, so the version is
checked; where anything is missing the binding's public reading and writing is used, which is slower.
"""

import ctypes
import importlib.metadata
import threading
from typing import Any

import numpy as np
from cyclonedds.core import DDSException
from cyclonedds.internal import DDS, dds_c_t

TESTED_VERSION = "11.0.1"
INFINITY_NS = 2**63 - 1
ANY_SAMPLE = 127
"""Mask of conditions: samples in any state."""
QOS_CONVERSION = threading.Lock()
"""Held where the binding converts quality of service, which it does in buffers that all threads of a process share: two
at once end in a segmentation fault."""

_LIBRARY: Any = DDS._dll_handle
_RAW_FUNCTIONS = ("dds_takecdr", "ddsi_serdata_size", "ddsi_serdata_to_ser", "ddsi_serdata_unref")

_HANDLE = ctypes.c_int32
_POINTER = ctypes.c_void_p


def _declare(name: str, result: Any, *arguments: Any) -> None:
    function = getattr(_LIBRARY, name)
    function.restype = result
    function.argtypes = arguments


_declare("dds_delete", _HANDLE, _HANDLE)
_declare("dds_create_waitset", _HANDLE, _HANDLE)
_declare("dds_waitset_attach", _HANDLE, _HANDLE, _HANDLE, ctypes.c_ssize_t)
_declare("dds_waitset_detach", _HANDLE, _HANDLE, _HANDLE)
_declare("dds_waitset_wait", _HANDLE, _HANDLE, ctypes.POINTER(ctypes.c_ssize_t), ctypes.c_size_t, ctypes.c_int64)
_declare("dds_create_guardcondition", _HANDLE, _HANDLE)
_declare("dds_set_guardcondition", _HANDLE, _HANDLE, ctypes.c_bool)
_declare("dds_create_readcondition", _HANDLE, _HANDLE, ctypes.c_uint32)
_declare("dds_get_matched_subscriptions", _HANDLE, _HANDLE, _POINTER, ctypes.c_size_t)
_declare("dds_get_matched_publications", _HANDLE, _HANDLE, _POINTER, ctypes.c_size_t)
_declare("dds_get_instance_handle", _HANDLE, _HANDLE, ctypes.POINTER(ctypes.c_uint64))
_declare("dds_get_guid", _HANDLE, _HANDLE, ctypes.POINTER(dds_c_t.guid))
_declare("dds_wait_for_acks", _HANDLE, _HANDLE, ctypes.c_int64)
_declare("dds_write", _HANDLE, _HANDLE, _POINTER)


class _Sample(ctypes.Structure):
    """A sample for the binding's topics: the bytes that are sent."""

    _fields_ = (("data", _POINTER), ("size", ctypes.c_size_t))


def why_not_raw() -> str | None:
    """Return why bytes cannot be sent and received as they are, or None where they can."""
    version = importlib.metadata.version("cyclonedds")
    if version != TESTED_VERSION:
        return f"cyclonedds {version} is installed, {TESTED_VERSION} was tested"
    missing = [name for name in _RAW_FUNCTIONS if not hasattr(_LIBRARY, name)]
    return f"the library of cyclonedds {version} lacks {', '.join(missing)}" if missing else None


RAW = why_not_raw() is None
if RAW:
    _declare("dds_takecdr", _HANDLE, _HANDLE, _POINTER, ctypes.c_uint32, _POINTER, ctypes.c_uint32)
    _declare("ddsi_serdata_size", ctypes.c_uint32, _POINTER)
    _declare("ddsi_serdata_to_ser", None, _POINTER, ctypes.c_size_t, ctypes.c_size_t, _POINTER)
    _declare("ddsi_serdata_unref", None, _POINTER)


def call(name: str, *arguments: Any) -> int:
    """Call a function that returns a handle or count, or an error below 0.

    Raises:
        DDSException: if it failed.
    """
    result: int = getattr(_LIBRARY, name)(*arguments)
    if result < 0:
        raise DDSException(result, f"in {name}")
    return result


def write(writer: int, data: bytearray) -> None:
    """Write one sample of CDR bytes."""
    size = len(data)
    sample = _Sample(ctypes.addressof((ctypes.c_char * size).from_buffer(data)), size)
    call("dds_write", writer, ctypes.byref(sample))


def instance_handle(entity: int) -> int:
    """Return what identifies an entity to others in samples' ``publication_handle``."""
    handle = ctypes.c_uint64()
    call("dds_get_instance_handle", entity, ctypes.byref(handle))
    return handle.value


def guid(entity: int) -> bytes:
    """Return an entity's 16 bytes in discovery."""
    value = dds_c_t.guid()
    call("dds_get_guid", entity, ctypes.byref(value))
    return bytes(value.v)


class Taker:
    """Takes samples' bytes out of a reader, a few at a time. For one thread.

    Args:
        reader: handle.
    """

    BATCH = 16

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._samples = (ctypes.c_void_p * self.BATCH)()
        self._infos = (dds_c_t.sample_info * self.BATCH)()

    def take(self) -> list[tuple[memoryview, int]]:
        """Return the CDR bytes of up to ``BATCH`` samples, each with the handle of its writer."""
        count = call("dds_takecdr", self._reader, self._samples, self.BATCH, self._infos, ANY_SAMPLE)
        taken = []
        for sample, info in zip(self._samples[:count], self._infos[:count], strict=True):
            if info.valid_data:
                data = np.empty(_LIBRARY.ddsi_serdata_size(sample), np.uint8)
                _LIBRARY.ddsi_serdata_to_ser(sample, 0, data.size, data.ctypes.data)
                taken.append((data.data, info.publication_handle))
            _LIBRARY.ddsi_serdata_unref(sample)
        return taken
