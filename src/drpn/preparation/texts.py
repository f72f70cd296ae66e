"""Convert Arrow text columns to arrays without creating Python strings."""

import numpy as np
import pyarrow as pa

from drpn.dataset.arrays import Strings


def strings(values: pa.Array | pa.ChunkedArray, *, padding: bool = False) -> Strings:
    """The texts by row, null as the empty text; `padding` inserts an empty row 0."""
    chunks = [values] if isinstance(values, pa.Array) else values
    array = pa.chunked_array(chunks).cast(pa.large_string()).combine_chunks().fill_null("")
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], pa.large_string())
    if not len(array):
        return Strings.of([""] if padding else [])
    _, offset_buffer, data_buffer = array.buffers()
    bounds = np.frombuffer(offset_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)[bounds[0] : bounds[-1]]
    offsets = bounds - bounds[0]
    return Strings(np.concatenate([[0], offsets]) if padding else offsets, data)
