"""Tests of the safetensors writer and reader."""

import json
import struct

import numpy as np
import safetensors
from support import FolderTest


class SafetensorsTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.path = self.folder / "model.safetensors"

    def test_what_is_written_is_read_back(self) -> None:
        tensors = {
            "b": np.arange(6, dtype=np.float32).reshape(2, 3),
            "a": np.array([1.5, -2.5]),
            "empty": np.zeros((0, 4), np.float32),
        }
        safetensors.save(self.path, tensors)
        loaded = safetensors.load(self.path)
        self.assertEqual(sorted(loaded), sorted(tensors))
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(loaded[name], tensor)
            self.assertEqual(loaded[name].dtype, tensor.dtype)

    def test_a_transposed_tensor_is_written_in_its_own_order(self) -> None:
        tensor = np.arange(6, dtype=np.float32).reshape(2, 3).T
        safetensors.save(self.path, {"t": tensor})
        np.testing.assert_array_equal(safetensors.load(self.path)["t"], tensor)

    def test_the_file_is_exactly_as_the_format_says(self) -> None:
        one = np.array([[1.0, 2.0]], np.float32)
        two = np.array([3], np.int64)
        total = safetensors.save(self.path, {"w": one, "n": two}, {"format": "np"})
        data = self.path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        self.assertEqual(length % 8, 0)
        self.assertEqual(
            header,
            {
                "__metadata__": {"format": "np"},
                "n": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
                "w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [8, 16]},
            },
        )
        self.assertEqual(data[8 + length :], two.tobytes() + one.tobytes())
        self.assertEqual(total, 16)

    def test_a_cut_file_is_refused(self) -> None:
        safetensors.save(self.path, {"w": np.ones(4, np.float32)})
        self.path.write_bytes(self.path.read_bytes()[:-1])
        with self.assertRaisesRegex(ValueError, "its header asks for"):
            safetensors.load(self.path)

    def test_an_empty_file_is_refused(self) -> None:
        self.path.touch()
        with self.assertRaisesRegex(ValueError, "0 bytes"):
            safetensors.load(self.path)

    def test_a_header_length_beyond_reason_is_refused(self) -> None:
        self.path.write_bytes(struct.pack("<Q", 1 << 60))
        with self.assertRaisesRegex(ValueError, "header length"):
            safetensors.load(self.path)
