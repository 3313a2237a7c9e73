"""What can happen to a file: flips, cuts, doubled and moved parts, numbers that lie, other words."""

import re

import numpy as np

NUMBERS = [0, 1, -1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [np.nan, np.inf, -np.inf, 1e308, -0.0, 5e-324]
WORDS = [b"-1", b"0", b"1e999", b"NaN", b"Infinity", b"9" * 30, b"99999999", b"[" * 200, b'"', b"null", b"true", b"{}"]
TYPES = [
    b"F64",
    b"F32",
    b"I64",
    b"I32",
    b"U8",
    b"BOOL",
    b"<f4",
    b"<f8",
    b">f4",
    b"|O",
    b"|u1",
    b"<i8",
    b"|S9",
    b"<c8",
    b"<M8",
]
HEAD = 512


def mutate(content, rng):
    """Return changed bytes, by one to four changes."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if data:
            data = CHANGES[rng.integers(len(CHANGES))](data, rng)
    return bytes(data)


def _place(data, rng):
    """A place in the file, half of the time in its first or last part, where formats keep what matters."""
    where, size = rng.integers(4), len(data)
    if where == 0:
        return int(rng.integers(min(HEAD, size)))
    if where == 1:
        return int(size - 1 - rng.integers(min(HEAD, size)))
    return int(rng.integers(size))


def flip_bit(data, rng):
    data[_place(data, rng)] ^= 1 << rng.integers(8)
    return data


def flip_bits(data, rng):
    for _ in range(rng.integers(2, 40)):
        data[_place(data, rng)] ^= 1 << rng.integers(8)
    return data


def set_bytes(data, rng):
    start, length = _place(data, rng), int(rng.integers(1, 64))
    stop = min(len(data), start + length)
    data[start:stop] = [b"\0", b"\xff", b" ", b"A"][rng.integers(4)] * (stop - start)
    return data


def random_bytes(data, rng):
    start, length = _place(data, rng), int(rng.integers(1, 64))
    stop = min(len(data), start + length)
    data[start:stop] = rng.bytes(stop - start)
    return data


def cut_end(data, rng):
    return data[: _place(data, rng)]


def cut_middle(data, rng):
    start = _place(data, rng)
    del data[start : start + int(rng.integers(1, 1 + len(data) // 2 + 1))]
    return data


def lengthen(data, rng):
    return data + bytearray(rng.bytes(int(rng.integers(1, 5000))))


def double(data, rng):
    start = _place(data, rng)
    part = data[start : start + int(rng.integers(1, 2000))]
    return data[:start] + part + data[start:]


def overlap(data, rng):
    """Copy one part over another."""
    source, target, length = _place(data, rng), _place(data, rng), int(rng.integers(1, 500))
    part = data[source : source + min(length, len(data) - target)]
    data[target : target + len(part)] = part
    return data


def whole_number(data, rng):
    """Write an extreme whole number of 1 to 8 bytes over what is there."""
    width = int(rng.choice([1, 2, 4, 8]))
    number = NUMBERS[rng.integers(len(NUMBERS))] % 256**width
    start = _place(data, rng) // width * width
    data[start : start + width] = number.to_bytes(width, rng.choice(["little", "big"]))[: len(data) - start]
    return data


def float_number(data, rng):
    value = FLOATS[rng.integers(len(FLOATS))]
    with np.errstate(over="ignore"):
        text = np.asarray(value, rng.choice(["<f4", "<f8"])).tobytes()
    start = _place(data, rng) // len(text) * len(text)
    data[start : start + len(text)] = text[: len(data) - start]
    return data


def written_number(data, rng):
    """Replace a number that is written in digits: a length, a shape, an offset."""
    return _replace(data, rng, rb"-?\d+", [*WORDS, *(str(number).encode() for number in NUMBERS)])


def type_name(data, rng):
    return _replace(data, rng, rb"F64|F32|I64|I32|U8|BOOL|[<>|=][fiub][1248]", TYPES)


def word(data, rng):
    """Replace a word in quotes by another word of the file, or by one that means nothing."""
    words = re.findall(rb"['\"]([a-zA-Z_.]{2,40})['\"]", bytes(data[: 1 << 16]))
    if not words:
        return flip_bit(data, rng)
    return _replace(
        data, rng, rb"(?<=['\"])[a-zA-Z_.]{2,40}(?=['\"])", [*words, b"", b"x" * 3000, b"../../x", b"\xff\xfe"]
    )


def _replace(data, rng, pattern, choices):
    found = list(re.finditer(pattern, bytes(data[: 1 << 16])))
    if not found:
        return flip_bit(data, rng)
    match = found[rng.integers(len(found))]
    new = choices[rng.integers(len(choices))]
    if rng.integers(2):  # keep the length, so that what follows stays in its place
        new = new[: len(match[0])].rjust(len(match[0]))
    return data[: match.start()] + new + data[match.end() :]


CHANGES = [
    flip_bit,
    flip_bits,
    set_bytes,
    random_bytes,
    cut_end,
    cut_middle,
    lengthen,
    double,
    overlap,
    whole_number,
    float_number,
    written_number,
    type_name,
    word,
]


def lie(arrays, params, rng):
    """Change arrays and parameters of a model in place, so that its file is whole and its content is not."""
    names = sorted(name for name in arrays if arrays[name].dtype.kind in "fiub")
    for _ in range(rng.choice([1, 1, 2])):
        if params and rng.integers(4) == 0:
            name = sorted(params)[rng.integers(len(params))]
            params[name] = _odd_value(rng)
            continue
        name = names[rng.integers(len(names))]
        if name not in arrays:
            continue
        choice = rng.integers(6)
        if choice == 0:
            del arrays[name]
        elif choice == 1:
            arrays[name] = _other_shape(arrays[name], rng)
        elif choice == 2:
            with np.errstate(all="ignore"):
                arrays[name] = arrays[name].astype(rng.choice(["f4", "f8", "i4", "i8", "u1", "?", "f2"]))
        else:
            arrays[name] = _odd_numbers(arrays[name], rng)


def _odd_value(rng):
    values = [-1, 0, 2, 10**9, 2**63, 2**200, 1e308, -0.5, "", "magic", "auto", None, True, [], {}, "x" * 5000, [[1]]]
    return values[rng.integers(len(values))]


def _other_shape(array, rng):
    choice = rng.integers(5)
    if choice == 0:
        return array[:-1] if array.ndim else array
    if choice == 1:
        return array.reshape(-1)
    if choice == 2:
        return array[None]
    if choice == 3:
        return np.zeros((0, *array.shape[1:]), array.dtype)
    return np.concatenate([array.reshape(-1)] * 2) if array.ndim < 2 else array.T


def _odd_numbers(array, rng):
    array = array.copy()
    if not array.size:
        return array
    flat = array.reshape(-1)
    places = rng.integers(flat.size, size=int(rng.choice([1, 3, flat.size])))
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f":
            flat[places] = FLOATS[rng.integers(len(FLOATS))]
        elif array.dtype.kind in "iu":
            info = np.iinfo(array.dtype)
            choices = [info.min, info.max, 0, 1, flat.size, flat.size + 1, info.max // 2 + 1, 2**31 - 1]
            flat[places] = np.clip(choices[rng.integers(len(choices))], info.min, info.max)
        else:
            flat[places] = ~flat[places]
    return array
