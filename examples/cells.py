"""Single cells: clusters and a map of all genes by binary codes, in scanpy's own pipeline.

    pip install ".[anndata]" scanpy igraph
    python examples/cells.py cells.h5ad --out coded.h5ad --picture cells.png --color cell_type

Counts are normalised here, as scanpy does it. The neighbour graph comes from codes of 512 bits of all genes: no choice
of genes, and principal components only of some cells, to learn the codes.
"""

import argparse

import scanpy as sc

from projbank import HammingNeighbors


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells")
    parser.add_argument("--out", required=True)
    parser.add_argument("--bits", type=int, default=512)
    parser.add_argument("--picture", help="draw the map, coloured by clusters and by --color")
    parser.add_argument("--color", help="column of obs")
    args = parser.parse_args(words)
    adata = sc.read_h5ad(args.cells)
    sc.pp.normalize_total(adata, target_sum=1e4)
    sc.pp.log1p(adata)
    finder = HammingNeighbors(n_neighbors=15, n_bits=args.bits, rerank=False)
    sc.pp.neighbors(adata, use_rep="X", transformer=finder)
    sc.tl.leiden(adata, flavor="igraph", n_iterations=2)
    sc.tl.umap(adata)
    if args.picture:
        colors = ["leiden"] + [args.color] * (args.color is not None)
        style = {"legend_loc": "on data", "legend_fontsize": 7, "legend_fontoutline": 1}
        figure = sc.pl.umap(adata, color=colors, show=False, return_fig=True, **style)
        figure.savefig(args.picture, bbox_inches="tight", dpi=90)
    adata.obsm["X_projbank"] = finder.bank_.transform(adata.X)
    adata.write_h5ad(args.out)
    finder.bank_.save(f"{args.out}.bank.safetensors")
    print(f"{args.out}: {adata.n_obs} cells in {adata.obs['leiden'].nunique()} clusters")


if __name__ == "__main__":
    main()
