"""How kernels are compiled: without the GIL, cached on disk where a disk can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numpy.typing import NDArray

Number = Any
"""A machine number within a kernel; numba infers its type."""

# Arrays within a kernel; the name says the type that callers pass.
UInt8s = NDArray[Any]
UInt16s = NDArray[Any]
UInt32s = NDArray[Any]
UInt64s = NDArray[Any]
Int32s = NDArray[Any]
Int64s = NDArray[Any]
Float32s = NDArray[Any]

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Return `function` compiled at its first call, its machine code cached beside the module.

    numba looks for a writable cache in `NUMBA_CACHE_DIR`, `__pycache__` and the user's cache
    directory; where there is none, the code is compiled anew in each process.
    """
    try:
        compiled = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return cast("Function", compiled)
