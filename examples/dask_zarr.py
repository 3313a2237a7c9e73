"""Larger than memory: a zarr array to codes in zarr, by Dask; nothing is computed before the codes are written.

pip install ".[dask,zarr]"
python examples/dask_zarr.py vectors.zarr codes.zarr --bits 512

In the end the codes are searched for what is near the first vectors.
"""

import argparse

import dask.array as da

from projbank import HammingIndex, ProjectionBank


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors")
    parser.add_argument("codes")
    parser.add_argument("--bits", type=int, default=512)
    args = parser.parse_args(words)
    X = da.from_zarr(args.vectors)
    bank = ProjectionBank(args.bits).fit(X)  # reads a sample of at most 20,000 rows
    codes = bank.transform(X)  # a Dask array: nothing is read yet
    codes.to_zarr(args.codes)
    bank.save(f"{args.codes}.bank.safetensors")
    print(f"{args.codes}: {codes.shape[0]:,} codes of {codes.shape[1]} bytes, instead of {X.nbytes // len(X):,}")

    index = HammingIndex(da.from_zarr(args.codes).compute(), n_bits=bank.n_bits_)
    distances, ids = index.search(bank.transform(X[:5].compute()), k=4)
    print("row    nearest rows, and the bits in which they differ")
    for row, (own_distances, own_ids) in enumerate(zip(distances, ids, strict=True)):
        print(f"{row:<6}", *(f"{i:>8} ({d})" for i, d in zip(own_ids, own_distances, strict=True)))


if __name__ == "__main__":
    main()
