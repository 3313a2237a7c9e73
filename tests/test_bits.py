import numpy as np
import pytest

from projbank.bits import check_codes, clear_padding, code_bytes, pack, unpack


@pytest.mark.parametrize("n_bits", [1, 7, 8, 9, 64, 1001])
def test_bit_p_stands_in_byte_p_div_8_at_position_p_mod_8(n_bits):
    bits = np.random.default_rng(n_bits).random((5, n_bits)) > 0.5
    codes = pack(bits)
    assert codes.shape == (5, code_bytes(n_bits))
    for p in range(n_bits):
        np.testing.assert_array_equal((codes[:, p // 8] >> (p % 8)) & 1, bits[:, p])
    np.testing.assert_array_equal(unpack(codes, n_bits), bits)


def test_stray_padding_bits_are_cleared_in_a_copy():
    codes = np.full((3, 2), 255, np.uint8)
    codes.flags.writeable = False
    np.testing.assert_array_equal(clear_padding(codes, 11), [[255, 7]] * 3)
    assert clear_padding(codes, 16) is codes
    clean = pack(np.ones((3, 11), bool))
    assert clear_padding(clean, 11) is clean


@pytest.mark.parametrize(
    ("codes", "error", "words"),
    [
        (np.zeros((2, 3), np.float32), TypeError, "dtype float32"),
        (np.zeros(3, np.uint8), ValueError, "Got 1-D"),
        (np.zeros((2, 0), np.uint8), ValueError, "at least 1 byte"),
        (np.zeros((2, 3), np.uint8), ValueError, "2 bytes per code, as 9 bits need. Got 3 bytes"),
    ],
)
def test_what_is_not_a_code_is_named(codes, error, words):
    with pytest.raises(error, match="queries") as caught:
        check_codes(codes, 9, name="queries")
    assert words in str(caught.value)
