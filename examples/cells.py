"""Single cells: clusters and a map of all genes by binary codes, in scanpy's own pipeline.

    pip install ".[anndata]" scanpy igraph
    python examples/cells.py cells.h5ad --out coded.h5ad

Counts are normalised here, as scanpy does it. The neighbour graph comes from codes of 512 bits of all genes: no choice
of genes, no principal components.
"""

import argparse

import scanpy as sc

from projbank import HammingNeighbors


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells")
    parser.add_argument("--out", required=True)
    parser.add_argument("--bits", type=int, default=512)
    args = parser.parse_args(words)
    adata = sc.read_h5ad(args.cells)
    sc.pp.normalize_total(adata, target_sum=1e4)
    sc.pp.log1p(adata)
    finder = HammingNeighbors(n_neighbors=15, n_bits=args.bits, rerank=False)
    sc.pp.neighbors(adata, use_rep="X", transformer=finder)
    sc.tl.leiden(adata, flavor="igraph", n_iterations=2)
    sc.tl.umap(adata)
    adata.obsm["X_projbank"] = finder.bank_.transform(adata.X)
    adata.write_h5ad(args.out)
    finder.bank_.save(f"{args.out}.bank.safetensors")
    print(f"{args.out}: {adata.n_obs} cells in {adata.obs['leiden'].nunique()} clusters")


if __name__ == "__main__":
    main()
