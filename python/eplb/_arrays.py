# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""Lists, NumPy arrays and torch tensors in and out. Neither NumPy nor torch is needed."""

import ctypes
import operator
import sys

try:
    import numpy
except ImportError:
    numpy = None

TYPES = {ctypes.c_int32: "int32", ctypes.c_int64: "int64", ctypes.c_float: "float32"}


class Array:
    """Values in a row, as the library reads and writes them."""

    def __init__(self, ctype, shape, values=None, owner=None, like="list"):
        self.ctype = ctype
        self.shape = tuple(shape)
        self.owner = owner  # what the values belong to, kept alive
        self.like = like  # "torch" when the caller came with a tensor
        self.values = (ctype * count(shape))() if values is None else values

    @property
    def pointer(self):
        return ctypes.cast(self.values, ctypes.POINTER(self.ctype))

    def give(self, like):
        """As the caller has it: a torch tensor, else a NumPy array where there is NumPy, else lists."""
        if like == "torch":
            torch = sys.modules["torch"]
            return torch.frombuffer(self.values, dtype=getattr(torch, TYPES[self.ctype])).reshape(self.shape)
        if numpy is not None:
            return numpy.frombuffer(self.values, dtype=TYPES[self.ctype]).reshape(self.shape)
        return _nest(list(self.values), self.shape)


def count(shape):
    product = 1
    for size in shape:
        product *= size
    return product


def _nest(flat, shape):
    for size in reversed(shape[1:]):
        flat = [flat[i:i + size] for i in range(0, len(flat), size)]
    return flat


def _is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _from_torch(value, ctype, name):
    torch = sys.modules["torch"]
    if ctype is not ctypes.c_float and (value.is_floating_point() or value.dtype == torch.bool):
        raise ValueError("%s holds %s; whole numbers are expected" % (name, value.dtype))
    tensor = value.detach().to(device="cpu", dtype=getattr(torch, TYPES[ctype])).contiguous()
    values = (ctype * tensor.numel()).from_address(tensor.data_ptr()) if tensor.numel() else (ctype * 0)()
    return Array(ctype, value.shape, values, tensor, "torch")


def _from_numpy(value, ctype, name):
    if value.dtype.kind not in ("iuf" if ctype is ctypes.c_float else "iu"):
        raise ValueError("%s holds %s; %snumbers are expected"
                         % (name, value.dtype, "" if ctype is ctypes.c_float else "whole "))
    if ctype is not ctypes.c_float and value.size:
        limit = numpy.iinfo(TYPES[ctype])
        if int(value.min()) < limit.min or int(value.max()) > limit.max:
            raise ValueError("%s holds a number beyond %s" % (name, TYPES[ctype]))
    # Overflow makes infinities, which the library refuses by name.
    with numpy.errstate(over="ignore"):
        array = numpy.ascontiguousarray(value, dtype=TYPES[ctype])
    values = (ctype * array.size).from_address(array.ctypes.data) if array.size else (ctype * 0)()
    return Array(ctype, value.shape, values, array)


def _check(shape, dimensions, name):
    if len(shape) != dimensions or 0 in shape:
        raise ValueError("%s has the shape %s; %d dimensions, none of them 0, are expected"
                         % (name, list(shape), dimensions))


def sizes(value):
    """The shape of what the caller has; of nested lists, by the first of each."""
    if hasattr(value, "shape"):
        return tuple(value.shape)
    shape = []
    while hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _flatten(value, shape, flat, name):
    length = len(value) if hasattr(value, "__len__") else 1
    if length != shape[0]:
        raise ValueError("%s has rows of %d and of %d; one length is expected" % (name, shape[0], length))
    if len(shape) == 1:
        flat.extend(value)
        return
    for row in value:
        _flatten(row, shape[1:], flat, name)


def _from_lists(value, ctype, dimensions, name):
    shape = sizes(value)
    _check(shape, dimensions, name)
    flat = []
    _flatten(value, shape, flat, name)
    try:
        flat = [float(one) if ctype is ctypes.c_float else operator.index(one) for one in flat]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError("%s: %s; %snumbers in rows of one length are expected"
                         % (name, error, "" if ctype is ctypes.c_float else "whole ")) from None
    if ctype is not ctypes.c_float:
        limit = 1 << (8 * ctypes.sizeof(ctype) - 1)
        if any(not -limit <= one < limit for one in flat):
            raise ValueError("%s holds a number beyond %s" % (name, TYPES[ctype]))
    return Array(ctype, shape, (ctype * len(flat))(*flat))


def read(value, ctype, dimensions, name, shape=None):
    """Takes what the caller has; `shape`, where given, is the one expected."""
    if isinstance(value, Array):
        array = value
    elif _is_torch(value):
        array = _from_torch(value, ctype, name)
    elif numpy is not None and isinstance(value, numpy.ndarray):
        array = _from_numpy(value, ctype, name)
    else:
        array = _from_lists(value, ctype, dimensions, name)
    _check(array.shape, dimensions, name)
    if shape is not None and array.shape != tuple(shape):
        raise ValueError("%s has the shape %s; %s is expected" % (name, list(array.shape), list(shape)))
    return array


def whole(value, name):
    """A size: a whole number that fits 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError("%s is %r; a whole number is expected" % (name, value)) from None
    if not -1 << 63 <= number < 1 << 63:
        raise ValueError("%s is %d, which is beyond int64" % (name, number))
    return number
