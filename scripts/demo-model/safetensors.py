"""Reads and writes the safetensors format by hand, because Debian has no package for it.

A file is an 8-byte little-endian header length, a JSON header, then the tensors' bytes one after
the other (https://github.com/huggingface/safetensors#format).
"""

import json
import struct
from pathlib import Path

import numpy as np

_NAMES = {np.dtype("<f8"): "F64", np.dtype("<f4"): "F32", np.dtype("<i8"): "I64"}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}
_HEADER_BYTES_MAX = 100_000_000  # The limit that the reference reader has.


def _header(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)  # The data starts at a multiple of 8.


def save(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> int:
    """Writes `tensors` to `path` and returns the number of bytes of tensor data."""
    header = _header(tensors, metadata or {})
    total = 0
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)))
        file.write(header)
        for name in sorted(tensors):
            file.write(np.ascontiguousarray(tensors[name]).tobytes())
            total += tensors[name].nbytes
    return total


def read_header(path: Path) -> tuple[dict, int]:
    """Returns the header of `path` and the offset at which its data starts."""
    with open(path, "rb") as file:
        start = file.read(8)
        if len(start) < 8:
            raise ValueError(f"{path}: {len(start)} bytes; a safetensors file has at least 8")
        (length,) = struct.unpack("<Q", start)
        if length > _HEADER_BYTES_MAX:
            raise ValueError(f"{path}: header length is {length}; at most {_HEADER_BYTES_MAX}")
        header = json.loads(file.read(length))
    return header, 8 + length


def load(path: Path) -> dict[str, np.ndarray]:
    """Reads all tensors of `path`; a file of another size than its header says is refused."""
    header, start = read_header(path)
    header.pop("__metadata__", None)
    data = Path(path).read_bytes()
    end = start + max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if len(data) != end:
        raise ValueError(f"{path}: {len(data)} bytes; its header asks for {end}")
    tensors = {}
    for name, entry in header.items():
        begin, stop = entry["data_offsets"]
        flat = np.frombuffer(data[start + begin : start + stop], dtype=_TYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).copy()
    return tensors
