"""Arrow columns of texts as arrays, without a Python object for each."""

import numpy as np
import pyarrow as pa

from drpn.dataset.arrays import Strings


def strings(values: pa.ChunkedArray, *, padding: bool = False) -> Strings:
    """The texts by row, null as the empty text; `padding` puts the empty row 0 in front."""
    array = pa.chunked_array(values).cast(pa.large_string()).combine_chunks().fill_null("")
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], pa.large_string())
    if not len(array):
        return Strings.of([""] if padding else [])
    _, places, data = array.buffers()
    ends = np.frombuffer(places, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    texts = np.frombuffer(data or b"", dtype=np.uint8)[ends[0] : ends[-1]]
    offsets = ends - ends[0]
    return Strings(np.concatenate([[0], offsets]) if padding else offsets, texts)
