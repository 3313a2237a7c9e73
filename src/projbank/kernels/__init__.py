"""The few Numba loops that everything stands on; each has its slow twin in the tests."""
