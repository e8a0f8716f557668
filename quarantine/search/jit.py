"""How kernels are compiled: without the GIL, cached on disk where a disk can be written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CellType, FunctionType
from typing import Any, TypeVar, cast

import numba
from numba.core import cgutils
from numba.core.options import DefaultOptions
from numba.core.types import uint64
from numba.extending import intrinsic
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
UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
"""By this option, not a public one of numba, code counts no references; without it, it does."""


def kernel(function: Function) -> Function:
    """Return `function` compiled at its first call, its machine code cached beside the module.

    numba looks for a writable cache in `NUMBA_CACHE_DIR`, `__pycache__` and the user's cache
    directory; where there is none, the code is compiled anew in each process.

    The kernel can make no array. Those that it is given belong to its caller, so it counts no
    references to them: counting took an eighth of the time of a pass over the text.
    """
    return _compiled(function, **UNCOUNTED)


def making_kernel(function: Function) -> Function:
    """Return `function` compiled like a `kernel`, but able to make arrays."""
    return _compiled(function)


def _compiled(function: Function, **options: bool) -> Function:
    keyed = _keyed(cast("FunctionType", function))
    try:
        compiled = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(keyed)
    except RuntimeError:
        compiled = numba.njit(nogil=True, error_model="numpy", **options)(keyed)
    return cast("Function", compiled)


def _keyed(function: FunctionType) -> FunctionType:
    """Return `function` with the digest of all kernels as a closure variable that it never reads.

    numba looks a function up in its cache by its own file and closure alone, so a change in a
    kernel that it calls would go unseen.
    """
    code = function.__code__.replace(co_freevars=("kernel_sources",))
    keyed = FunctionType(
        code, function.__globals__, function.__name__, None, (CellType(_sources()),)
    )
    keyed.__doc__ = function.__doc__
    keyed.__module__ = function.__module__
    keyed.__qualname__ = function.__qualname__
    return keyed


@cache
def _sources() -> str:
    digest = hashlib.sha256()
    for path in (Path(__file__), *sorted(Path(__file__).parent.glob("kernels*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _load64(context: Any, data: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.gep_inbounds(builder, array.data, arguments[1])
        word = context.get_value_type(uint64)
        return builder.load(builder.bitcast(place, word.as_pointer()), align=1)

    return uint64(data, uint64), generate


def _trailing_zeros(context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.true_bit)

    return uint64(uint64), generate


load64 = intrinsic(_load64)
"""The eight bytes of uint8[N] from place `i` on as uint64, little-endian, unaligned; i + 8 <= N."""
trailing_zeros = intrinsic(_trailing_zeros)
"""How many zero bits are below the lowest set bit of a uint64 other than 0."""
