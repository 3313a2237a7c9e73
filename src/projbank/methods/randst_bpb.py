"""RandST+BPB: BPB on random subspaces instead of those of k-means."""

from __future__ import annotations

from projbank.methods.bpb import BPB


class RandomBPB(BPB):
    """`ProjectionBank(solver="paper", grouping="random")`; parameters and attributes as there."""

    _grouping = "random"
