"""Functions of the Cyclone DDS C library that its Python binding lacks, or calls with the interpreter locked.

``ctypes`` releases the interpreter lock: a writer that waits for a slow reader only stops its own thread. Sending and
receiving raw bytes needs functions without a stable interface, so the version is checked. If a function is missing, the
slower public functions of the binding are used.
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
"""Mask of conditions that match samples in any state."""
QOS_CONVERSION = threading.Lock()
"""Lock for the binding's conversions of quality of service. The binding uses buffers that all threads of a process
share, so two concurrent conversions cause a segmentation fault.
"""

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
    """Sample for the binding's topics: the bytes to send."""

    _fields_ = (("data", _POINTER), ("size", ctypes.c_size_t))


def why_not_raw() -> str | None:
    """Return why raw bytes cannot be sent and received, or None if they can."""
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
    """Call a function that returns a handle or count, or a negative error code.

    Raises:
        DDSException: if the function fails.
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
    """Return the number that identifies an entity in the ``publication_handle`` of samples."""
    handle = ctypes.c_uint64()
    call("dds_get_instance_handle", entity, ctypes.byref(handle))
    return handle.value


def guid(entity: int) -> bytes:
    """Return the identity of an entity in discovery (16 bytes)."""
    value = dds_c_t.guid()
    call("dds_get_guid", entity, ctypes.byref(value))
    return bytes(value.v)


class Taker:
    """Receiver of the bytes of a reader's samples, a few at a time; not thread-safe.

    Args:
        reader: handle of the reader.
    """

    BATCH = 16

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._samples = (ctypes.c_void_p * self.BATCH)()
        self._infos = (dds_c_t.sample_info * self.BATCH)()

    def take(self) -> list[tuple[memoryview, int]]:
        """Return the CDR bytes of up to ``BATCH`` samples, each with its writer's handle."""
        count = call("dds_takecdr", self._reader, self._samples, self.BATCH, self._infos, ANY_SAMPLE)
        batch = []
        for sample, info in zip(self._samples[:count], self._infos[:count], strict=True):
            if info.valid_data:
                data = np.empty(_LIBRARY.ddsi_serdata_size(sample), np.uint8)
                _LIBRARY.ddsi_serdata_to_ser(sample, 0, data.size, data.ctypes.data)
                batch.append((data.data, info.publication_handle))
            _LIBRARY.ddsi_serdata_unref(sample)
        return batch
